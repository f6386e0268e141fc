"""What a floor lends: the free part of it that other queues use, as far as it can be known.

Kueue lends out of a Cohort as a whole and keeps no account of whose quota went to whom. What it does keep (Kueue 0.17,
pkg/cache/scheduler/resource_node.go) bounds it: a member first uses its own quota, then its Cohort's, and only what a
whole Cohort uses beyond its own comes from the Cohort above. So of each member there is a least and a most, and they
are one number where only one member has anything to lend.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorResource, counted

Member = tuple[str, str]
"""Kind (ClusterQueue or Cohort) and name."""


@dataclass(frozen=True, slots=True)
class Lent:
    least: int
    most: int


@dataclass(slots=True)
class Place:
    """A member of a tree of Cohorts. All in billionths, of one resource in one flavor."""

    member: Member
    own: int
    """Its nominalQuota."""

    lending: int | None
    """Its lendingLimit, None without one."""

    under: list[Place] = field(default_factory=list)
    quota: int = 0
    """Its own, and what its members do not keep for themselves."""

    used: int = 0
    free: int = 0
    """What others can use of it now."""

    @property
    def kept(self) -> int:
        """What a lendingLimit keeps from others."""
        return 0 if self.lending is None else max(0, self.quota - self.lending)

    @property
    def borrowed(self) -> int:
        """What it, or its members together, use beyond their quota: it comes from the Cohort above."""
        return max(0, self.used - self.quota)


class Trees:
    """The trees of Cohorts, with what is used in them, for one resource in one flavor."""

    def __init__(
        self,
        key: FlavorResource,
        queues: Iterable[ClusterQueueFact],
        cohorts: Iterable[CohortFact],
        used: Mapping[str, int | None],
    ) -> None:
        """`used` is by ClusterQueue, in billionths; None where it is not known: then nothing is known of its tree."""
        self._places: dict[Member, Place] = {}
        self._parents: dict[Member, str] = {}
        self._lent: dict[Member, Lent] = {}
        self._given: dict[Member, Lent] = {}
        facts: list[ClusterQueueFact | CohortFact] = [*queues, *cohorts]
        for fact in facts:
            nominal, limit = fact.nominal.get(key, 0), fact.lending.get(key)
            member = "ClusterQueue" if isinstance(fact, ClusterQueueFact) else "Cohort", fact.name
            self._places[member] = Place(
                member, counted(key[1], nominal), None if limit is None else counted(key[1], limit)
            )
            self._parents[member] = fact.cohort if isinstance(fact, ClusterQueueFact) else fact.parent
        for parent in sorted(set(self._parents.values()) - {""}):
            # One that is only named, and that no object describes.
            self._places.setdefault(("Cohort", parent), Place(("Cohort", parent), 0, None))
        for member, parent in self._parents.items():
            if parent:
                self._places["Cohort", parent].under.append(self._places[member])
        for member, place in list(self._places.items()):
            if not self._parents.get(member):
                self._settle(place, used)

    def lent(self, member: Member) -> Lent | None:
        """What others use of the floor that is written in this member itself; of a Cohort, its members are others.

        None where it cannot be known: a queue whose status says nothing, or Cohorts that go round in a circle.
        """
        return self._given.get(member)

    def place(self, member: Member) -> Place | None:
        """None as for `lent`."""
        return self._places.get(member) if member in self._lent else None

    def above(self, member: Member) -> str:
        """The Cohort that it is in, '' for none."""
        return self._parents.get(member, "")

    def _settle(self, root: Place, used: Mapping[str, int | None]) -> None:
        # Not by recursion: nothing bounds how deep Cohorts nest.
        order, stack = [], [root]
        while stack:
            place = stack.pop()
            order.append(place)
            stack += place.under
        if any(place.member[0] == "ClusterQueue" and used.get(place.member[1]) is None for place in order):
            return
        for place in reversed(order):
            kind, name = place.member
            place.quota = place.own + sum(each.quota - each.kept for each in place.under)
            own = (used[name] or 0) if kind == "ClusterQueue" else 0
            place.used = own + sum(max(0, each.used - each.kept) for each in place.under)
            place.free = max(0, place.quota - max(place.used, place.kept)) if place is not root else 0
        self._lent[root.member] = Lent(0, 0)
        for place in order:
            self._share(place, self._lent[place.member])

    def _share(self, place: Place, lent: Lent) -> None:
        """Tells the members of a Cohort, of which `lent` leaves it, what they lend."""
        offered = place.own + sum(each.free for each in place.under)
        taken = sum(each.borrowed for each in place.under) - place.borrowed
        for each in place.under:
            self._lent[each.member] = _part(each.free, offered, taken, lent)
        own = place.own if place.member[0] == "Cohort" else None
        self._given[place.member] = lent if own is None else _part(own, offered, taken, lent)


def _part(free: int, offered: int, taken: int, lent: Lent) -> Lent:
    """What of one part of all that is offered is taken, by members and by those that the Cohort lends to."""
    return Lent(max(0, taken + lent.least - (offered - free)), min(free, taken + lent.most))
