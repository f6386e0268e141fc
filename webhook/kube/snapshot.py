"""The state of the cluster, as facts, that one decision is taken against."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from webhook.kube.claims import ClaimFact, DeviceClassFact
from webhook.kube.facts import (
    PROJECTIONS,
    Fact,
    LocalQueueFact,
    NamespaceFact,
    ResourceQuotaFact,
)
from webhook.kube.kueue_facts import KueueConfigurationFact, WorkloadPriorityClassFact
from webhook.kube.names import KUEUE_NAMESPACES
from webhook.kube.node_facts import ResourceFlavorFact
from webhook.kube.pod_defaults import LimitRangeFact, RuntimeClassFact
from webhook.kube.quota_facts import AdmissionCheckFact, ClusterQueueFact, CohortFact
from webhook.kube.reservation import Reservation
from webhook.kube.volcano_facts import VolcanoQueueFact
from webhook.kube.workload_facts import WorkloadFact

_F = TypeVar("_F", bound=Fact)
_T = TypeVar("_T")

_NONE: Mapping[str, Any] = {}
_CLUSTER = ""
"""The namespace under which cluster-scoped facts are kept."""


class FactsMissing(LookupError):
    """A rule asked for a kind that nobody could read: it is not evaluated, which is neither pass nor fail."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class Observer(Protocol):
    """Keeps sums of facts up to date. Implemented by `webhook.capacity`, called by Snapshot."""

    kinds: frozenset[str]
    """The kinds that it hears of."""

    def changed(self, kind: str, before: Fact | None, after: Fact | None) -> None:
        """A fact is new (before is None), gone (after is None) or another than it was. Raises nothing."""


