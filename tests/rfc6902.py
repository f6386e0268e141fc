"""A JSON Patch applier for tests, after RFC 6902, for the two operations that Floorkeeper sends."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any


def applied(document: Any, patch: Iterable[Mapping[str, Any]]) -> Any:
    """The document after the patch. Raises as an API server would refuse: replace of what is not there."""
    document = copy.deepcopy(document)
    for operation in patch:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        if not steps:
            document = copy.deepcopy(operation["value"])
            continue
        parent = document
        for step in steps[:-1]:
            parent = parent[int(step)] if isinstance(parent, list) else parent[step]
        last: Any = int(steps[-1]) if isinstance(parent, list) else steps[-1]
        if operation["op"] == "replace":
            parent[last]  # must be there
        else:
            assert operation["op"] == "add", operation
            assert isinstance(parent, dict), "a list would change its length"
        parent[last] = copy.deepcopy(operation["value"])
    return document
