"""What a pod asks for: which containers count, which names are accelerators, totals as the scheduler counts them."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.engine.policy import Policy
from webhook.kube.kinds import KINDS, controller
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import show_path
from webhook.kube.pods import PodTemplate, pod_template
from webhook.kube.quantity import NANO
from webhook.kube.shapes import POD, SPEC, Alone, Shape

GPU = "nvidia.com/gpu"


def container(amount: Any = None, **fields: Any) -> dict[str, Any]:
    resources = {"requests": {GPU: amount}, "limits": {GPU: amount}} if amount is not None else {}
    return {"name": "c", "resources": resources, **fields}


def template(**spec: Any) -> PodTemplate:
    found = pod_template({"spec": spec}, (), Policy().accelerators)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("spec", "total"),
    [
        ({"containers": [container(1), container(2)]}, 3),
        ({"containers": [container(8)], "initContainers": [container(8)]}, 8),
        ({"containers": [container(8)], "initContainers": [container(8, restartPolicy="Always")]}, 16),
        ({"containers": [container(1)], "initContainers": [container(4)]}, 4),
        ({"containers": [], "initContainers": [container(2, restartPolicy="Always"), container(3)]}, 5),
        ({"containers": [], "initContainers": [container(3), container(2, restartPolicy="Always")]}, 3),
        ({"containers": [container(1)], "ephemeralContainers": [container(5)]}, 1),
        ({"containers": [{"name": "c", "resources": {"limits": {GPU: "2"}}}]}, 2),
        ({"containers": [container("nonsense")]}, 0),
        ({"containers": [container(None)]}, None),
        ({"containers": [{"name": "c", "resources": None}]}, None),
        ({"containers": None}, None),
    ],
)
def test_totals(spec: dict[str, Any], total: int | None) -> None:
    assert template(**spec).totals().get(GPU) == (None if total is None else total * NANO)


@pytest.mark.parametrize(
    ("name", "is_accelerator"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-3g.40gb", True),
        ("amd.com/gpu", True),
        ("gpu.intel.com/xe", True),
        ("gpu.intel.com/i915", True),
        ("habana.ai/gaudi", True),
        ("google.com/tpu", True),
        ("aws.amazon.com/neuron", True),
        ("aws.amazon.com/neuroncore", True),
        ("huawei.com/Ascend910", True),
        ("nvidia.com/gpu.memory", False),
        ("nvidia.com/gpux", False),
        ("rdma/hca", False),
        ("cpu", False),
        ("memory", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_default_accelerators(name: str, is_accelerator: bool) -> None:
    pod = template(containers=[{"name": "c", "resources": {"limits": {name: "1"}}}])
    assert [use.resource for use in pod.accelerators] == [name] * is_accelerator


@pytest.mark.parametrize(
    ("resources", "asked"),
    [
        ({"limits": {GPU: 1}}, True),
        ({"requests": {GPU: "1"}}, True),
        ({"requests": {GPU: "0"}, "limits": {GPU: 0}}, False),
        ({"requests": {GPU: None}}, False),
        ({"requests": {GPU: "many"}}, True),
        ({"requests": None, "limits": None}, False),
        ({"requests": [GPU]}, False),
        (None, False),
        ("text", False),
    ],
)
def test_what_is_asked_for(resources: Any, asked: bool) -> None:
    uses = template(containers=[{"name": "c", "resources": resources}]).accelerators
    assert any(use.asked for use in uses) == asked


RESOURCES = {"requests": {GPU: "1"}, "limits": {GPU: "2"}}


@pytest.mark.parametrize(
    ("value", "shape", "uses"),
    [
        (
            {"spec": {"initContainers": [{"name": "i", "resources": RESOURCES}], "containers": []}},
            POD,
            [("i", "a.spec.initContainers[0].resources.requests[nvidia.com/gpu]")],
        ),
        (
            {"containers": [{"name": "c", "resources": RESOURCES}], "labels": {QUEUE_LABEL: "q"}},
            SPEC,
            [("c", "a.containers[0].resources.requests[nvidia.com/gpu]")],
        ),
        # KServe: a container beside the others.
        (
            {"model": {"resources": RESOURCES}, "containers": [{"name": "c", "resources": RESOURCES}]},
            Shape((), (), (Alone(("model",)),)),
            [
                ("model", "a.model.resources.requests[nvidia.com/gpu]"),
                ("c", "a.containers[0].resources.requests[nvidia.com/gpu]"),
            ],
        ),
        # TrainJob: no more than resources.
        (
            {"resourcesPerNode": RESOURCES},
            Shape((), (), (Alone((), ("resourcesPerNode",)),)),
            [("a", "a.resourcesPerNode.requests[nvidia.com/gpu]")],
        ),
        # SparkApplication: a name and a quantity.
        (
            {"gpu": {"name": GPU, "quantity": 2}},
            Shape((), (), (Alone(("gpu",), gpu=True),)),
            [("gpu", "a.gpu.quantity")],
        ),
        ({"gpu": {"quantity": 2}}, Shape((), (), (Alone(("gpu",), gpu=True),)), []),
        ({"gpu": None, "model": "text"}, Shape((), (), (Alone(("gpu",), gpu=True), Alone(("model",)))), []),
    ],
)
def test_shapes(value: dict[str, Any], shape: Shape, uses: list[tuple[str, str]]) -> None:
    found = pod_template({"a": value}, ("a",), Policy().accelerators, shape=shape)
    assert found is not None
    assert [(use.container.name, show_path(use.request_path)) for use in found.accelerators] == uses
    assert found.asks is bool(uses)
    assert found.queue == ("q" if "labels" in value else "")


def test_a_spark_gpu_is_a_pair() -> None:
    shape = Shape((), (), (Alone(("gpu",), gpu=True),))
    found = pod_template({"gpu": {"name": GPU, "quantity": 2}}, (), Policy().accelerators, shape=shape)
    assert found is not None
    [use] = found.accelerators
    assert (use.request, use.limit, use.request_path, use.limit_path) == (2, 2, *[("gpu", "quantity")] * 2)
    assert found.totals() == {GPU: 2 * NANO}


def test_paths_of_a_template() -> None:
    found = pod_template({"spec": {"template": {"spec": {}}}}, ("spec", "template"), Policy().accelerators)
    bare = pod_template({"spec": {"predictor": {}}}, ("spec", "predictor"), Policy().accelerators, shape=SPEC)
    assert found is not None
    assert bare is not None
    assert found.label_path == ("spec", "template", "metadata", "labels", QUEUE_LABEL)
    assert bare.label_path == ("spec", "predictor", "labels", QUEUE_LABEL)
    assert (found.spec_path, bare.spec_path) == (("spec", "template", "spec"), ("spec", "predictor"))


def test_ephemeral_containers_hold_nothing() -> None:
    """kubectl debug must pass: an ephemeral container cannot have resources."""
    pod = template(containers=[container(1)], ephemeralContainers=[{"name": "debug", "resources": None}])
    assert [use.container.name for use in pod.accelerators] == ["c"]


@pytest.mark.parametrize(
    ("reference", "parent"),
    [
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}, True),
        ({"apiVersion": "batch/v1", "kind": "Job", "controller": True}, True),
        ({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "controller": True}, True),
        ({"apiVersion": "ray.io/v1", "kind": "RayCluster", "controller": True}, True),
        ({"apiVersion": "v1", "kind": "ConfigMap", "controller": True}, False),
        ({"apiVersion": "example.com/v1", "kind": "ReplicaSet", "controller": True}, False),
        ({"apiVersion": "v1", "kind": "ReplicaSet", "controller": True}, False),
        ({"apiVersion": None, "kind": 5, "controller": True}, False),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": "true"}, None),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet"}, None),
        ("text", None),
    ],
)
def test_controller(reference: Any, parent: bool | None) -> None:
    owner = controller({"metadata": {"ownerReferences": [{"name": "other"}, reference]}})
    assert (None if owner is None else KINDS.parent(owner) is not None) == parent
