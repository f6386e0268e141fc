"""Autoscalers: facts of HorizontalPodAutoscalers and of KEDA's ScaledObjects."""

from __future__ import annotations

from dataclasses import dataclass

from webhook.kube.kinds import controller
from webhook.kube.objects import Object, at, group, mapping, metadata, sequence, string

_KEDA_MAXIMUM = 100
"""maxReplicaCount where it is absent (KEDA 2.21)."""


@dataclass(frozen=True, slots=True)
class AutoscalerFact:
    """`maximum` is the most replicas that it asks for; `utilization` are the indexes of its triggers by Utilization."""

    kind: str
    namespace: str
    name: str
    target_group: str
    target_kind: str
    target_name: str
    maximum: int
    utilization: tuple[int, ...] = ()


def project_horizontal_pod_autoscaler(value: Object) -> AutoscalerFact | None:
    """None for the one that KEDA keeps for a ScaledObject, which answers for it."""
    owner = controller(value)
    if owner is not None and (owner.group, owner.kind) == ("keda.sh", "ScaledObject"):
        return None
    return _autoscaler("HorizontalPodAutoscaler", value, _count(value, "maxReplicas", 0), ())


def project_scaled_object(value: Object) -> AutoscalerFact:
    triggers = enumerate(map(mapping, sequence(at(value, ("spec", "triggers")))))
    utilization = tuple(index for index, trigger in triggers if _by_utilization(trigger))
    return _autoscaler("ScaledObject", value, _count(value, "maxReplicaCount", _KEDA_MAXIMUM), utilization)


def _count(value: Object, field: str, absent: int) -> int:
    count = at(value, ("spec", field))
    return count if isinstance(count, int) and not isinstance(count, bool) else absent


def _by_utilization(trigger: Object) -> bool:
    """metricType, or metadata.type as the cpu and memory scalers had it before."""
    return "Utilization" in (trigger.get("metricType"), at(trigger, ("metadata", "type")))


def _autoscaler(kind: str, value: Object, maximum: int, utilization: tuple[int, ...]) -> AutoscalerFact:
    target = mapping(at(value, ("spec", "scaleTargetRef")))
    return AutoscalerFact(
        kind,
        string(metadata(value).get("namespace")),
        string(metadata(value).get("name")),
        group(string(target.get("apiVersion")) or "apps/v1"),
        string(target.get("kind")) or "Deployment",
        string(target.get("name")),
        maximum,
        utilization,
    )
