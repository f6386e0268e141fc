"""What a queue can ever get: its own quota, and what the tree of Cohorts can lend it when nobody else uses any.

Follows Kueue 0.17, pkg/cache/scheduler/resource_node.go (SubtreeQuota, localQuota, potentialAvailable), in billionths
rounded as Kueue rounds them.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorResource, counted

_Member = tuple[str, str]
"""Kind (ClusterQueue or Cohort) and name."""

_MOST_KEPT = 100_000


class QuotaTrees:
    """Every ClusterQueue and Cohort, in the trees that they form; kept up to date by event.

    A Cohort that is only named, and that no object describes, has no quota and no limits of its own.
    """

    def __init__(self) -> None:
        self._facts: dict[_Member, ClusterQueueFact | CohortFact] = {}
        self._members: dict[str, set[_Member]] = {}
        """Of each Cohort, described or only named: what is directly under it."""

        self._subtrees: dict[FlavorResource, dict[_Member, int]] = {}
        """Subtree quotas that were asked for and still hold."""

        self._potentials: dict[tuple[str, str, str], int | None] = {}
        """As `potential` answered, until some quota, limit or parent is another."""

        self.version = 0
        """Another one whenever some quota, limit or parent is."""

    # Writing

    def put(self, kind: str, fact: ClusterQueueFact | CohortFact) -> None:
        member = (kind, fact.name)
        before = self._facts.get(member)
        if before is not None and _same(before, fact):
            self._facts[member] = fact
            return
        self.version += 1
        self._potentials.clear()
        self._forget(member)
        self._detach(member)
        self._facts[member] = fact
        if _parent(fact):
            self._members.setdefault(_parent(fact), set()).add(member)
        self._forget(member)

    def remove(self, kind: str, name: str) -> None:
        member = (kind, name)
        self.version += 1
        self._potentials.clear()
        self._forget(member)
        self._detach(member)
        self._facts.pop(member, None)

    def _detach(self, member: _Member) -> None:
        parent = self._parent_of(member)
        if parent:
            members = self._members[parent]
            members.discard(member)
            if not members:
                del self._members[parent]

    def _forget(self, member: _Member) -> None:
        """Drops the subtree quotas that this member is in."""
        for each in self._upwards(member):
            for subtrees in self._subtrees.values():
                subtrees.pop(each, None)

    # Reading

    def members(self, cohort: str) -> frozenset[tuple[str, str]]:
        """Kind and name of what is directly under a Cohort."""
        return frozenset(self._members.get(cohort, ()))

    def broken(self, queue: str) -> bool:
        """Whether the parents of a queue's Cohort go round in a circle: Kueue then admits nothing to any member."""
        return self._chain("ClusterQueue", queue) is None

    def potential(self, queue: str, flavor: str, resource: str) -> int | None:
        """The most of a resource in a flavor that a ClusterQueue can ever have; None if its Cohorts are `broken`.

        A queue that is not known has 0. So has one that names the flavor nowhere in its tree; whether its groups list
        the flavor is another question.
        """
        asked = queue, flavor, resource
        if asked not in self._potentials:
            if len(self._potentials) >= _MOST_KEPT:
                self._potentials.clear()
            self._potentials[asked] = self._potential(queue, flavor, resource)
        return self._potentials[asked]

    def _potential(self, queue: str, flavor: str, resource: str) -> int | None:
        chain = self._chain("ClusterQueue", queue)
        if chain is None:
            return None
        key = (flavor, resource)
        available: int | None = None
        for member in reversed(chain):
            subtree = self._subtree(member, key)
            if available is None:
                available = subtree
                continue
            available += self._local(member, key, subtree)
            fact = self._facts.get(member)
            if fact is not None and key in fact.borrowing:
                available = min(available, subtree + counted(resource, fact.borrowing[key]))
        return available

    def _chain(self, kind: str, name: str) -> list[_Member] | None:
        """The member and its Cohorts up to the root, None if there is no root."""
        found = list(self._upwards((kind, name)))
        return None if self._parent_of(found[-1]) else found

    def _upwards(self, member: _Member) -> Iterator[_Member]:
        """The member and its Cohorts, each once."""
        seen = set()
        while member not in seen:
            seen.add(member)
            yield member
            parent = self._parent_of(member)
            if not parent:
                return
            member = ("Cohort", parent)

    def _parent_of(self, member: _Member) -> str:
        fact = self._facts.get(member)
        return "" if fact is None else _parent(fact)

    def _subtree(self, member: _Member, key: FlavorResource) -> int:
        """SubtreeQuota: the member's own nominalQuota, and what those under it do not keep for themselves."""
        known = self._subtrees.setdefault(key, {})
        if member in known:
            return known[member]
        # Not by recursion: nothing bounds how deep Cohorts nest. Only called where no circle is: below a root.
        stack = [member]
        while stack:
            each = stack[-1]
            under = self._members.get(each[1], ()) if each[0] == "Cohort" else ()
            missing = [child for child in under if child not in known]
            if missing:
                stack += missing
                continue
            fact = self._facts.get(each)
            own = counted(key[1], fact.nominal.get(key, 0)) if fact is not None else 0
            known[each] = own + sum(known[child] - self._local(child, key, known[child]) for child in under)
            stack.pop()
        return known[member]

    def _local(self, member: _Member, key: FlavorResource, subtree: int) -> int:
        """localQuota: what the lendingLimit keeps from the parent."""
        fact = self._facts.get(member)
        if fact is None or key not in fact.lending:
            return 0
        return max(0, subtree - counted(key[1], fact.lending[key]))


def _parent(fact: ClusterQueueFact | CohortFact) -> str:
    return fact.cohort if isinstance(fact, ClusterQueueFact) else fact.parent


def _same(before: ClusterQueueFact | CohortFact, after: ClusterQueueFact | CohortFact) -> bool:
    """Whether nothing changed that counts here, as when a status is written."""
    return (
        _parent(before) == _parent(after)
        and before.nominal == after.nominal
        and before.borrowing == after.borrowing
        and before.lending == after.lending
    )
