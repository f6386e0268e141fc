"""Things as a decision has to take them: with what was just read, and with what others were promised."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations
from typing import cast

from webhook.capacity.balance import Balance
from webhook.capacity.view import Change, View
from webhook.capacity.volcano import raised
from webhook.kube.node_facts import ResourceFlavorFact
from webhook.kube.reservation import Reservation
from webhook.kube.snapshot import Snapshot
from webhook.kube.volcano_facts import VolcanoQueueFact

Written = Change | VolcanoQueueFact
MOST_FLAVORS = 3
"""ResourceFlavors that may be about to be written while something else is judged: eight states. Whoever keeps the
promises sees to it."""


def views_of(balance: Balance, snapshot: Snapshot, kind: str, name: str) -> tuple[View, ...]:
    """The states that a write of this object may meet. It has to fit into each.

    What is reserved for another write of the same object is left out: of two writes of one object that start from the
    same version only one is stored, and the other one is judged again. A floor that is reserved and then not written
    leaves more room than was thought. The nodes of a flavor may be needed as they are and as they will be, so each
    flavor that is about to be written makes twice as many states: MOST_FLAVORS bounds how many there may be.
    """
    changes = [(of, each, cast(Change, fact)) for of, each, fact in snapshot.differences if of in balance.kinds]
    others = [each for each in snapshot.reserved if (each.kind, each.name) != (kind, name)]
    floors = [each for each in others if each.labels is None]
    flavors = [each for each in others if each.labels is not None]
    written = chain.from_iterable(combinations(flavors, count) for count in range(len(flavors) + 1))
    return tuple(_changed(balance, changes, (*floors, *those)) for those in written)


def _changed(balance: Balance, changes: list[tuple[str, str, Change]], reserved: Iterable[Reservation]) -> View:
    reserved = tuple(reserved)
    return balance.now.with_changes(changes, reserved) if changes or reserved else balance.now


def reservation(
    balance: Balance, kind: str, name: str, before: Written, after: Written, uid: str, until: str
) -> Reservation | None:
    """What a write has to be promised; None if it raises no floor and gives no flavor other nodes."""
    if isinstance(after, ResourceFlavorFact):
        if isinstance(before, ResourceFlavorFact) and before.labels == after.labels:
            return None
        return Reservation(kind, name, uid, until, labels=after.labels)
    if isinstance(after, VolcanoQueueFact):
        floors = raised(before if isinstance(before, VolcanoQueueFact) else None, after, balance.accelerators)
    else:
        floors = balance.raised(kind, cast(Change, before), after)
    return Reservation(kind, name, uid, until, floors) if floors else None
