"""Floors against hardware: a table for each thing that can be asked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.quota_objects import (
    GPU,
    after,
    balance,
    check,
    checked,
    cohort,
    declared,
    fact_of,
    flavor,
    known,
    node,
    queue,
    units,
)
from webhook.capacity.assessment import Assessment, Part
from webhook.capacity.balance import Balance, balance_of
from webhook.capacity.comparison import Comparison, compare
from webhook.capacity.words import describe
from webhook.engine.policy import DEFAULT_RESOURCES, Capacity, Policy
from webhook.kube.accelerators import accelerators
from webhook.kube.quantity import NANO

Object = dict[str, Any]
TEN = [node("n1", 8), node("n2", 2), flavor("f")]
"""One flavor for every node, ten GPUs."""


def numbers(found: Assessment) -> tuple[int, int, int, int, int]:
    """hardware, usable, floors, unmet of hardware, unmet of usable."""
    amounts = found.hardware, found.usable, found.floors, found.unmet_hardware, found.unmet_usable
    hardware, usable, floors, unmet_hardware, unmet_usable = map(units, amounts)
    return hardware, usable, floors, unmet_hardware, unmet_usable


def compared(state: Balance, value: Object) -> Comparison:
    """The one comparison that a write comes to."""
    (found,) = compare(state.now, after(state, value))
    return found


# What a floor is

SUMS: dict[str, tuple[list[Object], tuple[int, int, int, int, int]]] = {
    "equality fits": ([queue("a", {"f": 6}), queue("b", {"f": 4})], (10, 10, 10, 0, 0)),
    "two floors of six": ([queue("a", {"f": 6}), queue("b", {"f": 6})], (10, 10, 12, 2, 2)),
    "no floors": ([], (10, 10, 0, 0, 0)),
    "a Cohort's quota adds to its members'": (
        [cohort("c", {"f": 8}), queue("a", {"f": 4}, cohortName="c"), queue("b", {"f": 4}, cohortName="c")],
        (10, 10, 16, 6, 6),
    ),
    "nested Cohorts all count": (
        [cohort("c", {"f": 3}, parentName="d"), cohort("d", {"f": 4}), queue("a", {"f": 4}, cohortName="c")],
        (10, 10, 11, 1, 1),
    ),
    "a Cohort and a ClusterQueue of one name": ([cohort("a", {"f": 3}), queue("a", {"f": 4})], (10, 10, 7, 0, 0)),
    "half a GPU counts as one": ([queue("a", {"f": "0.5"}), queue("b", {"f": "9500m"})], (10, 10, 11, 1, 1)),
    "limits are no floors": (
        [queue("a", {"f": {"nominalQuota": 5, "borrowingLimit": 90, "lendingLimit": 1}}, cohortName="c")],
        (10, 10, 5, 0, 0),
    ),
    "stopPolicy Hold removes no floor": ([queue("a", {"f": 12}, stopPolicy="Hold")], (10, 10, 12, 2, 2)),
    "another resource is never added": (
        [queue("a", {"f": 10}), queue("b", {"f": 4}, "amd.com/gpu"), queue("c", {"f": 99}, "cpu")],
        (10, 10, 10, 0, 0),
    ),
    "what is no quantity, or negative, is no floor": (
        [queue("a", {"f": "many"}), queue("b", {"f": -4}), queue("c", {"f": 1})],
        (10, 10, 1, 0, 0),
    ),
}


@pytest.mark.parametrize("case", SUMS)
def test_floors_add_up(case: str) -> None:
    objects, expected = SUMS[case]
    assert numbers(balance(*TEN, *objects).assess(GPU, ["f"])) == expected


def test_the_same_flavor_in_two_resource_groups() -> None:
    both = queue("a", {"f": 3})
    both["spec"]["resourceGroups"] += queue("a", {"f": 2}, "amd.com/gpu")["spec"]["resourceGroups"]
    state = balance(*TEN, both)
    assert numbers(state.assess(GPU, ["f"])) == (10, 10, 3, 0, 0)
    assert numbers(state.assess("amd.com/gpu", ["f"])) == (0, 0, 2, 2, 2)


def test_slices_and_whole_cards_are_apart() -> None:
    amounts = {GPU: "4", "nvidia.com/mig-3g.40gb": "8", "nvidia.com/gpu.shared": "16", "example.com/fpga": "2"}
    state = balance(node("n", capacity=amounts, allocatable=amounts), flavor("f"), queue("a", {"f": 5}))
    found = {resource: numbers(state.assess(resource, ["f"])) for resource in sorted(amounts)}
    assert found == {
        "example.com/fpga": (0, 0, 0, 0, 0),
        "nvidia.com/gpu": (4, 4, 5, 1, 1),
        "nvidia.com/gpu.shared": (16, 16, 0, 0, 0),
        "nvidia.com/mig-3g.40gb": (8, 8, 0, 0, 0),
    }
    assert state.offered() == {GPU, "nvidia.com/mig-3g.40gb", "nvidia.com/gpu.shared", "example.com/fpga"}


# Three numbers

LABELLED = {"autopilot.ibm.com/gpuhealth": "ERR"}
SETTINGS = Capacity(unusable_taints=("nvidia.com/unhealthy",), unusable_labels=LABELLED)
NODES: dict[str, tuple[Object, tuple[int, int]]] = {
    "ready": (node("n"), (8, 8)),
    "not ready": (node("n", ready="False"), (8, 0)),
    "not heard of": (node("n", ready="Unknown"), (8, 0)),
    "cordoned": (node("n", cordoned=True), (8, 0)),
    "with a taint of the policy's": (node("n", taints=("x", "nvidia.com/unhealthy")), (8, 0)),
    "with another taint": (node("n", taints=("nvidia.com/gpu",)), (8, 8)),
    "with a label of the policy's": (node("n", labels=LABELLED), (8, 0)),
    "with that label at another value": (node("n", labels={"autopilot.ibm.com/gpuhealth": "PASS"}), (8, 8)),
    "allocatable 0": (node("n", allocatable={GPU: "0"}), (8, 0)),
    "allocatable without it": (node("n", allocatable={"cpu": "96"}), (8, 0)),
    "one of eight unhealthy": (node("n", allocatable={GPU: "7"}), (8, 7)),
    "reported too high after a restart": (node("n", capacity={GPU: "4"}, allocatable={GPU: "8"}), (8, 8)),
    "capacity without it": (node("n", capacity={}, allocatable={GPU: "8"}), (8, 8)),
    "both 0": (node("n", 0), (0, 0)),
    "neither": (node("n", None), (0, 0)),
    "not a quantity": (node("n", "many"), (0, 0)),
}


@pytest.mark.parametrize("case", NODES)
def test_hardware_and_usable_are_never_mixed(case: str) -> None:
    value, expected = NODES[case]
    now = balance(value, node("other", None), flavor("f"), settings=SETTINGS).now
    assert (units(now.hardware("f", GPU)), units(now.usable("f", GPU))) == expected


def test_a_node_that_goes_takes_its_gpus_along() -> None:
    snapshot = known(*TEN, queue("a", {"f": 10}))
    state = balance_of(snapshot, Capacity(), Policy().accelerators)
    snapshot.remove("Node", "", "n2")
    assert numbers(state.assess(GPU, ["f"])) == (8, 8, 10, 2, 2)


# The change is judged

FULL = [*TEN, queue("a", {"f": 5}), queue("b", {"f": 5})]
AWAY = [node("n1", 8), node("n2", 2, ready="False"), flavor("f"), queue("a", {"f": 5})]
OVER = [*TEN, queue("a", {"f": 9}), queue("b", {"f": 9})]
APART = [node("n1", 8, {"pool": "x"}), node("n2", 2, {"pool": "y"}), flavor("x", pool="x"), flavor("y", pool="y")]
WRITES: dict[str, tuple[list[Object], Object, tuple[bool, bool, bool]]] = {
    # worse, away, lowered
    "a second queue that fits": ([*TEN, queue("a", {"f": 6})], queue("b", {"f": 4}), (False, False, False)),
    "a second queue that does not": ([*TEN, queue("a", {"f": 6})], queue("b", {"f": 6}), (True, True, False)),
    "7/3 from 5/5, the raise first": (FULL, queue("a", {"f": 7}), (True, True, False)),
    "7/3 from 5/5, the other first": (FULL, queue("b", {"f": 3}), (False, False, True)),
    "lowering an excess that stays one": (OVER, queue("a", {"f": 8}), (False, False, True)),
    "raising an excess": (OVER, queue("a", {"f": 10}), (True, True, False)),
    "an excess elsewhere": (
        [*APART, queue("a", {"x": 9}), queue("b", {"y": 1})],
        queue("b", {"y": 2}),
        (False, False, False),
    ),
    "above usable, within hardware": (AWAY, queue("a", {"f": 9}), (False, True, False)),
    "above hardware while some is away": (AWAY, queue("a", {"f": 11}), (True, True, False)),
    "lowering while capacity is away": ([*AWAY, queue("b", {"f": 5})], queue("b", {"f": 4}), (False, False, True)),
    "a Cohort's quota is raised": ([*FULL, cohort("c")], cohort("c", {"f": 1}), (True, True, False)),
}


@pytest.mark.parametrize("case", WRITES)
def test_a_write_is_denied_when_more_is_unmet_after_it(case: str) -> None:
    objects, value, (worse, away, lowered) = WRITES[case]
    found = compared(balance(*objects), value)
    assert (found.worse, found.worse or found.away, found.lowered) == (worse, away, lowered)


UNTOUCHED: dict[str, Object] = {
    "the same again": queue("a", {"f": 9}),
    "a limit, a cohort, preemption": queue(
        "a",
        {"f": {"nominalQuota": 9, "borrowingLimit": 0}},
        cohortName="c",
        preemption={"reclaimWithinCohort": "Any"},
    ),
    "another resource": queue("c", {"f": 9}, "cpu"),
    "a flavor as it is": flavor("f"),
    "a flavor that no floor names": flavor("g", pool="x"),
    "half a GPU that counted as a whole one": queue("a", {"f": "8500m"}),
}


@pytest.mark.parametrize("case", UNTOUCHED)
def test_a_write_that_leaves_floors_alone_is_not_even_compared(case: str) -> None:
    state = balance(*OVER)
    assert compare(state.now, after(state, UNTOUCHED[case])) == ()


def test_what_a_queue_gives_up_in_one_flavor_does_not_pay_for_another() -> None:
    state = balance(*APART, queue("a", {"x": 12, "y": 2}))
    found = compare(state.now, after(state, queue("a", {"x": 10, "y": 4})))
    assert [(each.after.flavors, each.worse, each.lowered) for each in found] == [
        (("x",), False, True),
        (("y",), True, False),
    ]


def test_the_state_before_is_the_old_object_wherever_the_watch_is() -> None:
    state = balance(*TEN, queue("a", {"f": 3}))
    before, then = after(state, queue("a", {"f": 11})), after(state, queue("a", {"f": 10}))
    (found,) = compare(before, then)
    assert (units(found.before.unmet_hardware), units(found.after.unmet_hardware)) == (1, 0)


def test_several_changes_at_once() -> None:
    """As with reservations of raises that are not stored yet."""
    state = balance(*FULL)
    held = after(after(state, queue("a", {"f": 7})), queue("b", {"f": 3}))
    assert numbers(held.assess(GPU, ["f"])) == (10, 10, 10, 0, 0)
    (found,) = compare(held, after(held, queue("c", {"f": 1})))
    assert found.worse
    assert numbers(state.assess(GPU, ["f"])) == (10, 10, 10, 0, 0)


def test_a_queue_that_goes() -> None:
    state = balance(*OVER)
    assert numbers(state.with_change("ClusterQueue", "a", None).assess(GPU, ["f"])) == (10, 10, 9, 0, 0)


# Flavors that are written

POOLS = [
    node("n1", 8, {"pool": "x"}),
    node("n2", 4, {"pool": "x", "zone": "1"}),
    node("n3", 4, {"pool": "y"}),
    flavor("x", pool="x"),
    queue("a", {"x": 10}),
]
FLAVOR_WRITES: dict[str, tuple[Object, int, bool]] = {
    # hardware after, worse
    "takes all nodes": (flavor("x", pool="z"), 0, True),
    "takes too many nodes": (flavor("x", pool="x", zone="1"), 4, True),
    "takes some nodes and brings others": (flavor("x", pool="y"), 4, True),
    "brings nodes": (flavor("x"), 16, False),
    "names a key that none named": (flavor("x", **{"kubernetes.io/hostname": "n1"}), 8, True),
}


@pytest.mark.parametrize("case", FLAVOR_WRITES)
def test_a_flavor_that_takes_nodes_is_judged_like_a_raise(case: str) -> None:
    value, hardware, worse = FLAVOR_WRITES[case]
    state = balance(*POOLS)
    found = compared(state, value)
    assert (units(found.after.hardware), found.worse, found.lowered) == (hardware, worse, False)
    assert units(state.now.hardware("x", GPU)) == 12
    # The same, once it is stored.
    assert units(balance(*POOLS, value).now.hardware("x", GPU)) == hardware


def test_a_flavor_that_does_not_exist_is_unknown_and_its_creation_raises_every_floor() -> None:
    state = balance(node("n", 8), queue("a", {"f": 9}), queue("b", {"f": 2}))
    found = state.assess(GPU, ["f"])
    assert not found.evaluated
    assert found.unknown == {"f": 'ResourceFlavor "f" does not exist yet'}
    assert not compared(state, queue("a", {"f": 99})).worse
    created = compared(state, flavor("f"))
    assert (created.before.evaluated, created.worse, units(created.after.unmet_hardware)) == (False, True, 3)
    assert compared(balance(node("n", 8), queue("a", {"f": 8})), flavor("f")).worse is False
    gone = balance(node("n", 8), flavor("f"), queue("a", {"f": 9}))
    (found_gone,) = compare(gone.now, gone.with_change("ResourceFlavor", "f", None))
    assert (found_gone.worse, found_gone.after.evaluated) == (False, False)


# What nodes do not say

UNSAID: dict[str, tuple[list[Object], Capacity, tuple[int, int, int, int, int] | str]] = {
    "no Node at all": ([flavor("f"), queue("a", {"f": 4})], Capacity(), "Node: none known"),
    "no Node, declared": ([flavor("f"), queue("a", {"f": 4})], Capacity(declared(f=3)), (3, 3, 4, 1, 1)),
    "nodes, and none of the flavor's": (
        [node("n"), flavor("f", pool="x"), queue("a", {"f": 4})],
        Capacity(),
        (0, 0, 4, 4, 4),
    ),
    "nodes, and none that offers it": (
        [node("n", None), flavor("f"), queue("a", {"f": 4})],
        Capacity(),
        (0, 0, 4, 4, 4),
    ),
    "no flavor, declared": ([queue("a", {"f": 4})], Capacity(declared(f=4)), (4, 4, 4, 0, 0)),
    "declared above hardware": ([*TEN, queue("a", {"f": 12})], Capacity(declared(f=16)), (16, 16, 12, 0, 0)),
    "declared below hardware": ([*TEN, queue("a", {"f": 12})], Capacity(declared(f=4)), (10, 10, 12, 2, 2)),
    "declared, and nodes are away": (
        [node("n1", 8, ready="False"), flavor("f"), queue("a", {"f": 12})],
        Capacity(declared(f=10)),
        (10, 2, 12, 2, 10),
    ),
    "another resource is declared": (
        [flavor("f"), queue("a", {"f": 4})],
        Capacity({"f": {"amd.com/gpu": 9 * NANO}}),
        "Node: none known",
    ),
    "none at all is declared": ([flavor("f"), queue("a", {"f": 4})], Capacity(declared(f=0)), (0, 0, 4, 4, 4)),
}


@pytest.mark.parametrize("case", UNSAID)
def test_unknown_is_not_zero(case: str) -> None:
    objects, settings, expected = UNSAID[case]
    found = balance(*objects, settings=settings).assess(GPU, ["f"])
    if isinstance(expected, str):
        assert (found.evaluated, found.unknown) == (False, {"f": expected})
    else:
        assert (numbers(found), found.unknown) == (expected, {})


def test_ignored_flavors_have_no_floors() -> None:
    state = balance(
        *TEN, queue("a", {"f": 99, "g": 2}), flavor("g"), settings=Capacity(ignore_flavors=frozenset({"f"}))
    )
    assert numbers(state.assess(GPU, ["g"])) == (10, 10, 2, 0, 0)
    assert not state.assess(GPU, ["f"]).evaluated
    assert compare(state.now, after(state, queue("a", {"f": 100, "g": 2}))) == ()


MULTIKUEUE = check("remote", "kueue.x-k8s.io/multikueue")
AUTOSCALED = check("scaled", "kueue.x-k8s.io/provisioning-request")
CHECKS: dict[str, tuple[list[Object], Capacity, int, list[str]]] = {
    # floors that count, and why the others do not
    "MultiKueue": (
        [MULTIKUEUE, queue("a", {"f": 99}, admissionChecksStrategy=checked("remote"))],
        Capacity(),
        3,
        ['its AdmissionCheck "remote" has the MultiKueue controller'],
    ),
    "ProvisioningRequest": (
        [AUTOSCALED, queue("a", {"f": 99}, admissionChecksStrategy=checked("scaled"))],
        Capacity(),
        3,
        ['its AdmissionCheck "scaled" has the ProvisioningRequest controller'],
    ),
    "another controller": (
        [check("other", "example.com/x"), queue("a", {"f": 4}, admissionChecksStrategy=checked("other"))],
        Capacity(),
        7,
        [],
    ),
    "a check that does not exist": (
        [queue("a", {"f": 99}, admissionChecksStrategy=checked("remote"))],
        Capacity(),
        102,
        [],
    ),
    "on another flavor alone": (
        [MULTIKUEUE, queue("a", {"f": 4}, admissionChecksStrategy=checked("remote", on=("g",)))],
        Capacity(),
        7,
        [],
    ),
    "declared": (
        [MULTIKUEUE, queue("a", {"f": 99}, admissionChecksStrategy=checked("remote"))],
        Capacity(declared(f=200)),
        102,
        [],
    ),
}


@pytest.mark.parametrize("case", CHECKS)
def test_queues_whose_hardware_is_elsewhere_are_not_evaluated(case: str) -> None:
    objects, settings, floors, reasons = CHECKS[case]
    state = balance(*TEN, queue("here", {"f": 3}), *objects, settings=settings)
    found = state.assess(GPU, ["f"])
    assert units(found.floors) == floors
    assert [floor.uncounted for floor in found.uncounted] == reasons


def test_a_check_that_comes_late_counts_from_then_on() -> None:
    value = queue("a", {"f": 99}, admissionChecksStrategy=checked("late"))
    snapshot = known(*TEN, value)
    state = balance_of(snapshot, Capacity(), Policy().accelerators)
    snapshot.put("AdmissionCheck", fact_of(check("late", "example.com/x")))
    assert numbers(state.assess(GPU, ["f"])) == (10, 10, 99, 89, 89)
    snapshot.put("AdmissionCheck", fact_of(MULTIKUEUE | {"metadata": {"name": "late"}}))
    assert numbers(state.assess(GPU, ["f"])) == (10, 10, 0, 0, 0)
    # Without the check the floor is one of this cluster's again.
    assert compared(state, queue("a", {"f": 99})).worse


def test_a_check_that_goes_or_that_the_queue_lets_go() -> None:
    remote = checked("remote")
    queues = [queue(name, {"f": floor}, admissionChecksStrategy=remote) for name, floor in (("a", 4), ("b", 5))]
    snapshot = known(*TEN, MULTIKUEUE, *queues)
    state = balance_of(snapshot, Capacity(), Policy().accelerators)
    snapshot.put("ClusterQueue", fact_of(queue("a", {"f": 4})))
    assert units(state.assess(GPU, ["f"]).floors) == 4
    snapshot.remove("AdmissionCheck", "", "remote")
    found = state.assess(GPU, ["f"])
    assert units(found.floors) == 9
    assert found.uncounted == ()
    snapshot.put("AdmissionCheck", fact_of(check("remote", "example.com/x")))
    assert units(state.assess(GPU, ["f"]).floors) == 9


def test_a_view_lists_floors_as_the_write_makes_them() -> None:
    state = balance(*TEN, MULTIKUEUE, queue("a", {"f": 4, "g": 1}), queue("b", {"f": 5}), cohort("a", {"f": 1}))
    view = after(state, queue("a", {"g": 2}))
    assert [(floor.source, units(floor.amount)) for floor in view.contributions("f", GPU)] == [
        (("ClusterQueue", "b"), 5),
        (("Cohort", "a"), 1),
    ]
    remote = after(state, queue("a", {"f": 6}, admissionChecksStrategy=checked("remote")))
    assert units(remote.floors("f", GPU)) == 6
    assert [(floor.source, units(floor.amount)) for floor in remote.assess(GPU, ["f"]).uncounted] == [
        (("ClusterQueue", "a"), 6)
    ]


# Flavors that share nodes

SHARED = [
    node("a1", 4, {"model": "a"}),
    node("ab", 4, {"model": "a", "spot": "yes"}),
    node("b1", 2, {"spot": "yes"}),
    flavor("a", model="a"),
    flavor("spot", spot="yes"),
]
OVERLAPS: dict[str, tuple[list[Object], tuple[int, int, int, int, int]]] = {
    "each fits alone, and both do": ([queue("q", {"a": 6, "spot": 4})], (10, 10, 10, 0, 0)),
    "each fits alone, and both do not": ([queue("q", {"a": 7, "spot": 5})], (10, 10, 12, 2, 2)),
    "one takes what the other leaves": ([queue("q", {"a": 4, "spot": 6})], (10, 10, 10, 0, 0)),
    "one takes more than it has": ([queue("q", {"a": 9, "spot": 1})], (10, 10, 10, 1, 1)),
}


@pytest.mark.parametrize("case", OVERLAPS)
def test_flavors_that_share_nodes_are_judged_together(case: str) -> None:
    objects, expected = OVERLAPS[case]
    state = balance(*SHARED, *objects)
    for asked in (["a"], ["spot"], ["a", "spot"]):
        assert numbers(state.assess(GPU, asked)) == expected


def test_a_flavor_without_floors_brings_nothing_together() -> None:
    state = balance(*SHARED, flavor("all"), queue("q", {"a": 6}))
    assert state.assess(GPU, ["a"]).flavors == ("a",)
    assert state.assess(GPU, ["spot"]).flavors == ("spot",)
    assert units(state.assess(GPU, ["spot", "a"]).unclaimed) == 4


def test_a_floor_that_is_not_counted_makes_no_second_entry() -> None:
    both = queue("q", {"a": 9, "spot": 1}, admissionChecksStrategy=checked("remote", on=("spot",)))
    state = balance(*SHARED, MULTIKUEUE)
    (on_a, on_spot) = compare(state.now, after(state, both))
    assert (on_a.after.flavors, on_a.worse) == (("a",), True)
    assert (on_spot.after.flavors, on_spot.worse, len(on_spot.after.uncounted)) == (("spot",), False, 1)


def test_declared_capacity_is_nobody_elses() -> None:
    both = queue("q", {"a": 4, "spot": 12})
    assert numbers(balance(*SHARED, both, settings=Capacity(declared(a=14))).assess(GPU, ["a"]))[3] == 6
    assert numbers(balance(*SHARED, both, settings=Capacity(declared(spot=14))).assess(GPU, ["a"]))[3] == 0


def test_usable_is_never_better_off_than_hardware() -> None:
    """Two declared flavors whose shared node is away: what is declared beyond it makes up for none of it."""
    objects = [node("n", 10, ready="False"), flavor("a"), flavor("b"), queue("q", {"a": 10, "b": 10})]
    found = balance(*objects, settings=Capacity(declared(a=10, b=10))).assess(GPU, ["a"])
    assert (units(found.unmet_hardware), units(found.unmet_usable)) == (10, 20)


CHAIN = [
    *(node(name, 8, {"pool": name, side: "yes"}) for name, side in (("a", "left"), ("b", "right"))),
    node("c", 8, {"left": "yes", "right": "yes"}),
    flavor("a", pool="a"),
    flavor("b", pool="b"),
    flavor("left", left="yes"),
    flavor("right", right="yes"),
    queue("q", {"a": 9, "left": 1, "right": 1, "b": 11}),
]


@pytest.mark.parametrize(("asked", "cut"), [("a", ("a",)), ("b", ("b",)), ("left", ("a", "b")), ("right", ("a", "b"))])
def test_a_cut_is_about_what_was_asked_if_it_is_in_one(asked: str, cut: tuple[str, ...]) -> None:
    found = balance(*CHAIN).assess(GPU, [asked])
    assert (found.flavors, units(found.unmet_hardware)) == (("a", "b", "left", "right"), 4)
    assert found.cut is not None
    assert found.cut.flavors == cut


def test_both_sides_of_a_comparison_are_summed_over_the_same_flavors() -> None:
    """A flavor that gets, or lets go of, nodes of another that is in excess anyway."""
    over = [
        node("p", 2, {"pool": "p"}),
        node("y", 8, {"pool": "y"}),
        flavor("g", pool="y"),
        queue("q", {"f": 2, "g": 9}),
    ]
    apart, together = flavor("f", pool="p"), flavor("f")
    found = compared(balance(*over, apart), together)
    assert (found.worse, found.before.flavors, found.after.flavors) == (False, ("f", "g"), ("f", "g"))
    found = compared(balance(*over, together), apart)
    assert (found.worse, found.before.flavors, found.after.flavors) == (False, ("f", "g"), ("f", "g"))
    found = compared(balance(*over, together), flavor("f", pool="none"))
    assert (found.worse, units(found.before.unmet_hardware), units(found.after.unmet_hardware)) == (True, 1, 3)


def test_the_tightest_cut() -> None:
    state = balance(
        *SHARED, node("c", 8, {"model": "c"}), flavor("c", model="c"), queue("q", {"a": 9, "spot": 2, "c": 9})
    )
    cut = state.assess(GPU, ["a", "spot"]).cut
    assert cut is not None
    assert (cut.flavors, units(cut.floors), units(cut.supply), units(cut.excess)) == (("a",), 9, 8, 1)
    assert cut.parts == (Part(("a",), 4 * NANO, 1), Part(("a", "spot"), 4 * NANO, 1))
    assert [(floor.source, floor.flavor, units(floor.amount)) for floor in cut.contributions] == [
        (("ClusterQueue", "q"), "a", 9)
    ]


def test_hardware_that_nobody_claims() -> None:
    assert units(balance(*TEN, queue("a", {"f": 7})).assess(GPU, ["f"]).unclaimed) == 3
    assert units(balance(*SHARED, queue("q", {"a": 9, "spot": 1})).assess(GPU, ["a"]).unclaimed) == 1


# In words

WORDS: dict[str, tuple[list[Object], Capacity, str]] = {
    "one flavor": (
        [*TEN, queue("a", {"f": 6}), queue("b", {"f": 6})],
        Capacity(),
        'floors of nvidia.com/gpu in flavor f: ClusterQueue "a" 6 + ClusterQueue "b" 6 = 12; hardware: 10 on 2 nodes',
    ),
    "one floor, one node": (
        [node("n", 4), flavor("f"), cohort("c", {"f": 6})],
        Capacity(),
        'floors of nvidia.com/gpu in flavor f: Cohort "c" 6; hardware: 4 on 1 node',
    ),
    "nodes are away": (
        [node("n1", 8), node("n2", 2, cordoned=True), flavor("f"), queue("a", {"f": 9})],
        Capacity(),
        'floors of nvidia.com/gpu in flavor f: ClusterQueue "a" 9; usable: 8 on 1 node',
    ),
    "no node": (
        [node("n", 4), flavor("f", pool="x"), queue("a", {"f": 6})],
        Capacity(),
        'floors of nvidia.com/gpu in flavor f: ClusterQueue "a" 6; hardware: 0, for no matching node offers it',
    ),
    "declared": (
        [*TEN, queue("a", {"f": 20})],
        Capacity(declared(f=16)),
        'floors of nvidia.com/gpu in flavor f: ClusterQueue "a" 20; hardware: 10 on 2 nodes + 6 declared = 16',
    ),
    "shared nodes": (
        [*SHARED, queue("q", {"a": 7, "spot": 5}), queue("r", {"spot": 1})],
        Capacity(),
        "floors of nvidia.com/gpu in flavors a and spot: "
        'ClusterQueue "q" 7 in a + ClusterQueue "q" 5 in spot + ClusterQueue "r" 1 in spot = 13; '
        "hardware: 4 on 1 node of a + 4 on 1 node of a and spot + 2 on 1 node of spot = 10",
    ),
    "many": (
        [*TEN, *(queue(f"q{number}", {"f": 2}) for number in range(12))],
        Capacity(),
        'floors of nvidia.com/gpu in flavor f: ClusterQueue "q0" 2 + ClusterQueue "q1" 2 + ClusterQueue "q10" 2 + '
        "9 more 18 = 24; hardware: 10 on 2 nodes",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_the_arithmetic_in_words(case: str) -> None:
    objects, settings, expected = WORDS[case]
    cut = balance(*objects, settings=settings).assess(GPU, ["a", "f", "spot"]).cut
    assert cut is not None
    assert describe(cut, most=3) == expected


# One balance for a snapshot


def test_a_policy_that_changed_makes_a_new_balance() -> None:
    snapshot = known(*TEN, queue("a", {"f": 10}))
    names = Policy().accelerators
    first = balance_of(snapshot, Capacity(), names)
    assert balance_of(snapshot, Capacity(), accelerators(DEFAULT_RESOURCES, names.device_classes)) is first
    second = balance_of(snapshot, Capacity(declared(f=16)), names)
    assert snapshot.observers == (second,)
    assert units(second.now.hardware("f", GPU)) == 16
    snapshot.remove("Node", "", "n2")
    assert units(first.now.hardware("f", GPU)) == 10


def test_a_kind_that_cannot_be_read_any_more() -> None:
    snapshot = known(*TEN, queue("a", {"f": 10}))
    state = balance_of(snapshot, Capacity(), Policy().accelerators)
    snapshot.forget("Node", "not allowed")
    assert state.assess(GPU, ["f"]).unknown == {"f": "Node: none known"}
    snapshot.replace("Node", [fact_of(node("n", 16))])
    assert numbers(state.assess(GPU, ["f"])) == (16, 16, 10, 0, 0)
