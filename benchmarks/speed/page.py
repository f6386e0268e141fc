"""README's tables, out of what several runs wrote: `python -m benchmarks.speed.page FILE …`.

Each figure is the median of the runs' medians.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.speed.field import CANNED, FASTAPI, FLOOR, GO, OURS
from benchmarks.speed.hooks import CEL, NONE

_NAMES = {
    FLOOR: "uvicorn, raw ASGI, decides nothing, no patch",
    FASTAPI: "FastAPI route and orjson, decides nothing, no patch",
    CANNED: "raw ASGI, decides nothing, Floorkeeper's patch",
    OURS: "**Floorkeeper**, all rules",
    GO: "Go, controller-runtime 0.25, five rules",
    CEL: "CEL policies in kube-apiserver, five rules",
}
_FIGURES = ("cpuMilliseconds", "cpuMillisecondsOneConnection", "p50Milliseconds", "requestsPerSecond")

Run = dict[str, Any]


def tables(found: Sequence[Run]) -> Iterator[str]:
    """Lines of markdown. A run may be of some sections alone: it adds its goals."""
    runs = [run for run in found if "direct" in run and "through" in run]
    others = [run for run in found if run not in runs]
    head = ("server", "ms CPU a review, 16 connections", "ms CPU, 1 connection", "p50, 1 connection", "reviews/s, 16")
    yield f"| {' | '.join(head)} |"
    yield "| --- | --- | --- | --- | --- |"
    for name in (FLOOR, FASTAPI, CANNED, OURS, GO):
        cpu, alone, p50, rate = (_middle(runs, ("direct", "mutating", name), figure) for figure in _FIGURES)
        yield f"| {_NAMES[name]} | {cpu:.3f} | {alone:.3f} | {p50:.3f} ms | {rate:,.0f} |"
    yield ""
    yield "| hook, through kube-apiserver | throughput beside no hook, 16 clients | added p50, 1 client |"
    yield "| --- | --- | --- |"
    none = _middle(runs, ("through", NONE), "p50Milliseconds")
    for name in (FLOOR, CANNED, OURS, GO, CEL):
        share = median(
            _of(run, ("through", name), "requestsPerSecond") / _of(run, ("through", NONE), "requestsPerSecond")
            for run in runs
        )
        added = _middle(runs, ("through", name), "p50Milliseconds") - none
        yield f"| {_NAMES[name]} | {share:.2f} | {added:.1f} ms |"
    yield ""
    yield "| goal | wanted | found, run by run | |"
    yield "| --- | --- | --- | --- |"
    by_what: dict[str, list[dict[str, Any]]] = {}
    for run in (*runs, *others):
        for goal in run["goals"]:
            by_what.setdefault(goal["what"], []).append(goal)
    for goals in by_what.values():
        first = goals[0]
        told_values = ", ".join(f"{goal['value']:.2f}" for goal in goals)
        bound = "at least" if first["at_least"] else "at most"
        met = sum(goal["met"] for goal in goals)
        told = "met" if met == len(goals) else "not met" if not met else f"met in {met} of {len(goals)}"
        yield f"| {first['what']} | {bound} {first['limit']:.2f} {first['unit']} | {told_values} | {told} |"
    yield ""
    yield f"{runs[0]['machine']}; {len(runs)} runs, {runs[0]['options']['rounds']} rounds each."


def _middle(runs: Sequence[Run], where: Sequence[str], figure: str) -> float:
    return median(_of(run, where, figure) for run in runs)


def _of(run: Run, where: Sequence[str], figure: str) -> float:
    found: Any = run
    for step in where:
        found = found[step]
    values: list[float] = found[figure]
    return median(values)


if __name__ == "__main__":
    print("\n".join(tables([json.loads(Path(file).read_text()) for file in sys.argv[1:]])))
