"""YAML as a tree that remembers its lines.

The tree is built from the parser's events, so that everything is bounded before it is built: depth, number of values,
what aliases expand to. Plain scalars are read by YAML 1.1, as kubectl does, but nothing is guessed: what YAML takes for
something else than text, a whole number or null stays a `Plain` with its raw text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from webhook.kube.objects import Path, show_path
from webhook.policy.problem import Problem
from webhook.policy.syntax import shown

LONGEST = 2**20
"""Bytes of a policy file."""

_DEEPEST = 16  # twice what a policy needs
_MOST_VALUES = 50_000  # keys and values, with aliases written out
_LONGEST_STEP = 60  # characters of one key in a path

# libyaml is ten times as fast; a PyYAML that was built without it still works.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVERS = yaml.SafeLoader.yaml_implicit_resolvers  # (tag, pattern), by first character
_TEXT_TAG = "tag:yaml.org,2002:str"
_TEXT_TAGS = frozenset({_TEXT_TAG, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value", "tag:yaml.org,2002:merge"})
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)  # no octal, no 1:30, nothing beyond 64 bits
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # libyaml's, so that all lines are counted alike
_TAG_DIRECTIVE = re.compile(r"^%TAG", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Plain:
    """An unquoted scalar that YAML 1.1 takes for a boolean, a float, an octal number and the like, as written."""

    text: str


@dataclass(frozen=True, slots=True)
class Node:
    """A value, and the line (from 1) where its key, its list entry or the document begins."""

    line: int
    value: Value


Value: TypeAlias = str | int | Plain | list[Node] | dict[str, Node] | None


def plain(value: Value) -> Any:
    """The value without its lines."""
    if isinstance(value, dict):
        return {key: plain(node.value) for key, node in value.items()}
    if isinstance(value, list):
        return [plain(node.value) for node in value]
    return value


def line_of(root: Node, path: Path) -> int:
    """The line of the value at `path`, or of the last step on the way that exists."""
    node = root
    for step in path:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[str(step)]
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        else:
            break
    return node.line


def place_of(path: Path) -> str:
    """The path in words, on one line whatever its keys hold; 'document' for the whole."""
    return show_path(tuple(_step(step) for step in path)) or "document"


def _step(step: str | int) -> str | int:
    if isinstance(step, int):
        return step
    text = step if len(step) <= _LONGEST_STEP else step[:_LONGEST_STEP] + "…"
    return text if text.isprintable() else repr(text)[1:-1]


def parse_document(text: str) -> tuple[Node | None, list[Problem]]:
    """The tree of a text that holds one YAML document, and what is wrong with it as YAML.

    None in place of the tree: the problems left nothing to go on with.
    """
    if len(text) > LONGEST or len(text.encode("utf-8", "surrogatepass")) > LONGEST:
        return None, [too_large()]
    odd = _FORBIDDEN.search(text)
    if odd is not None:
        what = f"has the character U+{ord(odd.group()):04X}, which YAML forbids; remove it"
        return None, [_at_offset(text, odd.start(), what)]
    directive = _TAG_DIRECTIVE.search(text)
    if directive is not None:
        return None, [_at_offset(text, directive.start(), "has a %TAG directive; leave tags out")]
    reader = _Reader(text)
    try:
        root = reader.document()
    except _Unusable as unusable:
        return None, [*reader.problems, unusable.problem]
    except yaml.YAMLError as error:
        return None, [*reader.problems, _syntax_problem(error, text)]
    return root, reader.problems


def too_large() -> Problem:
    return Problem(1, "file", f"is larger than {LONGEST:,} bytes; shorten it, and check that it is the right file")


def _at_offset(text: str, offset: int, what: str) -> Problem:
    lines = _LINE_BREAK.split(text[:offset])
    return Problem(len(lines), f"column {len(lines[-1]) + 1}", what)


def _syntax_problem(error: yaml.YAMLError, text: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark and "".join(_LINE_BREAK.split(text)[mark.line : mark.line + 1])[mark.column :].startswith("\t"):
        # libyaml has several sentences for it, and a tab itself is not to be seen.
        return Problem(mark.line + 1, f"column {mark.column + 1}", "is a tab; YAML wants spaces")
    began = getattr(error, "context_mark", None)
    words = [str(getattr(error, "problem", None) or "cannot be read"), str(getattr(error, "context", None) or "")]
    if words[1] and began is not None:
        words.append(f"that begins in line {began.line + 1}")
    what = f"is no YAML: {' '.join(filter(None, words))}; correct it here or just above"
    return Problem(mark.line + 1 if mark else 1, f"column {mark.column + 1}" if mark else "document", what)


class _Unusable(Exception):
    """Reading cannot go on."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


