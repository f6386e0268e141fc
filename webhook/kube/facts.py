"""Facts: the few fields of watched objects that a rule ever compares with.

`project` turns an object into its fact when it arrives, so that a heartbeat or a status write that changes no fact
costs one comparison, and thousands of objects fit into little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from webhook.kube.kinds import DEPLOYMENT, STATEFUL_SET, Kind, controller
from webhook.kube.names import DEFAULT_QUEUE_ANNOTATION, KUEUE_GROUP, MODE_ANNOTATION, QUEUE_LABEL
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact, project_node, project_resource_flavor
from webhook.kube.objects import Object, at, deleting, label, labels, mapping, metadata, string
from webhook.kube.quota_facts import (
    AdmissionCheckFact,
    ClusterQueueFact,
    CohortFact,
    project_admission_check,
    project_cluster_queue,
    project_cohort,
    stopped,
)


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


_ClusterFact = NamespaceFact | ClusterQueueFact | CohortFact | ResourceFlavorFact | AdmissionCheckFact | NodeFact
Fact = _ClusterFact | LocalQueueFact | ResourceQuotaFact | WorkloadFact


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
    return LocalQueueFact(namespace, name, string(at(value, ("spec", "clusterQueue"))), stopped(value))


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
    "ClusterQueue": project_cluster_queue,
    "Cohort": project_cohort,
    "ResourceFlavor": project_resource_flavor,
    "AdmissionCheck": project_admission_check,
    "Node": project_node,
    "ResourceQuota": _resource_quota,
    "Deployment": _workload(DEPLOYMENT),
    "StatefulSet": _workload(STATEFUL_SET),
    "Pod": _pod,
}
"""Every kind that can be watched, and how its objects become facts. None: the object holds nothing to compare with."""

GROUPS: Mapping[str, str] = {
    "Namespace": "",
    "LocalQueue": KUEUE_GROUP,
    "ClusterQueue": KUEUE_GROUP,
    "Cohort": KUEUE_GROUP,
    "ResourceFlavor": KUEUE_GROUP,
    "AdmissionCheck": KUEUE_GROUP,
    "Node": "",
    "ResourceQuota": "",
    "Deployment": "apps",
    "StatefulSet": "apps",
    "Pod": "",
}

CLUSTER_SCOPED = frozenset({"Namespace", "ClusterQueue", "Cohort", "ResourceFlavor", "AdmissionCheck", "Node"})
"""Kinds whose objects are in no namespace."""
