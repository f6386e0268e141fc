"""YAML nodes: composed once, built into plain objects, and asked later where a field was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from webhook.sources.scalars import MAPPING, PLAIN, SEQUENCE, STRING, ScalarError, name, scalar, unread_tag

if TYPE_CHECKING or not yaml.__with_libyaml__:
    from yaml import SafeLoader as _Base
else:
    from yaml import CSafeLoader as _Base

DEEPEST = 200
"""Levels of nesting. A CustomResourceDefinition, the deepest thing that people write, has some 60."""

MOST_COPIES = 100_000
"""Nodes of one file that aliases and merge keys may repeat. go-yaml has a limit of this kind (excessive aliasing)."""

_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong at one place of a file, and after a semicolon what to do. Lines and columns count from 1.

    Line 0 stands for the file or folder as a whole.
    """

    file: str
    line: int
    column: int
    text: str
    foreign: bool = False
    """The document is no Kubernetes object and is not meant to be one, like a Helm values file."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


class Refused(Exception):
    """The rest of a text cannot be read. `index` is the character from which on another document may begin."""

    def __init__(self, line: int, column: int, text: str, index: int | None = None) -> None:
        super().__init__(text)
        self.line, self.column, self.text, self.index = line, column, text, index


class _Loader(_Base):
    """Composes, and leaves it to scalars.py what a plain scalar is."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:  # noqa: ARG002
        if kind is yaml.ScalarNode:
            return PLAIN if implicit[0] else STRING
        return MAPPING if kind is yaml.MappingNode else SEQUENCE


def compose(text: str) -> Iterator[yaml.Node]:
    """The root node of each document, as they come. Raises Refused where the text is not YAML."""
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                if node is not None:
                    yield node
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text) from None
    except yaml.YAMLError as error:
        raise Refused(0, 0, f"is not YAML: {_line(error)}; correct it") from None
    except (ValueError, OverflowError) as error:
        # PyYAML without libyaml lets an escape beyond Unicode come this far.
        raise Refused(0, 0, f"is not YAML: {_line(error)}; correct it") from None
    except RecursionError:
        raise Refused(0, 0, _TOO_DEEP) from None


def _syntax(error: yaml.MarkedYAMLError, text: str) -> Refused:
    # A key or a quote without an end is noticed a line or more below the place where it begins.
    endless = error.context in ("while scanning a simple key", "while scanning a quoted scalar")
    mark = (error.context_mark if endless else None) or error.problem_mark or error.context_mark
    if mark is None:
        return Refused(0, 0, f"is not YAML: {_line(error)}; correct it")
    line, column = mark.line + 1, mark.column + 1
    index = min(each.index for each in (error.context_mark, error.problem_mark) if each)
    near = {mark.line - 1, mark.line} | ({error.context_mark.line} if error.context_mark else set())
    lines = text.split("\n")
    if any("{{" in lines[index] for index in near if 0 <= index < len(lines)):
        return Refused(line, column, TEMPLATE, index)
    if "nesting depth" in (error.problem or ""):
        return Refused(line, column, _TOO_DEEP, index)
    if "duplicate anchor" in (error.context or ""):
        return Refused(line, column, "the anchor was there before in this document; give it another name", index)
    at = lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""
    fix = "indent with spaces, not tabs" if at == "\t" else "correct it"
    what = f"{error.context}: {error.problem}" if error.context else error.problem
    return Refused(line, column, f"is not YAML at column {column}: {what}; {fix}", index)


TEMPLATE = "looks like an unrendered Helm template ('{{'); render it first, for instance with `helm template`"
_TOO_DEEP = f"is nested deeper than {DEEPEST} levels; no Kubernetes object is"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


