"""Sharing out: the flow against Hall's condition, tried on every set of takers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.capacity.flow import Shares, Supply, share_out


def supply(amount: int, *takers: str) -> Supply:
    return Supply(frozenset(takers), amount)


TABLE: dict[str, tuple[dict[str, int], list[Supply], Shares]] = {
    "nothing is asked": ({}, [supply(8, "a")], Shares(0)),
    "exactly enough": ({"a": 8}, [supply(8, "a")], Shares(0)),
    "one too many": ({"a": 9}, [supply(8, "a")], Shares(1, frozenset("a"), frozenset({0}))),
    "no supply at all": ({"a": 9}, [], Shares(9, frozenset("a"))),
    "a supply for others": ({"a": 1}, [supply(8, "b")], Shares(1, frozenset("a"))),
    "one gives way to another": ({"a": 4, "b": 4}, [supply(4, "a", "b"), supply(4, "a", "c")], Shares(0)),
    "together too much": (
        {"a": 5, "b": 5, "c": 1},
        [supply(8, "a", "b"), supply(1, "b"), supply(3, "c")],
        Shares(1, frozenset("ab"), frozenset({0, 1})),
    ),
    "one alone is the tightest": (
        {"a": 9, "b": 1},
        [supply(8, "a"), supply(4, "b")],
        Shares(1, frozenset("a"), frozenset({0})),
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_is_unmet(case: str) -> None:
    demands, supplies, expected = TABLE[case]
    assert share_out(demands, supplies) == expected


def subsets(names: Sequence[str]) -> Iterator[frozenset[str]]:
    for size in range(len(names) + 1):
        yield from map(frozenset, combinations(names, size))


def within_reach(takers: frozenset[str], supplies: Sequence[Supply]) -> frozenset[int]:
    return frozenset(index for index, supply in enumerate(supplies) if supply.takers & takers)


def lacking(takers: frozenset[str], demands: Mapping[str, int], supplies: Sequence[Supply]) -> int:
    """By how much these takers together ask for more than there is for any of them."""
    reach = within_reach(takers, supplies)
    return sum(demands.get(taker, 0) for taker in takers) - sum(supplies[index].amount for index in reach)


AMOUNTS = st.integers(0, 9) | st.integers(0, 10**30)
TAKERS = st.sampled_from("abcdef")


@given(
    st.dictionaries(TAKERS, AMOUNTS),
    st.lists(st.builds(Supply, st.frozensets(TAKERS), AMOUNTS), max_size=7),
)
def test_the_flow_equals_brute_force(demands: dict[str, int], supplies: list[Supply]) -> None:
    compare_with_brute_force(demands, supplies)


def test_the_flow_equals_brute_force_where_many_give_way() -> None:
    """Demands and supplies of about the same size, few takers to a supply: hypothesis seldom comes by these."""
    rng = random.Random(4)
    for _ in range(600):
        demands = {taker: rng.randint(0, 9) for taker in "abcde"}
        supplies = [Supply(frozenset(rng.sample("abcde", rng.randint(1, 3))), rng.randint(0, 7)) for _ in range(6)]
        compare_with_brute_force(demands, supplies)


def compare_with_brute_force(demands: dict[str, int], supplies: list[Supply]) -> None:
    shares = share_out(demands, supplies)
    takers = sorted(taker for taker, amount in demands.items() if amount)
    worst = {each: lacking(each, demands, supplies) for each in subsets(takers)}
    assert shares.unmet == max(worst.values())
    # The cut is one of the worst sets, with all that its takers can have, and every other worst set holds it.
    if shares.unmet:
        assert worst[shares.short] == shares.unmet
        assert shares.drained >= {index for index in within_reach(shares.short, supplies) if supplies[index].amount}
        assert shares.drained <= within_reach(shares.short, supplies)
        assert all(shares.short <= each for each, amount in worst.items() if amount == shares.unmet)
    else:
        assert shares == Shares(0)
