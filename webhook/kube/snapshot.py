"""The state of the cluster, as facts, that one decision is taken against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from webhook.kube.facts import (
    PROJECTIONS,
    ClusterQueueFact,
    Fact,
    LocalQueueFact,
    NamespaceFact,
    ResourceQuotaFact,
    WorkloadFact,
)

_F = TypeVar("_F", bound=Fact)

_CLUSTER = ""
"""The namespace under which cluster-scoped facts are kept."""


class FactsMissing(LookupError):
    """A rule asked for a kind that nobody could read: it is not evaluated, which is neither pass nor fail."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class Snapshot:
    """Facts by kind, namespace and name, and which kinds are known at all.

    An empty kind and an unknown kind are different answers: reading an unknown one raises FactsMissing. Sources write
    with `replace`, `put` and `remove`, between decisions and from the thread that decides; a decision only reads.
    """

    def __init__(self, unknown: str = "not read yet") -> None:
        self._facts: dict[str, dict[str, dict[str, Fact]]] = {kind: {} for kind in PROJECTIONS}
        self._unknown: dict[str, str] = dict.fromkeys(PROJECTIONS, unknown)

    # Reading

    def namespace(self, name: str) -> NamespaceFact | None:
        return self._named("Namespace", _CLUSTER, name, NamespaceFact)

    def cluster_queue(self, name: str) -> ClusterQueueFact | None:
        return self._named("ClusterQueue", _CLUSTER, name, ClusterQueueFact)

    def local_queue(self, namespace: str, name: str) -> LocalQueueFact | None:
        return self._named("LocalQueue", namespace, name, LocalQueueFact)

    def local_queues(self, namespace: str) -> list[str]:
        """The names of a namespace's LocalQueues, sorted."""
        return sorted(self._known("LocalQueue").get(namespace, ()))

    def resource_quotas(self, namespace: str) -> list[ResourceQuotaFact]:
        found = self._known("ResourceQuota").get(namespace, {})
        return [fact for _, fact in sorted(found.items()) if isinstance(fact, ResourceQuotaFact)]

    def workloads(self, namespace: str, *kinds: str) -> list[WorkloadFact]:
        """The workloads of these kinds in a namespace, kind by kind, sorted by name."""
        return [
            fact
            for kind in kinds
            for _, fact in sorted(self._known(kind).get(namespace, {}).items())
            if isinstance(fact, WorkloadFact)
        ]

    def unknown(self) -> Mapping[str, str]:
        """Kinds that are not known, each with the reason."""
        return self._unknown

    def _known(self, kind: str) -> dict[str, dict[str, Fact]]:
        reason = self._unknown.get(kind)
        if reason is not None:
            raise FactsMissing(kind, reason)
        return self._facts[kind]

    def _named(self, kind: str, namespace: str, name: str, of: type[_F]) -> _F | None:
        fact = self._known(kind).get(namespace, {}).get(name)
        return fact if isinstance(fact, of) else None

    # Writing

    def replace(self, kind: str, facts: Iterable[Fact]) -> None:
        """All facts of a kind at once, after a list: what is not among them is gone. The kind is known from here on."""
        table: dict[str, dict[str, Fact]] = {}
        for fact in facts:
            table.setdefault(_namespace_of(fact), {})[fact.name] = fact
        self._facts[kind] = table
        self._unknown.pop(kind, None)

    def replace_namespace(self, kind: str, namespace: str, facts: Iterable[Fact]) -> None:
        """All facts of a kind in one namespace."""
        self._facts[kind][namespace] = {fact.name: fact for fact in facts}

    def put(self, kind: str, fact: Fact) -> bool:
        """One fact, new or changed; whether it changed anything."""
        names = self._facts[kind].setdefault(_namespace_of(fact), {})
        if names.get(fact.name) == fact:
            return False
        names[fact.name] = fact
        return True

    def remove(self, kind: str, namespace: str, name: str) -> None:
        names = self._facts[kind].get(namespace, {})
        names.pop(name, None)
        if not names:
            self._facts[kind].pop(namespace, None)

    def forget(self, kind: str, reason: str) -> None:
        """A kind that cannot be read any more, and why."""
        self._facts[kind] = {}
        self._unknown[kind] = reason


def _namespace_of(fact: Fact) -> str:
    return _CLUSTER if isinstance(fact, NamespaceFact | ClusterQueueFact) else fact.namespace
