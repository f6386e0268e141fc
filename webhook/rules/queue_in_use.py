"""No LocalQueue or ClusterQueue is deleted while workloads are in it.

Without its queue, a pod that is not admitted yet stays gated for good, and the deletion itself waits for what is
admitted. In use means: a Deployment or StatefulSet with replicas above 0, a Pod that none of them stands for, or what
Kueue admits as a whole (a Job, a LeaderWorkerSet, a RayJob …) and has not ended, has the queue's label, on its pod
template or on itself, and is not being deleted. Queues that point at each other, flavors
and Workloads do not count, since Kueue's own finalizers cover them, nor does what a terminating namespace holds.

The annotation floorkeeper.io/allow-delete: "true" on the queue lets its deletion pass. Pointing a LocalQueue at another
ClusterQueue needs that, for it is deleted and created again.

Guide: Cleanup, the label 'has to come first'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import listed
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import CLUSTER_QUEUE, LOCAL_QUEUE
from webhook.kube.names import ALLOW_DELETE_ANNOTATION
from webhook.kube.objects import mapping, metadata
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.kube.workload_facts import ADMITTED

_USERS = ("Deployment", "StatefulSet", "Pod", *(row.kind for row in ADMITTED))


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    if mapping(metadata(subject.value).get("annotations")).get(ALLOW_DELETE_ANNOTATION) == "true":
        return
    users: list[str] = []
    missing: FactsMissing | None = None
    for kind in _USERS:
        try:
            users += _users(subject, snapshot, kind)
        except FactsMissing as error:
            missing = error
    if users:
        yield Violation(
            ("metadata", "name"),
            must="must not be deleted while used",
            actual=f"used by {listed(users, 3)}",
            fix="remove their queue label (namespace held at warn), scale them to 0, or annotate it "
            f'{ALLOW_DELETE_ANNOTATION}: "true"',
        )
    if missing is not None:
        raise missing


def _users(subject: Subject, snapshot: Snapshot, kind: str) -> list[str]:
    """The live workloads of a kind that the queue's label leads here, with their namespaces if it is in none."""
    if subject.kind is LOCAL_QUEUE:
        local_queues = [(subject.namespace, subject.name)]
    else:
        local_queues = sorted((each.namespace, each.name) for each in snapshot.cluster_queue_handles(subject.name))
    return [
        f"{kind} {workload.name if subject.namespace else f'{namespace}/{workload.name}'}"
        for namespace, queue in local_queues
        if not _terminating(namespace, snapshot)
        for workload in snapshot.workloads(namespace, kind)
        if workload.live and queue in (workload.queue, workload.object_queue)
    ]


def _terminating(namespace: str, snapshot: Snapshot) -> bool:
    fact = snapshot.namespace(namespace)
    return fact is not None and fact.terminating


RULE = Rule(
    id="queue-in-use",
    mode=Mode.DENY,
    kinds=(LOCAL_QUEUE, CLUSTER_QUEUE),
    check=check,
    removal=True,
    needs=frozenset({"Namespace", "LocalQueue", *_USERS}),
    page=__doc__,
)
