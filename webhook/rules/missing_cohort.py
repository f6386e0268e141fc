"""A queue with a floor is in a cohort, and not alone there.

A floor is lent while its queue is idle, and comes back by preemption, only among the members of one cohort. A
ClusterQueue that is in none, or the only one in its cohort, keeps its accelerators from everybody else and can borrow
none. That others are in the cohort is asked by `check`, which sees them all: at admission the first has to come alone.

Guide: step 4, 'without a cohort the floors cannot be lent or borrowed'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.accelerators import Accelerators
from webhook.kube.cohorts import root_of
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


def survey(subjects: Sequence[Subject], snapshot: Snapshot, policy: Policy) -> Iterator[tuple[Subject, Violation]]:
    """The queues that are alone in the tree of their cohort; none where one that lacks a cohort may belong there."""
    if any(True for subject in subjects for _ in check(subject, snapshot, policy)):
        return
    members = Counter(root_of(snapshot, queue.cohort) for queue in snapshot.cluster_queues() if queue.cohort)
    for subject in subjects:
        queue = cast(ClusterQueueFact, subject.fact)
        if queue.cohort and has_floor(queue, policy.accelerators) and members[root_of(snapshot, queue.cohort)] < 2:
            field = "cohort" if string(subject.value.get("apiVersion")).endswith("/v1beta1") else "cohortName"
            yield (
                subject,
                Violation(
                    ("spec", field),
                    must="must name a cohort that another queue is in",
                    actual=f"{queue.cohort}, where it is alone",
                    fix="set it to that of the queues which are to share: nobody lends to it or borrows from it here",
                ),
            )


RULE = Rule(
    id="missing-cohort",
    mode=Mode.WARN,
    kinds=(CLUSTER_QUEUE,),
    check=check,
    survey=survey,
    page=__doc__,
)
