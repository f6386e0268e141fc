"""The policy, as the rules see it: frozen, complete, with every default filled in.

`webhook.policy` reads it from YAML. Without a policy file, `Policy()` is what is in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from webhook.kube.accelerators import Accelerators, accelerators
from webhook.kube.kinds import KINDS, Kinds
from webhook.kube.names import MANAGED_LABEL
from webhook.kube.selector import LabelSelector, name_matches


class Mode(StrEnum):
    """What a rule does: `deny` patches what it can and denies the rest, `warn` says so and changes nothing."""

    DENY = "deny"
    WARN = "warn"
    OFF = "off"


class Inject(StrEnum):
    """When the queue label is added to a workload that runs: with a rollout that happens anyway, or at once."""

    ON_ROLLOUT = "onRollout"
    ALWAYS = "always"


class GpuRequests(StrEnum):
    """What happens to a limit without its request: it is denied, or the request is filled in from it."""

    REQUIRE = "require"
    FILL = "fill"


DEFAULT_RESOURCES = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-*",
    "amd.com/gpu",
    "gpu.intel.com/*",
    "habana.ai/gaudi",
    "google.com/tpu",
    "aws.amazon.com/neuron*",
    "huawei.com/Ascend*",
)
DEFAULT_DEVICE_CLASSES = {"gpu.nvidia.com": "nvidia.com/gpu"}


@dataclass(frozen=True, slots=True)
class QueueMapping:
    """One entry of `queues`: workloads of a namespace, by name or by label, and the LocalQueue they belong to."""

    namespace: str
    local_queue: str
    workload: str = "*"
    selector: LabelSelector = LabelSelector()

    def matches(self, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        return (
            name_matches(self.namespace, namespace)
            and name_matches(self.workload, name)
            and self.selector.matches(labels)
        )


@dataclass(frozen=True, slots=True)
class Exemption:
    """Who or what is let through unjudged, and why. Every part that is given must match.

    `namespace` and `workload` speak of namespaced objects alone: what is in no namespace is exempt by user or group.
    `until` is the last day (UTC) on which it holds; None: for good.
    """

    reason: str
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    namespace: str = "*"
    workload: str = "*"
    until: date | None = None

    def matches(self, user: str, groups: frozenset[str], namespace: str, name: str, today: date) -> bool:
        return (
            (not self.users or user in self.users)
            and (not self.groups or not self.groups.isdisjoint(groups))
            and self._names(namespace, name)
            and (self.until is None or today <= self.until)
        )

    def _names(self, namespace: str, name: str) -> bool:
        if not namespace:
            return self.namespace == self.workload == "*"
        return name_matches(self.namespace, namespace) and name_matches(self.workload, name)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What is known of the hardware beyond the nodes that are there.

    `declared` is in billionths, by flavor and resource; `unusable_labels` makes a node with one of these labels, and
    `unusable_taints` one with a taint of one of these keys, unusable; `grace_seconds` is how long a dip may last before
    anybody is told.
    """

    declared: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ignore_flavors: frozenset[str] = frozenset()
    unusable_taints: tuple[str, ...] = ()
    unusable_labels: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: int = 120
    discount_unqueued: bool = False
    """Whether what pods outside of any queue hold is taken off what is usable."""

    volcano_nodes: LabelSelector | None = None
    """The nodes that are Volcano's; all others are Kueue's then. None: each is compared with all nodes."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything an admin can decide."""

    managed_namespaces: LabelSelector = LabelSelector(((MANAGED_LABEL, "true"),))
    accelerators: Accelerators = accelerators(DEFAULT_RESOURCES, DEFAULT_DEVICE_CLASSES)
    kinds: Kinds = KINDS
    """The kinds that are judged: the table's, and what is added to it."""

    queues: tuple[QueueMapping, ...] = ()
    inject: Inject = Inject.ON_ROLLOUT
    gpu_requests: GpuRequests = GpuRequests.REQUIRE
    max_unavailable: int | str = 1
    """rollout.maxUnavailable: a count, or a percentage such as '25%'."""

    minimum_grace_seconds: int = 60
    capacity: Capacity = field(default_factory=Capacity)
    rules: Mapping[str, Mode] = field(default_factory=dict)
    """Modes that differ from a rule's default, by rule id."""

    exemptions: tuple[Exemption, ...] = ()

    def mapped_queue(self, namespace: str, name: str, labels: Mapping[str, str]) -> str:
        """The LocalQueue of the first matching entry of `queues`, '' without one."""
        for entry in self.queues:
            if entry.matches(namespace, name, labels):
                return entry.local_queue
        return ""

    def exemption(self, user: str, groups: frozenset[str], namespace: str, name: str, today: date) -> Exemption | None:
        """The first exemption that applies."""
        for entry in self.exemptions:
            if entry.matches(user, groups, namespace, name, today):
                return entry
        return None
