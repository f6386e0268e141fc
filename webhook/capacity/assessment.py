"""What an assessment says: sums, what is unmet, and the tightest cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.capacity.floors import Contribution


@dataclass(frozen=True, slots=True)
class Part:
    """One supply: the nodes that match exactly these flavors or, if `declared`, what the policy adds to one flavor."""

    flavors: tuple[str, ...]
    amount: int
    nodes: int = 0
    declared: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """The smallest set of flavors whose floors exceed all that any of them can have, with the arithmetic.

    `flavors` hang together by the nodes that they share. `supply` is hardware or, if `usable`, what of it can be used
    now.
    """

    resource: str
    flavors: tuple[str, ...]
    floors: int
    supply: int
    usable: bool
    contributions: tuple[Contribution, ...]
    parts: tuple[Part, ...]

    @property
    def excess(self) -> int:
        return self.floors - self.supply


@dataclass(frozen=True, slots=True)
class Assessment:
    """One resource in the flavors asked about, and in those whose floors compete with theirs for the same nodes.

    All amounts are in billionths, over `flavors`; a node that several of them match is summed once. `unmet_hardware`
    and `unmet_usable` are floors minus what the nodes can carry. The cut is of the hardware if something is unmet
    there, else of what is usable, else None.
    """

    resource: str
    flavors: tuple[str, ...]
    hardware: int
    usable: int
    floors: int
    unmet_hardware: int
    unmet_usable: int
    cut: Cut | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Flavors that are not evaluated and are in no sum, each with the reason."""

    uncounted: tuple[Contribution, ...] = ()
    """Floors that are not evaluated and are in no sum."""

    @property
    def evaluated(self) -> bool:
        """Whether anything was: else this is neither pass nor fail."""
        return bool(self.flavors)

    @property
    def unclaimed(self) -> int:
        """Hardware that no floor of `flavors` claims: it stays idle, for quota that nobody has is in no cohort.

        A flavor without floors is assessed alone: ask about all that share its nodes if others may claim them.
        """
        return self.hardware - (self.floors - self.unmet_hardware)
