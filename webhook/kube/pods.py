"""What a pod template asks for: containers, accelerators, totals as the scheduler counts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from webhook.kube import quantity
from webhook.kube.accelerators import Accelerators
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, Path, at, label, mapping, sequence, string

_NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Container:
    """A container that can hold resources. Ephemeral containers cannot, so they are none."""

    spec: Object
    path: Path
    init: bool = False

    @property
    def name(self) -> str:
        return string(self.spec.get("name"))

    @property
    def sidecar(self) -> bool:
        """An init container that goes on running beside the main ones."""
        return self.init and self.spec.get("restartPolicy") == "Always"

    def resources(self, part: str) -> Object:
        """resources.requests or resources.limits as they stand."""
        return mapping(mapping(self.spec.get("resources")).get(part))


@dataclass(frozen=True, slots=True)
class AcceleratorUse:
    """One accelerator that one container names. `request` and `limit` are the raw values; None where absent.

    A null value counts as 0, as the API server reads it, and is not absent.
    """

    container: Container
    resource: str
    has_request: bool
    request: Any
    has_limit: bool
    limit: Any

    @property
    def asked(self) -> bool:
        """Whether either side is above 0. A value that is no quantity is asked for: it is not known to be 0."""
        return _above_zero(self.request) or _above_zero(self.limit)


def _above_zero(value: Any) -> bool:
    if value is None:
        return False
    try:
        return quantity.parse(value) > 0
    except quantity.QuantityError:
        return True


@dataclass(frozen=True)
class PodTemplate:
    """A pod template of an object, or the Pod itself.

    `names` are the resource names that count as accelerators. `filled` says that the API server copies limits to absent
    requests before anybody judges it, which it does for a Pod and not for a template.
    """

    value: Object
    path: Path
    names: Accelerators
    filled: bool = False

    @property
    def spec(self) -> Object:
        return mapping(self.value.get("spec"))

    @property
    def queue(self) -> str:
        """The queue label, '' without one."""
        return label(self.value, QUEUE_LABEL)

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        return tuple(self._containers("initContainers", True)) + tuple(self._containers("containers", False))

    def _containers(self, field: str, init: bool) -> Iterator[Container]:
        for index, entry in enumerate(sequence(self.spec.get(field))):
            if isinstance(entry, dict):
                yield Container(entry, (*self.path, "spec", field, index), init)

    @cached_property
    def accelerators(self) -> tuple[AcceleratorUse, ...]:
        """Every accelerator that a container names, container by container, sorted by resource name."""
        found = []
        for container in self.containers:
            requests, limits = container.resources("requests"), container.resources("limits")
            if not requests and not limits:
                continue
            for resource in sorted({*requests, *limits}):
                if self.names.covers(resource):
                    has_limit = resource in limits
                    filled = self.filled and has_limit and resource not in requests
                    found.append(
                        AcceleratorUse(
                            container,
                            resource,
                            has_request=filled or resource in requests,
                            request=limits.get(resource) if filled else requests.get(resource),
                            has_limit=has_limit,
                            limit=limits.get(resource),
                        )
                    )
        return tuple(found)

    @cached_property
    def asks(self) -> bool:
        """Whether it asks for an accelerator above 0."""
        return any(use.asked for use in self.accelerators)

    def totals(self, defaults: Mapping[str, int] = _NOTHING) -> dict[str, int]:
        """What one pod's containers request, in billionths by resource name, as the scheduler counts it (Kubernetes
        KEP-753).

        Main containers and sidecars run together; each plain init container runs beside the sidecars before it. An
        absent request counts as its limit and, without one, as `defaults` says. Values that are no quantity count as 0:
        they are reported elsewhere.
        """
        running: dict[str, int] = {}
        peak: dict[str, int] = {}
        for container in self.containers:
            asked = _requests(container, defaults)
            if container.init and not container.sidecar:
                for resource, amount in asked.items():
                    peak[resource] = max(peak.get(resource, 0), running.get(resource, 0) + amount)
            else:
                for resource, amount in asked.items():
                    running[resource] = running.get(resource, 0) + amount
        for resource, amount in peak.items():
            running[resource] = max(running.get(resource, 0), amount)
        return running


def _requests(container: Container, defaults: Mapping[str, int]) -> dict[str, int]:
    amounts = dict(defaults)
    for resource, value in {**container.resources("limits"), **container.resources("requests")}.items():
        try:
            amounts[resource] = quantity.parse(value)
        except quantity.QuantityError:
            amounts[resource] = 0
    return amounts


def pod_template(value: Object, path: Path, names: Accelerators, filled: bool = False) -> PodTemplate | None:
    """The template at `path` of an object, or None if there is none that is a mapping."""
    found = at(value, path) if path else value
    return PodTemplate(found, path, names, filled) if isinstance(found, dict) else None
