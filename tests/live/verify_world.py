"""A namespace to verify, in memory, and what verify says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.live.rollout_world import GATE, GPU, KUEUE, TEAM, Value, World, deployment
from webhook.engine.policy import Policy
from webhook.kube.names import QUEUE_LABEL
from webhook.live.api import ApiError, Resource
from webhook.live.deployments import STRATEGY
from webhook.live.verify.assertion import Assertion
from webhook.live.verify.command import assertions

IDS = [
    "controller-answers",
    "queues-active",
    "cohort-shared",
    "pods-made",
    "one-workload-each",
    "gated-beyond-budget",
    "admitted-within-nominal",
    "none-outside",
    "floors-fit",
    "preemptions",
]


class Verified(World):
    """`refusals` are what lists of a resource are answered with, one after the other; `groups` are further API groups
    that are served, each with its version."""

    def __init__(self, *values: Value) -> None:
        self.refusals: dict[str, list[ApiError]] = {}
        self.groups: dict[str, str] = {}
        super().__init__(*values)

    def items(
        self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "", *, required: bool = False
    ) -> Iterator[Value]:
        if fields == "reason=Preempted":
            fields = ""
        found = super().items(resource, namespace, labels, fields, required=required)
        if self.refusals.get(resource.name):
            # Of the first page there is something, as there is of a list whose token expires.
            yield from list(found)[:1]
            raise self.refusals[resource.name].pop(0)
        yield from found

    def versions(self, group: str) -> tuple[str, ...]:
        return (self.groups[group],) if group in self.groups else super().versions(group)


def made(*, replicas: int = 3) -> Verified:
    strategy = dict(STRATEGY)
    return Verified(
        deployment("model-a", replicas, queue="a-lq", strategy=strategy),
        deployment("model-b", 2, queue="b-lq", strategy=strategy),
    )


def verified(world: World, policy: Policy | None = None) -> dict[str, Assertion]:
    found = assertions(world, TEAM, policy or Policy(), lambda seconds: None)
    assert [each.id for each in found] == IDS
    return {each.id: each for each in found}


def failing(found: dict[str, Assertion]) -> dict[str, list[str]]:
    return {each.id: each.failures for each in found.values() if each.failures}


def pod(name: str, gpus: int = 1, labels: dict[str, str] | None = None, **metadata: Any) -> Value:
    """One that runs."""
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "namespace": TEAM,
            "labels": {"app": name, **(labels or {})},
            **metadata,
        },
        "spec": {"containers": [{"name": "vllm", "resources": resources}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        "model": name,
    }


def gated(
    world: World, name: str, queue: str, gpus: int = 1, *, said: str = "insufficient unused quota", **spec: Any
) -> Value:
    """A pod that Kueue holds back, whose Workload is returned."""
    value = pod(name, gpus, {QUEUE_LABEL: queue})
    value["spec"]["schedulingGates"] = [dict(GATE)]
    value["status"] = {"phase": "Pending"}
    world.put(value)
    owner = {"kind": "Pod", "uid": value["metadata"]["uid"], "name": name, "controller": True}
    conditions = [{"type": "QuotaReserved", "status": "False", "message": said}] if said else []
    workload = {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": f"pod-{name}",
            "namespace": TEAM,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [owner],
        },
        "spec": {"queueName": queue, **spec},
        "status": {"conditions": conditions},
    }
    world.put(workload)
    return workload