class _Reader:
    """One pass over the events of one text. Raises _Unusable and yaml.YAMLError; lesser problems are gathered."""

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=_LOADER))
        self._anchors: dict[str, tuple[Value, int]] = {}
        self._count = 0

    def document(self) -> Node:
        empty = Problem(1, "document", "is empty; begin with apiVersion: floorkeeper.io/v1alpha1 and kind: Policy")
        next(self._events)  # the stream's start
        if isinstance(next(self._events), yaml.StreamEndEvent):
            raise _Unusable(empty)
        event = next(self._events)
        root = Node(_line(event), self._value(event, ()))
        next(self._events)  # the document's end
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            what = "is a second document; keep one policy in one file"
            raise _Unusable(Problem(_line(event), "document", what))
        if root.value is None:
            raise _Unusable(empty)
        return root

    def _value(self, event: Any, path: Path) -> Value:
        self._spend(1, event, path)
        if len(path) > _DEEPEST:
            raise _Unusable(Problem(_line(event), place_of(path[:3]), f"is nested deeper than {_DEEPEST}; flatten it"))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        before = self._count
        self._check_tag(event, path)
        value: Value
        if isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(path)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(path)
        else:
            value = _scalar(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._count - before)
        return value

    def _spend(self, values: int, event: Any, path: Path) -> None:
        self._count += values
        if self._count > _MOST_VALUES:
            what = f"brings the file to more than {_MOST_VALUES:,} values; shorten it, or use fewer aliases"
            raise _Unusable(Problem(_line(event), place_of(path), what))

    def _alias(self, event: Any, path: Path) -> Value:
        if event.anchor not in self._anchors:
            # An anchor is known once its value is complete, so that no value can hold itself.
            what = f"is the alias *{event.anchor} without an anchor above; write the value out"
            raise _Unusable(Problem(_line(event), place_of(path), what))
        value, size = self._anchors[event.anchor]
        self._spend(size, event, path)
        return value

    def _check_tag(self, event: Any, path: Path) -> None:
        if event.tag not in (None, "!", _TEXT_TAG):
            self._report(event, path, f"has the tag {shown(event.tag)}; leave it out")

    def _sequence(self, path: Path) -> list[Node]:
        entries: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            entries.append(Node(_line(event), self._value(event, (*path, len(entries)))))
        return entries

    def _mapping(self, path: Path) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, path)
            value = self._value(next(self._events), (*path, key or ""))
            if key is None:
                continue
            if key in entries:
                what = f"is there twice, first in line {entries[key].line}; keep one"
                self._report(event, (*path, key), what)
            else:
                entries[key] = Node(_line(event), value)
        return entries

    def _key(self, event: Any, path: Path) -> str | None:
        """The key, or None for one that was reported and is left out."""
        key = self._value(event, (*path, ""))
        if not isinstance(event, yaml.ScalarEvent):
            self._report(event, path, "has a key that is no string; write keys out as text")
        elif event.implicit[0] and event.value == "<<":
            self._report(event, (*path, "<<"), "merge keys are not supported; write the keys out")
        elif not isinstance(key, str):
            self._report(event, (*path, event.value), "the key must be a string; put it in quotes")
        else:
            return key
        return None

    def _report(self, event: Any, path: Path, what: str) -> None:
        self.problems.append(Problem(_line(event), place_of(path), what))


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _scalar(event: Any) -> str | int | Plain | None:
    text = str(event.value)
    if not event.implicit[0]:
        return text
    # A date stays text: `until` reads it, and a label may look like one.
    tag = next((tag for tag, pattern in _RESOLVERS.get(text[:1], ()) if pattern.match(text)), _TEXT_TAG)
    if tag in _TEXT_TAGS:
        return text
    if tag == "tag:yaml.org,2002:null":
        return None
    return int(text) if _INTEGER.fullmatch(text) else Plain(text)
