"""Somebody at a terminal, who types what the README shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.cluster.asked import Asked
from tests.cluster.between import Between
from tests.cluster.controlplane import Cluster
from tests.cluster.server import ROOT

WIDTH = 100
_GENERATED = re.compile(r"-[0-9a-f]{6,10}-[0-9a-z]{5}\b")
_RENEWED = re.compile(r"(Lease \S+ was renewed .*, by) \S+")
_PROGRESS = re.compile(r"^\S+: \d+ of \d+ updated, |^waiting for \d+ to go: ")
"""How often a command looks, and so how many of these there are, is a matter of time."""


@dataclass(frozen=True)
class Person:
    """Floorkeeper's commands go by `between`, which notes what they ask."""

    cluster: Cluster
    between: Between
    asked: Asked = field(default_factory=Asked)

    def __post_init__(self) -> None:
        self.between.before = self.asked.note

    def types(self, line: str, code: int = 0, seconds: float = 120) -> str:
        """What the command prints, both streams in one. It must end with this exit code, in this time."""
        done = self.tries(line, seconds)
        assert done.returncode == code, f"{line}: exit code {done.returncode}, not {code}:\n{done.stdout}"
        return done.stdout

    def tries(self, line: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        program, *words = shlex.split(line)
        programs = {
            "floorkeeper": ([sys.executable, "-m", "webhook"], self.between.kubeconfig),
            "kubectl": ([self.cluster.kubectl], self.cluster.kubeconfig),
        }
        command, kubeconfig = programs[program]
        self.asked.command = words[0]
        environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("KUBE")},
            "KUBECONFIG": str(kubeconfig),
            "COLUMNS": str(WIDTH),
            "NO_COLOR": "1",
        }
        return subprocess.run(
            [*command, *words],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )


def quoted(line: str, output: str) -> str:
    """The command and what it printed, as the README shows them: in lines of some width, without what differs from run
    to run."""
    return "".join(f"{each}\n" for each in [*_command(line), *_lines(output)])


def _command(line: str) -> Iterator[str]:
    folded = textwrap.wrap(f"$ {line}", WIDTH - 2, subsequent_indent="    ", break_long_words=False)
    yield from (f"{each} \\" for each in folded[:-1])
    yield folded[-1]


def _lines(output: str) -> Iterator[str]:
    for line in output.rstrip().splitlines():
        if not _PROGRESS.search(line):
            line = _RENEWED.sub(r"\1 kueue-controller-manager", line)
            yield from _folded(_GENERATED.sub("-7c9d8b6f5-x2m4q", line))


def _folded(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
