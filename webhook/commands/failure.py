"""How a command fails."""

from __future__ import annotations

import typer

USAGE = 2
"""Exit code: what the command line says cannot be done."""


class Failure(typer.TyperException):
    """One clear sentence on stderr, and an exit code. `is_usage`: the command line itself is wrong."""

    def __init__(self, message: str, code: int = USAGE, *, is_usage: bool = False) -> None:
        super().__init__(message)
        self.exit_code = code
        self.is_usage = is_usage
