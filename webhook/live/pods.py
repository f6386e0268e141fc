"""Pods of queues, with their Workloads: which of them wait, and why, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from webhook.kube.names import KUEUE_GROUP, POD_SET_LABEL, QUEUE_LABEL
from webhook.kube.objects import Object, at, deleting, label, mapping, metadata, sequence, string
from webhook.kube.unqueued_pods import FINISHED

NO_WORKLOAD = "Kueue has made no Workload of it yet"
NOT_LOOKED_AT = "Kueue has not looked at its Workload yet"
LET_GO = "Kueue has admitted it this moment"
SEE_KUEUE = "see that Kueue's controller runs with the pod integration on, and manages this namespace"
_HAS_QUOTA = "it has quota"
_MANAGED = "kueue.x-k8s.io/managed"
"""Kueue puts it, with the value true, on the pods that have a Workload of their own."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that has not finished. `queue` is the LocalQueue of its label, '' without one."""

    name: str
    uid: str
    queue: str
    gated: bool
    """Kueue holds it at a scheduling gate."""

    ready: bool
    leaving: bool
    reason: str
    """Why it is not ready, '' if it is."""

    workload: str = ""
    """The name of its Workload, '' without one."""

    value: Object = field(default_factory=dict, repr=False, compare=False)

    @property
    def refused(self) -> bool:
        """Whether Kueue has looked at it, and has no quota for it. It may yet be about to preempt others."""
        waits = (NO_WORKLOAD, NOT_LOOKED_AT, LET_GO)
        checked = self.reason.startswith(_HAS_QUOTA)
        return self.gated and self.reason not in waits and not checked and "preemption of" not in self.reason


def pods_of(pods: Iterable[Object], workloads: Iterable[Object]) -> list[Pod]:
    """The pods that have not finished, sorted by name."""
    of_pod = by_owner(workloads)
    found = (_pod(pod, of_pod) for pod in pods if at(pod, ("status", "phase")) not in FINISHED)
    return sorted(found, key=lambda pod: pod.name)


def uncounted(pods: Iterable[Pod]) -> str:
    """What is to be said of those that have the label and go on without a Workload of Kueue's, '' if there are none."""
    found = [pod for pod in pods if pod.queue and not (pod.leaving or pod.gated or pod.workload)]
    if not found:
        return ""
    have = f"{len(found)} of its pods have" if len(found) > 1 else "one of its pods has"
    return f"{have} the label and no Workload ({found[0].name}), so no queue counts it: {SEE_KUEUE}"


def by_owner(workloads: Iterable[Object]) -> dict[str, Object]:
    """Workloads by the uid of each pod, or what else, that they stand for."""
    return {uid: workload for workload in workloads for uid in owners(workload)}


def owners(workload: Object, kind: str = "") -> Iterator[str]:
    """The uids of what a Workload stands for, of one kind or of all."""
    for entry in map(mapping, sequence(metadata(workload).get("ownerReferences"))):
        if kind in ("", entry.get("kind")):
            yield string(entry.get("uid"))


def condition(value: Object, kind: str) -> Mapping[str, object]:
    """The entry of status.conditions of a type, an empty one without it."""
    for entry in map(mapping, sequence(at(value, ("status", "conditions")))):
        if entry.get("type") == kind:
            return entry
    return {}


def holds(value: Object, kind: str) -> bool:
    return condition(value, kind).get("status") == "True"


def why_gated(workload: Object | None) -> str:
    """Why Kueue does not let the pods of a Workload go, in its own words as far as it says."""
    if workload is None:
        return NO_WORKLOAD
    if at(workload, ("spec", "active")) is False:
        return "its Workload is deactivated (spec.active false)"
    reserved = condition(workload, "QuotaReserved")
    if reserved.get("status") == "True":
        if not holds(workload, "Admitted"):
            return f"{_HAS_QUOTA}, and waits for admission checks{_pending_checks(workload)}"
        return LET_GO
    said = string(reserved.get("message"))
    if not said:
        evicted = condition(workload, "Evicted")
        said = string(evicted.get("message")) if evicted.get("status") == "True" else ""
    return " ".join(said.split()) or NOT_LOOKED_AT


def _pending_checks(workload: Object) -> str:
    states = map(mapping, sequence(at(workload, ("status", "admissionChecks"))))
    waiting = [
        f"{string(each.get('name'))} is {string(each.get('state'))}: {string(each.get('message'))}".rstrip(": ")
        for each in states
        if each.get("state") != "Ready"
    ]
    return f" ({'; '.join(waiting)})" if waiting else ""


def _pod(pod: Object, of_pod: Mapping[str, Object]) -> Pod:
    uid = string(metadata(pod).get("uid"))
    workload = of_pod.get(uid)
    gated = is_gated(pod)
    ready = holds(pod, "Ready")
    reason = "" if ready else why_gated(workload) if gated else _why_not_ready(pod)
    return Pod(
        string(metadata(pod).get("name")),
        uid,
        label(pod, QUEUE_LABEL),
        gated,
        ready,
        deleting(pod),
        reason,
        string(metadata(workload).get("name")) if workload is not None else "",
        pod,
    )


def is_gated(pod: Object) -> bool:
    gates = map(mapping, sequence(at(pod, ("spec", "schedulingGates"))))
    return any(string(gate.get("name")).startswith(f"{KUEUE_GROUP}/") for gate in gates)


def is_part(pod: Object) -> bool:
    """Whether the Workload that counts it stands for what made it, such as a Job."""
    return bool(label(pod, POD_SET_LABEL)) and label(pod, _MANAGED) != "true"


def _why_not_ready(pod: Object) -> str:
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"not scheduled: {' '.join(string(scheduled.get('message')).split()) or 'the scheduler finds no node'}"
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in map(mapping, sequence(at(pod, ("status", kind)))):
            waiting = mapping(at(each, ("state", "waiting")))
            reason = string(waiting.get("reason"))
            if reason and reason not in ("ContainerCreating", "PodInitializing"):
                said = " ".join(string(waiting.get("message")).split())
                return f'container "{string(each.get("name"))}": {reason}' + (f": {said}" if said else "")
    return "it is starting"
