"""Kustomizations: which folders have one, and what it refers to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from webhook.kube.objects import mapping
from webhook.sources.documents import read_file
from webhook.sources.nodes import Builder, Refused, compose
from webhook.sources.text import decode

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")

Identity = tuple[int, int]
"""What tells a file or folder from another, whatever path leads to it: device and inode."""


def is_component(folder: Path) -> bool:
    """Whether it is applied only through a kustomization that names it."""
    return any(mapping(value).get("kind") == "Component" for value in _values(folder))


def reach(folder: Path) -> dict[Identity, Path]:
    """The files and folders that the kustomization of a folder refers to, and those that theirs refer to.

    Every string in it counts that is the path of something, so that a new field of kustomize needs nothing here.
    """
    found: dict[Identity, Path] = {}
    folders = [folder]
    for each in folders:
        for value in _values(each):
            for text, is_item in _strings(value):
                # A generator's file may be written as key=path.
                path = each / text.rpartition("=")[2]
                identity = identity_of(path)
                # A namespace can have the name of a folder; folders are in lists only.
                if identity and identity not in found and (is_item or not path.is_dir()):
                    found[identity] = path
                    folders.append(path)
    return found


def identity_of(path: Path) -> Identity | None:
    """None where nothing is."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _values(folder: Path) -> Iterator[Any]:
    """Of the kustomization's file, as far as it can be read: what is wrong with it is for kustomize to say."""
    for name in NAMES:
        if os.path.isfile(folder / name):
            with suppress(Refused):
                builder = Builder(name, [])
                for root in compose(decode(read_file(folder / name, []))):
                    yield builder.build(root)


def _strings(value: Any, is_item: bool = False) -> Iterator[tuple[str, bool]]:
    """Every string but the empty one, and whether it is an item of a list."""
    if isinstance(value, str) and value:
        yield value, is_item
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each, is_item=True)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
