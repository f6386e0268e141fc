"""A GPU workload's pod template carries the label kueue.x-k8s.io/queue-name.

Kueue gates only pods with the label. A replica without it takes a GPU that no queue counts, and the floors of the
others no longer hold.

Fixed by adding the label, from the first that applies: the object's own label, the policy's `queues`, the namespace's
annotation floorkeeper.io/default-queue. With a LocalQueue named `default`, Kueue adds the label itself. A queue that
does not exist is not added, and without any queue the workload is denied.

Changing the pod template of a running workload restarts it. So on an update the label is added only if this very update
changes the template and the ClusterQueue's own free quota admits as many replicas as go down at once, or if there are
no pods; `inject: always` overrides that. Otherwise a warning tells. A Pod gets the label at creation only: later it is
past Kueue's gate. Where Kueue's own configuration leaves the namespace out (managedJobsNamespaceSelector) or gates no
pods at all (integrations.frameworks), the label would do nothing: it is not added, and this only warns.

Guide: step 3, Opt Each Deployment In.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from webhook.engine.patch import Edit
from webhook.engine.policy import Inject, Mode, Policy
from webhook.engine.queues import Origin, QueueChoice, listed, queue_of
from webhook.engine.rollout import down_at_once, may_change
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.counted_pod import counted_pod
from webhook.kube.facts import pods_now
from webhook.kube.kinds import REPLICA_SET, STATEFUL_SET, WORKLOADS
from webhook.kube.names import DEFAULT_LOCAL_QUEUE, FIELD_QUEUE, QUEUE_LABEL
from webhook.kube.objects import at, mapping
from webhook.kube.pods import PodTemplate, pod_template
from webhook.kube.selector import mentions
from webhook.kube.snapshot import FactsMissing, Snapshot

_LONGEST_LABEL = 63  # characters of a label's value; a LocalQueue's name may be longer


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if not subject.is_gpu_workload:
        return
    if subject.kind is STATEFUL_SET and subject.queue:
        if subject.queue == DEFAULT_LOCAL_QUEUE:
            # Kueue puts this label on an unlabelled StatefulSet itself, and gates its pods by it.
            return
        yield Violation(
            FIELD_QUEUE,
            must="must be on the pod template alone",
            actual=subject.queue,
            fix="remove it here: with it, Kueue mishandles the scaling of a StatefulSet",
            advice=True,
        )
    for template in subject.templates:
        if template.asks and not template.queue:
            # The more a replica takes that nobody counts, the worse it is.
            asked = sum(amount for name, amount in template.totals().items() if subject.accelerators.covers(name))
            yield from (replace(found, weight=asked) for found in _missing(subject, template, snapshot, policy))


def _missing(subject: Subject, template: PodTemplate, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    path = (*template.path, *FIELD_QUEUE)
    must = "must name a LocalQueue"
    left_out = _left_out(subject, snapshot)
    if left_out:
        yield Violation(path, must, actual="absent", fix=left_out, advice=True)
        return
    choice = queue_of(subject, template, snapshot, policy)
    if choice.origin is Origin.KUEUE:
        return
    problem = _unusable(subject, choice, snapshot)
    if choice.origin is Origin.NOBODY:
        yield Violation(path, must, actual="absent", fix=f"set it to one of the {_here(subject, snapshot)}")
    elif problem:
        yield Violation(
            path,
            must,
            actual=f"absent, and {choice.name}, from {choice.origin}, {problem}",
            fix=f"create it or name another; {_here(subject, snapshot)}",
        )
    else:
        remedy = _remedy(subject, template, choice, snapshot, policy)
        yield Violation(
            path,
            must,
            actual="absent",
            fix=remedy or f"set it to {choice.name}",
            edits=() if remedy else (Edit(path, choice.name),),
            done=f"set to {choice.name}, from {choice.origin}",
        )


def _left_out(subject: Subject, snapshot: Snapshot) -> str:
    """What to do first where the running Kueue would not heed the label, '' where it would or nobody knows."""
    try:
        configuration = snapshot.kueue_configuration()
    except FactsMissing:
        return ""
    namespace = snapshot.namespace(subject.namespace)
    match configuration.leaves_out(subject.namespace, namespace.labels if namespace is not None else {}):
        case "":
            return ""
        case "integrations.frameworks":
            return "Kueue gates no pods: add pod to its integrations.frameworks"
        case setting:
            return f"Kueue leaves this namespace out: add it to its {setting}"


def _unusable(subject: Subject, choice: QueueChoice, snapshot: Snapshot) -> str:
    """Why a queue that the policy or the namespace chose cannot be the label, '' if it can."""
    if choice.origin not in (Origin.POLICY, Origin.NAMESPACE):
        return ""
    if snapshot.local_queue(subject.namespace, choice.name) is None:
        return "does not exist"
    return f"has more than {_LONGEST_LABEL} characters" if len(choice.name) > _LONGEST_LABEL else ""


def _here(subject: Subject, snapshot: Snapshot) -> str:
    names = snapshot.local_queues(subject.namespace)
    return f"LocalQueues of namespace {subject.namespace}: {listed(names) or 'none, create one first'}"


def _remedy(subject: Subject, template: PodTemplate, choice: QueueChoice, snapshot: Snapshot, policy: Policy) -> str:
    """What a person has to do, where adding the label now would restart pods, leave some gated, or be refused.

    '' where it does none of that.
    """
    if mentions(mapping(at(subject.value, subject.kind.selector)) if subject.kind.selector else {}, QUEUE_LABEL):
        return "create it anew with a selector that is not about this label"
    if subject.old is None:
        return ""
    if not subject.kind.label_on_update:
        return f"create the {subject.kind.kind} again with the label"
    if policy.inject is Inject.ALWAYS or max(map(pods_now, (subject.old, subject.value))) == 0:
        return ""
    before = pod_template(subject.old, template.path, subject.accelerators)
    if before is not None and before.queue == choice.name:
        # This update takes the label off: putting it back leaves the pods as they are.
        return ""
    if not _admits(subject, template, choice, snapshot):
        return f"free quota for it in {choice.name} first: with the label now, new pods would be gated"
    if not may_change(subject, template, policy):
        restarts = "that restarts the pods" if subject.kind is not REPLICA_SET else "it counts for new pods alone"
        return f"set it to {choice.name}; {restarts}"
    return ""


def _admits(subject: Subject, template: PodTemplate, choice: QueueChoice, snapshot: Snapshot) -> bool:
    """Whether the queue's own free quota admits as many replicas as a rollout takes down at once."""
    local_queue = snapshot.local_queue(subject.namespace, choice.name)
    if local_queue is None or local_queue.stopped:
        return False
    cluster_queue = snapshot.cluster_queue(local_queue.cluster_queue)
    if cluster_queue is None or cluster_queue.stopped:
        return False
    count = down_at_once(subject)
    return cluster_queue.holds({name: amount * count for name, amount in _counted(subject, template, choice, snapshot)})


def _counted(
    subject: Subject, template: PodTemplate, choice: QueueChoice, snapshot: Snapshot
) -> Iterable[tuple[str, int]]:
    """What Kueue counts for one pod; where nothing says how it is set up, all that the pod requests."""
    try:
        pod = counted_pod(template, choice.name, subject.namespace, snapshot)
    except FactsMissing:
        pod = None
    return (pod.requests if pod is not None else template.totals()).items()


RULE = Rule(
    id="missing-queue-name",
    mode=Mode.DENY,
    kinds=WORKLOADS,
    check=check,
    fixes=True,
    needs=frozenset({"Namespace", "LocalQueue", "ClusterQueue", "ConfigMap"}),
    page=__doc__,
)
