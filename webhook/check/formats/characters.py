"""Characters that a terminal, a log or a file format must not get as they are. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

_UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")
"""Controls, line breaks of every kind, what turns the direction of writing round, and what is no character at all."""

_UNESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
"""Those of them that JSON takes as they are."""

_SURROGATES = re.compile("[\ud800-\udfff]")
"""Halves of a pair: bytes of a file name that are no UTF-8. They cannot be written as UTF-8."""


def visible(text: str) -> str:
    """The text on one line, with an escape such as \\x1b for whatever would act on the screen and not show."""
    return _UNSEEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def width(text: str) -> int:
    """How many columns of a terminal a visible text takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def json_text(value: Any) -> str:
    """A value as JSON that can be written as UTF-8, and shown on a screen."""
    text = _SURROGATES.sub("\ufffd", json.dumps(value, indent=2, ensure_ascii=False))
    return _UNESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"
