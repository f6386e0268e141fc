"""Whether Kueue's controller is there: a gate that nobody opens looks like one that waits for quota."""

from __future__ import annotations

from datetime import datetime

from webhook.kube.objects import at, metadata, string
from webhook.live.pods import condition
from webhook.live.verify.assertion import Assertion
from webhook.live.verify.queues import name_of, queues_of
from webhook.live.verify.world import KUEUE_LEASE, World

_STALE = 60.0
"""Seconds without a renewal after which no controller holds the Lease; Kueue renews it every few."""

_SEE = "see deployment kueue-controller-manager"


def controller_answers(world: World, now: datetime) -> Assertion:
    found = Assertion("controller-answers", "Kueue's controller answers")
    if world.lacks(found, "local_queues", "cluster_queues"):
        return found
    for kind, value in queues_of(world):
        name, active = name_of(value), condition(value, "Active")
        generation = metadata(value).get("generation")
        seen = active.get("observedGeneration", generation)
        if not active:
            found.failures.append(f'{kind} "{name}" has no Active condition: no controller looks at it; {_SEE}')
        elif seen != generation:
            found.failures.append(
                f'{kind} "{name}": its Active condition is of generation {seen}, its spec of {generation}: no '
                f"controller has seen the last change; {_SEE}"
            )
        else:
            found.evidence.append(f'{kind} "{name}": Active is {active.get("status")}, of its newest spec')
    if world.probe.answers:
        found.evidence.append("Kueue's webhook, which is of the same process, answers (a dry run that changes nothing)")
    elif world.probe.answers is False:
        found.failures.append(f"Kueue's webhook does not answer: {world.probe.said}; {_SEE}")
    _lease(world, found, now)
    return found


def _lease(world: World, found: Assertion, now: datetime) -> None:
    if world.lease is None:
        if world.probe.answers is None:
            lease = world.unknown.get("lease", f"there is no Lease {KUEUE_LEASE}")
            found.unknown.append(
                f"whether it runs: {world.probe.said}; {lease}. A controller that has stopped leaves its conditions as "
                "they are, so these alone do not tell"
            )
        return
    holder = string(at(world.lease, ("spec", "holderIdentity")))
    renewed = string(at(world.lease, ("spec", "renewTime")))
    try:
        age = (now - datetime.fromisoformat(renewed)).total_seconds()
    except (ValueError, TypeError):
        found.unknown.append(f"Lease {KUEUE_LEASE} says no time of renewal: {renewed or 'none'}")
        return
    if age > _STALE:
        found.failures.append(
            f"Lease {KUEUE_LEASE} was renewed {age:.0f} s ago, by {holder or 'nobody'}: no controller runs; {_SEE}"
        )
    elif age < -_STALE:
        found.unknown.append(f"Lease {KUEUE_LEASE} is renewed {-age:.0f} s from now: set the clocks here and there")
    else:
        found.evidence.append(f"Lease {KUEUE_LEASE} was renewed within the last {_STALE:.0f} s, by {holder}")
