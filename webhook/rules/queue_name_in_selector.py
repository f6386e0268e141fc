"""The queue label never reaches spec.selector.

A selector is immutable after creation. A workload that selects its pods by the queue label can never move to another
queue, nor leave Kueue again, without being deleted. kustomize puts common labels there unless told otherwise.

An object that has it already cannot be repaired in place: writes to it pass, with a warning.

Guide: step 3, 'The label must not reach spec.selector.matchLabels'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import at, mapping, sequence
from webhook.kube.snapshot import Snapshot

_MUST = "must not select by the queue label"
_FIX = "take it out; with kustomize, use labels with includeSelectors: false and includeTemplates: true"


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    path = subject.kind.selector
    selector = mapping(at(subject.value, path)) if path else {}
    if QUEUE_LABEL in selector:
        # A ReplicationController's selector is labels and nothing else; without one it has its template's labels.
        yield Violation((*path, QUEUE_LABEL), _MUST, actual=str(selector[QUEUE_LABEL]), fix=_FIX)
    match_labels = mapping(selector.get("matchLabels"))
    if QUEUE_LABEL in match_labels:
        place = (*path, "matchLabels", QUEUE_LABEL)
        yield Violation(place, _MUST, actual=str(match_labels[QUEUE_LABEL]), fix=_FIX)
    for index, requirement in enumerate(sequence(selector.get("matchExpressions"))):
        entry = mapping(requirement)
        if entry.get("key") == QUEUE_LABEL:
            place = (*path, "matchExpressions", index, "key")
            yield Violation(place, _MUST, actual=str(entry.get("operator")), fix=_FIX, identity="matchExpressions")


RULE = Rule(
    id="queue-name-in-selector",
    mode=Mode.DENY,
    kinds=tuple(row for row in WORKLOADS if row.selector),
    check=check,
    page=__doc__,
)
