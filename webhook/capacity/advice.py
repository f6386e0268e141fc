"""What to do about a write that is denied. Whatever is advised was tried, or cannot fail."""

from __future__ import annotations

from dataclasses import replace

from webhook.capacity.assessment import Cut
from webhook.capacity.comparison import Comparison
from webhook.capacity.floors import Contribution
from webhook.capacity.view import Change
from webhook.capacity.write import QuotaWrite
from webhook.kube.quantity import show
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorResource


def ways_out(write: QuotaWrite, comparison: Comparison, cut: Cut) -> list[str]:
    """Less of this, less of the others before this, or to wait for a write that may still fail; at least one."""
    ways = ["keep its nodes"] if write.kind == "ResourceFlavor" and write.before is not None else []
    ways += _less_of_this(write, comparison, cut)
    others = [floor for floor in cut.contributions if floor.name != write.name or floor.kind != write.kind]
    reserved = sorted(floor.reserved_until for floor in others if floor.reserved_until)
    if reserved:
        ways.append(f"try again after {reserved[-1]}")
    ways += _less_of_others(write, comparison, others)
    return ways or [f"leave out {show(_excess(comparison))}"]


def _excess(comparison: Comparison) -> int:
    return comparison.after.unmet_hardware - comparison.before.unmet_hardware


def _is_alone(comparison: Comparison) -> bool:
    """Whether only one flavor is concerned: then sums tell, and nothing needs to be tried."""
    return len(comparison.after.flavors) == 1


def _less_of_this(write: QuotaWrite, comparison: Comparison, cut: Cut) -> list[str]:
    raised = [key for key in write.raised if key[1] == cut.resource and key[0] in comparison.after.flavors]
    for key in raised:
        less = write.raised[key] - _excess(comparison)
        if less >= 0 and (_is_alone(comparison) or write.passes(_with_floor(write.after, key, less))):
            verb = "leave it at" if write.before is not None and write.was(key) == less else "lower it to"
            where = "" if len(raised) == 1 else f" in {key[0]}"
            return [f"{verb} {show(less)}{where}"]
    return []


def _less_of_others(write: QuotaWrite, comparison: Comparison, others: list[Contribution]) -> list[str]:
    # All that is unmet: once others are lower, an excess that was there before excuses none.
    unmet = comparison.after.unmet_hardware
    which = "its" if write.kind == "ResourceFlavor" and _is_alone(comparison) else "other"
    then = "then repeat this write"
    if others:
        most = max(others, key=lambda floor: (floor.amount, floor.source))
        less = most.amount - unmet
        if less >= 0 and (_is_alone(comparison) or _passes_without(write, most, less)):
            lowered = f'{most.kind} "{most.name}" to {show(less)}'
            if len(others) == 1:
                return [f"first lower {lowered}, {then}"]
            return [f"first lower {which} floors by {show(unmet)} in all, such as {lowered}, {then}"]
    if _is_alone(comparison) and sum(floor.amount for floor in others) >= unmet:
        return [f"first lower {which} floors by {show(unmet)} in all, {then}"]
    return []


def _passes_without(write: QuotaWrite, floor: Contribution, amount: int) -> bool:
    snapshot = write.snapshot
    fact = snapshot.cohort(floor.name) if floor.kind == "Cohort" else snapshot.cluster_queue(floor.name)
    lowered = _with_floor(fact, (floor.flavor, floor.resource), amount)
    return write.passes(write.after, [(floor.kind, floor.name, lowered)])


def _with_floor(fact: Change, key: FlavorResource, amount: int) -> Change:
    if isinstance(fact, ClusterQueueFact | CohortFact):
        return replace(fact, nominal={**fact.nominal, key: amount})
    return fact
