"""Hardware and its names: facts of Nodes and ResourceFlavors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.kube import quantity
from webhook.kube.objects import Object, labels, mapping, metadata, sequence, string


@dataclass(frozen=True, slots=True)
class NodeFact:
    """`capacity` and `allocatable` are in billionths by resource, and hold extended resources alone.

    Those are the resources whose name has a domain (nvidia.com/gpu), as every accelerator's has; cpu, memory and pods
    would cost a third of the time that a heartbeat may take.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    ready: bool = True
    """Its condition Ready is True, or it has none: the node lifecycle controller gives one to every node of a cluster,
    so only manifests written by hand are without."""

    cordoned: bool = False
    taints: tuple[str, ...] = ()
    """The keys of its taints, in its own order."""


@dataclass(frozen=True, slots=True)
class ResourceFlavorFact:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """spec.nodeLabels. A flavor without them is for every node."""

    taints: tuple[Mapping[str, str], ...] = ()
    """spec.nodeTaints: key, value and effect of each."""

    tolerations: tuple[Mapping[str, str], ...] = ()
    """spec.tolerations, which Kueue adds to the pods' own."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels belongs to the flavor."""
        return all(labels.get(key) == value for key, value in self.labels.items())


def project_node(value: Object) -> NodeFact:
    spec, status = mapping(value.get("spec")), mapping(value.get("status"))
    taints = spec.get("taints")
    return NodeFact(
        string(metadata(value).get("name")),
        _texts(labels(value)),
        _extended(status.get("capacity")),
        _extended(status.get("allocatable")),
        _ready(status),
        spec.get("unschedulable") is True,
        tuple(string(mapping(taint).get("key")) for taint in sequence(taints)) if taints else (),
    )


def project_resource_flavor(value: Object) -> ResourceFlavorFact:
    spec = mapping(value.get("spec"))
    return ResourceFlavorFact(
        string(metadata(value).get("name")),
        _texts(spec.get("nodeLabels")),
        tuple(map(_texts, sequence(spec.get("nodeTaints")))),
        tuple(map(_texts, sequence(spec.get("tolerations")))),
    )


def _texts(value: object) -> dict[str, str]:
    found = mapping(value)
    if set(map(type, found.values())) <= {str}:
        # What the API server sends, and faster than asking label by label.
        return dict(found)
    return {key: text for key, text in found.items() if isinstance(text, str)}


def _extended(value: object) -> dict[str, int]:
    amounts = {}
    for resource, text in mapping(value).items():
        if "/" in resource:
            try:
                amounts[resource] = quantity.parse(text)
            except quantity.QuantityError:
                amounts[resource] = 0
    return amounts


def _ready(status: Object) -> bool:
    for condition in sequence(status.get("conditions")):
        if isinstance(condition, dict) and condition.get("type") == "Ready":
            return condition.get("status") == "True"
    return True
