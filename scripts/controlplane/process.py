"""Daemons that outlive the command that started them, and are stopped by pid without mistaking anyone else's."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Running:
    """One started process. `started` counts clock ticks since boot: pid and start time together are never reused.

    argv and health (a URL that answers 200 once it is ready; None: it has none) are what a restart needs.
    """

    name: str
    pid: int
    started: int
    argv: Sequence[str] = ()
    health: str | None = None


def read_boot_id() -> str:
    """Changes with every boot; start times are comparable only within one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def read_start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of the process; None when it is gone, or a zombie that nobody reaps."""
    try:
        # The command name, in parentheses, may itself hold spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, start = fields[0], fields[19]
    return None if state in "ZX" else int(start)


def start(
    name: str, argv: Sequence[str], health: str | None, log: Path, environment: Mapping[str, str], folder: Path
) -> Running:
    """Start a daemon: its own session, no terminal, all output to the log."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
    started = read_start_time(process.pid)
    # 0 matches no process: one that died at once is then simply not alive.
    return Running(name, process.pid, started or 0, argv, health)


def is_alive(process: Running) -> bool:
    """Whether this very process still runs."""
    # A child of ours that has ended stays a zombie until it is waited for.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return read_start_time(process.pid) == process.started


def stop(processes: Sequence[Running], grace: float) -> list[Running]:
    """Ask all of them to end, wait up to `grace` seconds, then kill; returns those that had to be killed."""
    for process in processes:
        _send(process, signal.SIGTERM)
    stubborn = _wait(processes, grace)
    for process in stubborn:
        _send(process, signal.SIGKILL)
    left = _wait(stubborn, 10)
    if left:
        names = ", ".join(f"{process.name} (pid {process.pid})" for process in left)
        raise RuntimeError(f"still running after SIGKILL: {names}")
    return stubborn


def _send(process: Running, number: signal.Signals) -> None:
    if is_alive(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _wait(processes: Sequence[Running], seconds: float) -> list[Running]:
    deadline = time.monotonic() + seconds
    left = [process for process in processes if is_alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [process for process in left if is_alive(process)]
    return left
