"""Floors and hardware side by side, as they are or as a write would make them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from webhook.capacity.assessment import Assessment, Cut, Part
from webhook.capacity.floors import Contribution, Floors, FloorSums, FloorsWith, Source, Written
from webhook.capacity.flow import Shares, Supply, share_out
from webhook.capacity.hardware import Grouping, Hardware, NodeClass
from webhook.capacity.settings import Settings
from webhook.kube.node_facts import ResourceFlavorFact
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorResource
from webhook.kube.reservation import Reservation

NO_NODE = "Node: none known"

Change = ClusterQueueFact | CohortFact | ResourceFlavorFact | None


@dataclass(slots=True)
class _Offered:
    """What some flavors are offered: for people and for the flow, in one order."""

    parts: list[Part] = field(default_factory=list)
    supplies: list[Supply] = field(default_factory=list)
    total: int = 0

    def add(self, part: Part, takers: frozenset[str]) -> None:
        self.parts.append(part)
        self.supplies.append(Supply(takers, part.amount))
        self.total += part.amount


class View:
    """For one decision: it reads the kept sums where they are, and what it says holds until the next event."""

    def __init__(self, floors: Floors, hardware: Hardware, settings: Settings) -> None:
        self._kept_floors = floors
        self._kept_hardware = hardware
        self._settings = settings
        self._written: dict[Source, Written] = {}
        self._flavor_changes: dict[str, ResourceFlavorFact | None] = {}
        self._floors: FloorSums = floors
        self._regrouped: Grouping | None = None
        self.touched: frozenset[FlavorResource] = frozenset()
        """(flavor, resource) of which the changes alter a floor, or the nodes."""

    def with_change(self, kind: str, name: str, fact: Change) -> View:
        """As if this ClusterQueue, Cohort or ResourceFlavor were written so or, with None, were gone."""
        return self.with_changes([(kind, name, fact)])

    def with_changes(self, changes: Iterable[tuple[str, str, Change]], reserved: Iterable[Reservation] = ()) -> View:
        """As with_change, of many at once. After the changes, what is reserved and not written yet counts as well."""
        view = View(self._kept_floors, self._kept_hardware, self._settings)
        view._written = dict(self._written)
        view._flavor_changes = dict(self._flavor_changes)
        for kind, name, fact in changes:
            if kind == "ResourceFlavor":
                assert fact is None or isinstance(fact, ResourceFlavorFact)
                view._flavor_changes[name] = fact
            else:
                assert fact is None or isinstance(fact, ClusterQueueFact | CohortFact)
                written = {} if fact is None else self._kept_floors.written_in(kind, fact)
                if written == self._kept_floors.written((kind, name)):
                    # The state before an UPDATE, mostly: the kept sums answer quicker without a layer over them.
                    view._written.pop((kind, name), None)
                else:
                    view._written[kind, name] = written
        for each in reserved:
            if each.labels is not None:
                view._flavor_changes[each.name] = ResourceFlavorFact(each.name, each.labels)
            else:
                source = each.kind, each.name
                view._written[source] = _with_reserved(
                    view._written.get(source, self._kept_floors.written(source)), each
                )
        if view._flavor_changes == self._flavor_changes:
            view._regrouped = self._regrouped
        else:
            view._regrouped = self._kept_hardware.grouped_with(view._flavor_changes)
        view._floors = FloorsWith(self._kept_floors, view._written) if view._written else self._kept_floors
        view.touched = frozenset(view._touched())
        return view

    def _touched(self) -> Iterable[FlavorResource]:
        for source, after in self._written.items():
            before = self._kept_floors.written(source)
            yield from (key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        for name, fact in self._flavor_changes.items():
            kept = self._kept_hardware.flavors.get(name)
            if (fact and fact.labels) != (kept and kept.labels):
                yield from ((name, resource) for resource in self._floors.resources(name))

    # Single numbers, in billionths

    @property
    def _grouping(self) -> Grouping:
        return self._kept_hardware.grouping if self._regrouped is None else self._regrouped

    def floors(self, flavor: str, resource: str) -> int:
        return self._floors.amount(flavor, resource)

    def contributions(self, flavor: str, resource: str) -> list[Contribution]:
        return self._floors.contributions(flavor, resource)

    def uncounted(self, flavor: str, resource: str) -> list[Contribution]:
        return self._floors.uncounted(flavor, resource)

    def hardware(self, flavor: str, resource: str) -> int:
        return self._of_flavor(flavor, resource, usable=False)

    def usable(self, flavor: str, resource: str) -> int:
        return self._of_flavor(flavor, resource, usable=True)

    def _of_flavor(self, flavor: str, resource: str, usable: bool) -> int:
        on_nodes = sum(_amount(group, resource, usable) for group in self._grouping.of(flavor))
        return on_nodes + self._yet_to_come(flavor, resource)

    def _yet_to_come(self, flavor: str, resource: str) -> int:
        """What is declared beyond the hardware that is there. It makes up for no node that is there and away."""
        declared = self._settings.declared.get(flavor, {}).get(resource, 0)
        if not declared:
            return 0
        return max(0, declared - sum(_amount(group, resource, usable=False) for group in self._grouping.of(flavor)))

    def unknown(self, flavor: str, resource: str) -> str:
        """Why nothing can be said about a flavor's hardware, '' if something can."""
        if resource in self._settings.declared.get(flavor, ()):
            return ""
        known = self._flavor_changes.get(flavor, self._kept_hardware.flavors.get(flavor))
        if known is None:
            return f'ResourceFlavor "{flavor}" does not exist yet'
        return "" if self._kept_hardware.nodes else NO_NODE

    # Flavors together

    def component(self, resource: str, flavors: Iterable[str], other: View | None = None) -> frozenset[str]:
        """These flavors, and those that compete with them: flavors with floors, joined by the nodes that they share.

        A flavor without floors takes nothing from anybody, so nothing is joined by way of it. One with floors in the
        `other` view has floors here too: they may move from one flavor of some nodes to another.
        """
        sums = (self._floors,) if other is None else (self._floors, other._floors)

        def claims(flavor: str) -> bool:
            return any(each.amount(flavor, resource) > 0 for each in sums)

        found = {flavor for flavor in flavors if flavor not in self._settings.ignore_flavors}
        queue = [flavor for flavor in found if claims(flavor)]
        while queue:
            for group in self._grouping.of(queue.pop()):
                if resource in group.offer.hardware:
                    for other_flavor in group.flavors:
                        if other_flavor not in found and claims(other_flavor):
                            found.add(other_flavor)
                            queue.append(other_flavor)
        return frozenset(found)

    def neighbours(self, flavor: str) -> frozenset[str]:
        """A flavor, and all that some of its nodes match as well, with floors or without."""
        return frozenset({flavor}).union(*(group.flavors for group in self._grouping.of(flavor)))

    def assess(self, resource: str, flavors: Iterable[str], about: Iterable[str] | None = None) -> Assessment:
        """The component of these flavors; no node is visited. The cut is about the flavors or, if given, `about`."""
        flavors = frozenset(flavors)
        component = self.component(resource, flavors)
        return self.assess_together(resource, component, flavors if about is None else about)

    def assess_together(self, resource: str, component: Iterable[str], about: Iterable[str] = ()) -> Assessment:
        """Flavors that are whole components. The cut is about some of them; about none there is no cut."""
        component, asked = sorted(component), frozenset(about)
        unknown = {flavor: reason for flavor in component if (reason := self.unknown(flavor, resource))}
        known = tuple(flavor for flavor in component if flavor not in unknown)
        demands = {flavor: self._floors.amount(flavor, resource) for flavor in known}
        groups = list({id(group): group for flavor in known for group in self._grouping.of(flavor)}.values())
        hardware = self._offered(resource, known, groups, usable=False)
        usable = self._offered(resource, known, groups, usable=True)
        on_hardware = share_out(demands, hardware.supplies)
        on_usable = on_hardware if usable.supplies == hardware.supplies else share_out(demands, usable.supplies)
        cut = None
        # Nobody asks where a state that is only compared with falls short, and the floors of a cut may be hundreds.
        if asked:
            if on_hardware.unmet:
                cut = self._cut(resource, demands, on_hardware, hardware, asked, usable=False)
            elif on_usable.unmet:
                cut = self._cut(resource, demands, on_usable, usable, asked, usable=True)
        return Assessment(
            resource,
            known,
            hardware.total,
            usable.total,
            sum(demands.values()),
            on_hardware.unmet,
            on_usable.unmet,
            cut,
            unknown,
            tuple(floor for flavor in component for floor in self._floors.uncounted(flavor, resource)),
        )

    def arithmetic(self, resource: str, flavors: Iterable[str]) -> Cut:
        """All floors of these flavors beside all of their hardware, for the words about floors that fit."""
        names = tuple(sorted(flavors))
        groups = list({id(group): group for flavor in names for group in self._grouping.of(flavor)}.values())
        offered = self._offered(resource, names, groups, usable=False)
        return Cut(
            resource,
            names,
            sum(self._floors.amount(flavor, resource) for flavor in names),
            offered.total,
            False,
            tuple(floor for flavor in names for floor in self._floors.contributions(flavor, resource)),
            tuple(sorted(offered.parts, key=lambda part: (part.flavors, part.declared))),
        )

    def _offered(self, resource: str, flavors: tuple[str, ...], groups: Iterable[NodeClass], usable: bool) -> _Offered:
        """What declared capacity adds to the nodes of a flavor is a supply of its own, which no other draws on."""
        offered = _Offered()
        for group in groups:
            amount = _amount(group, resource, usable)
            if amount:
                nodes = (group.offer.usable_nodes if usable else group.offer.nodes)[resource]
                offered.add(Part(group.names, amount, nodes), group.flavors)
        for flavor in flavors:
            more = self._yet_to_come(flavor, resource)
            if more:
                offered.add(Part((flavor,), more, declared=True), frozenset({flavor}))
        return offered

    def _cut(
        self,
        resource: str,
        demands: Mapping[str, int],
        shares: Shares,
        offered: _Offered,
        asked: frozenset[str],
        usable: bool,
    ) -> Cut:
        flavors, indexes = _together(shares, offered, asked)
        return Cut(
            resource,
            tuple(sorted(flavors)),
            sum(demands[flavor] for flavor in flavors),
            sum(offered.parts[index].amount for index in indexes),
            usable,
            tuple(floor for flavor in sorted(flavors) for floor in self._floors.contributions(flavor, resource)),
            tuple(sorted((offered.parts[index] for index in indexes), key=lambda part: (part.flavors, part.declared))),
        )


