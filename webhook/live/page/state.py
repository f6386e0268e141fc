"""Everything that the page shows, as one JSON value. Pure: facts, statuses, denials, history and findings in.

Amounts are in units (GPUs), times in seconds since the epoch. What is not known is null, with its reason beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from webhook.capacity.balance import KINDS, Balance, balance_of
from webhook.capacity.view import View
from webhook.capacity.words import describe
from webhook.engine.policy import Policy
from webhook.kube.quantity import NANO, show
from webhook.kube.quota_facts import ClusterQueueFact, FlavorResource, counted
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.live.page.denials import Denial
from webhook.live.page.findings import Audited, Violated
from webhook.live.page.history import Amounts, Past
from webhook.live.page.queues import QueueReading

Json = dict[str, Any]

MOST_FLAVORS = 100
MOST_QUEUES = 300
MOST_FINDINGS = 20
"""Of one rule."""

_MOST_PARTS = 8  # floors of a flavor that are told apart
_MOST_LOCAL_QUEUES = 20


@dataclass(frozen=True, slots=True)
class Facts:
    """The state of the cluster that a door goes by. `age` is the seconds since it was last known to be current, None
    if it is not known at all; `trouble` says by kind what is wrong with reading it now."""

    snapshot: Snapshot
    policy: Policy
    age: float | None = 0.0
    trouble: Mapping[str, str] = field(default_factory=dict)


def balance(facts: Facts) -> Balance | None:
    """None while a kind that decides is not known."""
    if not facts.snapshot.unknown().keys().isdisjoint(KINDS):
        return None
    return balance_of(facts.snapshot, facts.policy.capacity, facts.policy.accelerators)


def amounts(kept: Balance | None) -> dict[FlavorResource, Amounts]:
    """What is to be remembered of this moment."""
    if kept is None:
        return {}
    view = kept.now
    return {
        key: Amounts(view.floors(*key), view.hardware(*key), view.usable(*key))
        for key in sorted(kept.keys())
        if not view.unknown(*key)
    }


def state(facts: Facts, queues: QueueReading, denials: Sequence[Denial], past: Past, audit: Audited) -> Json:
    kept = balance(facts)
    unknown = facts.snapshot.unknown()
    keys = sorted(kept.keys()) if kept is not None else []
    return {
        "flavors": {
            "reason": _missing(unknown) if kept is None else "",
            "trouble": [f"{kind}: {text}" for kind, text in sorted(facts.trouble.items()) if kind in KINDS],
            "rows": [_flavor(kept, key) for key in keys[:MOST_FLAVORS]] if kept is not None else [],
            "more": max(0, len(keys) - MOST_FLAVORS),
        },
        "queues": _queues(facts, queues),
        "violations": _violations(audit),
        "denials": [_denial(denial) for denial in denials],
        "history": _history(past),
    }


def _missing(unknown: Mapping[str, str]) -> str:
    """The kinds that decide and are not known, those of one reason together."""
    kinds: dict[str, list[str]] = {}
    for kind in sorted(KINDS & unknown.keys()):
        kinds.setdefault(unknown[kind], []).append(kind)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in kinds.items())


# Floors and hardware


def _flavor(kept: Balance, key: FlavorResource) -> Json:
    (flavor, resource), view = key, kept.now
    floors = sorted(view.contributions(*key), key=lambda floor: (-floor.amount, floor.kind, floor.name))
    row: Json = {
        "flavor": flavor,
        "resource": resource,
        "floors": _units(view.floors(*key)),
        "parts": [
            {"kind": floor.kind, "name": floor.name, "amount": _units(floor.amount)} for floor in floors[:_MOST_PARTS]
        ],
        "otherParts": max(0, len(floors) - _MOST_PARTS),
        "uncounted": [
            f'{floor.kind} "{floor.name}" {show(floor.amount)}: {floor.uncounted}' for floor in view.uncounted(*key)
        ],
    }
    reason = view.unknown(*key)
    if reason:
        return row | {"hardware": None, "usable": None, "verdict": "not evaluated", "text": reason}
    verdict, text = _verdict(view, flavor, resource)
    return row | {
        "hardware": _units(view.hardware(*key)),
        "usable": _units(view.usable(*key)),
        "verdict": verdict,
        "text": text,
    }


def _verdict(view: View, flavor: str, resource: str) -> tuple[str, str]:
    """One of 'exceed', 'away', 'spare' and 'fit', and what there is to say about it."""
    cut = view.assess(resource, [flavor]).cut
    if cut is not None and flavor in cut.flavors:
        excess, arithmetic = show(cut.excess), describe(cut)
        if cut.usable:
            return "away", f"{excess} more guaranteed than usable now: {arithmetic}; fix: bring nodes back"
        return "exceed", f"{excess} more guaranteed than there is: {arithmetic}; fix: add nodes or lower floors"
    # A flavor without floors competes with nobody, and yet others may claim its nodes.
    claiming = {each for each in view.neighbours(flavor) if view.floors(each, resource) > 0}
    unclaimed = view.assess(resource, {flavor} | claiming, about=()).unclaimed
    if unclaimed > 0:
        return "spare", f"{show(unclaimed)} that no floor claims: quota that nobody has stays idle"
    return "fit", "every floor can be had at the same time"


def _history(past: Past) -> Json:
    def units(values: Iterable[Amounts | None], name: str) -> list[int | float | None]:
        return [None if each is None else _units(getattr(each, name)) for each in values]

    return {
        "start": past.start,
        "step": past.step,
        "more": past.left_out,
        "series": [
            {
                "flavor": each.flavor,
                "resource": each.resource,
                **{name: units(each.values, name) for name in ("floors", "hardware", "usable")},
            }
            for each in past.series
        ],
    }


# Queues


def _queues(facts: Facts, reading: QueueReading) -> Json:
    try:
        known = facts.snapshot.cluster_queues()
    except FactsMissing as missing:
        return {
            "reason": str(missing),
            "statusReason": reading.reason,
            "waiting": None,
            "silent": 0,
            "rows": [],
            "more": 0,
        }
    covers = facts.policy.accelerators.covers
    wanted = [queue for queue in known if any(covers(resource) for _, resource in queue.nominal)]
    waiting = {queue.name: _waiting(queue, reading) for queue in wanted}
    told = [count for count in waiting.values() if count is not None]
    busiest = sorted(wanted, key=lambda queue: (-(waiting[queue.name] or 0), queue.name))[:MOST_QUEUES]
    busiest.sort(key=lambda queue: (queue.cohort, queue.name))
    return {
        "reason": "",
        "statusReason": reading.reason,
        # Of all queues, also those that are not shown; `silent` is how many do not say.
        "waiting": sum(told) if told else None,
        "silent": len(wanted) - len(told),
        "rows": [_queue(facts.policy, queue, reading) for queue in busiest],
        "more": len(wanted) - len(busiest),
    }


def _waiting(queue: ClusterQueueFact, reading: QueueReading) -> int | None:
    status = reading.queues.get(queue.name)
    return status.pending if status is not None else None


def _queue(policy: Policy, queue: ClusterQueueFact, reading: QueueReading) -> Json:
    status, local = reading.queues.get(queue.name), reading.local.get(queue.name, ())
    return {
        "queue": queue.name,
        "cohort": queue.cohort,
        "inactive": status.inactive if status is not None else "",
        "gated": status.pending if status is not None else None,
        "localQueues": [
            {"namespace": each.namespace, "name": each.name, "gated": each.pending}
            for each in local[:_MOST_LOCAL_QUEUES]
        ]
        if reading.at is not None
        else None,
        "otherLocalQueues": max(0, len(local) - _MOST_LOCAL_QUEUES),
        "quotas": [
            {
                "flavor": key[0],
                "resource": key[1],
                "floor": _units(counted(key[1], nominal)),
                "used": _units(status.used.get(key, 0)) if status is not None else None,
                "borrowed": _units(status.borrowed.get(key, 0)) if status is not None else None,
            }
            for key, nominal in sorted(queue.nominal.items())
            if policy.accelerators.covers(key[1])
        ],
    }


# Violations and denials


_SEVERITIES = {"deny": 0, "patch": 1, "warn": 2}


def _violations(audit: Audited) -> Json:
    found = sorted(audit.findings, key=_order)
    return {
        "reason": audit.reason,
        "at": audit.at,
        "count": sum(each.count for each in found),
        "gatedPods": audit.gated_pods,
        "exempt": audit.exempt,
        "rules": [_rule(rule, severity, list(of)) for (_, _, rule, severity), of in groupby(found, key=_group)],
        "notEvaluated": [{"what": what, "why": why} for what, why in audit.not_evaluated],
    }


def _group(finding: Violated) -> tuple[int, bool, str, str]:
    worth = _SEVERITIES.get(finding.severity, len(_SEVERITIES))
    # Of the same weight the set-up comes first: while it is wrong, the rules may not be asked at all.
    return worth, not finding.about_setup, finding.rule, finding.severity


def _order(finding: Violated) -> tuple[tuple[int, bool, str, str], str, str, tuple[str, ...], str]:
    return _group(finding), finding.namespace, finding.kind, finding.names, finding.what


def _rule(rule: str, severity: str, findings: Sequence[Violated]) -> Json:
    return {
        "rule": rule,
        "severity": severity,
        "setup": findings[0].about_setup,
        "count": sum(each.count for each in findings),
        "more": sum(each.count for each in findings[MOST_FINDINGS:]),
        "findings": [
            {
                "kind": each.kind,
                "namespace": each.namespace,
                "names": list(each.names),
                "what": each.what,
                "fix": each.fix,
                "count": each.count,
            }
            for each in findings[:MOST_FINDINGS]
        ],
    }


def _denial(denial: Denial) -> Json:
    return {
        "first": denial.first,
        "last": denial.last,
        "count": denial.count,
        "user": denial.user,
        "operation": denial.operation,
        "kind": denial.kind,
        "namespace": denial.namespace,
        "name": denial.name,
        "dryRun": denial.dry_run,
        "rules": list(denial.rules),
        "messages": list(denial.messages),
    }


def _units(amount: int) -> int | float:
    return amount // NANO if amount % NANO == 0 else amount / NANO
