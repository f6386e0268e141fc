"""The terminal: how wide it is, and its colours."""

from __future__ import annotations

import os
import shutil
import sys

from webhook.report import Paint, Style, plain

_WIDEST = 100  # columns; longer lines are hard to read
_NARROWEST = 40

_CODES = {
    Style.PATCHED: "1;33",
    Style.ALLOWED: "1;32",
    Style.DENIED: "1;31",
    Style.WARNING: "33",
    Style.ADDED: "32",
    Style.REMOVED: "31",
    Style.HUNK: "36",
    Style.NAME: "1",
    Style.ASIDE: "2",
}


def width() -> int:
    """Columns to fill."""
    columns = shutil.get_terminal_size((_WIDEST, 24)).columns if sys.stdout.isatty() else _WIDEST
    return max(_NARROWEST, min(columns, _WIDEST))


def painter() -> Paint:
    """Colours on a terminal that has them, unless NO_COLOR is set (no-color.org)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return plain
    return _paint


def _paint(text: str, style: Style) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m"
