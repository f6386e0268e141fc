"""Which queues of a namespace nothing is in any more, and how they are deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, label, metadata, string
from webhook.kube.quantity import show
from webhook.kube.quota_facts import ClusterQueueFact, counted
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.kube.workload_facts import ADMITTED, WorkloadFact
from webhook.live.api import PODS, Api, Resource
from webhook.live.quota import members

_QUOTA = ("LocalQueue", "ClusterQueue", "Cohort")
KINDS = (*_QUOTA, "Deployment", "StatefulSet", *(row.kind for row in ADMITTED))
"""The kinds that decide it, in this namespace; LocalQueues of all count."""


@dataclass(slots=True)
class Queues:
    """What can be deleted, and what else is still in each of the others."""

    local: list[str] = field(default_factory=list)
    cluster: list[str] = field(default_factory=list)
    flavors: list[str] = field(default_factory=list)
    used: dict[str, list[str]] = field(default_factory=dict)
    """By 'LocalQueue x' or 'ClusterQueue y'."""

    lending: dict[str, list[str]] = field(default_factory=dict)
    """By ClusterQueue: 'x 2 nvidia.com/gpu in a100' of peers that borrow what it lends."""

    unknown: list[str] = field(default_factory=list)


def queues_of(
    api: Api,
    namespace: str,
    workloads: Resource | None,
    local_queues: Iterable[Object],
    snapshot: Snapshot,
    only: Collection[str] | None = None,
) -> Queues:
    """`local_queues` are those of all namespaces; `only` names those to tell of, None all of this one. Raises
    ApiError."""
    found = Queues()
    users = _users(namespace, snapshot, found)
    for pod in api.items(PODS, namespace, QUEUE_LABEL):
        users.setdefault(label(pod, QUEUE_LABEL), []).append(f"Pod {_name(pod)}")
    for workload in [] if workloads is None else api.items(workloads, namespace):
        queue = string((workload.get("spec") or {}).get("queueName"))
        users.setdefault(queue, []).append(f"Workload {_name(workload)}")
    leads: dict[str, list[tuple[str, str]]] = {}
    for value in local_queues:
        home, of = string(metadata(value).get("namespace")), string((value.get("spec") or {}).get("clusterQueue"))
        leads.setdefault(of, []).append((home, _name(value)))
    for of, handles in sorted(leads.items()):
        here = [name for home, name in handles if home == namespace and (only is None or name in only)]
        for name in sorted(here):
            if users.get(name):
                found.used[f"LocalQueue {name}"] = users[name]
            else:
                found.local.append(name)
        others = [f"LocalQueue {home}/{name}" for home, name in handles if home != namespace]
        others += [
            f"LocalQueue {name}"
            for home, name in handles
            if home == namespace and (name not in here or users.get(name))
        ]
        if here and others:
            found.used[f"ClusterQueue {of}"] = sorted(others)
        elif here:
            found.cluster.append(of)
    try:
        found.lending = {name: peers for name in found.cluster if (peers := _borrowers(name, snapshot))}
        found.cluster = [name for name in found.cluster if name not in found.lending]
        found.flavors = _flavors(found.cluster, snapshot.cluster_queues())
    except FactsMissing as missing:
        found.unknown.append(str(missing))
    return found


def _users(namespace: str, snapshot: Snapshot, found: Queues) -> dict[str, list[str]]:
    """By LocalQueue: the workloads whose label names it."""
    users: dict[str, list[str]] = {}
    for kind in KINDS[len(_QUOTA) :]:
        try:
            facts = snapshot.of_namespace(kind, namespace)
        except FactsMissing as missing:
            found.unknown.append(str(missing))
            continue
        for fact in facts.values():
            if isinstance(fact, WorkloadFact):
                for queue in sorted({fact.queue, fact.object_queue} - {""}):
                    users.setdefault(queue, []).append(f"{kind} {fact.name}")
    return users


def _borrowers(name: str, snapshot: Snapshot) -> list[str]:
    """Kueue does not say whose quota is lent: it may be that of each that has some idle."""
    queue = snapshot.cluster_queue(name)
    if queue is None or not queue.cohort:
        return []
    idle = {
        key
        for key, nominal in queue.nominal.items()
        if queue.lending.get(key, nominal) and counted(key[1], nominal) > queue.reserved.get(key, 0)
    }
    return [
        f"{peer.name} {show(borrowed)} {key[1]} in {key[0]}"
        for peer in members(snapshot, queue)
        for key in sorted(idle)
        if peer.name != name and (borrowed := peer.reserved.get(key, 0) - counted(key[1], peer.nominal.get(key, 0))) > 0
    ]


def _flavors(going: Sequence[str], cluster_queues: Iterable[ClusterQueueFact]) -> list[str]:
    """The flavors that only ClusterQueues name that can go."""
    named: dict[bool, set[str]] = {True: set(), False: set()}
    for each in cluster_queues:
        named[each.name in going] |= {flavor for group in each.groups for flavor in group.flavors}
    return sorted(named[True] - named[False])


def words(namespace: str, queues: Queues) -> Iterator[str]:
    for queue, users in queues.used.items():
        more = f" and {len(users) - 3} more" if len(users) > 3 else ""
        yield f"{queue} is still in use, by {', '.join(users[:3])}{more}: leave it"
    for name, peers in queues.lending.items():
        yield (
            f"ClusterQueue {name} lends to its cohort, where peers borrow ({', '.join(peers)}): leave it until that is "
            "given back, or they find no quota for pods that are made anew"
        )
    yield from (f"not everything could be looked at: {text}" for text in queues.unknown)
    if not queues.local:
        return
    if queues.unknown:
        yield "As far as could be seen, nothing is in these any more:"
    else:
        yield "Nothing is in these queues any more, so nothing holds up their deletion:"
    yield f"  kubectl delete localqueues.kueue.x-k8s.io {' '.join(queues.local)} -n {namespace}"
    if queues.cluster:
        yield f"  kubectl delete clusterqueues.kueue.x-k8s.io {' '.join(queues.cluster)}"
    if queues.cluster and queues.flavors:
        yield f"  kubectl delete resourceflavors.kueue.x-k8s.io {' '.join(queues.flavors)}"


def _name(value: Object) -> str:
    return string(metadata(value).get("name"))
