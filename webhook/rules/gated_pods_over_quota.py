"""A ResourceQuota on pods, cpu or memory in a managed namespace also counts the pods that Kueue gates.

Pods beyond the budget exist and wait, so they use up the quota of pods that could run. This warns: such a quota can be
right, if it has room for every replica that an autoscaler may ask for.

Guide: prerequisite 3, 'A gated pod still counts against a ResourceQuota'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import RESOURCE_QUOTA
from webhook.kube.objects import at, mapping
from webhook.kube.snapshot import Snapshot

_COUNTED = (
    "pods",
    "count/pods",
    "cpu",
    "requests.cpu",
    "limits.cpu",
    "memory",
    "requests.memory",
    "limits.memory",
)


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    hard = mapping(at(subject.value, ("spec", "hard")))
    found = [key for key in _COUNTED if key in hard]
    if found:
        yield Violation(
            ("spec", "hard"),
            must="must have room for gated pods too",
            actual=", ".join(f"{key} {hard[key]}" for key in found),
            fix="allow for every replica that autoscalers may ask for, or leave these keys out",
        )


RULE = Rule(id="gated-pods-over-quota", mode=Mode.WARN, kinds=(RESOURCE_QUOTA,), check=check, page=__doc__)
