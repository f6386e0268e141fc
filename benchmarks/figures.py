"""Figures, and the machine that they are of."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

MICRO, MILLI = 1e6, 1e3
UNITS = {MICRO: "µs", MILLI: "ms"}


def machine() -> str:
    """Cores, processor, Python and how busy it is."""
    cores = len(os.sched_getaffinity(0))
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return f"{cores} cores ({model}), Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"


@dataclass(frozen=True, slots=True)
class Run:
    """The times of the same call over and over, in seconds: on the processor, and on the clock."""

    cpu: Sequence[float]
    wall: Sequence[float]


def timed(calls: Iterable[Callable[[], object]]) -> Run:
    """Each call once, without what it takes to come by it."""
    cpu, wall = [], []
    gc.collect()
    for call in calls:
        began, ran = time.perf_counter(), time.thread_time()
        call()
        cpu.append(time.thread_time() - ran)
        wall.append(time.perf_counter() - began)
    return Run(cpu, wall)


@dataclass(frozen=True, slots=True)
class Figure:
    """What some runs come to, in seconds. The p99 are of the run that was disturbed the least."""

    p50: float
    mean: float
    p99: float
    clock_p99: float

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Figure:
        return cls(
            median(median(run.cpu) for run in runs),
            median(sum(run.cpu) / len(run.cpu) for run in runs),
            min(_p99(run.cpu) for run in runs),
            min(_p99(run.wall) for run in runs),
        )


def _p99(taken: Sequence[float]) -> float:
    return sorted(taken)[len(taken) * 99 // 100]


def show_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """The first column to the left, the others to the right."""
    table = [tuple(head), *map(tuple, rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(head))]
    for row in table:
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join([row[0].ljust(widths[0]), *rest]).rstrip() if first else "", flush=True)
