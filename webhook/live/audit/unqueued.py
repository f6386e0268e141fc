"""Checks of pods: why some are held back, and which are on accelerators that no queue counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from webhook.kube.names import KUEUE_GROUP, POD_SET_LABEL, QUEUE_LABEL, SYSTEM_NAMESPACES
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact
from webhook.kube.objects import Path
from webhook.kube.quantity import show
from webhook.kube.snapshot import FactsMissing
from webhook.live.audit.pods import Mark, PlacedPod
from webhook.live.audit.report import Reference
from webhook.live.audit.standing import Defect, NotLookedAt, Standing
from webhook.live.audit.taken import Taken, Taking
from webhook.live.audit.workloads import Waiting
from webhook.live.pods import LET_GO, NO_WORKLOAD, NOT_LOOKED_AT, SEE_KUEUE

_TEMPLATED = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "ReplicationController", "Job"})

_WORKLOADS = f"workloads.{KUEUE_GROUP}"
_NOT_TOLD = "why is not known"
_LACKING = "insufficient"
"""A word of Kueue where nothing is wrong but that quota is used up."""

_GATED_FIX = {
    True: "free quota for it, scale down, or let it wait: it holds no accelerator meanwhile",
    False: "mend what Kueue names: until then it waits",
}


def gated_pods(standing: Standing) -> Iterator[Defect]:
    """No pod waits at Kueue's gate.

    Some may by design: a pod beyond the budget waits until there is quota for it. Its Workload says what is lacking.
    """
    reading = standing.reading
    standing.need("pods")
    unread = list(standing.unread(_WORKLOADS))
    going = set(reading.managed).difference(standing.managed)
    by_pod: dict[tuple[str, str], Waiting] = {}
    for each in reading.workloads.waiting:
        by_pod[each.namespace, each.name] = each
    for each in reading.workloads.waiting:
        by_pod |= {(each.namespace, f"Pod/{name}"): each for name in each.pods}
    for pod in reading.gated:
        if pod.namespace in going:
            continue
        found = by_pod.get((pod.namespace, f"Pod/{pod.name}")) or by_pod.get((pod.namespace, pod.group))
        reason = found.reason if found is not None else _NOT_TOLD if unread else NO_WORKLOAD
        if reason == _NOT_TOLD:
            fix = "read its Workload, which says what is lacking"
        elif reason in (NO_WORKLOAD, NOT_LOOKED_AT):
            fix = SEE_KUEUE
        elif reason == LET_GO:
            # Workloads are read after pods.
            fix = f"look again; if it is so still, {SEE_KUEUE}"
        else:
            fix = _GATED_FIX[_LACKING in reason]
        yield Defect(
            Reference(pod.namespace, "Pod", pod.name, "v1"),
            ("spec", "schedulingGates"),
            "must be admitted",
            f"gated: {reason}",
            fix,
        )
    if reading.gated:
        standing.need(_WORKLOADS)


@dataclass(slots=True)
class _Held:
    """What pods hold, in billionths by resource. What they claim together is counted once."""

    pods: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    uncounted: set[str] = field(default_factory=set)
    """Resources of which nobody knows how much, such as all devices of a node."""

    def add(self, taken: Taken) -> None:
        self.pods += 1
        for requests in (taken.own, *(taken.shared[name] for name in taken.shared.keys() - self.shared)):
            for resource, amount in requests.items():
                self.requests[resource] = self.requests.get(resource, 0) + amount
        self.shared |= taken.shared.keys()
        self.uncounted |= taken.uncounted

    def __str__(self) -> str:
        amounts = [f"{show(amount)} {resource}" for resource, amount in sorted(self.requests.items())]
        amounts += (f"some {resource}" for resource in sorted(self.uncounted - self.requests.keys()))
        return f"{' and '.join(amounts)} in {self.pods:,} pod{'' if self.pods == 1 else 's'}"


_OUTSIDE = {
    Mark.NONE: "outside of any with {}",
    Mark.QUEUE: "labelled for one, and without a Workload, with {}",
    Mark.POD_SET: f"outside of any, with the label {POD_SET_LABEL} and no Workload, with {{}}",
}


def uncounted_pods(standing: Standing) -> Iterator[Defect]:
    """Every pod on accelerators of the floors is in a queue.

    Looked at are all pods of managed namespaces, and of other namespaces those on nodes that a flavor of some
    ClusterQueue has: what they hold, Kueue takes for free. A label alone counts for nothing: a pod that was made while
    Kueue's webhooks did not see it has no Workload.
    """
    standing.need("pods")
    unknown: dict[str, None] = {}
    held: dict[tuple[Reference, Mark], _Held] = {}
    for pod, taken in _looked_at(standing, unknown):
        held.setdefault((pod.owner, pod.mark), _Held()).add(taken)
    for (owner, mark), what in sorted(held.items(), key=lambda each: (each[0][0], each[0][1].value)):
        actual = _OUTSIDE[mark].format(what)
        yield Defect(owner, _path(owner), "must be counted by a queue", actual, _fix(standing, owner, mark))
    if unknown:
        raise NotLookedAt("; ".join(unknown))


def _looked_at(standing: Standing, unknown: dict[str, None]) -> Iterator[tuple[PlacedPod, Taken]]:
    """The pods that no Workload stands for, of those that are the policy's business, with what they hold. What keeps
    others from being looked at is added to `unknown`."""
    reading, nodes = standing.reading, _Nodes(standing)
    taking = Taking(reading.snapshot, standing.policy.accelerators)
    managed, today = set(reading.managed), standing.now.date()
    unread = list(standing.unread(KUEUE_GROUP, _WORKLOADS))
    for pod in reading.placed:
        inside = pod.namespace in managed
        fact = reading.snapshot.namespace(pod.namespace)
        if (fact is not None and fact.terminating) or (standing.limited and not inside):
            continue
        # Without Kueue, a label does nothing, which another check says.
        if pod.mark is Mark.QUEUE and not (reading.kueue_versions or unread):
            continue
        if pod.mark is not Mark.NONE and reading.has_workload(pod):
            continue
        exempt = (
            standing.policy.exemption("", frozenset(), pod.namespace, name, today) for name in pod.names(reading.made)
        )
        if inside and any(exempt):
            continue
        taken = taking.of(pod)
        if not taken and not taken.unknown:
            continue
        try:
            on_floors = inside or nodes.have_floors(pod.node)
        except FactsMissing as missing:
            unknown[str(missing)] = None
            continue
        if on_floors:
            unknown |= dict.fromkeys((*taken.unknown, *(unread if pod.mark is not Mark.NONE else ())))
            if taken and (pod.mark is Mark.NONE or not unread):
                yield pod, taken


def _fix(standing: Standing, owner: Reference, mark: Mark) -> str:
    inside = owner.namespace in standing.reading.managed
    if owner.namespace in SYSTEM_NAMESPACES:
        return "keep it off the nodes of the flavors, by a taint or a nodeSelector: no queue is for a system namespace"
    if mark is Mark.QUEUE:
        return f"{SEE_KUEUE}; then restart it: the label came too late, or Kueue did not heed it"
    if not inside:
        return "label it for a queue in a managed namespace, or keep it off the nodes of the flavors"
    return "label it for a queue (floorkeeper adopt, for a Deployment): Kueue takes what it holds for free"


class _Nodes:
    """Which nodes have accelerators that floors are about."""

    def __init__(self, standing: Standing) -> None:
        self._snapshot = standing.reading.snapshot
        self._ignored = standing.policy.capacity.ignore_flavors
        self._known: dict[str, bool] = {}

    def have_floors(self, node: str) -> bool:
        """Raises FactsMissing without nodes, ClusterQueues or flavors."""
        if node not in self._known:
            self._known[node] = self._look(node)
        return self._known[node]

    @cached_property
    def _flavors(self) -> list[ResourceFlavorFact]:
        """Those that some ClusterQueue names."""
        queues = self._snapshot.cluster_queues()
        named = {name for queue in queues for group in queue.groups for name in group.flavors} - self._ignored
        return [flavor for flavor in self._snapshot.flavors() if flavor.name in named]

    def _look(self, node: str) -> bool:
        fact = self._snapshot.of_namespace("Node", "").get(node)
        return isinstance(fact, NodeFact) and any(flavor.matches(fact.labels) for flavor in self._flavors)


def _path(owner: Reference) -> Path:
    if owner.kind == "Pod":
        return ("metadata", "labels", QUEUE_LABEL)
    return ("spec", "template") if owner.kind in _TEMPLATED else ("spec",)
