"""What Kueue does about a floor that is lowered below what is used, and about one that is raised while others wait."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.kube.objects import mapping
from webhook.kube.quantity import NANO, show
from webhook.kube.quota_facts import ClusterQueueFact, counted
from webhook.live.plan.borrowers import borrowers, listed
from webhook.live.plan.lending import Trees
from webhook.live.plan.numbers import trees_of, uses
from webhook.live.plan.state import State
from webhook.live.plan.steps import Move, Step
from webhook.live.plan.targets import Wanted


def effects(state: State, step: Step, wanted: Wanted) -> list[str]:
    """In words, one line each; of the cluster as it is now, so ask before `plan` changes the snapshot. `wanted` is all
    that is to change, the step included."""
    told: list[str] = []
    for move in step.moves:
        if step.kind == "Cohort":
            told += _of_cohort(state, step.name, move, wanted)
        else:
            queue = state.snapshot.cluster_queue(step.name)
            assert queue is not None
            told += _of_queue(state, queue, move, wanted)
    return told


def _of_queue(state: State, queue: ClusterQueueFact, move: Move, wanted: Wanted) -> Iterator[str]:
    use = uses(state.objects["ClusterQueue", queue.name]).get(move.key)
    if use is None:
        yield f"Kueue has not reported what it uses of {move.resource}, so what becomes of that cannot be said"
        return
    before, after = (counted(move.resource, amount) for amount in (move.before, move.after))
    if after >= before:
        yield from _of_raise(state, queue, move, use.reserved)
        return
    lent = list(borrowers(state, queue.name, move, wanted))
    over = use.reserved - after
    if over <= 0:
        yield f"it uses {show(use.reserved)}: no replica {'of its own ' if lent else ''}is touched"
    else:
        yield from _of_use_above(state, queue, move, use.reserved, over)
    yield from lent


def _of_use_above(state: State, queue: ClusterQueueFact, move: Move, used: int, over: int) -> Iterator[str]:
    """Of a queue that uses so much, by `over` more than its floor will be."""
    trees = trees_of(state, move.key)
    was = max(0, used - counted(move.resource, move.before))
    now = f" ({show(was)} now)" if was and queue.cohort else ""
    if not queue.cohort:
        yield (
            f"it uses {show(used)}, and has no Cohort to borrow from: its replicas stay, and Kueue admits "
            "no more above the floor"
        )
        return
    text = f"it uses {show(used)}, of which {show(over)}{now} are borrowed then"
    reclaimers = _reclaimers(state, trees, queue, move)
    if not reclaimers:
        yield f"{text}; no other queue of its Cohort has a floor and reclaimWithinCohort, so its replicas stay"
    else:
        yield f"{text}, and may be reclaimed by {listed(reclaimers)}: {_replicas(state, queue.name, move, over)}"
    limit = queue.borrowing.get(move.key)
    if limit is not None and over > counted(move.resource, limit):
        yield f"that is more than its borrowingLimit, {show(limit)}: Kueue admits no more until it uses less"


def _reclaimers(state: State, trees: Trees, queue: ClusterQueueFact, move: Move) -> list[str]:
    """The queues of the same tree that may take their floor back from others."""
    root = _root(trees, ("ClusterQueue", queue.name))
    return [
        other.name
        for other in state.snapshot.cluster_queues()
        if other.name != queue.name
        and other.reclaim_within_cohort != "Never"
        and move.key in other.nominal
        and _root(trees, ("ClusterQueue", other.name)) == root
    ]


def _root(trees: Trees, member: tuple[str, str]) -> tuple[str, str]:
    seen = {member}
    while (above := trees.above(member)) and ("Cohort", above) not in seen:
        member = "Cohort", above
        seen.add(member)
    return member


def _replicas(state: State, queue: str, move: Move, over: int) -> str:
    """How many Workloads that may stop: Kueue takes from a queue only while it borrows, so smallest first are most."""
    if state.held is None:
        return f"how many replicas that may stop is not known: {state.unread.get('Workload', 'Workloads are not read')}"
    sizes = sorted(
        held.amounts[move.key] for held in state.held if held.queue == queue and held.amounts.get(move.key, 0) > 0
    )
    count, taken = 0, 0
    for size in sizes:
        if taken >= over:
            break
        taken, count = taken + size, count + 1
    return f"up to {count} of its {len(sizes)} replicas (Workloads) may be stopped, and are gated until there is room"


def _of_raise(state: State, queue: ClusterQueueFact, move: Move, used: int) -> Iterator[str]:
    pending = mapping(state.objects["ClusterQueue", queue.name].get("status")).get("pendingWorkloads")
    floor = counted(move.resource, move.after)
    if isinstance(pending, int) and pending and used < floor:
        how = "by reclaiming what others borrow" if queue.reclaim_within_cohort != "Never" else "once it is free"
        wait, them = ("1 Workload waits", "it") if pending == 1 else (f"{pending} Workloads wait", "them")
        yield f"{wait} there: Kueue may admit {them} up to the new floor, {show(floor)} ({show(used)} used now), {how}"


def _of_cohort(state: State, name: str, move: Move, wanted: Wanted) -> Iterator[str]:
    place = trees_of(state, move.key, wanted).place(("Cohort", name))
    if place is None:
        yield f"Kueue has not reported what its members use of {move.resource}"
        return
    if move.after < move.before and place.borrowed:
        over = place.borrowed // NANO
        yield (
            f"its members use {show(place.used)} of the {show(place.quota)} that they have together then: {over} more "
            "is borrowed from the Cohort above or, without one, beyond all quota; nothing stops, and Kueue admits no "
            "more beyond a member's own floor until they use less"
        )
