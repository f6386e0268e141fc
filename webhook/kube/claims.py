"""Resource claims (DRA, dynamic resource allocation): what the devices that a pod claims count for.

A pod lists claims in spec.resourceClaims. Each is made for it from a ResourceClaimTemplate or is a ResourceClaim that
pods share, and asks for devices of DeviceClasses. The scheduler allocates every listed claim, also one that no
container uses (Kubernetes v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from webhook.kube.names import POD_CLAIM_ANNOTATION
from webhook.kube.objects import Object, Path, at, mapping, metadata, sequence, string
from webhook.kube.quantity import NANO

TEMPLATE, CLAIM = "ResourceClaimTemplate", "ResourceClaim"
CLAIMS = frozenset({TEMPLATE, CLAIM})


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one class. `count` is None for all that match (allocationMode All)."""

    device_class: str
    count: int | None = 1
    admin: bool = False
    """adminAccess: for looking at devices that others use."""


@dataclass(frozen=True, slots=True)
class ClaimFact:
    """The spec of a ResourceClaim, or of the claims that a ResourceClaimTemplate makes.

    Each of `requests` holds its alternatives, of which the scheduler takes one: `exactly` has one, `firstAvailable` as
    many as it lists.
    """

    namespace: str
    name: str
    requests: tuple[tuple[Devices, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClassFact:
    name: str
    extended_resource: str = ""
    """spec.extendedResourceName: a container that requests this gets devices of the class; '' without one."""


class ClaimFacts(Protocol):
    """Where claims are looked up. Implemented by Snapshot."""

    def claim(self, kind: str, namespace: str, name: str) -> ClaimFact | None:
        """The ResourceClaim or ResourceClaimTemplate of that name. Raises FactsMissing where `kind` is not known."""


class ClaimSource(NamedTuple):
    """The claims of one namespace."""

    facts: ClaimFacts
    namespace: str

    def find(self, kind: str, name: str) -> ClaimFact | None:
        """Raises FactsMissing."""
        return self.facts.claim(kind, self.namespace, name)


@dataclass(frozen=True, slots=True)
class PodClaim:
    """One entry of spec.resourceClaims, and what it leads to."""

    path: Path
    """Where it names a template or a claim."""

    kind: str
    """TEMPLATE: each pod has a claim of its own; CLAIM: pods share it."""

    name: str
    fact: ClaimFact | None
    """None for one that is not there, or where nobody knows."""

    unknown: LookupError | None = None
    """Why nobody knows (FactsMissing)."""

    def asks(self, classes: Mapping[str, str]) -> bool:
        """Whether it may take devices of one of these classes for itself."""
        return any(
            devices.device_class in classes and not devices.admin
            for alternatives in (self.fact.requests if self.fact is not None else ())
            for devices in alternatives
        )

    def amounts(self, classes: Mapping[str, str]) -> dict[str, int]:
        """What it counts for, in billionths by the resource names of `classes`. What cannot be counted is left out."""
        found: dict[str, int] = {}
        for alternatives in self.fact.requests if self.fact is not None else ():
            resource, count = counted_as(alternatives, classes)
            if resource:
                found[resource] = found.get(resource, 0) + count * NANO
        return found


def counted_as(alternatives: Iterable[Devices], classes: Mapping[str, str]) -> tuple[str, int]:
    """The resource that one request counts for, and how many; '' where that is not known.

    Of alternatives that all count for one resource the largest counts. Those of several resources, or of which one is
    not mapped, cannot be counted, since only the scheduler knows which it will be.
    """
    resources, most = set[str](), 0
    for devices in alternatives:
        if devices.admin or devices.count is None:
            return "", 0
        resources.add(classes.get(devices.device_class, ""))
        most = max(most, devices.count)
    resource = resources.pop() if len(resources) == 1 else ""
    return resource, most if resource else 0


def pod_claims(spec: Object, path: Path, source: ClaimSource | None) -> tuple[PodClaim, ...]:
    """The claims of a pod spec that is at `path`. Without a source nothing is known of any of them."""
    found = []
    for index, entry in enumerate(map(mapping, sequence(spec.get("resourceClaims")))):
        for kind, field in ((TEMPLATE, "resourceClaimTemplateName"), (CLAIM, "resourceClaimName")):
            name = string(entry.get(field))
            if name:
                place = (*path, "resourceClaims", index, field)
                try:
                    fact = source.find(kind, name) if source is not None else None
                    found.append(PodClaim(place, kind, name, fact))
                except LookupError as unknown:
                    found.append(PodClaim(place, kind, name, None, unknown))
    return tuple(found)


def project_resource_claim_template(value: Object) -> ClaimFact:
    return _fact(value, at(value, ("spec", "spec")))


def project_resource_claim(value: Object) -> ClaimFact | None:
    """None for one that was made for a pod from a template, which counted for it."""
    if POD_CLAIM_ANNOTATION in mapping(metadata(value).get("annotations")):
        return None
    return _fact(value, value.get("spec"))


def project_device_class(value: Object) -> DeviceClassFact:
    return DeviceClassFact(string(metadata(value).get("name")), string(at(value, ("spec", "extendedResourceName"))))


def _fact(value: Object, spec: object) -> ClaimFact:
    own = metadata(value)
    flat = string(value.get("apiVersion")).endswith("/v1beta1")
    requests = map(mapping, sequence(at(spec, ("devices", "requests"))))
    return ClaimFact(
        string(own.get("namespace")),
        string(own.get("name")),
        tuple(tuple(map(_devices, map(mapping, _alternatives(request, flat)))) for request in requests),
    )


def _alternatives(request: Object, flat: bool) -> list[object]:
    """v1beta1 has the fields of `exactly` in the request itself."""
    several = sequence(request.get("firstAvailable"))
    return several or [request if flat else request.get("exactly")]


def _devices(value: Object) -> Devices:
    count = value.get("count")
    if value.get("allocationMode") == "All":
        count = None
    elif not isinstance(count, int) or isinstance(count, bool):
        count = 1  # as the API server fills it in
    return Devices(string(value.get("deviceClassName")), count, value.get("adminAccess") is True)
