"""Sums that follow events, against a recount and against brute force, on small random clusters."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quota_objects import GPU, after, apply, check, checked, cohort, declared, fact_of, flavor, known, node, queue
from webhook.capacity.balance import KINDS, Balance, balance_of
from webhook.capacity.comparison import compare
from webhook.capacity.hardware import Hardware
from webhook.engine.policy import Capacity, Policy
from webhook.kube.facts import PROJECTIONS
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact
from webhook.kube.quantity import NANO
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact
from webhook.kube.snapshot import Snapshot
from webhook.kube.unqueued_pods import UnqueuedPodFact

Object = dict[str, Any]
AMD = "amd.com/gpu"
FLAVORS = ("f1", "f2", "f3", "f4")
LABELS = st.dictionaries(st.sampled_from(["pool", "zone", "gpu"]), st.sampled_from(["x", "y"]))
COUNTS = st.integers(0, 6)


def amounts(gpus: int, others: int) -> Object:
    return {"cpu": "8", GPU: str(gpus), AMD: str(others)}


def pod(name: str, on: str, requests: Object, **labels: str) -> Object:
    """A Pod, under the name of the kind that it is seen as."""
    container = {"name": "c", "resources": {"requests": requests, "limits": requests}}
    return {
        "kind": "UnqueuedPod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeName": on, "containers": [container]},
    }


NODES = st.builds(
    lambda name, labels, capacity, allocatable, changes: node(
        name, labels=labels, capacity=capacity, allocatable=allocatable, **changes
    ),
    st.sampled_from(["n1", "n2", "n3", "n4", "n5"]),
    LABELS,
    st.builds(amounts, COUNTS, COUNTS) | st.just({}),
    st.builds(amounts, COUNTS, COUNTS) | st.just({}),
    st.fixed_dictionaries(
        {},
        optional={
            "ready": st.sampled_from(["True", "False"]),
            "cordoned": st.booleans(),
            "taints": st.sampled_from([(), ("sick",)]),
        },
    ),
)
QUOTAS = st.dictionaries(st.sampled_from(FLAVORS), st.integers(0, 9) | st.just("1500m"))
RESOURCES = st.sampled_from([GPU, AMD, "cpu"])
QUEUES = st.builds(
    lambda name, quotas, resource, strategy: queue(name, quotas, resource, admissionChecksStrategy=strategy),
    st.sampled_from(["q1", "q2", "q3"]),
    QUOTAS,
    RESOURCES,
    st.builds(checked, st.sampled_from(["c1", "c2"]), on=st.sampled_from([(), ("f1",)])) | st.none(),
)
COHORTS = st.builds(cohort, st.sampled_from(["o1", "o2"]), QUOTAS, RESOURCES)
CHECKS = st.builds(
    check, st.sampled_from(["c1", "c2"]), st.sampled_from(["kueue.x-k8s.io/multikueue", "example.com/x"])
)
FLAVOR_OBJECTS = st.builds(lambda name, labels: flavor(name, **labels), st.sampled_from(FLAVORS), LABELS)
PODS = st.builds(
    pod,
    st.sampled_from(["p1", "p2", "p3"]),
    st.sampled_from(["n1", "n2", "n3", "n4", "n5"]),
    st.builds(amounts, st.integers(1, 9), COUNTS),
)
OBJECTS = NODES | NODES | QUEUES | COHORTS | CHECKS | FLAVOR_OBJECTS | PODS
SETTINGS = st.builds(
    Capacity,
    st.sampled_from([{}, declared(f1=5), declared(f1=5, f2=3)]),
    st.sampled_from([frozenset(), frozenset({"f3"})]),
    st.sampled_from([(), ("sick",)]),
    st.sampled_from([{}, {"zone": "y"}]),
    discount_unqueued=st.booleans(),
)
CLUSTERS = st.tuples(
    st.lists(NODES, min_size=1, max_size=5),
    st.lists(FLAVOR_OBJECTS, max_size=4),
    st.lists(QUEUES | COHORTS | CHECKS, max_size=4),
    st.lists(PODS, max_size=3),
).map(lambda parts: [value for part in parts for value in part])
EVENTS = st.lists(st.tuples(st.sampled_from(["put", "remove", "relist", "forget"]), OBJECTS), max_size=20)


def built(snapshot: Snapshot, capacity: Capacity) -> Balance:
    return balance_of(snapshot, capacity, Policy().accelerators)


def sums(hardware: Hardware) -> Any:
    classes = hardware.grouping.classes.values()
    return {group.flavors: (group.offer, group.size) for group in classes}, {
        name: sorted(map(sorted, (group.flavors for group in hardware.grouping.of(name)))) for name in FLAVORS
    }


def state(balance: Balance) -> Any:
    """Everything that is kept, and everything that is said."""
    view = balance.now
    every = [(flavor, resource) for flavor in FLAVORS for resource in (GPU, AMD)]
    return (
        sums(balance._hardware),
        {key: (view.floors(*key), view.contributions(*key), view._floors.uncounted(*key)) for key in every},
        {name: view._floors.resources(name) for name in FLAVORS},
        [balance.assess(resource, [name]) for name, resource in every],
        [balance.potential(name, *key) for name in ("q1", "q2", "q3") for key in every],
    )


def copied(snapshot: Snapshot) -> Snapshot:
    """The same facts, all of them new."""
    fresh = Snapshot()
    for kind in (KINDS | {"UnqueuedPod"}) - snapshot.unknown().keys():
        fresh.replace(kind, snapshot.facts(kind))
    return fresh


@settings(deadline=None, max_examples=300)
@given(CLUSTERS, EVENTS, SETTINGS)
def test_sums_equal_a_recount_after_any_events(
    objects: list[Object], events: list[tuple[str, Object]], capacity: Capacity
) -> None:
    snapshot = known(*objects)
    balance = built(snapshot, capacity)
    for what, value in events:
        kind, name = value["kind"], value["metadata"]["name"]
        match what:
            case "put" if kind not in snapshot.unknown():
                apply(snapshot, value)
            case "remove":
                snapshot.remove(kind, "", name)
            case "relist":
                snapshot.replace(kind, [fact_of(value)])
            case "forget":
                snapshot.forget(kind, "not allowed")
    assert state(balance) == state(built(copied(snapshot), capacity))


def test_pods_outside_of_any_queue_hold_what_is_usable() -> None:
    """Never below 0 on a node, whatever comes first, and only if the policy says so."""
    snapshot = known(flavor("f1"), pod("early", "n1", {GPU: 3}))
    kept, plain = built(snapshot, Capacity(discount_unqueued=True)), Balance(Capacity(), Policy().accelerators)
    snapshot.observe(plain)

    def usable() -> tuple[int, int, int]:
        """Discounted, not discounted, and hardware."""
        views = kept.now, plain.now
        assert views[0].hardware("f1", GPU) == views[1].hardware("f1", GPU)
        found = views[0].usable("f1", GPU), views[1].usable("f1", GPU), views[0].hardware("f1", GPU)
        return found[0] // NANO, found[1] // NANO, found[2] // NANO

    steps: list[tuple[Any, tuple[int, int, int]]] = [
        (lambda: apply(snapshot, node("n1", 4)), (1, 4, 4)),
        (lambda: apply(snapshot, node("n2", 4)), (5, 8, 8)),
        (lambda: apply(snapshot, pod("more", "n1", {GPU: 2})), (4, 8, 8)),
        (lambda: snapshot.remove("Node", "", "n1"), (4, 4, 4)),
        (lambda: snapshot.remove("UnqueuedPod", "", "early"), (4, 4, 4)),
        (lambda: apply(snapshot, node("n1", 4)), (6, 8, 8)),
        (lambda: apply(snapshot, pod("more", "n2", {GPU: 1})), (7, 8, 8)),
        (lambda: snapshot.forget("UnqueuedPod", "not allowed"), (8, 8, 8)),
    ]
    assert [(act(), usable())[1] for act, _ in steps] == [expected for _, expected in steps]


LABELLED: dict[str, dict[str, str]] = {
    "bare": {},
    "other": {"app": "x"},
    "queued": {"kueue.x-k8s.io/queue-name": "lq"},
    "of a Job": {"kueue.x-k8s.io/podset": "main"},
}


def test_which_pods_are_outside_of_any_queue() -> None:
    """A pod of an admitted Job need not carry the Job's queue label."""
    of = {name: PROJECTIONS["UnqueuedPod"](pod(name, "n1", {GPU: 1}, **labels)) for name, labels in LABELLED.items()}
    assert {name for name, fact in of.items() if fact is not None} == {"bare", "other"}


