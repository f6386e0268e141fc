"""A floor that was lent comes back, and nothing beyond a floor is taken by force.

With reclaimWithinCohort Any a pod that fits within its queue's nominalQuota preempts the borrowed replicas of a peer.
With Never, which is the default, the floor that was lent is gone for as long as the peer keeps it, and with
LowerPriority for as long as the peer's priority is not lower. With borrowWithinCohort Never, also the default, a pod
that has to borrow waits for what is idle: otherwise two models that both want more evict one another.

Guide: Why Contention Settles on the Floors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import CLUSTER_QUEUE
from webhook.kube.quota_facts import ClusterQueueFact
from webhook.kube.snapshot import Snapshot
from webhook.rules.missing_cohort import has_floor


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    queue = cast(ClusterQueueFact, subject.fact)
    if not has_floor(queue, policy.accelerators):
        return
    if queue.reclaim_within_cohort != "Any":
        yield Violation(
            ("spec", "preemption", "reclaimWithinCohort"),
            must="must be Any",
            actual=queue.reclaim_within_cohort,
            fix="set it to Any, else a floor that was lent does not come back when it is needed",
        )
    if queue.borrow_within_cohort != "Never":
        yield Violation(
            ("spec", "preemption", "borrowWithinCohort", "policy"),
            must="must be Never",
            actual=queue.borrow_within_cohort,
            fix="set it to Never: above its floor a queue waits for what is idle",
        )


RULE = Rule(id="no-reclaim", mode=Mode.WARN, kinds=(CLUSTER_QUEUE,), check=check, page=__doc__)
