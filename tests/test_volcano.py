"""What Volcano's Queues guarantee, against a plain definition, against the nodes, and beside Kueue's floors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quota_objects import GPU, apply, balance, cohort, fact_of, flavor, known, node, queue, units
from webhook.capacity.balance import balance_of
from webhook.capacity.guarantees import ROOT, Guarantee, Guarantees
from webhook.capacity.pending import reservation
from webhook.capacity.volcano import GuaranteeComparison, Volcano, VolcanoBalance, volcano_of
from webhook.capacity.volcano_words import Told, tell
from webhook.engine.policy import Capacity, Policy
from webhook.kube.accelerators import Accelerators, accelerators
from webhook.kube.objects import Path
from webhook.kube.quantity import NANO
from webhook.kube.reservation import Reservation
from webhook.kube.selector import LabelSelector
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.kube.volcano_facts import VolcanoQueueFact, project_volcano_queue

Object = dict[str, Any]
AMD = "amd.com/gpu"
ACCELERATORS = accelerators((GPU, AMD), {})
SHARED = Capacity()
APART = Capacity(volcano_nodes=LabelSelector((("scheduler", "volcano"),)))
TEN = [node("n1", 8), node("n2", 2)]


def vqueue(name: str, guarantee: Any = None, parent: str | None = None, capability: Any = None) -> Object:
    """`guarantee` and `capability`: GPUs, or a whole map."""
    spec: Object = {"weight": 1}
    if guarantee is not None:
        spec["guarantee"] = {"resource": guarantee if isinstance(guarantee, dict) else {GPU: guarantee}}
    if capability is not None:
        spec["capability"] = capability if isinstance(capability, dict) else {GPU: capability}
    if parent is not None:
        spec["parent"] = parent
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def projected(value: Object | None) -> VolcanoQueueFact | None:
    return None if value is None else project_volcano_queue(value)


def compared(
    snapshot: Snapshot, old: Object | None, new: Object, capacity: Capacity = SHARED
) -> tuple[GuaranteeComparison, ...]:
    volcano = volcano_of(snapshot, capacity, ACCELERATORS)
    return volcano.compare(new["metadata"]["name"], projected(old), projected(new))


def told(
    snapshot: Snapshot, old: Object | None, new: Object, capacity: Capacity = SHARED, most: Accelerators = ACCELERATORS
) -> list[Told]:
    return list(tell(new["metadata"]["name"], old, new, snapshot, capacity, most))


def kept(snapshot: Snapshot, capacity: Capacity = SHARED) -> VolcanoBalance:
    volcano_of(snapshot, capacity, ACCELERATORS)
    (found,) = [each for each in snapshot.observers if isinstance(each, VolcanoBalance)]
    return found


def shares(guarantees: Guarantees, resource: str = GPU) -> dict[str, int]:
    return {share.name: units(share.amount) for share in guarantees.shares(resource)}


# What the sum is

SUMS: dict[str, tuple[list[Object], dict[str, int]]] = {
    "each adds its own": ([vqueue("a", 6), vqueue("b", 4)], {"a": 6, "b": 4}),
    "no guarantee": ([vqueue("a"), vqueue("b", 0)], {}),
    "below root is below none": ([vqueue("a", 6, parent="root"), vqueue("b", 4, parent="")], {"a": 6, "b": 4}),
    "root itself says nothing": ([vqueue("root", 99), vqueue("a", 6)], {"a": 6}),
    "a parent adds what is beyond its children's": (
        [vqueue("p", 6), vqueue("a", 2, "p"), vqueue("b", 1, "p")],
        {"p": 3, "a": 2, "b": 1},
    ),
    "children beyond their parent": ([vqueue("p", 6), vqueue("a", 5, "p"), vqueue("b", 4, "p")], {"a": 5, "b": 4}),
    "three levels": (
        [vqueue("g", 10), vqueue("p", 3, "g"), vqueue("a", 5, "p"), vqueue("b", 1, "g")],
        {"g": 4, "a": 5, "b": 1},
    ),
    "a parent that is not there": ([vqueue("a", 5, "p"), vqueue("b", 1, "p")], {"a": 5, "b": 1}),
    "its own parent": ([vqueue("a", 5, "a"), vqueue("b", 1, "a")], {"a": 4, "b": 1}),
    "in a circle each counts for itself": (
        [vqueue("a", 5, "b"), vqueue("b", 7, "c"), vqueue("c", 1, "a"), vqueue("d", 2, "b")],
        {"a": 5, "b": 5, "c": 1, "d": 2},
    ),
    "other resources": ([vqueue("a", {GPU: 2, AMD: 3, "cpu": 8, "memory": "1Gi"})], {"a": 2}),
    "no quantity, and below zero": ([vqueue("a", "many"), vqueue("b", -4), vqueue("c", "1")], {"c": 1}),
}


@pytest.mark.parametrize("case", SUMS)
def test_sums(case: str) -> None:
    objects, expected = SUMS[case]
    for order in (objects, objects[::-1]):
        guarantees = Guarantees()
        for fact in map(projected, order):
            if fact is not None:
                amounts = {each: amount for each, amount in fact.guarantee.items() if amount > 0}
                guarantees.put(fact.name, Guarantee(fact.parent or ROOT, amounts))
        assert shares(guarantees) == expected
        assert units(guarantees.sums().get(GPU, 0)) == sum(expected.values())


def test_half_a_gpu_is_half_a_gpu() -> None:
    (found,) = compared(known(*TEN, vqueue("a", "500m")), None, vqueue("b", 1))
    assert (found.before, found.after) == (NANO // 2, NANO // 2 + NANO)


# Brute force, from the facts alone

NAMES = ("a", "b", "c", "d", "e")
QUEUES = st.builds(
    vqueue,
    st.sampled_from((*NAMES, "root")),
    st.dictionaries(st.sampled_from([GPU, AMD]), st.integers(0, 9)) | st.none(),
    st.sampled_from((*NAMES, "root", "absent")) | st.none(),
)
NODES = st.builds(
    lambda name, gpus, ready, labels: node(name, gpus, labels, ready=ready),
    st.sampled_from(["n1", "n2", "n3"]),
    st.integers(0, 6),
    st.sampled_from(["True", "False"]),
    st.sampled_from([{}, {"scheduler": "volcano"}]),
)
EVENTS = st.lists(
    st.tuples(st.sampled_from(["put", "put", "remove", "relist", "forget"]), QUEUES | QUEUES | NODES), max_size=25
)


def on_circle(facts: Mapping[str, VolcanoQueueFact], name: str) -> bool:
    at = name
    for _ in range(len(facts) + 1):
        at = facts[at].parent if at in facts else ""
        if at == name:
            return True
    return False


def comes_to(facts: Mapping[str, VolcanoQueueFact], name: str, resource: str) -> int:
    """The larger of what a Queue guarantees and what those below it come to."""
    own = facts[name].guarantee.get(resource, 0) if name in facts else 0
    return max(own, below(facts, name, resource))


def below(facts: Mapping[str, VolcanoQueueFact], name: str, resource: str) -> int:
    return sum(
        comes_to(facts, child, resource)
        for child, fact in facts.items()
        if fact.parent == name and not on_circle(facts, child)
    )


def whole_sum(facts: Mapping[str, VolcanoQueueFact], resource: str) -> int:
    named = facts.keys() | {fact.parent for fact in facts.values()} - {""}
    return sum(
        comes_to(facts, name, resource)
        for name in named
        if name not in facts or not facts[name].parent or on_circle(facts, name)
    )


def happen(snapshot: Snapshot, events: list[tuple[str, Object]]) -> None:
    for what, value in events:
        kind, fact = value["kind"], projected(value) if value["kind"] == "Queue" else fact_of(value)
        if fact is None:
            continue
        match what:
            case "put" if kind not in snapshot.unknown():
                snapshot.put(kind, fact)
            case "remove":
                snapshot.remove(kind, "", fact.name)
            case "relist":
                snapshot.replace(kind, [fact])
            case "forget":
                snapshot.forget(kind, "not allowed")


def queues_in(snapshot: Snapshot) -> dict[str, VolcanoQueueFact]:
    found = () if "Queue" in snapshot.unknown() else snapshot.facts("Queue")
    return {fact.name: fact for fact in found if isinstance(fact, VolcanoQueueFact)}


def copied(snapshot: Snapshot) -> Snapshot:
    fresh = Snapshot()
    for kind in {"Node", "Queue"} - snapshot.unknown().keys():
        fresh.replace(kind, snapshot.facts(kind))
    return fresh


def state(found: VolcanoBalance) -> Any:
    """Everything that is kept of Queues, and what the nodes offer."""
    guarantees = found.guarantees
    return guarantees._queues, guarantees._above, guarantees._below, found.offer, found.knows_nodes


@settings(deadline=None, max_examples=200)
@given(EVENTS, st.sampled_from([SHARED, APART]))
def test_sums_equal_a_recount_after_any_events(events: list[tuple[str, Object]], capacity: Capacity) -> None:
    snapshot = known()
    found = kept(snapshot, capacity)
    happen(snapshot, events)
    facts = queues_in(snapshot)
    for resource in (GPU, AMD):
        assert found.guarantees.sums().get(resource, 0) == whole_sum(facts, resource)
        assert {share.name: share.amount for share in found.guarantees.shares(resource)} == {
            name: beyond
            for name, fact in facts.items()
            if (beyond := fact.guarantee.get(resource, 0) - below(facts, name, resource)) > 0
        }
    assert state(found) == state(kept(copied(snapshot), capacity))


@settings(deadline=None, max_examples=150)
@given(st.lists(QUEUES, max_size=8), QUEUES)
def test_a_comparison_is_what_the_state_becomes(objects: list[Object], value: Object) -> None:
    snapshot = known(*TEN)
    happen(snapshot, [("put", each) for each in objects])
    found, facts, fact = kept(snapshot), queues_in(snapshot), projected(value)
    before = state(found)[:3]
    name = value["metadata"]["name"]
    told = volcano_of(snapshot, SHARED, ACCELERATORS).compare(name, facts.get(name), fact)
    assert state(found)[:3] == before
    after = facts if fact is None else {**facts, fact.name: fact}
    sums = {each: (whole_sum(facts, each), whole_sum(after, each)) for each in (GPU, AMD)}
    if fact is None:
        assert told == ()
    else:
        assert {each.resource: (each.before, each.after) for each in told} == {
            resource: pair for resource, pair in sums.items() if pair[0] != pair[1]
        }


@settings(deadline=None, max_examples=150)
@given(st.lists(QUEUES, max_size=8), QUEUES)
def test_what_the_message_says_works(objects: list[Object], value: Object) -> None:
    snapshot = known(*TEN)
    happen(snapshot, [("put", each) for each in objects])
    name = value["metadata"]["name"]
    old = next((each for each in reversed(objects) if each["metadata"]["name"] == name), None)
    for found in told(snapshot, old, value):
        resource = str(found.path[-1])
        if lower := re.search(r"^lower it to (\d+)", found.fix):
            assert worse(snapshot, old, with_guarantee(value, resource, lower[1])) - {resource} == worse(
                snapshot, old, value
            ) - {resource}
            assert resource not in worse(snapshot, old, with_guarantee(value, resource, lower[1]))
        if first := re.search(r'first lower Queue "(\w+)" to (\d+)', found.fix):
            other = next(each for each in reversed(objects) if each["metadata"]["name"] == first[1])
            apply(snapshot, with_guarantee(other, resource, first[2]))
            assert resource not in worse(snapshot, old, value)
            apply(snapshot, other)


def worse(snapshot: Snapshot, old: Object | None, new: Object) -> set[str]:
    return {each.resource for each in compared(snapshot, old, new) if each.worse}


def with_guarantee(value: Object, resource: str, amount: str) -> Object:
    kept = value["spec"]["guarantee"]["resource"]
    return {**value, "spec": {**value["spec"], "guarantee": {"resource": {**kept, resource: amount}}}}


# Against the nodes

Numbers = tuple[int, int, int, int, bool, bool]
"""Sums before and after, hardware, usable; worse, away."""

WRITES: dict[str, tuple[list[Object], Object | None, Object, Numbers]] = {
    "it fits": ([*TEN, vqueue("a", 6)], None, vqueue("b", 4), (6, 10, 10, 10, False, False)),
    "a raise beyond the nodes": (
        [*TEN, vqueue("a", 6), vqueue("b", 4)], vqueue("b", 4), vqueue("b", 5), (10, 11, 10, 10, True, False),
    ),
    "an excess that goes down": (
        [*TEN, vqueue("a", 9), vqueue("b", 9)], vqueue("b", 9), vqueue("b", 2), (18, 11, 10, 10, False, False),
    ),
    "cordoned": (
        [node("n1", 8), node("n2", 2, cordoned=True)], None, vqueue("a", 9), (0, 9, 10, 8, False, True),
    ),
    "not Ready": ([node("n1", 8), node("n2", 2, ready="False")], None, vqueue("a", 9), (0, 9, 10, 8, False, True)),
    "both": (
        [node("n1", 8), node("n2", 2, ready="False")], vqueue("a", 9), vqueue("a", 11), (9, 11, 10, 8, True, False),
    ),
    "no node offers it": ([node("n1", None)], None, vqueue("a", 1), (0, 1, 0, 0, True, False)),
    "out of its parent's guarantee": (
        [*TEN, vqueue("p", 8), vqueue("a", 4, "p")], vqueue("a", 4, "p"), vqueue("a", 4), (8, 12, 10, 10, True, False),
    ),
    "into a circle": (
        [*TEN, vqueue("p", 8), vqueue("a", 4, "p")], vqueue("p", 8), vqueue("p", 8, "a"), (8, 12, 10, 10, True, False),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITES)
def test_writes(case: str) -> None:
    objects, old, new, expected = WRITES[case]
    (found,) = compared(known(*objects), old, new)
    amounts = found.before, found.after, found.hardware, found.usable
    assert (*map(units, amounts), found.worse, found.away) == expected


SILENT: dict[str, tuple[Object | None, Object]] = {
    "a child within its parent's guarantee": (vqueue("a", 1, "p"), vqueue("a", 8, "p")),
    "weight, parent root, another resource": (vqueue("p", 8), vqueue("p", {GPU: 8, "cpu": 4}, "root")),
    "root": (None, vqueue("root", 99)),
}


@pytest.mark.parametrize("case", SILENT)
def test_writes_that_change_no_sum(case: str) -> None:
    old, new = SILENT[case]
    snapshot = known(node("n1", 1), vqueue("p", 8), vqueue("a", 1, "p"))
    assert compared(snapshot, old, new) == ()
    assert told(snapshot, old, new) == []


def test_resources_are_never_added_up() -> None:
    snapshot = known(node("n1", capacity={GPU: "4", AMD: "4"}, allocatable={GPU: "4", AMD: "4"}))
    found = compared(snapshot, None, vqueue("a", {GPU: 3, AMD: 5}))
    assert [(each.resource, units(each.after), each.worse) for each in found] == [(AMD, 5, True), (GPU, 3, False)]


def test_not_evaluated() -> None:
    nowhere = known(vqueue("a", 2))
    with pytest.raises(FactsMissing, match=r"^Node: none known$"):
        compared(nowhere, vqueue("a", 2), vqueue("a", 3))
    assert told(nowhere, vqueue("a", 2), vqueue("a", 1)) == []
    for kind in ("Node", "Queue"):
        snapshot = known(*TEN)
        snapshot.forget(kind, "forbidden")
        with pytest.raises(FactsMissing, match=f"^{kind}: forbidden$"):
            compared(snapshot, None, vqueue("a", 1))
        assert compared(snapshot, None, vqueue("a", capability=8)) == ()
        assert compared(snapshot, vqueue("a", 1), vqueue("a", 1, capability=8)) == ()


def test_without_kueue() -> None:
    snapshot = known(*TEN)
    for kind in ("ClusterQueue", "Cohort", "ResourceFlavor", "AdmissionCheck"):
        snapshot.forget(kind, "not served")
    assert [each.actual for each in told(snapshot, None, vqueue("a", 11))] == [
        '11: guarantees of nvidia.com/gpu: Queue "a" 11; hardware: 10 on 2 nodes'
    ]


# Whose nodes

MIXED = [
    node("k1", 8, {"pool": "x"}),
    node("v1", 4, {"pool": "x", "scheduler": "volcano"}),
    flavor("f", pool="x"),
    queue("q", {"f": 8}),
    vqueue("v", 4),
]


def both_hardwares(snapshot: Snapshot, capacity: Capacity) -> tuple[int, int]:
    """Kueue's in flavor f, and Volcano's."""
    kueue = balance_of(snapshot, capacity, ACCELERATORS).now
    volcano = kept(snapshot, capacity).offer
    return units(kueue.hardware("f", GPU)), units(volcano.hardware.get(GPU, 0))


def test_nodes_are_everybodys_or_have_one_owner() -> None:
    snapshot = known(*MIXED)
    assert both_hardwares(snapshot, SHARED) == (12, 12)
    assert both_hardwares(snapshot, APART) == (8, 4)
    apply(snapshot, node("k1", 8, {"pool": "x", "scheduler": "volcano"}))
    assert both_hardwares(snapshot, APART) == (0, 12)
    apply(snapshot, node("v1", 4, {"pool": "x"}))
    assert both_hardwares(snapshot, APART) == (4, 8)
    snapshot.remove("Node", "", "k1")
    assert both_hardwares(snapshot, APART) == (4, 0)


def test_a_selector_that_no_node_matches_leaves_volcano_none() -> None:
    (found,) = told(known(*TEN), None, vqueue("a", 1), APART)
    assert found.actual == (
        '1: guarantees of nvidia.com/gpu: Queue "a" 1; hardware of capacity.volcanoNodes: 0, for no node offers it'
    )


def test_each_shows_the_others_sum() -> None:
    snapshot = known(*MIXED, cohort("c", {"f": 1}), queue("amd", {"f": 2}, AMD))
    said = {
        capacity: (volcano.beside_kueue(GPU), volcano.beside_volcano(GPU), volcano.beside_kueue(AMD))
        for capacity in ("shared", "apart")
        for volcano in [volcano_of(snapshot, SHARED if capacity == "shared" else APART, ACCELERATORS)]
    }
    assert said == {
        "shared": (
            "; Volcano guarantees, maybe on the same nodes: 4",
            "; Kueue floors, maybe on the same nodes: 9",
            "",
        ),
        "apart": ("; Volcano guarantees, on other nodes: 4", "; Kueue floors, on other nodes: 9", ""),
    }


def test_one_balance_for_each_policy() -> None:
    snapshot = known(*MIXED)
    first = kept(snapshot)
    assert kept(snapshot) is first
    assert kept(snapshot, APART) is not first


def test_an_unchanged_heartbeat_is_no_event() -> None:
    snapshot = known(*MIXED)
    heard: list[str] = []

    class Ear:
        kinds = VolcanoBalance.kinds

        def changed(self, kind: str, before: object, after: object) -> None:
            heard.append(kind)

    snapshot.observe(Ear())
    heard.clear()
    again = node("k1", 8, {"pool": "x"})
    again["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-29T00:00:00Z"
    again["metadata"]["resourceVersion"] = "2"
    apply(snapshot, again, {**vqueue("v", 4), "status": {"allocated": {GPU: 3}}})
    assert heard == []


# What others were promised

UNTIL = "12:05:40 UTC"


def promised(name: str, gpus: int, parent: str = "") -> Reservation:
    return Reservation("Queue", name, "uid", UNTIL, {(parent, GPU): gpus * NANO})


PROMISES: dict[str, tuple[list[Object], list[Reservation], tuple[int, int, bool]]] = {
    "a raise": ([vqueue("b", 2)], [promised("b", 6)], (6, 12, True)),
    "less than what is stored": ([vqueue("b", 4)], [promised("b", 2)], (4, 10, False)),
    "a CREATE": ([], [promised("b", 6)], (6, 12, True)),
    "a CREATE within its parent": ([vqueue("p", 4)], [promised("b", 3, "p")], (4, 10, False)),
    "the largest of two": ([], [promised("b", 3), promised("b", 6), promised("b", 4)], (6, 12, True)),
    "one that moves out": ([vqueue("p", 4), vqueue("b", 3, "p")], [promised("b", 3)], (7, 13, True)),
    "one that moves in, and may not": ([vqueue("p", 4), vqueue("b", 3)], [promised("b", 3, "p")], (7, 13, True)),
    "for the same Queue": ([vqueue("b", 2)], [promised("a", 9)], (2, 8, False)),
    "for a ClusterQueue": ([], [Reservation("ClusterQueue", "q", "uid", UNTIL, {("f", GPU): 9 * NANO})], (0, 6, False)),
}


@pytest.mark.parametrize("case", PROMISES)
def test_promises(case: str) -> None:
    objects, reserved, expected = PROMISES[case]
    snapshot = known(*TEN, *objects).overlaid({}, reserved)
    (found,) = compared(snapshot, None, vqueue("a", 6))
    assert (units(found.before), units(found.after), found.worse) == expected


def test_what_was_just_read_counts() -> None:
    snapshot = known(*TEN, vqueue("gone", 4), vqueue("raised", 1))
    live = [fact for fact in map(projected, [vqueue("raised", 3), vqueue("new", 2)]) if fact is not None]
    (found,) = compared(snapshot.overlaid({"Queue": live}, [promised("new", 3)]), None, vqueue("a", 4))
    assert shares(found.queues) == {"a": 4, "raised": 3, "new": 3}
    assert shares(kept(snapshot).guarantees) == {"gone": 4, "raised": 1}


RAISES: dict[str, tuple[Object | None, Object, dict[tuple[str, str], int] | None]] = {
    "a CREATE": (None, vqueue("a", {GPU: 2, AMD: 1, "cpu": 4}), {("", GPU): 2, ("", AMD): 1}),
    "only what is raised": (vqueue("a", {GPU: 2, AMD: 1}), vqueue("a", {GPU: 2, AMD: 3}), {("", AMD): 3}),
    "lowered": (vqueue("a", 2), vqueue("a", 1), None),
    "untouched": (vqueue("a", 2, "p"), vqueue("a", 2, "p", capability=8), None),
    "under another parent": (vqueue("a", 2, "p"), vqueue("a", 2), {("", GPU): 2}),
    "root": (None, vqueue("root", 2), None),
}


@pytest.mark.parametrize("case", RAISES)
def test_what_a_write_is_promised(case: str) -> None:
    old, new, expected = RAISES[case]
    found = reservation(balance(), "Queue", "a", projected(old), projected(new), "uid", UNTIL)
    floors = None if expected is None else {key: amount * NANO for key, amount in expected.items()}
    assert found == (None if floors is None else Reservation("Queue", "a", "uid", UNTIL, floors))


# What is told

GUARANTEE = ("spec", "guarantee", "resource", GPU)
MUST = "must keep the guarantees within the hardware"


def test_the_order_that_works() -> None:
    snapshot = known(*TEN, vqueue("a", 5), vqueue("b", 5), queue("q", {"f": 3}))
    assert told(snapshot, vqueue("a", 5), vqueue("a", 7)) == [
        Told(
            GUARANTEE,
            MUST,
            '7: guarantees of nvidia.com/gpu: Queue "a" 7 + Queue "b" 5 = 12; hardware: 10 on 2 nodes; '
            "Kueue floors, maybe on the same nodes: 3",
            'lower it to 5, or first lower Queue "b" to 3, then repeat this write',
            resource=GPU,
        )
    ]
    apply(snapshot, vqueue("b", 3))
    assert told(snapshot, vqueue("a", 5), vqueue("a", 7)) == []


def test_an_excess_that_was_there_is_not_blamed_on_the_write() -> None:
    (found,) = told(known(*TEN, vqueue("a", 12), vqueue("b", 1)), vqueue("b", 1), vqueue("b", 3))
    assert found.fix == 'lower it to 1, or first lower Queue "a" to 7, then repeat this write'


def test_parents_show_what_they_guarantee_beyond_their_children() -> None:
    snapshot = known(*TEN, vqueue("p", 9), vqueue("c", 4, "p"), vqueue("d", 1))
    (found,) = told(snapshot, vqueue("p", 9), vqueue("p", 11))
    assert found.actual == (
        '11: guarantees of nvidia.com/gpu: Queue "p" 7 (11 less its children\'s 4) + Queue "c" 4 + Queue "d" 1 = 12; '
        "hardware: 10 on 2 nodes"
    )
    # Less for its child is no way out: what c does not guarantee, p does.
    assert found.fix == "lower it to 9"


def test_a_move_is_told_at_the_parent() -> None:
    snapshot = known(*TEN, vqueue("p", 8), vqueue("a", 4, "p"))
    assert told(snapshot, vqueue("a", 4, "p"), vqueue("a", 4)) == [
        Told(
            ("spec", "parent"),
            MUST,
            'none: guarantees of nvidia.com/gpu: Queue "p" 8 + Queue "a" 4 = 12; hardware: 10 on 2 nodes',
            'keep its parent, or first lower Queue "p" to 6, then repeat this write',
            resource=GPU,
        )
    ]


def test_a_promise_is_named_with_its_end() -> None:
    snapshot = known(*TEN, vqueue("b", 5)).overlaid({}, [promised("b", 6)])
    (found,) = told(snapshot, None, vqueue("a", 5))
    assert (found.actual, found.fix) == (
        '5: guarantees of nvidia.com/gpu: Queue "b" 6 (reserved until 12:05:40 UTC for a write that is not stored yet)'
        ' + Queue "a" 5 = 11; hardware: 10 on 2 nodes',
        'lower it to 4, or try again after 12:05:40 UTC, or first lower Queue "b" to 5, then repeat this write',
    )


def test_only_the_largest_are_listed() -> None:
    snapshot = known(node("n1", 8), *(vqueue(f"q{number}", 1) for number in range(9)))
    (found,) = told(snapshot, None, vqueue("z", 3))
    listed = " + ".join(['Queue "z" 3', *(f'Queue "q{number}" 1' for number in range(7))])
    assert found.actual == f"3: guarantees of nvidia.com/gpu: {listed} + 2 more 2 = 12; hardware: 8 on 1 node"
    assert found.fix == "lower it to 0, or first lower other guarantees by 4 in all, then repeat this write"


def test_capacity_that_is_away_is_advice() -> None:
    assert told(known(node("n1", 8), node("n2", 2, cordoned=True)), None, vqueue("a", 9)) == [
        Told(
            GUARANTEE,
            "must fit what is usable now",
            "9: capacity is away, 9 guaranteed, 8 of 10 nvidia.com/gpu usable",
            "bring nodes back",
            advice=True,
            resource=GPU,
        )
    ]


CAPABILITY = ("spec", "capability", GPU)
NO_QUANTITY = "write a whole number, such as 1: this counts as 0"
WITHIN: dict[str, tuple[Object, list[tuple[Path, str, str, str]]]] = {
    "capability below the guarantee": (
        vqueue("a", 5, capability="3"),
        [
            (
                CAPABILITY,
                "must not be below the guarantee, 5",
                "3",
                "raise it, or lower spec.guarantee.resource: the queue never gets what it is guaranteed",
            )
        ],
    ),
    "equal": (vqueue("a", 5, capability="5000m"), []),
    "a capability of other resources": (vqueue("a", {GPU: 5, "cpu": 4}, capability={"cpu": 2}), []),
    "no quantity": (
        vqueue("a", "five", capability=3),
        [(GUARANTEE, "must be a quantity", "'five', not a quantity such as 1 or 500m", NO_QUANTITY)],
    ),
    "a capability that is none": (
        vqueue("a", 5, capability={GPU: True}),
        [(CAPABILITY, "must be a quantity", "true, not a quantity such as 1 or 500m", NO_QUANTITY)],
    ),
    "root, which Volcano writes": (vqueue("root", 5, capability=3), []),
}


@pytest.mark.parametrize("case", WITHIN)
def test_what_a_queue_says_by_itself(case: str) -> None:
    value, expected = WITHIN[case]
    assert told(known(*TEN), None, value) == [Told(*each, advice=True) for each in expected]


def test_it_is_told_even_if_nothing_can_be_compared() -> None:
    value = vqueue("a", 5, capability=3)
    found = tell("a", None, value, known(), SHARED, ACCELERATORS)
    assert next(found).path == CAPABILITY
    with pytest.raises(FactsMissing, match="Node: none known"):
        next(found)


@pytest.mark.parametrize(
    "damage", [None, "x", 7, True, [], ["x"], {}, {"resource": "x"}, {GPU: {}}, {"resource": {GPU: []}}]
)
def test_damaged_objects_raise_nothing(damage: Any) -> None:
    snapshot = known(*TEN)
    for field in ("parent", "guarantee", "capability"):
        value = {**vqueue("a"), "spec": {"guarantee": {"resource": {GPU: 1}}, field: damage}}
        for one, other in ((vqueue("a", 1), value), (value, vqueue("a", 1)), (value, value)):
            assert all(each.advice for each in told(snapshot, one, other))
    for whole in ({**vqueue("a"), "spec": damage}, {**vqueue("a"), "metadata": {"name": "a", "labels": damage}}):
        assert told(snapshot, None, whole) == []


def test_the_default_policy_covers_what_volcano_is_asked_for() -> None:
    volcano = volcano_of(known(*TEN, vqueue("v", 4)), SHARED, Policy().accelerators)
    assert isinstance(volcano, Volcano)
    assert volcano.beside_kueue(GPU) == "; Volcano guarantees, maybe on the same nodes: 4"