@settings(deadline=None, max_examples=300)
@given(CLUSTERS, st.lists(QUEUES | COHORTS | FLAVOR_OBJECTS, min_size=1, max_size=3), SETTINGS)
def test_a_view_with_changes_is_what_the_state_becomes(
    objects: list[Object], writes: list[Object], capacity: Capacity
) -> None:
    snapshot = known(*objects)
    balance = built(snapshot, capacity)
    kept = state(balance)
    view = balance.now
    for value in writes:
        view = after(view, value)
    asked = [(resource, name) for name in FLAVORS for resource in (GPU, AMD)]
    said = [view.assess(resource, [name]) for resource, name in asked]
    assert state(balance) == kept
    apply(snapshot, *writes)
    assert said == [balance.assess(resource, [name]) for resource, name in asked]


# Brute force, from the facts alone


def matching(snapshot: Snapshot, nodes: list[NodeFact], name: str) -> set[str]:
    fact = snapshot.flavor(name)
    if fact is None:
        return set()
    return {each.name for each in nodes if all(each.labels.get(key) == value for key, value in fact.labels.items())}


def counts_here(snapshot: Snapshot, fact: ClusterQueueFact | CohortFact, flavor: str) -> bool:
    for each in fact.checks if isinstance(fact, ClusterQueueFact) else ():
        found = snapshot.admission_check(each.name)
        if each.covers(flavor) and found is not None and found.controller != "example.com/x":
            return False
    return True


