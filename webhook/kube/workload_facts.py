"""Workloads: facts of what is in a queue, or could be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from webhook.kube.accelerators import Accelerators
from webhook.kube.kinds import WORKLOADS, Kind, Owner, controller
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, at, deleting, label, labels, mapping, metadata, sequence, string
from webhook.kube.pod_sets import PodSet, Reading, pod_sets_of, pods_now, units_of
from webhook.kube.unqueued_pods import FINISHED

ADMITTED = tuple(row for row in WORKLOADS if row.label == () and row.gang)
"""The kinds that Kueue admits as a whole: their pods do not have the queue label, so the objects are known."""

_PARENTS = frozenset((row.group, row.kind) for row in ADMITTED)
_READING = Reading(Accelerators(frozenset()))


@dataclass(frozen=True, slots=True)
class WorkloadFact:
    """A Deployment, a StatefulSet, a Pod that neither of them stands for, or what Kueue admits as a whole."""

    kind: str
    namespace: str
    name: str
    queue: str
    """The queue label of its pod template (of a Pod or what is admitted as a whole: its own), '' without one."""

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
    """What one unit, such as a pod of a Deployment, requests of extended resources, in billionths; empty for a workload
    without a queue and for a Pod, of which only metadata is watched."""


def workload_labels(value: Object, template: Object) -> dict[str, str]:
    """What a policy's queue selector is matched against: the labels of the pod template and of the object itself."""
    both = {**labels(template), **labels(value)}
    return {key: text for key, text in both.items() if isinstance(text, str)}


def project_workload(kind: Kind) -> Callable[[Object], WorkloadFact]:
    """Of a kind whose pods are admitted one by one."""

    def project(value: Object) -> WorkloadFact:
        name, namespace = _named(value)
        sets = pod_sets_of(kind, value, _READING)
        template = sets[0].template.value if sets else {}
        queue, object_queue = label(template, QUEUE_LABEL), label(value, QUEUE_LABEL)
        wanted = units_of(kind, value)
        return WorkloadFact(
            kind.kind,
            namespace,
            name,
            queue,
            object_queue,
            running=wanted > 0 or bool(pods_now(kind, value)),
            owned=controller(value) is not None,
            labels=workload_labels(value, template) if queue or object_queue else {},
            live=wanted > 0 and not deleting(value),
            requests=_extended_requests(sets) if queue or object_queue else {},
        )

    return project


def project_admitted(kind: Kind) -> Callable[[Object], WorkloadFact | None]:
    """Of a kind that Kueue admits as a whole, by the label on the object."""

    def project(value: Object) -> WorkloadFact | None:
        """None for a part of another such object, which answers for it, and for what has ended."""
        owner = controller(value)
        if (owner is not None and (owner.group, owner.kind) in _PARENTS) or _ended(value):
            return None
        name, namespace = _named(value)
        queue, sets = label(value, QUEUE_LABEL), pod_sets_of(kind, value, _READING)
        return WorkloadFact(
            kind.kind,
            namespace,
            name,
            queue,
            queue,
            running=True,
            owned=owner is not None,
            labels=workload_labels(value, sets[0].template.value if sets else {}),
            live=units_of(kind, value) > 0 and not deleting(value),
            requests=_extended_requests(sets),
        )

    return project


def _ended(value: Object) -> bool:
    """Whether a Job or the like has ended, in the words of the kinds that there are."""
    status = mapping(value.get("status"))
    conditions = map(mapping, sequence(status.get("conditions")))
    words = {string(entry.get("type")) for entry in conditions if entry.get("status") == "True"}
    return not _ENDS.isdisjoint(words | {string(at(status, path)) for path in _PHASES})


_ENDS = frozenset({"Complete", "Completed", "COMPLETED", "Succeeded", "Failed", "FAILED"})
_PHASES = (("phase",), ("jobDeploymentStatus",), ("applicationState", "state"))


def _extended_requests(sets: Sequence[PodSet]) -> dict[str, int]:
    """What one unit requests of extended resources."""
    found: dict[str, int] = {}
    for each in sets:
        for resource, amount in each.template.totals().items():
            if "/" in resource and amount > 0 and each.pods:
                found[resource] = found.get(resource, 0) + amount * each.pods
    return found


def project_pod(value: Object) -> WorkloadFact | None:
    """None for a pod that a watched workload stands for, and for one that has finished, which is not watched either."""
    owner = controller(value)
    if (owner is not None and _stands_for(owner, value)) or at(value, ("status", "phase")) in FINISHED:
        return None
    name, namespace = _named(value)
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


def _named(value: Object) -> tuple[str, str]:
    return string(metadata(value).get("name")), string(metadata(value).get("namespace"))
