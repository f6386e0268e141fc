"""The page's data, kept current: what is asked of it, and how fresh each part is."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from webhook import __version__
from webhook.capacity.balance import KINDS
from webhook.check.formats.characters import visible
from webhook.engine.policy import Policy
from webhook.live.page.denials import Denials
from webhook.live.page.findings import Audited
from webhook.live.page.history import History
from webhook.live.page.queues import EVERY_SECONDS, QueueSource
from webhook.live.page.state import Facts, amounts, balance, state
from webhook.sources.source import Source

SAMPLE_SECONDS = 5.0
_KEEP_SECONDS = 2.0  # an answer serves everybody who asks within this time, so that no number of them is a load

OLD_FACTS = 120.0
"""Seconds: a watch of a quiet kind is renewed every minute."""

OLD_QUEUES = 3 * EVERY_SECONDS
_OLD_AUDITS = 2.5  # intervals
_AUDIT_SHARE = 4  # how many times as long as one takes an interval is at the least, for they rest in between

log = logging.getLogger("floorkeeper.page")


@dataclass(frozen=True, slots=True)
class Data:
    """`body` is a JSON object without the clock, which goes on though nothing happens; `tag` stands for its content."""

    body: bytes
    tag: str


class Board:
    """Lives on one event loop, that of the snapshot's source, and is read there. `audit` may be set from any thread."""

    def __init__(
        self,
        facts: Callable[[], Facts],
        queues: QueueSource,
        denials: Denials | None = None,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """`denials` are None where nothing is ever denied: the page then says that it cannot know."""
        self.audit = Audited()
        self.denials = denials
        self.history = History()
        self._facts = facts
        self._queues = queues
        self._clock = clock
        self._ticks = ticks
        self._data: Data | None = None
        self._made = -math.inf

    async def run(self) -> None:
        """Reads the queues and remembers how things go, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queues.run())
            group.create_task(self._remember())

    async def _remember(self) -> None:
        while True:
            try:
                self.look()
            except Exception:
                log.exception("remembering floors and hardware failed")
            await asyncio.sleep(SAMPLE_SECONDS)

    def look(self) -> None:
        """Adds this moment to the history."""
        self.history.record(self._clock(), amounts(balance(self._facts())))

    def data(self) -> Data:
        """What is known now, or was a moment ago."""
        now = self._ticks()
        if self._data is None or now - self._made >= _KEEP_SECONDS:
            denied = self.denials.latest() if self.denials is not None else ()
            value: dict[str, Any] = {
                "version": __version__,
                "denialsKnown": self.denials is not None,
                "limits": {"facts": OLD_FACTS, "queues": OLD_QUEUES, "audit": _old_audit(self.audit)},
                **state(self._facts(), self._queues.reading, denied, self.history.past(), self.audit),
            }
            body = orjson.dumps(_visible(value))
            self._data, self._made = Data(body, hashlib.blake2b(body, digest_size=12).hexdigest()), now
        return self._data

    def clock(self) -> Mapping[str, float | None]:
        """This moment (seconds since the epoch), and the age of each part in seconds, None if it was never read.

        Ages rather than times, since the reader's own clock may be wrong.
        """
        now, age = self._clock(), self._facts().age
        return {
            "now": round(now, 1),
            "facts": round(age, 1) if age is not None and math.isfinite(age) else None,
            "queues": _age(now, self._queues.reading.at),
            "audit": _age(now, self.audit.at),
        }


def _old_audit(audit: Audited) -> float | None:
    """Seconds after which it is old, None if no other one is to come."""
    return _OLD_AUDITS * max(audit.every, _AUDIT_SHARE * audit.seconds) if audit.every else None


def _visible(value: Any) -> Any:
    """The same with all text as it can be shown: names and values may hold what turns round the rest of their line."""
    match value:
        case str():
            return visible(value)
        case dict():
            return {key: _visible(each) for key, each in value.items()}
        case list() | tuple():
            return [_visible(each) for each in value]
    return value


def _age(now: float, at: float | None) -> float | None:
    return None if at is None else round(max(0.0, now - at), 1)


def facts_of(source: Source, policy: Policy) -> Facts:
    """What a source that watches knows of floors and hardware, as old as the oldest kind of it."""
    states = {kind: each for kind, each in source.states().items() if kind in KINDS}
    ages = [each.age_seconds for each in states.values() if each.known]
    trouble = {kind: each.detail for kind, each in states.items() if each.known and each.detail}
    return Facts(source.snapshot, policy, max(ages, default=None), trouble)
