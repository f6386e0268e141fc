"""A queue with a floor is in a cohort.

A floor is lent while its queue is idle, and comes back by preemption, only among the members of one cohort. A
ClusterQueue that is in none keeps its accelerators from everybody else and can borrow none.

Guide: step 4, 'without a cohort the floors cannot be lent or borrowed'.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.accelerators import Accelerators
from webhook.kube.kinds import CLUSTER_QUEUE
from webhook.kube.objects import at, string
from webhook.kube.quota_facts import ClusterQueueFact
from webhook.kube.snapshot import Snapshot


def has_floor(queue: ClusterQueueFact, accelerators: Accelerators) -> bool:
    """Whether it guarantees an accelerator, in whatever flavor."""
    return any(amount > 0 and accelerators.covers(resource) for (_, resource), amount in queue.nominal.items())


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    queue = cast(ClusterQueueFact, subject.fact)
    if queue.cohort or not has_floor(queue, policy.accelerators):
        return
    version = string(subject.value.get("apiVersion")).rpartition("/")[2]
    field, other = ("cohort", "cohortName") if version == "v1beta1" else ("cohortName", "cohort")
    unread = at(subject.value, ("spec", other)) is not None
    yield Violation(
        ("spec", field),
        must="must name a cohort",
        actual=f"absent ({version} has no field {other})" if unread else "absent",
        fix="set it to that of the queues which are to share, else idle quota is neither lent nor borrowed",
    )


RULE = Rule(id="missing-cohort", mode=Mode.WARN, kinds=(CLUSTER_QUEUE,), check=check, page=__doc__)
