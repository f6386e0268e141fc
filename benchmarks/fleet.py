"""The cluster that the benchmarks are about, object by object, as an API server would store it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

FLAVORS, SHARING, COHORTS = 40, 10, 50
"""The first SHARING flavors name a zone or a model that others name too; each of the rest has a pool of its own."""

LABELS, IMAGES = 45, 50
"""Of a node. The kubelet reports as many images by default, and feature discovery writes as many labels."""

_POOLS = FLAVORS - SHARING + 5
_NARROW = ("flavor-8", "flavor-9")


@dataclass(frozen=True, slots=True)
class Fleet:
    """How much there is of what. A queue is a ClusterQueue and the LocalQueue that leads to it."""

    nodes: int = 5000
    queues: int = 1000
    workloads: int = 20000
    """Deployments, each with one pod."""

    unqueued: int = 0
    """Pods without a queue, as DaemonSets make them."""

    @property
    def namespaces(self) -> int:
        """One for five queues."""
        return -(-self.queues // 5)

    @property
    def floor(self) -> int:
        """GPUs of each queue in each of its two flavors. All floors fit, and in some flavors little is left."""
        claims = 2 * self.queues * SHARING // FLAVORS
        return self.nodes * 8 * 5 * 98 // 100 // _POOLS // max(1, claims)

    def objects(self) -> dict[str, Iterator[Object]]:
        """All of it by kind, in an order in which it can be created."""
        return {
            "Namespace": (namespace(name) for name in ("kueue-system", *map(namespace_name, range(self.namespaces)))),
            "ConfigMap": iter((kueue_configuration(),)),
            "ServiceAccount": (service_account(namespace_name(number)) for number in range(self.namespaces)),
            "ResourceFlavor": map(flavor, range(FLAVORS)),
            "Cohort": map(cohort, range(COHORTS)),
            "ClusterQueue": (cluster_queue(number, self.floor) for number in range(self.queues)),
            "LocalQueue": map(local_queue, range(self.queues)),
            "Node": map(node, range(self.nodes)),
            "Deployment": (deployment(number, self.queues) for number in range(self.workloads)),
            "Pod": self._pods(),
        }

    def _pods(self) -> Iterator[Object]:
        for number in range(self.workloads):
            yield replica(number, self.queues, self.nodes)
        for number in range(self.unqueued):
            yield daemon(number, self.namespaces, self.nodes)


def _named(api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def namespace_name(number: int) -> str:
    return f"team-{number}"


def namespace(name: str) -> Object:
    found = _named("v1", "Namespace", name)
    found["metadata"]["labels"] = {"floorkeeper.io/managed": "true", "kubernetes.io/metadata.name": name}
    return found


def service_account(where: str) -> Object:
    """Without it the API server refuses every pod."""
    return _named("v1", "ServiceAccount", "default", where)


def kueue_configuration() -> Object:
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    data = {"controller_manager_config.yaml": text}
    return _named("v1", "ConfigMap", "kueue-manager-config", "kueue-system", data=data)


# Hardware


def node(number: int) -> Object:
    pool = number % _POOLS
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.F{index}": "true" for index in range(LABELS - 5)}
    labels |= {
        "kubernetes.io/hostname": f"node-{number}",
        "kubernetes.io/os": "linux",
        "pool": f"pool-{pool}",
        "model": f"model-{pool % 5}" if pool < 5 else "none",
        "zone": f"zone-{number % 3}" if pool < 5 else "none",
    }
    amounts = {"cpu": "96", "memory": "1056270436Ki", "pods": "110", "ephemeral-storage": "937Gi", GPU: "8"}
    conditions = [
        {"type": each, "status": "False", "reason": f"KubeletHasNo{each}", "lastHeartbeatTime": "2026-11-29T10:00:00Z"}
        for each in ("MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    images = [
        {
            "names": [f"registry.example/team/image-{index}@sha256:{index:064d}", f"registry.example/image-{index}:v1"],
            "sizeBytes": 1 << 30,
        }
        for index in range(IMAGES)
    ]
    found = _named("v1", "Node", f"node-{number}")
    found["metadata"]["labels"] = labels
    found["spec"] = {"taints": [{"key": GPU, "value": "true", "effect": "NoSchedule"}]}
    found["status"] = {
        "capacity": amounts,
        "allocatable": dict(amounts),
        "conditions": [*conditions, ready(True, "2026-11-29T10:00:00Z")],
        "addresses": [{"type": "Hostname", "address": f"node-{number}"}],
        "images": images,
    }
    return found


def ready(holds: bool, heartbeat: str) -> Object:
    """A node's condition, the last of its list."""
    return {"type": "Ready", "status": str(holds), "reason": "KubeletReady", "lastHeartbeatTime": heartbeat}