def _with_reserved(written: Written, reservation: Reservation) -> Written:
    """The larger of what is written and what is reserved, for each flavor and resource."""
    found = dict(written)
    for key, amount in reservation.floors.items():
        floor = found.get(key)
        if floor is None or floor.uncounted or floor.amount < amount:
            until = reservation.until
            found[key] = Contribution(reservation.kind, reservation.name, *key, amount, reserved_until=until)
    return found


def _amount(group: NodeClass, resource: str, usable: bool) -> int:
    return (group.offer.usable if usable else group.offer.hardware).get(resource, 0)


def _together(shares: Shares, offered: _Offered, asked: frozenset[str]) -> tuple[frozenset[str], list[int]]:
    """The pieces of a cut that hang together by a supply, and of these the ones that were asked about, if any were."""
    pieces: list[tuple[frozenset[str], list[int]]] = [(frozenset({flavor}), []) for flavor in sorted(shares.short)]
    for index in sorted(shares.drained):
        joined = [piece for piece in pieces if piece[0] & offered.supplies[index].takers]
        pieces = [piece for piece in pieces if piece not in joined]
        flavors = frozenset().union(*(piece[0] for piece in joined))
        pieces.append((flavors, [*(each for piece in joined for each in piece[1]), index]))
    wanted = [piece for piece in pieces if piece[0] & asked] or pieces
    return frozenset().union(*(piece[0] for piece in wanted)), [index for piece in wanted for index in piece[1]]
