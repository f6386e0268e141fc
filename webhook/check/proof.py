"""One file with new values, proven: read again, it holds the objects that it should, and no other has changed."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from webhook.check.layout import Splice, spliced
from webhook.check.rewrite import Aliases, Rewrite, Unwritable, same
from webhook.sources.documents import Document, documents_of, uncollected
from webhook.sources.nodes import Problem
from webhook.sources.text import decode, fragments

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_NOT_YAML = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)"
    "|[\x7f-\x9f\u2028\u2029\ufffe\uffff]",
    re.DOTALL,
)
"""Every escape in JSON text, and every character that YAML would not read or not leave as it is."""


_UNREADABLE = "not all of the file can be read"


@dataclass(slots=True)
class Target:
    """An object and what it has to become."""

    index: int
    """Which object of the file it is, from 0."""

    wanted: Any
    reason: str = ""
    """Why it is not what is wanted, once that is known."""

    ways: tuple[Aliases, ...] = tuple(Aliases)
    """What is still to be tried, the first first."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a text holds. What cannot be read of it is counted."""

    documents: Sequence[Document]
    problems: int


def content_of(data: bytes, file: str) -> Content:
    problems: list[Problem] = []
    with uncollected():
        return Content(list(documents_of(data, file, problems)), len(problems))


def proven(file: str, data: bytes, content: Content, targets: Sequence[Target]) -> bytes:
    """The text with all the targets that it can have; the others get a reason. `content` is that of `data`.

    Aliases make it hard to foresee what a change of text changes. So ways are tried until the proof holds, each
    object that is wrong going on to its next.
    """
    if not targets:
        return data
    text = decode(data)
    try:
        source = _Source(text, file, content.documents, targets)
    except yaml.YAMLError:
        for target in targets:
            target.reason = _UNREADABLE
        return data
    while True:
        splices: list[Splice] = []
        tried: list[Target] = []
        for target in targets:
            while not target.reason:
                try:
                    splices += source.splices(target)
                except Unwritable as error:
                    _fail(target, str(error))
                else:
                    tried.append(target)
                    break
        if not tried:
            return data
        after = _encoded(spliced(text, splices), data)
        wrong = _wrong(content, content_of(after, file), {target.index: target.wanted for target in tried})
        if not wrong:
            return after
        for target in tried:
            if content.documents[target.index].number in wrong:
                _fail(target, "its text cannot be changed for certain without changing more")


def _fail(target: Target, reason: str) -> None:
    target.ways = target.ways[1:]
    if not target.ways:
        target.reason = reason


def _wrong(before: Content, after: Content, wanted: Mapping[int, Any]) -> set[int]:
    """The numbers of the YAML documents that hold an object that is not what it should be."""
    if (len(before.documents), before.problems) != (len(after.documents), after.problems):
        return {document.number for document in before.documents}
    return {
        old.number
        for index, (old, new) in enumerate(zip(before.documents, after.documents, strict=True))
        if old.number != new.number or not same(wanted.get(index, old.value), new.value)
    }


def _encoded(text: str, like: bytes) -> bytes:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if like.startswith(mark):
            return mark + text.encode(encoding)
    return text.encode()


class _Source:
    """The text in its pieces, which are one of YAML, or one for each value of a JSON stream."""

    def __init__(self, text: str, file: str, documents: Sequence[Document], targets: Sequence[Target]) -> None:
        self._documents = documents
        read: Sequence[Document] = documents
        pieces = [(0, text)]
        self._is_yaml = fragments(text) == pieces
        if not self._is_yaml:
            # Nodes know their index in the text that they were composed from, and that of JSON is another: where it
            # is not YAML, characters were replaced. Here the same is done with as many characters as there were.
            pieces = list(_located(_NOT_YAML.sub(_as_long, text)))
            read = [document for _, piece in pieces for document in documents_of(piece.encode(), file, [])]
        self._numbers = {target.index: documents[target.index].number if len(pieces) > 1 else 1 for target in targets}
        self._starts = [start for start, _ in pieces]
        self._rewrites = {number: Rewrite(pieces[number - 1][1]) for number in set(self._numbers.values())}
        self._roots = {index: read[index].root for index in sorted(self._numbers)}

    def splices(self, target: Target) -> Iterator[Splice]:
        """Raises Unwritable."""
        if self._is_yaml and self._documents[target.index].offset:
            # It comes behind something that is not YAML, and was composed on its own.
            raise Unwritable(_UNREADABLE)
        number, old = self._numbers[target.index], self._documents[target.index].value
        found = self._rewrites[number].splices(self._roots[target.index], old, target.wanted, target.ways[0])
        start = self._starts[number - 1]
        return (Splice(start + splice.start, start + splice.end, splice.text) for splice in found)


def _as_long(match: re.Match[str]) -> str:
    found = match[0]
    # Two keys may differ in nothing else, so the character depends on the place.
    return found if found[0] == "\\" and len(found) == 2 else len(found) * chr(0xE000 + match.start() % 6000)


def _located(text: str) -> Iterator[tuple[int, str]]:
    end = 0
    for _, piece in fragments(text):
        start = text.index(piece, end)
        end = start + len(piece)
        yield start, piece
