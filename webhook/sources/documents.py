"""Manifests as text: YAML or JSON files become objects that know where each of their fields was written."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from webhook.kube.objects import Path as FieldPath
from webhook.sources.nodes import Builder, Problem, Refused, child, compose
from webhook.sources.source import SourceError
from webhook.sources.text import LARGEST, decode, documents_after, fragments

_TYPE = ("apiVersion", "kind")
_MISSPELT = {field.lower(): field for field in _TYPE}


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """One object of a file: an item of a List is a document of its own."""

    value: dict[str, Any]
    """The object. apiVersion and kind are strings and not empty; nothing else is checked."""

    file: str
    line: int
    """The line on which the object begins, from 1."""

    number: int
    """Which YAML document of the file it is in, from 1; blank ones count."""

    find: Callable[[], yaml.Node]
    """Gives the root."""

    offset: int = 0
    """Lines of the file before the text that the root was composed from."""

    @property
    def root(self) -> yaml.Node:
        """The object's node. Ask once, and for one document after the other: it is composed again."""
        return self.find()


class DocumentError(SourceError):
    """A file that cannot be read, or not all of it. The message is every problem, a line each."""

    def __init__(self, problems: list[Problem], documents: list[Document] | None = None) -> None:
        self.problems = sorted(problems)
        self.documents = documents or []
        """What could be read all the same."""

        super().__init__("\n".join(map(str, self.problems)))


def read_documents(path: Path) -> list[Document]:
    """The objects of a file, Lists unfolded, blank documents left out. Raises DocumentError."""
    problems: list[Problem] = []
    data = read_file(path, problems)
    if problems:
        raise DocumentError(problems)
    return parse_documents(data, str(path))


def parse_documents(data: bytes, file: str) -> list[Document]:
    """The same for text from elsewhere; `file` is the name that messages give it. Raises DocumentError."""
    problems: list[Problem] = []
    with uncollected():
        documents = list(documents_of(data, file, problems))
    if problems:
        raise DocumentError(problems, documents)
    return documents


@contextmanager
def uncollected() -> Iterator[None]:
    """Leaves garbage alone meanwhile.

    A large file makes millions of nodes and no garbage: looking through them for some took seven times as long as
    composing them.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def read_file(path: Path, problems: list[Problem]) -> bytes:
    """What a file holds, cut behind LARGEST; b'' and a problem if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        text = f"cannot be read: {error.strerror or error}; check the path and who may read it"
        problems.append(Problem(str(path), 0, 0, text))
        return b""


class Composer:
    """Composes documents again, since nodes take four times the memory of the values, and most are asked for nothing.

    Asked in the order in which documents were read, it reads each text once.
    """

    def __init__(self) -> None:
        self._text = ""
        self._roots: Iterator[yaml.Node] = iter(())
        self._last = -1
        self._root: yaml.Node | None = None

    def root(self, text: str, index: int) -> yaml.Node:
        """The root of a document that could be read before; `index` counts those of the text from 0."""
        if text is not self._text or index < self._last:
            self._text, self._roots, self._last = text, compose(text), -1
        while self._root is None or self._last < index:
            self._root = next(self._roots)
            self._last += 1
        return self._root


def documents_of(
    data: bytes, file: str, problems: list[Problem], composer: Composer | None = None
) -> Iterator[Document]:
    """The objects of a text one by one, so that a caller who keeps none needs little memory. Notes all `problems`.

    A document that cannot be read leaves the others. Give one composer for all files whose documents live together.
    """
    composer = composer or Composer()
    builder = Builder(file, problems)
    numbers = count(1)
    try:
        parts = fragments(decode(data))
    except Refused as refused:
        builder.refuse(refused)
        return
    for offset, text in parts:
        try:
            yield from _part(text, offset, builder, numbers, composer)
        except Refused as refused:
            builder.refuse(refused)
            if refused.index is None:
                continue
            next(numbers)
            for lines, rest in documents_after(text, refused.index):
                try:
                    yield from _part(rest, offset + lines, builder, numbers, composer)
                except Refused as again:
                    builder.refuse(again)
                    next(numbers)


