"""Pods as the set-up's checks see them: those that Kueue holds back, and those on nodes, which it may not count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from webhook.kube.accelerators import Accelerators
from webhook.kube.kinds import controller
from webhook.kube.names import POD_SET_LABEL, QUEUE_LABEL
from webhook.kube.objects import Object, at, deleting, label, mapping, metadata, sequence, string
from webhook.kube.pods import pod_template
from webhook.kube.unqueued_pods import FINISHED
from webhook.live.audit.report import Reference
from webhook.live.pods import is_gated

_GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
_PREBUILT_LABEL = "kueue.x-k8s.io/prebuilt-workload-name"
_WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
_HASH_LABEL = "pod-template-hash"
_NO_ACCELERATORS = Accelerators(frozenset())


@dataclass(frozen=True, slots=True)
class GatedPod:
    namespace: str
    name: str
    group: str
    """The pod group that it is admitted with, whose name its Workload has; '' for a pod on its own."""


class Mark(Enum):
    """By which label a pod says that Kueue counts it."""

    NONE = ""
    QUEUE = QUEUE_LABEL
    POD_SET = POD_SET_LABEL


@dataclass(frozen=True, slots=True)
class Made:
    """The controller of an object."""

    uid: str
    reference: Reference


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod on a node that may hold accelerators, in a queue or not."""

    namespace: str
    name: str
    uid: str
    node: str
    made: Made | None
    """What made it, None for a pod on its own."""

    deployment: str
    """The Deployment whose ReplicaSet made it, as far as that can be seen from the pod; else ''."""

    requests: Mapping[str, int]
    """Extended resources in billionths, each above 0."""

    spec: Object
    """What of its spec is about resource claims."""

    mark: Mark
    workloads: tuple[str, ...]
    """The Workloads that it says are its own."""

    @property
    def owner(self) -> Reference:
        """What makes it, as far as that can be seen from the pod; else the pod itself."""
        if self.made is None:
            return Reference(self.namespace, "Pod", self.name, "v1")
        if self.deployment:
            return Reference(self.namespace, "Deployment", self.deployment, "apps/v1")
        return self.made.reference

    def names(self, made: Mapping[str, Made]) -> Iterator[str]:
        """Its own, and those of what made it. `made` is what made other objects, by uid."""
        yield self.name
        if self.deployment:
            yield self.deployment
        yield from (each.reference.name for each in self.chain(made))

    def chain(self, made: Mapping[str, Made]) -> Iterator[Made]:
        """What made it, what made that, and so on."""
        each, seen = self.made, set[str]()
        while each is not None and each.uid not in seen:
            yield each
            seen.add(each.uid)
            each = made.get(each.uid)


def gated_pod(value: Object) -> GatedPod | None:
    """None for a pod that Kueue does not hold, and for one that goes."""
    if deleting(value) or not is_gated(value):
        return None
    own = metadata(value)
    return GatedPod(string(own.get("namespace")), string(own.get("name")), label(value, _GROUP_LABEL))


def placed_pod(value: Object) -> PlacedPod | None:
    """None for a pod on no node, one that has finished or goes, and one that cannot hold accelerators."""
    spec = mapping(value.get("spec"))
    node = string(spec.get("nodeName"))
    if not node or deleting(value) or at(value, ("status", "phase")) in FINISHED:
        return None
    template = pod_template(value, (), _NO_ACCELERATORS, filled=True)
    totals = template.totals() if template is not None else {}
    requests = {resource: amount for resource, amount in totals.items() if "/" in resource and amount > 0}
    claims = sequence(spec.get("resourceClaims"))
    if not requests and not claims:
        return None
    own, maker = metadata(value), controller(value)
    suffix = f"-{label(value, _HASH_LABEL)}"
    # The name of a Deployment's ReplicaSet is that of the Deployment and the hash.
    replicas = maker is not None and maker.kind == "ReplicaSet" and suffix != "-" and maker.name.endswith(suffix)
    return PlacedPod(
        string(own.get("namespace")),
        string(own.get("name")),
        string(own.get("uid")),
        node,
        _made(value),
        maker.name.removesuffix(suffix) if maker is not None and replicas else "",
        requests,
        {"resourceClaims": claims} if claims else {},
        next((mark for mark in (Mark.QUEUE, Mark.POD_SET) if label(value, mark.value)), Mark.NONE),
        tuple(filter(None, _workloads(value))),
    )


def _workloads(pod: Object) -> Iterator[str]:
    """By what Kueue puts on pods of groups, and of Workloads that it makes before the pods; of those that a Job or the
    like makes, by the annotation, which a pod that was copied by hand may have too."""
    yield label(pod, _GROUP_LABEL)
    yield label(pod, _PREBUILT_LABEL)
    if controller(pod) is not None:
        yield string(mapping(metadata(pod).get("annotations")).get(_WORKLOAD_ANNOTATION))


def made(value: Object) -> dict[str, Made]:
    """What made an object, by its uid. Pods, and ReplicaSets of Deployments, say so themselves (PlacedPod)."""
    found = _made(value)
    told = value.get("kind") == "Pod" or label(value, _HASH_LABEL)
    return {} if found is None or told else {string(metadata(value).get("uid")): found}


def _made(value: Object) -> Made | None:
    own = metadata(value)
    for entry in map(mapping, sequence(own.get("ownerReferences"))):
        if entry.get("controller") is True:
            kind, name, version = (string(entry.get(key)) for key in ("kind", "name", "apiVersion"))
            return Made(string(entry.get("uid")), Reference(string(own.get("namespace")), kind, name, version))
    return None
