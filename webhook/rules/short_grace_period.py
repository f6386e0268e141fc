"""A replica has time to drain when it is preempted.

A preempted replica is a deleted serving pod: requests in flight are lost if terminationGracePeriodSeconds ends before
they do. The policy's gracePeriod.minimumSeconds says what is enough, 60 unless it is set; the API server's own
default is 30.

Guide: How It Interacts With the HPA, 'A preempted replica is a deleted serving pod'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.snapshot import Snapshot

_DEFAULT = 30  # seconds, as the API server fills it in


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    for template in subject.templates:
        if not template.asks:
            continue
        given = template.spec.get("terminationGracePeriodSeconds")
        seconds = given if isinstance(given, int) else _DEFAULT
        if seconds < policy.minimum_grace_seconds:
            yield Violation(
                (*template.path, "spec", "terminationGracePeriodSeconds"),
                must=f"must be at least {policy.minimum_grace_seconds}",
                actual=str(seconds),
                fix="allow for the longest request in flight: a preempted replica is a deleted pod",
                weight=-seconds,
            )


RULE = Rule(id="short-grace-period", mode=Mode.WARN, kinds=WORKLOADS, check=check, page=__doc__)
