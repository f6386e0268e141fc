"""How far the rollout of a Deployment is, as its status has it."""

from __future__ import annotations

from dataclasses import dataclass

from webhook.kube.objects import Object, at, mapping, metadata, sequence, string
from webhook.kube.selector import label_selector


@dataclass(frozen=True, slots=True)
class Rollout:
    """Counts of pods. `total` are all that there are, `updated` those of the newest template.

    `seen` says whether the Deployment controller knows the newest spec: if not, the counts are of an older one.
    """

    wanted: int
    total: int
    updated: int
    ready: int
    available: int
    seen: bool
    overdue: bool = False
    """progressDeadlineSeconds went by with no progress."""

    failure: str = ""
    """Why no pod is made, '' if that is not so: a quota, PodSecurity, a webhook."""

    settling: int = 0
    """minReadySeconds: how long a pod is to be ready before it is available."""

    @property
    def old(self) -> int:
        """Pods of an older template."""
        return max(self.total - self.updated, 0)

    @property
    def replaced(self) -> bool:
        """Whether all pods that are wanted are there, and are of the newest template; they need not be ready."""
        return self.seen and self.updated >= self.wanted and self.old == 0

    @property
    def finished(self) -> bool:
        """As `kubectl rollout status` decides it."""
        return self.replaced and self.available >= self.updated


def rollout_of(deployment: Object) -> Rollout:
    status = mapping(deployment.get("status"))
    conditions = [mapping(each) for each in sequence(status.get("conditions"))]
    failed = [each for each in conditions if each.get("type") == "ReplicaFailure" and each.get("status") == "True"]
    return Rollout(
        replicas(deployment),
        _count(status.get("replicas")),
        _count(status.get("updatedReplicas")),
        _count(status.get("readyReplicas")),
        _count(status.get("availableReplicas")),
        _count(status.get("observedGeneration")) >= _count(metadata(deployment).get("generation")),
        any(each.get("reason") == "ProgressDeadlineExceeded" for each in conditions),
        " ".join(string(failed[0].get("message")).split()) if failed else "",
        _count(at(deployment, ("spec", "minReadySeconds"))),
    )


def replicas(deployment: Object) -> int:
    """spec.replicas, 1 where it is absent."""
    wanted = at(deployment, ("spec", "replicas"))
    return wanted if isinstance(wanted, int) else 1


def pods_selected(deployment: Object) -> str:
    """The labels of its pods, as a list request takes them."""
    return str(label_selector(mapping(at(deployment, ("spec", "selector")))))


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
