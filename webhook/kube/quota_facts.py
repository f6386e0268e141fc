"""Quota as Kueue keeps it: facts of ClusterQueues, Cohorts and AdmissionChecks.

Fields are read by the object's own apiVersion; another version's spelling is ignored, as the API server prunes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.kube import quantity
from webhook.kube.names import NAME_LABEL
from webhook.kube.objects import Object, at, deleting, mapping, metadata, sequence, string
from webhook.kube.selector import LabelSelector, label_selector

FlavorResource = tuple[str, str]
"""The names of a ResourceFlavor and of a resource: what Kueue keeps one quota for."""

MULTIKUEUE_CONTROLLER = "kueue.x-k8s.io/multikueue"
PROVISIONING_CONTROLLER = "kueue.x-k8s.io/provisioning-request"

_MILLI = quantity.NANO // 1000


def counted(resource: str, amount: int) -> int:
    """The amount (billionths) that Kueue computes with: cpu rounded up to whole millis, all else to whole units.

    Kueue 0.17, pkg/resources ResourceValue.
    """
    step = _MILLI if resource == "cpu" else quantity.NANO
    return amount if amount % step == 0 else -(-amount // step) * step


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """One resourceGroups entry of a ClusterQueue: a pod gets all its covered resources from one of the flavors."""

    covered: frozenset[str]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlavorCheck:
    """An AdmissionCheck of a ClusterQueue. `flavors` are those it is for; empty: all of the queue's."""

    name: str
    flavors: frozenset[str] = frozenset()

    def covers(self, flavor: str) -> bool:
        return not self.flavors or flavor in self.flavors


@dataclass(frozen=True, slots=True)
class ClusterQueueFact:
    """Quotas are in billionths as they are written, by (flavor, resource); `counted` is what Kueue makes of them.

    `nominal` is nominalQuota, which is guaranteed to this queue; `reserved` is status.flavorsReservation, what its
    Workloads hold now, borrowed quota included. `borrowing` and `lending` are the limits, absent where there is none.
    """

    name: str
    cohort: str
    groups: tuple[ResourceGroup, ...]
    nominal: Mapping[FlavorResource, int]
    reserved: Mapping[FlavorResource, int]
    borrowing: Mapping[FlavorResource, int] = field(default_factory=dict)
    lending: Mapping[FlavorResource, int] = field(default_factory=dict)
    checks: tuple[FlavorCheck, ...] = ()
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: str = "Never"
    """preemption.borrowWithinCohort.policy."""

    within_cluster_queue: str = "Never"

    stopped: bool = False
    """It admits nothing: spec.stopPolicy is not None, or Kueue says that it is not Active."""

    uid: str = ""
    """metadata.uid, for Events about it."""

    namespaces: LabelSelector | None = LabelSelector()
    """spec.namespaceSelector: whose workloads it admits; None for nobody's, as where it is absent."""

    def takes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it admits workloads of a namespace."""
        # Manifests of a namespace seldom write the label that the API server adds.
        whole = labels if NAME_LABEL in labels else {NAME_LABEL: namespace, **labels}
        return self.namespaces is not None and self.namespaces.matches(whole)

    def covers(self, resource: str) -> bool:
        return any(resource in group.covered for group in self.groups)

    def holds(self, requests: Mapping[str, int]) -> bool:
        """Whether the queue's own quota, less what it reserves now, holds these requests (billionths by resource).

        A request that the queue does not cover is never admitted. Each group gives all that it covers from one flavor.
        """
        asked = {resource: amount for resource, amount in requests.items() if amount > 0}
        return all(map(self.covers, asked)) and all(
            any(
                all(amount <= self._free(flavor, resource) for resource, amount in asked.items() if resource in covered)
                for flavor in flavors
            )
            for covered, flavors in ((group.covered, group.flavors) for group in self.groups)
            if not covered.isdisjoint(asked)
        )

    def _free(self, flavor: str, resource: str) -> int:
        return counted(resource, self.nominal.get((flavor, resource), 0)) - self.reserved.get((flavor, resource), 0)


@dataclass(frozen=True, slots=True)
class CohortFact:
    """`parent` is '' at the root of a tree. Quotas are as those of a ClusterQueueFact, and add to the members' own."""

    name: str
    parent: str = ""
    nominal: Mapping[FlavorResource, int] = field(default_factory=dict)
    borrowing: Mapping[FlavorResource, int] = field(default_factory=dict)
    lending: Mapping[FlavorResource, int] = field(default_factory=dict)
    uid: str = ""


@dataclass(frozen=True, slots=True)
class AdmissionCheckFact:
    name: str
    controller: str
    """spec.controllerName."""


