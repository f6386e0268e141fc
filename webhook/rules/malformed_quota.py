"""Quotas can be read, and name accelerators that nodes offer.

Of each ClusterQueue and Cohort: nominalQuota is set; it, borrowingLimit and lendingLimit are quantities and not
negative; no resource and no flavor is listed twice; the resources of each flavor are those of coveredResources. Kueue
refuses most of this once it runs. Of anything but cpu Kueue counts whole units and rounds
up, so that a floor of 0.5 GPUs is one of 1: this warns.

An accelerator that no node lists (nvidia.com/gpus, or nvidia.com/gpu where nodes offer MIG slices) is denied with the
nearest name that one does list. A resource is taken for an accelerator if it is one in the policy, or has the domain of
one. It need not be listed if the policy declares capacity of it (`capacity.declared`) or ignores its flavor, or if an
AdmissionCheck of the queue brings the hardware from elsewhere (MultiKueue, ProvisioningRequest). A quota of 0 with
nothing to borrow only warns. Not evaluated: a cluster in which no Node is known.

Guide: step 2, 'nominalQuota is that model's guaranteed floor'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast

from webhook.capacity.balance import balance_of
from webhook.capacity.floors import ELSEWHERE
from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import listed
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube import quantity
from webhook.kube.accelerators import Accelerators
from webhook.kube.kinds import CLUSTER_QUEUE, COHORT
from webhook.kube.objects import Object, Path, at, mapping, sequence, show_path, string
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorCheck, amount, counted
from webhook.kube.snapshot import FactsMissing, Snapshot

_SCHEMA = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?")
"""What the CRD lets pass (Kueue 0.17), which is less than the API server takes elsewhere: no ' 5' and no 'm'."""

_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_NEAR = 0.8  # of 1, as difflib measures it: nvidia/gpu is 0.83 near to nvidia.com/gpu, and amd.com/gpu 0.72
_GROUPS: Path = ("spec", "resourceGroups")


@dataclass(frozen=True, slots=True)
class _Quota:
    """One entry of a flavor's resources."""

    path: Path
    flavor: str
    resource: str
    value: Object


@dataclass(frozen=True, slots=True)
class _Flavor:
    """One entry of a group's flavors, and what that group covers."""

    path: Path
    name: str
    covered: tuple[str, ...]
    quotas: tuple[_Quota, ...]


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    yield from _twice(_covered(subject.value), "coveredResources", "keep it in one group")
    flavors = tuple(_flavors(subject.value))
    names = (((*flavor.path, "name"), flavor.name) for flavor in flavors)
    yield from _twice(names, "flavors", "keep one, with all its resources in one group")
    for flavor in flavors:
        yield from _resources(flavor)
        for quota in flavor.quotas:
            yield from _amounts(quota)
    yield from _not_offered(subject, flavors, snapshot, policy)


def _covered(value: Object) -> Iterator[tuple[Path, str]]:
    for i, group in enumerate(map(mapping, sequence(at(value, _GROUPS)))):
        for j, name in enumerate(sequence(group.get("coveredResources"))):
            yield (*_GROUPS, i, "coveredResources", j), string(name)


def _flavors(value: Object) -> Iterator[_Flavor]:
    for i, group in enumerate(map(mapping, sequence(at(value, _GROUPS)))):
        covered = tuple(dict.fromkeys(map(string, sequence(group.get("coveredResources")))))
        for j, flavor in enumerate(map(mapping, sequence(group.get("flavors")))):
            path, name = (*_GROUPS, i, "flavors", j), string(flavor.get("name"))
            quotas = tuple(
                _Quota((*path, "resources", k), name, string(resource.get("name")), resource)
                for k, resource in enumerate(map(mapping, sequence(flavor.get("resources"))))
            )
            yield _Flavor(path, name, covered, quotas)


def _twice(places: Iterable[tuple[Path, str]], scope: str, fix: str) -> Iterator[Violation]:
    """What is listed again. The API server asks for the names themselves."""
    first: dict[str, Path] = {}
    for path, name in places:
        if name and first.setdefault(name, path) != path:
            actual = f"{name}, as is {show_path(first[name])}"
            yield Violation(path, "must not be listed twice", actual, fix, identity=(scope, name))


def _resources(flavor: _Flavor) -> Iterator[Violation]:
    places = [((*quota.path, "name"), quota.resource) for quota in flavor.quotas]
    yield from _twice(places, flavor.name, "keep one")
    for path, name in places:
        if name not in flavor.covered:
            yield Violation(
                path,
                must="must be one of coveredResources",
                actual=name or "absent",
                fix="add it there, or remove it here",
                identity=(flavor.name, name, "not covered"),
            )
    for name in flavor.covered:
        if name and name not in {quota.resource for quota in flavor.quotas}:
            yield Violation(
                (*flavor.path, "resources"),
                must="must hold each of coveredResources",
                actual=f"without {name}",
                fix="add it, with nominalQuota 0 for none",
                identity=(flavor.name, name, "left out"),
            )


