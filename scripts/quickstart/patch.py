"""RFC 6902 patches, as far as a webhook of ours sends them: add and replace."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any


class CannotPatch(ValueError):
    """An operation that the object or this module has no place for."""


def patched(value: Any, operations: Iterable[Mapping[str, Any]]) -> Any:
    """The value after the operations; it is not changed itself. Raises CannotPatch."""
    result = copy.deepcopy(value)
    for operation in operations:
        *way, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        place = result
        try:
            for step in way:
                place = place[int(step)] if isinstance(place, list) else place[step]
        except (KeyError, IndexError, ValueError, TypeError):
            raise CannotPatch(f"{operation['path']}: leads nowhere") from None
        if not isinstance(place, dict) or operation["op"] not in ("add", "replace"):
            raise CannotPatch(f"{operation['op']} {operation['path']}: is none of ours")
        if operation["op"] == "replace" and last not in place:
            raise CannotPatch(f"{operation['path']}: is not there to be replaced")
        place[last] = copy.deepcopy(operation["value"])
    return result
