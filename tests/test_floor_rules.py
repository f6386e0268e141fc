"""What floors-exceed-capacity advises works: whoever does as its message says is let through."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cases import outcome_of, policy_of, snapshot_of, subject_of
from tests.quota_objects import GPU, flavor, node, queue
from webhook.engine.policy import Mode, Policy
from webhook.kube.reservation import Reservation
from webhook.kube.snapshot import Snapshot
from webhook.rules import RULES

ONLY = {rule.id: Mode.OFF for rule in RULES if rule.id != "floors-exceed-capacity"}
LOWER_THIS = re.compile(r"fix: (?:lower it to|leave it at) (\d+)")
LOWER_OTHER = re.compile(r'ClusterQueue "(\w+)" to (\d+), then repeat')
LOWER_ONE = re.compile(r"fix: (?:lower it to|leave it at) (\d+)(?: in (\w+))?")
NODES = [node("n1", 5), node("n2", 5), flavor("f")]

Object = dict[str, Any]


def policy() -> Policy:
    return policy_of({"rules": {rule: mode.value for rule, mode in ONLY.items()}})


def verdict(snapshot: Snapshot, value: Object, old: Object | None) -> tuple[str, ...]:
    return outcome_of(subject_of(value, policy(), old), snapshot, policy()).lines


def write(floors: dict[str, int], name: str, floor: int) -> tuple[str, ...]:
    """What is said of setting one floor, with these as they are."""
    state = [queue(each, {"f": amount}) for each, amount in floors.items()]
    old = next((value for value in state if value["metadata"]["name"] == name), None)
    return verdict(snapshot_of([*NODES, *state]), queue(name, {"f": floor}), old)


@given(a=st.integers(0, 15), b=st.integers(0, 15), wanted=st.integers(0, 20))
def test_doing_as_told_is_let_through(a: int, b: int, wanted: int) -> None:
    lines = write({"a": a, "b": b}, "a", wanted)
    assert bool(lines) == (wanted > a and max(wanted + b, 10) > max(a + b, 10))
    for line in lines:
        for found in LOWER_THIS.finditer(line):
            assert write({"a": a, "b": b}, "a", int(found[1])) == ()
        for found in LOWER_OTHER.finditer(line):
            assert write({"a": a, "b": b}, found[1], int(found[2])) == ()
            assert write({"a": a, "b": int(found[2])}, "a", wanted) == ()


SHARED = [node("n1", 4, {"x": "1", "y": "1"}), node("n2", 3, {"y": "1"}), flavor("f", x="1"), flavor("g", y="1")]
FLOORS = st.fixed_dictionaries({"f": st.integers(0, 7), "g": st.integers(0, 7)})


def write_shared(floors: dict[str, dict[str, int]], name: str, wanted: dict[str, int]) -> tuple[str, ...]:
    state = [queue(each, amounts) for each, amounts in floors.items()]
    old = next(value for value in state if value["metadata"]["name"] == name)
    return verdict(snapshot_of([*SHARED, *state]), queue(name, wanted), old)


@given(a=FLOORS, b=FLOORS, wanted=FLOORS)
def test_doing_as_told_is_let_through_where_flavors_share_nodes(
    a: dict[str, int], b: dict[str, int], wanted: dict[str, int]
) -> None:
    for line in write_shared({"a": a, "b": b}, "a", wanted):
        place = re.search(r"flavors\[(\d)\]", line)
        for found in LOWER_ONE.finditer(line):
            named = found[2] or list(wanted)[int(place[1]) if place else 0]
            assert write_shared({"a": a, "b": b}, "a", {**wanted, named: int(found[1])}) == (), line
        for found in LOWER_OTHER.finditer(line):
            # The floor that is meant is the largest one of the queue that the message lists.
            lowered = [{**b, each: int(found[2])} for each in "fg" if b[each] >= int(found[2])]
            passed = [write_shared({"a": a, "b": each}, "a", wanted) == () for each in lowered]
            assert any(passed), line


def test_a_promise_to_another_write_counts_and_is_named() -> None:
    reserved = Reservation("ClusterQueue", "b", "uid", "12:05:40 UTC", {("f", GPU): 6 * 10**9})
    state = snapshot_of([*NODES, queue("a", {"f": 4}), queue("b", {"f": 4})])
    promised = state.overlaid({}, [reserved])
    assert verdict(promised, queue("a", {"f": 6}), queue("a", {"f": 4})) == (
        'deny: ClusterQueue "a": spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: must keep the floors '
        'within the hardware, is 6: floors of nvidia.com/gpu in flavor f: ClusterQueue "a" 6 + ClusterQueue "b" 6 '
        "(reserved until 12:05:40 UTC for a write that is not stored yet) = 12; hardware: 10 on 2 nodes; fix: leave it "
        'at 4, or try again after 12:05:40 UTC, or first lower ClusterQueue "b" to 4, then repeat this write; for '
        "nodes yet to come, declare the flavor's total, 12, in the policy (capacity.declared) [floors-exceed-capacity]",
    )
    # Its own object's writes are judged one after the other by the API server.
    assert verdict(promised, queue("b", {"f": 5}), queue("b", {"f": 4})) == ()


def test_nodes_are_needed_as_they_are_and_as_they_will_be() -> None:
    state = snapshot_of([node("n1", 5, {"pool": "x"}), node("n2", 5), flavor("f"), queue("a", {"f": 4})])
    leaving = Reservation("ResourceFlavor", "f", "uid", "12:05:40 UTC", labels={"pool": "x"})
    line = verdict(state.overlaid({}, [leaving]), queue("a", {"f": 6}), queue("a", {"f": 4}))
    assert "hardware: 5 on 1 node" in line[0]
    coming = Reservation("ResourceFlavor", "g", "uid", "12:05:40 UTC", labels={})
    assert verdict(state.overlaid({}, [coming]), queue("a", {"f": 6}), queue("a", {"f": 4})) == ()


def test_what_was_just_read_counts_before_what_the_watch_brought() -> None:
    state = snapshot_of([*NODES, queue("a", {"f": 5}), queue("b", {"f": 5})])
    live = snapshot_of([queue("a", {"f": 5}), queue("b", {"f": 3})])
    raised = queue("a", {"f": 7})
    assert len(verdict(state, raised, queue("a", {"f": 5}))) == 1
    overlaid = state.overlaid({"ClusterQueue": live.cluster_queues()}, [])
    assert verdict(overlaid, raised, queue("a", {"f": 5})) == ()


ONE_POOL = [node("n", 3, {"disk": "t", "zone": "x"}), flavor("f", disk="t"), flavor("g", zone="x")]


def test_a_floor_that_moves_to_another_flavor_of_the_same_nodes_is_no_raise() -> None:
    def moved(before: int, after: int) -> tuple[str, ...]:
        old = queue("z", {"f": before})
        found = outcome_of(subject_of(queue("z", {"g": after}), Policy(), old), snapshot_of([*ONE_POOL, old]), Policy())
        return tuple(line for line in found.lines if "floors-" in line)

    assert moved(16, 5) == ()
    assert moved(5, 5) == ()
    assert moved(3, 3) == ()
    assert moved(2, 3) == ()
    assert "[floors-exceed-capacity]" in moved(3, 4)[0]
    assert "floors claim 2 of 3" in moved(3, 2)[0]
