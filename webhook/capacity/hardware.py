"""What the nodes offer, by the flavors that they match.

Nodes are grouped twice. A *cell* is all nodes that have the same values of the label keys which flavors name; a *node
class* is all cells that match the same flavors. So a node's event touches one cell and one class, a flavor's event
looks at each cell once, and only a flavor that names a new label key makes each node be looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from webhook.capacity.settings import Settings
from webhook.kube.accelerators import Accelerators
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact
from webhook.kube.unqueued_pods import UnqueuedPodFact

_Values = tuple[str | None, ...]
_NOTHING: Mapping[str, int] = {}


@dataclass(slots=True)
class Offer:
    """What some nodes offer, by accelerator resource; a resource that none of them offers is absent.

    `hardware` sums the larger of capacity and allocatable, for a device plugin that fails takes the one or the other
    away while the cards are still there. `usable` sums allocatable, of the nodes that may be used now, less what pods
    outside of any queue hold, if the policy says so. `nodes` and `usable_nodes` count the nodes of each sum.
    """

    hardware: dict[str, int] = field(default_factory=dict)
    usable: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    usable_nodes: dict[str, int] = field(default_factory=dict)

    def add(self, other: Offer, sign: int = 1) -> None:
        for mine, theirs in (
            (self.hardware, other.hardware),
            (self.usable, other.usable),
            (self.nodes, other.nodes),
            (self.usable_nodes, other.usable_nodes),
        ):
            for resource, amount in theirs.items():
                total = mine.get(resource, 0) + sign * amount
                if total:
                    mine[resource] = total
                else:
                    mine.pop(resource, None)


@dataclass(slots=True)
class _Cell:
    labels: Mapping[str, str]
    flavors: frozenset[str]
    offer: Offer = field(default_factory=Offer)
    size: int = 0


@dataclass(slots=True)
class NodeClass:
    """All nodes that match exactly these flavors."""

    flavors: frozenset[str]
    names: tuple[str, ...]
    """The flavors, sorted."""

    offer: Offer = field(default_factory=Offer)
    size: int = 0


class Grouping:
    """Node classes, and those of each flavor. A decision only reads."""

    def __init__(self, cells: Iterable[_Cell] = ()) -> None:
        self.classes: dict[frozenset[str], NodeClass] = {}
        self._of: dict[str, list[NodeClass]] = {}
        for cell in cells:
            self.class_of(cell.flavors).offer.add(cell.offer)
            self.class_of(cell.flavors).size += cell.size

    def of(self, flavor: str) -> list[NodeClass]:
        """The classes of a flavor's nodes."""
        return self._of.get(flavor, [])

    def class_of(self, flavors: frozenset[str]) -> NodeClass:
        found = self.classes.get(flavors)
        if found is None:
            found = self.classes[flavors] = NodeClass(flavors, tuple(sorted(flavors)))
            for flavor in flavors:
                self._of.setdefault(flavor, []).append(found)
        return found

    def drop(self, flavors: frozenset[str]) -> None:
        gone = self.classes.pop(flavors)
        for flavor in flavors:
            self._of[flavor].remove(gone)


