"""Facts: the few fields of watched objects that a rule ever compares with.

`project` turns an object into its fact when it arrives, so that a heartbeat or a status write that changes no fact
costs one comparison, and thousands of objects fit into little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from webhook.kube.accelerators import Accelerators
from webhook.kube.autoscaler_facts import AutoscalerFact, project_horizontal_pod_autoscaler, project_scaled_object
from webhook.kube.kinds import DEPLOYMENT, STATEFUL_SET, Kind, Owner, controller
from webhook.kube.kueue_facts import (
    KueueConfigurationFact,
    WorkloadPriorityClassFact,
    project_kueue_configuration,
    project_workload_priority_class,
)
from webhook.kube.names import DEFAULT_QUEUE_ANNOTATION, KUEUE_GROUP, MODE_ANNOTATION, QUEUE_LABEL
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact, project_node, project_resource_flavor
from webhook.kube.objects import Object, at, deleting, label, labels, mapping, metadata, string
from webhook.kube.pod_defaults import LimitRangeFact, RuntimeClassFact, project_limit_range, project_runtime_class
from webhook.kube.pods import pod_template
from webhook.kube.quota_facts import (
    AdmissionCheckFact,
    ClusterQueueFact,
    CohortFact,
    project_admission_check,
    project_cluster_queue,
    project_cohort,
    stopped,
)
from webhook.kube.unqueued_pods import FINISHED, UnqueuedPodFact, project_unqueued_pod
from webhook.kube.volcano_facts import VolcanoQueueFact, project_volcano_queue


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
    """A Deployment, a StatefulSet, or a Pod that neither of them stands for."""

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

    live: bool = True
    """It wants pods (spec.replicas above 0) and is not being deleted."""

    requests: Mapping[str, int] = field(default_factory=dict)
    """What one pod requests of extended resources, in billionths; empty for a workload without a queue and for a Pod,
    of which only metadata is watched."""


_ClusterFact = (
    NamespaceFact
    | ClusterQueueFact
    | CohortFact
    | ResourceFlavorFact
    | AdmissionCheckFact
    | NodeFact
    | RuntimeClassFact
    | WorkloadPriorityClassFact
    | VolcanoQueueFact
)
_NamespacedFact = (
    LocalQueueFact
    | ResourceQuotaFact
    | WorkloadFact
    | AutoscalerFact
    | LimitRangeFact
    | KueueConfigurationFact
    | UnqueuedPodFact
)
Fact = _ClusterFact | _NamespacedFact


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
            live=replicas(value) > 0 and not deleting(value),
            requests=_extended_requests(value, kind) if queue or object_queue else {},
        )

    return project_workload


def _extended_requests(value: Object, kind: Kind) -> dict[str, int]:
    template = pod_template(value, kind.templates[0], _NO_ACCELERATORS)
    totals = template.totals() if template is not None else {}
    return {resource: amount for resource, amount in totals.items() if "/" in resource and amount > 0}


def _pod(value: Object) -> WorkloadFact | None:
    """None for a pod that a watched workload stands for, and for one that has finished, which is not watched either."""
    owner = controller(value)
    if (owner is not None and _stands_for(owner, value)) or at(value, ("status", "phase")) in FINISHED:
        return None
    name, namespace = _key(value)
    queue = label(value, QUEUE_LABEL)
    return WorkloadFact(
        "Pod",
        namespace,
        name,
        queue,
        queue,
        running=True,
        owned=owner is not None,
        labels=workload_labels(value, value),
        live=not deleting(value),
    )


def _stands_for(owner: Owner, pod: Object) -> bool:
    """Whether the owner is a StatefulSet, or a Deployment's ReplicaSet: a bare one adds no pod-template-hash."""
    match owner.group, owner.kind:
        case "apps", "StatefulSet":
            return True
        case "apps", "ReplicaSet":
            return bool(label(pod, "pod-template-hash"))
    return False


_NO_ACCELERATORS = Accelerators(frozenset())


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
    "UnqueuedPod": project_unqueued_pod,
    "HorizontalPodAutoscaler": project_horizontal_pod_autoscaler,
    "ScaledObject": project_scaled_object,
    "LimitRange": project_limit_range,
    "RuntimeClass": project_runtime_class,
    "ConfigMap": project_kueue_configuration,
    "WorkloadPriorityClass": project_workload_priority_class,
    "Queue": project_volcano_queue,
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
    "UnqueuedPod": "",
    "HorizontalPodAutoscaler": "autoscaling",
    "ScaledObject": "keda.sh",
    "LimitRange": "",
    "RuntimeClass": "node.k8s.io",
    "ConfigMap": "",
    "WorkloadPriorityClass": KUEUE_GROUP,
    "Queue": "scheduling.volcano.sh",
}

SEEN_AS: Mapping[str, tuple[str, ...]] = {"Pod": ("Pod", "UnqueuedPod")}
"""Kinds of the API that become facts of more than one kind."""

CLUSTER_SCOPED = frozenset(
    {
        "Namespace",
        "ClusterQueue",
        "Cohort",
        "ResourceFlavor",
        "AdmissionCheck",
        "Node",
        "RuntimeClass",
        "WorkloadPriorityClass",
        "Queue",
    }
)
"""Kinds whose objects are in no namespace."""
