"""What became of each write, and what that comes to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

_CROSSING = 0.25
"""Seconds after a process was killed in which an API server may still write to it, or to whoever stood before it."""

_SETTLING = 2.0
"""Seconds after an API server says that it is ready in which its own caches may not be."""

_NO_LEDGER = re.compile(r"the floors could not be reserved in .*; try again")
"""What a raise is told while the API server takes no connection: it was in flight there when the server had to end."""


class Outcome(StrEnum):
    RIGHT = "right"
    FAILED = "failed"
    """The API server blames our webhook."""

    KILLED = "killed"
    """It does, and the process that was asked had been killed."""

    AWAY = "away"
    """The API server was restarting: it refused or broke a connection, or said that it could not answer yet; or it
    still asked us, and let us ask nothing any more. What it did answer is judged as ever."""

    WRONG = "wrong"
    """Anything else."""


@dataclass(frozen=True, slots=True)
class Call:
    """One write. Times are monotonic, in seconds."""

    due: float
    """When it should have been sent, whatever held up the sender."""

    done: float
    write: str
    is_right: bool
    code: int
    """Of the answer; 0 if there was none."""

    text: str
    """Of an answer that is not right, or the error."""

    @property
    def blames_us(self) -> bool:
        return "failed calling webhook" in self.text and ".floorkeeper.io" in self.text

    @property
    def is_unanswered(self) -> bool:
        """Whether the API server came to no decision, as one that starts: it has no users yet (401), no caches (403) or
        no room (429), or fails."""
        if "admission webhook" in self.text:
            return False
        early = self.code in (0, 401, 429) or self.code >= 500
        return early or (self.code == 403 and "not yet ready to handle request" in self.text)


@dataclass(slots=True)
class Incidents:
    """What must be known to judge a call: when a process was killed, and when the API server was restarting."""

    kills: list[float] = field(default_factory=list)
    restarts: list[tuple[float, float]] = field(default_factory=list)

    def outcome(self, call: Call) -> Outcome:
        if call.is_right:
            return Outcome.RIGHT
        restarting = any(call.due <= end + _SETTLING and start <= call.done for start, end in self.restarts)
        if restarting and _NO_LEDGER.search(call.text):
            return Outcome.AWAY
        if call.blames_us:
            killed = any(call.due <= kill + _CROSSING and kill <= call.done for kill in self.kills)
            return Outcome.KILLED if killed and _is_broken(call.text) else Outcome.FAILED
        if restarting and call.is_unanswered:
            return Outcome.AWAY
        return Outcome.WRONG


def _is_broken(text: str) -> bool:
    return any(words in text for words in ("EOF", "connection reset", "connection refused", "broken pipe"))


@dataclass(frozen=True, slots=True)
class Tally:
    """Calls that were due within some time. Latencies are of right answers, in seconds since they were due."""

    name: str
    seconds: float
    outcomes: dict[Outcome, int]
    p50: float
    p99: float
    longest: float
    note: str = ""

    @property
    def sent(self) -> int:
        return sum(self.outcomes.values())

    @classmethod
    def of(cls, name: str, seconds: float, calls: Iterable[Call], incidents: Incidents, note: str = "") -> Tally:
        outcomes, latencies = dict.fromkeys(Outcome, 0), []
        for call in calls:
            outcome = incidents.outcome(call)
            outcomes[outcome] += 1
            if outcome is Outcome.RIGHT:
                latencies.append(call.done - call.due)
        return cls(name, seconds, outcomes, *_figures(latencies), note)


def _figures(latencies: Sequence[float]) -> tuple[float, float, float]:
    found = sorted(latencies) or [0.0]
    return median(found), found[len(found) * 99 // 100], found[-1]
