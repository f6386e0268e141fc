"""What is under way, and what is turned away: no call may wait here for longer than its caller waits for it.

Two things are bounded in sum over all connections: how many calls are under way, and how many bytes of their bodies
have come. Where there is no room, the body that has been coming for longest has to go, for the API server sends one in
an instant: so clients that stall cannot keep the room from it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from math import inf
from time import perf_counter
from typing import Any
from urllib.parse import parse_qs

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.engine.rule import Stage
from webhook.server.review import Review

MOST_CALLS = 1000
"""At once. One API server works on 600 requests at once by default, and asks us about each once or twice."""

MOST_BYTES = 32 * 1024 * 1024
"""Of the bodies under way, as they came. Parsed, a review takes some five times as much, but one at a time."""

RETRY_SECONDS = 1
"""After this time, the API server calls again by itself, if its own time for the call is not over."""

_ANSWER_SECONDS = 0.1  # for the answer's way back
_STALLED_SECONDS = 1.0  # a body that takes as long may have to go for a call that has just come
_TELL_SECONDS = 10.0
_LONGEST_SECONDS = 86400.0  # that a caller is believed to wait
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s|us|µs|ns))+")
_UNIT = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}

log = logging.getLogger("floorkeeper.load")


class Reason(StrEnum):
    """Why a call is turned away."""

    CALLS = "too-many-requests"
    BYTES = "too-many-bytes"
    LATE = "too-late"
    END = "shutting-down"


_TOLD = {
    Reason.CALLS: f"{MOST_CALLS} requests are under way already",
    Reason.BYTES: f"{MOST_BYTES // 2**20} MiB of requests are under way already",
    Reason.LATE: "the caller's time was over before there was an answer",
    Reason.END: "this server is shutting down",
}


class Shed(Exception):
    """A call that is not judged. The message is for who wrote the object, and for who runs Floorkeeper."""

    def __init__(self, reason: Reason, call: Call) -> None:
        super().__init__(
            f"Floorkeeper did not judge this request: {_TOLD[reason]}; try again. If it happens often, give "
            "Floorkeeper more CPU or replicas; metric floorkeeper_requests_shed_total"
        )
        self.reason = reason
        self.again = reason is not Reason.LATE and call.left() > RETRY_SECONDS + _ANSWER_SECONDS
        """Whether the caller has the time to call again."""


class Call:
    """One request to a webhook, from its first byte to its answer."""

    __slots__ = ("_until", "arrived", "evicted", "limit", "review", "size", "stage")

    def __init__(self, stage: Stage, scope: Mapping[str, Any]) -> None:
        self.stage = stage
        self.arrived = arrival(scope)
        """When its first byte came, by perf_counter."""

        seconds = caller_seconds(scope.get("query_string", b""))
        self._until = inf if seconds is None else self.arrived + seconds - _ANSWER_SECONDS
        self.size = 0
        """Bytes of its body that came so far."""

        self.limit: asyncio.Timeout | None = None
        """Of the wait for its body."""

        self.evicted: Reason | None = None
        """Why the rest of its body is not waited for."""

        self.review: Review | None = None
        """Once it is read."""

    @property
    def uid(self) -> str:
        return self.review.uid if self.review is not None else ""

    def left(self) -> float:
        """Seconds until an answer comes too late; infinite if the caller did not say."""
        return self._until - perf_counter()


def arrival(scope: Mapping[str, Any]) -> float:
    """When a request's first byte came, by perf_counter."""
    found: float = scope.get("state", {}).get("arrived") or perf_counter()
    return found


def is_late(scope: Mapping[str, Any]) -> bool:
    """Whether an answer would come when its caller's time is over."""
    seconds = caller_seconds(scope.get("query_string", b""))
    return seconds is not None and perf_counter() - arrival(scope) >= seconds - _ANSWER_SECONDS


