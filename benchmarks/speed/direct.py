"""Reviews sent straight to each server: what one costs on the processor, how long it takes, and how many go through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.figures import show_table
from benchmarks.speed.contender import HOST, Contender
from benchmarks.speed.field import CANNED, FLOOR, GO, OURS, Place
from benchmarks.speed.load import Wrk
from benchmarks.speed.options import Options
from benchmarks.speed.report import Report
from benchmarks.speed.review import Case, cases, post
from benchmarks.speed.series import MANY, ONE, Goal, Runs, Series

_RATIOS = ("CPU 16", "CPU 1", "p50", "req/s")

Table = Mapping[str, Runs]
"""By the contender's name."""


def direct(place: Place, options: Options, report: Report) -> None:
    with place.contenders() as contenders:
        for case in cases():
            names = [name for name in contenders if name != CANNED or case.name != "left alone"]
            table = measured(place.wrk, [contenders[name] for name in names], case, options)
            show(f"{case.name}, {len(case.body):,} bytes", table)
            report.add("direct", {case.name: {name: runs.plain() for name, runs in table.items()}})
            for goal in _goals(case, table):
                report.judge(goal)


def measured(wrk: Wrk, contenders: Sequence[Contender], case: Case, options: Options) -> dict[str, Runs]:
    """In turn, so that a busy minute of the machine falls on all of them."""
    found = {contender.name: Runs() for contender in contenders}
    requests = {contender.name: post(case.path, case.body, f"{HOST}:{contender.port}") for contender in contenders}
    for contender in contenders:
        contender.warm(case.path, case.body, options.warmup)
    for _ in range(options.rounds):
        for connections in (MANY, ONE):
            for contender in contenders:
                before = contender.usage.cpu
                load = wrk.press(contender.url, requests[contender.name], connections, options.seconds)
                found[contender.name].add(connections, load, contender.usage.cpu - before)
                contender.trim_log()
    return found


def show(title: str, table: Table) -> None:
    """CPU at 16 connections, when no server waits, and at one, where each review also costs a wake-up."""
    floor, go = table.get(FLOOR), table.get(GO)
    rows = []
    for name, runs in table.items():
        rows.append(
            (
                name,
                runs.cost(MANY).shown(1e3, 3),
                runs.cost(ONE).shown(1e3, 3),
                runs.p50.shown(1e3, 3),
                runs.rate.shown(1, 0),
                *(f"{each.over(other):.2f}" for each, other in _pairs(runs, floor)),
                *(f"{each.over(other):.2f}" for each, other in _pairs(runs, go)),
                f"{runs.failed:,}",
            )
        )
    print()
    over = [f"{what}/{who}" for who, of in (("floor", floor), ("Go", go)) if of for what in _RATIOS]
    show_table((title, "ms CPU, 16", "ms CPU, 1", "ms p50, 1", "req/s, 16", *over, "failed"), rows)


def _pairs(runs: Runs, other: Runs | None) -> Iterator[tuple[Series, Series]]:
    if other is not None:
        yield runs.cost(MANY), other.cost(MANY)
        yield runs.cost(ONE), other.cost(ONE)
        yield runs.p50, other.p50
        yield runs.rate, other.rate


def _goals(case: Case, table: Table) -> Iterator[Goal]:
    mine, floor, go = table[OURS], table[FLOOR], table[GO]
    most = 1.7 if case.name == "mutating" else 1.4
    for connections in (MANY, ONE):
        what = f"CPU at {connections} connection{'s' * (connections > 1)}"
        yield Goal(f"{case.name}: {what} to the floor's", mine.cost(connections).over(floor.cost(connections)), most)
        if case.name == "mutating":
            ratio = mine.cost(connections).over(go.cost(connections))
            yield Goal(f"{case.name}: {what} to idiomatic Go's", ratio, 1 / 3)
    yield Goal(f"{case.name}: p50 to the floor's", mine.p50.over(floor.p50), most)
    if case.name == "mutating":
        yield Goal("mutating: rate to idiomatic Go's", mine.rate.over(go.rate), 1.5, at_least=True)
