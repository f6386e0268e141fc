"""Edits on a private copy, and the one RFC 6902 patch that they come to.

An edit copies the mappings and lists on its way and shares everything else, so the original stays whole and the diff
skips whatever is still the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from webhook.kube.objects import Object, Path

_ABSENT = object()

Operation = Mapping[str, Any]
"""One RFC 6902 operation: op, path and value."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Set the field at `path` to `value`, making the mappings on the way that are absent or null."""

    path: Path
    value: Any


class CannotEdit(ValueError):
    """The way to the field leads through something that is no mapping or list of the right size."""


def edited(value: Object, edits: Iterable[Edit]) -> Object:
    """The object after the edits. Raises CannotEdit, and then nothing has changed."""
    result: Any = value
    for edit in edits:
        result = _with(result, edit.path, edit.value)
    return result  # type: ignore[no-any-return]


def _with(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        if not isinstance(value, list) or not 0 <= step < len(value):
            raise CannotEdit(f"no item {step}")
        items = list(value)
        items[step] = _with(items[step], rest, new)
        return items
    if value is not None and not isinstance(value, dict):
        raise CannotEdit(f"{step} is not in a mapping")
    fields = dict(value or {})
    fields[step] = _with(fields.get(step), rest, new)
    return fields


def diff(before: Object, after: Object) -> list[Operation]:
    """The shortest patch that only adds and replaces, in the order of the fields: a list that changes its length and a
    mapping that loses a field are replaced whole."""
    operations: list[Operation] = []
    _collect(before, after, "", operations)
    return operations


def _collect(before: Any, after: Any, pointer: str, into: list[Operation]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() <= after.keys():
        for key, value in after.items():
            old = before.get(key, _ABSENT)
            if old is value:
                continue
            place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            if old is _ABSENT:
                into.append({"op": "add", "path": place, "value": value})
            else:
                _collect(old, value, place, into)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            if old is not new:
                _collect(old, new, f"{pointer}/{index}", into)
    elif before != after or type(before) is not type(after):
        into.append({"op": "replace", "path": pointer, "value": after})