def _amounts(quota: _Quota) -> Iterator[Violation]:
    for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
        path, written = (*quota.path, field), quota.value.get(field)
        identity = (quota.flavor, quota.resource, field)
        if written is None:
            if field == "nominalQuota":
                fix = "set it, to 0 if nothing is guaranteed"
                yield Violation(path, "must be set", "absent", fix, identity=(*identity, "absent"))
            continue
        try:
            parsed = quantity.parse(written)
        except quantity.QuantityError as error:
            problem = str(error).removeprefix("is ")
            fix = "write a number, such as 1"
            yield Violation(path, "must be a quantity", problem, fix, identity=(*identity, "unreadable"))
            continue
        if isinstance(written, str) and not _SCHEMA.fullmatch(written):
            fix = f"write {quantity.show(parsed)}, as Kueue's schema wants it"
            yield Violation(path, "must be a quantity", f"'{written}'", fix, identity=(*identity, "unreadable"))
            continue
        if parsed < 0:
            yield Violation(
                path,
                must="must not be negative",
                actual=quantity.show(parsed),
                fix="write 0 or more",
                identity=(*identity, "negative"),
                weight=-parsed,
            )
        elif quota.resource != "cpu" and not quantity.whole(parsed):
            yield Violation(
                path,
                must="must be a whole number",
                actual=f"{quantity.show(parsed)}, which Kueue rounds up",
                fix=f"write {quantity.show(counted(quota.resource, parsed))}, or what is meant",
                advice=True,
            )


def _not_offered(
    subject: Subject, flavors: Iterable[_Flavor], snapshot: Snapshot, policy: Policy
) -> Iterator[Violation]:
    """Accelerators that no node lists."""
    checks, may_borrow = _settings(subject)
    declared = {resource for amounts in policy.capacity.declared.values() for resource in amounts}
    for flavor in flavors:
        if flavor.name in policy.capacity.ignore_flavors:
            continue
        asked = [each for each in flavor.quotas if each.resource not in declared and each.resource not in _NATIVE]
        if not asked:
            continue
        covering = [snapshot.admission_check(each.name) for each in checks if each.covers(flavor.name)]
        if any(each is not None and each.controller in ELSEWHERE for each in covering):
            continue
        if next(snapshot.facts("Node"), None) is None:
            if not any(_meant(each.resource, policy.accelerators) for each in asked):
                continue
            raise FactsMissing("Node", "none known")
        offered = balance_of(snapshot, policy.capacity, policy.accelerators).offered()
        for quota in asked:
            meant = _meant(quota.resource, policy.accelerators) or _resembles(quota.resource, offered, policy)
            if meant and quota.resource not in offered and not _made_by_kueue(quota.resource, snapshot):
                # Until a check exists, nobody knows whether it stands for hardware elsewhere.
                yield _absent(quota, offered, policy, may_borrow, unsure=None in covering)


def _made_by_kueue(resource: str, snapshot: Snapshot) -> bool:
    """Whether Kueue's own configuration makes the resource of others (resources.transformations), as for HAMi."""
    try:
        transformations = snapshot.kueue_configuration().transformations
    except FactsMissing:
        return False
    return any(resource in each.outputs for each in transformations)


def _settings(subject: Subject) -> tuple[tuple[FlavorCheck, ...], bool]:
    """The AdmissionChecks, and whether there is anybody to borrow from."""
    if subject.kind is COHORT:
        return (), bool(cast(CohortFact, subject.fact).parent)
    queue = cast(ClusterQueueFact, subject.fact)
    return queue.checks, bool(queue.cohort)


def _meant(resource: str, accelerators: Accelerators) -> bool:
    """Whether the resource is an accelerator or has the domain of one, and so is likely meant for one."""
    domains = {name.partition("/")[0] for name in (*accelerators.exact, *accelerators.prefixes) if "/" in name}
    return accelerators.covers(resource) or resource.partition("/")[0] in domains


def _resembles(resource: str, offered: frozenset[str], policy: Policy) -> bool:
    """Whether the resource is nearly one that nodes do offer, such as nvdia.com/gpu."""
    return bool(get_close_matches(resource, filter(policy.accelerators.covers, offered), n=1, cutoff=_NEAR))


def _absent(quota: _Quota, offered: frozenset[str], policy: Policy, may_borrow: bool, unsure: bool) -> Violation:
    nominal, limit = amount(quota.value.get("nominalQuota")), quota.value.get("borrowingLimit")
    borrows = may_borrow and (limit is None or amount(limit) > 0)
    return Violation(
        (*quota.path, "name"),
        must="must be offered by a node",
        actual=quota.resource,
        fix=f"{_instead(quota.resource, offered, policy.accelerators)}, or declare it (policy: capacity.declared)",
        advice=unsure or (nominal <= 0 and not borrows),
        identity=(quota.flavor, quota.resource, "not offered"),
        # What begins to borrow gets worse.
        weight=max(nominal, int(borrows)),
    )


def _instead(resource: str, offered: frozenset[str], accelerators: Accelerators) -> str:
    names = sorted(name for name in offered if _meant(name, accelerators))
    if not names:
        return "wait for nodes (none lists an accelerator)"
    return f"use {listed(get_close_matches(resource, names, n=1) or names, 3)}"


RULE = Rule(
    id="malformed-quota",
    mode=Mode.DENY,
    kinds=(CLUSTER_QUEUE, COHORT),
    check=check,
    needs=frozenset({"Node", "AdmissionCheck", "ConfigMap"}),
    page=__doc__,
)
