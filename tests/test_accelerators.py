"""Every common accelerator through every rule that speaks of them: none is known to one rule and not to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.cases import Object, outcome_of, policy_of, snapshot_of, subject_of
from tests.quota_objects import flavor, queue
from webhook.kube.names import QUEUE_LABEL

ACCELERATORS = (
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-1g.10gb.shared",
    "nvidia.com/mig-3g.40gb",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
    "google.com/tpu",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
    "aws.amazon.com/neurondevice",
    "huawei.com/Ascend910",
    "huawei.com/Ascend310P",
    "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
)
OTHERS = (
    "rdma/hca",
    "nvidia.com/hostdev",
    "devices.kubevirt.io/kvm",
    "intel.com/qat",
    "hugepages-2Mi",
    "smarter-devices/fuse",
)
CUSTOM: Mapping[str, Any] = {"accelerators": {"resources": ["example.com/npu", "example.com/slice-*"]}}
NAMESPACE = "team"
POLICY: Mapping[str, Any] = {
    "queues": [{"namespace": NAMESPACE, "localQueue": "lq"}],
    # One queue is enough here.
    "rules": {"missing-cohort": "off", "no-reclaim": "off"},
}


def state(resource: str, floor: int = 4) -> list[Object]:
    metadata = {"name": NAMESPACE, "labels": {"floorkeeper.io/managed": "true"}}
    lq = {"name": "lq", "namespace": NAMESPACE}
    node = {
        "capacity": {resource: "4"},
        "allocatable": {resource: "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": node},
        flavor("f"),
        queue("cq", {"f": floor}, resource, namespaceSelector={}),
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": lq,
            "spec": {"clusterQueue": "cq"},
        },
    ]


def deployment(requests: Object, limits: Object, queue_name: str = "") -> Object:
    labels = {"app": "m", **({QUEUE_LABEL: queue_name} if queue_name else {})}
    container = {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "m", "namespace": NAMESPACE},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "m"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 120, "containers": [container]},
            },
        },
    }


def lines(value: Object, resource: str, extra: Mapping[str, Any] | None = None, floor: int = 4) -> list[str]:
    """'severity [rule]' of what is said."""
    policy = policy_of({**POLICY, **(extra or {})})
    found = outcome_of(subject_of(value, policy), snapshot_of(state(resource, floor)), policy).lines
    return [f"{line.split(':')[0]} {line.rpartition(' ')[2]}" for line in found]


CASES = [
    *((name, None) for name in ACCELERATORS),
    *((name, CUSTOM) for name in ("example.com/npu", "example.com/slice-2", "example.com/slice-")),
]


@pytest.mark.parametrize(("resource", "policy"), CASES)
def test_each_is_known_to_every_rule(resource: str, policy: Mapping[str, Any] | None) -> None:
    one = {resource: "1"}
    assert lines(deployment(one, one), resource, policy) == ["patch [missing-queue-name]"]
    assert lines(deployment(one, one, "lq"), resource, policy) == []
    assert lines(deployment({}, one, "lq"), resource, policy) == ["deny [implicit-gpu-request]"]
    assert lines(deployment({resource: "2"}, one, "lq"), resource, policy) == ["deny [implicit-gpu-request]"]
    assert lines(deployment({}, {}, "lq"), resource, policy) == ["deny [implicit-gpu-request]"]
    five = {resource: "5"}
    assert lines(deployment(five, five, "lq"), resource, policy) == ["deny [replica-over-budget]"]
    sneaks = deployment(one, one, "lq")
    sneaks["spec"]["template"]["spec"]["runtimeClassName"] = "nvidia"
    assert "deny [hidden-gpu-use]" not in lines(sneaks, resource, policy)


@pytest.mark.parametrize(("resource", "policy"), CASES)
def test_each_is_a_floor(resource: str, policy: Mapping[str, Any] | None) -> None:
    assert lines(queue("cq2", {"f": 1}, resource, namespaceSelector={}), resource, policy) == [
        "deny [floors-exceed-capacity]"
    ]
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": NAMESPACE},
        "spec": {"hard": {f"requests.{resource}": "4"}},
    }
    assert lines(quota, resource, policy) == ["deny [gpu-resource-quota]"]


@pytest.mark.parametrize("resource", OTHERS)
def test_what_is_no_accelerator(resource: str) -> None:
    one = {resource: "1"}
    assert lines(deployment(one, one), "nvidia.com/gpu") == []


def test_names_are_never_added_up() -> None:
    """Whole cards, slices and shared slots are three things: four of each fit where four of each are."""
    policy = policy_of(POLICY)
    names = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb")
    group = {
        "coveredResources": list(names),
        "flavors": [{"name": "f", "resources": [{"name": name, "nominalQuota": 4} for name in names]}],
    }
    node = dict.fromkeys(names, "4")
    objects = state("nvidia.com/gpu")
    objects[1]["status"].update(capacity=node, allocatable=node)
    objects[3] = queue("cq", {}, resourceGroups=[group], namespaceSelector={})
    four = dict.fromkeys(names, "4")
    assert outcome_of(subject_of(deployment(four, four, "lq"), policy), snapshot_of(objects), policy).lines == ()
    assert outcome_of(subject_of(objects[3], policy), snapshot_of(objects), policy).lines == ()
    [line] = outcome_of(
        subject_of(deployment({**four, names[1]: "5"}, {**four, names[1]: "5"}, "lq"), policy),
        snapshot_of(objects),
        policy,
    ).lines
    assert "[replica-over-budget]" in line
