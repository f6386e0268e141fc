"""What Kueue does about a floor that is lowered below what is used, as the plan says it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.plan_world import PlanWorld, plain, running_world, used
from tests.quota_objects import cohort, flavor, node, queue


@pytest.fixture
def where(tmp_path: Path) -> Iterator[tuple[PlanWorld, Path]]:
    with running_world(tmp_path) as (world, kubeconfig):
        world.put(node("gpu", gpus=10), flavor("a"))
        yield world, kubeconfig


def said(where: tuple[PlanWorld, Path], *wanted: str) -> str:
    world, kubeconfig = where
    _, out, _ = world.run(*(f"--set={word}" for word in wanted), kubeconfig=kubeconfig)
    return plain(out)


def floor(amount: str, **limits: str) -> dict[str, Any]:
    return {"a": {"nominalQuota": amount, **limits}}


def test_without_a_cohort(where: tuple[PlanWorld, Path]) -> None:
    where[0].put(used(queue("alone", floor("5")), 4))
    text = "it uses 4, and has no Cohort to borrow from: its replicas stay, and Kueue admits no more above the floor"
    assert text in said(where, "alone=2")


def test_where_nobody_reclaims(where: tuple[PlanWorld, Path]) -> None:
    where[0].put(*(used(queue(name, floor("5"), cohortName="c"), 4) for name in ("x", "y")))
    assert (
        "it uses 4, of which 2 are borrowed then; no other queue of its Cohort has a floor and reclaimWithinCohort, so "
        "its replicas stay"
    ) in said(where, "x=2")
    assert "x borrows" not in said(where, "x=2")


def test_one_in_another_branch_of_the_tree_reclaims(where: tuple[PlanWorld, Path]) -> None:
    reclaiming = queue("z", floor("5"), cohortName="right", preemption={"reclaimWithinCohort": "LowerPriority"})
    where[0].put(
        used(queue("x", floor("5"), cohortName="left"), 4),
        used(reclaiming, 1),
        cohort("left", parentName="top"),
        cohort("right", parentName="top"),
    )
    assert "it uses 4, of which 2 are borrowed then, and may be reclaimed by z:" in said(where, "x=2")


def test_beyond_a_borrowing_limit(where: tuple[PlanWorld, Path]) -> None:
    where[0].put(
        used(queue("x", floor("5", borrowingLimit="1"), cohortName="c"), 5),
        used(queue("y", floor("5"), cohortName="c", preemption={"reclaimWithinCohort": "Any"}), 0),
    )
    assert "that is more than its borrowingLimit, 1: Kueue admits no more until it uses less" in said(where, "x=3")


def test_the_quota_of_a_cohort(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    world.put(used(queue("x", floor("5"), cohortName="c"), 8, 3), cohort("c", floor("5")))
    assert "its members use 8 of the 6 that they have together then: 2 more is borrowed" in said(where, "cohort:c=1")
    assert "its members use" not in said(where, "cohort:c=3")


def test_a_queue_without_a_status(where: tuple[PlanWorld, Path]) -> None:
    where[0].put(queue("x", floor("5"), cohortName="c"))
    text = "Kueue has not reported what it uses of nvidia.com/gpu, so what becomes of that cannot be said"
    assert text in said(where, "x=3")


STAY = "they stay, and are not admitted again once they end or are reclaimed"


def lent(where: tuple[PlanWorld, Path], *borrowers: tuple[str, int, int]) -> None:
    """x and y use nothing of their 2 each, and others use more than they have: name, floor, use."""
    where[0].put(
        *(used(queue(name, floor("2"), cohortName="c"), 0) for name in ("x", "y")),
        *(used(queue(name, floor(str(own)), cohortName="c"), use, use - own) for name, own, use in borrowers),
    )


def test_what_it_lends_to_one_other(where: tuple[PlanWorld, Path]) -> None:
    lent(where, ("b", 3, 7))
    assert f"it uses 0: no replica of its own is touched b borrows 2 of it: {STAY}" in said(where, "x=0")
    assert f"b borrows 1 of it: {STAY}" in said(where, "x=1")


def test_what_the_rest_of_the_cohort_lends_instead(where: tuple[PlanWorld, Path]) -> None:
    lent(where, ("b", 3, 4))
    assert "it uses 0: no replica is touched After it" in said(where, "x=0")
    # One of the three that are lowered is still lent.
    assert f"b borrows 1 of it and of y: {STAY}" in said(where, "x=0", "y=0")


def test_what_a_raise_gives_to_the_borrower(where: tuple[PlanWorld, Path]) -> None:
    lent(where, ("b", 3, 7))
    assert "it uses 0: no replica is touched 2. raise" in said(where, "x=0", "b=5")
    assert f"b borrows 1 of it: {STAY}" in said(where, "x=0", "b=4")


def test_of_two_borrowers_it_is_not_known_which(where: tuple[PlanWorld, Path]) -> None:
    lent(where, ("b", 2, 4), ("d", 1, 3))
    assert f"2 of what b (2) and d (2) borrow are of it: {STAY}; whose these are is not known" in said(where, "x=0")
    text = f"4 of what b (2) and d (2) borrow are of it and of y: {STAY} "
    assert text in said(where, "x=0", "y=0")


def test_many_borrowers_are_counted(where: tuple[PlanWorld, Path]) -> None:
    lent(where, *((f"b{number}", 0, 1) for number in range(6)))
    assert f"2 of what b0 (1), b1 (1), b2 (1) and 3 more borrow are of it: {STAY}; whose" in said(where, "x=0")


def test_one_that_uses_some_of_it_and_lends_the_rest(where: tuple[PlanWorld, Path]) -> None:
    where[0].put(
        used(queue("x", floor("5"), cohortName="c"), 2),
        used(queue("b", floor("3"), cohortName="c"), 6, 3),
    )
    text = said(where, "x=1")
    assert "it uses 2, of which 1 are borrowed then; no other queue" in text
    assert f"4 of what b (3) and x (1) borrow are of it: {STAY}" in text


def test_what_is_lent_beyond_its_own_cohort(where: tuple[PlanWorld, Path]) -> None:
    def tree(**limits: str) -> None:
        where[0].put(
            used(queue("x", floor("2"), cohortName="left"), 0),
            used(queue("b", floor("2"), cohortName="left"), 4, 2),
            used(queue("z", floor("4"), cohortName="right"), 0),
            cohort("left", {"a": {"nominalQuota": "0", **limits}}, parentName="top"),
            cohort("right", parentName="top"),
        )

    tree()
    assert "it uses 0: no replica is touched" in said(where, "x=0")
    # What z has idle may not be borrowed.
    tree(borrowingLimit="1")
    assert f"b borrows 1 of it: {STAY}" in said(where, "x=0")


def test_a_member_without_a_status_hides_who_borrows(where: tuple[PlanWorld, Path]) -> None:
    lent(where, ("b", 3, 7))
    where[0].put(queue("new", floor("0"), cohortName="c"))
    text = "it uses 0: no replica of its own is touched who borrows of it is not known: Kueue has not reported the use"
    assert text in said(where, "x=0")


def test_a_cohorts_quota_that_its_member_gets(where: tuple[PlanWorld, Path]) -> None:
    where[0].put(used(queue("x", floor("5"), cohortName="c"), 8, 3), cohort("c", floor("5")))
    assert "its members use" in said(where, "cohort:c=0")
    assert "its members use" not in said(where, "cohort:c=0", "x=8")
