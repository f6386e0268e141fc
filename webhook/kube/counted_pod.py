"""What Kueue counts for one pod of a workload.

Follows Kueue 0.17 (pkg/workload totalRequestsFromPodSets and AdjustResources, pkg/scheduler/flavorassigner) for a Pod
that the API server made from the template, as a Deployment's are: by then limits have become requests, and LimitRanges
and the RuntimeClass have added theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webhook.kube.kueue_facts import KueueConfigurationFact, Transformation
from webhook.kube.objects import mapping, string
from webhook.kube.pods import PodTemplate
from webhook.kube.quantity import NANO
from webhook.kube.quota_facts import ClusterQueueFact, amount, counted
from webhook.kube.snapshot import Snapshot

_PODS = "pods"


@dataclass(frozen=True, slots=True)
class CountedPod:
    """One pod of a template, against the ClusterQueue that its queue label leads to.

    `requests` is what is counted, in billionths by resource, rounded as Kueue rounds; zeros are in it. A ClusterQueue
    that covers `pods` counts one of them. Resource claims are not counted.
    """

    template: PodTemplate
    namespace: str
    cluster_queue: ClusterQueueFact
    configuration: KueueConfigurationFact
    requests: Mapping[str, int]


def counted_pod(template: PodTemplate, queue: str, namespace: str, snapshot: Snapshot) -> CountedPod | None:
    """None where Kueue counts nothing: without a queue, with one that leads nowhere, and where Kueue's configuration
    leaves the namespace out.

    Raises FactsMissing where queues, Kueue's configuration, LimitRanges or (for a pod with one) the RuntimeClass are
    not known.
    """
    local_queue = snapshot.local_queue(namespace, queue) if queue else None
    cluster_queue = snapshot.cluster_queue(local_queue.cluster_queue) if local_queue is not None else None
    if cluster_queue is None:
        return None
    configuration = snapshot.kueue_configuration()
    found = snapshot.namespace(namespace)
    if configuration.leaves_out(namespace, found.labels if found is not None else {}):
        return None
    requests = _asked(template, namespace, snapshot)
    prefixes = configuration.excluded_prefixes
    if prefixes:
        requests = {resource: asked for resource, asked in requests.items() if not resource.startswith(prefixes)}
    if configuration.transformations:
        requests = _transformed(requests, configuration.transformations)
    if cluster_queue.covers(_PODS):
        requests[_PODS] = NANO
    rounded = {resource: counted(resource, asked) for resource, asked in requests.items()}
    return CountedPod(template, namespace, cluster_queue, configuration, rounded)


def _asked(template: PodTemplate, namespace: str, snapshot: Snapshot) -> dict[str, int]:
    """What the containers, the pod itself and its RuntimeClass ask for."""
    requests = template.totals(_defaults(namespace, snapshot))
    requests.update(_of_the_pod(template))
    for resource, extra in overhead(template, snapshot).items():
        requests[resource] = requests.get(resource, 0) + extra
    return requests


def _defaults(namespace: str, snapshot: Snapshot) -> dict[str, int]:
    """What LimitRanges make a container request; of several that name a resource, the first by name counts."""
    found: dict[str, int] = {}
    for limit_range in reversed(snapshot.limit_ranges(namespace)):
        found |= limit_range.default_requests
    return found


def _of_the_pod(template: PodTemplate) -> dict[str, int]:
    """The pod's own spec.resources (KEP-2837), which stand for the sum of its containers.

    With limits alone, the API server fills in the requests (SetDefaults_Pod): what the containers ask for or, where
    they ask for nothing, the limit.
    """
    resources = template.spec.get("resources")
    if not resources:
        return {}
    limits, requests = mapping(mapping(resources).get("limits")), mapping(mapping(resources).get("requests"))
    found = {resource: amount(text) for resource, text in limits.items()}
    if limits:
        found |= {resource: asked for resource, asked in template.totals().items() if resource in ("cpu", "memory")}
    found |= {resource: amount(text) for resource, text in requests.items()}
    return {resource: asked for resource, asked in found.items() if for_a_pod(resource)}


def for_a_pod(resource: str) -> bool:
    """Whether a pod's own spec.resources can name it."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


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


def _units(asked: int) -> int:
    """Whole units, rounded up."""
    return -(-asked // NANO)
