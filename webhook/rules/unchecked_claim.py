"""Every resource claim (DRA) of a pod is known to be counted as an accelerator, or to be none.

A pod can get its GPUs by resource claims instead of container requests. They count as what the policy's
`accelerators.deviceClasses` says of their DeviceClass, as in Kueue's own deviceClassMappings: one that is made from a
ResourceClaimTemplate for each pod, a ResourceClaim that pods share once. What cannot be counted so is told here, since
it is checked nowhere else:

- a template or claim that does not exist yet;
- a DeviceClass that the policy does not map. If it is none of accelerators, nothing is amiss;
- all devices of a class (allocationMode All), alternatives that count as different things (firstAvailable), and devices
  that others use (adminAccess);
- what Kueue itself counts otherwise, or not at all: a class that its configuration does not map or maps to another
  resource, and a ResourceClaim that pods share, which Kueue 0.17 never counts.

Guide: prerequisite 4, a pod without GPU requests 'is admitted for free'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import listed
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.claims import CLAIM, TEMPLATE, Devices, PodClaim, counted_as
from webhook.kube.kinds import WORKLOADS
from webhook.kube.kueue_facts import KueueConfigurationFact
from webhook.kube.snapshot import FactsMissing, Snapshot

_Words = tuple[str, str, str]
"""What must hold, what is there, and what to do."""


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    unknown: LookupError | None = None
    for pods in subject.pod_sets:
        for claim in pods.template.claims:
            unknown = unknown or claim.unknown
            for must, actual, fix in _problems(claim, subject, snapshot):
                yield Violation(
                    claim.path,
                    must,
                    actual + pods.where(claim.path),
                    fix,
                    identity=(pods.template.path, claim.kind, claim.name, must, actual),
                )
    if unknown is not None:
        raise unknown


def _problems(claim: PodClaim, subject: Subject, snapshot: Snapshot) -> Iterator[_Words]:
    if claim.unknown is not None:
        return
    if claim.fact is None:
        yield f"must name a {claim.kind} that exists", claim.name, "create it first: nobody knows what it is for"
        return
    classes = subject.accelerators.device_classes
    kueue = _configuration(snapshot)
    counted: dict[str, str] = {}
    for alternatives in claim.fact.requests:
        resource, _ = counted_as(alternatives, classes)
        if resource:
            counted |= {devices.device_class: resource for devices in alternatives}
        elif any(devices.device_class not in classes for devices in alternatives):
            yield _unmapped(claim, alternatives, classes, kueue)
        else:
            yield _uncounted(claim, alternatives, classes)
    if counted and claim.kind == CLAIM:
        so = "with which Kueue admits none" if _minds(kueue) else "which Kueue does not count"
        actual = f"{claim.name}, which pods share and {so}"
        yield f"must come from a {TEMPLATE}", actual, "use resourceClaimTemplateName"
    elif kueue is not None:
        for device_class, resource in counted.items():
            if kueue.device_classes.get(device_class) != resource:
                yield _otherwise(claim, device_class, resource, kueue)


def _configuration(snapshot: Snapshot) -> KueueConfigurationFact | None:
    """That of the running Kueue, None where nobody has read it."""
    try:
        configuration = snapshot.kueue_configuration()
    except FactsMissing:
        return None
    return configuration if configuration.read else None


def _minds(kueue: KueueConfigurationFact | None) -> bool:
    """Whether Kueue surely looks at claims: then it admits no pod with one that it cannot count (Kueue 0.17)."""
    return kueue is not None and kueue.features.get("DynamicResourceAllocation", False)


def _unmapped(
    claim: PodClaim,
    alternatives: tuple[Devices, ...],
    classes: Mapping[str, str],
    kueue: KueueConfigurationFact | None,
) -> _Words:
    theirs = kueue.device_classes if kueue is not None else {}
    strangers = [name for name in _names(alternatives) if name not in classes]
    stranger = next((name for name in strangers if name in theirs), strangers[0])
    hangs = ", with which Kueue admits no pod" if _minds(kueue) and stranger not in theirs else ""
    why = f"as Kueue has it: {theirs[stranger]}" if stranger in theirs else "if it is an accelerator"
    return (
        "must be of a DeviceClass that is counted",
        f"{claim.name}, of {listed(_names(alternatives), 2)}{hangs}",
        f"map {stranger} in the policy's accelerators.deviceClasses, {why}",
    )


def _uncounted(claim: PodClaim, alternatives: tuple[Devices, ...], classes: Mapping[str, str]) -> _Words:
    """Of classes that are all mapped."""
    of = f"{claim.name}, of {listed(_names(alternatives), 2)}"
    if any(devices.admin for devices in alternatives):
        return "must not be for adminAccess", of, "nothing counts it: claim devices of its own"
    if any(devices.count is None for devices in alternatives):
        return "must be for a number of devices", f"{of}, all of them", "set allocationMode ExactCount and a count"
    resources = dict.fromkeys(classes[name] for name in _names(alternatives))
    return "must count as one accelerator", f"{of}: {' or '.join(resources)}", "claim one of them"


def _otherwise(claim: PodClaim, device_class: str, resource: str, kueue: KueueConfigurationFact) -> _Words:
    theirs = kueue.device_classes.get(device_class)
    return (
        f"must count as {resource} in Kueue too",
        f"{claim.name}, of {device_class}, there {theirs or 'not counted'}",
        f"map it in Kueue's resources.deviceClassMappings{' and here alike' if theirs else ''}",
    )


def _names(alternatives: tuple[Devices, ...]) -> list[str]:
    return list(dict.fromkeys(devices.device_class for devices in alternatives))


RULE = Rule(
    id="unchecked-claim",
    mode=Mode.WARN,
    kinds=WORKLOADS,
    check=check,
    needs=frozenset({"ResourceClaimTemplate", "ResourceClaim", "DeviceClass", "ConfigMap"}),
    page=__doc__,
)
