"""Volcano's Queues, which guarantee resources without flavors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.kube.objects import Object, at, metadata, string
from webhook.kube.quota_facts import amounts

ROOT = "root"
"""The Queue that Volcano makes at the top."""


@dataclass(frozen=True, slots=True)
class VolcanoQueueFact:
    """Amounts are in billionths by resource. `parent` is '' for a queue at the top."""

    name: str
    parent: str = ""
    guarantee: Mapping[str, int] = field(default_factory=dict)
    """spec.guarantee.resource: kept for the queue, whoever else wants it."""

    capability: Mapping[str, int] = field(default_factory=dict)
    """spec.capability: the most that the queue may have."""


def project_volcano_queue(value: Object) -> VolcanoQueueFact | None:
    """None for `root`, the parent of all that name none: Volcano's scheduler writes the sum of theirs into it."""
    name, parent = string(metadata(value).get("name")), string(at(value, ("spec", "parent")))
    if name == ROOT:
        return None
    return VolcanoQueueFact(
        name,
        "" if parent == ROOT else parent,
        amounts(at(value, ("spec", "guarantee", "resource"))),
        amounts(at(value, ("spec", "capability"))),
    )
