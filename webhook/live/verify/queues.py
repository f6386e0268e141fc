"""Assertions about the queues of a namespace, and about what is promised by them."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.capacity.balance import KINDS as BALANCED
from webhook.capacity.balance import balance_of
from webhook.capacity.words import describe
from webhook.engine.policy import Policy
from webhook.engine.rule import Violation
from webhook.engine.subject import Subject
from webhook.engine.verdict import Finding, Severity
from webhook.kube.cohorts import root_of
from webhook.kube.kinds import CLUSTER_QUEUE
from webhook.kube.objects import Object, at, metadata, string
from webhook.kube.quantity import show
from webhook.kube.quota_facts import ClusterQueueFact, FlavorResource, counted
from webhook.kube.snapshot import FactsMissing
from webhook.live.pods import condition
from webhook.live.quota import members, nominal_of_cohort
from webhook.live.verify.assertion import Assertion, some
from webhook.live.verify.world import World
from webhook.rules import missing_cohort


def queues_active(world: World) -> Assertion:
    found = Assertion("queues-active", "the namespace's LocalQueues and their ClusterQueues are Active")
    if world.lacks(found, "kueue", "local_queues", "cluster_queues"):
        return found
    if not world.local_queues:
        found.failures.append(
            f"namespace {world.namespace} has no LocalQueue: create one for each model (guide, step 2)"
        )
    for kind, value in queues_of(world):
        name, active = name_of(value), condition(value, "Active")
        if active.get("status") == "True":
            found.evidence.append(f'{kind} "{name}" is Active')
        else:
            said = string(active.get("message")) or "no controller has said so"
            found.failures.append(f'{kind} "{name}" is not Active: {said}; until it is, its pods stay gated')
    for value in world.local_queues:
        of = string(at(value, ("spec", "clusterQueue")))
        if of not in world.cluster_queues:
            found.failures.append(
                f'LocalQueue "{name_of(value)}" leads to ClusterQueue "{of}", which does not exist: create it'
            )
    return found


def cohort_shared(world: World, policy: Policy) -> Assertion:
    found = Assertion("cohort-shared", "each ClusterQueue with a floor shares a cohort with another")
    if world.lacks(found, "kueue", "local_queues", "cluster_queues"):
        return found
    subjects = [
        Subject(CLUSTER_QUEUE, "", world.cluster_queues[queue.name], policy.accelerators) for queue in world.queues()
    ]
    try:
        violations = [
            (subject, each) for subject in subjects for each in missing_cohort.check(subject, world.snapshot, policy)
        ]
        violations += missing_cohort.survey(subjects, world.snapshot, policy)
        found.failures += (_said(subject, each) for subject, each in violations)
        for queue in world.queues():
            others = sorted(each.name for each in members(world.snapshot, queue) if each.name != queue.name)
            if others:
                found.evidence.append(f'ClusterQueue "{queue.name}" is in cohort {queue.cohort} with {some(others, 5)}')
    except FactsMissing as missing:
        found.unknown.append(str(missing))
    return found


def _said(subject: Subject, violation: Violation) -> str:
    kind = subject.kind.kind
    return Finding(missing_cohort.RULE.id, Severity.WARN, kind, "", subject.name, violation).message


def admitted_within_nominal(world: World, policy: Policy) -> Assertion:
    found = Assertion("admitted-within-nominal", "what is admitted is no more than the nominalQuota of the cohort")
    if world.lacks(found, "kueue", "local_queues", "cluster_queues"):
        return found
    try:
        for name, tree in _trees(world):
            keys = {key for each in tree for key in each.nominal if policy.accelerators.covers(key[1])}
            for key in sorted(keys):
                _sum(world, name, tree, key, found)
    except FactsMissing as missing:
        found.unknown.append(str(missing))
    return found


def _trees(world: World) -> Iterator[tuple[str, list[ClusterQueueFact]]]:
    """Each cohort, or queue without one, once."""
    seen = set()
    for queue in world.queues():
        root = root_of(world.snapshot, queue.cohort) if queue.cohort else ""
        name = f"cohort {root}" if root else f'ClusterQueue "{queue.name}"'
        if name not in seen:
            seen.add(name)
            yield name, members(world.snapshot, queue)


def _sum(world: World, name: str, tree: list[ClusterQueueFact], key: FlavorResource, found: Assertion) -> None:
    flavor, resource = key
    nominal = nominal_of_cohort(world.snapshot, tree[0], key)
    parts = [(each.name, each.reserved.get(key, 0), counted(resource, each.nominal.get(key, 0))) for each in tree]
    reserved = sum(amount for _, amount, _ in parts)
    each = ", ".join(f"{queue} {show(amount)} of its {show(floor)}" for queue, amount, floor in parts)
    text = f"{name}: {show(reserved)} of {show(nominal)} {resource} in {flavor} admitted ({each})"
    if reserved > nominal:
        found.failures.append(
            f"{text}: floors were lowered below what runs: scale down or raise them, else nobody is admitted"
        )
    else:
        found.evidence.append(text)


def floors_fit(world: World, policy: Policy) -> Assertion:
    found = Assertion("floors-fit", "the floors fit the hardware")
    if world.lacks(found, "kueue", "local_queues", "cluster_queues"):
        return found
    try:
        world.snapshot.require(BALANCED)
        view = balance_of(world.snapshot, policy.capacity, policy.accelerators).now
        keys = {key for queue in world.queues() for key in queue.nominal if policy.accelerators.covers(key[1])}
    except FactsMissing as missing:
        found.unknown.append(str(missing))
        return found
    seen: set[FlavorResource] = set()
    for flavor, resource in sorted(keys):
        if (flavor, resource) in seen or flavor in policy.capacity.ignore_flavors:
            continue
        assessed = view.assess(resource, [flavor])
        seen |= {(each, resource) for each in (flavor, *assessed.flavors)}
        if flavor in assessed.unknown:
            found.unknown.append(f"{resource} in flavor {flavor}: {assessed.unknown[flavor]}")
            continue
        found.unknown += (
            f'{each.kind} "{each.name}": its hardware is not seen from here' for each in assessed.uncounted
        )
        if assessed.unmet_hardware and assessed.cut is not None:
            found.failures.append(
                f"{describe(assessed.cut)}: lower a floor (floorkeeper plan), or bring nodes: pods beyond the hardware "
                "are admitted and find no node"
            )
        elif assessed.cut is not None:
            found.evidence.append(f"capacity is away: {describe(assessed.cut)}; bring nodes back")
        else:
            found.evidence.append(
                f"{resource} in {', '.join(assessed.flavors)}: floors {show(assessed.floors)}, hardware "
                f"{show(assessed.hardware)}, usable {show(assessed.usable)}"
            )
    return found


def queues_of(world: World) -> Iterator[tuple[str, Object]]:
    """The namespace's LocalQueues, and the ClusterQueues that they lead to."""
    yield from (("LocalQueue", each) for each in world.local_queues)
    names = sorted({string(at(each, ("spec", "clusterQueue"))) for each in world.local_queues})
    yield from (("ClusterQueue", world.cluster_queues[name]) for name in names if name in world.cluster_queues)


def name_of(value: Object) -> str:
    return string(metadata(value).get("name"))