def unmet(snapshot: Snapshot, capacity: Capacity, resource: str) -> tuple[int, int]:
    """Of the hardware and of what is usable: over all sets of flavors, the most by which they ask for too much."""
    nodes = [fact for fact in snapshot.facts("Node") if isinstance(fact, NodeFact)]
    hardware = {each.name: max(each.capacity.get(resource, 0), each.allocatable.get(resource, 0)) for each in nodes}
    pods = [fact for fact in snapshot.facts("UnqueuedPod") if isinstance(fact, UnqueuedPodFact)]
    held = {
        each.name: sum(pod.requests.get(resource, 0) for pod in pods if pod.node == each.name)
        for each in nodes
        if capacity.discount_unqueued
    }
    usable = {
        each.name: max(0, each.allocatable.get(resource, 0) - held.get(each.name, 0))
        for each in nodes
        if each.ready
        and not each.cordoned
        and not set(each.taints) & set(capacity.unusable_taints)
        and all(each.labels.get(key) != value for key, value in capacity.unusable_labels.items())
    }
    quotas: list[ClusterQueueFact | CohortFact] = [*snapshot.cluster_queues(), *snapshot.cohorts()]
    floors: dict[str, int] = {}
    for name in FLAVORS:
        said = resource in capacity.declared.get(name, {})
        if name in capacity.ignore_flavors or not (said or (nodes and snapshot.flavor(name))):
            continue
        floors[name] = sum(
            -(-fact.nominal.get((name, resource), 0) // NANO) * NANO
            for fact in quotas
            if said or counts_here(snapshot, fact, name)
        )
    more = {
        name: max(
            0,
            capacity.declared.get(name, {}).get(resource, 0)
            - sum(hardware.get(each, 0) for each in matching(snapshot, nodes, name)),
        )
        for name in floors
    }
    worst = [
        max(
            sum(floors[name] - more[name] for name in chosen)
            - sum(supply.get(each, 0) for each in set().union(*(matching(snapshot, nodes, name) for name in chosen)))
            for size in range(len(floors) + 1)
            for chosen in combinations(floors, size)
        )
        for supply in (hardware, usable)
    ]
    return worst[0], max(worst)


@settings(deadline=None, max_examples=300)
@given(CLUSTERS, SETTINGS)
def test_the_verdict_equals_brute_force(objects: list[Object], capacity: Capacity) -> None:
    snapshot = known(*objects)
    balance = built(snapshot, capacity)
    for resource in (GPU, AMD):
        found = balance.assess(resource, FLAVORS)
        assert (found.unmet_hardware, found.unmet_usable) == unmet(snapshot, capacity, resource)
        if found.cut is not None:
            assert found.cut.excess == (found.unmet_usable if found.cut.usable else found.unmet_hardware)
            assert sum(floor.amount for floor in found.cut.contributions) == found.cut.floors
            assert sum(part.amount for part in found.cut.parts) == found.cut.supply


@settings(deadline=None, max_examples=300)
@given(CLUSTERS, QUEUES | COHORTS | FLAVOR_OBJECTS, SETTINGS)
def test_a_comparison_equals_brute_force(objects: list[Object], write: Object, capacity: Capacity) -> None:
    snapshot = known(*objects)
    balance = built(snapshot, capacity)
    found = compare(balance.now, after(balance, write))
    before = {resource: unmet(snapshot, capacity, resource) for resource in (GPU, AMD)}
    apply(snapshot, write)
    for resource in (GPU, AMD):
        grown = sum(
            each.after.unmet_hardware - each.before.unmet_hardware for each in found if each.resource == resource
        )
        assert grown == unmet(snapshot, capacity, resource)[0] - before[resource][0]
    for each in found:
        # The cut is about what was written.
        if each.worse:
            assert each.after.cut is not None
            touched = {name for name, resource in after_touched(balance, write) if resource == each.resource}
            assert touched & set(each.after.cut.flavors)


def after_touched(balance: Balance, write: Object) -> set[tuple[str, str]]:
    fact = fact_of(write)
    if isinstance(fact, ResourceFlavorFact):
        return {(fact.name, resource) for resource in (GPU, AMD)}
    assert isinstance(fact, ClusterQueueFact | CohortFact)
    return set(fact.nominal)
