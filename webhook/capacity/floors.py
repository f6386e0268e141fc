"""What is guaranteed, and by whom: the floors of each flavor and resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from webhook.capacity.settings import Settings
from webhook.kube.accelerators import Accelerators
from webhook.kube.quota_facts import (
    MULTIKUEUE_CONTROLLER,
    PROVISIONING_CONTROLLER,
    AdmissionCheckFact,
    ClusterQueueFact,
    CohortFact,
    FlavorResource,
    counted,
)

_K = TypeVar("_K")

Source = tuple[str, str]
"""Kind and name of what a floor is written in."""

ELSEWHERE: Mapping[str, str] = {MULTIKUEUE_CONTROLLER: "MultiKueue", PROVISIONING_CONTROLLER: "ProvisioningRequest"}
"""Controllers of AdmissionChecks whose workloads get hardware that is not here, or not yet."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One floor. `amount` (billionths) is above 0 and as Kueue counts it, so nominalQuota 0.5 is 1."""

    kind: str
    name: str
    flavor: str
    resource: str
    amount: int
    uncounted: str = ""
    """Why the nodes here say nothing about it, '' if they do."""

    reserved_until: str = ""
    """It is promised to a write that is not stored yet, and for how long; '' for what is stored."""

    @property
    def source(self) -> Source:
        return self.kind, self.name


class FloorSums(Protocol):
    """Implemented by Floors and FloorsWith, called by View."""

    def amount(self, flavor: str, resource: str) -> int:
        """The sum of what is counted."""

    def contributions(self, flavor: str, resource: str) -> list[Contribution]:
        """What is counted, by kind and name."""

    def uncounted(self, flavor: str, resource: str) -> list[Contribution]:
        """What is not, by kind and name."""

    def resources(self, flavor: str) -> set[str]:
        """The resources of which the flavor has floors, counted or not."""


Written = dict[FlavorResource, Contribution]


