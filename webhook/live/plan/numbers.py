"""Floors beside the hardware, as numbers: what the picture shows and `-o json` prints, in whole units (GPUs)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from webhook.capacity.assessment import Assessment
from webhook.capacity.balance import KINDS, Balance, balance_of
from webhook.capacity.view import View
from webhook.capacity.words import describe
from webhook.engine.policy import Policy
from webhook.kube.objects import Object, at, mapping, sequence
from webhook.kube.quantity import NANO
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorResource, amount, counted
from webhook.live.plan.lending import Trees
from webhook.live.plan.state import State, Target
from webhook.live.plan.targets import Wanted


@dataclass(frozen=True, slots=True)
class Use:
    """What the status of a ClusterQueue says of one resource in one flavor, in billionths."""

    reserved: int
    """By Workloads that have quota, whether or not they are admitted yet."""

    borrowed: int


@dataclass(frozen=True, slots=True)
class Range:
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Row:
    """One floor. A number that is not known, or that a Cohort does not have, is None."""

    kind: str
    name: str
    flavor: str
    cohorts: tuple[str, ...]
    """What it is in, the root first."""

    floor: int
    planned: int
    """As `floor` where nothing is to change."""

    used: int | None = None
    borrowed: int | None = None
    lent: Range | None = None
    gated: int | None = None
    """Workloads that wait for quota, whatever the flavor."""

    asked: int | None = None
    """The accelerators that those ask for, as far as Kueue has looked at them."""

    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One resource in flavors that compete for the same nodes; mostly in one."""

    resource: str
    flavors: tuple[str, ...]
    hardware: int
    usable: int
    floors: int
    planned: int
    unmet_hardware: int
    unmet_usable: int
    unclaimed: int
    verdict: str
    """In words: whether the floors fit, with the arithmetic."""

    not_evaluated: Mapping[str, str]
    """Flavors whose hardware is not known, each with the reason; they are in no sum."""

    rows: tuple[Row, ...]

    def is_about(self, planned: Wanted) -> bool:
        return any(
            resource == self.resource and flavor in self.flavors
            for floors in planned.values()
            for flavor, resource in floors
        )


def sections(state: State, policy: Policy, planned: Wanted) -> list[Section]:
    """Every resource and flavor with a floor, be it one of 0, or with hardware. `planned` holds billionths, of the
    floors to change.

    Without nodes nothing is evaluated. Raises FactsMissing if another kind that decides is not known.
    """
    state.snapshot.require(KINDS - {"Node"})
    balance = balance_of(state.snapshot, policy.capacity, policy.accelerators)
    found, seen = [], set()
    nothing = {key for queue in state.snapshot.cluster_queues() for key in queue.nominal if _counts(key, policy)}
    for flavor, resource in sorted(balance.keys() | nothing, key=lambda key: (key[1], key[0])):
        if (flavor, resource) in seen:
            continue
        assessment = balance.assess(resource, [flavor])
        # A flavor without floors is assessed alone, and may still be in another's component.
        flavors = tuple(sorted({flavor, *assessment.flavors, *assessment.unknown}))
        seen |= {(each, resource) for each in flavors}
        found.append(_section(state, balance, planned, assessment, flavors))
    return found


def _counts(key: FlavorResource, policy: Policy) -> bool:
    flavor, resource = key
    return policy.accelerators.covers(resource) and flavor not in policy.capacity.ignore_flavors


def uses(value: Object) -> Mapping[FlavorResource, Use]:
    """Of a ClusterQueue: empty until Kueue has written its status."""
    return {
        (flavor["name"], resource["name"]): Use(amount(resource.get("total")), amount(resource.get("borrowed")))
        for flavor in map(mapping, sequence(at(value, ("status", "flavorsReservation"))))
        for resource in map(mapping, sequence(flavor.get("resources")))
        if isinstance(flavor.get("name"), str) and isinstance(resource.get("name"), str)
    }


def trees_of(state: State, key: FlavorResource, planned: Wanted | None = None) -> Trees:
    """The trees of Cohorts as they are now, with the floors that are planned."""
    queues = state.snapshot.cluster_queues()
    used: dict[str, int | None] = {}
    for queue in queues:
        known = uses(state.objects["ClusterQueue", queue.name]).get(key)
        # Kueue lists every flavor of a queue, so one that is not listed is either not the queue's or not looked at yet.
        used[queue.name] = known.reserved if known else None if key in queue.nominal else 0
    return Trees(
        key,
        [replace(each, nominal=_nominal("ClusterQueue", each, key, planned)) for each in queues],
        [replace(each, nominal=_nominal("Cohort", each, key, planned)) for each in state.snapshot.cohorts()],
        used,
    )


