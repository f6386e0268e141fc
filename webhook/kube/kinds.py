"""The kinds table: every kind that is judged, those that make pods (webhook.kube.workloads) and the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from webhook.kube.cached import cached
from webhook.kube.gangs import CRON_JOB, JOB, LEADER_WORKER_SET
from webhook.kube.objects import Object, group, mapping, metadata, sequence, string
from webhook.kube.row import Kind
from webhook.kube.workloads import (
    DAEMON_SET,
    DEPLOYMENT,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    WORKLOADS,
)

__all__ = [
    "AUTOSCALERS",
    "BUILT_IN",
    "CLUSTER_QUEUE",
    "COHORT",
    "CRON_JOB",
    "DAEMON_SET",
    "DEPLOYMENT",
    "FLOORS",
    "HORIZONTAL_POD_AUTOSCALER",
    "JOB",
    "JUDGED",
    "KINDS",
    "LEADER_WORKER_SET",
    "LOCAL_QUEUE",
    "NAMESPACE",
    "POD",
    "REPLICATION_CONTROLLER",
    "REPLICA_SET",
    "RESOURCE_FLAVOR",
    "RESOURCE_QUOTA",
    "SCALED_OBJECT",
    "STATEFUL_SET",
    "VOLCANO_QUEUE",
    "WORKLOADS",
    "Kind",
    "Kinds",
    "Owner",
    "controller",
    "kind_of",
]

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

FLOORS = (CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, VOLCANO_QUEUE)
"""What decides how much is guaranteed, and on which nodes."""

AUTOSCALERS = (HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT)
BUILT_IN = ("", "apps", "batch", "autoscaling")
"""The API groups of Kubernetes itself: what it knows the types of, it fills in and refuses by them."""

JUDGED = (*WORKLOADS, RESOURCE_QUOTA, LOCAL_QUEUE, NAMESPACE, *FLOORS, *AUTOSCALERS)


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of an object, as its ownerReferences name it."""

    group: str
    kind: str
    name: str


@dataclass(frozen=True)
class Kinds:
    """The rows that are in force: the table's and, after them, those that a policy adds."""

    rows: tuple[Kind, ...]

    @cached
    def _by_name(self) -> dict[tuple[str, str], Kind]:
        return {(row.group, row.kind): row for row in self.rows}

    @cached
    def _between(self) -> dict[tuple[str, str], Kind]:
        return {(row.group, kind): row for row in self.rows for kind in row.between}

    @cached
    def workloads(self) -> tuple[Kind, ...]:
        return tuple(row for row in self.rows if row.is_workload)

    def of(self, api_group: str, kind: str) -> Kind | None:
        """The row of a kind, or None for one that is not judged."""
        return self._by_name.get((api_group, kind))

    def parent(self, owner: Owner | None) -> Kind | None:
        """The row of an owner that is a workload, or a part of one: its children are not judged a second time."""
        if owner is None:
            return None
        name = owner.group, owner.kind
        row = self._by_name.get(name) or self._between.get(name)
        return row if row is not None and row.is_workload else None

    def and_others(self, rows: Iterable[Kind]) -> Kinds:
        added = (*self.rows, *rows)
        return self if len(added) == len(self.rows) else Kinds(added)


KINDS = Kinds(JUDGED)
"""What is judged where no policy adds to it."""


def kind_of(api_group: str, kind: str) -> Kind | None:
    """The row of a kind in the table, or None for one that Floorkeeper does not know of itself."""
    return KINDS.of(api_group, kind)


def controller(value: Object) -> Owner | None:
    """The owner reference with controller: true; an object has one at the most."""
    for reference in sequence(metadata(value).get("ownerReferences")):
        entry = mapping(reference)
        if entry.get("controller") is True:
            return Owner(group(string(entry.get("apiVersion"))), string(entry.get("kind")), string(entry.get("name")))
    return None
