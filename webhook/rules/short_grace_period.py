"""A replica has time to drain when it is preempted.

A preempted replica is a deleted serving pod: requests in flight are lost if terminationGracePeriodSeconds ends before
they do. The policy's gracePeriod.minimumSeconds says what is enough, 60 unless it is set; the API server's own
default is 30. A Knative Service says it by its timeoutSeconds. Jobs and other workloads that come to an end by
themselves are passed over: they answer no requests.

Guide: How It Interacts With the HPA, 'A preempted replica is a deleted serving pod'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.snapshot import Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    field, absent = subject.kind.grace
    for template in subject.templates:
        if not template.asks:
            continue
        given = template.spec.get(field)
        seconds = given if isinstance(given, int) else absent
        if seconds < policy.minimum_grace_seconds:
            yield Violation(
                (*template.spec_path, field),
                must=f"must be at least {policy.minimum_grace_seconds}",
                actual=str(seconds),
                fix="allow for the longest request in flight: a preempted replica is a deleted pod",
                weight=-seconds,
            )


RULE = Rule(
    id="short-grace-period",
    mode=Mode.WARN,
    kinds=tuple(row for row in WORKLOADS if row.serves),
    check=check,
    for_accelerators=True,
    page=__doc__,
)
