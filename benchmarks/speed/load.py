"""Load from wrk: as many requests as a server answers over some connections, each with a number of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.speed.review import MARKER
from scripts.controlplane.debian import find_library, find_program
from scripts.controlplane.progress import Progress

_SCRIPT = Path(__file__).with_name("load.lua")
_PATIENCE = 30.0
_APART = 10_000_000
"""Requests that one run may send before it would repeat the numbers of the next."""


@dataclass(frozen=True, slots=True)
class Load:
    """What came of one run. Times in seconds; `failed` counts what was not answered with success."""

    requests: int
    seconds: float
    failed: int
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


class Wrk:
    """wrk out of Debian's package, whose library is not installed either."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self._program = find_program("wrk", "wrk", progress)
        self._libraries = find_library("libluajit-5.1-2", progress)
        self._folder = folder
        self._runs = count()

    def press(self, url: str, request: bytes, connections: int, seconds: int) -> Load:
        """A run of whole seconds. `request` is head and body, with MARKER wherever the number goes."""
        run = next(self._runs)
        file = self._folder / "request"
        file.write_bytes(request)
        command = [str(self._program), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s"]
        result = subprocess.run(
            [*command, "-s", str(_SCRIPT), url, "--", str(file), MARKER, str(run * _APART)],
            env=os.environ | {"LD_LIBRARY_PATH": str(self._libraries)},
            capture_output=True,
            text=True,
            timeout=seconds + _PATIENCE,
            check=False,
        )
        if result.returncode != 0:
            raise RuntimeError(f"wrk: {result.stderr.strip() or result.stdout.strip()}")
        found = json.loads(result.stdout.strip().splitlines()[-1])
        if not found["requests"]:
            raise RuntimeError(f"{url} answered nothing in {seconds} s: {result.stdout.strip()}")
        micro = 1e-6
        return Load(
            found["requests"],
            found["microseconds"] * micro,
            found["failed"],
            found["p50"] * micro,
            found["p99"] * micro,
        )
