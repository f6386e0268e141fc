"""The examples: one object a file, under a comment that says what must come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from webhook.report import Word

Object = Mapping[str, Any]


class BadExample(Exception):
    """A file that is no example: the message says which, and what it lacks."""


@dataclass(frozen=True, slots=True)
class Example:
    path: Path
    announced: Word
    """What its first line says must come of it."""

    about: str
    """What it shows, in a sentence or two."""

    value: Object


def read_examples(folder: Path) -> list[Example]:
    """The examples of a folder, in the order of their names. Raises BadExample, also for a folder without any."""
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise BadExample(f"{folder}: holds no examples; they are .yaml files")
    return [read_example(path) for path in paths]


def read_example(path: Path) -> Example:
    """Raises BadExample."""
    text = path.read_text(encoding="utf-8")
    word, colon, about = text.partition("\n")[0].removeprefix("# ").partition(": ")
    if not text.startswith("# ") or not colon or word not in tuple(Word):
        raise BadExample(f"{path}: must begin with '# {' or '.join(Word)}: what it shows'")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadExample(f"{path}: is not one YAML document: {error}") from None
    if not isinstance(value, dict) or not {"apiVersion", "kind", "metadata"} <= value.keys():
        raise BadExample(f"{path}: must be an object with apiVersion, kind and metadata")
    return Example(path, Word(word), about.strip(), value)