class Load:
    """The calls of one process. All methods run on the event loop's thread."""

    def __init__(self, most_calls: int = MOST_CALLS, most_bytes: int = MOST_BYTES) -> None:
        self._most_calls = most_calls
        self._most_bytes = most_bytes
        self._bytes = 0
        self._coming: dict[Call, None] = {}
        """Whose bodies are not whole yet, in the order in which they came."""

        self.in_flight = dict.fromkeys(Stage, 0)
        self.shed = {(stage, reason): 0 for stage in Stage for reason in Reason}
        self._untold = dict.fromkeys(Reason, 0)
        self._told = False

    def enter(self, call: Call) -> None:
        """Raises Shed. `leave` follows in any case."""
        self.in_flight[call.stage] += 1
        self._coming[call] = None
        if sum(self.in_flight.values()) > self._most_calls:
            oldest = next(iter(self._coming))
            if perf_counter() - oldest.arrived < _STALLED_SECONDS:
                raise Shed(Reason.CALLS, call)
            self._evict(oldest, Reason.CALLS)

    def receive(self, call: Call, size: int) -> None:
        """This many bytes of its body came. Raises Shed."""
        if call.evicted is not None:
            raise Shed(call.evicted, call)
        call.size += size
        self._bytes += size
        while self._bytes > self._most_bytes:
            oldest = next(iter(self._coming))
            self._evict(oldest, Reason.BYTES)
            if oldest is call:
                raise Shed(Reason.BYTES, call)

    def complete(self, call: Call) -> None:
        """Its body is whole. Raises Shed if there is no time left to judge it, or if it had to go this very moment."""
        if call.evicted is not None:
            raise Shed(call.evicted, call)
        del self._coming[call]
        if call.left() <= 0:
            raise Shed(Reason.LATE, call)

    def leave(self, call: Call) -> None:
        self.in_flight[call.stage] -= 1
        self._bytes -= call.size
        self._coming.pop(call, None)

    def _evict(self, call: Call, reason: Reason) -> None:
        """Ends the wait for its body."""
        call.evicted = reason
        self._bytes -= call.size
        call.size = 0
        del self._coming[call]
        if call.limit is not None:
            call.limit.reschedule(0)

    def count(self, stage: Stage, reason: Reason) -> None:
        """Counts a call that was turned away. The log says so at once, and what follows in sum: to say it each time
        would be a load by itself."""
        self.shed[stage, reason] += 1
        self._untold[reason] += 1
        if not self._told:
            self._tell()

    def _tell(self) -> None:
        counts = {reason.value: count for reason, count in self._untold.items() if count}
        self._told = bool(counts)
        if counts:
            fields = {"reasons": counts, "inFlight": sum(self.in_flight.values()), "bytes": self._bytes}
            log.warning("requests shed", extra={"fields": fields})
            self._untold = dict.fromkeys(Reason, 0)
            asyncio.get_running_loop().call_later(_TELL_SECONDS, self._tell)


@lru_cache(maxsize=64)
def caller_seconds(query: bytes) -> float | None:
    """How long the caller waits for an answer, by the `timeout` that the API server adds to the URL, such as 10s or
    1m0s; None if it is not there, or no such duration."""
    text = parse_qs(query.decode("latin-1")).get("timeout", [""])[-1]
    if not _DURATION.fullmatch(text):
        return None
    parts = re.findall(r"([\d.]+)(\D+)", text)
    return min(_LONGEST_SECONDS, sum(float(number) * _UNIT[unit] for number, unit in parts))


class LoadCollector(Collector):
    """The metrics of a Load."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def collect(self) -> Iterator[Metric]:
        shed = CounterMetricFamily(
            "floorkeeper_requests_shed",
            "Requests turned away unjudged, by the webhook called and the reason. They are in no other metric.",
            labels=("webhook", "reason"),
        )
        for (stage, reason), count in self._load.shed.items():
            shed.add_metric((stage.value, reason.value), count)
        yield shed
        in_flight = GaugeMetricFamily(
            "floorkeeper_requests_in_flight",
            "Requests that are being received or judged. Most are answered at once, and never among them.",
            labels=("webhook",),
        )
        for stage, count in self._load.in_flight.items():
            in_flight.add_metric((stage.value,), count)
        yield in_flight
