"""A GPU workload's pod template carries the label kueue.x-k8s.io/queue-name.

Kueue gates only pods with the label. A replica without it takes a GPU that no queue counts, and the floors of the
others no longer hold.

Fixed by adding the label, from the first that applies: the object's own label, the policy's `queues`, the namespace's
annotation floorkeeper.io/default-queue. With a LocalQueue named `default`, Kueue adds the label itself. A queue that
does not exist is not added, and without any queue the workload is denied.

Changing the pod template of a running workload restarts it. So on an update the label is added only if this very update
changes the template and the ClusterQueue's own free quota holds a replica, or if there are no pods; `inject: always`
overrides that. Otherwise a warning tells. A Pod gets the label at creation only: later, it is past Kueue's gate.

Guide: step 3, Opt Each Deployment In.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.patch import Edit
from webhook.engine.policy import Inject, Mode, Policy
from webhook.engine.queues import Origin, QueueChoice, listed, queue_of
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.facts import pods_now
from webhook.kube.kinds import STATEFUL_SET, WORKLOADS
from webhook.kube.names import FIELD_QUEUE
from webhook.kube.objects import at
from webhook.kube.pods import PodTemplate, pod_template
from webhook.kube.snapshot import Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if not subject.is_gpu_workload:
        return
    if subject.kind is STATEFUL_SET and subject.queue:
        yield Violation(
            FIELD_QUEUE,
            must="must be on the pod template alone",
            actual=subject.queue,
            fix="remove it here: with it, Kueue mishandles the scaling of a StatefulSet",
            advice=True,
        )
    for template in subject.templates:
        if not template.queue and any(use.asked for use in template.accelerators(subject.accelerators)):
            yield from _missing(subject, template, snapshot, policy)


def _missing(subject: Subject, template: PodTemplate, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    choice = queue_of(subject, template, snapshot, policy)
    if choice.origin is Origin.KUEUE:
        return
    path = (*template.path, *FIELD_QUEUE)
    must = "must name a LocalQueue"
    if choice.origin is Origin.NOBODY:
        here = _here(subject, snapshot)
        yield Violation(path, must, actual="absent", fix=f"set it to one of the {here}")
    elif choice.origin is not Origin.OBJECT and snapshot.local_queue(subject.namespace, choice.name) is None:
        yield Violation(
            path,
            must,
            actual=f"absent, and {choice.name}, from {choice.origin}, does not exist",
            fix=f"create it or name another; {_here(subject, snapshot)}",
        )
    elif _may_label(subject, template, choice, snapshot, policy):
        yield Violation(
            path,
            must,
            actual="absent",
            fix=f"set it to {choice.name}",
            edits=(Edit(path, choice.name),),
            done=f"set to {choice.name}, from {choice.origin}",
        )
    elif not subject.kind.label_on_update:
        yield Violation(path, must, actual="absent", fix="create the Pod again with the label")
    else:
        yield Violation(
            path, must, actual="absent", fix=f"set it to {choice.name}; that restarts the pods, one at a time"
        )


def _here(subject: Subject, snapshot: Snapshot) -> str:
    names = snapshot.local_queues(subject.namespace)
    return f"LocalQueues of namespace {subject.namespace}: {listed(names) or 'none, create one first'}"


def _may_label(
    subject: Subject, template: PodTemplate, choice: QueueChoice, snapshot: Snapshot, policy: Policy
) -> bool:
    """Whether adding the label now restarts no pod that would not restart anyway, and leaves none gated."""
    if subject.old is None:
        return True
    if not subject.kind.label_on_update:
        return False
    if policy.inject is Inject.ALWAYS or max(pods_now(subject.old), pods_now(subject.value)) == 0:
        return True
    before = pod_template(subject.old, template.path)
    if before is not None and before.queue == choice.name:
        # This update takes the label off: putting it back leaves the pods as they are.
        return True
    if at(subject.old, template.path) == template.value:
        return False
    local_queue = snapshot.local_queue(subject.namespace, choice.name)
    cluster_queue = snapshot.cluster_queue(local_queue.cluster_queue) if local_queue is not None else None
    return cluster_queue is not None and cluster_queue.holds(template.totals())


RULE = Rule(
    id="missing-queue-name",
    mode=Mode.DENY,
    kinds=WORKLOADS,
    check=check,
    fixes=True,
    needs=frozenset({"Namespace", "LocalQueue", "ClusterQueue"}),
    page=__doc__,
)
