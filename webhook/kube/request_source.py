"""Where in a pod template a resource was asked for that Kueue counts."""

from __future__ import annotations

from dataclasses import dataclass

from webhook.kube.counted_pod import CountedPod, for_a_pod, overhead
from webhook.kube.objects import Path, mapping, string
from webhook.kube.pods import Container, PodTemplate
from webhook.kube.quantity import NANO, show
from webhook.kube.quota_facts import amount
from webhook.kube.snapshot import Snapshot

_BYTES = ("memory", "ephemeral-storage", "hugepages-")
_UNITS = {
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", 1)},
}


@dataclass(frozen=True, slots=True)
class Source:
    """Where a pod asks for a resource, in words as well."""

    path: Path
    asks: str
    """'64Gi of memory, by LimitRange "defaults"'."""

    remedy: str
    """What keeps Kueue from counting it: 'drop the request, or …'."""


def source_of(resource: str, pod: CountedPod, snapshot: Snapshot) -> Source:
    """The first place that asks; the pod itself where none does, as for the resource `pods`."""
    found = _asked(resource, pod, snapshot)
    claimed = _claimed(resource, pod)
    if claimed is not None and found is None:
        return claimed
    if found is not None:
        remedy = f"{found.remedy}, or name it in Kueue's resources.excludeResourcePrefixes"
        return Source(found.path, found.asks, remedy)
    for transformation in pod.configuration.transformations:
        if resource in transformation.outputs:
            found = _asked(transformation.input, pod, snapshot)
            if found is not None:
                asks = f"{found.asks}, which Kueue transforms to {resource}"
                return Source(found.path, asks, "or mend Kueue's resources.transformations")
    asks = f"{show_amount(resource, pod.requests.get(resource, 0))} of {resource}"
    return Source(pod.template.spec_path, asks, "or ask for less")


def _asked(resource: str, pod: CountedPod, snapshot: Snapshot) -> Source | None:
    return _written(resource, pod.template) or _added(resource, pod, snapshot)


def _written(resource: str, template: PodTemplate) -> Source | None:
    """In the template itself. What the pod asks for stands for what its containers do."""
    spec = template.spec_path
    places = list(template.containers)
    if for_a_pod(resource):
        places.insert(0, Container(template.spec, spec))
    for holder in places:
        part = "requests" if resource in holder.resources("requests") else "limits"
        text = holder.resources(part).get(resource)
        if amount(text):
            remedy = "drop the request" if part == "requests" else "drop the limit, which is the request too"
            return Source(holder.amount_path(part, resource), f"{text} of {resource}", remedy)
    text = mapping(template.spec.get("overhead")).get(resource)
    return Source((*spec, "overhead", resource), f"{text} of {resource}", "drop the overhead") if amount(text) else None


def _claimed(resource: str, pod: CountedPod) -> Source | None:
    """By a claim, which Kueue counts after it has excluded and transformed what containers request."""
    for claim in pod.template.claims:
        asked = claim.amounts(pod.device_classes)
        if resource in asked:
            asks = f'{show_amount(resource, asked[resource])} of {resource}, by {claim.kind} "{claim.name}"'
            return Source(claim.path, asks, "drop the claim")
    return None


def _added(resource: str, pod: CountedPod, snapshot: Snapshot) -> Source | None:
    """By the API server, when it makes the Pod."""
    extra = overhead(pod.template, snapshot).get(resource, 0)
    if extra:
        name = string(pod.template.spec.get("runtimeClassName"))
        asks = f'{show_amount(resource, extra)} of {resource}, the overhead of RuntimeClass "{name}"'
        return Source((*pod.template.spec_path, "runtimeClassName"), asks, "leave the class out")
    for limit_range in snapshot.limit_ranges(pod.namespace):
        asked = limit_range.default_requests.get(resource, 0)
        if asked:
            asks = f'{show_amount(resource, asked)} of {resource}, the default of LimitRange "{limit_range.name}"'
            return Source(pod.template.spec_path, asks, "request 0 of it in each container")
    return None


def show_amount(resource: str, asked: int) -> str:
    """An amount in billionths as a person would write it: '3', '0.5', '64Gi' of memory."""
    units, rest = divmod(asked, NANO)
    if resource.startswith(_BYTES) and units and not rest:
        whole = [(units // size, suffix) for suffix, size in _UNITS.items() if units % size == 0]
        if whole:
            count, suffix = min(whole)
            return f"{count}{suffix}"
    return show(asked)
