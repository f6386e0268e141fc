"""Pods that Kueue knows nothing of and that hold accelerators all the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.kube.accelerators import Accelerators
from webhook.kube.names import POD_SET_LABEL, QUEUE_LABEL
from webhook.kube.objects import Object, at, label, metadata, string
from webhook.kube.pods import pod_template

FINISHED = ("Succeeded", "Failed")
_QUEUED = (QUEUE_LABEL, POD_SET_LABEL)


@dataclass(frozen=True, slots=True)
class UnqueuedPodFact:
    """`requests` are extended resources in billionths. `node` is where the pod is."""

    namespace: str
    name: str
    node: str
    requests: Mapping[str, int]


def project_unqueued_pod(value: Object) -> UnqueuedPodFact | None:
    """None for a pod in a queue, on no node, that has finished, or that requests nothing of the kind."""
    node = string(at(value, ("spec", "nodeName")))
    queued = any(label(value, each) for each in _QUEUED)
    if not node or queued or at(value, ("status", "phase")) in FINISHED:
        return None
    template = pod_template(value, (), Accelerators(frozenset()), filled=True)
    totals = template.totals() if template is not None else {}
    requests = {resource: amount for resource, amount in totals.items() if "/" in resource and amount > 0}
    if not requests:
        return None
    named = metadata(value)
    return UnqueuedPodFact(string(named.get("namespace")), string(named.get("name")), node, requests)
