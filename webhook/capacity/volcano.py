"""Whether what Volcano's Queues guarantee fits the nodes, as things are and as a write would make them.

Volcano takes the sum of all guarantees off what it lends to anybody: above the hardware, nobody can have more than its
own guarantee, and not every queue that. Kueue can admit what Volcano places, so their sums are never added up. Each is
compared with all nodes or, with the policy's volcano_nodes, with its own. The policy cannot declare capacity for
Volcano, and pods outside of Kueue, of which its own are some, are not taken off what it can use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webhook.capacity.balance import balance_of
from webhook.capacity.guarantees import ROOT, Guarantee, Guarantees, Share
from webhook.capacity.hardware import Hardware, Offer
from webhook.capacity.settings import Settings
from webhook.kube.accelerators import Accelerators
from webhook.kube.cached import cached
from webhook.kube.facts import Fact
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact
from webhook.kube.quantity import show
from webhook.kube.quota_facts import FlavorResource
from webhook.kube.reservation import Reservation
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.kube.volcano_facts import VolcanoQueueFact

KINDS = frozenset({"Node", "Queue"})

_EVERY_NODE = ResourceFlavorFact("")


class VolcanoBalance:
    """Guarantees and Volcano's nodes, kept current by the events of a snapshot, as Balance keeps Kueue's."""

    kinds = KINDS

    def __init__(self, settings: Settings, accelerators: Accelerators) -> None:
        self.settings = settings
        self.accelerators = accelerators
        self.guarantees = Guarantees()
        self._hardware = Hardware(settings, accelerators, for_volcano=True)
        self._hardware.put_flavor(_EVERY_NODE)

    def changed(self, kind: str, before: Fact | None, after: Fact | None) -> None:  # noqa: ARG002
        match after if after is not None else before:
            case NodeFact() as node:
                if after is None:
                    self._hardware.remove_node(node.name)
                else:
                    self._hardware.put_node(node)
            case VolcanoQueueFact() as queue:
                self.guarantees.put(queue.name, None if after is None else guarantee_of(queue, self.accelerators))

    @property
    def knows_nodes(self) -> bool:
        return bool(self._hardware.nodes)

    @property
    def offer(self) -> Offer:
        """What all of Volcano's nodes offer."""
        groups = self._hardware.grouping.of(_EVERY_NODE.name)
        return groups[0].offer if groups else Offer()


@dataclass(frozen=True)
class GuaranteeComparison:
    """One resource, before and after the write of a Queue. Amounts are in billionths.

    `before` and `after` are the sums of all guarantees, `own` is what the written Queue guarantees after it. `moved`
    says that it gets another parent. `nodes` counts those of `hardware`. `queues` is all Queues after the write.
    """

    resource: str
    name: str
    own: int
    moved: bool
    before: int
    after: int
    hardware: int
    usable: int
    nodes: int
    queues: Guarantees

    @cached
    def shares(self) -> list[Share]:
        """What the sum is made of after it, the largest first."""
        return self.queues.shares(self.resource)

    @property
    def unmet(self) -> int:
        """What of the guarantees the hardware cannot carry after it."""
        return _unmet(self.after, self.hardware)

    @property
    def excess(self) -> int:
        """How much more of the guarantees is unmet after it, whatever may be done about the nodes."""
        return self.unmet - _unmet(self.before, self.hardware)

    @property
    def worse(self) -> bool:
        """The write is to be denied."""
        return self.excess > 0

    @property
    def away(self) -> bool:
        """More is unmet than before while capacity is away: the hardware is there, and cannot be used now."""
        return not self.worse and _unmet(self.after, self.usable) > _unmet(self.before, self.usable)


