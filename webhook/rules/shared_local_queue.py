"""One LocalQueue for each model.

Two workloads on one LocalQueue share one floor: nothing guarantees either of them its part, and ClusterQueue namespace
selectors cannot tell two models of one namespace apart. Workloads that something else controls are left out, and so are
two that the policy's `queues` maps to the same LocalQueue. Jobs and other workloads that come to an end are no models,
and may share a queue.

Guide: Limitations, 'Same-namespace routing needs one LocalQueue per model'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import cast

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.facts import Fact
from webhook.kube.kinds import WORKLOADS
from webhook.kube.names import FIELD_QUEUE
from webhook.kube.snapshot import Snapshot
from webhook.kube.workload_facts import ADMITTED, WorkloadFact, workload_labels

_USERS = ("Deployment", "StatefulSet", "Pod", *(row.kind for row in ADMITTED if row.serves))


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if subject.owner is not None or not subject.is_gpu_workload:
        return
    # One label stands for all templates, or each has its own.
    for template in subject.templates[:1] if subject.label_path is not None else subject.templates:
        queue = subject.queue_for(template)
        if not queue:
            continue
        own_labels = workload_labels(subject.value, template.value)
        mapped = policy.mapped_queue(subject.namespace, subject.name, own_labels) == queue
        others = _others(subject, queue, snapshot, policy if mapped else None)
        if others:
            yield Violation(
                subject.label_path or (template.label_path if template.queue else FIELD_QUEUE),
                must="must serve one model",
                actual=f"{queue}, also that of {others}",
                fix="give each model a LocalQueue",
                shared=(subject.namespace, queue),
            )


def _others(subject: Subject, queue: str, snapshot: Snapshot, policy: Policy | None) -> str:
    """The other workloads on a LocalQueue, in words; with a policy, without those that it maps there. '' for none."""
    first = ""
    count = 0
    for kind in _USERS:
        if not snapshot.of_namespace(kind, subject.namespace):
            continue
        names = snapshot.derived(kind, subject.namespace, "by queue", _by_queue).get(queue, {})
        if names and policy is not None:
            unmapped = partial(_unmapped, names, queue, policy)
            names = snapshot.derived(kind, subject.namespace, ("unmapped", queue, policy.queues), unmapped)
        own = subject.name if kind == subject.kind.kind else ""
        count += len(names) - (own in names)
        first = first or next((f"{kind} {name}" for name in names if name != own), "")
    return f"{first} and {count - 1} more" if count > 1 else first


def _by_queue(facts: Mapping[str, Fact]) -> dict[str, dict[str, None]]:
    """The names of the workloads that nothing controls, sorted, by queue."""
    found: dict[str, dict[str, None]] = {}
    for name, fact in sorted(facts.items()):
        if isinstance(fact, WorkloadFact) and not fact.owned:
            found.setdefault(fact.queue or fact.object_queue, {})[name] = None
    return found


def _unmapped(names: Iterable[str], queue: str, policy: Policy, facts: Mapping[str, Fact]) -> dict[str, None]:
    found: dict[str, None] = {}
    for name in names:
        fact = cast(WorkloadFact, facts[name])
        if policy.mapped_queue(fact.namespace, name, fact.labels) != queue:
            found[name] = None
    return found


RULE = Rule(
    id="shared-local-queue",
    mode=Mode.WARN,
    kinds=tuple(row for row in WORKLOADS if row.serves),
    check=check,
    needs=frozenset(_USERS),
    page=__doc__,
)
