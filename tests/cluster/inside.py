"""Commands in this process, for a start of Python takes longer than what most of them do."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO

import typer

from webhook.cli import main


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def ended(run: Callable[[], object]) -> Ended:
    """What it prints, and the exit code that it ends with."""
    out, err, code = StringIO(), StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            run()
        except typer.Exit as end:
            code = end.exit_code
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return Ended(code, out.getvalue(), err.getvalue())


def typed(*words: str) -> Ended:
    return ended(lambda: main(words))


def press_ctrl_c() -> None:
    """For what runs in the main thread, which wakes from whatever it waits for."""
    identity = threading.main_thread().ident
    assert identity is not None
    signal.pthread_kill(identity, signal.SIGINT)
