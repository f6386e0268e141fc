"""An object of 1 MiB: how long its review takes, and how long small reviews take beside it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from benchmarks.figures import show_table
from benchmarks.speed.contender import Contender
from benchmarks.speed.field import FLOOR, GO, OURS, Place
from benchmarks.speed.options import Options
from benchmarks.speed.report import Report
from benchmarks.speed.review import Case, cases
from benchmarks.speed.review import large as large_case
from benchmarks.speed.series import Goal

_SHAPES = ("arguments", "variables")
_SMALL_RATE, _LARGE_RATE = 200.0, 2.0
"""A second. Small ones are sent when they are due, on one connection, and timed from then."""

_SECONDS_OF_SMALL = 2
"""For each second of the options' runs: a p99 needs many."""

_HEADERS = {"Content-Type": "application/json"}


class _Small(NamedTuple):
    """Seconds of small reviews, in the round that was disturbed the least."""

    p50: float
    p99: float

    @classmethod
    def of(cls, rounds: Sequence[list[float]]) -> _Small:
        return cls(min(map(median, rounds)), min(sorted(taken)[len(taken) * 99 // 100] for taken in rounds))


def large(place: Place, options: Options, report: Report) -> None:
    rows = []
    with place.contenders() as contenders:
        small = cases()[0]
        for shape in _SHAPES:
            case = large_case(shape)
            for name in (FLOOR, OURS, GO):
                contender = contenders[name]
                cpu, taken = _alone(contender, case, options.large)
                alone, beside = _small(contender, small, case, options)
                times = (median(taken), max(taken), cpu, *alone, *beside)
                ratio = beside.p99 / alone.p99
                rows.append((f"{case.name}: {name}", *(f"{each * 1e3:.2f}" for each in times), f"{ratio:.2f}"))
                figures = {"seconds": taken, "cpuSeconds": cpu, "alone": alone._asdict(), "beside": beside._asdict()}
                report.add("large", {f"{case.name}: {name}": figures})
                if name == OURS:
                    report.judge(Goal(f"{case.name}: median", median(taken) * 1e3, 10.0, unit="ms"))
                    report.judge(Goal(f"{case.name}: small p99 beside it", ratio, 2.0))
    head = ("ms median", "most", "ms CPU", "small p50", "p99", "p50 beside", "p99 beside", "p99 ratio")
    print()
    show_table((f"{_SMALL_RATE:g} small and {_LARGE_RATE:g} large reviews a second", *head), rows)


def _alone(contender: Contender, case: Case, count: int) -> tuple[float, list[float]]:
    """Seconds on the processor for each, and those of each on the clock."""
    body = case.body
    with contender.connection() as connection:
        _post(connection, case.path, body)
        before, taken = contender.usage.cpu, []
        for _ in range(count):
            began = time.perf_counter()
            _post(connection, case.path, body)
            taken.append(time.perf_counter() - began)
    return (contender.usage.cpu - before) / count, taken


def _small(contender: Contender, small: Case, case: Case, options: Options) -> tuple[_Small, _Small]:
    """Alone, and beside large ones, in turn."""
    count = int(options.seconds * _SECONDS_OF_SMALL * _SMALL_RATE)
    alone, beside = [], []
    for _ in range(options.rounds):
        alone.append(_paced(contender, small, count))
        with _sending(contender, case):
            beside.append(_paced(contender, small, count))
    return _Small.of(alone), _Small.of(beside)


def _paced(contender: Contender, case: Case, count: int) -> list[float]:
    body, taken = case.body, []
    with contender.connection() as connection:
        _post(connection, case.path, body)
        began = time.perf_counter()
        for number in range(count):
            due = began + number / _SMALL_RATE
            time.sleep(max(0.0, due - time.perf_counter()))
            _post(connection, case.path, body)
            taken.append(time.perf_counter() - due)
    return taken


@contextmanager
def _sending(contender: Contender, case: Case) -> Iterator[None]:
    """Large ones, from a thread: OpenSSL encrypts without the interpreter's lock."""
    ended, body = threading.Event(), case.body

    def send() -> None:
        with contender.connection() as connection:
            while not ended.wait(1 / _LARGE_RATE):
                _post(connection, case.path, body)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _post(connection: http.client.HTTPSConnection, path: str, body: bytes) -> None:
    connection.request("POST", path, body, _HEADERS)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} answered {answer.status}: {text[:500].decode(errors='replace')}")
