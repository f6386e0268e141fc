"""Which resource names are accelerators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from webhook.kube.names import DEVICE_CLASS_PREFIX

RUNTIME_CLASSES = ("nvidia", "nvidia-*", "kata-qemu-nvidia-gpu*", "habana", "ascend")
"""NVIDIA's GPU operator makes nvidia, nvidia-cdi, nvidia-legacy and those of Kata; the others are their vendors'."""


@dataclass(frozen=True, slots=True)
class Accelerators:
    """Resource names that stand for accelerators, and the DRA device classes that Kueue counts as one of them.

    `exact` and `prefixes` come from the policy's `accelerators.resources`: a name with a trailing * is a prefix.
    `device_classes` maps a DeviceClass to the resource name that quota is kept in, as Kueue's deviceClassMappings does.
    Also in `exact` are the names by which containers request devices of such a class. `runtime_classes` are spelled as
    resources are: those that give a pod accelerators which it did not request.
    """

    exact: frozenset[str]
    prefixes: tuple[str, ...] = ()
    device_classes: Mapping[str, str] = field(default_factory=dict)
    runtime_classes: tuple[str, ...] = ()

    def covers(self, resource: str) -> bool:
        return resource in self.exact or (bool(self.prefixes) and resource.startswith(self.prefixes))

    def backed_by(self, resources: Mapping[str, str]) -> Accelerators:
        """With the extended resources that DeviceClasses of the cluster stand behind, as far as they are mapped.

        `resources` are these, by DeviceClass.
        """
        names = {
            resource
            for name, resource in resources.items()
            if name in self.device_classes and not self.covers(resource)
        }
        return replace(self, exact=self.exact | names) if names else self


def accelerators(
    resources: tuple[str, ...],
    device_classes: Mapping[str, str],
    runtime_classes: tuple[str, ...] = RUNTIME_CLASSES,
) -> Accelerators:
    """Accelerators from a policy's spelling of them."""
    return Accelerators(
        frozenset(name for name in resources if not name.endswith("*"))
        | {f"{DEVICE_CLASS_PREFIX}{name}" for name in device_classes},
        tuple(sorted(name[:-1] for name in resources if name.endswith("*"))),
        device_classes,
        runtime_classes,
    )
