"""An autoscaler asks for no more replicas than its target's queue can ever hold.

Kueue gates every replica beyond that, and it stays as a pending pod. What a queue can ever hold is its own quota and
what its cohort can lend; each replica is in one flavor, and all flavors of the queue count. Judged when an autoscaler
is written, and when its target is, with accelerators and a queue. A ScaledObject without maxReplicaCount has 100. The
HorizontalPodAutoscaler that KEDA keeps for a ScaledObject is left out. Of targets, a Deployment, a StatefulSet and a
LeaderWorkerSet are known when the autoscaler is written.

Some workloads say themselves how far they are scaled: the worker groups of a Ray cluster with enableInTreeAutoscaling,
by maxReplicas and numOfHosts, a SparkApplication, a Knative Service, an InferenceService. They are judged alike.

A ScaledObject's trigger by Utilization is told too: it counts the pods that are there, and gated ones skew it.

Guide: 'How It Interacts With the HPA'; Limitations, 'Gated pods accumulate'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from webhook.capacity.balance import balance_of
from webhook.capacity.potential import QuotaTrees
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.autoscaler_facts import AutoscalerFact
from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.kinds import AUTOSCALERS, DEPLOYMENT, LEADER_WORKER_SET, STATEFUL_SET, WORKLOADS
from webhook.kube.pod_sets import PodSet, Scaling
from webhook.kube.quantity import show
from webhook.kube.snapshot import FactsMissing, Snapshot

_TARGETS = (DEPLOYMENT, STATEFUL_SET, LEADER_WORKER_SET)
_SCALED = tuple(row for row in WORKLOADS if row.replicas or any(template.maximum for template in row.templates))
_NOTHING: Mapping[str, int] = {}
_MAXIMUM = {"HorizontalPodAutoscaler": "maxReplicas", "ScaledObject": "maxReplicaCount"}


@dataclass(frozen=True, slots=True)
class _Replica:
    """One unit of a workload: the LocalQueue that it is in, and the accelerators that it asks for, in billionths."""

    namespace: str
    queue: str
    asks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Ceiling:
    """How many such replicas a ClusterQueue can ever hold at once."""

    cluster_queue: str
    replicas: int

    def fix(self, autoscaler: AutoscalerFact) -> str:
        if self.replicas == 0:
            return "raise quota, or let a replica ask for less"
        return f"lower {_MAXIMUM[autoscaler.kind]} to {self.replicas}, or raise quota"


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if subject.kind in AUTOSCALERS:
        autoscaler = PROJECTIONS[subject.kind.kind](subject.value)
        if isinstance(autoscaler, AutoscalerFact):
            yield from _of_autoscaler(subject, autoscaler, snapshot, policy)
        return
    if subject.kind.replicas:
        yield from _of_target(subject, snapshot, policy)
    for each in subject.pod_sets:
        if each.scaling is not None:
            yield from _of_itself(subject, each, each.scaling, snapshot, policy)


def _of_autoscaler(
    subject: Subject, autoscaler: AutoscalerFact, snapshot: Snapshot, policy: Policy
) -> Iterator[Violation]:
    replica = _target(subject.namespace, autoscaler, snapshot, policy)
    if replica is None:
        return
    shared = _key(autoscaler)
    for index in autoscaler.utilization:
        yield Violation(
            ("spec", "triggers", index, "metricType"),
            must="must be AverageValue for GPU replicas in a queue",
            actual="Utilization",
            fix="use AverageValue: gated pods skew Utilization",
            shared=shared,
        )
    ceiling = _ceiling(replica, snapshot, policy)
    if ceiling is not None and autoscaler.maximum > ceiling.replicas:
        yield Violation(
            ("spec", _MAXIMUM[autoscaler.kind]),
            must=f'must be at most {ceiling.replicas}, all that ClusterQueue "{ceiling.cluster_queue}" can ever hold',
            actual=f"{autoscaler.maximum}, with {_asked(replica)} a replica",
            fix=ceiling.fix(autoscaler),
            weight=autoscaler.maximum - ceiling.replicas,
            shared=shared,
        )


def _of_target(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    replica = _own(subject, policy)
    if replica is None:
        return
    for kind in _MAXIMUM:
        by_target = snapshot.derived(kind, subject.namespace, "by target", _by_target)
        for autoscaler in by_target.get((subject.kind.group, subject.kind.kind, subject.name), ()):
            yield from _of_pair(replica, autoscaler, snapshot, policy)


def _of_pair(replica: _Replica, autoscaler: AutoscalerFact, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    """What is wrong with an autoscaler, told to who writes its target."""
    named, shared = f'{autoscaler.kind} "{autoscaler.name}"', _key(autoscaler)
    for index in autoscaler.utilization:
        yield Violation(
            ("metadata", "name"),
            must="must not be scaled by Utilization while in a queue",
            actual=f"by spec.triggers[{index}] of {named}",
            fix="use AverageValue there: gated pods skew Utilization",
            identity=("Utilization", autoscaler.name, index),
            shared=shared,
            aside=True,
        )
    ceiling = _ceiling(replica, snapshot, policy)
    if ceiling is not None and autoscaler.maximum > ceiling.replicas:
        most = f'{ceiling.replicas} replicas that ClusterQueue "{ceiling.cluster_queue}" can hold'
        yield Violation(
            ("metadata", "name"),
            must=f"must not outgrow the {most}",
            actual=f"up to {autoscaler.maximum} by {named}",
            fix=ceiling.fix(autoscaler),
            identity=(autoscaler.kind, autoscaler.name),
            weight=autoscaler.maximum - ceiling.replicas,
            shared=shared,
            aside=True,
        )


def _of_itself(
    subject: Subject, pods: PodSet, scaling: Scaling, snapshot: Snapshot, policy: Policy
) -> Iterator[Violation]:
    """A workload that scales itself. What its other templates ask for at the most is taken off what there is."""
    queue = subject.queue_for(pods.template)
    replica = _replica(subject.namespace, queue, pods.template.accelerators_asked, policy)
    others: dict[str, int] = {}
    for each in subject.pod_sets:
        if each is not pods and subject.queue_for(each.template) == queue:
            most = each.scaling.maximum * each.scaling.each if each.scaling is not None else each.pods
            for name, amount in each.template.accelerators_asked.items():
                others[name] = others.get(name, 0) + amount * most
    ceiling = _ceiling(replica, snapshot, policy, others) if replica is not None and scaling.each else None
    if replica is None or ceiling is None or scaling.maximum * scaling.each <= ceiling.replicas:
        return
    count, field = ceiling.replicas // scaling.each, str(scaling.path[-1])
    hosts = f" on each of {scaling.each} hosts" if scaling.each > 1 else ""
    beside = " beside the rest of it" if others else ""
    yield Violation(
        scaling.path,
        must=f'must be at most {count}, all that ClusterQueue "{ceiling.cluster_queue}" can ever hold{beside}',
        actual=f"{scaling.maximum}, with {_asked(replica)} a replica{hosts}",
        fix=f"lower {field} to {count}, or raise quota" if count else "raise quota, or let a replica ask for less",
        weight=scaling.maximum - count,
    )


def _key(autoscaler: AutoscalerFact) -> tuple[str, str, str]:
    return autoscaler.kind, autoscaler.namespace, autoscaler.name


def _by_target(facts: Mapping[str, Fact]) -> dict[tuple[str, str, str], list[AutoscalerFact]]:
    """The autoscalers, sorted by name, by group, kind and name of what they scale in their own namespace."""
    found: dict[tuple[str, str, str], list[AutoscalerFact]] = {}
    for _, fact in sorted(facts.items()):
        if isinstance(fact, AutoscalerFact):
            target = fact.target_group, fact.target_kind, fact.target_name
            found.setdefault(target, []).append(fact)
    return found


def _target(namespace: str, autoscaler: AutoscalerFact, snapshot: Snapshot, policy: Policy) -> _Replica | None:
    """A replica of what the autoscaler scales, if it is known and is a queued GPU workload."""
    if (autoscaler.target_group, autoscaler.target_kind) not in ((kind.group, kind.kind) for kind in _TARGETS):
        return None
    workload = snapshot.workload(autoscaler.target_kind, namespace, autoscaler.target_name)
    if workload is None:
        return None
    return _replica(namespace, workload.queue or workload.object_queue, workload.requests, policy)


def _own(subject: Subject, policy: Policy) -> _Replica | None:
    """A unit as its labels stand: one pod, or all that are admitted together."""
    if not subject.pod_sets:
        return None
    asks: dict[str, int] = {}
    for each in subject.pod_sets if subject.kind.gang else subject.pod_sets[:1]:
        for name, amount in each.template.totals().items():
            asks[name] = asks.get(name, 0) + amount * each.pods
    return _replica(subject.namespace, subject.queue_for(subject.pod_sets[0].template), asks, policy)


def _replica(namespace: str, queue: str, requests: Mapping[str, int], policy: Policy) -> _Replica | None:
    asks = {name: amount for name, amount in requests.items() if amount > 0 and policy.accelerators.covers(name)}
    return _Replica(namespace, queue, asks) if queue and asks else None


def _asked(replica: _Replica) -> str:
    return " and ".join(f"{show(amount)} {resource}" for resource, amount in sorted(replica.asks.items()))


def _ceiling(
    replica: _Replica, snapshot: Snapshot, policy: Policy, others: Mapping[str, int] = _NOTHING
) -> _Ceiling | None:
    """`others` is what else has to be there, in billionths.

    None where a queue is not there, or covers none of what is asked. Raises FactsMissing for a circle of Cohorts."""
    local_queue = snapshot.local_queue(replica.namespace, replica.queue)
    queue = snapshot.cluster_queue(local_queue.cluster_queue) if local_queue is not None else None
    if queue is None:
        return None
    if queue.cohort:
        # Asked only whether it is known: the balance takes Cohorts that are not for none.
        snapshot.cohort(queue.cohort)
    trees = balance_of(snapshot, policy.capacity, policy.accelerators).trees
    if trees.broken(queue.name):
        raise FactsMissing("Cohort", f"the parents of {queue.cohort} go round in a circle")
    counts = []
    for group in queue.groups:
        asked = {name: amount for name, amount in replica.asks.items() if name in group.covered}
        if asked:
            # A replica has all that the group covers from one flavor.
            most = sum(_fitting(trees, queue.name, flavor, asked) for flavor in group.flavors)
            counts.append(max(0, most - max(-(-others.get(name, 0) // amount) for name, amount in asked.items())))
    return _Ceiling(queue.name, min(counts)) if counts else None


def _fitting(trees: QuotaTrees, queue: str, flavor: str, asked: Mapping[str, int]) -> int:
    return min((trees.potential(queue, flavor, name) or 0) // amount for name, amount in asked.items())


RULE = Rule(
    id="replicas-over-ceiling",
    mode=Mode.WARN,
    kinds=(*_SCALED, *AUTOSCALERS),
    check=check,
    needs=frozenset({"LocalQueue", "ClusterQueue", "Cohort", *_MAXIMUM, *(kind.kind for kind in _TARGETS)}),
    page=__doc__,
)
