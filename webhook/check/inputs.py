"""PATHs of `floorkeeper check` become objects, and what cannot be used among them.

What is wrong with a file, a document or an object is a fault, and the rest is read all the same. What is no Kubernetes
object is a fault if it was given itself, and a note if it was only found in a folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from webhook.check.acceptance import no_object, nulls, refusals
from webhook.check.folders import Search, Source
from webhook.check.result import Fault, Place
from webhook.kube.facts import CLUSTER_SCOPED, GROUPS
from webhook.kube.objects import Path as FieldPath
from webhook.kube.objects import group, mapping, string
from webhook.sources.documents import Composer, Document, documents_of, position, read_file, uncollected
from webhook.sources.nodes import Problem
from webhook.sources.text import LARGEST

STDIN = "<stdin>"
_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that was read. Faults and notes are sorted by place."""

    documents: list[Document] = field(default_factory=list)
    """In the order of PATHs, files of a folder by name, objects by their place."""

    faults: list[Fault] = field(default_factory=list)
    notes: list[Fault] = field(default_factory=list)
    texts: Mapping[str, bytes] = field(default_factory=dict)
    """What was read, by the name that places give it: a path, STDIN or 'overlays/prod (kustomize)'."""

    unwritable: frozenset[str] = frozenset()
    """The names in `texts` that are no files."""


def read_inputs(paths: Sequence[str], stdin: BinaryIO, namespace: str = "", programs: str | None = None) -> Inputs:
    """Reads each file once, and `stdin` for '-'. Raises nothing.

    `namespace` is where objects without one go; `programs` is where kubectl and kustomize are looked for, PATH if None.
    """
    search = Search(paths)
    reader = _Reader(stdin, programs)
    with uncollected():
        for source in search.sources:
            reader.read(source)
    return Inputs(
        reader.documents,
        sorted([*search.faults, *reader.faults], key=_by_place),
        sorted([*search.notes, *reader.notes, *_twice(reader.documents, namespace)], key=_by_place),
        reader.texts,
        frozenset(reader.unwritable),
    )


def _by_place(fault: Fault) -> tuple[Place, str]:
    return fault.place, fault.message


class _Reader:
    def __init__(self, stdin: BinaryIO, programs: str | None) -> None:
        self.documents: list[Document] = []
        self.faults: list[Fault] = []
        self.notes: list[Fault] = []
        self.texts: dict[str, bytes] = {}
        self.unwritable: list[str] = []
        self._stdin, self._programs = stdin, programs
        self._composer = Composer()

    def read(self, source: Source) -> None:
        problems: list[Problem] = []
        file, text = self._text(source, problems)
        if text is not None:
            self.texts[file] = text
            for document in documents_of(text, file, problems, self._composer):
                self._take(document, problems)
        for problem in problems:
            place = Place(problem.file, problem.line, problem.column)
            if problem.foreign and not source.named:
                what = problem.text.partition(";")[0]
                self.notes.append(Fault(place, f"is taken for no Kubernetes object and left out: {what}"))
            else:
                self.faults.append(Fault(place, problem.text))

    def _text(self, source: Source, problems: list[Problem]) -> tuple[str, bytes | None]:
        """The name of a text, and the text unless it cannot be had."""
        path = source.path
        if path is None:
            self.unwritable.append(STDIN)
            return STDIN, self._stdin.read(LARGEST + 1)
        if not source.is_kustomization:
            text = read_file(path, problems)
            return str(path), None if problems else text
        from webhook.check.rendering import RenderError, render

        file = f"{path} (kustomize)"
        try:
            text = render(path, self._programs)
        except RenderError as error:
            problems.append(Problem(str(path), 0, 0, str(error)))
            return file, None
        self.unwritable.append(file)
        return file, text

    def _take(self, document: Document, problems: list[Problem]) -> None:
        foreign = no_object(document)
        wrong: list[tuple[FieldPath, str]] = [((), foreign)] if foreign else list(refusals(document))
        for path, text in wrong:
            problems.append(Problem(document.file, *position(document, path), text, bool(foreign)))
        if wrong:
            return
        for path, text in nulls(document):
            self.notes.append(Fault(Place(document.file, *position(document, path)), text))
        self.documents.append(document)


def _twice(documents: Sequence[Document], namespace: str) -> Iterator[Fault]:
    """A note for each object that an earlier one has the group, kind, namespace and name of."""
    last: dict[tuple[str, str, str, str], Document] = {}
    for document in documents:
        kind, metadata = document.value["kind"], mapping(document.value.get("metadata"))
        name, home = string(metadata.get("name")), _namespace(document, namespace)
        if not name:
            continue
        key = group(document.value["apiVersion"]), kind, home, name
        first = last.get(key)
        if first:
            what = f'{kind} "{name}"' + (f' in namespace "{home}"' if home else "")
            text = f"{what} is there twice, first at {first.file}:{first.line}; this one counts, remove one of them"
            yield Fault(Place(document.file, *position(document, ())), text, warning=True)
        last[key] = document


def _namespace(document: Document, namespace: str) -> str:
    """Where an object goes; '' for one of a kind that is in no namespace."""
    of, kind = group(document.value["apiVersion"]), document.value["kind"]
    if kind in CLUSTER_SCOPED and GROUPS.get(kind) == of:
        return ""
    return string(mapping(document.value.get("metadata")).get("namespace")) or namespace or _DEFAULT_NAMESPACE
