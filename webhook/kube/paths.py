"""Paths with stars: places in an object, of which a kind may have any number.

`[*]` stands for every item of a list and `{*}` for every value of a mapping, as in spec.workerGroupSpecs[*].template
and spec.pytorchReplicaSpecs{*}.template. A step that is no field name is in brackets: metadata.annotations[a.b/c].
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from webhook.kube.objects import Path, at, mapping, metadata, string

EVERY_ITEM = "[*]"
EVERY_VALUE = "{*}"
STARS = (EVERY_ITEM, EVERY_VALUE)

_STEP = re.compile(r"\[\*\]|\{\*\}|\[([^\[\]]+)\]|(?:^|\.)([^.\[\]{}*]+)")


@cache
def parse(text: str) -> Path:
    """The path that a text spells, () for ''. Raises ValueError for what is no path."""
    steps: list[str] = []
    end = 0
    while end < len(text):
        match = _STEP.match(text, end)
        if match is None:
            raise ValueError(f"{text!r} is no path")
        steps.append(match[1] or match[2] or match[0])
        end = match.end()
    return tuple(steps)


def spelt(path: Path) -> str:
    """The text that `parse` reads."""
    text = ""
    for step in map(str, path):
        if step in STARS:
            text += step
        elif re.search(r"[.\[\]{}*/]", step):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def places(value: Any, path: Path) -> Iterator[Path]:
    """Where in `value` the path leads, in the order of its lists and mappings: to what is there and is not null."""
    if value is None:
        return
    index = first_star(path)
    if index is None:
        if at(value, path) is not None:
            yield path
        return
    holder, rest = at(value, path[:index]), path[index + 1 :]
    keys: Any = ()
    if path[index] == EVERY_ITEM and isinstance(holder, list):
        keys = range(len(holder))
    elif path[index] == EVERY_VALUE and isinstance(holder, dict):
        keys = holder
    for key in keys:
        for place in places(holder[key], rest):
            yield (*path[:index], key, *place)


@cache
def first_star(path: Path) -> int | None:
    """The index of a row's first star. Only rows of a table have such paths, so there are few of them."""
    return next((index for index, step in enumerate(path) if step in STARS), None)


def entry_name(entry: Any) -> str:
    """What tells an entry of a list apart: its own name, a Ray group's, or that of the object in it (AppWrapper)."""
    found = mapping(entry)
    name = string(found.get("name")) or string(found.get("groupName"))
    held = mapping(found.get("template"))
    inner = string(metadata(held).get("name"))
    return name or (f"{string(held.get('kind'))} {inner}" if inner else "")


def by_names(value: Any, key: Any) -> Any:
    """A path of `value`, or a tuple that holds paths, with names instead of numbers where a list's entries have them,
    so that it is the same wherever in the list an entry stands. Names that a list holds twice tell nothing apart."""
    if not isinstance(key, tuple):
        return key
    steps: list[Any] = []
    for step in key:
        if isinstance(step, tuple):
            steps.append(by_names(value, step))
            continue
        if isinstance(step, int) and isinstance(value, list) and 0 <= step < len(value):
            name = entry_name(value[step])
            alone = name and sum(entry_name(entry) == name for entry in value) == 1
            steps.append(("named", name) if alone else step)
            value = value[step]
        else:
            steps.append(step)
            value = value.get(step) if isinstance(value, dict) else None
    return tuple(steps)


def beside(path: Path, place: Path) -> Path:
    """The path with each star replaced by the step that `place`, which begins alike, has there."""
    if first_star(path) is None:
        return path
    return tuple(place[index] if step in STARS else step for index, step in enumerate(path))
