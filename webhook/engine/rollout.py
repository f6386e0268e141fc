"""What an UPDATE does to the pods that run: whether they restart anyway, and how many go down at once."""

from __future__ import annotations

import re
from typing import Any

from webhook.engine.policy import Inject, Policy
from webhook.engine.subject import Subject
from webhook.kube.objects import at, mapping
from webhook.kube.pod_sets import pods_now
from webhook.kube.pods import PodTemplate
from webhook.kube.row import Relabel

_PERCENT = re.compile(r"([0-9]{1,3})%", re.ASCII)


def runs(subject: Subject) -> bool:
    """Whether the object has pods that a change could restart. A model that is loading has its pods, and is not ready
    for minutes. What exists and says nothing of its pods is taken to have some.
    """
    if subject.old is None or subject.kind.relabel is Relabel.NEW_JOBS:
        return False
    counts = [pods_now(subject.kind, value) for value in (subject.old, subject.value)]
    return any(count is None or count > 0 for count in counts)


def may_change(subject: Subject, template: PodTemplate, policy: Policy) -> bool:
    """Whether a fix may touch the pod template, which restarts its pods: it may where it restarts none that would not
    restart without it. What is too late to be labelled cannot be changed in what matters.
    """
    if subject.old is None:
        return True
    if subject.kind.relabel is Relabel.NOTHING:
        return False
    changes = at(subject.old, template.path) != template.value
    return policy.inject is Inject.ALWAYS or not runs(subject) or bool(changes)


def down_at_once(subject: Subject) -> int:
    """How many units a rollout may take down before a new one is ready, 1 at the least."""
    surge, count = subject.kind.surge, subject.units
    if surge is None:
        return 1
    if at(subject.value, surge.type) == "Recreate" and surge.type:
        return max(count, 1)
    return max(min(_resolved(mapping(at(subject.value, surge.path)).get("maxUnavailable"), count), count), 1)


def _resolved(value: Any, count: int) -> int:
    """A count, or a percentage rounded down as Kubernetes rounds maxUnavailable; 1 where it says nothing usable."""
    if isinstance(value, int):
        return value
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return count * int(percent[1]) // 100 if percent else 1
