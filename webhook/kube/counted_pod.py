"""What Kueue counts for one pod of a workload.

Follows Kueue 0.17 (pkg/workload totalRequestsFromPodSets and AdjustResources, pkg/scheduler/flavorassigner). A Pod that
the API server made from the template, as a Deployment's are, has limits as requests by then, and what LimitRanges and
the RuntimeClass add. Of the kinds that Kueue owns it counts the template itself, and adds these on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from webhook.kube.facts import Fact
from webhook.kube.kueue_facts import POD_FRAMEWORK, KueueConfigurationFact, Transformation
from webhook.kube.objects import mapping, string
from webhook.kube.pod_defaults import LimitRangeFact
from webhook.kube.pods import PodTemplate
from webhook.kube.quantity import NANO
from webhook.kube.quota_facts import ClusterQueueFact, amount, counted
from webhook.kube.snapshot import Snapshot

_PODS = "pods"


@dataclass(frozen=True, slots=True)
class CountedPod:
    """One pod of a template, against the ClusterQueue that its queue label leads to.

    `requests` is what is counted, in billionths by resource, rounded as Kueue rounds; zeros are in it. A ClusterQueue
    that covers `pods` counts one of them. Claims that are made for the pod are in it, by Kueue's deviceClassMappings
    and, for DeviceClasses that these do not name, by the policy's. `shared` is what ResourceClaims stand for that the
    pod shares with others, by name and resource: Kueue 0.17 counts none of it.
    """

    template: PodTemplate
    namespace: str
    cluster_queue: ClusterQueueFact
    configuration: KueueConfigurationFact
    requests: Mapping[str, int]
    shared: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def device_classes(self) -> Mapping[str, str]:
        """What each DeviceClass counts as."""
        return _classes(self.template, self.configuration)


def counted_pod(
    template: PodTemplate, queue: str, namespace: str, snapshot: Snapshot, framework: str = POD_FRAMEWORK
) -> CountedPod | None:
    """None where Kueue counts nothing: without a queue, with one that leads nowhere, and where Kueue's configuration
    leaves the namespace or the integration (`framework`) out.

    Raises FactsMissing where queues, Kueue's configuration, LimitRanges, DeviceClasses (if Kueue looks at them) or, for
    a pod with one, the RuntimeClass are not known.
    """
    local_queue = snapshot.local_queue(namespace, queue) if queue else None
    cluster_queue = snapshot.cluster_queue(local_queue.cluster_queue) if local_queue is not None else None
    if cluster_queue is None:
        return None
    configuration = snapshot.kueue_configuration()
    found = snapshot.namespace(namespace)
    if configuration.leaves_out(framework, namespace, found.labels if found is not None else {}):
        return None
    requests = _asked(template, namespace, snapshot, made=framework == POD_FRAMEWORK)
    prefixes = configuration.excluded_prefixes
    if prefixes:
        requests = {resource: asked for resource, asked in requests.items() if not resource.startswith(prefixes)}
    if configuration.transformations:
        requests = _transformed(requests, configuration.transformations)
    if configuration.features.get("DRAExtendedResources"):
        requests = _backed(requests, configuration, snapshot)
    shared: Mapping[str, Mapping[str, int]] = {}
    if template.claims:
        classes = _classes(template, configuration)
        shared = template.shared(classes)
        for resource, claimed in template.claimed(classes).items():
            requests[resource] = requests.get(resource, 0) + claimed
    if cluster_queue.covers(_PODS):
        requests[_PODS] = NANO
    rounded = {resource: counted(resource, asked) for resource, asked in requests.items()}
    return CountedPod(template, namespace, cluster_queue, configuration, rounded, shared)


def _classes(template: PodTemplate, configuration: KueueConfigurationFact) -> dict[str, str]:
    return {**template.names.device_classes, **configuration.device_classes}


def _asked(template: PodTemplate, namespace: str, snapshot: Snapshot, *, made: bool) -> dict[str, int]:
    """What the containers, the pod itself and its RuntimeClass ask for; `made` is for a Pod from the API server."""
    requests = template.totals(_defaults(namespace, snapshot), over_limits=not made)
    requests.update(_of_the_pod(template, made=made))
    for resource, extra in overhead(template, snapshot).items():
        requests[resource] = requests.get(resource, 0) + extra
    return requests


def _defaults(namespace: str, snapshot: Snapshot) -> Mapping[str, int]:
    """What LimitRanges make a container request; of several that name a resource, the first by name counts."""
    return snapshot.derived("LimitRange", namespace, "default requests", _default_requests)


def _default_requests(facts: Mapping[str, Fact]) -> dict[str, int]:
    found: dict[str, int] = {}
    for _, fact in sorted(facts.items(), reverse=True):
        found |= fact.default_requests if isinstance(fact, LimitRangeFact) else {}
    return found


def _of_the_pod(template: PodTemplate, *, made: bool) -> dict[str, int]:
    """The pod's own spec.resources (KEP-2837), which stand for the sum of its containers.

    With limits, the API server fills in the requests (SetDefaults_Pod): what the containers ask for or, where they ask
    for nothing, the limit. Limits of huge pages it takes from the containers.
    """
    resources = mapping(template.spec.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    if not limits and not requests:
        return {}
    found: dict[str, int] = {}
    if made:
        found |= {resource: amount(text) for resource, text in limits.items()}
    if made and (
        limits or any(_huge(resource) for each in template.containers for resource in each.resources("limits"))
    ):
        found |= {resource: asked for resource, asked in template.totals().items() if resource in ("cpu", "memory")}
    found |= {resource: amount(text) for resource, text in requests.items()}
    return {resource: asked for resource, asked in found.items() if for_a_pod(resource)}


def for_a_pod(resource: str) -> bool:
    """Whether a pod's own spec.resources can name it."""
    return resource in ("cpu", "memory") or _huge(resource)


