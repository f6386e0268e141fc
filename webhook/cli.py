"""The command `floorkeeper`: which of its commands is meant, before anything is imported that only the others need."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_INTERRUPTED = 130  # exit code: 128 and the number of SIGINT


def main(words: Sequence[str] = ()) -> None:
    """The entry point of the command line (`words`, or sys.argv). Ends with the command's exit code."""
    try:
        sys.exit(_run(list(words) or sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _run(words: list[str]) -> int:
    if words[:1] == ["check"]:
        # CI waits for it, often for one file: typer alone would take longer than the whole of it.
        from webhook.check.command import run as run_check

        return run_check(words[1:])
    from webhook.commands import run

    return run(words)
