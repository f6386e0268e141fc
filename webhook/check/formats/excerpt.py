"""The lines of the input that text shows, with a caret under the place. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from webhook.check.formats.characters import visible, width
from webhook.check.result import Place
from webhook.sources.nodes import Refused
from webhook.sources.text import decode

_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # where YAML 1.1, and so libyaml, ends a line
_TAB = "    "
_LONGEST = 120  # characters of a line that are shown
_BEFORE = 40  # of them before the place, in a line that is longer


class Excerpts:
    """Lines by place. The file that was asked for last is kept, since findings come sorted by file."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        self._texts = texts
        self._file = ""
        self._lines: list[str] = []

    def at(self, place: Place) -> tuple[str, int] | None:
        """The line as a screen shows it, and the columns before the caret; None if there is no such line,
        or nothing on it."""
        if place.file != self._file:
            self._file, self._lines = place.file, _lines(self._texts.get(place.file, b""))
        line = self._lines[place.line - 1] if 0 < place.line <= len(self._lines) else ""
        if not line.strip():
            return None
        column = min(max(place.column - 1, 0), len(line))
        start = max(0, column - _BEFORE) if len(line) > _LONGEST else 0
        end = start + _LONGEST
        before = ("…" if start else "") + _shown(line[start:column])
        after = _shown(line[column:end]) + ("…" if end < len(line) else "")
        return before + after, width(before)


def _lines(data: bytes) -> list[str]:
    try:
        return _BREAK.split(decode(data))
    except Refused:
        return []


def _shown(text: str) -> str:
    return visible(text.replace("\t", _TAB))
