"""Which LocalQueue a workload belongs to. First that applies:

the pod template's label, the object's own label, the policy's `queues`, the namespace's annotation
floorkeeper.io/default-queue, a LocalQueue named `default` (which Kueue itself falls back to).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from webhook.engine.policy import Policy
from webhook.engine.subject import Subject
from webhook.kube.counted_pod import CountedPod, counted_pod
from webhook.kube.names import DEFAULT_LOCAL_QUEUE, DEFAULT_QUEUE_ANNOTATION
from webhook.kube.pods import PodTemplate
from webhook.kube.row import Place
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.kube.workload_facts import workload_labels


class Origin(StrEnum):
    """Who chose the queue, as a person would say it."""

    TEMPLATE = "the pod template's label"
    OBJECT = "the object's own label"
    POLICY = "the policy's queues"
    NAMESPACE = f"the namespace's annotation {DEFAULT_QUEUE_ANNOTATION}"
    KUEUE = "Kueue's default"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class QueueChoice:
    name: str
    origin: Origin


def queue_of(subject: Subject, template: PodTemplate, snapshot: Snapshot, policy: Policy) -> QueueChoice:
    """The queue of one pod template. Its LocalQueue need not exist. Raises FactsMissing where Kueue's own objects
    decide."""
    # Where one label stands for all templates, that of any of them says where they belong.
    labelled = subject.templates if subject.label_path is not None else ()
    inside = [queue for _, queue in subject.held_labels]
    on_template = next(filter(None, (template.queue, *(each.queue for each in labelled), *inside)), "")
    if on_template:
        return QueueChoice(on_template, Origin.TEMPLATE)
    if subject.queue:
        return QueueChoice(subject.queue, Origin.OBJECT)
    labels = workload_labels(subject.value, template.value)
    mapped = next(filter(None, (policy.mapped_queue(subject.namespace, name, labels) for name in subject.names)), "")
    if mapped:
        return QueueChoice(mapped, Origin.POLICY)
    namespace = snapshot.namespace(subject.namespace)
    if namespace is not None and namespace.default_queue:
        return QueueChoice(namespace.default_queue, Origin.NAMESPACE)
    if snapshot.local_queue(subject.namespace, DEFAULT_LOCAL_QUEUE) is not None:
        return QueueChoice(DEFAULT_LOCAL_QUEUE, Origin.KUEUE)
    return QueueChoice("", Origin.NOBODY)


def queue_in_force(subject: Subject, template: PodTemplate, snapshot: Snapshot) -> str:
    """The queue that a template's pods get as things stand: by its labels or, for accelerators, that which Kueue gives
    to what has none. '' for none, and where nobody knows: missing-queue-name says so."""
    labelled = subject.queue_for(template)
    if labelled or not template.asks or subject.kind.label is Place.NOWHERE:
        return labelled
    try:
        default = snapshot.local_queue(subject.namespace, DEFAULT_LOCAL_QUEUE)
    except FactsMissing:
        return ""
    return DEFAULT_LOCAL_QUEUE if default is not None else ""


def counted_for(subject: Subject, template: PodTemplate, queue: str, snapshot: Snapshot) -> CountedPod | None:
    """As counted_pod, for a template of the subject. Several rules ask for the same."""

    def find() -> CountedPod | None:
        return counted_pod(template, queue, subject.namespace, snapshot, subject.kind.framework)

    return subject.once(("counted", template.path, queue), find)


def listed(names: list[str], most: int = 5) -> str:
    """Names for a message: 'a, b, c and 4 more'."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"
