"""Reading Kubernetes objects that are plain JSON, whatever state they are in.

Objects stay the mappings that the API server sent: typed models would drop fields that they do not know. A review may
also hold damaged objects, so every reader here answers with something empty instead of raising.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]
Path = tuple[str | int, ...]
"""Where a value is in an object: field names and list indexes, outermost first."""

_EMPTY: Mapping[str, Any] = {}


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one (null and damaged fields read as absent)."""
    return value if isinstance(value, dict) else _EMPTY


def sequence(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def string(value: Any) -> str:
    """The value if it is a string, else ''."""
    return value if isinstance(value, str) else ""


def at(value: Any, path: Iterable[str | int]) -> Any:
    """The value at `path`, or None where a step is missing."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def metadata(value: Object) -> Mapping[str, Any]:
    return mapping(value.get("metadata"))


def labels(value: Object) -> Mapping[str, Any]:
    """metadata.labels of an object or of a pod template."""
    return mapping(metadata(value).get("labels"))


def label(value: Object, key: str) -> str:
    """One label's value, '' when it is absent or is not a string."""
    return string(labels(value).get(key))


def deleting(value: Object) -> bool:
    return bool(metadata(value).get("deletionTimestamp"))


def group(api_version: str) -> str:
    """The API group of an apiVersion: 'apps/v1' -> 'apps', 'v1' -> ''."""
    head, slash, _ = api_version.partition("/")
    return head if slash else ""


def show_path(path: Path) -> str:
    """A path as the API server spells it: spec.containers[0].resources.limits[nvidia.com/gpu]."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "").replace("-", "").isalnum():
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text
