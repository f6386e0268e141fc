"""What was measured, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.speed.load import Load

MANY, ONE = 16, 1
"""Connections."""


@dataclass(frozen=True, slots=True)
class Series:
    """One figure of one contender, with a value for each round. Ratios are of the same rounds, in the middle."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        return median(self.values)

    @property
    def spread(self) -> float:
        """From the least to the most, as a share of the middle."""
        return (max(self.values) - min(self.values)) / self.middle if self.middle else 0.0

    def over(self, other: Series) -> float:
        return median(mine / theirs if theirs else 0.0 for mine, theirs in zip(self.values, other.values, strict=True))

    def beyond(self, other: Series) -> Series:
        """The difference, round by round."""
        return Series(tuple(mine - theirs for mine, theirs in zip(self.values, other.values, strict=True)))

    def shown(self, unit: float = 1.0, digits: int = 2) -> str:
        return f"{self.middle * unit:,.{digits}f} ±{self.spread / 2:.0%}"


@dataclass(slots=True)
class Runs:
    """All runs of one contender with one review: seconds on the processor for each review, and what wrk saw."""

    cpu: dict[int, list[float]] = field(default_factory=dict)
    loads: dict[int, list[Load]] = field(default_factory=dict)

    def add(self, connections: int, load: Load, cpu: float) -> None:
        self.loads.setdefault(connections, []).append(load)
        self.cpu.setdefault(connections, []).append(cpu / load.requests)

    def cost(self, connections: int = MANY) -> Series:
        """Seconds on the processor for each review."""
        return Series(tuple(self.cpu[connections]))

    @property
    def rate(self) -> Series:
        """Reviews in a second at 16 connections."""
        return Series(tuple(load.rate for load in self.loads[MANY]))

    @property
    def p50(self) -> Series:
        """Seconds at one connection."""
        return Series(tuple(load.p50 for load in self.loads[ONE]))

    @property
    def failed(self) -> int:
        return sum(load.failed for loads in self.loads.values() for load in loads)

    def plain(self) -> dict[str, object]:
        """For JSON: a value for each round."""
        return {
            "cpuMilliseconds": [each * 1e3 for each in self.cpu[MANY]],
            "cpuMillisecondsOneConnection": [each * 1e3 for each in self.cpu[ONE]],
            "p50Milliseconds": [each * 1e3 for each in self.p50.values],
            "requestsPerSecond": list(self.rate.values),
            "failed": self.failed,
        }


@dataclass(frozen=True, slots=True)
class Goal:
    """One of the issue's: at most, or at least, so much."""

    what: str
    value: float
    limit: float
    at_least: bool = False
    unit: str = "x"

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def row(self) -> Sequence[str]:
        bound = "at least" if self.at_least else "at most"
        return (
            self.what,
            f"{self.value:.2f} {self.unit}",
            f"{bound} {self.limit:.2f} {self.unit}",
            "met" if self.met else "NOT MET",
        )