class Builder:
    """Builds plain objects from the nodes of one file, and adds what is wrong with them to `problems`.

    Every alias becomes a copy of its own, so that whoever edits one place of an object changes one place.
    """

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.problems = problems
        self.offset = 0
        """Lines of the file before the text that is being read."""

        self.file = file
        self._copies = 0
        self._built: set[int] = set()
        self._open: set[int] = set()

    def build(self, root: yaml.Node) -> Any:
        """The value of a document. Raises Refused if it is not worth going on."""
        self._built.clear()
        self._open.clear()
        try:
            return self._value(root, copying=False)
        except RecursionError:
            raise _refused(root, _TOO_DEEP) from None

    def refuse(self, refused: Refused) -> None:
        line = refused.line + self.offset if refused.line else 0
        self.problems.append(Problem(self.file, line, refused.column, refused.text))

    def note(self, node: yaml.Node, text: str, foreign: bool = False) -> None:
        mark = node.start_mark
        self.problems.append(Problem(self.file, mark.line + 1 + self.offset, mark.column + 1, text, foreign))

    def _value(self, node: yaml.Node, copying: bool) -> Any:
        if copying:
            self._copies += 1
            if self._copies > MOST_COPIES:
                raise _refused(node, f"aliases repeat more than {MOST_COPIES:,} values; write them out where needed")
        if isinstance(node, yaml.ScalarNode):
            if node.tag == STRING:
                return node.value
            try:
                return scalar(node.tag, node.value)
            except ScalarError as error:
                self.note(node, str(error))
                return None
        identity = id(node)
        if identity in self._open:
            raise _refused(node, "holds an alias of itself; write the value out")
        if len(self._open) >= DEEPEST:
            raise _refused(node, _TOO_DEEP)
        copying = copying or identity in self._built
        self._built.add(identity)
        self._open.add(identity)
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = self._mapping(node, copying)
        else:
            value = [self._value(item, copying) for item in node.value]
        if node.tag not in (MAPPING, SEQUENCE):
            self.note(node, unread_tag(node.tag))
        self._open.remove(identity)
        return value

    def _mapping(self, node: yaml.MappingNode, copying: bool) -> dict[str, Any]:
        value: dict[str, Any] = {}
        written: dict[str, int] = {}
        for key, item in node.value:
            if _is_merge(key):
                # As go-yaml v2 does it, a merge key overrides the keys above it and is overridden by those below.
                for source in reversed(_sources(item)):
                    if isinstance(source, yaml.MappingNode):
                        value.update(self._value(source, copying))
                    else:
                        self.note(source, "a merge key (<<) takes mappings only; give it the alias of a mapping")
                continue
            field = self._name(node, key)
            line = key.start_mark.line + 1 + self.offset
            if field is None:
                continue
            if field in written:
                self.note(key, f'key "{field}" is there twice, first on line {written[field]}; remove one of them')
            written[field] = line
            value[field] = self._value(item, copying)
        return value

    def _name(self, parent: yaml.Node, key: yaml.Node) -> str | None:
        if isinstance(key, yaml.ScalarNode):
            try:
                return name(key.tag, key.value)
            except ScalarError as error:
                self.note(key, str(error))
                return None
        inner, outer = key.start_mark, parent.start_mark
        braces = isinstance(key, yaml.MappingNode) and (inner.line, inner.column) == (outer.line, outer.column + 1)
        self.note(key, TEMPLATE if braces else "a key must be a name, and is a collection; quote it")
        return None


def _refused(node: yaml.Node, text: str) -> Refused:
    return Refused(node.start_mark.line + 1, node.start_mark.column + 1, text)


def _is_merge(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and key.tag in (PLAIN, _MERGE)


def _sources(value: yaml.Node) -> list[yaml.Node]:
    return value.value if isinstance(value, yaml.SequenceNode) else [value]


def child(node: yaml.Node, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """Where a field or list item is written (its key, or the item itself), and its value; None if there is no such."""
    if isinstance(step, int):
        if isinstance(node, yaml.SequenceNode) and 0 <= step < len(node.value):
            return node.value[step], node.value[step]
        return None
    if not isinstance(node, yaml.MappingNode):
        return None
    for key, value in reversed(node.value):
        if _is_merge(key):
            for source in _sources(value):
                found = child(source, step)
                if found is not None:
                    return found
        elif isinstance(key, yaml.ScalarNode) and name(key.tag, key.value) == step:
            return key, value
    return None
