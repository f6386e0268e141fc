"""Facts: the few fields of watched objects that a rule ever compares with.

`project` turns an object into its fact when it arrives, so that a heartbeat or a status write that changes no fact
costs one comparison, and thousands of objects fit into little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from webhook.kube.autoscaler_facts import AutoscalerFact, project_horizontal_pod_autoscaler, project_scaled_object
from webhook.kube.claims import (
    ClaimFact,
    DeviceClassFact,
    project_device_class,
    project_resource_claim,
    project_resource_claim_template,
)
from webhook.kube.kinds import DEPLOYMENT, STATEFUL_SET
from webhook.kube.kueue_facts import (
    KueueConfigurationFact,
    WorkloadPriorityClassFact,
    project_kueue_configuration,
    project_workload_priority_class,
)
from webhook.kube.names import DEFAULT_QUEUE_ANNOTATION, KUEUE_GROUP, MODE_ANNOTATION, RESOURCE_GROUP
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact, project_node, project_resource_flavor
from webhook.kube.objects import Object, at, deleting, labels, mapping, metadata, string
from webhook.kube.pod_defaults import LimitRangeFact, RuntimeClassFact, project_limit_range, project_runtime_class
from webhook.kube.quota_facts import (
    AdmissionCheckFact,
    ClusterQueueFact,
    CohortFact,
    project_admission_check,
    project_cluster_queue,
    project_cohort,
    stopped,
)
from webhook.kube.unqueued_pods import UnqueuedPodFact, project_unqueued_pod
from webhook.kube.volcano_facts import VolcanoQueueFact, project_volcano_queue
from webhook.kube.workload_facts import ADMITTED, WorkloadFact, project_admitted, project_pod, project_workload


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
    | DeviceClassFact
)
_NamespacedFact = (
    LocalQueueFact
    | ResourceQuotaFact
    | WorkloadFact
    | AutoscalerFact
    | LimitRangeFact
    | KueueConfigurationFact
    | UnqueuedPodFact
    | ClaimFact
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


def _key(value: Object) -> tuple[str, str]:
    return string(metadata(value).get("name")), string(metadata(value).get("namespace"))


def _local_queue(value: Object) -> LocalQueueFact:
    name, namespace = _key(value)
    return LocalQueueFact(namespace, name, string(at(value, ("spec", "clusterQueue"))), stopped(value))


def _resource_quota(value: Object) -> ResourceQuotaFact:
    name, namespace = _key(value)
    return ResourceQuotaFact(namespace, name, tuple(sorted(map(str, mapping(at(value, ("spec", "hard")))))))


PROJECTIONS: Mapping[str, Callable[[Object], Fact | None]] = {
    "Namespace": _namespace,
    "LocalQueue": _local_queue,
    "ClusterQueue": project_cluster_queue,
    "Cohort": project_cohort,
    "ResourceFlavor": project_resource_flavor,
    "AdmissionCheck": project_admission_check,
    "Node": project_node,
    "ResourceQuota": _resource_quota,
    "Deployment": project_workload(DEPLOYMENT),
    "StatefulSet": project_workload(STATEFUL_SET),
    **{row.kind: project_admitted(row) for row in ADMITTED},
    "Pod": project_pod,
    "UnqueuedPod": project_unqueued_pod,
    "HorizontalPodAutoscaler": project_horizontal_pod_autoscaler,
    "ScaledObject": project_scaled_object,
    "LimitRange": project_limit_range,
    "RuntimeClass": project_runtime_class,
    "ConfigMap": project_kueue_configuration,
    "WorkloadPriorityClass": project_workload_priority_class,
    "Queue": project_volcano_queue,
    "ResourceClaimTemplate": project_resource_claim_template,
    "ResourceClaim": project_resource_claim,
    "DeviceClass": project_device_class,
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
    **{row.kind: row.group for row in ADMITTED},
    "Pod": "",
    "UnqueuedPod": "",
    "HorizontalPodAutoscaler": "autoscaling",
    "ScaledObject": "keda.sh",
    "LimitRange": "",
    "RuntimeClass": "node.k8s.io",
    "ConfigMap": "",
    "WorkloadPriorityClass": KUEUE_GROUP,
    "Queue": "scheduling.volcano.sh",
    "ResourceClaimTemplate": RESOURCE_GROUP,
    "ResourceClaim": RESOURCE_GROUP,
    "DeviceClass": RESOURCE_GROUP,
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
        "DeviceClass",
    }
)
"""Kinds whose objects are in no namespace."""
