"""Fixes: what admission would patch, written into the files that the objects come from, and nothing else.

Comments, order, quotes, line ends and all else stay byte for byte. What cannot be proven right is not written.
"""

from __future__ import annotations

import os
import stat
import tempfile
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from webhook.check.diff import diff_of
from webhook.check.inputs import STDIN, Inputs
from webhook.check.proof import Target, content_of, proven
from webhook.check.result import Fault, Found, Place, Result
from webhook.check.spelling import flow_text
from webhook.engine.patch import Edit, Operation, edited
from webhook.engine.verdict import Severity
from webhook.kube.objects import Path as FieldPath
from webhook.kube.objects import at, metadata, show_path, string
from webhook.sources.documents import Document

_FEW = 8
"""Objects of one name in a file, up to which each is looked at."""

__all__ = ["Fixes", "diff_of", "fixed_texts", "write"]


@dataclass(frozen=True, slots=True)
class Fixes:
    """What the files become; one that stays as it is is not in `texts`. `problems` tell what was not fixed, and why."""

    texts: Mapping[str, bytes]
    problems: Sequence[Fault]


def fixed_texts(inputs: Inputs, result: Result) -> Fixes:
    """The input with the change of every finding of severity patch. What was rendered from files is told of alone."""
    by_file: dict[str, list[Found]] = defaultdict(list)
    for found in result.findings:
        if found.severity is Severity.PATCH:
            by_file[found.place.file].append(found)
    texts: dict[str, bytes] = {}
    problems: list[Fault] = []
    for file, findings in by_file.items():
        if file in inputs.unwritable and file != STDIN:
            problems += _rendered(findings)
            continue
        data = inputs.texts[file]
        after = _fixed(file, data, findings, problems)
        if after != data:
            texts[file] = after
    return Fixes(texts, sorted(problems, key=lambda fault: (fault.place, fault.message)))


def _rendered(findings: Iterable[Found]) -> Iterator[Fault]:
    objects = {(found.api_version, found.kind, found.namespace, found.name): found for found in findings}
    for found in objects.values():
        yield _not_fixed(found, "a kustomization made it", "in a patch of that")


def _fixed(file: str, data: bytes, findings: Iterable[Found], problems: list[Fault]) -> bytes:
    content = content_of(data, file)
    targets: dict[int, Target] = {}
    by_target: dict[int, Found] = {}
    for found, index in _located(findings, content.documents):
        if index is None:
            problems.append(_not_fixed(found, "where it is in the file is not clear"))
        elif index not in by_target:
            by_target[index] = found
            try:
                targets[index] = Target(index, changed(content.documents[index].value, found.change))
            except ValueError:
                problems.append(_not_fixed(found, "the change does not fit what is written"))
    after = proven(file, data, content, list(targets.values()))
    problems += (_not_fixed(by_target[index], target.reason) for index, target in targets.items() if target.reason)
    return after


def _located(findings: Iterable[Found], documents: Sequence[Document]) -> Iterator[tuple[Found, int | None]]:
    """Each finding with the number of its object in the file, None if that is not clear."""
    by_name: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index, document in enumerate(documents):
        by_name[document.value["apiVersion"], document.value["kind"], _name(document)].append(index)
    # Of each name that many have: where they begin, and their numbers.
    starts: dict[tuple[str, str, str], list[tuple[tuple[int, int], int]]] = {}
    for found in findings:
        name = found.api_version, found.kind, found.name
        indexes = by_name[name]
        if len(indexes) > _FEW:
            if name not in starts:
                starts[name] = sorted((_start(documents[index]), index) for index in indexes)
            indexes = _last_begun(starts[name], (found.place.line, found.place.column))
        indexes = [index for index in indexes if _namespace(documents[index]) in ("", found.namespace)]
        if len(indexes) > 1 or len(by_name[name]) > _FEW:
            indexes = [index for index in indexes if _holds(documents[index], found.place)]
        yield found, indexes[0] if len(indexes) == 1 else None


def changed(value: Any, change: Sequence[Operation]) -> Any:
    """An object as it was written, with what is to change of it once defaults are filled in.

    So an operation may lead through mappings that are not there. Raises ValueError where something else is in its way.
    """
    for operation in change:
        path: list[str | int] = []
        for token in operation["path"].split("/")[1:]:
            step = token.replace("~1", "/").replace("~0", "~")
            path.append(int(step) if isinstance(at(value, path), list) else step)
        value = edited(value, [Edit(tuple(path), operation["value"])])
    return value


def _name(document: Document) -> str:
    """As a finding names it: 'prefix*' if the API server is to choose a name."""
    given = metadata(document.value)
    return string(given.get("name")) or f"{string(given.get('generateName'))}*"


def _namespace(document: Document) -> str:
    return string(metadata(document.value).get("namespace"))


def _start(document: Document) -> tuple[int, int]:
    """Line and column, from 1."""
    mark = document.root.start_mark
    return mark.line + 1 + document.offset, mark.column + 1


def _last_begun(starts: Sequence[tuple[tuple[int, int], int]], place: tuple[int, int]) -> list[int]:
    """The numbers of those that begin last before a place: more than one where an alias repeats an object."""
    end = bisect_right(starts, place, key=itemgetter(0))
    return [index for _, index in starts[bisect_left(starts, starts[end - 1][0], key=itemgetter(0)) : end]]


def _holds(document: Document, place: Place) -> bool:
    root = document.root
    start, end = root.start_mark, root.end_mark
    line = place.line - 1 - document.offset
    return (start.line, start.column) <= (line, place.column - 1) < (end.line, end.column)


def _not_fixed(found: Found, reason: str, where: str = "by hand") -> Fault:
    wanted = ", and ".join(
        f"{_shown(operation['path'])} to {flow_text(operation['value'])}" for operation in found.change
    )
    return Fault(found.place, f'{found.kind} "{found.name}": is not fixed: {reason}; set {wanted} {where}')


def _shown(pointer: str) -> str:
    steps = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    path: FieldPath = tuple(int(step) if step.isdecimal() else step for step in steps)
    return show_path(path)


def write(fixes: Fixes, before: Mapping[str, bytes], stdout: BinaryIO) -> list[Fault]:
    """Every fixed text into its file. What came from stdin goes to stdout, fixed or not. `before` is what was read."""
    if STDIN in before:
        stdout.write(fixes.texts.get(STDIN, before[STDIN]))
    faults = []
    for file, text in fixes.texts.items():
        if file == STDIN:
            continue
        try:
            _replace(Path(file).resolve(), before[file], text)
        except OSError as error:
            faults.append(Fault(Place(file), f"cannot be written: {error.strerror or error}; check who may write it"))
        except _ChangedMeanwhile:
            faults.append(Fault(Place(file), "is not fixed: it has changed since it was read; run this again"))
    return faults


class _ChangedMeanwhile(Exception):
    pass


def _replace(path: Path, before: bytes, after: bytes) -> None:
    """All at once: whoever reads the file meanwhile, or pulls the plug, finds the one text or the other."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    beside = Path(name)
    try:
        with open(descriptor, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        status = path.stat()
        with suppress(PermissionError):
            os.chown(beside, status.st_uid, status.st_gid)
        beside.chmod(stat.S_IMODE(status.st_mode))
        # Opened to write, for it may be replaced even by who may not write it.
        with path.open("r+b") as file:
            if file.read() != before:
                raise _ChangedMeanwhile
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