def _huge(resource: str) -> bool:
    return resource.startswith("hugepages-")


def overhead(template: PodTemplate, snapshot: Snapshot) -> Mapping[str, int]:
    """What running the pod at all takes: its own spec.overhead or, without one, that of its RuntimeClass."""
    own = mapping(template.spec.get("overhead"))
    if own:
        return {resource: amount(text) for resource, text in own.items()}
    name = string(template.spec.get("runtimeClassName"))
    runtime_class = snapshot.runtime_class(name) if name else None
    return {} if runtime_class is None else runtime_class.overhead


def _transformed(requests: Mapping[str, int], transformations: Iterable[Transformation]) -> dict[str, int]:
    of = {each.input: each for each in transformations}
    found: dict[str, int] = {}
    for resource, asked in requests.items():
        transformation = of.get(resource)
        outputs = {resource: asked}
        if transformation is not None:
            times = requests.get(transformation.multiply_by)
            total = asked if times is None else asked * _units(times)
            outputs = {output: each * _units(total) for output, each in transformation.outputs.items()}
            if transformation.retain:
                outputs[resource] = total
        for output, total in outputs.items():
            found[output] = found.get(output, 0) + total
    return found


def _backed(requests: Mapping[str, int], configuration: KueueConfigurationFact, snapshot: Snapshot) -> dict[str, int]:
    """With extended resources that a mapped DeviceClass stands behind under the name that the class is mapped to."""
    names: dict[str, str] = {}
    for fact in snapshot.device_classes():
        mapped = configuration.device_classes.get(fact.name)
        if mapped:
            names.setdefault(fact.extended_resource, mapped)
    found: dict[str, int] = {}
    for resource, asked in requests.items():
        name = names.get(resource, resource)
        found[name] = found.get(name, 0) + asked
    return found


def _units(asked: int) -> int:
    """Whole units, rounded up."""
    return -(-asked // NANO)
