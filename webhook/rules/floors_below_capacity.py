"""Floors leave no accelerator that nobody may claim.

Floors that sum to less than the hardware leave accelerators that no queue is owed: a queue may borrow them only if they
are in its cohort, and quota that nobody has is in no cohort. They stay idle. A write that lowers the sum is told how
many that are; a first apply, which builds the floors up one by one, is not.

Guide: step 2, 'Summing to less than capacity simply leaves GPUs unused'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.capacity.balance import KINDS
from webhook.capacity.write import quota_path, quota_write
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import CLUSTER_QUEUE, COHORT
from webhook.kube.quantity import show
from webhook.kube.snapshot import Snapshot


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
            flavor = after.flavors[0]
            claimed = after.hardware - after.unclaimed
            yield Violation(
                quota_path(subject.value, flavor, after.resource),
                must="must leave nothing unclaimed",
                actual=f"such that floors claim {show(claimed)} of {show(after.hardware)} {after.resource}",
                fix=f"raise floors by {show(after.unclaimed)}, else idle",
            )


RULE = Rule(
    id="floors-below-capacity",
    mode=Mode.WARN,
    kinds=(CLUSTER_QUEUE, COHORT),
    check=check,
    judges_change=True,
    needs=KINDS,
    page=__doc__,
)
