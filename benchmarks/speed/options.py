"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    rounds: int = 5
    seconds: int = 3
    """Of one run."""

    warmup: int = 3000
    """Reviews that each server answers before it is measured."""

    reviews: int = 200_000
    """In all, while the memory is looked at."""

    sizes: tuple[int, ...] = (10, 5000)
    """Nodes, and as many queues and namespaces."""

    starts: int = 5
    large: int = 50
    """Objects of 1 MiB, one after the other."""


QUICK = Options(rounds=1, seconds=1, warmup=200, reviews=6000, sizes=(10, 500), starts=2, large=10)
