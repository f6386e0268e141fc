"""Facts: the few fields of watched objects that a rule ever compares with.

`project` turns an object into its fact when it arrives, so that a heartbeat or a status write that changes no fact
costs one comparison, and thousands of objects fit into little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from webhook.kube import quantity
from webhook.kube.kinds import DEPLOYMENT, STATEFUL_SET, Kind, controller
from webhook.kube.names import DEFAULT_QUEUE_ANNOTATION, MODE_ANNOTATION, QUEUE_LABEL
from webhook.kube.objects import Object, at, deleting, label, labels, mapping, metadata, sequence, string


@dataclass(frozen=True, slots=True)
class NamespaceFact:
    name: str
    labels: Mapping[str, str]
    default_queue: str = ""
    """The annotation floorkeeper.io/default-queue, '' without one."""

    mode: str = ""
    """The annotation floorkeeper.io/mode, '' without one."""

    terminating: bool = False


@dataclass(frozen=True, slots=True)
class LocalQueueFact:
    namespace: str
    name: str
    cluster_queue: str
    stopped: bool = False
    """It admits nothing: spec.stopPolicy is not None, or Kueue says that it is not Active."""


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """One resourceGroups entry of a ClusterQueue: a pod gets all its covered resources from one of the flavors."""

    covered: frozenset[str]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterQueueFact:
    """`nominal` and `reserved` are in billionths, by (flavor, resource).

    `nominal` is nominalQuota, which is guaranteed to this queue; `reserved` is status.flavorsReservation, what its
    Workloads hold now, borrowed quota included.
    """

    name: str
    cohort: str
    groups: tuple[ResourceGroup, ...]
    nominal: Mapping[tuple[str, str], int]
    reserved: Mapping[tuple[str, str], int]
    stopped: bool = False
    """It admits nothing: spec.stopPolicy is not None, or Kueue says that it is not Active."""

    def covers(self, resource: str) -> bool:
        return any(resource in group.covered for group in self.groups)

    def holds(self, requests: Mapping[str, int]) -> bool:
        """Whether the queue's own quota, less what it reserves now, holds these requests (billionths by resource).

        A request that the queue does not cover is never admitted. Each group gives all that it covers from one flavor.
        """
        asked = {resource: amount for resource, amount in requests.items() if amount > 0}
        return all(map(self.covers, asked)) and all(
            any(
                all(amount <= self._free(flavor, resource) for resource, amount in asked.items() if resource in covered)
                for flavor in flavors
            )
            for covered, flavors in ((group.covered, group.flavors) for group in self.groups)
            if not covered.isdisjoint(asked)
        )

    def _free(self, flavor: str, resource: str) -> int:
        # Kueue rounds quota up to whole units, and cpu to whole millis.
        step = quantity.NANO // 1000 if resource == "cpu" else quantity.NANO
        nominal = -(-self.nominal.get((flavor, resource), 0) // step) * step
        return nominal - self.reserved.get((flavor, resource), 0)


@dataclass(frozen=True, slots=True)
class ResourceQuotaFact:
    namespace: str
    name: str
    hard: tuple[str, ...]
    """The keys of spec.hard, sorted."""


@dataclass(frozen=True, slots=True)
class WorkloadFact:
    """A Deployment, StatefulSet or bare Pod that shares its namespace with the object under judgement."""

    kind: str
    namespace: str
    name: str
    queue: str
    """The queue label of its pod template (of a Pod: its own), '' without one."""

    object_queue: str
    """The queue label of the object itself, '' without one."""

    running: bool
    """It has pods, or wants some: status.replicas or spec.replicas above 0."""

    owned: bool
    """It has a controller, of whatever kind."""

    labels: Mapping[str, str]
    """The labels that a policy's queue selector is matched against; empty for a workload without a queue."""


Fact = NamespaceFact | LocalQueueFact | ClusterQueueFact | ResourceQuotaFact | WorkloadFact


def _namespace(value: Object) -> NamespaceFact:
    annotations = mapping(metadata(value).get("annotations"))
    return NamespaceFact(
        string(metadata(value).get("name")),
        {key: text for key, text in labels(value).items() if isinstance(text, str)},
        string(annotations.get(DEFAULT_QUEUE_ANNOTATION)),
        string(annotations.get(MODE_ANNOTATION)),
        deleting(value) or at(value, ("status", "phase")) == "Terminating",
    )


def _local_queue(value: Object) -> LocalQueueFact:
    name, namespace = _key(value)
    return LocalQueueFact(namespace, name, string(at(value, ("spec", "clusterQueue"))), _stopped(value))


