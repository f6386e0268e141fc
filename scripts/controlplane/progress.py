"""What the person at the terminal sees, on stderr; stdout is kept for the one line that scripts read."""

import contextlib
import sys
import time
from pathlib import Path


class ClusterError(Exception):
    """Something the caller can act on: the message says what is wrong, where, and what to do."""


class Progress:
    """Lines on stderr, each with the seconds since the command began."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, message: str) -> None:
        elapsed = time.monotonic() - self._began
        # Nobody reading (`up … | head`) is no reason to break off, least of all in the middle of a clean-up.
        with contextlib.suppress(BrokenPipeError):
            print(f"cluster {elapsed:6.1f}s  {message}", file=sys.stderr, flush=True)


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log, indented so that they stand apart from our own message."""
    try:
        # Logs grow to megabytes; only the end is of use here.
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 64 * 1024))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"    (no log: {error})"
    found = text.splitlines()[-lines:]
    return "\n".join(f"    {line[:400]}" for line in found) if found else "    (the log is empty)"
