"""How floors, hardware and what is usable of it went over the last hours, in memory and bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.kube.quota_facts import FlavorResource

STEP_SECONDS = 60
STEPS = 6 * 60
MOST_SERIES = 32


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of one flavor and resource at one moment, in billionths."""

    floors: int
    hardware: int
    usable: int

    @property
    def badness(self) -> tuple[int, int]:
        return self.floors - self.usable, self.floors - self.hardware


@dataclass(frozen=True, slots=True)
class Series:
    """One value for each step, None where nothing was seen: nobody looked, or it could not be evaluated."""

    flavor: str
    resource: str
    values: tuple[Amounts | None, ...]


@dataclass(frozen=True, slots=True)
class Past:
    """`start` (seconds since the epoch) is when the first step of each series began. `left_out` counts what is not
    kept, since there are too many."""

    start: int
    step: int
    series: tuple[Series, ...]
    left_out: int = 0


class History:
    """Of each minute the worst moment is kept, so that a short dip is not lost between two looks."""

    def __init__(self, step: int = STEP_SECONDS, steps: int = STEPS, most: int = MOST_SERIES) -> None:
        self._step = step
        self._most = most
        self._steps = steps
        self._kept: deque[tuple[int, dict[FlavorResource, Amounts]]] = deque(maxlen=steps)
        self._left_out = 0

    def record(self, now: float, seen: Mapping[FlavorResource, Amounts]) -> None:
        """What is seen at a moment, in seconds since the epoch. A clock that is set back adds to the last step."""
        number = int(now // self._step)
        chosen = sorted(seen, key=lambda key: (-seen[key].floors, key))[: self._most]
        self._left_out = len(seen) - len(chosen)
        if not self._kept or number > self._kept[-1][0]:
            self._kept.append((number, {}))
        last = self._kept[-1][1]
        for key in chosen:
            if key not in last or seen[key].badness > last[key].badness:
                last[key] = seen[key]

    def past(self) -> Past:
        if not self._kept:
            return Past(0, self._step, ())
        end = self._kept[-1][0]
        start = max(self._kept[0][0], end - self._steps + 1)
        by_number = dict(self._kept)
        keys = sorted({key for number, seen in self._kept if number >= start for key in seen})
        series = [
            Series(*key, tuple(by_number.get(number, {}).get(key) for number in range(start, end + 1))) for key in keys
        ]
        # Flavors that came and went may be many.
        shown = series[: 2 * self._most]
        return Past(start * self._step, self._step, tuple(shown), self._left_out + len(series) - len(shown))
