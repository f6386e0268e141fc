"""Sharing supplies out among takers: the largest flow, and the cut that bounds it.

Takers stand for flavors and supplies for node classes: floors fit when a flow from flavors to the classes of their
nodes saturates them (Hall; Ford and Fulkerson). Amounts are integers, so the answer is exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Supply:
    """An amount that any of the takers may draw on."""

    takers: frozenset[str]
    amount: int


@dataclass(frozen=True, slots=True)
class Shares:
    """`unmet` is what is left of the demands when the supplies give all they can.

    `short` and `drained` are the tightest cut: the smallest set of takers that together ask for `unmet` more than all
    the supplies (by index) that any of them may draw on. Both are empty if nothing is unmet.
    """

    unmet: int
    short: frozenset[str] = frozenset()
    drained: frozenset[int] = frozenset()


def share_out(demands: Mapping[str, int], supplies: Sequence[Supply]) -> Shares:
    """The largest flow from takers (by name, with what they ask for) to supplies."""
    return _Sharing(demands, supplies).shares()


class _Sharing:
    def __init__(self, demands: Mapping[str, int], supplies: Sequence[Supply]) -> None:
        self.wanted = {taker: amount for taker, amount in demands.items() if amount > 0}
        self.left = [supply.amount for supply in supplies]
        self.drawn: list[dict[str, int]] = [{} for _ in supplies]
        """What each taker has of each supply."""

        self.within_reach: dict[str, list[int]] = {taker: [] for taker in self.wanted}
        # The narrowest first: who can draw on nothing else then gets there without taking a step back.
        for index in sorted(range(len(supplies)), key=lambda each: len(supplies[each].takers)):
            for taker in supplies[index].takers & self.wanted.keys():
                self.within_reach[taker].append(index)

    def shares(self) -> Shares:
        for taker, indexes in self.within_reach.items():
            for index in indexes:
                self._move(taker, index, min(self.wanted[taker], self.left[index]))
        for taker in self.wanted:
            while self.wanted[taker] > 0 and self._reroute(taker):
                pass
        short = [taker for taker, amount in self.wanted.items() if amount > 0]
        if not short:
            return Shares(0)
        takers, drained = set(short), set[int]()
        self._search(deque(short), takers, drained, {})
        return Shares(sum(self.wanted.values()), frozenset(takers), frozenset(drained))

    def _move(self, taker: str, index: int, amount: int) -> None:
        if amount > 0:
            self.wanted[taker] -= amount
            self.left[index] -= amount
            self.drawn[index][taker] = self.drawn[index].get(taker, 0) + amount

    def _reroute(self, taker: str) -> bool:
        """One shortest path to a supply with something left, along which others give way; whether there was one."""
        came: dict[int, str] = {}
        gave: dict[str, int] = {}
        last = self._search(deque([taker]), {taker}, set(), came, gave)
        if last is None:
            return False
        path = [(came[last], last)]
        amount = self.left[last]
        while path[-1][0] != taker:
            other = path[-1][0]
            index = gave[other]
            amount = min(amount, self.drawn[index][other])
            path.append((came[index], index))
        amount = min(amount, self.wanted[taker])
        for other, index in path:
            if other != taker:
                self.drawn[gave[other]][other] -= amount
                self.left[gave[other]] += amount
                self.wanted[other] += amount
            self._move(other, index, amount)
        return True

    def _search(
        self,
        queue: deque[str],
        takers: set[str],
        indexes: set[int],
        came: dict[int, str],
        gave: dict[str, int] | None = None,
    ) -> int | None:
        """The nearest supply with something left, or None. What was seen is in `takers` and `indexes`.

        `came` says which taker found a supply, `gave` of which supply a taker would give up its share.
        """
        while queue:
            taker = queue.popleft()
            for index in self.within_reach[taker]:
                if index in indexes:
                    continue
                indexes.add(index)
                came[index] = taker
                if self.left[index] > 0:
                    return index
                for other, amount in self.drawn[index].items():
                    if amount > 0 and other not in takers:
                        takers.add(other)
                        if gave is not None:
                            gave[other] = index
                        queue.append(other)
        return None
