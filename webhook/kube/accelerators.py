"""Which resource names are accelerators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Accelerators:
    """Resource names that stand for accelerators, and the DRA device classes that Kueue counts as one of them.

    `exact` and `prefixes` come from the policy's `accelerators.resources`: a name with a trailing * is a prefix.
    `device_classes` maps a DeviceClass to the resource name that quota is kept in, as Kueue's deviceClassMappings does.
    """

    exact: frozenset[str]
    prefixes: tuple[str, ...] = ()
    device_classes: Mapping[str, str] = field(default_factory=dict)

    def covers(self, resource: str) -> bool:
        return resource in self.exact or (bool(self.prefixes) and resource.startswith(self.prefixes))


def accelerators(resources: tuple[str, ...], device_classes: Mapping[str, str]) -> Accelerators:
    """Accelerators from a policy's spelling of them."""
    return Accelerators(
        frozenset(name for name in resources if not name.endswith("*")),
        tuple(sorted(name[:-1] for name in resources if name.endswith("*"))),
        device_classes,
    )
