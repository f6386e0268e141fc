"""What an admin says about capacity, as this layer reads it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol


class Settings(Protocol):
    """Implemented by the policy's `capacity` section (webhook.engine.policy.Capacity)."""

    @property
    def declared(self) -> Mapping[str, Mapping[str, int]]:
        """Amounts by flavor and resource: what there will be at least, whatever the nodes say."""

    @property
    def ignore_flavors(self) -> Set[str]:
        """Flavors whose floors are nobody's concern."""

    @property
    def unusable_taints(self) -> tuple[str, ...]:
        """Taint keys: a node with one of them is not usable."""

    @property
    def unusable_labels(self) -> Mapping[str, str]:
        """A node with one of these labels, at this value, is not usable."""
