"""The text of a manifest file: what kubectl accepts, brought into a form that libyaml reads without loss."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator

from webhook.sources.nodes import Refused

LARGEST = 32 * 2**20
"""Bytes of one file. The API server itself takes no request above 3 MiB."""

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What YAML 1.1 allows nowhere. libyaml takes NUL for the end of the text and would drop the rest without a word."""

_JSON_ALONE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)"
    "|[\x7f-\x9f\u2028\u2029\ufffe\uffff]",
    re.DOTALL,
)
"""Every escape in JSON text, and every character that JSON strings may hold and YAML strings may not, or would fold."""

_SEPARATOR = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)

_JSON_SPACE = " \t\n\r"


def decode(data: bytes) -> str:
    """UTF-8, or UTF-16 with a byte order mark, as kubectl reads them. Raises Refused."""
    if len(data) > LARGEST:
        raise Refused(0, 0, f"is larger than {LARGEST // 2**20} MiB; split it")
    # Its mark begins like that of UTF-16. Without one, a character of ASCII shows it.
    if data[:4] in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE) or data[:4].count(0) == 3:
        raise Refused(1, 1, "is UTF-32; save the file as UTF-8")
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, "replace").count("\n") + 1
        raise Refused(line, 1, f"is not {encoding[:6].upper().rstrip('-')}; save the file as UTF-8") from None


def fragments(text: str) -> list[tuple[int, str]]:
    """The texts to compose one by one, each with the number of lines before it. Raises Refused.

    YAML is one text. JSON is one text for each value, since several may follow one another without a separator; line
    numbers stay right, columns behind a rewritten character do not.
    """
    values = _json_values(text)
    if values:
        return values
    bad = _UNPRINTABLE.search(text)
    if bad is None:
        return [(0, text)]
    line, column = text.count("\n", 0, bad.start()) + 1, bad.start() - text.rfind("\n", 0, bad.start())
    if bad[0] == "\0":
        raise Refused(line, column, "holds a NUL character; save the file as UTF-8 text")
    raise Refused(line, column, f"holds the control character U+{ord(bad[0]):04X}; remove it")


def documents_after(text: str, index: int) -> Iterator[tuple[int, str]]:
    """The YAML documents that begin behind a character, each with the number of lines before it.

    They are told by their separators alone, as kubectl does it, since what is before them may be anything.
    """
    found = _SEPARATOR.search(text, index)
    lines, start = 0, 0
    while found:
        begin = found.start()
        found = _SEPARATOR.search(text, found.end())
        lines += text.count("\n", start, begin)
        start = begin
        yield lines, text[begin : found.start() if found else len(text)]


def _json_values(text: str) -> list[tuple[int, str]]:
    """Each value of a JSON stream as YAML with its first line, or nothing if the text is not JSON throughout."""
    values = []
    lines = position = 0
    decoder = json.JSONDecoder()
    while position < len(text):
        start = position
        while start < len(text) and text[start] in _JSON_SPACE:
            start += 1
        if start == len(text):
            break
        # A YAML flow mapping begins in the same way, and is then read as YAML.
        if text[start] != "{":
            return []
        lines += text.count("\n", position, start)
        try:
            _, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return []
        values.append((lines, _JSON_ALONE.sub(_as_yaml, text[start:position])))
        lines += text.count("\n", start, position)
    return values


def _as_yaml(match: re.Match[str]) -> str:
    found = match[0]
    if found[0] != "\\":
        return f"\\u{ord(found):04x}"
    if len(found) == 12:
        return f"\\U{0x10000 + ((int(found[2:6], 16) & 0x3FF) << 10) + (int(found[8:], 16) & 0x3FF):08x}"
    # Half a surrogate pair is no character; Go reads it as the replacement character.
    return "\\ufffd" if len(found) == 6 else found
