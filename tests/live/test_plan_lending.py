"""What a floor lends, as far as Kueue's accounts tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.quantity import NANO
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact
from webhook.live.plan.lending import Lent, Trees

KEY = ("a", "nvidia.com/gpu")


def queue(name: str, floor: int, cohort: str = "c", lending: int | None = None) -> ClusterQueueFact:
    limit = {} if lending is None else {KEY: lending * NANO}
    return ClusterQueueFact(name, cohort, (), {KEY: floor * NANO}, {}, lending=limit)


def cohort(name: str, floor: int = 0, parent: str = "", lending: int | None = None) -> CohortFact:
    limit = {} if lending is None else {KEY: lending * NANO}
    return CohortFact(name, parent, {KEY: floor * NANO} if floor else {}, lending=limit)


def trees(queues: list[ClusterQueueFact], used: Mapping[str, int | None], *cohorts: CohortFact) -> Trees:
    amounts = {name: None if amount is None else amount * NANO for name, amount in used.items()}
    return Trees(KEY, queues, cohorts, amounts)


def lent(found: Trees, name: str, kind: str = "ClusterQueue") -> tuple[int, int] | None:
    answer = found.lent((kind, name))
    return None if answer is None else (answer.least // NANO, answer.most // NANO)


def test_one_lender_lends_all_that_is_borrowed() -> None:
    found = trees([queue("x", 5), queue("y", 5)], {"x": 8, "y": 1})
    assert (lent(found, "x"), lent(found, "y")) == ((0, 0), (3, 3))


def test_of_two_lenders_it_is_not_known_which() -> None:
    found = trees([queue("x", 5), queue("y", 5), queue("z", 2)], {"x": 9, "y": 1, "z": 0})
    assert (lent(found, "y"), lent(found, "z")) == ((2, 4), (0, 2))


def test_a_lending_limit_keeps_the_rest() -> None:
    found = trees([queue("x", 5), queue("y", 5, lending=1), queue("z", 4)], {"x": 9, "y": 0, "z": 0})
    assert (lent(found, "y"), lent(found, "z")) == ((0, 1), (3, 4))


def test_what_a_queue_uses_comes_off_what_it_keeps_first() -> None:
    found = trees([queue("x", 5), queue("y", 5, lending=3)], {"x": 8, "y": 2})
    assert lent(found, "y") == (3, 3)


def test_quota_of_the_cohort_itself_is_lent_too() -> None:
    found = trees([queue("x", 5), queue("y", 2)], {"x": 9, "y": 2}, cohort("c", 6))
    assert lent(found, "y") == (0, 0)
    assert lent(found, "c", "Cohort") == (4, 4)


def test_a_cohort_uses_its_own_before_that_of_others() -> None:
    queues = [queue("x", 5, "l"), queue("y", 5, "l"), queue("z", 5, "r")]
    found = trees(queues, {"x": 9, "y": 0, "z": 0}, cohort("l", parent="top"), cohort("r", parent="top"))
    assert (lent(found, "y"), lent(found, "z")) == ((4, 4), (0, 0))


def test_a_cohort_lends_to_the_one_beside_it() -> None:
    queues = [queue("x", 5, "l"), queue("y", 5, "l"), queue("z", 5, "r")]
    found = trees(queues, {"x": 12, "y": 5, "z": 0}, cohort("l", parent="top"), cohort("r", parent="top"))
    assert (lent(found, "y"), lent(found, "z")) == ((0, 0), (5, 5))


def test_a_cohorts_lending_limit_holds_for_its_members() -> None:
    queues = [queue("x", 5, "l"), queue("z", 5, "r"), queue("w", 5, "s")]
    cohorts = [cohort("l", parent="top"), cohort("r", parent="top", lending=2), cohort("s", parent="top")]
    found = trees(queues, {"x": 12, "z": 0, "w": 0}, *cohorts)
    assert (lent(found, "z"), lent(found, "w")) == ((2, 2), (5, 5))


def test_without_a_cohort_nothing_is_lent() -> None:
    found = trees([queue("x", 5, ""), queue("y", 5, "")], {"x": 8, "y": 0})
    assert lent(found, "y") == (0, 0)


def test_a_queue_whose_use_is_not_known_hides_its_tree_alone() -> None:
    found = trees([queue("x", 5), queue("y", 5), queue("z", 5, "d")], {"x": 8, "y": None, "z": 0})
    assert (lent(found, "x"), lent(found, "y"), lent(found, "z")) == (None, None, (0, 0))


def test_cohorts_in_a_circle_are_not_known() -> None:
    found = trees([queue("x", 5, "l")], {"x": 0}, cohort("l", parent="r"), cohort("r", parent="l"))
    assert lent(found, "x") is None
    assert found.place(("ClusterQueue", "x")) is None


MEMBERS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 6), st.none() | st.integers(0, 4)), min_size=1, max_size=4
)


def _ways(free: list[int], total: int) -> Iterator[tuple[int, ...]]:
    if not free:
        if total == 0:
            yield ()
        return
    for first in range(min(free[0], total) + 1):
        for rest in _ways(free[1:], total - first):
            yield (first, *rest)


@given(MEMBERS, st.integers(0, 3))
def test_the_bounds_are_those_of_every_way_to_account_for_it(
    members: list[tuple[int, int, int | None]], own: int
) -> None:
    """All ways in which what is borrowed in one Cohort may come from its members and from itself."""
    queues = [queue(str(index), floor, lending=limit) for index, (floor, _, limit) in enumerate(members)]
    found = trees(queues, {str(index): used for index, (_, used, _) in enumerate(members)}, cohort("c", own))
    free = [max(0, floor - max(used, 0 if limit is None else max(0, floor - limit))) for floor, used, limit in members]
    borrowed = sum(max(0, used - floor) for floor, used, _ in members)
    # A Cohort may be beyond its quota, after a floor was lowered: the excess comes from nowhere.
    ways = list(_ways([*free, own], min(borrowed, sum(free) + own)))
    for index in range(len(members)):
        amounts = [way[index] for way in ways]
        assert lent(found, str(index)) == (min(amounts), max(amounts))
    amounts = [way[-1] for way in ways]
    assert found.lent(("Cohort", "c")) == Lent(min(amounts) * NANO, max(amounts) * NANO)