def _nominal(
    kind: str, fact: ClusterQueueFact | CohortFact, key: FlavorResource, planned: Wanted | None
) -> Mapping[FlavorResource, int]:
    floors = (planned or {}).get((kind, fact.name), {})
    return {**fact.nominal, key: floors[key]} if key in floors else fact.nominal


def _section(
    state: State,
    balance: Balance,
    planned: Wanted,
    assessment: Assessment,
    flavors: tuple[str, ...],
) -> Section:
    resource = assessment.resource
    rows = [row for flavor in flavors for row in _rows(state, balance, planned, (flavor, resource))]
    changed = sum(row.planned - row.floor for row in rows if row.flavor in assessment.flavors)
    return Section(
        resource,
        flavors,
        assessment.hardware // NANO,
        assessment.usable // NANO,
        assessment.floors // NANO,
        assessment.floors // NANO + changed,
        assessment.unmet_hardware // NANO,
        assessment.unmet_usable // NANO,
        assessment.unclaimed // NANO if assessment.evaluated else 0,
        verdict(balance.now, assessment),
        dict(assessment.unknown),
        tuple(rows),
    )


def verdict(view: View, found: Assessment) -> str:
    """'fits: …' or 'exceeds the hardware by 2: …', with the arithmetic."""
    if not found.evaluated:
        return "not evaluated: " + "; ".join(sorted(set(found.unknown.values())))
    resource, flavors = found.resource, found.flavors
    if found.unmet_hardware and found.cut is not None:
        return f"exceeds the hardware by {found.unmet_hardware // NANO}: {describe(found.cut)}"
    if found.unmet_usable and found.cut is not None:
        return (
            f"fits the hardware, of which too much is away: exceeds what can be used now by "
            f"{found.unmet_usable // NANO}: {describe(found.cut)}"
        )
    arithmetic = (
        describe(view.arithmetic(resource, flavors))
        if found.floors
        else f"no floor of {resource}; hardware: {found.hardware // NANO}"
    )
    if found.unclaimed:
        return f"fits, and leaves {found.unclaimed // NANO} that nobody may claim: {arithmetic}"
    return f"fits: {arithmetic}"


def _rows(state: State, balance: Balance, planned: Wanted, key: FlavorResource) -> Iterator[Row]:
    flavor, resource = key
    trees = trees_of(state, key)
    elsewhere = {floor.source: floor.uncounted for floor in balance.now.uncounted(flavor, resource)}
    found = []
    for kind, fact in _owners(state):
        if key not in fact.nominal:
            continue
        member = kind, fact.name
        nominal = fact.nominal[key]
        lent = trees.lent(member)
        row = Row(
            kind,
            fact.name,
            flavor,
            tuple(reversed(list(_upwards(trees, member)))),
            _whole(resource, nominal),
            _whole(resource, planned.get(member, {}).get(key, nominal)),
            lent=None if lent is None else Range(lent.least // NANO, lent.most // NANO),
            note=f"not counted here: {elsewhere[member]}" if member in elsewhere else "",
        )
        found.append(_with_status(row, state, fact, key) if isinstance(fact, ClusterQueueFact) else row)
    # What is in a Cohort stands below what is written in the Cohort itself.
    yield from sorted(found, key=lambda row: (_path(row), row.kind == "ClusterQueue", row.name))


def _path(row: Row) -> tuple[str, ...]:
    return (*row.cohorts, row.name) if row.kind == "Cohort" else row.cohorts


def _owners(state: State) -> Iterable[tuple[str, ClusterQueueFact | CohortFact]]:
    yield from (("ClusterQueue", fact) for fact in state.snapshot.cluster_queues())
    yield from (("Cohort", fact) for fact in state.snapshot.cohorts())


def _upwards(trees: Trees, member: Target) -> Iterator[str]:
    seen = {member}
    while (above := trees.above(member)) and ("Cohort", above) not in seen:
        yield above
        member = "Cohort", above
        seen.add(member)


def _with_status(row: Row, state: State, fact: ClusterQueueFact, key: FlavorResource) -> Row:
    value = state.objects["ClusterQueue", fact.name]
    use = uses(value).get(key)
    pending = at(value, ("status", "pendingWorkloads"))
    asked = None if state.waiting is None else state.waiting.get(fact.name, {}).get(key[1], 0) // NANO
    notes = [row.note, "it admits nothing now" if fact.stopped else "", "" if use else "Kueue has not reported its use"]
    return Row(
        row.kind,
        row.name,
        row.flavor,
        row.cohorts,
        row.floor,
        row.planned,
        None if use is None else use.reserved // NANO,
        None if use is None else use.borrowed // NANO,
        row.lent,
        # Kueue leaves out a count of 0.
        pending if isinstance(pending, int) else None if use is None else 0,
        asked,
        "; ".join(filter(None, notes)),
    )


def _whole(resource: str, nominal: int) -> int:
    return counted(resource, nominal) // NANO
