"""What a run of `floorkeeper check` was asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date

from webhook.kube import quantity

Declared = Mapping[str, Mapping[str, int]]
"""Amounts in billionths, by flavor and resource."""


class BadOption(ValueError):
    """A word of the command line cannot be used. The message says which, why, and what to write."""


@dataclass(frozen=True, slots=True)
class Options:
    """File names are as they were given; '' and () are for what was not."""

    today: date
    """In UTC: it decides which exemptions still hold."""

    paths: tuple[str, ...] = ()
    """As they were given: where the input was read."""

    policy: str = ""
    namespace: str = ""
    """Of objects that name none; '' is kubectl's, `default`."""

    managed: bool = False
    """A namespace that neither the input nor the state declares is taken for a managed one."""

    state: tuple[str, ...] = ()
    nodes: str = ""
    capacity: Declared = field(default_factory=dict)
    live: bool = False
    diff_against: str = ""
    """A folder, or a git revision of the PATHs: what the objects were before."""


def declared(words: Iterable[str]) -> Declared:
    """What `--capacity FLAVOR/RESOURCE=N` declares, once for each word. Raises BadOption."""
    found: dict[str, dict[str, int]] = {}
    for word in words:
        key, equals, text = word.rpartition("=")
        flavor, slash, resource = key.partition("/")
        if not (equals and slash and flavor and resource):
            raise BadOption(f"--capacity: must be FLAVOR/RESOURCE=N, is {word!r}; write such as a100/nvidia.com/gpu=16")
        try:
            amount = quantity.parse(text)
        except quantity.QuantityError as error:
            raise BadOption(f"--capacity: {key}: {error}; write a whole number") from None
        if amount < 0 or not quantity.whole(amount):
            raise BadOption(f"--capacity: {key}: must be a whole number from 0, is {text}; write how many there are")
        if resource in found.setdefault(flavor, {}):
            raise BadOption(f"--capacity: {key}: is given twice; keep one")
        found[flavor][resource] = amount
    return found
