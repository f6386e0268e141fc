"""How many replicas a queue admits as things stand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.rollout_world import GPU, KUEUE, TEAM, World, cluster_queue, deployment
from webhook.engine.policy import Policy
from webhook.engine.subject import Subject
from webhook.kube.kinds import DEPLOYMENT
from webhook.kube.quantity import NANO
from webhook.live.facts import read_facts
from webhook.live.quota import Quota, Room, Ways, ways_of

KINDS = ("LocalQueue", "ClusterQueue", "Cohort", "ResourceFlavor")
ASKED = {GPU: NANO}


def room(replicas: int, a: dict[str, Any], b: dict[str, Any], *, twice: bool = False) -> Room:
    """Of queue cq-a. `a` and `b` have the floor and what is reserved, and other fields of the ClusterQueue's spec."""
    world = World()
    for name, given in (("cq-a", a), ("cq-b", b)):
        value = cluster_queue(name, given.pop("floor"), given.pop("cohort", "pool"))
        total = {"name": GPU, "total": str(given.pop("reserved", 0))}
        quota = value["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
        quota |= {key: str(given.pop(key)) for key in ("borrowingLimit", "lendingLimit") if key in given}
        value["spec"] |= given
        value["status"]["flavorsReservation"] = [{"name": "gpus", "resources": [total]}]
        world.stored[f"clusterqueues.{KUEUE}", "", name] = value
    snapshot = read_facts(world, TEAM, KINDS)
    (template,) = Subject(DEPLOYMENT, TEAM, deployment("model-a"), Policy().accelerators).templates
    queue = snapshot.cluster_queue("cq-a")
    assert queue is not None
    quota_left = Quota(snapshot)
    if twice:
        quota_left.room(template, queue, ASKED, replicas)
    return quota_left.room(template, queue, ASKED, replicas)


NO_RECLAIM = {"preemption": {"reclaimWithinCohort": "Never"}}
LOWER = {"preemption": {"reclaimWithinCohort": "LowerPriority"}}


@pytest.mark.parametrize(
    ("replicas", "a", "b", "expected"),
    [
        (3, {"floor": 5}, {"floor": 5}, Room(floor=3)),
        (3, {"floor": 5, "reserved": 3}, {"floor": 5, "reserved": 5}, Room(floor=2, waiting=1)),
        (7, {"floor": 5}, {"floor": 5}, Room(floor=5, borrowed=2)),
        (7, {"floor": 5}, {"floor": 5, "reserved": 4}, Room(floor=5, borrowed=1, waiting=1)),
        (3, {"floor": 5}, {"floor": 5, "reserved": 8}, Room(floor=3, reclaimed=1)),
        (3, {"floor": 5, **NO_RECLAIM}, {"floor": 5, "reserved": 8}, Room(floor=2, waiting=1)),
        (7, {"floor": 5, "cohort": ""}, {"floor": 5}, Room(floor=5, waiting=2)),
        (7, {"floor": 5, "borrowingLimit": 1}, {"floor": 5}, Room(floor=5, borrowed=1, waiting=1)),
        (7, {"floor": 5}, {"floor": 5, "lendingLimit": 1}, Room(floor=5, borrowed=1, waiting=1)),
        # What it keeps from others it can have back at once, and peers cannot have borrowed it.
        (3, {"floor": 5, "lendingLimit": 1, **NO_RECLAIM}, {"floor": 5, "reserved": 6}, Room(floor=3)),
        (3, {"floor": 5, **LOWER}, {"floor": 5, "reserved": 10}, Room(waiting=3)),
        (0, {"floor": 5}, {"floor": 5}, Room()),
    ],
)
def test_room(replicas: int, a: dict[str, Any], b: dict[str, Any], expected: Room) -> None:
    found = room(replicas, dict(a), dict(b))
    assert found == expected
    assert found.admitted + found.waiting == replicas


def test_the_second_asks_for_what_is_left() -> None:
    assert room(4, {"floor": 5}, {"floor": 5, "reserved": 5}, twice=True) == Room(floor=1, waiting=3)


def test_a_pod_that_the_flavor_does_not_take() -> None:
    world = World()
    world.value(f"resourceflavors.{KUEUE}", "gpus", "")["spec"] = {"nodeLabels": {"pool": "a100"}}
    snapshot = read_facts(world, TEAM, KINDS)
    value = deployment("model-a")
    value["spec"]["template"]["spec"]["nodeSelector"] = {"pool": "h100"}
    (template,) = Subject(DEPLOYMENT, TEAM, value, Policy().accelerators).templates
    queue = snapshot.cluster_queue("cq-a")
    assert queue is not None
    assert Quota(snapshot).room(template, queue, ASKED, 1) == Room(waiting=1)


def held(name: str, floor: int, reserved: int = 0, cohort: str = "pool", **limits: int) -> dict[str, Any]:
    value = cluster_queue(name, floor, cohort)
    value["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0] |= {key: str(n) for key, n in limits.items()}
    total = {"name": GPU, "total": str(reserved)}
    value["status"]["flavorsReservation"] = [{"name": "gpus", "resources": [total]}]
    return value


def cohort(name: str, parent: str = "", floor: int = 0, **limits: int) -> dict[str, Any]:
    quota = {"name": GPU, "nominalQuota": str(floor), **{key: str(n) for key, n in limits.items()}}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "gpus", "resources": [quota]}]}]
    spec = {"parentName": parent, "resourceGroups": groups}
    return {"apiVersion": f"{KUEUE}/v1beta2", "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def room_in(replicas: int, *values: dict[str, Any], ways: Ways | None = None) -> Room:
    """Of cq-a, in a cluster of these ClusterQueues, Cohorts and flavors."""
    world = World()
    del world.stored[f"clusterqueues.{KUEUE}", "", "cq-b"]
    for value in values:
        world.put(value)
    snapshot = read_facts(world, TEAM, KINDS)
    (template,) = Subject(DEPLOYMENT, TEAM, deployment("model-a"), Policy().accelerators).templates
    queue = snapshot.cluster_queue("cq-a")
    assert queue is not None
    return Quota(snapshot, {"cq-a": ways or Ways()}).room(template, queue, ASKED, replicas)


def test_what_a_lending_limit_keeps_is_not_lent() -> None:
    """Two are free, and both are kept: c has all that is lent."""
    queues = [held("b", 4, lendingLimit=0), held("c", 2, reserved=6), held("d", 4)]
    assert room_in(1, held("cq-a", 0), *queues) == Room(waiting=1)
    queues[1] = held("c", 2, reserved=5)
    assert room_in(2, held("cq-a", 0), *queues) == Room(borrowed=1, waiting=1)


def test_a_sibling_has_used_up_what_the_cohort_may_borrow() -> None:
    others = [held("rich", 8, cohort="root"), cohort("left", "root", borrowingLimit=1)]
    sibling = held("sibling", 2, reserved=3, cohort="left")
    assert room_in(1, held("cq-a", 0, cohort="left"), sibling, *others) == Room(waiting=1)
    sibling = held("sibling", 2, reserved=1, cohort="left")
    assert room_in(3, held("cq-a", 0, cohort="left"), sibling, *others) == Room(borrowed=2, waiting=1)


def test_what_a_cohort_keeps_stays_with_its_own() -> None:
    others = [held("rich", 8, reserved=8, cohort="root"), cohort("left", "root", floor=3, lendingLimit=1)]
    assert room_in(4, held("cq-a", 0, cohort="left"), *others) == Room(borrowed=3, waiting=1)
    kept = [held("poor", 0, reserved=1, cohort="root"), *others[1:], held("sibling", 0, cohort="left")]
    assert room_in(4, held("cq-a", 0, cohort="left"), *kept) == Room(borrowed=2, waiting=2)


def test_what_was_borrowed_elsewhere_in_the_tree_comes_back() -> None:
    others = [cohort("left", "root"), cohort("right", "root"), held("idle", 4, cohort="right")]
    busy = held("busy", 0, reserved=6, cohort="right")
    assert room_in(4, held("cq-a", 3, cohort="left"), *others, busy) == Room(floor=3, reclaimed=2, waiting=1)


def test_cohorts_that_go_round_in_a_circle() -> None:
    circle = [cohort("one", "two"), cohort("two", "one")]
    assert room_in(1, held("cq-a", 3, cohort="one"), *circle) == Room(waiting=1)


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        (Ways(), Room(floor=2, borrowed=2)),
        (Ways(borrows_first=False), Room(floor=4)),
        (Ways(strict=True), Room(floor=2, borrowed=2)),
        (Ways(strict=True, pending=1), Room(waiting=4)),
        (Ways(pending=1), Room(floor=2, borrowed=2)),
    ],
)
def test_ways(ways: Ways, expected: Room) -> None:
    """Two flavors: Kueue borrows in the first before it looks at the second, unless it is told not to."""
    values = [held("cq-a", 2), held("other", 6)]
    for value in values:
        flavors = value["spec"]["resourceGroups"][0]["flavors"]
        flavors.append({"name": "more", "resources": [{"name": GPU, "nominalQuota": "2"}]})
    more = {"apiVersion": f"{KUEUE}/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "more"}, "spec": {}}
    assert room_in(4, *values, more, ways=ways) == expected


def test_ways_as_they_are_written() -> None:
    world = World()
    plain, strict = (world.value(f"clusterqueues.{KUEUE}", name, "") for name in ("cq-a", "cq-b"))
    strict["spec"] |= {
        "queueingStrategy": "StrictFIFO",
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "Preempt"},
    }
    strict["status"]["pendingWorkloads"] = 3
    assert ways_of(world) == {"cq-a": Ways(), "cq-b": Ways(True, 3, borrows_first=False, preempts_first=True)}
    assert plain["spec"].get("flavorFungibility") is None
