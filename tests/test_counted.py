"""What Kueue counts for one pod, by its template, its namespace and Kueue's own configuration."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import policy_of, snapshot_of, subject_of
from tests.quota_objects import KUEUE, queue
from webhook.kube.counted_pod import counted_pod
from webhook.kube.quantity import NANO
from webhook.kube.request_source import show_amount
from webhook.kube.snapshot import FactsMissing

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
GI = 2**30
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nintegrations: {frameworks: [pod]}\n"


def asking(requests: Object | None = None, limits: Object | None = None, **fields: Any) -> Object:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **fields}


def limit_range(name: str = "defaults", **parts: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"limits": [{"type": "Container", **parts}]},
    }


def config_map(text: Any, namespace: str = "kueue-system") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": namespace},
        "data": {"controller_manager_config.yaml": text},
    }


KATA = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}},
}
LOCAL_QUEUE = {
    "apiVersion": KUEUE,
    "kind": "LocalQueue",
    "metadata": {"name": "lq", "namespace": "ns"},
    "spec": {"clusterQueue": "cq"},
}


def counts(spec: Object, *objects: Object, covers: str = GPU) -> Object:
    """Amounts in units, by resource."""
    snapshot = snapshot_of([LOCAL_QUEUE, queue("cq", {"f": 1}, covers), *objects])
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": spec}
    found = counted_pod(subject_of(pod, policy_of()).templates[0], "lq", "ns", snapshot)
    assert found is not None
    return {resource: amount / NANO for resource, amount in found.requests.items()}


COUNTED: dict[str, tuple[Object, list[Object], Object]] = {
    "nothing": ({"containers": [asking()]}, [], {}),
    "requests before limits": ({"containers": [asking({"cpu": 1}, {"cpu": 2, GPU: 1})]}, [], {"cpu": 1, GPU: 1}),
    "zero stays": ({"containers": [asking({"cpu": "0"}, {"cpu": 2})]}, [], {"cpu": 0}),
    "rounded up": (
        {"containers": [asking({"cpu": "0.1m", "example.com/a": "100m"})]},
        [],
        {"cpu": 0.001, "example.com/a": 1},
    ),
    "sidecars add, init containers are a peak": (
        {
            "initContainers": [asking({"cpu": 1}, restartPolicy="Always"), asking({"cpu": 5})],
            "containers": [asking({"cpu": 2}), asking({"cpu": 1})],
        },
        [],
        {"cpu": 6},
    ),
    "the request that a LimitRange gives": (
        {"containers": [asking({GPU: 1}), asking({"memory": "1Gi"})]},
        [limit_range(defaultRequest={"memory": "512Mi"}, default={"memory": "2Gi"})],
        {GPU: 1, "memory": 1.5 * GI},
    ),
    "its default limit": ({"containers": [asking()]}, [limit_range(default={"cpu": 2})], {"cpu": 2}),
    "its max": ({"containers": [asking()]}, [limit_range(max={"cpu": 3}, min={"cpu": 1})], {"cpu": 3}),
    "its min": ({"containers": [asking()]}, [limit_range(min={"cpu": 1})], {"cpu": 1}),
    # In a Pod, the API server makes limits requests before LimitRanges speak.
    "a limit goes before a LimitRange": (
        {"containers": [asking(None, {"cpu": 4})]},
        [limit_range(defaultRequest={"cpu": 1})],
        {"cpu": 4},
    ),
    "an init container gets defaults too": (
        {"initContainers": [asking({"cpu": 3})], "containers": [asking(), asking()]},
        [limit_range(defaultRequest={"cpu": 1})],
        {"cpu": 3},
    ),
    "the first LimitRange by name": (
        {"containers": [asking()]},
        [limit_range("b", defaultRequest={"cpu": 2, GPU: 1}), limit_range("a", defaultRequest={"cpu": 1})],
        {"cpu": 1, GPU: 1},
    ),
    "a LimitRange of pods": (
        {"containers": [asking()]},
        [{**limit_range(), "spec": {"limits": [{"type": "Pod", "default": {"cpu": 1}}]}}],
        {},
    ),
    "a LimitRange elsewhere": (
        {"containers": [asking()]},
        [{**limit_range(default={"cpu": 1}), "metadata": {"name": "defaults", "namespace": "other"}}],
        {},
    ),
    "overhead of a RuntimeClass": (
        {"runtimeClassName": "kata", "containers": [asking({"cpu": 1})]},
        [KATA],
        {"cpu": 1.25, "memory": 160 * 2**20},
    ),
    "overhead of its own": (
        {"runtimeClassName": "kata", "overhead": {"cpu": "500m"}, "containers": [asking({"cpu": 1})]},
        [KATA],
        {"cpu": 1.5},
    ),
    "a RuntimeClass that is not there": (
        {"runtimeClassName": "kata", "containers": [asking({"cpu": 1})]},
        [],
        {"cpu": 1},
    ),
    "requests of the pod": (
        {
            "resources": {"requests": {"cpu": 8}},
            "containers": [asking({"cpu": 1, "memory": "1Gi"}), asking({"cpu": 2})],
        },
        [],
        {"cpu": 8, "memory": GI},
    ),
    "limits of the pod": (
        {"resources": {"limits": {"cpu": 8, "memory": "2Gi"}}, "containers": [asking({"cpu": 1}), asking({GPU: 1})]},
        [],
        {"cpu": 1, "memory": 2 * GI, GPU: 1},
    ),
    "limits of the pod stand before LimitRanges": (
        {"resources": {"limits": {"memory": "2Gi"}}, "containers": [asking()]},
        [limit_range(defaultRequest={"memory": "1Gi"})],
        {"memory": 2 * GI},
    ),
    # The API server takes limits of huge pages from the containers, and then fills in requests as with other limits.
    "huge pages of a container beside requests of the pod": (
        {
            "resources": {"requests": {"memory": "1Gi"}},
            "containers": [asking({"cpu": 1}, {"hugepages-2Mi": "4Mi"}), asking()],
        },
        [limit_range(defaultRequest={"cpu": 2})],
        {"cpu": 1, "memory": GI, "hugepages-2Mi": 4 * 2**20},
    ),
    "a pod asks for no GPU": (
        {"resources": {"requests": {GPU: 8}}, "containers": [asking({GPU: 1})]},
        [],
        {GPU: 1},
    ),
    "excluded": (
        {"containers": [asking({"cpu": 1, "networking.example.com/vpc": 1, GPU: 1})]},
        [config_map(f"{HEAD}resources: {{excludeResourcePrefixes: [networking., cpu]}}")],
        {GPU: 1},
    ),
    "transformed and kept": (
        {"containers": [asking({GPU: 2})]},
        [config_map(f"{HEAD}resources: {{transformations: [{{input: {GPU}, outputs: {{credits: 5, vram: 80Gi}}}}]}}")],
        {GPU: 2, "credits": 10, "vram": 160 * GI},
    ),
    "transformed and replaced": (
        {"containers": [asking({"a": 2, "b": "1500m"})]},
        [
            config_map(
                f"{HEAD}resources:\n  transformations:\n"
                "  - {input: a, strategy: Replace, outputs: {credits: 5}}\n"
                "  - {input: b, strategy: Replace, outputs: {credits: 500m}}"
            )
        ],
        {"credits": 11},
    ),
    "replaced by nothing": (
        {"containers": [asking({"cpu": 2, GPU: 1})]},
        [config_map(f"{HEAD}resources: {{transformations: [{{input: cpu, strategy: Replace}}]}}")],
        {GPU: 1},
    ),
    "multiplied": (
        {"containers": [asking({GPU: 4, "vram": 10})]},
        [
            config_map(
                f"{HEAD}resources: {{transformations: "
                f"[{{input: vram, strategy: Replace, multiplyBy: {GPU}, outputs: {{total: 1}}}}]}}"
            )
        ],
        {GPU: 4, "total": 40},
    ),
    "exclusion goes before transformation": (
        {"containers": [asking({"a": 1})]},
        [
            config_map(
                f"{HEAD}resources:\n  excludeResourcePrefixes: [b]\n"
                "  transformations: [{input: a, strategy: Replace, outputs: {b: 1}}]"
            )
        ],
        {"b": 1},
    ),
    "what is damaged": (
        {"containers": [asking({"cpu": "much"}), "text", {"resources": [1]}], "resources": "text", "overhead": 5},
        [limit_range(default=5), {**KATA, "overhead": [1]}],  # type: ignore[arg-type]
        {"cpu": 0},
    ),
}


@pytest.mark.parametrize("case", COUNTED)
def test_what_is_counted(case: str) -> None:
    spec, objects, expected = COUNTED[case]
    assert counts(spec, *objects) == expected


def of_template(spec: Object, *objects: Object) -> Object:
    """As Kueue counts a Job: from its template, of which the API server has made no Pod yet."""
    snapshot = snapshot_of([LOCAL_QUEUE, queue("cq", {"f": 1}, GPU), *objects])
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": spec}
    found = counted_pod(subject_of(pod, policy_of()).templates[0], "lq", "ns", snapshot, "batch/job")
    assert found is not None
    return {resource: amount / NANO for resource, amount in found.requests.items()}


TEMPLATES: dict[str, tuple[Object, list[Object], Object]] = {
    "requests and limits": ({"containers": [asking({"cpu": 1}, {"cpu": 2, GPU: 1})]}, [], {"cpu": 1, GPU: 1}),
    "a LimitRange goes before a limit": (
        {"containers": [asking(None, {"cpu": 4})]},
        [limit_range(defaultRequest={"cpu": 1})],
        {"cpu": 1},
    ),
    "a request goes before a LimitRange": (
        {"containers": [asking({"cpu": 3}, {"cpu": 4})]},
        [limit_range(defaultRequest={"cpu": 1})],
        {"cpu": 3},
    ),
    "limits of the pod are no requests": (
        {"resources": {"limits": {"cpu": 8, "memory": "2Gi"}}, "containers": [asking({"cpu": 1})]},
        [],
        {"cpu": 1},
    ),
    "requests of the pod": (
        {"resources": {"requests": {"cpu": 8}}, "containers": [asking({"cpu": 1})]},
        [],
        {"cpu": 8},
    ),
    "overhead": (
        {"runtimeClassName": "kata", "containers": [asking({"cpu": 1})]},
        [KATA],
        {"cpu": 1.25, "memory": 160 * 2**20},
    ),
}


@pytest.mark.parametrize("case", TEMPLATES)
def test_what_is_counted_of_a_template(case: str) -> None:
    spec, objects, expected = TEMPLATES[case]
    assert of_template(spec, *objects) == expected


def test_an_integration_that_is_off_counts_nothing() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": {}}
    snapshot = snapshot_of([LOCAL_QUEUE, queue("cq", {"f": 1}), config_map(HEAD)])
    template = subject_of(pod, policy_of()).templates[0]
    assert counted_pod(template, "lq", "ns", snapshot, "pod") is not None
    assert counted_pod(template, "lq", "ns", snapshot, "batch/job") is None


def test_a_queue_that_covers_pods_counts_one() -> None:
    assert counts({"containers": [asking({"cpu": 1})]}, covers="pods") == {"cpu": 1, "pods": 1}


@pytest.mark.parametrize("queue_name", ["", "other", "lost"])
def test_without_a_cluster_queue_nothing_is_counted(queue_name: str) -> None:
    lost = {**LOCAL_QUEUE, "metadata": {"name": "lost", "namespace": "ns"}, "spec": {"clusterQueue": "nowhere"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": {}}
    snapshot = snapshot_of([LOCAL_QUEUE, lost, queue("cq", {"f": 1})])
    for kind in ("LimitRange", "RuntimeClass", "ConfigMap"):
        snapshot.forget(kind, "forbidden")
    assert counted_pod(subject_of(pod, policy_of()).templates[0], queue_name, "ns", snapshot) is None


@pytest.mark.parametrize("kind", ["LocalQueue", "ClusterQueue", "ConfigMap", "LimitRange", "RuntimeClass"])
def test_what_is_not_known_is_said(kind: str) -> None:
    spec = {"runtimeClassName": "kata"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": spec}
    snapshot = snapshot_of([LOCAL_QUEUE, queue("cq", {"f": 1})])
    snapshot.forget(kind, "forbidden")
    with pytest.raises(FactsMissing, match=f"{kind}: forbidden"):
        counted_pod(subject_of(pod, policy_of()).templates[0], "lq", "ns", snapshot)


@pytest.mark.parametrize(
    ("resource", "amount", "shown"),
    [
        ("memory", 64 * GI * NANO, "64Gi"),
        ("memory", 1536 * 2**20 * NANO, "1536Mi"),
        ("memory", 128 * 10**9 * NANO, "128G"),
        ("memory", 1025 * NANO, "1025"),
        ("memory", 0, "0"),
        ("memory", NANO // 2, "0.5"),
        ("hugepages-2Mi", 4 * 2**20 * NANO, "4Mi"),
        (GPU, 1024 * NANO, "1024"),
        ("cpu", NANO // 4, "0.25"),
    ],
)
def test_amounts_as_people_write_them(resource: str, amount: int, shown: str) -> None:
    assert show_amount(resource, amount) == shown
