"""No LocalQueue named `default` is created beside running Deployments or StatefulSets without an object label.

Kueue labels every unlabelled Deployment and StatefulSet of such a namespace at its next write, and then refuses that
very write, since the label is immutable while replicas are ready. A gateway without GPUs is caught as well: nothing
in the namespace can be changed any more, not even an annotation (Kueue 0.17, where this cannot be switched off).

Guide: step 3, the label of a Deployment cannot be added retroactively.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import listed
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import LOCAL_QUEUE
from webhook.kube.names import DEFAULT_LOCAL_QUEUE
from webhook.kube.snapshot import Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    if subject.old is not None or subject.name != DEFAULT_LOCAL_QUEUE:
        return
    stuck = [
        f"{workload.kind} {workload.name}"
        for workload in snapshot.workloads(subject.namespace, "Deployment", "StatefulSet")
        if workload.running and not workload.object_queue
    ]
    if stuck:
        yield Violation(
            ("metadata", "name"),
            must="must not be default beside running workloads without an object label",
            actual=DEFAULT_LOCAL_QUEUE,
            fix=f"choose another name; Kueue would refuse every later write to {listed(stuck, 3)}",
        )


RULE = Rule(
    id="default-local-queue",
    mode=Mode.DENY,
    kinds=(LOCAL_QUEUE,),
    check=check,
    needs=frozenset({"Deployment", "StatefulSet"}),
    page=__doc__,
)
