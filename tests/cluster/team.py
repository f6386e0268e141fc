"""A team's namespace with its queues and its nodes, made for one test and taken away after it."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster, until
from webhook.kube.names import MANAGED_LABEL, QUEUE_LABEL

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
TEAM_LABEL = "floorkeeper.test/team"
"""On the nodes of a team, by its namespace."""


def node(name: str, labels: Mapping[str, str], gpus: int = 5) -> Object:
    """A Node that is Ready from the start; kwok keeps it so and runs pods on it."""
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def flavor(name: str, labels: Mapping[str, str]) -> Object:
    """A ResourceFlavor of the nodes with these labels."""
    metadata = {"name": name}
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor"}
    return {**kind, "metadata": metadata, "spec": {"nodeLabels": dict(labels)}}


def cluster_queue(name: str, flavor: str, cohort: str, floor: int) -> Object:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "Never"}},
            "resourceGroups": [
                {
                    "coveredResources": [GPU],
                    "flavors": [{"name": flavor, "resources": [{"name": GPU, "nominalQuota": floor}]}],
                }
            ],
        },
    }


@dataclass(frozen=True)
class Team:
    cluster: Cluster
    namespace: str

    @property
    def api(self) -> Api:
        return Api.of(self.cluster)

    def manage(self) -> None:
        """Labels the namespace as managed. What the server knows of it by its watch may lag; it asks again itself."""
        self.cluster("label", "namespace", self.namespace, f"{MANAGED_LABEL}=true", "--overwrite")

    def set_floors(self, model_a: int, model_b: int) -> None:
        """The lower ones first, as floors that use all of the hardware must be moved."""
        floors = {"model-a": model_a, "model-b": model_b}
        for name in sorted(floors, key=floors.__getitem__):
            value = cluster_queue(f"{self.namespace}-{name}", self.namespace, self.namespace, floors[name])
            # A server that runs hears of the nodes by its watch, in no time but not at once.
            until(f"a floor of {floors[name]} is let in", partial(self._let_in, value), 10)

    def _let_in(self, value: Object) -> bool:
        answer = self.api.write(value)
        if not answer.stored:
            print(answer.message)
        return answer.stored

    def local_queue(self, name: str, of: str = "model-a") -> Object:
        return {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"clusterQueue": f"{self.namespace}-{of}"},
        }

    def deployment(self, name: str, replicas: int = 1, queue: str = "", own: str = "", **strategy: Any) -> Object:
        """A model server as a developer would write it. No strategy: the API server's default."""
        value: Object = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {QUEUE_LABEL: own} if own else {}},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name, **({QUEUE_LABEL: queue} if queue else {})}},
                    "spec": {
                        "terminationGracePeriodSeconds": 60,
                        "containers": [
                            {
                                "name": "vllm",
                                "image": "vllm/vllm-openai:v0.11.0",
                                "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}},
                            }
                        ],
                    },
                },
            },
        }
        if strategy:
            value["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": strategy}
        return value

    def gateway(self, name: str = "gateway") -> Object:
        value = copy.deepcopy(self.deployment(name))
        value["spec"]["template"]["spec"]["containers"] = [{"name": "envoy", "image": "envoyproxy/envoy:v1.36.2"}]
        return value

    def get(self, kind: str, name: str) -> Any:
        return self.cluster.get(kind, name, "-n", self.namespace)

    def kubectl(self, *args: str, check: bool = True) -> Any:
        return self.cluster(*args, "-n", self.namespace, check=check)

    def pods(self, app: str) -> list[Object]:
        return self.cluster.items("pods", "-n", self.namespace, "-l", f"app={app}")

    def ready(self, app: str) -> int:
        return sum(
            any(entry["type"] == "Ready" and entry["status"] == "True" for entry in pod["status"].get("conditions", []))
            for pod in self.pods(app)
            if "deletionTimestamp" not in pod["metadata"]
        )

    def gated(self, app: str) -> list[Object]:
        return [pod for pod in self.pods(app) if pod["spec"].get("schedulingGates")]

    def workloads(self) -> list[Object]:
        return self.cluster.items("workloads.kueue.x-k8s.io", "-n", self.namespace)

    def set_image(self, name: str, tag: str) -> Any:
        return self.kubectl("set", "image", f"deployment/{name}", f"vllm=vllm/vllm-openai:{tag}")

    def rolled_out(self, name: str) -> bool:
        """As `kubectl rollout status` decides it."""
        value = self.get("deployment", name)
        status, wanted = value["status"], value["spec"]["replicas"]
        return bool(
            status.get("observedGeneration") == value["metadata"]["generation"]
            and status.get("updatedReplicas", 0) == wanted
            and status.get("replicas", 0) == wanted
            and status.get("availableReplicas", 0) == wanted
        )


@contextmanager
def made_team(cluster: Cluster, test: str) -> Iterator[Team]:
    slug = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[:30].strip("-")
    team = Team(cluster, f"t-{slug}-{time.monotonic_ns() % 10**6}")
    labels = {TEAM_LABEL: team.namespace}
    nodes = [node(f"{team.namespace}-{number}", labels) for number in (1, 2)]
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team.namespace}}
    made = [home, flavor(team.namespace, labels), *nodes]
    for value in made:
        assert team.api.create(value).stored
    try:
        team.set_floors(5, 5)
        for value in (team.local_queue("model-a-lq"), team.local_queue("model-b-lq", of="model-b")):
            assert team.api.create(value).stored
        yield team
    finally:
        # Kueue holds the queues until their Workloads are gone, and nothing waits for that.
        for version, kind in (("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("v1", "Pod")):
            team.api.delete_all(version, kind, team.namespace)
        until("the pods are gone", lambda: cluster.items("pods", "-n", team.namespace) == [], 60)
        queues = [cluster_queue(f"{team.namespace}-{name}", "", "", 0) for name in ("model-a", "model-b")]
        for value in (home, *queues, *made[1:]):
            assert team.api.delete(value).code in (200, 202, 404), value
