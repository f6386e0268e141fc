"""One LocalQueue for each model.

Two workloads on one LocalQueue share one floor: nothing guarantees either of them its part, and ClusterQueue namespace
selectors cannot tell two models of one namespace apart. Workloads that something else controls are left out, and so are
two that the policy's `queues` maps to the same LocalQueue.

Guide: Limitations, 'Same-namespace routing needs one LocalQueue per model'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import listed
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.facts import workload_labels
from webhook.kube.kinds import WORKLOADS
from webhook.kube.names import FIELD_QUEUE
from webhook.kube.snapshot import Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if subject.owner is not None or not subject.is_gpu_workload:
        return
    for template in subject.templates:
        queue = template.queue or subject.queue
        if not queue:
            continue
        own_labels = workload_labels(subject.value, template.value)
        mapped = policy.mapped_queue(subject.namespace, subject.name, own_labels) == queue
        others = [
            f"{other.kind} {other.name}"
            for other in snapshot.workloads(subject.namespace, "Deployment", "StatefulSet", "Pod")
            if queue == (other.queue or other.object_queue)
            and not other.owned
            and (other.kind, other.name) != (subject.kind.kind, subject.name)
            and not (mapped and policy.mapped_queue(other.namespace, other.name, other.labels) == queue)
        ]
        if others:
            yield Violation(
                (*template.path, *FIELD_QUEUE) if template.queue else FIELD_QUEUE,
                must="must serve one model",
                actual=f"{queue}, also that of {listed(others, 1)}",
                fix="give each model a LocalQueue",
            )


RULE = Rule(
    id="shared-local-queue",
    mode=Mode.WARN,
    kinds=WORKLOADS,
    check=check,
    needs=frozenset({"Deployment", "StatefulSet", "Pod"}),
    page=__doc__,
)
