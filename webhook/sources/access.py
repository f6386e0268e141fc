"""What the watch cache asks of the API server: the rows that RBAC must grant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from webhook.kube.names import KUEUE_GROUP, QUEUE_LABEL

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

    label_selector: str = ""
    metadata_only: bool = False
    """The projection needs metadata alone, so the API server is asked to leave out the rest."""

    @property
    def name(self) -> str:
        """As RBAC and kubectl name it: localqueues.kueue.x-k8s.io."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

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


_KUEUE_VERSIONS = ("v1beta2", "v1beta1")

ACCESS: Mapping[str, Access] = {
    row.kind: row
    for row in (
        Access("Namespace", "", "namespaces", GET_LIST_WATCH),
        Access("LocalQueue", KUEUE_GROUP, "localqueues", GET_LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("ClusterQueue", KUEUE_GROUP, "clusterqueues", LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("Cohort", KUEUE_GROUP, "cohorts", LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("ResourceFlavor", KUEUE_GROUP, "resourceflavors", LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("AdmissionCheck", KUEUE_GROUP, "admissionchecks", LIST_WATCH, _KUEUE_VERSIONS, optional=True),
        Access("Node", "", "nodes"),
        Access("ResourceQuota", "", "resourcequotas"),
        Access("Deployment", "apps", "deployments"),
        Access("StatefulSet", "apps", "statefulsets"),
        Access("Pod", "", "pods", label_selector=QUEUE_LABEL, metadata_only=True),
    )
}
"""A row for each kind of PROJECTIONS. Bare Pods count only with a queue label, and clusters hold many without one."""
