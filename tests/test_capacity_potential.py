"""What a queue can ever get: as Kueue computed it, and as a plain recursion does after any events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quota_objects import GPU, cohort, queue
from webhook.capacity.potential import QuotaTrees
from webhook.kube.facts import PROJECTIONS
from webhook.kube.quantity import NANO
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, counted

Object = dict[str, Any]
Quota = ClusterQueueFact | CohortFact
TREES = json.loads((Path(__file__).parent / "potential" / "kueue_0_17.json").read_text())
UNIT = {GPU: NANO, "cpu": NANO // 1000}
"""What Kueue counts in."""


def trees(*objects: Object) -> QuotaTrees:
    found = QuotaTrees()
    for value in objects:
        found.put(value["kind"], fact(value))
    return found


def fact(value: Object) -> Quota:
    return cast(Quota, PROJECTIONS[value["kind"]](value))


def limited(nominal: Any, borrowing: Any = None, lending: Any = None) -> Object:
    return {"nominalQuota": nominal, "borrowingLimit": borrowing, "lendingLimit": lending}


TABLE: dict[str, tuple[list[Object], int | None]] = {
    "no such queue": ([], 0),
    "alone": ([queue("q", {"f": 4})], 4),
    "alone, and its limits mean nothing": ([queue("q", {"f": limited(4, 1, 1)})], 4),
    "another flavor": ([queue("q", {"g": 4})], 0),
    "half a GPU is one": ([queue("q", {"f": "500m"})], 1),
    "a cohort that is only a name": ([queue("q", {"f": 4}, cohortName="c"), queue("r", {"f": 3}, cohortName="c")], 7),
    "a cohort's quota adds": ([queue("q", {"f": 2}, cohortName="c"), cohort("c", {"f": 8})], 10),
    "no more than it may borrow": (
        [queue("q", {"f": limited(4, 2)}, cohortName="c"), queue("r", {"f": 30}, cohortName="c")],
        6,
    ),
    "no more than the others lend": (
        [queue("q", {"f": 4}, cohortName="c"), queue("r", {"f": limited(30, lending=5)}, cohortName="c")],
        9,
    ),
    "what it keeps is its own": (
        [queue("q", {"f": limited(4, lending=1)}, cohortName="c"), queue("r", {"f": 30}, cohortName="c")],
        34,
    ),
    "every level bounds": (
        [
            queue("q", {"f": limited(1)}, cohortName="c"),
            cohort("c", {"f": limited(2, 3)}, parentName="d"),
            cohort("d", {"f": 100}),
        ],
        6,
    ),
    "a parent that is only a name": ([queue("q", {"f": 1}, cohortName="c"), cohort("c", {"f": 2}, parentName="d")], 3),
    "a circle": (
        [queue("q", {"f": 1}, cohortName="c"), cohort("c", parentName="d"), cohort("d", parentName="c")],
        None,
    ),
    "its own parent": ([queue("q", {"f": 1}, cohortName="c"), cohort("c", parentName="c")], None),
    "below a circle": (
        [queue("q", {"f": 1}, cohortName="b"), cohort("b", parentName="c"), cohort("c", parentName="c")],
        None,
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_most_a_queue_can_get(case: str) -> None:
    objects, expected = TABLE[case]
    for given_objects in (objects, objects[::-1]):
        found = trees(*given_objects)
        assert found.potential("q", "f", GPU) == (None if expected is None else expected * NANO)
        assert found.broken("q") == (expected is None)


@pytest.mark.parametrize("number", range(len(TREES)))
def test_kueue_computes_the_same(number: int) -> None:
    """The file holds what potentialAvailable of Kueue 0.17 answered; potential.go.txt beside it asked."""
    tree = TREES[number]
    found = trees(*tree["objects"])
    for name, expected in tree["potential"].items():
        for flavor in ("a", "b"):
            for resource, unit in UNIT.items():
                wanted = None if expected is None else expected[flavor][resource] * unit
                assert found.potential(name, flavor, resource) == wanted, (name, flavor, resource)


def test_what_was_answered_is_forgotten_when_a_member_moves() -> None:
    mover, stayer = queue("q", {"f": 4}, cohortName="c"), queue("r", {"f": 3}, cohortName="c")
    found = trees(mover, stayer, cohort("c", parentName="d"), queue("s", {"f": 1}, cohortName="d"))
    asked = ("q", "r", "s")
    assert [found.potential(name, "f", GPU) for name in asked] == [8 * NANO] * 3
    found.put("ClusterQueue", fact(queue("q", {"f": 4}, cohortName="e")))
    assert [found.potential(name, "f", GPU) for name in asked] == [4 * NANO, 4 * NANO, 4 * NANO]
    found.put("ClusterQueue", fact(mover))
    assert [found.potential(name, "f", GPU) for name in asked] == [8 * NANO] * 3
    found.put("ClusterQueue", fact(queue("q", {"f": 5}, cohortName="c")))
    assert [found.potential(name, "f", GPU) for name in asked] == [9 * NANO] * 3
    found.remove("ClusterQueue", "r")
    assert [found.potential(name, "f", GPU) for name in asked] == [6 * NANO, 0, 6 * NANO]


def test_a_status_that_is_written_is_no_news() -> None:
    value = queue("q", {"f": 4}, cohortName="c")
    found = trees(value)
    value["status"] = {"flavorsReservation": [{"name": "f", "resources": [{"name": GPU, "total": "3"}]}]}
    found.put("ClusterQueue", fact(value))
    assert found.potential("q", "f", GPU) == 4 * NANO
    assert found.members("c") == {("ClusterQueue", "q")}


def test_a_chain_of_cohorts_may_be_longer_than_the_stack() -> None:
    long = [cohort(f"c{number}", {"f": 1}, parentName=f"c{number + 1}") for number in range(3000)]
    assert trees(queue("q", {"f": 1}, cohortName="c0"), *long).potential("q", "f", GPU) == 3001 * NANO


# Against a reference, after any events

NAMES = st.sampled_from(["c1", "c2", "c3", "c4"])
AMOUNTS = st.sampled_from([0, 1, 2, 5, 8])
LIMITS = st.none() | AMOUNTS
QUOTAS = st.dictionaries(st.just("f"), st.builds(limited, AMOUNTS, LIMITS, LIMITS))
QUEUES = st.builds(
    lambda name, parent, quotas: queue(name, quotas, cohortName=parent),
    st.sampled_from(["q1", "q2", "q3"]),
    NAMES | st.just(""),
    QUOTAS,
)
COHORTS = st.builds(
    lambda name, parent, quotas: cohort(name, quotas, parentName=parent), NAMES, NAMES | st.just(""), QUOTAS
)
EVENTS = st.lists(st.tuples(st.booleans(), QUEUES | COHORTS), max_size=14)


def reference(objects: dict[tuple[str, str], Quota], name: str) -> int | None:
    """Kueue's functions, line by line."""
    key = ("f", GPU)

    def parent(member: tuple[str, str]) -> str:
        found = objects.get(member)
        return "" if found is None else found.cohort if isinstance(found, ClusterQueueFact) else found.parent

    def quota(member: tuple[str, str], field: str) -> int | None:
        found = objects.get(member)
        amounts = getattr(found, field) if found is not None else {}
        return counted(GPU, amounts[key]) if key in amounts else None

    def subtree(member: tuple[str, str]) -> int:
        children = [each for each in objects if member[0] == "Cohort" and parent(each) == member[1]]
        return (quota(member, "nominal") or 0) + sum(subtree(each) - local(each) for each in children)

    def local(member: tuple[str, str]) -> int:
        lending = quota(member, "lending")
        return 0 if lending is None else max(0, subtree(member) - lending)

    def potential(member: tuple[str, str]) -> int:
        if not parent(member):
            return subtree(member)
        available = local(member) + potential(("Cohort", parent(member)))
        borrowing = quota(member, "borrowing")
        return available if borrowing is None else min(available, subtree(member) + borrowing)

    try:
        return potential(("ClusterQueue", name))
    except RecursionError:
        return None


@settings(deadline=None, max_examples=300)
@given(EVENTS)
def test_after_any_events_it_equals_the_recursion(events: list[tuple[bool, Object]]) -> None:
    found = QuotaTrees()
    objects: dict[tuple[str, str], Quota] = {}
    for gone, value in events:
        member = value["kind"], value["metadata"]["name"]
        if gone:
            found.remove(*member)
            objects.pop(member, None)
        else:
            found.put(member[0], fact(value))
            objects[member] = fact(value)
        # Asked after every event, so that what is remembered must be forgotten in time.
        for name in ("q1", "q2", "q3"):
            assert found.potential(name, "f", GPU) == reference(objects, name)
