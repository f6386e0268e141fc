"""Manifests as text: YAML or JSON files become objects that know where each of their fields was written."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from webhook.kube.objects import Path as FieldPath
from webhook.sources.nodes import Builder, Problem, Refused, child, compose
from webhook.sources.source import SourceError
from webhook.sources.text import LARGEST, decode, fragments


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

    root: yaml.Node
    offset: int = 0
    """Lines of the file before the text that `root` was composed from."""


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
    # A large file makes millions of nodes and no garbage: looking through them for some took seven times as long as
    # composing them.
    collecting = gc.isenabled()
    gc.disable()
    try:
        documents = list(documents_of(data, file, problems))
    finally:
        if collecting:
            gc.enable()
    if problems:
        raise DocumentError(problems, documents)
    return documents


def read_file(path: Path, problems: list[Problem]) -> bytes:
    """What a file holds, cut behind LARGEST; b'' and a problem if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        text = f"cannot be read: {error.strerror or error}; check the path and who may read it"
        problems.append(Problem(str(path), 0, 0, text))
        return b""


def documents_of(data: bytes, file: str, problems: list[Problem]) -> Iterator[Document]:
    """The objects of a text one by one, so that a caller who keeps none needs little memory. Notes all `problems`."""
    builder = Builder(file, problems)
    number = 0
    try:
        for offset, text in fragments(decode(data)):
            builder.offset = offset
            for root in compose(text):
                number += 1
                noted = len(problems)
                value = builder.build(root)
                if value is not None and len(problems) == noted:
                    document = Document(value, file, root.start_mark.line + 1 + offset, number, root, offset)
                    yield from _objects(document, builder)
    except Refused as refused:
        line = refused.line + builder.offset if refused.line else 0
        problems.append(Problem(file, line, refused.column, refused.text))


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


# Lists


def _objects(document: Document, builder: Builder) -> Iterator[Document]:
    """The document itself or, if it is a List or a typed list, its items and theirs."""
    value = document.value
    if not isinstance(value, dict):
        what = {str: "a string", bool: "a boolean", list: "a list"}.get(type(value), "a number")
        builder.note(document.root, f"is {what}, not an object; a manifest begins with apiVersion and kind")
        return
    missing = [field for field in ("apiVersion", "kind") if value.get(field) in (None, "")]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        fix = "every object needs apiVersion, kind and metadata.name"
        if Path(document.file).stem == "kustomization":
            fix = "render a kustomization first, with `kubectl kustomize`"
        builder.note(document.root, f"{' and '.join(missing)} {are} missing; {fix}", foreign=len(missing) > 1)
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(value[field], str):
            place = child(document.root, field) or (document.root, document.root)
            builder.note(place[0], f"{field} must be a string, is {json.dumps(value[field])[:40]}; quote it")
            return
    if not _is_list(value):
        yield document
        return
    found = child(document.root, "items")
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
        line = node.start_mark.line + 1 + document.offset
        yield from _objects(replace(document, value=item, line=line, root=node), builder)


def _is_list(value: dict[str, Any]) -> bool:
    """A List, or a typed list such as DeploymentList: it has items, and no name of its own as an object would."""
    kind = value["kind"]
    if kind == "List":
        return True
    named = isinstance(value.get("metadata"), dict) and "name" in value["metadata"]
    return kind.endswith("List") and isinstance(value.get("items", ""), list | None) and not named
