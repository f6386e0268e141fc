"""What a ClusterQueue can get as things stand, of its own and through the Cohorts above it.

Follows Kueue 0.17, pkg/cache/scheduler/resource_node.go (available).
"""

from __future__ import annotations

from collections.abc import Callable

from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorResource, counted
from webhook.kube.snapshot import Snapshot

_Node = ClusterQueueFact | CohortFact


class Available:
    """`held` says what a ClusterQueue has, in billionths. Raises FactsMissing without ClusterQueues or Cohorts."""

    def __init__(self, snapshot: Snapshot, held: Callable[[ClusterQueueFact, FlavorResource], int]) -> None:
        self._held = held
        self._cohorts = {fact.name: fact for fact in snapshot.cohorts()}
        self._under: dict[str, list[_Node]] = {}
        self._subtrees: dict[tuple[str, FlavorResource], int] = {}
        queues = list(snapshot.cluster_queues())
        # A Cohort need not be an object: a name is enough.
        for name in ({each.cohort for each in queues} | {each.parent for each in self._cohorts.values()}) - {""}:
            self._cohorts.setdefault(name, CohortFact(name))
        nodes: list[_Node] = [*queues, *self._cohorts.values()]
        for node in nodes:
            if _parent(node):
                self._under.setdefault(_parent(node), []).append(node)

    def of(self, queue: ClusterQueueFact, key: FlavorResource) -> int | None:
        """Billionths, 0 for none; None where its Cohorts go round in a circle, so that it admits nothing at all."""
        found: int | None = None
        for node in reversed(self._path(queue)):
            subtree, used = self._subtree(node, key), self._used(node, key)
            if found is None:
                found = subtree - used
                continue
            local = _local(node, key, subtree)
            if key in node.borrowing:
                most = subtree - local - max(used - local, 0) + counted(key[1], node.borrowing[key])
                found = min(found, most)
            found += max(local - used, 0)
        return None if found is None else max(found, 0)

    def _path(self, queue: ClusterQueueFact) -> list[_Node]:
        """The queue and the Cohorts above it; empty where these go round in a circle."""
        path: list[_Node] = [queue]
        while parent := _parent(path[-1]):
            above = self._cohorts[parent]
            if above in path:
                return []
            path.append(above)
        return path

    def _subtree(self, node: _Node, key: FlavorResource) -> int:
        """Its own quota, and what those under it do not keep for themselves."""
        own = counted(key[1], node.nominal.get(key, 0))
        if isinstance(node, ClusterQueueFact):
            return own
        if (node.name, key) not in self._subtrees:
            for child in self._under.get(node.name, ()):
                subtree = self._subtree(child, key)
                own += subtree - _local(child, key, subtree)
            self._subtrees[node.name, key] = own
        return self._subtrees[node.name, key]

    def _used(self, node: _Node, key: FlavorResource) -> int:
        """What is held, without what those under it hold of what they keep for themselves."""
        if isinstance(node, ClusterQueueFact):
            return self._held(node, key)
        return sum(
            max(self._used(child, key) - _local(child, key, self._subtree(child, key)), 0)
            for child in self._under.get(node.name, ())
        )


def _parent(node: _Node) -> str:
    return node.cohort if isinstance(node, ClusterQueueFact) else node.parent


def _local(node: _Node, key: FlavorResource, subtree: int) -> int:
    """What the lendingLimit keeps from the Cohort above."""
    return max(subtree - counted(key[1], node.lending[key]), 0) if key in node.lending else 0
