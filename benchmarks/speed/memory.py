"""From start to ready, resident memory, and its growth over many reviews."""

from __future__ import annotations

from statistics import median

from benchmarks.figures import show_table
from benchmarks.speed.contender import HOST, Contender, free_port, ours, running
from benchmarks.speed.field import OURS, POLICY, Place, guide
from benchmarks.speed.options import Options
from benchmarks.speed.report import Report
from benchmarks.speed.review import cases, post
from benchmarks.speed.series import MANY, Goal
from tests.cluster.controlplane import Cluster

_LONGEST_RUN = 20
"""Seconds."""

_STEPS = 10
_GROWTH = 2.0
"""MiB that count as none: an allocator's own."""


def memory(place: Place, options: Options, report: Report) -> None:
    ready, resident = [], []
    for _ in range(options.starts):
        with place.ours() as contender:
            ready.append(contender.ready)
            resident.append(contender.usage.resident)
    _show_starts("--state", ready, resident, report)
    report.judge(Goal("--state: from start to ready", median(ready), 1.0, unit="s"))
    with place.ours() as contender:
        grown = _growth(place, contender, options.reviews)
    report.add("memory", {"growth": [{"reviews": count, "residentMiB": size} for count, size in grown]})
    report.judge(Goal("--state: resident after all reviews", grown[-1][1], 100.0, unit="MiB"))
    report.judge(Goal("--state: growth after the first tenth", grown[-1][1] - grown[1][1], _GROWTH, unit="MiB"))


def live(place: Place, cluster: Cluster, options: Options, report: Report) -> None:
    """The same for a real cluster with the guide's objects, by the admin's kubeconfig."""
    cluster.apply(*guide())
    ready, resident = [], []
    for _ in range(options.starts):
        port, source = free_port(), ("--kubeconfig", str(cluster.kubeconfig))
        words = ours(port, place.folder, POLICY, *source)
        with running(f"{OURS} live", words, port, place.folder, "/readyz") as contender:
            ready.append(contender.ready)
            resident.append(contender.usage.resident)
    _show_starts("a live cluster", ready, resident, report)


def _show_starts(source: str, ready: list[float], resident: list[float], report: Report) -> None:
    rows = [
        (what, *(f"{each:.2f}" for each in (min(values), median(values), max(values))))
        for what, values in (("s from start to ready", ready), ("MiB resident when ready", resident))
    ]
    print()
    show_table((f"{len(ready)} starts, {source}", "least", "median", "most"), rows)
    report.add("memory", {source: {"readySeconds": ready, "residentMiB": resident}})


def _growth(place: Place, contender: Contender, reviews: int) -> list[tuple[int, float]]:
    """Reviews so far, and MiB, at the start and after each tenth. Every review is another, of the three in turn."""
    requests = [post(case.path, case.body, f"{HOST}:{contender.port}") for case in cases()]
    found, sent, rate, run = [(0, contender.usage.resident)], 0, 0.0, 0
    for step in range(1, _STEPS + 1):
        while sent < reviews * step // _STEPS:
            left = reviews * step // _STEPS - sent
            seconds = min(_LONGEST_RUN, max(1, round(left / rate / len(requests)))) if rate else 1
            load = place.wrk.press(contender.url, requests[run % len(requests)], MANY, seconds)
            sent, rate, run = sent + load.requests, load.rate, run + 1
            contender.trim_log()
        if sent > found[-1][0]:
            found.append((sent, contender.usage.resident))
    print()
    show_table(("reviews", "MiB resident"), [(f"{count:,}", f"{size:.1f}") for count, size in found])
    return found