def _part(text: str, offset: int, builder: Builder, numbers: Iterator[int], composer: Composer) -> Iterator[Document]:
    """The objects of a text that was not read before. Raises Refused at what is not YAML."""
    builder.offset = offset
    for index, root in enumerate(compose(text)):
        number, noted = next(numbers), len(builder.problems)
        try:
            value = builder.build(root)
        except Refused as refused:
            builder.refuse(refused)
            continue
        if len(builder.problems) > noted and _is_foreign(root):
            builder.problems[noted:] = [replace(each, foreign=True) for each in builder.problems[noted:]]
        if value is None or len(builder.problems) > noted:
            continue
        line, find = root.start_mark.line + 1 + offset, partial(composer.root, text, index)
        yield from _objects(Document(value, builder.file, line, number, find, offset), root, builder)


def position(document: Document, path: FieldPath) -> tuple[int, int]:
    """Line and column, both from 1, of the key at `path`, or of its nearest parent that exists.

    A list item is where its value begins; the empty path is where the object begins. What a merge key brought in is
    where it was written.
    """
    place = node = document.root
    for step in path:
        found = child(node, step)
        if found is None:
            break
        place, node = found
    return place.start_mark.line + 1 + document.offset, place.start_mark.column + 1


# Objects and Lists


def _objects(document: Document, root: yaml.Node, builder: Builder, is_item: bool = False) -> Iterator[Document]:
    """The document itself or, if it is a List or a typed list, its items and theirs."""
    value = document.value
    if not isinstance(value, dict):
        what = {str: "a string", bool: "a boolean", list: "a list"}.get(type(value), "a number")
        builder.note(root, f"is {what}, not an object; a manifest begins with apiVersion and kind")
        return
    missing = [field for field in _TYPE if value.get(field) in (None, "")]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        fix = "every object needs apiVersion, kind and metadata.name"
        if Path(document.file).stem == "kustomization":
            fix = "render a kustomization first, with `kubectl kustomize`"
        other = next((key for key in value if key.lower() in _MISSPELT and key not in _TYPE), "")
        if other:
            fix = f'write "{_MISSPELT[other.lower()]}" for "{other}"'
        builder.note(root, f"{' and '.join(missing)} {are} missing; {fix}", foreign=not is_item and _is_foreign(root))
        return
    for field in _TYPE:
        if not isinstance(value[field], str):
            place = child(root, field) or (root, root)
            builder.note(place[0], f"{field} must be a string, is {json.dumps(value[field])[:40]}; quote it")
            return
    if not _is_list(value):
        yield document
        return
    found = child(root, "items")
    if found is None or value.get("items") is None:
        return
    items, nodes = value["items"], found[1]
    if not isinstance(items, list) or not isinstance(nodes, yaml.SequenceNode):
        builder.note(found[0], "items must be a list; write each object as an item of its own")
        return
    own = value["kind"].removesuffix("List")
    for index, (item, node) in enumerate(zip(items, nodes.value, strict=True)):
        if not isinstance(item, dict):
            builder.note(node, f"items[{index}] is no object; remove it")
            continue
        if own:
            # Items of a typed list say neither: the list says it for them.
            item = {"apiVersion": value["apiVersion"], "kind": own, **item}
        line, find = node.start_mark.line + 1 + document.offset, partial(_item, document.find, index)
        yield from _objects(replace(document, value=item, line=line, find=find), node, builder, is_item=True)


def _item(find: Callable[[], yaml.Node], index: int) -> yaml.Node:
    items = child(find(), "items")
    found = child(items[1], index) if items else None
    assert found is not None
    return found[1]


def _is_foreign(root: yaml.Node) -> bool:
    """Whether a mapping has neither apiVersion nor kind, nor what looks like them: it is not meant for Kubernetes."""
    if not isinstance(root, yaml.MappingNode):
        return False
    keys = [key for key, _ in root.value]
    return all(isinstance(key, yaml.ScalarNode) and key.value.lower() not in (*_MISSPELT, "<<") for key in keys)


def _is_list(value: dict[str, Any]) -> bool:
    """A List, or a typed list such as DeploymentList: it has items, and no name of its own as an object would."""
    kind = value["kind"]
    if kind == "List":
        return True
    named = isinstance(value.get("metadata"), dict) and "name" in value["metadata"]
    return kind.endswith("List") and isinstance(value.get("items", ""), list | None) and not named