class Floors:
    """Every floor, with the sums kept up to date by event."""

    def __init__(self, settings: Settings, accelerators: Accelerators) -> None:
        self._settings = settings
        self._accelerators = accelerators
        self._written: dict[Source, Written] = {}
        self._by_key: dict[FlavorResource, dict[Source, Contribution]] = {}
        self._uncounted: dict[FlavorResource, dict[Source, Contribution]] = {}
        self._sums: dict[FlavorResource, int] = {}
        self._resources: dict[str, dict[str, int]] = {}
        """How many floors a flavor has, by resource."""

        self._controllers: dict[str, str] = {}
        self._checked: dict[str, dict[str, ClusterQueueFact]] = {}
        """The ClusterQueues that name an AdmissionCheck."""

    # Reading

    def amount(self, flavor: str, resource: str) -> int:
        return self._sums.get((flavor, resource), 0)

    def total(self, resource: str) -> int:
        """The sum of what is counted, over all flavors."""
        return sum(amount for (_, of), amount in self._sums.items() if of == resource)

    def contributions(self, flavor: str, resource: str) -> list[Contribution]:
        return _sorted(self._by_key.get((flavor, resource), {}))

    def uncounted(self, flavor: str, resource: str) -> list[Contribution]:
        return _sorted(self._uncounted.get((flavor, resource), {}))

    def resources(self, flavor: str) -> set[str]:
        return set(self._resources.get(flavor, ()))

    def keys(self) -> set[FlavorResource]:
        """Every flavor and resource with a floor, counted or not."""
        return self._by_key.keys() | self._uncounted.keys()

    def by_source(self, key: FlavorResource, counted: bool) -> Mapping[Source, Contribution]:
        """The floors of one flavor and resource that are counted, or those that are not."""
        return (self._by_key if counted else self._uncounted).get(key, {})

    def written(self, source: Source) -> Written:
        """The floors of one ClusterQueue or Cohort."""
        return self._written.get(source, {})

    def written_in(self, kind: str, fact: ClusterQueueFact | CohortFact) -> Written:
        """The floors that a fact describes. A flavor that the policy ignores has none."""
        checks = fact.checks if isinstance(fact, ClusterQueueFact) else ()
        found: Written = {}
        for (flavor, resource), nominal in fact.nominal.items():
            amount = counted(resource, nominal)
            if amount <= 0 or flavor in self._settings.ignore_flavors or not self._accelerators.covers(resource):
                continue
            reason = ""
            if checks and resource not in self._settings.declared.get(flavor, ()):
                reason = next(
                    filter(None, (self._elsewhere(check.name) for check in checks if check.covers(flavor))), ""
                )
            found[flavor, resource] = Contribution(kind, fact.name, flavor, resource, amount, reason)
        return found

    def _elsewhere(self, check: str) -> str:
        # One that does not exist counts as any other: Kueue keeps the queue inactive, and lends its quota all the same.
        name = ELSEWHERE.get(self._controllers.get(check, ""))
        return f'its AdmissionCheck "{check}" has the {name} controller' if name else ""

    # Writing

    def put(self, kind: str, fact: ClusterQueueFact | CohortFact) -> None:
        before = self._written.get((kind, fact.name), {})
        after = self.written_in(kind, fact)
        if before != after:
            self._replace((kind, fact.name), before, after)
        if isinstance(fact, ClusterQueueFact):
            self._check(fact.name, fact)

    def remove(self, kind: str, name: str) -> None:
        self._replace((kind, name), self._written.get((kind, name), {}), {})
        if kind == "ClusterQueue":
            self._check(name, None)

    def put_check(self, fact: AdmissionCheckFact) -> None:
        self._controllers[fact.name] = fact.controller
        self._recount(fact.name)

    def remove_check(self, name: str) -> None:
        self._controllers.pop(name, None)
        self._recount(name)

    def _recount(self, check: str) -> None:
        for queue in list(self._checked.get(check, {}).values()):
            self.put("ClusterQueue", queue)

    def _check(self, name: str, fact: ClusterQueueFact | None) -> None:
        """Notes which checks a queue names. `fact` is None when it is gone."""
        wanted = {check.name for check in fact.checks} if fact is not None else set()
        for check in [check for check, queues in self._checked.items() if name in queues and check not in wanted]:
            del self._checked[check][name]
            if not self._checked[check]:
                del self._checked[check]
        for check in wanted:
            assert fact is not None
            self._checked.setdefault(check, {})[name] = fact

    def _replace(self, source: Source, before: Written, after: Written) -> None:
        for key, floor in before.items():
            self._add(source, key, floor, -1)
        for key, floor in after.items():
            self._add(source, key, floor, 1)
        if after:
            self._written[source] = after
        else:
            self._written.pop(source, None)

    def _add(self, source: Source, key: FlavorResource, floor: Contribution, sign: int) -> None:
        flavor, resource = key
        table = self._uncounted if floor.uncounted else self._by_key
        if sign > 0:
            table.setdefault(key, {})[source] = floor
        else:
            del table[key][source]
            if not table[key]:
                del table[key]
        if not floor.uncounted:
            _step(self._sums, key, sign * floor.amount)
        counts = self._resources.setdefault(flavor, {})
        _step(counts, resource, sign)
        if not counts:
            del self._resources[flavor]


class FloorsWith:
    """Floors in which some ClusterQueues and Cohorts were written otherwise. The kept ones stay as they are."""

    def __init__(self, floors: Floors, written: Mapping[Source, Written]) -> None:
        self._floors = floors
        self._written = written
        self._deltas: dict[FlavorResource, int] = {}
        for source, after in written.items():
            for sign, found in ((-1, floors.written(source)), (1, after)):
                for key, floor in found.items():
                    if not floor.uncounted:
                        _step(self._deltas, key, sign * floor.amount)

    def amount(self, flavor: str, resource: str) -> int:
        return self._floors.amount(flavor, resource) + self._deltas.get((flavor, resource), 0)

    def contributions(self, flavor: str, resource: str) -> list[Contribution]:
        return self._with((flavor, resource), counted=True)

    def uncounted(self, flavor: str, resource: str) -> list[Contribution]:
        return self._with((flavor, resource), counted=False)

    def resources(self, flavor: str) -> set[str]:
        written = {resource for found in self._written.values() for of, resource in found if of == flavor}
        return self._floors.resources(flavor) | written

    def _with(self, key: FlavorResource, counted: bool) -> list[Contribution]:
        found = dict(self._floors.by_source(key, counted))
        for source, written in self._written.items():
            found.pop(source, None)
            floor = written.get(key)
            if floor is not None and counted != bool(floor.uncounted):
                found[source] = floor
        return _sorted(found)


def _sorted(found: Mapping[Source, Contribution]) -> list[Contribution]:
    return [found[source] for source in sorted(found)]


def _step(sums: dict[_K, int], key: _K, by: int) -> None:
    total = sums.get(key, 0) + by
    if total:
        sums[key] = total
    else:
        sums.pop(key, None)
