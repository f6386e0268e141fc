"""A unified diff of files, as `git apply` takes it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

_AROUND = 3
"""Lines that are shown before and behind a change."""

_UNUSUAL = re.compile(r'["\\\x00-\x1f\x7f]')


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines `start` to `end` of the old text, from 0, have become those of the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


def diff_of(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """What makes the files of `after` of those in `before`; `git apply` takes it in the folder where this was run.

    Bytes that are not UTF-8 become surrogate escapes: write it out with errors="surrogateescape".
    """
    changed = (file for file in sorted(after) if after[file] != before[file])
    return "".join(line for file in changed for line in _diff(file, _lines(before[file]), _lines(after[file])))


def _diff(file: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    yield f"--- {_name('a', file)}\n"
    yield f"+++ {_name('b', file)}\n"
    for hunk in _hunks(list(_changes(old, new))):
        first, last = hunk[0], hunk[-1]
        start, end = max(first.start - _AROUND, 0), min(last.end + _AROUND, len(old))
        new_start, new_end = first.new_start - (first.start - start), last.new_end + (end - last.end)
        yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"
        for change in hunk:
            yield from _marked(" ", old[start : change.start])
            yield from _marked("-", old[change.start : change.end])
            yield from _marked("+", new[change.new_start : change.new_end])
            start = change.end
        yield from _marked(" ", old[start:end])


def _name(side: str, file: str) -> str:
    """A name as git writes it: relative if the file is below, and quoted if it holds what would end it."""
    path, here = os.path.abspath(file), os.path.join(os.getcwd(), "")
    name = f"{side}/{path.removeprefix(here).lstrip('/')}"
    if _UNUSUAL.search(name):
        return '"' + _UNUSUAL.sub(lambda match: f"\\{ord(match[0]):03o}", name) + '"'
    return f"{name}\t" if " " in name else name


def _lines(data: bytes) -> list[str]:
    """Split at line feeds alone: to git, a carriage return is a part of its line."""
    return re.findall("[^\n]*\n|[^\n]+", data.decode("utf-8", "surrogateescape"))


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[_Change]:
    """Goes through both at once. difflib would take minutes for a file of many alike objects."""
    at, new_at = 0, 0
    while at < len(old) or new_at < len(new):
        if old[at : at + 1] == new[new_at : new_at + 1]:
            at, new_at = at + 1, new_at + 1
            continue
        end, new_end = next(
            (at + gone, new_at + size - gone)
            for size in count(1)
            for gone in range(size + 1)
            if old[at + gone : at + gone + 1] == new[new_at + size - gone : new_at + size - gone + 1]
        )
        yield _Change(at, end, new_at, new_end)
        at, new_at = end, new_end


def _hunks(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Changes whose surroundings touch are shown as one."""
    hunk: list[_Change] = []
    for change in changes:
        if hunk and change.start - hunk[-1].end > 2 * _AROUND:
            yield hunk
            hunk = []
        hunk.append(change)
    yield hunk


def _range(start: int, end: int) -> str:
    """Lines count from 1; of none, the line before them is named."""
    return f"{start + 1 if end > start else start},{end - start}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
