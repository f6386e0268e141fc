"""What else waits for the quota or the GPUs where something leaves a queue: it takes what is given up, at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from webhook.kube.facts import LocalQueueFact
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, at, label, mapping, metadata, sequence, string
from webhook.kube.selector import label_selector
from webhook.kube.snapshot import Snapshot
from webhook.live.api import PODS, Api
from webhook.live.facts import listed, read_facts
from webhook.live.pods import condition, is_gated
from webhook.live.quota import members, ways_of
from webhook.live.release.target import Target

_KINDS = ("LocalQueue", "ClusterQueue", "Cohort")
_MOST = 3  # names in a line


def waiting_peers(api: Api, namespace: str, targets: Sequence[Target], found: Sequence[Target]) -> Iterator[str]:
    """Why the GPUs of replicas of `targets` that restart may be taken before they are back: a line for the pods that
    find no node, and one for each ClusterQueue in which something waits, beside what is of `found`.

    Raises FactsMissing and ApiError.
    """
    snapshot = read_facts(api, namespace, _KINDS)
    left = {of for target in targets for name in target.queues if (of := _cluster_queue(snapshot, namespace, name))}
    if not left:
        return
    yield from _without_a_node(api, namespace, _accelerators(snapshot, left), found)
    own = Counter(
        _cluster_queue(snapshot, namespace, label(pod, QUEUE_LABEL))
        for target in found
        for pod in target.pods
        if is_gated(pod)
    )
    ways = ways_of(api)
    near = {each.name for name in left if (queue := snapshot.cluster_queue(name)) for each in members(snapshot, queue)}
    for name in sorted(near & ways.keys()):
        others = ways[name].pending - own[name]
        if others > 0:
            which = "1 Workload waits" if others == 1 else f"{others} Workloads wait"
            yield (
                f"{which} in ClusterQueue {name}: Kueue lets in what waits as soon as quota is given up, and that may "
                "take the GPU of a replica that restarts; scale down what waits, or hold the queue: kubectl patch "
                f"clusterqueues.kueue.x-k8s.io {name} --type=merge "
                """-p '{"spec":{"stopPolicy":"Hold"}}'"""
            )


def _accelerators(snapshot: Snapshot, names: set[str]) -> set[str]:
    """The extended resources that these ClusterQueues cover."""
    queues = filter(None, map(snapshot.cluster_queue, names))
    return {name for queue in queues for group in queue.groups for name in group.covered if "/" in name}


def _without_a_node(api: Api, namespace: str, resources: set[str], found: Sequence[Target]) -> Iterator[str]:
    """Pods that the scheduler would place where a GPU becomes free, whatever namespace or queue they are in."""
    waiting = [
        f"{string(metadata(pod).get('namespace'))}/{string(metadata(pod).get('name'))}"
        for pod in listed(api, PODS, fields="status.phase=Pending,spec.nodeName=")
        if condition(pod, "PodScheduled").get("reason") == "Unschedulable"
        and _asks_for(pod, resources)
        and not any(_is_of(pod, namespace, target.deployment) for target in found)
    ]
    if waiting:
        more = f" and {len(waiting) - _MOST} more" if len(waiting) > _MOST else ""
        which = "1 pod finds" if len(waiting) == 1 else f"{len(waiting)} pods find"
        yield (
            f"{which} no node ({', '.join(waiting[:_MOST])}{more}): the scheduler gives it the GPU of a replica that "
            "restarts, which then finds none; scale down what waits first"
        )


def _asks_for(pod: Object, resources: set[str]) -> bool:
    containers = [
        mapping(each) for field in ("containers", "initContainers") for each in sequence(at(pod, ("spec", field)))
    ]
    return any(
        resources & mapping(at(each, ("resources", kind))).keys()
        for each in containers
        for kind in ("requests", "limits")
    )


def _is_of(pod: Object, namespace: str, deployment: Object) -> bool:
    own = metadata(pod)
    labels = {key: text for key, text in mapping(own.get("labels")).items() if isinstance(text, str)}
    selector = label_selector(mapping(at(deployment, ("spec", "selector"))))
    return own.get("namespace") == namespace and selector.matches(labels)


def _cluster_queue(snapshot: Snapshot, namespace: str, name: str) -> str:
    fact = snapshot.of_namespace("LocalQueue", namespace).get(name)
    return fact.cluster_queue if isinstance(fact, LocalQueueFact) else ""
