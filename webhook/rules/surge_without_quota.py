"""A GPU Deployment rolls with maxSurge 0 and maxUnavailable of at least 1.

Under the default strategy, 25% and 25%, a Deployment of one replica makes the new pod before it deletes the old one.
Once the budget is fully admitted the new pod has no quota to claim: Kueue gates it, and the rollout waits for ever
behind it.

Fixed by setting maxSurge to 0. maxUnavailable is kept, unless it is 0 or 0%: then it becomes the policy's
rollout.maxUnavailable. A percentage that rounds to 0 still rolls one pod at a time. Changing the strategy restarts
nothing. Recreate is left alone. An omitted strategy is judged as what the API server fills in.

Guide: step 3, 'First set the rollout strategy'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from webhook.engine.patch import Edit
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.objects import Path, at, mapping
from webhook.kube.snapshot import Snapshot

_ROLLING = "RollingUpdate"
_DEFAULT = "25%"  # of both fields, as the API server fills them in
_ZERO_PERCENT = re.compile(r"0+%", re.ASCII)


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    path = subject.kind.surge
    if not path or not subject.is_gpu_workload:
        return
    strategy = mapping(at(subject.value, path[:-1]))
    if strategy.get("type") not in (None, "", _ROLLING):
        return
    rolling = mapping(at(strategy, path[-1:]))
    surge, unavailable = rolling.get("maxSurge"), rolling.get("maxUnavailable")
    if not _is_zero(surge):
        yield Violation(
            (*path, "maxSurge"),
            must="must be 0",
            actual=_shown(surge),
            fix="set it to 0: a surge pod has no quota to claim, so the rollout would wait for ever",
            edits=_surge_edits(path, strategy, unavailable),
            done="set to 0",
        )
    if _is_zero(unavailable):
        yield Violation(
            (*path, "maxUnavailable"),
            must="must be at least 1",
            actual=_shown(unavailable),
            fix=f"set it to {policy.max_unavailable}: with maxSurge 0, no pod could ever be replaced",
            edits=(Edit((*path, "maxUnavailable"), policy.max_unavailable),),
            done=f"set to {policy.max_unavailable}",
        )


def _surge_edits(path: Path, strategy: Any, unavailable: Any) -> tuple[Edit, ...]:
    """An omitted strategy is written out whole, so that it ends as a filled-in one does."""
    edits = [] if strategy.get("type") else [Edit((*path[:-1], "type"), _ROLLING)]
    edits.append(Edit((*path, "maxSurge"), 0))
    if unavailable is None:
        edits.append(Edit((*path, "maxUnavailable"), _DEFAULT))
    return tuple(edits)


def _is_zero(value: Any) -> bool:
    if isinstance(value, str):
        return _ZERO_PERCENT.fullmatch(value) is not None
    return value == 0 and value is not False


def _shown(value: Any) -> str:
    if isinstance(value, str) and not value.endswith("%"):
        return f'"{value}"'
    return _DEFAULT if value is None else str(value)


RULE = Rule(id="surge-without-quota", mode=Mode.DENY, kinds=WORKLOADS, check=check, fixes=True, page=__doc__)
