"""What a pod template asks for: containers, accelerators, totals as the scheduler counts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from webhook.kube import quantity
from webhook.kube.accelerators import Accelerators
from webhook.kube.cached import cached
from webhook.kube.claims import CLAIM, TEMPLATE, ClaimSource, PodClaim, pod_claims
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, Path, at, mapping, sequence, string
from webhook.kube.shapes import POD, Shape

_NOTHING: Mapping[str, int] = {}


class Container(NamedTuple):
    """A container that can hold resources. Ephemeral containers cannot, so they are none."""

    spec: Object
    path: Path
    init: bool = False
    resources_at: Path = ("resources",)
    """Where its requests and limits are, from `path` on."""

    gpu: bool = False
    """It is a name and a quantity, of which an operator makes the limit of a container."""

    @property
    def name(self) -> str:
        """Its name or, for one without, that of the field where it is."""
        field = self.path[-1] if self.path else ""
        own = "" if self.gpu else string(self.spec.get("name"))
        return own or (field if isinstance(field, str) else "")

    @property
    def sidecar(self) -> bool:
        """An init container that goes on running beside the main ones."""
        return self.init and self.spec.get("restartPolicy") == "Always"

    def resources(self, part: str) -> Object:
        """Its requests or limits as they stand."""
        if self.gpu:
            named = string(self.spec.get("name"))
            return {named: self.spec.get("quantity")} if named else {}
        return mapping(mapping(at(self.spec, self.resources_at)).get(part))

    def amount_path(self, part: str, resource: str) -> Path:
        """Where one of its requests or limits is."""
        return (*self.path, "quantity") if self.gpu else (*self.path, *self.resources_at, part, resource)


class AcceleratorUse(NamedTuple):
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

    @property
    def request_path(self) -> Path:
        return self.container.amount_path("requests", self.resource)

    @property
    def limit_path(self) -> Path:
        return self.container.amount_path("limits", self.resource)


def _above_zero(value: Any) -> bool:
    if value is None:
        return False
    try:
        return quantity.parse(value) > 0
    except quantity.QuantityError:
        return True


@dataclass(frozen=True)
class PodTemplate:
    """A pod template of an object, the Pod itself, or what else a kind keeps for a pod, as `shape` says.

    `names` are the resource names that count as accelerators. `filled` says that the API server copies limits to absent
    requests before anybody judges it, which it does for a Pod and not for a template. `claims_from` is where its
    resource claims are looked up; without it nothing is known of them.
    """

    value: Object
    path: Path
    names: Accelerators
    filled: bool = False
    claims_from: ClaimSource | None = field(default=None, compare=False, repr=False)
    shape: Shape = POD

    @cached
    def spec(self) -> Object:
        """The pod's spec, or what stands for it."""
        return mapping(at(self.value, self.shape.spec))

    @property
    def spec_path(self) -> Path:
        return (*self.path, *self.shape.spec)

    @cached
    def metadata(self) -> Object:
        """What holds the pod's labels and annotations."""
        return mapping(at(self.value, self.shape.metadata))

    @cached
    def queue(self) -> str:
        """The queue label, '' without one."""
        return string(mapping(self.metadata.get("labels")).get(QUEUE_LABEL))

    @property
    def label_path(self) -> Path:
        return (*self.path, *self.shape.metadata, "labels", QUEUE_LABEL)

    @cached
    def containers(self) -> tuple[Container, ...]:
        """Init containers come first, in the order in which they start."""
        main = (container for field in self.shape.lists for container in self._listed(field, False))
        return (*self._listed("initContainers", True), *self._alone(), *main)

    def _listed(self, field: str, init: bool) -> Iterator[Container]:
        for index, entry in enumerate(sequence(self.spec.get(field))):
            if isinstance(entry, dict):
                yield Container(entry, (*self.spec_path, field, index), init)

    def _alone(self) -> Iterator[Container]:
        for place in self.shape.alone:
            entry = at(self.spec, place.path)
            if isinstance(entry, dict):
                yield Container(entry, (*self.spec_path, *place.path), resources_at=place.resources, gpu=place.gpu)

    @cached
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

    @cached
    def asks(self) -> bool:
        """Whether it asks for an accelerator above 0, or claims a device that counts as one."""
        classes = self.names.device_classes
        return any(use.asked for use in self.accelerators) or any(claim.asks(classes) for claim in self.claims)

    @cached
    def claims(self) -> tuple[PodClaim, ...]:
        return pod_claims(self.spec, self.spec_path, self.claims_from)

    def claimed(self, classes: Mapping[str, str] | None = None) -> dict[str, int]:
        """What each pod claims for itself, in billionths by resource name.

        `classes` maps DeviceClasses to resource names; the policy's do unless given.
        """
        found: dict[str, int] = {}
        for claim in self.claims:
            if claim.kind == TEMPLATE:
                for resource, amount in claim.amounts(self._mapped(classes)).items():
                    found[resource] = found.get(resource, 0) + amount
        return found

    def shared(self, classes: Mapping[str, str] | None = None) -> dict[str, dict[str, int]]:
        """What all pods claim together, likewise, by the name of the ResourceClaim."""
        return {claim.name: claim.amounts(self._mapped(classes)) for claim in self.claims if claim.kind == CLAIM}

    def _mapped(self, classes: Mapping[str, str] | None) -> Mapping[str, str]:
        return self.names.device_classes if classes is None else classes

    @cached
    def accelerators_asked(self) -> Mapping[str, int]:
        """What one pod takes of accelerators, in billionths by resource name, its claims included."""
        found = {resource: amount for resource, amount in self.totals().items() if self.names.covers(resource)}
        for claims in (self.claimed(), *self.shared().values()) if self.claims else ():
            for resource, amount in claims.items():
                found[resource] = found.get(resource, 0) + amount
        return found

    def totals(self, defaults: Mapping[str, int] = _NOTHING, over_limits: bool = False) -> dict[str, int]:
        """What one pod's containers request, in billionths by resource name, as the scheduler counts it (Kubernetes
        KEP-753).

        Main containers and sidecars run together; each plain init container runs beside the sidecars before it. An
        absent request counts as its limit and, without one, as `defaults` says, or the other way round (`over_limits`).
        Values that are no quantity count as 0: they are reported elsewhere.
        """
        return dict(self._totals) if not defaults else self._summed(defaults, over_limits)

    @cached
    def _totals(self) -> Mapping[str, int]:
        return self._summed(_NOTHING, over_limits=False)

    def _summed(self, defaults: Mapping[str, int], over_limits: bool) -> dict[str, int]:
        running: dict[str, int] = {}
        peak: dict[str, int] = {}
        for container in self.containers:
            limits, requests = container.resources("limits"), container.resources("requests")
            if over_limits:
                limits = {resource: limits[resource] for resource in limits if resource not in defaults}
            asked = _amounts({**limits, **requests})
            if defaults:
                asked = {**defaults, **asked}
            if container.init and not container.sidecar:
                for resource, amount in asked.items():
                    peak[resource] = max(peak.get(resource, 0), running.get(resource, 0) + amount)
            else:
                for resource, amount in asked.items():
                    running[resource] = running.get(resource, 0) + amount
        for resource, amount in peak.items():
            running[resource] = max(running.get(resource, 0), amount)
        return running


def _amounts(values: Mapping[str, Any]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for resource, value in values.items():
        try:
            amounts[resource] = quantity.parse(value)
        except quantity.QuantityError:
            amounts[resource] = 0
    return amounts


def pod_template(
    value: Object,
    path: Path,
    names: Accelerators,
    filled: bool = False,
    claims_from: ClaimSource | None = None,
    shape: Shape = POD,
) -> PodTemplate | None:
    """The template at `path` of an object, or None if there is none that is a mapping."""
    found = at(value, path) if path else value
    return PodTemplate(found, path, names, filled, claims_from, shape) if isinstance(found, dict) else None
