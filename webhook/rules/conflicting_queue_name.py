"""The queue labels of an object and of its pod templates agree, also with what Kueue will write.

Kueue's webhook runs after Floorkeeper's and copies the label of a Deployment over its template's, without a word: the
replicas then draw on another model's quota. The pods of a StatefulSet it gates by the object's label, too. Where the
namespace has a LocalQueue named `default`, it also labels an unlabelled object with that, whatever its template says.
What Kueue admits as a whole goes by the object's label; pods that have another from their template are gated for ever.

Denied in /mutate, the only call that sees the object as it was written.

Guide: step 3, where the label goes decides which Kueue integration manages the workload.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import Origin, queue_of
from webhook.engine.rule import Rule, Stage, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.names import DEFAULT_LOCAL_QUEUE, FIELD_QUEUE
from webhook.kube.objects import Path, show_path
from webhook.kube.snapshot import Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    labels: list[tuple[Path, str]] = [(FIELD_QUEUE, subject.queue)]
    if subject.label_path not in (None, FIELD_QUEUE):
        labels.append((subject.label_path or (), subject.whole_queue))
    # A Pod has one label.
    templates = (*subject.templates, *(each.template for each in subject.common))
    labels += [(template.label_path, template.queue) for template in templates if template.path]
    labels += subject.held_labels
    if subject.label_path is None and not subject.queue:
        # Each template can have its own.
        yield from _defaulted(subject, snapshot, policy)
        return
    first = next(((path, queue) for path, queue in labels if queue), None)
    for path, queue in labels:
        if first is not None and queue and queue != first[1]:
            yield Violation(
                path,
                must=f"must equal {show_path(first[0])}, {first[1]}",
                actual=queue,
                fix="name one LocalQueue in both places"
                + ("; Kueue would overwrite the template's" if subject.kind.kueue_defaults else ""),
            )


def _defaulted(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    """What Kueue would make of an object without a label of its own, by the label of its template."""
    for template in subject.templates if subject.kind.kueue_defaults else ():
        if template.queue == DEFAULT_LOCAL_QUEUE or not (template.queue or subject.is_gpu_workload):
            continue
        if snapshot.local_queue(subject.namespace, DEFAULT_LOCAL_QUEUE) is None:
            continue
        choice = queue_of(subject, template, snapshot, policy)
        if choice.origin is not Origin.NOBODY and choice.name != DEFAULT_LOCAL_QUEUE:
            yield Violation(
                FIELD_QUEUE,
                must=f"must be {choice.name}, like the pod template's",
                actual="absent",
                fix=f"set it, or delete LocalQueue {DEFAULT_LOCAL_QUEUE}: Kueue writes that one over both"
                if subject.old is None
                else f"delete LocalQueue {DEFAULT_LOCAL_QUEUE}: Kueue refuses the label on what runs",
            )


RULE = Rule(
    id="conflicting-queue-name",
    mode=Mode.DENY,
    kinds=WORKLOADS,
    check=check,
    stage=Stage.MUTATE,
    needs=frozenset({"Namespace", "LocalQueue"}),
    page=__doc__,
)
