"""Whether pods that are admitted together find flavors that hold them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MOST_STEPS = 10_000  # milliseconds; Kueue takes eight templates at the most


def fit_together(
    asks: Sequence[Mapping[str, int]], gives: Mapping[str, Mapping[str, int]], choices: Sequence[Sequence[str]]
) -> bool:
    """Whether each of `asks` (amounts by resource) can have one of its own `choices` of flavors, with none of these
    giving more than it can (amounts by flavor and resource).

    Where that takes too many steps to find out, it is taken to be so.
    """
    left = {flavor: dict(amounts) for flavor, amounts in gives.items()}
    steps = _MOST_STEPS

    def place(index: int) -> bool:
        nonlocal steps
        steps -= 1
        if index == len(asks) or steps < 0:
            return True
        asked = asks[index]
        for flavor in choices[index]:
            if all(left[flavor][name] >= amount for name, amount in asked.items()):
                for name, amount in asked.items():
                    left[flavor][name] -= amount
                if place(index + 1):
                    return True
                for name, amount in asked.items():
                    left[flavor][name] += amount
        return False

    return place(0)
