"""What an UPDATE does to the pods that run: whether they restart anyway, and how many go down at once."""

from __future__ import annotations

import re
from typing import Any

from webhook.engine.policy import Inject, Policy
from webhook.engine.subject import Subject
from webhook.kube.facts import pods_now, replicas
from webhook.kube.objects import at, mapping
from webhook.kube.pods import PodTemplate

_PERCENT = re.compile(r"([0-9]{1,3})%", re.ASCII)


def restarts_anyway(subject: Subject, template: PodTemplate) -> bool:
    """Whether a change of the template restarts no pod that would not restart without it.

    So it is for a new object, for one without pods (status.replicas 0: a model that is loading is not ready for
    minutes, but has its pods), and where this update changes the template itself.
    """
    if subject.old is None or max(pods_now(subject.old), pods_now(subject.value)) == 0:
        return True
    return bool(at(subject.old, template.path) != template.value)


def may_change(subject: Subject, template: PodTemplate, policy: Policy) -> bool:
    """Whether a fix may touch the pod template. A Pod that exists cannot be changed in what matters."""
    if subject.old is not None and not template.path:
        return False
    return policy.inject is Inject.ALWAYS or restarts_anyway(subject, template)


def down_at_once(subject: Subject) -> int:
    """How many replicas a rollout may take down before a new one is ready, 1 at the least."""
    path = subject.kind.surge
    strategy = mapping(at(subject.value, path[:-1])) if path else {}
    count = replicas(subject.value)
    if strategy.get("type") == "Recreate":
        return max(count, 1)
    return max(min(_resolved(at(strategy, (*path[-1:], "maxUnavailable")), count), count), 1)


def _resolved(value: Any, count: int) -> int:
    """A count, or a percentage rounded down as Kubernetes rounds maxUnavailable; 1 where it says nothing usable."""
    if isinstance(value, int):
        return value
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return count * int(percent[1]) // 100 if percent else 1
