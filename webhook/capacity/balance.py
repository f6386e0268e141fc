"""The balance of floors and hardware, kept current by the events of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.capacity.assessment import Assessment
from webhook.capacity.floors import Floors
from webhook.capacity.hardware import Hardware
from webhook.capacity.potential import QuotaTrees
from webhook.capacity.settings import Settings
from webhook.capacity.view import Change, View
from webhook.kube.accelerators import Accelerators
from webhook.kube.facts import Fact
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact
from webhook.kube.quota_facts import AdmissionCheckFact, ClusterQueueFact, CohortFact
from webhook.kube.snapshot import Snapshot

KINDS = frozenset({"Node", "ResourceFlavor", "ClusterQueue", "Cohort", "AdmissionCheck"})


class Balance:
    """Knows at any moment whether the floors fit. An event costs the same whatever the number of nodes and queues.

    It is told of kinds that are not known as of kinds without objects: a rule that needs them asks the snapshot.
    """

    kinds = KINDS

    def __init__(self, settings: Settings, accelerators: Accelerators) -> None:
        self.settings = settings
        self.accelerators = accelerators
        self.trees = QuotaTrees()
        self._floors = Floors(settings, accelerators)
        self._hardware = Hardware(settings, accelerators)

    def changed(self, kind: str, before: Fact | None, after: Fact | None) -> None:
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

    @property
    def now(self) -> View:
        """Things as they are."""
        return View(self._floors, self._hardware, self.settings)

    def with_change(self, kind: str, name: str, fact: Change) -> View:
        """Things as a write would make them; nothing that is kept changes."""
        return self.now.with_change(kind, name, fact)

    def assess(self, resource: str, flavors: Iterable[str]) -> Assessment:
        return self.now.assess(resource, flavors)

    def potential(self, queue: str, flavor: str, resource: str) -> int | None:
        """As QuotaTrees.potential."""
        return self.trees.potential(queue, flavor, resource)

    def offered(self) -> frozenset[str]:
        """The accelerators that some node offers."""
        classes = self._hardware.grouping.classes.values()
        return frozenset(resource for group in classes for resource in group.offer.hardware)


def balance_of(snapshot: Snapshot, settings: Settings, accelerators: Accelerators) -> Balance:
    """The one balance of a snapshot, made at the first call and whenever the policy changed; it then reads everything.

    A door asks for it at the start and after a reload, so that no decision has to wait for that.
    """
    for observer in snapshot.observers:
        if isinstance(observer, Balance):
            if observer.settings == settings and observer.accelerators == accelerators:
                return observer
            snapshot.leave(observer)
    balance = Balance(settings, accelerators)
    snapshot.observe(balance)
    return balance
