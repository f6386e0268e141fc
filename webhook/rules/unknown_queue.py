"""The queue label leads to a queue that exists and admits.

Kueue waits for a LocalQueue that is not there, and tells nobody: the pods stay gated. So it is with a LocalQueue whose
ClusterQueue does not exist, and with a queue that is stopped. This warns and denies nothing, since queues and workloads
may be applied together, in any order.

Guide: step 2, 'so the LocalQueue exists when the first Workload appears'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import listed
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.names import FIELD_QUEUE
from webhook.kube.snapshot import Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    places = {template.queue: (*template.path, *FIELD_QUEUE) for template in subject.templates if template.queue}
    if subject.queue:
        places.setdefault(subject.queue, FIELD_QUEUE)
    for queue, path in places.items():
        local_queue = snapshot.local_queue(subject.namespace, queue)
        if local_queue is None:
            names = listed(snapshot.local_queues(subject.namespace)) or "none"
            yield Violation(
                path, "must name a LocalQueue that exists", queue, f"create it, or use one that exists: {names}"
            )
            continue
        cluster_queue = snapshot.cluster_queue(local_queue.cluster_queue)
        if cluster_queue is None:
            to = f'{queue}, whose ClusterQueue "{local_queue.cluster_queue}" does not exist'
            yield Violation(path, "must lead to a ClusterQueue", to, "create it: until then the pods stay gated")
        elif local_queue.stopped or cluster_queue.stopped:
            which = "which" if local_queue.stopped else f'whose ClusterQueue "{cluster_queue.name}"'
            to = f"{queue}, {which} is stopped, being deleted or not active"
            fix = "set stopPolicy to None, or mend what its Active condition says"
            yield Violation(path, "must lead to a queue that admits", to, fix)


RULE = Rule(
    id="unknown-queue",
    mode=Mode.WARN,
    kinds=WORKLOADS,
    check=check,
    needs=frozenset({"LocalQueue", "ClusterQueue"}),
    page=__doc__,
)
