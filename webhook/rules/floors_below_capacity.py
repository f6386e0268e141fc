"""Floors leave no accelerator that nobody may claim.

Floors that sum to less than the hardware leave accelerators that no queue is owed: a queue may borrow them only if they
are in its cohort, and quota that nobody has is in no cohort. They stay idle. A write that lowers the sum is told how
many that are; a first apply, which builds the floors up one by one, is not. `check` sees all floors of its input, and
always tells.

Guide: step 2, 'Summing to less than capacity simply leaves GPUs unused'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from webhook.capacity.assessment import Assessment
from webhook.capacity.balance import KINDS, balance_of
from webhook.capacity.view import NO_NODE, Change
from webhook.capacity.write import quota_path, quota_write
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import CLUSTER_QUEUE, COHORT
from webhook.kube.quantity import show
from webhook.kube.snapshot import FactsMissing, Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if subject.before is None:
        return
    before = subject.before.fact
    write = quota_write(
        subject.kind.kind, subject.name, before, subject.fact, snapshot, policy.capacity, policy.accelerators
    )
    for comparison in write.comparisons[0] if write.lowered else ():
        after = comparison.after
        if comparison.lowered and after.unclaimed > 0:
            yield _unclaimed(subject, after)


def survey(subjects: Sequence[Subject], snapshot: Snapshot, policy: Policy) -> Iterator[tuple[Subject, Violation]]:
    """Each resource of flavors that share nodes once, at the last of the subjects with a floor there."""
    snapshot.require(KINDS)
    balance = balance_of(snapshot, policy.capacity, policy.accelerators)
    view = balance.now
    seen: set[tuple[str, str]] = set()
    missing: FactsMissing | None = None
    for subject in reversed(subjects):
        for flavor, resource in balance.raised(subject.kind.kind, None, cast(Change, subject.fact)):
            if (flavor, resource) in seen:
                continue
            found = view.assess_together(resource, view.component(resource, [flavor]))
            seen |= {(each, resource) for each in (flavor, *found.flavors)}
            if found.unknown.get(flavor) == NO_NODE:
                missing = FactsMissing("Node", "none known")
            elif flavor in found.unknown:
                missing = FactsMissing("ResourceFlavor", f"{flavor} not there")
            elif found.unclaimed > 0:
                yield subject, _unclaimed(subject, found)
    if missing is not None:
        raise missing


def _unclaimed(subject: Subject, found: Assessment) -> Violation:
    claimed = found.hardware - found.unclaimed
    paths = [quota_path(subject.value, flavor, found.resource) for flavor in found.flavors]
    return Violation(
        max(paths, key=len),
        must="must leave nothing unclaimed",
        actual=f"such that floors claim {show(claimed)} of {show(found.hardware)} {found.resource}",
        fix=f"raise floors by {show(found.unclaimed)}, else idle",
        shared=(found.resource, found.flavors),
    )


RULE = Rule(
    id="floors-below-capacity",
    mode=Mode.WARN,
    kinds=(CLUSTER_QUEUE, COHORT),
    check=check,
    judges_change=True,
    survey=survey,
    needs=KINDS,
    page=__doc__,
)
