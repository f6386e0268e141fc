"""What an admin says about capacity, as this layer reads it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Protocol

from webhook.kube.selector import LabelSelector


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

    @property
    def volcano_nodes(self) -> LabelSelector | None:
        """The nodes that are Volcano's alone, all others being Kueue's alone; None: both may use all nodes."""

    @property
    def discount_unqueued(self) -> bool:
        """Whether what pods outside of any queue request is taken off what their nodes offer as usable."""