def flavor(number: int) -> Object:
    """Models 0 to 4, zones 0 to 2, both together, and then one pool each."""
    if number < 5:
        labels = {"model": f"model-{number}"}
    elif number < 8:
        labels = {"zone": f"zone-{number - 5}"}
    elif number < SHARING:
        labels = {"model": "model-0", "zone": f"zone-{number - 8}"}
    else:
        labels = {"pool": f"pool-{number - SHARING + 5}"}
    return _named(KUEUE, "ResourceFlavor", f"flavor-{number}", spec={"nodeLabels": labels})


# Quota


def _quotas(amounts: dict[str, int]) -> list[Object]:
    return [
        {
            "coveredResources": ["cpu", "memory", GPU],
            "flavors": [
                {
                    "name": name,
                    "resources": [
                        {"name": "cpu", "nominalQuota": "100"},
                        {"name": "memory", "nominalQuota": "100Gi"},
                        {"name": GPU, "nominalQuota": str(amount)},
                    ],
                }
                for name, amount in amounts.items()
            ],
        }
    ]


def cohort(number: int) -> Object:
    """One root, seven below it, the others below those."""
    parent = "" if number == 0 else "cohort-0" if number < 8 else f"cohort-{1 + number % 7}"
    spec: Object = {"resourceGroups": _quotas({f"flavor-{number % FLAVORS}": 1})}
    if parent:
        spec["parentName"] = parent
    return _named(KUEUE, "Cohort", f"cohort-{number}", spec=spec)


def flavors_of(number: int) -> tuple[str, str]:
    """The flavors of a ClusterQueue."""
    return f"flavor-{number % FLAVORS}", f"flavor-{(number * 7 + 3) % FLAVORS}"


def cluster_queue(number: int, floor: int) -> Object:
    """Half the floor in the flavors that name both a model and a zone, for these have few nodes."""
    amounts = {name: floor // 2 if name in _NARROW else floor for name in flavors_of(number)}
    spec = {
        "cohortName": f"cohort-{8 + number % (COHORTS - 8)}",
        "namespaceSelector": {},
        "preemption": {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "Never"}},
        "resourceGroups": _quotas(amounts),
    }
    return _named(KUEUE, "ClusterQueue", f"queue-{number}", spec=spec)


def local_queue(number: int) -> Object:
    where = namespace_name(number // 5)
    return _named(KUEUE, "LocalQueue", f"queue-{number}", where, spec={"clusterQueue": f"queue-{number}"})


# Workloads


def _place(number: int, queues: int) -> tuple[str, str]:
    """Namespace and LocalQueue of a workload."""
    queue = number % queues
    return namespace_name(queue // 5), f"queue-{queue}"


def deployment(number: int, queues: int) -> Object:
    where, queue = _place(number, queues)
    labels = {"app": f"model-{number}", "app.kubernetes.io/part-of": "llm-d"}
    found = _named("apps/v1", "Deployment", f"model-{number}", where)
    found["metadata"]["labels"] = labels
    found["spec"] = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": {"metadata": {"labels": {**labels, QUEUE_LABEL: queue}}, "spec": _pod_spec()},
    }
    found["status"] = {"replicas": 1, "readyReplicas": 1}
    return found


def replica(number: int, queues: int, nodes: int) -> Object:
    """The pod of a Deployment."""
    where, queue = _place(number, queues)
    name, uid = f"model-{number}-6d4cf56db6", f"00000000-0000-4000-8000-{number:012d}"
    found = _named("v1", "Pod", f"{name}-x2x7k", where)
    found["metadata"] |= {
        "labels": {"app": f"model-{number}", "pod-template-hash": "6d4cf56db6", QUEUE_LABEL: queue},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": True}
        ],
    }
    found["spec"] = {**_pod_spec(), "nodeName": f"node-{number % max(1, nodes)}"}
    return found


def daemon(number: int, namespaces: int, nodes: int) -> Object:
    found = _named("v1", "Pod", f"agent-{number}", namespace_name(number % namespaces))
    requests = {"cpu": "100m", "memory": "200Mi"}
    found["spec"] = {
        "containers": [
            {"name": "agent", "image": "registry.example/agent:v1", "resources": {"requests": requests}},
        ],
        "nodeName": f"node-{number % max(1, nodes)}",
    }
    return found


def _pod_spec() -> Object:
    resources = {"cpu": "8", "memory": "64Gi", GPU: "1"}
    return {
        "terminationGracePeriodSeconds": 120,
        "containers": [
            {
                "name": "vllm",
                "image": "registry.example/vllm:v1",
                "args": ["--model", "example/model", "--port", "8000"],
                "env": [{"name": f"SETTING_{index}", "value": "1"} for index in range(8)],
                "ports": [{"containerPort": 8000}],
                "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5},
                "resources": {"requests": resources, "limits": dict(resources)},
            }
        ],
    }