class Snapshot:
    """Facts by kind, namespace and name, and which kinds are known at all.

    An empty kind and an unknown kind are different answers: reading an unknown one raises FactsMissing. Sources write
    with `replace`, `put` and `remove`, between decisions and from the thread that decides; a decision only reads.
    """

    def __init__(self, unknown: str = "not read yet") -> None:
        self._facts: dict[str, dict[str, dict[str, Fact]]] = {kind: {} for kind in PROJECTIONS}
        self._unknown: dict[str, str] = dict.fromkeys(PROJECTIONS, unknown)
        self._observers: tuple[Observer, ...] = ()
        self._derived: dict[tuple[str, str], dict[Hashable, Any]] = {}
        self._configuration: KueueConfigurationFact | None = None
        self.origin = self
        """What the observers keep sums of: itself, but for a snapshot made by `overlaid`."""

        self.differences: tuple[tuple[str, str, Fact | None], ...] = ()
        """Kind, name and fact of what is otherwise here than in `origin`; None if it is gone."""

        self.reserved: tuple[Reservation, ...] = ()
        """Promises to writes that are not stored yet."""

    def overlaid(self, live: Mapping[str, Iterable[Fact]], reserved: Iterable[Reservation]) -> Snapshot:
        """This snapshot with all facts of some cluster-scoped kinds as they were just read, for one decision."""
        other = Snapshot()
        other.origin = self.origin
        other._facts = dict(self._facts)
        other._unknown = {kind: reason for kind, reason in self._unknown.items() if kind not in live}
        differences = []
        for kind, facts in live.items():
            before, after = self._facts[kind].get(_CLUSTER, {}), {fact.name: fact for fact in facts}
            other._facts[kind] = {_CLUSTER: after}
            differences += [
                (kind, name, after.get(name))
                for name in sorted(before.keys() | after.keys())
                if before.get(name) != after.get(name)
            ]
        other.differences = tuple(differences)
        other.reserved = tuple(reserved)
        return other

    # Reading

    def namespace(self, name: str) -> NamespaceFact | None:
        return self._named("Namespace", _CLUSTER, name, NamespaceFact)

    def cluster_queue(self, name: str) -> ClusterQueueFact | None:
        return self._named("ClusterQueue", _CLUSTER, name, ClusterQueueFact)

    def cluster_queues(self) -> list[ClusterQueueFact]:
        """All of them, sorted by name; so are the lists below."""
        return self._all("ClusterQueue", ClusterQueueFact)

    def cohort(self, name: str) -> CohortFact | None:
        """None also for a cohort that ClusterQueues name and no object describes, which Kueue takes for one."""
        return self._named("Cohort", _CLUSTER, name, CohortFact)

    def cohorts(self) -> list[CohortFact]:
        return self._all("Cohort", CohortFact)

    def flavor(self, name: str) -> ResourceFlavorFact | None:
        return self._named("ResourceFlavor", _CLUSTER, name, ResourceFlavorFact)

    def flavors(self) -> list[ResourceFlavorFact]:
        return self._all("ResourceFlavor", ResourceFlavorFact)

    def admission_check(self, name: str) -> AdmissionCheckFact | None:
        return self._named("AdmissionCheck", _CLUSTER, name, AdmissionCheckFact)

    def node_names(self) -> list[str]:
        return sorted(self._known("Node").get(_CLUSTER, ()))

    def facts(self, kind: str) -> Iterator[Fact]:
        """Every fact of a kind, in no order."""
        for names in self._known(kind).values():
            yield from names.values()

    def of_namespace(self, kind: str, namespace: str) -> Mapping[str, Fact]:
        """Every fact of a kind in a namespace, by name."""
        return self._known(kind).get(namespace, _NONE)

    def local_queue(self, namespace: str, name: str) -> LocalQueueFact | None:
        return self._named("LocalQueue", namespace, name, LocalQueueFact)

    def local_queues(self, namespace: str) -> list[str]:
        """The names of a namespace's LocalQueues, sorted."""
        return sorted(self._known("LocalQueue").get(namespace, ()))

    def cluster_queue_handles(self, cluster_queue: str) -> list[LocalQueueFact]:
        """The LocalQueues of all namespaces that lead to a ClusterQueue. Looks at every one."""
        found = self.facts("LocalQueue")
        return [fact for fact in found if isinstance(fact, LocalQueueFact) and fact.cluster_queue == cluster_queue]

    def limit_ranges(self, namespace: str) -> list[LimitRangeFact]:
        found = self._known("LimitRange").get(namespace, {})
        return [fact for _, fact in sorted(found.items()) if isinstance(fact, LimitRangeFact)]

    def runtime_class(self, name: str) -> RuntimeClassFact | None:
        return self._named("RuntimeClass", _CLUSTER, name, RuntimeClassFact)

    def priority_class(self, name: str) -> WorkloadPriorityClassFact | None:
        return self._named("WorkloadPriorityClass", _CLUSTER, name, WorkloadPriorityClassFact)

    def claim(self, kind: str, namespace: str, name: str) -> ClaimFact | None:
        """A ResourceClaim or a ResourceClaimTemplate; None also for a claim that was made from a template."""
        return self._named(kind, namespace, name, ClaimFact)

    def device_classes(self) -> list[DeviceClassFact]:
        return self._all("DeviceClass", DeviceClassFact)

    def extended_resources(self) -> Mapping[str, str]:
        """spec.extendedResourceName of the DeviceClasses that have one, by their names."""
        return self.derived("DeviceClass", _CLUSTER, "extended resources", _extended_resources)

    def volcano_queue(self, name: str) -> VolcanoQueueFact | None:
        return self._named("Queue", _CLUSTER, name, VolcanoQueueFact)

    def kueue_configuration(self) -> KueueConfigurationFact:
        """That of the running Kueue. Raises FactsMissing also where its ConfigMap is absent or says nothing."""
        tables = self._known("ConfigMap")
        if self._configuration is not None:
            return self._configuration
        for namespace in KUEUE_NAMESPACES:
            for fact in tables.get(namespace, {}).values():
                if isinstance(fact, KueueConfigurationFact):
                    if fact.problem:
                        raise FactsMissing("ConfigMap", f"{namespace}/{fact.name} {fact.problem}")
                    self._configuration = fact
                    return fact
        raise FactsMissing("ConfigMap", "kueue-manager-config not found")

    def resource_quotas(self, namespace: str) -> list[ResourceQuotaFact]:
        found = self._known("ResourceQuota").get(namespace, {})
        return [fact for _, fact in sorted(found.items()) if isinstance(fact, ResourceQuotaFact)]

    def workload(self, kind: str, namespace: str, name: str) -> WorkloadFact | None:
        return self._named(kind, namespace, name, WorkloadFact)

    def workloads(self, namespace: str, *kinds: str) -> list[WorkloadFact]:
        """The workloads of these kinds in a namespace, kind by kind, sorted by name."""
        return [
            fact
            for kind in kinds
            for _, fact in sorted(self._known(kind).get(namespace, {}).items())
            if isinstance(fact, WorkloadFact)
        ]

    def derived(self, kind: str, namespace: str, key: Hashable, make: Callable[[Mapping[str, Fact]], _T]) -> _T:
        """What `make` makes of all facts of a kind in a namespace, by name; it is kept under `key` until one changes.

        So a rule that looks for what refers to a subject does not look at everything for each subject.
        """
        facts = self._known(kind)
        kept = self._derived.get((kind, namespace))
        if kept is None:
            kept = self._derived[kind, namespace] = {}
        if key not in kept:
            kept[key] = make(facts.get(namespace, _NONE))
        return kept[key]  # type: ignore[no-any-return]

    def require(self, kinds: Iterable[str]) -> None:
        """Raises FactsMissing if one of the kinds is not known."""
        for kind in sorted(self._unknown.keys() & set(kinds)):
            raise FactsMissing(kind, self._unknown[kind])

    def unknown(self) -> Mapping[str, str]:
        """Kinds that are not known, each with the reason."""
        return self._unknown

    def _known(self, kind: str) -> dict[str, dict[str, Fact]]:
        if kind in self._unknown:
            raise FactsMissing(kind, self._unknown[kind])
        return self._facts[kind]

    def _named(self, kind: str, namespace: str, name: str, of: type[_F]) -> _F | None:
        if kind in self._unknown:
            raise FactsMissing(kind, self._unknown[kind])
        fact = self._facts[kind].get(namespace, _NONE).get(name)
        return fact if isinstance(fact, of) else None

    def _all(self, kind: str, of: type[_F]) -> list[_F]:
        found = self._known(kind).get(_CLUSTER, {})
        return [fact for _, fact in sorted(found.items()) if isinstance(fact, of)]

    # Watching

    @property
    def observers(self) -> tuple[Observer, ...]:
        return self._observers

    def observe(self, observer: Observer) -> None:
        """From here on the observer hears of every change. What is known already it is told now, as new."""
        self._observers += (observer,)
        for kind in sorted(observer.kinds - self._unknown.keys()):
            for fact in self.facts(kind):
                observer.changed(kind, None, fact)

    def leave(self, observer: Observer) -> None:
        """The observer hears no more."""
        self._observers = tuple(each for each in self._observers if each is not observer)

    def _tell(self, kind: str, namespace: str, before: Mapping[str, Fact], after: Mapping[str, Fact]) -> None:
        """What differs between the facts of one namespace, by name."""
        self._derived.pop((kind, namespace), None)
        if kind == "ConfigMap":
            self._configuration = None
        observers = [observer for observer in self._observers if kind in observer.kinds]
        if not observers:
            return
        for name in sorted(before.keys() | after.keys()):
            old, new = before.get(name), after.get(name)
            if old != new:
                for observer in observers:
                    observer.changed(kind, old, new)

    # Writing

    def replace(self, kind: str, facts: Iterable[Fact]) -> None:
        """All facts of a kind at once, after a list: what is not among them is gone. The kind is known from here on."""
        table: dict[str, dict[str, Fact]] = {}
        for fact in facts:
            table.setdefault(_namespace_of(fact), {})[fact.name] = fact
        before, self._facts[kind] = self._facts[kind], table
        self._unknown.pop(kind, None)
        for namespace in sorted(before.keys() | table.keys()):
            self._tell(kind, namespace, before.get(namespace, {}), table.get(namespace, {}))

    def replace_namespace(self, kind: str, namespace: str, facts: Iterable[Fact]) -> None:
        """All facts of a kind in one namespace."""
        before = self._facts[kind].get(namespace, {})
        after = self._facts[kind][namespace] = {fact.name: fact for fact in facts}
        self._tell(kind, namespace, before, after)

    def put(self, kind: str, fact: Fact) -> bool:
        """One fact, new or changed; whether it changed anything."""
        namespace = _namespace_of(fact)
        names = self._facts[kind].setdefault(namespace, {})
        before = names.get(fact.name)
        if before == fact:
            return False
        names[fact.name] = fact
        self._tell(kind, namespace, {} if before is None else {fact.name: before}, {fact.name: fact})
        return True

    def remove(self, kind: str, namespace: str, name: str) -> None:
        names = self._facts[kind].get(namespace, {})
        before = names.pop(name, None)
        if not names:
            self._facts[kind].pop(namespace, None)
        if before is not None:
            self._tell(kind, namespace, {name: before}, {})

    def forget(self, kind: str, reason: str) -> None:
        """A kind that cannot be read any more, and why."""
        before, self._facts[kind] = self._facts[kind], {}
        self._unknown[kind] = reason
        for namespace, names in sorted(before.items()):
            self._tell(kind, namespace, names, {})


def _extended_resources(facts: Mapping[str, Fact]) -> dict[str, str]:
    found = [fact for fact in facts.values() if isinstance(fact, DeviceClassFact)]
    return {fact.name: fact.extended_resource for fact in found if fact.extended_resource}


def _namespace_of(fact: Fact) -> str:
    # Not isinstance: asking for one of six classes costs a heartbeat a microsecond.
    return getattr(fact, "namespace", _CLUSTER)
