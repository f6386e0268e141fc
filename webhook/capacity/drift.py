"""Floors that have come to exceed their nodes although no write made them: which, since when, and what to say of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from webhook.capacity.assessment import Cut
from webhook.capacity.floors import Source
from webhook.capacity.view import View
from webhook.capacity.words import describe
from webhook.kube.quantity import show
from webhook.kube.quota_facts import FlavorResource

FLOORS_EXCEED_HARDWARE = "FloorsExceedHardware"
CAPACITY_AWAY = "CapacityAway"
"""The floors exceed what is usable, and the hardware is there."""

FLOORS_FIT = "FloorsFit"
"""They do again."""

LONGEST = 980
"""Bytes of a text: an Event's note has 1,024, and says when as well."""


@dataclass(frozen=True, slots=True)
class News:
    """What is to be said now, once, of flavors that are short of a resource together, or of one that is no longer."""

    reason: str
    resource: str
    flavors: tuple[str, ...]
    text: str
    since: float
    """When it began, by the clock that `look` is given."""

    found: bool
    """It was so at the first look, and may have been said already by whoever looked before us."""

    sources: tuple[Source, ...]
    """Kind and name of the ClusterQueues and Cohorts that it is about, sorted."""


_Gist = tuple[bool, int] | None
"""What makes one shortage another one: whether it is of what is usable, and the excess. None: the floors fit."""


@dataclass(slots=True)
class _State:
    """Of one flavor and resource: what was said last, and since when something else is so."""

    said: _Gist = None
    told: frozenset[Source] = frozenset()
    """Who heard of the shortage, and is to hear of its end."""

    since: float | None = None
    found: bool = False


class Drift:
    """Compares floors with nodes time and again. What differs from what was said last, and has for the grace, is said.

    So a dip that is shorter raises nothing, and neither does a short recovery. While a flavor is not evaluated nothing
    is said of it, and what was said stands.
    """

    def __init__(self) -> None:
        self.due = math.inf
        """When to look again if no event comes: something may have lasted long enough then."""

        self._states: dict[FlavorResource, _State] = {}
        self._first = True

    def look(self, view: View, keys: Iterable[FlavorResource], now: float, grace: float) -> list[News]:
        """What is to be said now. `keys` hold every flavor and resource with a floor; times are in seconds."""
        news: list[News] = []
        self.due = math.inf
        for key, cut in list(_cuts(view, {*keys, *self._states})):
            gist = _gist(cut)
            state = self._states.setdefault(key, _State())
            if gist == state.said:
                state.since = None
                if gist is None:
                    del self._states[key]
                continue
            if state.since is None:
                state.since, state.found = now, self._first
            if now - state.since < grace:
                self.due = min(self.due, state.since + grace)
                continue
            if cut is None:
                news.append(_end(view, key, state))
                del self._states[key]
            else:
                news.append(_shortage(cut, state.since, state.found))
                self._note(cut)
        self._first = False
        return news

    def _note(self, cut: Cut) -> None:
        """Of all flavors of a cut this was said, whenever each of them fell short."""
        for flavor in cut.flavors:
            own = {floor.source for floor in cut.contributions if floor.flavor == flavor}
            state = self._states.setdefault((flavor, cut.resource), _State())
            state.said, state.told, state.since = _gist(cut), state.told | own, None


def _cuts(view: View, keys: set[FlavorResource]) -> Iterator[tuple[FlavorResource, Cut | None]]:
    """The shortage that each flavor is part of, if any, sorted; nothing about a flavor that is not evaluated."""
    seen: set[FlavorResource] = set()
    for flavor, resource in sorted(keys):
        if (flavor, resource) in seen:
            continue
        together = view.assess(resource, [flavor])
        for each in together.flavors:
            seen.add((each, resource))
            # Of several shortages in one component each flavor has its own.
            cut = view.assess(resource, [each]).cut if together.cut is not None else None
            yield (each, resource), cut if cut is not None and each in cut.flavors else None


def _gist(cut: Cut | None) -> _Gist:
    return None if cut is None else (cut.usable, cut.excess)


def _shortage(cut: Cut, since: float, found: bool) -> News:
    excess = show(cut.excess)
    if cut.usable:
        reason, begin = CAPACITY_AWAY, f"capacity is away, {excess} more guaranteed than usable"
        fix = "bring nodes back, else admitted pods stay unscheduled"
    else:
        reason, begin = FLOORS_EXCEED_HARDWARE, f"{excess} more guaranteed than there is hardware"
        fix = "add nodes or lower floors, else admitted pods stay unscheduled"
    sources = tuple(sorted({floor.source for floor in cut.contributions}))
    text = _fitting(cut, f"{begin}: ", f"; fix: {fix}")
    return News(reason, cut.resource, cut.flavors, text, since, found, sources)


def _fitting(cut: Cut, begin: str, end: str) -> str:
    """The arithmetic with as many floors listed as there is room for."""
    room = LONGEST - len((begin + end).encode())
    for most in (8, 4, 2, 1):
        words = describe(cut, most)
        if len(words.encode()) <= room:
            return f"{begin}{words}{end}"
    return f"{begin}{words.encode()[: room - 3].decode(errors='ignore')}...{end}"


def _end(view: View, key: FlavorResource, state: _State) -> News:
    flavor, resource = key
    assert state.since is not None
    amounts = f"{show(view.floors(flavor, resource))} guaranteed, {show(view.usable(flavor, resource))} usable"
    text = f"floors of {resource} in flavor {flavor} fit again: {amounts}"
    return News(FLOORS_FIT, resource, (flavor,), text, state.since, state.found, tuple(sorted(state.told)))
