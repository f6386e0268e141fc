"""Why replicas would wait for quota, in words, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping

from webhook.kube.quantity import show
from webhook.kube.quota_facts import ClusterQueueFact, FlavorResource
from webhook.live.quota import Room, Short


def why_waiting(queue: ClusterQueueFact, room: Room) -> tuple[str, str]:
    """'ClusterQueue "team-a" has 2 of 5 nvidia.com/gpu in a100 left of its own', and the remedy."""
    name = f'ClusterQueue "{queue.name}"'
    if room.behind:
        waits = "1 Workload waits" if room.behind == 1 else f"{room.behind} Workloads wait"
        return (
            f"{name} is StrictFIFO, and {waits} in it already: what comes stands behind",
            "let those in, or delete them, first",
        )
    reclaims = queue.reclaim_within_cohort == "Any"
    lent = {} if reclaims else {key: short for key, short in room.short.items() if short.free < short.left}
    left = [f"{show(short.left)} of {show(short.nominal)} {_of(key)}" for key, short in sorted(room.short.items())]
    why = f"{name} has {', '.join(left) or 'no quota'} left of its own"
    if not lent:
        more = [f"{show(max(short.free - short.left, 0))} {_of(key)}" for key, short in sorted(room.short.items())]
        why += f" (and can borrow {', '.join(more)})" if more and queue.cohort else ""
        return why, f"raise the floor of {queue.name}, or scale down first"
    why += f"; {_lent(lent)}"
    if queue.reclaim_within_cohort == "LowerPriority":
        why += (
            ", and whether Kueue preempts them is not evaluated: by reclaimWithinCohort LowerPriority that goes by "
            "their priorities"
        )
    else:
        why += ", and Kueue preempts none of them (reclaimWithinCohort Never)"
    return why, "have peers that borrow scale down first"


def _of(key: FlavorResource) -> str:
    flavor, resource = key
    return f"{resource} in {flavor}"


def _lent(lent: Mapping[FlavorResource, Short]) -> str:
    said = [f"{show(short.free)} {_of(key)}" for key, short in sorted(lent.items())]
    return f"only {', '.join(said)} can be had of it now, for peers borrow the rest"