def project_cluster_queue(value: Object) -> ClusterQueueFact:
    spec = mapping(value.get("spec"))
    old = _version(value) == "v1beta1"
    nominal, borrowing, lending = _quotas(spec)
    reserved = {
        (string(flavor.get("name")), string(resource.get("name"))): amount(resource.get("total"))
        for flavor in map(mapping, sequence(at(value, ("status", "flavorsReservation"))))
        for resource in map(mapping, sequence(flavor.get("resources")))
    }
    preemption = mapping(spec.get("preemption"))
    return ClusterQueueFact(
        _name(value),
        string(spec.get("cohort" if old else "cohortName")),
        tuple(map(_group, map(mapping, sequence(spec.get("resourceGroups"))))),
        nominal,
        reserved,
        borrowing,
        lending,
        _checks(spec, old),
        string(preemption.get("reclaimWithinCohort")) or "Never",
        string(at(preemption, ("borrowWithinCohort", "policy"))) or "Never",
        string(preemption.get("withinClusterQueue")) or "Never",
        stopped(value),
        string(metadata(value).get("uid")),
        label_selector(spec["namespaceSelector"]) if isinstance(spec.get("namespaceSelector"), dict) else None,
    )


def project_cohort(value: Object) -> CohortFact:
    spec = mapping(value.get("spec"))
    # v1beta1 came with both spellings: Kueue 0.12 brought it with parentName, where v1alpha1 had `parent`.
    old, new = string(spec.get("parent")), string(spec.get("parentName"))
    parent = {"v1alpha1": old, "v1beta1": new or old}.get(_version(value), new)
    return CohortFact(_name(value), parent, *_quotas(spec), string(metadata(value).get("uid")))


def project_admission_check(value: Object) -> AdmissionCheckFact:
    return AdmissionCheckFact(_name(value), string(at(value, ("spec", "controllerName"))))


def stopped(value: Object) -> bool:
    """Whether a ClusterQueue or LocalQueue admits nothing: stopped, not Active, or being deleted."""
    if deleting(value) or at(value, ("spec", "stopPolicy")) not in (None, "None"):
        return True
    conditions = map(mapping, sequence(at(value, ("status", "conditions"))))
    return any(entry.get("type") == "Active" and entry.get("status") == "False" for entry in conditions)


def amount(value: object) -> int:
    """A quota that is no quantity counts as none: the rules about its object report it."""
    try:
        return quantity.parse(value)
    except quantity.QuantityError:
        return 0


def amounts(value: object) -> dict[str, int]:
    """A ResourceList in billionths by resource, each as `amount`."""
    return {resource: amount(text) for resource, text in mapping(value).items()}


def _name(value: Object) -> str:
    return string(metadata(value).get("name"))


def _version(value: Object) -> str:
    return string(value.get("apiVersion")).rpartition("/")[2]


def _group(group: Object) -> ResourceGroup:
    return ResourceGroup(
        frozenset(map(string, sequence(group.get("coveredResources")))),
        tuple(string(mapping(flavor).get("name")) for flavor in sequence(group.get("flavors"))),
    )


_Quotas = dict[FlavorResource, int]


def _quotas(spec: Object) -> tuple[_Quotas, _Quotas, _Quotas]:
    """nominalQuota, borrowingLimit and lendingLimit. Of a quota that is listed twice the last counts, as in Kueue."""
    found: tuple[_Quotas, _Quotas, _Quotas] = ({}, {}, {})
    nominal, borrowing, lending = found
    for group in map(mapping, sequence(spec.get("resourceGroups"))):
        for flavor in map(mapping, sequence(group.get("flavors"))):
            name = string(flavor.get("name"))
            for resource in map(mapping, sequence(flavor.get("resources"))):
                key = name, string(resource.get("name"))
                nominal[key] = amount(resource.get("nominalQuota"))
                for limits, limit in (
                    (borrowing, resource.get("borrowingLimit")),
                    (lending, resource.get("lendingLimit")),
                ):
                    limits.pop(key, None)
                    if limit is not None:
                        limits[key] = amount(limit)
    return found


def _checks(spec: Object, old: bool) -> tuple[FlavorCheck, ...]:
    """Both fields are read of a v1beta1 object, in which either can be used; v1beta2 has the strategy alone."""
    plain = [FlavorCheck(string(name)) for name in sequence(spec.get("admissionChecks"))] if old else []
    rules = map(mapping, sequence(at(spec, ("admissionChecksStrategy", "admissionChecks"))))
    return (
        *plain,
        *(
            FlavorCheck(string(rule.get("name")), frozenset(map(string, sequence(rule.get("onFlavors")))))
            for rule in rules
        ),
    )
