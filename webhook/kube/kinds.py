"""The kinds table: one row for each kind that makes pods.

A row says where the kind keeps its pod templates, where its queue label goes and which field surges. A new kind is a
new row. Kinds without `templates` are known as owners only: their pods were answered for when the owner was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.kube.objects import Object, Path, group, mapping, metadata, sequence, string


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table."""

    group: str
    kind: str
    resource: str
    """The plural name in URLs and in webhook rules."""

    versions: tuple[str, ...] = ("v1",)
    templates: tuple[Path, ...] = ()
    """Where the pod templates are; the empty path is the object itself, for a Pod."""

    selector: Path = ()
    """Where the label selector for its pods is; empty if the kind has none."""

    surge: Path = ()
    """Where the rolling update's maxSurge and maxUnavailable are; empty if the kind cannot surge."""

    kueue_defaults: bool = False
    """Kueue's own webhook for the kind labels unlabelled objects with a LocalQueue `default`, and copies the object's
    label over its template's (Kueue 0.17)."""

    label_on_update: bool = True
    """Whether a label that is added later reaches the pods; a Pod that exists is past Kueue's gate."""

    cluster_scoped: bool = False
    """Quota objects are in no namespace and share the hardware, so they are judged wherever they are used. Not set for
    Namespace, which the API server takes to be in itself."""

    @property
    def is_workload(self) -> bool:
        return bool(self.templates)


_TEMPLATE: tuple[Path, ...] = (("spec", "template"),)
_SELECTOR: Path = ("spec", "selector")

DEPLOYMENT = Kind(
    "apps",
    "Deployment",
    "deployments",
    templates=_TEMPLATE,
    selector=_SELECTOR,
    surge=("spec", "strategy", "rollingUpdate"),
    kueue_defaults=True,
)
STATEFUL_SET = Kind("apps", "StatefulSet", "statefulsets", templates=_TEMPLATE, selector=_SELECTOR, kueue_defaults=True)
REPLICA_SET = Kind("apps", "ReplicaSet", "replicasets", templates=_TEMPLATE, selector=_SELECTOR)
POD = Kind("", "Pod", "pods", templates=((),), label_on_update=False)

_KUEUE_VERSIONS = ("v1beta1", "v1beta2")
RESOURCE_QUOTA = Kind("", "ResourceQuota", "resourcequotas")
LOCAL_QUEUE = Kind("kueue.x-k8s.io", "LocalQueue", "localqueues", _KUEUE_VERSIONS)
NAMESPACE = Kind("", "Namespace", "namespaces")

CLUSTER_QUEUE = Kind("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", _KUEUE_VERSIONS, cluster_scoped=True)
COHORT = Kind("kueue.x-k8s.io", "Cohort", "cohorts", _KUEUE_VERSIONS, cluster_scoped=True)
RESOURCE_FLAVOR = Kind("kueue.x-k8s.io", "ResourceFlavor", "resourceflavors", _KUEUE_VERSIONS, cluster_scoped=True)
VOLCANO_QUEUE = Kind("scheduling.volcano.sh", "Queue", "queues", ("v1beta1",), cluster_scoped=True)

HORIZONTAL_POD_AUTOSCALER = Kind("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", ("v2",))
SCALED_OBJECT = Kind("keda.sh", "ScaledObject", "scaledobjects", ("v1alpha1",))

WORKLOADS = (DEPLOYMENT, STATEFUL_SET, REPLICA_SET, POD)
FLOORS = (CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, VOLCANO_QUEUE)
"""What decides how much is guaranteed, and on which nodes."""

AUTOSCALERS = (HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT)
JUDGED = (*WORKLOADS, RESOURCE_QUOTA, LOCAL_QUEUE, NAMESPACE, *FLOORS, *AUTOSCALERS)

_OWNERS = (
    *((row.group, row.kind) for row in WORKLOADS),
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("jobset.x-k8s.io", "JobSet"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    ("ray.io", "RayCluster"),
    ("ray.io", "RayJob"),
    ("ray.io", "RayService"),
    ("kubeflow.org", "PyTorchJob"),
    ("kubeflow.org", "TFJob"),
    ("kubeflow.org", "XGBoostJob"),
    ("kubeflow.org", "JAXJob"),
    ("kubeflow.org", "PaddleJob"),
    ("kubeflow.org", "MPIJob"),
    ("kubeflow.org", "Notebook"),
    ("trainer.kubeflow.org", "TrainJob"),
    ("workload.codeflare.dev", "AppWrapper"),
    ("sparkoperator.k8s.io", "SparkApplication"),
    ("serving.kserve.io", "InferenceService"),
    ("serving.kserve.io", "LLMInferenceService"),
    ("argoproj.io", "Rollout"),
    ("batch.volcano.sh", "Job"),
    ("serving.knative.dev", "Service"),
)
OWNERS: frozenset[tuple[str, str]] = frozenset(_OWNERS)
"""(group, kind) of every kind whose children are never judged again."""

_BY_NAME: Mapping[tuple[str, str], Kind] = {(row.group, row.kind): row for row in JUDGED}


def kind_of(api_group: str, kind: str) -> Kind | None:
    """The row of a kind, or None for one that Floorkeeper does not judge."""
    return _BY_NAME.get((api_group, kind))


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object, as its ownerReferences name it."""

    group: str
    kind: str
    name: str

    @property
    def is_parent(self) -> bool:
        """Whether the owner is itself a workload, so that its children are not judged a second time."""
        return (self.group, self.kind) in OWNERS


def controller(value: Object) -> Owner | None:
    """The owner reference with controller: true; an object has one at the most."""
    for reference in sequence(metadata(value).get("ownerReferences")):
        entry = mapping(reference)
        if entry.get("controller") is True:
            return Owner(group(string(entry.get("apiVersion"))), string(entry.get("kind")), string(entry.get("name")))
    return None
