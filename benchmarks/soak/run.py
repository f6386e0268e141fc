"""The soak: the events, in turn, while the writes go on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak.calls import Call, Incidents, Outcome, Tally
from benchmarks.soak.client import Client
from benchmarks.soak.events import EVENTS, Event, nothing
from benchmarks.soak.pace import Pace
from benchmarks.soak.service import Service, running_service
from benchmarks.soak.writes import writes
from tests.cluster.controlplane import Cluster

_BAD = (Outcome.FAILED, Outcome.WRONG)


@dataclass(frozen=True, slots=True)
class _Span:
    event: str
    start: float
    end: float
    note: str


@dataclass(frozen=True)
class Report:
    rate: float
    """Writes in a second that were to be sent."""

    events: list[Tally]
    writes: list[Tally]
    """By what was written."""

    whole: Tally
    bad: list[Call]
    """Failed or wrong."""

    away: dict[str, int]
    """Calls during a restart of the API server, by its answer's code."""

    unseen: list[str]
    """Events that did not come about, or that the replicas did not notice, and why."""

    metrics: dict[str, float]
    """Of the replicas that are there at the end, in sum."""


def soak(
    cluster: Cluster, directory: Path, pace: Pace, rate: float, seconds: float, say: Callable[[str], None]
) -> Report:
    """Every event once, and again as long as there is time."""
    found, incidents, spans, unseen = writes(), Incidents(), list[_Span](), list[str]()

    def happen(name: str, event: Event) -> None:
        say(name)
        start = time.monotonic()
        try:
            note = event(service, incidents)
        except AssertionError as error:
            unseen.append(f"{name}: {error}")
            note = f"NOT SEEN: {error}"
        say(f"  {note}")
        time.sleep(pace.steady)
        spans.append(_Span(name, start, time.monotonic(), note))

    with (
        running_service(cluster, directory, pace) as service,
        Client(cluster.kubeconfig, found, rate).running() as client,
    ):
        end = time.monotonic() + seconds
        while True:
            happen("nothing", nothing)
            for name, event in EVENTS.items():
                happen(name, event)
            if time.monotonic() >= end:
                break
        metrics = _metrics(service)
    calls = [call for call in client.calls if call.due < spans[-1].end]
    return Report(
        rate,
        [
            _event(name, [span for span in spans if span.event == name], calls, incidents)
            for name in ("nothing", *EVENTS)
        ],
        [
            Tally.of(name, 0.0, [call for call in calls if call.write == name], incidents)
            for name in dict.fromkeys(write.name for write in found)
        ],
        Tally.of("in all", spans[-1].end - spans[0].start, calls, incidents),
        [call for call in calls if incidents.outcome(call) in _BAD],
        _away(calls, incidents),
        unseen,
        metrics,
    )


def _event(name: str, spans: Sequence[_Span], calls: Sequence[Call], incidents: Incidents) -> Tally:
    within = [call for call in calls if any(span.start <= call.due < span.end for span in spans)]
    return Tally.of(name, sum(span.end - span.start for span in spans), within, incidents, spans[-1].note)


def _away(calls: Sequence[Call], incidents: Incidents) -> dict[str, int]:
    codes = Counter(call.code for call in calls if incidents.outcome(call) is Outcome.AWAY)
    return {str(code) if code else "no answer": number for code, number in sorted(codes.items())}


def _metrics(service: Service) -> dict[str, float]:
    names = ("floorkeeper_requests_total", "floorkeeper_requests_shed_total", "floorkeeper_log_lines_dropped_total")
    return {name: sum(replica.metric(name) for replica in service.replicas) for name in names}