class Hardware:
    """Nodes and flavors, with their sums kept up to date by event.

    Nodes that offer no accelerator are known and belong to no class, and neither do those that the policy gives to the
    other scheduler: Volcano's or, `for_volcano`, Kueue's.
    """

    def __init__(self, settings: Settings, accelerators: Accelerators, for_volcano: bool = False) -> None:
        self.grouping = Grouping()
        self.flavors: dict[str, ResourceFlavorFact] = {}
        self.nodes: dict[str, NodeFact] = {}
        self.listed: Counter[str] = Counter()
        """How many nodes list an extended resource, at whatever amount; 0 for one that none lists any more."""

        self._settings = settings
        self._accelerators = accelerators
        self._for_volcano = for_volcano
        self._taints = frozenset(settings.unusable_taints)
        self._keys: tuple[str, ...] = ()
        self._cells: dict[_Values, _Cell] = {}
        self._held: dict[str, Counter[str]] = {}
        """What pods outside of any queue hold, by node, whether or not the node is known."""

    def put_node(self, node: NodeFact) -> None:
        before = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if before is not None:
            self._count(before, -1)
        self._count(node, 1)

    def remove_node(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is not None:
            self._count(node, -1)

    def put_pod(self, pod: UnqueuedPodFact) -> None:
        self._hold(pod, 1)

    def remove_pod(self, pod: UnqueuedPodFact) -> None:
        """`pod` as it was put."""
        self._hold(pod, -1)

    def _hold(self, pod: UnqueuedPodFact, sign: int) -> None:
        node = self.nodes.get(pod.node)
        if node is not None:
            self._count(node, -1)
        held = self._held.setdefault(pod.node, Counter())
        for resource, amount in pod.requests.items():
            held[resource] += sign * amount
        if not any(held.values()):
            del self._held[pod.node]
        if node is not None:
            self._count(node, 1)

    def put_flavor(self, flavor: ResourceFlavorFact) -> None:
        self._change_flavors({**self.flavors, flavor.name: flavor})

    def remove_flavor(self, name: str) -> None:
        self._change_flavors({other: flavor for other, flavor in self.flavors.items() if other != name})

    def grouped_with(self, changes: Mapping[str, ResourceFlavorFact | None]) -> Grouping:
        """The classes that there would be if these flavors were so, or (None) were not."""
        flavors = {name: fact for name, fact in {**self.flavors, **changes}.items() if fact is not None}
        keys = _keys_of(flavors.values())
        if not set(keys) <= set(self._keys):
            return Grouping(self._cells_of(keys, flavors).values())
        return Grouping(
            _Cell(cell.labels, _matched(flavors, changes.keys(), cell), cell.offer, cell.size)
            for cell in self._cells.values()
        )

    def _change_flavors(self, flavors: dict[str, ResourceFlavorFact]) -> None:
        changed = {name for name in flavors.keys() | self.flavors.keys() if flavors.get(name) != self.flavors.get(name)}
        self.flavors = flavors
        keys = _keys_of(flavors.values())
        if keys != self._keys:
            self._keys = keys
            self._cells = self._cells_of(keys, flavors)
        else:
            for cell in self._cells.values():
                cell.flavors = _matched(flavors, changed, cell)
        self.grouping = Grouping(self._cells.values())

    def _cells_of(self, keys: tuple[str, ...], flavors: Mapping[str, ResourceFlavorFact]) -> dict[_Values, _Cell]:
        """Every node is looked at."""
        cells: dict[_Values, _Cell] = {}
        for node in self.nodes.values():
            offer = self._offer(node)
            if offer is not None:
                values = tuple(map(node.labels.get, keys))
                cell = cells.get(values)
                if cell is None:
                    cell = cells[values] = _cell(keys, values, flavors)
                cell.offer.add(offer)
                cell.size += 1
        return cells

    def _count(self, node: NodeFact, sign: int) -> None:
        for resource in _resources(node):
            self.listed[resource] += sign
        offer = self._offer(node)
        if offer is None:
            return
        values = tuple(map(node.labels.get, self._keys))
        cell = self._cells.get(values)
        if cell is None:
            cell = self._cells[values] = _cell(self._keys, values, self.flavors)
        group = self.grouping.class_of(cell.flavors)
        for each in (cell, group):
            each.offer.add(offer, sign)
            each.size += sign
        if not cell.size:
            del self._cells[values]
        if not group.size:
            self.grouping.drop(group.flavors)

    def _offer(self, node: NodeFact) -> Offer | None:
        """What one node offers; None without accelerators, or if it is not for us."""
        volcano_nodes = self._settings.volcano_nodes
        if volcano_nodes is not None and volcano_nodes.matches(node.labels) is not self._for_volcano:
            return None
        offer = Offer()
        usable = self._usable(node)
        held = self._held.get(node.name, _NOTHING)
        for resource in _resources(node):
            if self._accelerators.covers(resource):
                allocatable = node.allocatable.get(resource, 0)
                hardware = max(node.capacity.get(resource, 0), allocatable)
                if hardware > 0:
                    offer.hardware[resource] = hardware
                    offer.nodes[resource] = 1
                    free = allocatable - held.get(resource, 0)
                    if usable and free > 0:
                        offer.usable[resource] = free
                        offer.usable_nodes[resource] = 1
        return offer if offer.hardware else None

    def _usable(self, node: NodeFact) -> bool:
        return (
            node.ready
            and not node.cordoned
            and self._taints.isdisjoint(node.taints)
            and not any(node.labels.get(key) == value for key, value in self._settings.unusable_labels.items())
        )


def _resources(node: NodeFact) -> Iterator[str]:
    yield from node.capacity
    for resource in node.allocatable:
        if resource not in node.capacity:
            yield resource


def _keys_of(flavors: Iterable[ResourceFlavorFact]) -> tuple[str, ...]:
    return tuple(sorted({key for flavor in flavors for key in flavor.labels}))


def _cell(keys: tuple[str, ...], values: _Values, flavors: Mapping[str, ResourceFlavorFact]) -> _Cell:
    labels = {key: value for key, value in zip(keys, values, strict=True) if value is not None}
    return _Cell(labels, frozenset(name for name, flavor in flavors.items() if flavor.matches(labels)))


def _matched(flavors: Mapping[str, ResourceFlavorFact], changed: Iterable[str], cell: _Cell) -> frozenset[str]:
    """The flavors of a cell after some of them changed."""
    changed = frozenset(changed)
    return (cell.flavors - changed) | {
        name for name in changed if name in flavors and flavors[name].matches(cell.labels)
    }
