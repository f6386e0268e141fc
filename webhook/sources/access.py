"""What the watch cache asks of the API server: the rows that RBAC must grant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from webhook.kube.kinds import BUILT_IN
from webhook.kube.names import KUEUE_CONFIG_MAP, KUEUE_GROUP, QUEUE_LABEL, RESOURCE_GROUP, VOLCANO_GROUP
from webhook.kube.workload_facts import ADMITTED

LIST_WATCH = frozenset({"list", "watch"})
GET_LIST_WATCH = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Access:
    """One kind of `webhook.kube.facts.PROJECTIONS`, and how it is read."""

    kind: str
    group: str
    resource: str
    """The plural name in URLs and in RBAC rules."""

    verbs: frozenset[str] = LIST_WATCH
    versions: tuple[str, ...] = ("v1",)
    """The API versions that the projection understands, the best first."""

    optional: bool = False
    """A cluster can be without it: its version is discovered, and its absence keeps nobody from being ready."""

    absent_is_none: bool = False
    """Where the cluster does not serve the kind, it has no such object: that is known, and nothing waits for it."""

    label_selector: str = ""
    field_selector: str = ""
    object_name: str = ""
    """The one name that is asked for, which RBAC can grant alone; '' for all."""

    metadata_only: bool = False
    """The projection needs metadata alone, so the API server is asked to leave out the rest."""

    @property
    def name(self) -> str:
        """As RBAC and kubectl name it: localqueues.kueue.x-k8s.io."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def product(self) -> str:
        """What an admin installs so that the cluster serves an optional kind."""
        return _PRODUCTS.get(self.group, self.group)

    @property
    def selectors(self) -> dict[str, str]:
        """The query parameters by which a list and a watch are of these objects alone."""
        fields = f"metadata.name={self.object_name}" if self.object_name else self.field_selector
        both = {"labelSelector": self.label_selector, "fieldSelector": fields}
        return {name: text for name, text in both.items() if text}

    @property
    def group_path(self) -> str:
        return f"/apis/{self.group}" if self.group else "/api"

    def path(self, version: str, namespace: str = "") -> str:
        """Where all objects are listed, or those of one namespace."""
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self.group_path}/{version}{inside}/{self.resource}"

    def accept(self, *, watch: bool) -> str:
        """The Accept header of a list or a watch. A server that cannot leave out the rest sends whole objects."""
        if not self.metadata_only:
            return "application/json"
        reduced = "PartialObjectMetadata" if watch else "PartialObjectMetadataList"
        return f"application/json;as={reduced};g=meta.k8s.io;v=v1,application/json"


_KEDA_GROUP = "keda.sh"
_PRODUCTS: Mapping[str, str] = {
    KUEUE_GROUP: "Kueue",
    _KEDA_GROUP: "KEDA",
    VOLCANO_GROUP: "Volcano",
    RESOURCE_GROUP: "dynamic resource allocation",
}
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_KUEUE_VERSIONS = ("v1beta2", "v1beta1")
_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")

ACCESS: Mapping[str, Access] = {
    row.kind: row
    for row in (
        Access("Namespace", "", "namespaces", GET_LIST_WATCH),
        Access("LocalQueue", KUEUE_GROUP, "localqueues", LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("ClusterQueue", KUEUE_GROUP, "clusterqueues", LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("Cohort", KUEUE_GROUP, "cohorts", LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("ResourceFlavor", KUEUE_GROUP, "resourceflavors", LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("AdmissionCheck", KUEUE_GROUP, "admissionchecks", LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("Node", "", "nodes"),
        Access("ResourceQuota", "", "resourcequotas"),
        Access("Deployment", "apps", "deployments"),
        Access("StatefulSet", "apps", "statefulsets"),
        Access("Pod", "", "pods", label_selector=QUEUE_LABEL, field_selector=_UNFINISHED, metadata_only=True),
        *(
            Access(
                row.kind,
                row.group,
                row.resource,
                versions=row.versions,
                optional=row.group not in BUILT_IN,
                absent_is_none=row.group not in BUILT_IN,
                label_selector=QUEUE_LABEL,
            )
            for row in ADMITTED
        ),
        Access("UnqueuedPod", "", "pods", label_selector=f"!{QUEUE_LABEL}", field_selector=_UNFINISHED),
        Access("HorizontalPodAutoscaler", "autoscaling", "horizontalpodautoscalers", versions=("v2",)),
        Access(
            "ScaledObject", _KEDA_GROUP, "scaledobjects", versions=("v1alpha1",), optional=True, absent_is_none=True
        ),
        Access("LimitRange", "", "limitranges"),
        Access("RuntimeClass", "node.k8s.io", "runtimeclasses"),
        Access("ConfigMap", "", "configmaps", object_name=KUEUE_CONFIG_MAP),
        Access(
            "WorkloadPriorityClass", KUEUE_GROUP, "workloadpriorityclasses", LIST_WATCH, _KUEUE_VERSIONS, optional=True
        ),
        Access("Queue", VOLCANO_GROUP, "queues", versions=("v1beta1",), optional=True, absent_is_none=True),
        Access(
            "ResourceClaimTemplate",
            RESOURCE_GROUP,
            "resourceclaimtemplates",
            LIST_WATCH,
            _DRA_VERSIONS,
            optional=True,
            absent_is_none=True,
        ),
        Access(
            "ResourceClaim",
            RESOURCE_GROUP,
            "resourceclaims",
            LIST_WATCH,
            _DRA_VERSIONS,
            optional=True,
            absent_is_none=True,
        ),
        Access(
            "DeviceClass",
            RESOURCE_GROUP,
            "deviceclasses",
            LIST_WATCH,
            _DRA_VERSIONS,
            optional=True,
            absent_is_none=True,
        ),
    )
}
"""A row for each kind of PROJECTIONS. A pod that has finished holds no accelerator and never comes back."""