def _stopped(value: Object) -> bool:
    if at(value, ("spec", "stopPolicy")) not in (None, "None"):
        return True
    conditions = map(mapping, sequence(at(value, ("status", "conditions"))))
    return any(entry.get("type") == "Active" and entry.get("status") == "False" for entry in conditions)


def _cluster_queue(value: Object) -> ClusterQueueFact:
    spec = mapping(value.get("spec"))
    groups = []
    nominal: dict[tuple[str, str], int] = {}
    for group in map(mapping, sequence(spec.get("resourceGroups"))):
        flavors = [mapping(flavor) for flavor in sequence(group.get("flavors"))]
        names = tuple(string(flavor.get("name")) for flavor in flavors)
        groups.append(ResourceGroup(frozenset(map(string, sequence(group.get("coveredResources")))), names))
        for flavor, name in zip(flavors, names, strict=True):
            for resource in map(mapping, sequence(flavor.get("resources"))):
                nominal[name, string(resource.get("name"))] = _amount(resource.get("nominalQuota"))
    reserved = {
        (string(flavor.get("name")), string(resource.get("name"))): _amount(resource.get("total"))
        for flavor in map(mapping, sequence(at(value, ("status", "flavorsReservation"))))
        for resource in map(mapping, sequence(flavor.get("resources")))
    }
    # v1beta1 spells the field cohort; the API server prunes the other version's spelling.
    cohort = spec.get("cohort" if string(value.get("apiVersion")).endswith("/v1beta1") else "cohortName")
    return ClusterQueueFact(_key(value)[0], string(cohort), tuple(groups), nominal, reserved, _stopped(value))


def _amount(value: object) -> int:
    """A quota that is no quantity counts as none: the ClusterQueue's own rules report it."""
    try:
        return quantity.parse(value)
    except quantity.QuantityError:
        return 0


def _resource_quota(value: Object) -> ResourceQuotaFact:
    name, namespace = _key(value)
    return ResourceQuotaFact(namespace, name, tuple(sorted(map(str, mapping(at(value, ("spec", "hard")))))))


def replicas(value: Object) -> int:
    """spec.replicas, 1 where it is absent, as the API server fills it in."""
    wanted = at(value, ("spec", "replicas"))
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else 1


def pods_now(value: Object) -> int:
    """status.replicas: the pods that exist, ready or not; 0 where the status says nothing."""
    count = at(value, ("status", "replicas"))
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def workload_labels(value: Object, template: Object) -> dict[str, str]:
    """What a policy's queue selector is matched against: the labels of the pod template and of the object itself."""
    both = {**labels(template), **labels(value)}
    return {key: text for key, text in both.items() if isinstance(text, str)}


def _workload(kind: Kind) -> Callable[[Object], WorkloadFact]:
    def project_workload(value: Object) -> WorkloadFact:
        name, namespace = _key(value)
        template = mapping(at(value, kind.templates[0]))
        queue, object_queue = label(template, QUEUE_LABEL), label(value, QUEUE_LABEL)
        return WorkloadFact(
            kind.kind,
            namespace,
            name,
            queue,
            object_queue,
            running=replicas(value) > 0 or pods_now(value) > 0,
            owned=controller(value) is not None,
            labels=workload_labels(value, template) if queue or object_queue else {},
        )

    return project_workload


def _pod(value: Object) -> WorkloadFact | None:
    """Bare pods alone: a pod with a parent is the parent's."""
    owner = controller(value)
    if owner is not None and owner.is_parent:
        return None
    name, namespace = _key(value)
    queue = label(value, QUEUE_LABEL)
    return WorkloadFact("Pod", namespace, name, queue, queue, True, owner is not None, workload_labels(value, value))


def _key(value: Object) -> tuple[str, str]:
    return string(metadata(value).get("name")), string(metadata(value).get("namespace"))


PROJECTIONS: Mapping[str, Callable[[Object], Fact | None]] = {
    "Namespace": _namespace,
    "LocalQueue": _local_queue,
    "ClusterQueue": _cluster_queue,
    "ResourceQuota": _resource_quota,
    "Deployment": _workload(DEPLOYMENT),
    "StatefulSet": _workload(STATEFUL_SET),
    "Pod": _pod,
}
"""Every kind that can be watched, and how its objects become facts. None: the object holds nothing to compare with."""

GROUPS: Mapping[str, str] = {
    "Namespace": "",
    "LocalQueue": "kueue.x-k8s.io",
    "ClusterQueue": "kueue.x-k8s.io",
    "ResourceQuota": "",
    "Deployment": "apps",
    "StatefulSet": "apps",
    "Pod": "",
}
