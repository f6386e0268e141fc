"""Ways to an accelerator behind Kueue's back: which are found, and what is left in peace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import BASE, outcome_of, policy_of, snapshot_of, subject_of
from tests.quota_objects import flavor, queue

Object = dict[str, Any]
NAMESPACE = "llm-d-optimized-baseline"
GPU = "nvidia.com/gpu"


def pod(container: Object | None = None, annotations: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": NAMESPACE, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", **(container or {})}], **spec},
    }


def said(value: Object, *objects: Object, **policy: Any) -> list[str]:
    """What is wrong, each as 'severity path'."""
    rules = policy_of(policy)
    found = outcome_of(subject_of(value, rules), snapshot_of([*BASE, *objects]), rules).lines
    assert all(line.endswith("[hidden-gpu-use]") for line in found)
    return [f"{line.split(': ')[0]} {line.split(': ')[2]}" for line in found]


def env(name: str, value: Any = None, **entry: Any) -> Object:
    return {"env": [{"name": "A", "value": "all"}, {"name": name, "value": value, **entry}]}


VARIABLE = "deny spec.containers[0].env[1].value"


@pytest.mark.parametrize(
    ("container", "found"),
    [
        *((env(f"{vendor}_VISIBLE_DEVICES", "all"), [VARIABLE]) for vendor in ("NVIDIA", "AMD", "HABANA", "ASCEND")),
        (env("NVIDIA_VISIBLE_DEVICES", "0,1"), [VARIABLE]),
        (env("NVIDIA_VISIBLE_DEVICES", "GPU-8b33"), [VARIABLE]),
        *((env("NVIDIA_VISIBLE_DEVICES", text), []) for text in ("none", "void", "", " ", None, 5)),
        (
            env("NVIDIA_VISIBLE_DEVICES", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}),
            ["warn spec.containers[0].env[1].valueFrom"],
        ),
        (env("CUDA_VISIBLE_DEVICES", "all"), []),
        (env("NVIDIA_DRIVER_CAPABILITIES", "all"), []),
        ({"env": "text"}, []),
        ({"env": ["text", None]}, []),
    ],
)
def test_variables(container: Object, found: list[str]) -> None:
    assert said(pod(container)) == found


def test_init_containers_and_sidecars_count_and_ephemeral_ones_do_not() -> None:
    uses = {"name": "i", **env("NVIDIA_VISIBLE_DEVICES", "all")}
    assert said(pod(initContainers=[uses])) == ["deny spec.initContainers[0].env[1].value"]
    assert said(pod(initContainers=[{**uses, "restartPolicy": "Always"}])) == [
        "deny spec.initContainers[0].env[1].value"
    ]
    assert said(pod(ephemeralContainers=[uses])) == []


@pytest.mark.parametrize(
    ("name", "classes", "found"),
    [
        ("nvidia", None, True),
        ("nvidia-cdi", None, True),
        ("nvidia-legacy", None, True),
        ("nvidiax", None, False),
        ("kata", None, False),
        ("", None, False),
        (5, None, False),
        ("kata-gpu", ["nvidia", "kata-*"], True),
        ("nvidia-cdi", ["nvidia", "kata-*"], False),
        ("nvidia", [], False),
    ],
)
def test_runtime_classes(name: Any, classes: list[str] | None, found: bool) -> None:
    policy = {} if classes is None else {"accelerators": {"runtimeClasses": classes}}
    assert said(pod(runtimeClassName=name), **policy) == ["deny spec.runtimeClassName"] * found


@pytest.mark.parametrize(
    ("value", "severity"),
    [
        ("nvidia.com/gpu=0", "deny"),
        ("nvidia.com/gpu=all", "deny"),
        ("nvidia.com/mig=0:1", "deny"),
        ("management.nvidia.com/gpu=all", "deny"),
        ("runtime.nvidia.com/gpu=all", "deny"),
        ("amd.com/gpu=0", "deny"),
        ("intel.com/gpu=card0", "deny"),
        ("habana.ai/gaudi=0", "deny"),
        ("example.com/net=eth1, nvidia.com/gpu=0", "deny"),
        ("example.com/net=eth1", "warn"),
        ("", "warn"),
        (5, "warn"),
    ],
)
def test_cdi_annotations(value: Any, severity: str) -> None:
    place = f"{severity} metadata.annotations[cdi.k8s.io/any]"
    assert said(pod(annotations={"cdi.k8s.io/any": value, "example.com/cdi.k8s.io": value})) == [place]


@pytest.mark.parametrize(
    "path",
    [
        "/dev",
        "/dev/",
        "//dev",
        "/dev/.",
        "/dev/./nvidia0",
        "/dev/shm/../nvidia0",
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-caps",
        "/dev/dri",
        "/dev/dri/renderD128",
        "/dev/kfd",
        "/dev/accel",
        "/dev/accel/accel0",
        "/dev/accel0",
        "/dev/davinci0",
        "/dev/davinci_manager",
        "/dev/neuron0",
        "/dev/habanalabs",
        "/dev/hl0",
    ],
)
def test_device_paths(path: str) -> None:
    volumes = [{"name": "v", "hostPath": {"path": path}}]
    assert said(pod(volumes=volumes)) == ["deny spec.volumes[0].hostPath.path"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/dev/shm",
        "/dev/hugepages",
        "/dev/log",
        "/dev/null",
        "/dev/infiniband",
        "/dev/vfio",
        "/dev/fuse",
        "/dev/net/tun",
        "/device",
        "/opt/dev/nvidia0",
        "/var/lib/kubelet/pod-resources",
        "/proc",
        "/sys",
        "",
        None,
    ],
)
def test_other_paths(path: Any) -> None:
    assert said(pod(volumes=[{"name": "v", "hostPath": {"path": path}}, {"name": "w", "emptyDir": {}}])) == []


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/var/run/nvidia-container-devices/all", True),
        ("/var/run//nvidia-container-devices/0", True),
        ("/var/run/nvidia-container-devices", False),
        ("/var/run/nvidia", False),
        ("/dev/nvidia0", False),
    ],
)
def test_volumes_that_stand_for_devices(path: str, found: bool) -> None:
    place = ["deny spec.containers[0].volumeMounts[0].mountPath"] * found
    assert said(pod({"volumeMounts": [{"name": "v", "mountPath": path}]})) == place


PRIVILEGED = {"securityContext": {"privileged": True}}


def affinity(*terms: list[Object], preferred: bool = False) -> Object:
    selectors = [{"matchExpressions": term} for term in terms]
    if preferred:
        part = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": selectors[0]}]}
    else:
        part = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selectors}}  # type: ignore[dict-item]
    return {"affinity": {"nodeAffinity": part}}


def requires(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


PRESENT = "nvidia.com/gpu.present"
A100 = flavor("a100", **{"example.com/card": "a100", "example.com/zone": "a"})
POOLS = (A100, flavor("cpu", **{"example.com/pool": "cpu"}), queue("big", {"a100": 8, "cpu": 0}))


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"nodeSelector": {PRESENT: "true"}}, True),
        ({"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100"}}, True),
        ({"nodeSelector": {"nvidia.com/mig.strategy": "mixed"}}, True),
        ({"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-l4"}}, True),
        ({"nodeSelector": {"cloud.google.com/gke-tpu-topology": "2x4"}}, True),
        ({"nodeSelector": {"feature.node.kubernetes.io/pci-10de.present": "true"}}, True),
        ({"nodeSelector": {"karpenter.k8s.aws/instance-gpu-name": "a10g"}}, True),
        ({"nodeSelector": {"amd.com/gpu.family": "AI"}}, True),
        ({"nodeSelector": {PRESENT: "false"}}, False),
        ({"nodeSelector": {"kubernetes.io/os": "linux"}}, False),
        ({"nodeSelector": {}}, False),
        ({"nodeSelector": "text"}, False),
        ({}, False),
        (affinity([requires(PRESENT, "Exists")]), True),
        (affinity([requires(PRESENT, "In", "true")]), True),
        (affinity([requires("karpenter.k8s.aws/instance-gpu-count", "Gt", "0")]), True),
        (affinity([requires(PRESENT, "In", "true")], [requires(PRESENT, "Exists"), requires("a", "Exists")]), True),
        (affinity([requires(PRESENT, "In", "false")]), False),
        (affinity([requires(PRESENT, "NotIn", "true")]), False),
        (affinity([requires(PRESENT, "DoesNotExist")]), False),
        # One of the terms lets it onto other nodes too.
        (affinity([requires(PRESENT, "Exists")], [requires("a", "Exists")]), False),
        (affinity([requires(PRESENT, "Exists")], preferred=True), False),
        # The nodes of a flavor with accelerators.
        ({"nodeSelector": {"example.com/card": "a100", "example.com/zone": "a", "b": "c"}}, True),
        (affinity([requires("example.com/card", "In", "a100"), requires("example.com/zone", "In", "a")]), True),
        ({"nodeSelector": {"example.com/card": "a100"}}, False),
        ({"nodeSelector": {"example.com/card": "t4", "example.com/zone": "a"}}, False),
        (affinity([requires("example.com/card", "In", "a100", "t4"), requires("example.com/zone", "In", "a")]), False),
        # A queue names it, and gives no accelerator of it.
        ({"nodeSelector": {"example.com/pool": "cpu"}}, False),
    ],
)
def test_privileged_on_gpu_nodes(spec: Object, found: bool) -> None:
    place = ["deny spec.containers[0].securityContext.privileged"] * found
    assert said(pod(PRIVILEGED, **spec), *POOLS) == place
    assert said(pod({"securityContext": {"privileged": False}}, **spec), *POOLS) == []
    requested = {"resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}
    asks = pod({**PRIVILEGED, **requested}, **spec)
    asks["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "model-a-lq"}
    asks["spec"]["terminationGracePeriodSeconds"] = 90
    rules = policy_of({"rules": {"replica-over-budget": "off"}})
    outcome = outcome_of(subject_of(asks, rules), snapshot_of([*BASE, *POOLS]), rules)
    assert outcome.lines == ()


def test_a_damaged_security_context() -> None:
    selector = {"nodeSelector": {PRESENT: "true"}}
    assert said(pod({"securityContext": "text"}, **selector)) == []
    assert said(pod({"securityContext": {"privileged": "true"}}, **selector)) == []


def test_where_flavors_are_not_known_the_rest_is_said() -> None:
    value = pod({**PRIVILEGED, **env("NVIDIA_VISIBLE_DEVICES", "all")}, nodeSelector={"a": "b"})
    policy = policy_of()
    snapshot = snapshot_of(BASE)
    snapshot.forget("ClusterQueue", "may not be listed")
    lines = outcome_of(subject_of(value, policy), snapshot, policy).lines
    assert [line.split(": ")[0] for line in lines] == ["deny", "warn"]
    assert lines[1] == "warn: not evaluated: ClusterQueue: may not be listed [hidden-gpu-use]"


@pytest.mark.parametrize(
    ("resources", "rather"),
    [
        (None, "request nvidia.com/gpu in resources.limits"),
        (["nvidia.com/gpu", "amd.com/gpu"], "request nvidia.com/gpu in resources.limits"),
        (["example.com/card"], "request an accelerator in resources.limits"),
    ],
)
def test_what_to_request_instead(resources: list[str] | None, rather: str) -> None:
    policy = policy_of({"accelerators": {"resources": resources}} if resources else {})
    value = pod(env("NVIDIA_VISIBLE_DEVICES", "all"))
    [line] = outcome_of(subject_of(value, policy), snapshot_of(BASE), policy).lines
    assert line.partition("; fix: ")[2] == f"{rather}, or set it to none [hidden-gpu-use]"
