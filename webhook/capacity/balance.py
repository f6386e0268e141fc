"""The balance of floors and hardware, kept current by the events of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.capacity.assessment import Assessment
from webhook.capacity.floors import Contribution, Floors, Written
from webhook.capacity.hardware import Hardware
from webhook.capacity.potential import QuotaTrees
from webhook.capacity.settings import Settings
from webhook.capacity.view import Change, View
from webhook.kube.accelerators import Accelerators
from webhook.kube.facts import Fact
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact
from webhook.kube.quota_facts import AdmissionCheckFact, ClusterQueueFact, CohortFact, FlavorResource
from webhook.kube.snapshot import Snapshot
from webhook.kube.unqueued_pods import UnqueuedPodFact

KINDS = frozenset({"Node", "ResourceFlavor", "ClusterQueue", "Cohort", "AdmissionCheck"})


class Balance:
    """Knows at any moment whether the floors fit. An event costs the same whatever the number of nodes and queues.

    It is told of kinds that are not known as of kinds without objects: a rule that needs them asks the snapshot.
    """

    def __init__(self, settings: Settings, accelerators: Accelerators) -> None:
        self.kinds = KINDS | {"UnqueuedPod"} if settings.discount_unqueued else KINDS
        self.changes = 0
        """Grows with every event."""

        self.settings = settings
        self.accelerators = accelerators
        self.trees = QuotaTrees()
        self._floors = Floors(settings, accelerators)
        self._hardware = Hardware(settings, accelerators)

    def changed(self, kind: str, before: Fact | None, after: Fact | None) -> None:
        self.changes += 1
        match after if after is not None else before:
            case NodeFact() as node:
                if after is None:
                    self._hardware.remove_node(node.name)
                else:
                    self._hardware.put_node(node)
            case ResourceFlavorFact() as flavor:
                if after is None:
                    self._hardware.remove_flavor(flavor.name)
                else:
                    self._hardware.put_flavor(flavor)
            case ClusterQueueFact() | CohortFact() as quota:
                if after is None:
                    self._floors.remove(kind, quota.name)
                    self.trees.remove(kind, quota.name)
                else:
                    self._floors.put(kind, quota)
                    self.trees.put(kind, quota)
            case AdmissionCheckFact() as check:
                if after is None:
                    self._floors.remove_check(check.name)
                else:
                    self._floors.put_check(check)
            case UnqueuedPodFact():
                if isinstance(before, UnqueuedPodFact):
                    self._hardware.remove_pod(before)
                if isinstance(after, UnqueuedPodFact):
                    self._hardware.put_pod(after)

    @property
    def now(self) -> View:
        """Things as they are."""
        return View(self._floors, self._hardware, self.settings)

    def with_change(self, kind: str, name: str, fact: Change) -> View:
        """Things as a write would make them; nothing that is kept changes."""
        return self.now.with_change(kind, name, fact)

    def raised(self, kind: str, before: Change, after: Change) -> dict[FlavorResource, int]:
        """The floors that a write raises, as they are after it: billionths, as counted, by (flavor, resource)."""
        old, new = self._counted(kind, before), self._counted(kind, after)
        return {key: amount for key, amount in new.items() if amount > old.get(key, 0)}

    def uncounted(self, kind: str, before: Change, after: Change) -> list[Contribution]:
        """The floors that a write raises and that the nodes here say nothing about."""
        old, new = self._written(kind, before), self._written(kind, after)
        return [
            floor
            for key, floor in sorted(new.items())
            if floor.uncounted and (key not in old or floor.amount > old[key].amount)
        ]

    def _written(self, kind: str, fact: Change) -> Written:
        return self._floors.written_in(kind, fact) if isinstance(fact, ClusterQueueFact | CohortFact) else {}

    def _counted(self, kind: str, fact: Change) -> dict[FlavorResource, int]:
        return {key: floor.amount for key, floor in self._written(kind, fact).items() if not floor.uncounted}

    def guaranteed(self, resource: str) -> int:
        """What all floors of a resource come to, over all flavors."""
        return self._floors.total(resource)

    def assess(self, resource: str, flavors: Iterable[str]) -> Assessment:
        return self.now.assess(resource, flavors)

    def potential(self, queue: str, flavor: str, resource: str) -> int | None:
        """As QuotaTrees.potential."""
        return self.trees.potential(queue, flavor, resource)

    def keys(self) -> set[FlavorResource]:
        """Every flavor and accelerator with a floor, with hardware or with declared capacity, ignored flavors aside."""
        found = self._floors.keys()
        for group in self._hardware.grouping.classes.values():
            found |= {(flavor, resource) for flavor in group.flavors for resource in group.offer.hardware}
        for flavor, amounts in self.settings.declared.items():
            found |= {(flavor, resource) for resource in amounts if self.accelerators.covers(resource)}
        return {key for key in found if key[0] not in self.settings.ignore_flavors}

    def offered(self) -> frozenset[str]:
        """The extended resources that some node lists, accelerators or not, at whatever amount.

        An amount of 0 counts: a node lists nvidia.com/gpu so in MIG's mixed strategy, or when its device plugin fails.
        """
        return frozenset(resource for resource, nodes in self._hardware.listed.items() if nodes)


def balance_of(snapshot: Snapshot, settings: Settings, accelerators: Accelerators) -> Balance:
    """The one balance of a snapshot, made at the first call and whenever the policy changed; it then reads everything.

    A door asks for it at the start and after a reload, so that no decision has to wait for that.
    """
    snapshot = snapshot.origin
    for observer in snapshot.observers:
        if isinstance(observer, Balance):
            if observer.settings == settings and observer.accelerators == accelerators:
                return observer
            snapshot.leave(observer)
    balance = Balance(settings, accelerators)
    snapshot.observe(balance)
    return balance