class Volcano:
    """For one decision."""

    def __init__(self, kept: VolcanoBalance, snapshot: Snapshot) -> None:
        self._kept = kept
        self._snapshot = snapshot

    def compare(
        self, name: str, before: VolcanoQueueFact | None, after: VolcanoQueueFact | None
    ) -> tuple[GuaranteeComparison, ...]:
        """What the write of a Queue changes, sorted by resource.

        Where it may meet two states, each resource is compared in the one in which it goes worse. Raises FactsMissing
        for a write that changes something, if Queues or nodes are not known.
        """
        old, new = self._guarantee(before), self._guarantee(after)
        if (old or Guarantee()) == (new or Guarantee()):
            return ()
        self._snapshot.require(KINDS)
        found: dict[str, GuaranteeComparison] = {}
        for state in self._states(name):
            for each in _compared(self._kept.offer, state, name, old, new):
                worst = found.setdefault(each.resource, each)
                if (each.excess, each.away) > (worst.excess, worst.away):
                    found[each.resource] = each
        if not self._kept.knows_nodes and any(each.after > each.before for each in found.values()):
            raise FactsMissing("Node", "none known")
        return tuple(found[resource] for resource in sorted(found))

    def _states(self, name: str) -> tuple[Guarantees, ...]:
        """The states that a write of this Queue may meet, as `webhook.capacity.pending` has them for Kueue's kinds.

        A Queue that is about to get another parent may be under either, so it makes two states.
        """
        differences = [(each, fact) for kind, each, fact in self._snapshot.differences if kind == "Queue"]
        reserved = [each for each in self._snapshot.reserved if each.kind == "Queue" and each.name != name]
        if not differences and not reserved:
            return (self._kept.guarantees,)
        stored = self._kept.guarantees.copy()
        for each, fact in differences:
            stored.put(each, self._guarantee(fact))
        staying, moving = _with_reserved(stored, reserved, move=False), _with_reserved(stored, reserved, move=True)
        moves = any(staying.queue(each.name) != moving.queue(each.name) for each in reserved)
        return (staying, moving) if moves else (staying,)

    def _guarantee(self, fact: Fact | None) -> Guarantee | None:
        return guarantee_of(fact, self._kept.accelerators) if isinstance(fact, VolcanoQueueFact) else None

    def beside_kueue(self, resource: str) -> str:
        """What Volcano's Queues guarantee, to follow Kueue's arithmetic; '' if it is nothing."""
        return self._phrase("Volcano guarantees", self._kept.guarantees.sums().get(resource, 0))

    def beside_volcano(self, resource: str) -> str:
        """What Kueue's floors come to, to follow Volcano's arithmetic; '' if it is nothing."""
        kueue = balance_of(self._snapshot, self._kept.settings, self._kept.accelerators)
        return self._phrase("Kueue floors", kueue.guaranteed(resource))

    def _phrase(self, name: str, amount: int) -> str:
        which = "maybe on the same nodes" if self._kept.settings.volcano_nodes is None else "on other nodes"
        return f"; {name}, {which}: {show(amount)}" if amount else ""


def volcano_of(snapshot: Snapshot, settings: Settings, accelerators: Accelerators) -> Volcano:
    """Volcano's side of a snapshot. Its sums are made as those of `webhook.capacity.balance.balance_of`."""
    for observer in snapshot.origin.observers:
        if isinstance(observer, VolcanoBalance):
            if observer.settings == settings and observer.accelerators == accelerators:
                return Volcano(observer, snapshot)
            snapshot.origin.leave(observer)
    balance = VolcanoBalance(settings, accelerators)
    snapshot.origin.observe(balance)
    return Volcano(balance, snapshot)


def guarantee_of(fact: VolcanoQueueFact, accelerators: Accelerators) -> Guarantee:
    """What a Queue guarantees of accelerators. An amount that is not above 0 guarantees nothing."""
    amounts = {each: amount for each, amount in fact.guarantee.items() if amount > 0 and accelerators.covers(each)}
    return Guarantee(fact.parent or ROOT, amounts)


def raised(
    before: VolcanoQueueFact | None, after: VolcanoQueueFact | None, accelerators: Accelerators
) -> dict[FlavorResource, int]:
    """The guarantees that a write raises, as they are after it, for a Reservation: by (parent, resource).

    Under another parent all of them count as raised. What lies below a Queue that moves is not in it.
    """
    old, new = _by_parent(before, accelerators), _by_parent(after, accelerators)
    return {key: amount for key, amount in new.items() if amount > old.get(key, 0)}


def _by_parent(fact: VolcanoQueueFact | None, accelerators: Accelerators) -> dict[FlavorResource, int]:
    amounts: Mapping[str, int] = {} if fact is None else guarantee_of(fact, accelerators).amounts
    return {("" if fact is None else fact.parent, resource): amount for resource, amount in amounts.items()}


def _compared(
    offer: Offer, state: Guarantees, name: str, old: Guarantee | None, new: Guarantee | None
) -> Iterable[GuaranteeComparison]:
    before, after = _with_queue(state, name, old), _with_queue(state, name, new)
    own: Mapping[str, int] = new.amounts if new is not None else {}
    moved = old is not None and new is not None and old.parent != new.parent
    for resource in before.sums().keys() | after.sums().keys():
        sums = before.sums().get(resource, 0), after.sums().get(resource, 0)
        if sums[0] != sums[1]:
            yield GuaranteeComparison(
                resource,
                name,
                own.get(resource, 0),
                moved,
                *sums,
                offer.hardware.get(resource, 0),
                offer.usable.get(resource, 0),
                offer.nodes.get(resource, 0),
                after,
            )


def _with_queue(state: Guarantees, name: str, queue: Guarantee | None) -> Guarantees:
    if state.queue(name) == queue:
        return state
    changed = state.copy()
    changed.put(name, queue)
    return changed


def _with_reserved(stored: Guarantees, reserved: Iterable[Reservation], move: bool) -> Guarantees:
    """The larger of what is stored and what is reserved; `move`: under the parent that is reserved."""
    changed = stored.copy()
    for each in reserved:
        kept = changed.queue(each.name)
        amounts = dict(kept.amounts) if kept is not None else {}
        parent, until = (kept.parent, kept.reserved_until) if kept is not None else (ROOT, "")
        for (under, resource), amount in each.floors.items():
            if kept is None or move:
                parent = under or ROOT
            if amount > amounts.get(resource, 0):
                amounts[resource], until = amount, each.until
        changed.put(each.name, Guarantee(parent, amounts, until))
    return changed


def _unmet(guaranteed: int, supply: int) -> int:
    return max(0, guaranteed - supply)
