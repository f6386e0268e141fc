"""A review's cost beside few and many nodes, queues and namespaces."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson

from benchmarks.speed.direct import measured, show
from benchmarks.speed.field import Place, guide
from benchmarks.speed.options import Options
from benchmarks.speed.report import Report
from benchmarks.speed.review import Object, cases
from benchmarks.speed.series import Goal

_MOST = 1.1
"""Times the cost beside few that still counts as the same: a noisy machine makes as much of nothing."""


def scale(place: Place, options: Options, report: Report) -> None:
    with ExitStack() as stack:
        contenders = []
        for size in options.sizes:
            state = place.folder / f"state-{size}"
            state.mkdir()
            write_state(state / "cluster.yaml", size)
            contenders.append(stack.enter_context(place.ours(f"{size:,}", state)))
        ready = ", ".join(f"{one.name}: {one.ready:.1f} s, {one.usage.resident:.0f} MiB" for one in contenders)
        print(f"\nnodes, and as many queues and namespaces, with time to ready and memory: {ready}", flush=True)
        few, many = contenders[0].name, contenders[-1].name
        for case in cases():
            table = measured(place.wrk, contenders, case, options)
            show(f"{case.name}, by nodes", table)
            report.add("scale", {case.name: {name: runs.plain() for name, runs in table.items()}})
            report.judge(Goal(f"{case.name}: CPU, {many} to {few}", table[many].cost().over(table[few].cost()), _MOST))


def write_state(path: Path, size: int) -> None:
    """The guide's cluster, and more of each kind until there are so many; one JSON document a line, in one file."""
    base = guide()
    with path.open("wb") as file:
        for value in [*base, *_more(base, size)]:
            file.write(b"---\n" + orjson.dumps(value) + b"\n")


def _more(base: list[Object], size: int) -> Iterator[Object]:
    """Each floor has a node of its own to stand on, and each namespace a LocalQueue."""
    first = {value["kind"]: value for value in reversed(base)}
    for number in range(size - sum(value["kind"] == "Node" for value in base)):
        name = f"more-{number}"
        for kind in ("Namespace", "Node", "ClusterQueue", "LocalQueue"):
            value = copy.deepcopy(first[kind])
            value["metadata"]["name"] = name
            if kind == "LocalQueue":
                value["metadata"]["namespace"] = name
                value["spec"]["clusterQueue"] = name
            yield value
