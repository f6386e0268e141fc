"""A GPU workload carries the label kueue.x-k8s.io/queue-name.

Kueue gates only pods with the label. A replica without it takes a GPU that no queue counts, and the floors of the
others no longer hold. The label belongs on the pod template of a Deployment, a StatefulSet and other kinds whose pods
Kueue admits one by one, on a CronJob's jobTemplate, and on the object itself where Kueue admits it as a whole (a Job, a
LeaderWorkerSet, a RayJob …) or its operator hands the label on (an InferenceService, a Notebook). What a workload makes
is not judged again, but for the Jobs of a CronJob that has no label.

Fixed by adding the label, from the first that applies: a label that is there already, on a template or on the object,
the policy's `queues`, the namespace's annotation floorkeeper.io/default-queue. With a LocalQueue named `default`, Kueue
adds the label itself. A queue that does not exist is not added, and without any queue the workload is denied. A
DaemonSet cannot wait in a queue, so this only warns of one.

Changing the pod template of a running workload restarts it. So on an update the label is added only if this very update
changes the template and the ClusterQueue's own free quota admits as many replicas as go down at once, or if there are
no pods; `inject: always` overrides that. Otherwise a warning tells. A Pod and what Kueue admits as a whole get it at
creation only, or while it is suspended: later it is too late. Where Kueue's own configuration leaves the namespace out
(managedJobsNamespaceSelector) or takes no notice of the kind (integrations.frameworks), the label would do nothing: it
is not added, and this only warns. A kind of which Kueue takes no notice as it comes (SparkApplication) gets the label
even so, and unknown-queue tells until it does.

Guide: step 3, Opt Each Deployment In.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from webhook.engine.patch import Edit
from webhook.engine.policy import Inject, Mode, Policy
from webhook.engine.queues import Origin, QueueChoice, counted_for, listed, queue_of
from webhook.engine.rollout import down_at_once, may_change, runs
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.kueue_facts import POD_FRAMEWORK, SHIPPED_FRAMEWORKS, KueueConfigurationFact
from webhook.kube.names import DEFAULT_LOCAL_QUEUE, FIELD_QUEUE, QUEUE_LABEL
from webhook.kube.objects import Path, at, mapping
from webhook.kube.pod_sets import PodSet, is_suspended
from webhook.kube.pods import PodTemplate
from webhook.kube.quantity import show
from webhook.kube.row import Place, Relabel
from webhook.kube.selector import mentions
from webhook.kube.snapshot import FactsMissing, Snapshot

_LONGEST_LABEL = 63  # characters of a label's value; a LocalQueue's name may be longer


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if subject.kind.shuns_object_label and subject.queue:
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
    if subject.kind.shuns_template_label and subject.whole_queue:
        for template in subject.templates:
            if template.queue:
                yield Violation(
                    template.label_path,
                    must=f"must be on the {subject.kind.kind} alone",
                    actual=template.queue,
                    fix="remove it here: with it, Kueue counts the pods one by one beside their group",
                    advice=True,
                )
    for path, unlabelled in _unlabelled(subject):
        # The more a pod takes that nobody counts, the worse it is, and what begins to run takes what it did not. How
        # many pods there are, autoscalers change.
        asked = sum(sum(each.template.accelerators_asked.values()) for each in unlabelled)
        asked = 0 if is_suspended(subject.kind, subject.value) else asked
        found = _outside if subject.kind.label is Place.NOWHERE else _missing
        yield from (replace(one, weight=asked) for one in found(subject, unlabelled, path, snapshot, policy))


def _unlabelled(subject: Subject) -> Iterator[tuple[Path, list[PodSet]]]:
    """Where a label is missing, and the pods that it is missing for."""
    asking = [each for each in subject.pod_sets if each.template.asks]
    if subject.label_path is not None:
        if not subject.whole_queue:
            yield subject.label_path, asking
        return
    for each in asking:
        if not each.template.queue:
            yield each.template.label_path, [each]


def _outside(
    subject: Subject,
    unlabelled: list[PodSet],
    path: Path,  # noqa: ARG001 - as _missing has it
    snapshot: Snapshot,  # noqa: ARG001
    policy: Policy,  # noqa: ARG001
) -> Iterator[Violation]:
    template = unlabelled[0].template
    asked = [f"{show(amount)} {name}" for name, amount in sorted(template.accelerators_asked.items()) if amount]
    yield Violation(
        template.path,
        must="must not hold accelerators that no queue counts",
        actual=f"asking for {' and '.join(asked) or 'some'} on each node",
        fix=f"a {subject.kind.kind} cannot wait in a queue: run it elsewhere, or as another kind",
        advice=True,
    )


def _missing(
    subject: Subject, unlabelled: list[PodSet], path: Path, snapshot: Snapshot, policy: Policy
) -> Iterator[Violation]:
    must = "must name a LocalQueue"
    left_out = _left_out(subject, snapshot)
    if left_out:
        yield Violation(path, must, actual="absent", fix=left_out, advice=True)
        return
    choice = queue_of(subject, unlabelled[0].template, snapshot, policy)
    if choice.origin is Origin.KUEUE:
        return
    problem = _unusable(subject, choice, snapshot)
    absent = _absent(subject, snapshot)
    if choice.origin is Origin.NOBODY:
        yield Violation(path, must, actual=absent, fix=f"set it to one of the {_here(subject, snapshot)}")
    elif problem:
        yield Violation(
            path,
            must,
            actual=f"{absent}, and {choice.name}, from {choice.origin}, {problem}",
            fix=f"create it or name another; {_here(subject, snapshot)}",
        )
    else:
        remedy = _remedy(subject, unlabelled, path, choice, snapshot, policy)
        yield Violation(
            path,
            must,
            actual=absent,
            fix=remedy or f"set it to {choice.name}",
            edits=() if remedy else (Edit(path, choice.name),),
            done=f"set to {choice.name}, from {choice.origin}",
        )


def _left_out(subject: Subject, snapshot: Snapshot) -> str:
    """What to do first where the running Kueue would not heed the label, or has its namespace left out.

    '' where it would or nobody knows.
    """
    configuration, framework = _configuration(snapshot), subject.kind.framework
    if configuration is None:
        return ""
    labels = _labels(subject, snapshot)
    setting = configuration.leaves_out(framework, subject.namespace, labels)
    if setting == "integrations.frameworks":
        if framework == POD_FRAMEWORK:
            return "Kueue gates no pods: add pod to its integrations.frameworks"
        # What is off as Kueue comes is labelled all the same, for when it is turned on.
        known = framework in SHIPPED_FRAMEWORKS
        advice = f"Kueue takes no notice of a {subject.kind.kind}: add {framework} to its integrations.frameworks"
        return advice if known else ""
    if setting:
        return f"Kueue leaves this namespace out: add it to its {setting}"
    if not configuration.manages(subject.namespace, labels):
        # With the label Kueue would take it even so, against what its admin says of the namespace.
        return "Kueue leaves this namespace out: add it to its managedJobsNamespaceSelector, or set the label yourself"
    return ""


def _absent(subject: Subject, snapshot: Snapshot) -> str:
    """What the label is, and what comes of it where Kueue does not start what has none."""
    configuration, labels = _configuration(snapshot), _labels(subject, snapshot)
    held = configuration is not None and configuration.holds_unlabelled(subject.namespace, labels)
    return "absent, and Kueue starts nothing without it" if held else "absent"


def _configuration(snapshot: Snapshot) -> KueueConfigurationFact | None:
    """That of the running Kueue, None where nobody knows."""
    try:
        return snapshot.kueue_configuration()
    except FactsMissing:
        return None


def _labels(subject: Subject, snapshot: Snapshot) -> Mapping[str, str]:
    namespace = snapshot.namespace(subject.namespace)
    return namespace.labels if namespace is not None else {}


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


def _remedy(
    subject: Subject, unlabelled: list[PodSet], path: Path, choice: QueueChoice, snapshot: Snapshot, policy: Policy
) -> str:
    """What a person has to do, where adding the label now would restart pods, leave some gated, or be refused.

    '' where it does none of that.
    """
    kind = subject.kind
    if mentions(mapping(at(subject.value, kind.selector)) if kind.selector else {}, QUEUE_LABEL):
        return "create it anew with a selector that is not about this label"
    if kind.shuns_template_label and choice.origin is Origin.TEMPLATE:
        return f"set it to {choice.name}, and take it off the templates: there, Kueue counts each pod by itself"
    if subject.old is None or at(subject.old, path) == choice.name:
        # It is new, or this update takes the label off: putting it back leaves the pods as they are.
        return ""
    if kind.relabel is Relabel.NOTHING:
        if not is_suspended(kind, subject.old):
            return f"create the {kind.kind} again with the label"
        return "" if is_suspended(kind, subject.value) else f"set it to {choice.name} while it is suspended"
    if policy.inject is Inject.ALWAYS or not runs(subject):
        return ""
    if not _admits(subject, unlabelled, choice, snapshot):
        return f"free quota for it in {choice.name} first: with the label now, new pods would be gated"
    if not all(may_change(subject, each.template, policy) for each in unlabelled):
        restarts = "that restarts the pods" if kind.relabel is Relabel.RESTARTS else "it counts for new pods alone"
        return f"set it to {choice.name}; {restarts}"
    return ""


def _admits(subject: Subject, unlabelled: list[PodSet], choice: QueueChoice, snapshot: Snapshot) -> bool:
    """Whether the queue's own free quota admits as many replicas as a rollout takes down at once."""
    local_queue = snapshot.local_queue(subject.namespace, choice.name)
    if local_queue is None or local_queue.stopped:
        return False
    cluster_queue = snapshot.cluster_queue(local_queue.cluster_queue)
    if cluster_queue is None or cluster_queue.stopped:
        return False
    count = down_at_once(subject)
    needed: dict[str, int] = {}
    for each in unlabelled:
        for name, amount in _counted(subject, each.template, choice, snapshot):
            needed[name] = needed.get(name, 0) + amount * count * each.pods
    return cluster_queue.holds(needed)


def _counted(
    subject: Subject, template: PodTemplate, choice: QueueChoice, snapshot: Snapshot
) -> Iterable[tuple[str, int]]:
    """What Kueue counts for one pod; where nothing says how it is set up, all that the pod requests."""
    try:
        pod = counted_for(subject, template, choice.name, snapshot)
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
    for_accelerators=True,
    page=__doc__,
)
