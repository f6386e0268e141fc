"""One entry of the ledger, and the document that holds them all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson

from webhook.kube import quantity
from webhook.kube.facts import Fact
from webhook.kube.reservation import Reservation
from webhook.sources.source import PendingWrite


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it was just read: its fact, and metadata.resourceVersion and uid."""

    fact: Fact
    version: str
    uid: str


Live = Mapping[str, Mapping[str, Stored]]
"""All objects of some kinds, by kind and name."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What one write was promised, and how to see that it needs the promise no more.

    `version` and `created` are those of PendingWrite. `expires` is in seconds since 1970.
    """

    reservation: Reservation
    version: str
    created: str
    expires: int

    def over(self, now: float, live: Live) -> bool:
        """Whether it need not be counted any longer.

        The API server stores a write only on top of the version that it was judged at: kube-apiserver runs admission
        inside its update loop, so once the object has another version, the write is among what is stored or will be
        judged again under another uid. A version never comes back. A CREATE is conditional on there being no object,
        which can come back: only the object that it made itself shows that it is done.
        """
        if self.expires <= now:
            return True
        objects = live.get(self.reservation.kind)
        if objects is None:
            return False
        found = objects.get(self.reservation.name)
        if self.version:
            return found is None or found.version != self.version
        return found is not None and found.uid == self.created != ""

    def replaces(self, other: Promise) -> bool:
        """Whether the other one was for this very write, which the user or the API server has tried again."""
        mine, theirs = self.reservation, other.reservation
        return replace(mine, uid="", until="") == replace(theirs, uid="", until="") and (
            (self.version, self.created) == (other.version, other.created)
        )


def promise(write: PendingWrite, expires: float) -> Promise:
    ends = math.ceil(expires)
    return Promise(replace(write.reservation, until=_clock_time(ends)), write.version, write.created, ends)


def _clock_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")


# The document: a JSON list, an entry a line, with floors in units.


def document(promises: Iterable[Promise]) -> str:
    return "[" + ",\n ".join(orjson.dumps(_entry(each)).decode() for each in promises) + "]"


def promises_in(text: str) -> list[Promise]:
    """What a document says; '' says nothing. Raises ValueError for one that we did not write."""
    if not text:
        return []
    try:
        return [_promise(entry) for entry in _list(orjson.loads(text))]
    except (KeyError, TypeError, OverflowError, OSError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _entry(each: Promise) -> dict[str, Any]:
    reserved = each.reservation
    return {
        "kind": reserved.kind,
        "name": reserved.name,
        "uid": reserved.uid,
        "expires": each.expires,
        "version": each.version,
        "created": each.created,
        "floors": [
            {"flavor": flavor, "resource": resource, "amount": quantity.show(amount)}
            for (flavor, resource), amount in sorted(reserved.floors.items())
        ],
        "labels": None if reserved.labels is None else dict(reserved.labels),
    }


def _promise(entry: Any) -> Promise:
    expires = entry["expires"] if isinstance(entry, dict) else None
    if not isinstance(expires, int) or isinstance(expires, bool):
        raise ValueError("an entry whose 'expires' is no whole number")
    floors = {
        (_text(floor, "flavor"), _text(floor, "resource")): quantity.parse(_text(floor, "amount"))
        for floor in _list(entry["floors"])
    }
    labels = entry["labels"]
    if labels is not None:
        labels = {key: _text(labels, key) for key in labels}
    reserved = Reservation(
        _text(entry, "kind"), _text(entry, "name"), _text(entry, "uid"), _clock_time(expires), floors, labels
    )
    return Promise(reserved, _text(entry, "version"), _text(entry, "created"), expires)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("something else where a list should be")
    return value


def _text(value: Any, key: str) -> str:
    found = value[key] if isinstance(value, dict) else None
    if not isinstance(found, str):
        raise ValueError(f"an entry whose {key!r} is no string")
    return found
