"""A GPU workload rolls with maxSurge 0 and maxUnavailable of at least 1.

Under the default strategy, 25% and 25%, a Deployment of one replica makes the new pod before it deletes the old one.
Once the budget is fully admitted the new pod has no quota to claim: Kueue gates it, and the rollout waits for ever
behind it.

Fixed by setting maxSurge to 0. maxUnavailable is kept, unless it is 0 or 0%: then it becomes the policy's
rollout.maxUnavailable. A percentage that rounds to 0 still rolls one pod at a time. Changing the strategy restarts
nothing. Recreate is left alone. An omitted strategy is judged as what the API server fills in.
So are a LeaderWorkerSet and the canary of an Argo Rollout. What surges by way of an operator is told, and so is what
always starts new pods before old ones go: blue-green, a RayService's new cluster, a Knative revision, the Deployment of
an LLMInferenceService.

Guide: step 3, 'First set the rollout strategy'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from webhook.engine.patch import Edit
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.objects import Object, at, mapping
from webhook.kube.row import Kind, Surge
from webhook.kube.snapshot import Snapshot

_ROLLING = "RollingUpdate"
_ZERO_PERCENT = re.compile(r"0+%", re.ASCII)


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    yield from _of(subject.kind, subject.value, policy)
    for row, value, place in subject.held:
        for found in _of(row, value, policy) if row is not None else ():
            # What is in another object is told: nothing says that it is the part with accelerators.
            yield replace(found, path=(*place, *found.path), edits=(), advice=True)


def _of(row: Kind, value: Object, policy: Policy) -> Iterator[Violation]:
    if row.surge is not None:
        yield from _surging(value, row.surge, policy)
    for doubling in row.doubles:
        found = at(value, doubling.path)
        said = found if isinstance(found, str) else "there" if found is not None else doubling.absent
        kept = bool(doubling.without) and at(value, doubling.without) is not None
        if said and said not in doubling.unless and not kept:
            yield Violation(
                doubling.path,
                must="must not start new pods before old ones go",
                actual=doubling.actual or said,
                fix=f"{doubling.fix}: they have no quota to claim",
                advice=True,
            )


def _surging(value: Object, surge: Surge, policy: Policy) -> Iterator[Violation]:
    path = surge.path
    if surge.type and at(value, surge.type) not in (None, "", _ROLLING):
        return
    found = at(value, path)
    if surge.optional and not isinstance(found, dict):
        return
    rolling = mapping(found)
    most, unavailable = rolling.get("maxSurge", surge.surge), rolling.get("maxUnavailable", surge.unavailable)
    if not _is_zero(surge.surge if most is None else most):
        yield Violation(
            (*path, "maxSurge"),
            must="must be 0",
            actual=_shown(surge.surge if most is None else most),
            fix="set it to 0: a surge pod has no quota to claim, so the rollout would wait for ever",
            edits=tuple(_surge_edits(value, surge)) if surge.fixed else (),
            done="set to 0",
            advice=not surge.fixed,
        )
    if _is_zero(unavailable):
        yield Violation(
            (*path, "maxUnavailable"),
            must="must be at least 1",
            actual=_shown(unavailable),
            fix=f"set it to {policy.max_unavailable}: with maxSurge 0, no pod could ever be replaced",
            edits=(Edit((*path, "maxUnavailable"), policy.max_unavailable),) if surge.fixed else (),
            done=f"set to {policy.max_unavailable}",
            advice=not surge.fixed,
        )


def _surge_edits(value: Object, surge: Surge) -> Iterator[Edit]:
    """An omitted strategy is written out whole, so that it ends as a filled-in one does."""
    if surge.type and not at(value, surge.type):
        yield Edit(surge.type, _ROLLING)
    yield Edit((*surge.path, "maxSurge"), 0)
    if surge.type and at(value, (*surge.path, "maxUnavailable")) is None:
        yield Edit((*surge.path, "maxUnavailable"), surge.unavailable)


def _is_zero(value: Any) -> bool:
    if isinstance(value, str):
        return _ZERO_PERCENT.fullmatch(value) is not None
    return value == 0 and value is not False


def _shown(value: Any) -> str:
    if isinstance(value, str) and not value.endswith("%"):
        return f'"{value}"'
    return str(value)


RULE = Rule(
    id="surge-without-quota",
    mode=Mode.DENY,
    kinds=tuple(row for row in WORKLOADS if row.surge or row.doubles or row.holds),
    check=check,
    fixes=True,
    for_accelerators=True,
    page=__doc__,
)
