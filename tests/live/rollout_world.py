"""A cluster in memory: an API server, the Deployment controller, Kueue and a scheduler, as far as rollouts need them.

It goes on by one step whenever somebody waits, so nothing here depends on time. What the real ones do is tried in
tests/cluster.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from webhook.kube.names import QUEUE_LABEL
from webhook.live.api import Api, ApiError, NotAllowed, Resource
from webhook.live.waiting import Waiting

Value = dict[str, Any]
GPU = "nvidia.com/gpu"
TEAM = "team"
KUEUE = "kueue.x-k8s.io"
WORKLOADS = Resource(KUEUE, "v1beta2", "workloads")
GATE = {"name": "kueue.x-k8s.io/admission"}


def deployment(name: str, replicas: int = 2, queue: str = "", **spec: Any) -> Value:
    """As the API server stores it, with its default strategy."""
    resources = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    labels = {"app": name, **({QUEUE_LABEL: queue} if queue else {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": TEAM, "generation": 1, "resourceVersion": "1"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 60,
                    "containers": [{"name": "vllm", "image": "vllm", "resources": resources}],
                },
            },
            **spec,
        },
    }


def cluster_queue(name: str, floor: int, cohort: str = "pool") -> Value:
    quota = {"name": "gpus", "resources": [{"name": GPU, "nominalQuota": str(floor)}]}
    return {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name, "generation": 1},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any"},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [quota]}],
        },
        "status": {"conditions": [{"type": "Active", "status": "True", "observedGeneration": 1}]},
    }


def local_queue(name: str, of: str) -> Value:
    return {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": TEAM, "generation": 1},
        "spec": {"clusterQueue": of},
        "status": {"conditions": [{"type": "Active", "status": "True", "observedGeneration": 1}]},
    }


def node(name: str, gpus: int) -> Value:
    amounts = {GPU: str(gpus)}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {}}, "status": status}


def kueue_configuration() -> Value:
    kind = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    text = f"{kind}integrations: {{frameworks: [pod, deployment]}}\n"
    metadata = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    data = {"controller_manager_config.yaml": text}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class World(Api):
    """`interrupt` is called before and after each request, with its number; it may raise."""

    def __init__(self, *values: Value) -> None:
        self.stored: dict[tuple[str, str, str], Value] = {}
        self.interrupt: Callable[[int, str], None] = lambda number, when: None
        self.webhook: Callable[[Value], None] = lambda value: None
        """Changes a Deployment that is written, or raises ApiError."""

        self.pod_webhook: Callable[[Value], None] = lambda value: None
        """The same for pods that are created."""

        self.requests = 0
        self.forbidden: set[str] = set()
        """Names of resources that may not be listed, and 'create pods'."""

        self.failures: list[ApiError] = []
        """What the next requests are answered with."""

        self.lowest: dict[str, int] = {}
        """The fewest ready replicas of each Deployment that were ever seen after a step."""

        self.now = 0.0
        self.stuck: set[str] = set()
        """Deployments whose new pods never become ready."""

        self.unmade = ""
        """Why no pod with the label is made, '' if they are."""

        self.inert = False
        """Kueue takes no notice of pods."""

        self.kept = False
        """Pods that are deleted stay on for the time being."""

        self.history = True
        """ReplicaSets of former templates stay; else they go once a rollout is over (revisionHistoryLimit 0)."""

        self._numbers = itertools.count(1)
        for value in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM, "labels": {}}},
            {"apiVersion": f"{KUEUE}/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "gpus"}, "spec": {}},
            cluster_queue("cq-a", 5),
            cluster_queue("cq-b", 5),
            local_queue("a-lq", "cq-a"),
            local_queue("b-lq", "cq-b"),
            node("one", 10),
            kueue_configuration(),
            *values,
        ):
            self.put(value)
        self.run(12)
        self.lowest.clear()

    # The API server

    def put(self, value: Value) -> None:
        value["metadata"].setdefault("uid", f"uid-{next(self._numbers)}")
        self.stored[_key(value)] = value

    def value(self, kind: str, name: str, namespace: str = TEAM) -> Value:
        return self.stored[kind, namespace, name]

    def deployment(self, name: str) -> Value:
        return self.value("deployments.apps", name)

    def of(self, kind: str) -> list[Value]:
        return [value for (each, _, _), value in sorted(self.stored.items()) if each == kind]

    def get(self, resource: Resource, name: str, namespace: str = "") -> Value | None:
        with_answer = self._request(resource)
        found = copy.deepcopy(self.stored.get((resource.name, namespace, name)))
        with_answer()
        return found

    def items(
        self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "", *, required: bool = False
    ) -> Iterator[Value]:
        with_answer = self._request(resource)
        found = [
            copy.deepcopy(value)
            for (kind, home, _), value in sorted(self.stored.items())
            if kind == resource.name and namespace in ("", home) and _selected(value, labels)
        ]
        with_answer()
        return iter(found if not fields.startswith("reason=") else [])

    def patch(self, resource: Resource, name: str, body: Any, namespace: str = "", *, dry_run: bool = False) -> Value:
        with_answer = self._request(resource)
        stored = self.stored.get((resource.name, namespace, name))
        if stored is None:
            raise ApiError(f"patch {resource.name} {name}: it does not exist", 404)
        version = (body.get("metadata") or {}).get("resourceVersion")
        if version not in (None, stored["metadata"].get("resourceVersion")):
            raise ApiError("409 the object has been modified", 409)
        value = copy.deepcopy(stored)
        _merge(value, body)
        self.webhook(value)
        if not dry_run:
            if value["spec"] != stored["spec"]:
                value["metadata"]["generation"] += 1
            value["metadata"]["resourceVersion"] = str(next(self._numbers))
            self.stored[resource.name, namespace, name] = value
        with_answer()
        return copy.deepcopy(value)

    def create(self, resource: Resource, body: Any, namespace: str = "", *, dry_run: bool = False) -> Value:
        with_answer = self._request(resource, "create")
        assert (resource.name, namespace, dry_run) == ("pods", TEAM, True), "adopt only tries pods"
        value: Value = copy.deepcopy(body)
        self.pod_webhook(value)
        with_answer()
        return value

    def versions(self, group: str) -> tuple[str, ...]:
        return ("v1beta2",) if group == KUEUE else ()

    def _request(self, resource: Resource, verb: str = "list") -> Callable[[], None]:
        self.requests += 1
        number = self.requests
        self.interrupt(number, "before")
        if self.failures:
            raise self.failures.pop(0)
        if (resource.name if verb == "list" else f"{verb} {resource.name}") in self.forbidden:
            raise NotAllowed(f"not allowed to {verb} {resource.name}; ask for that right", 403)
        return lambda: self.interrupt(number, "after")

    # Time

    @property
    def waiting(self) -> Waiting:
        return Waiting(20.0, 1.0, lambda: self.now, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.run(1)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self._kueue()
            self._kubelet()
            for value in self.of("deployments.apps"):
                self._control(value)

    def pods(self, name: str) -> list[Value]:
        return [pod for pod in self.of("pods") if pod["metadata"]["labels"]["app"] == name]

    def _control(self, value: Value) -> None:
        """One step of the Deployment controller, and the status that it writes."""
        name, spec = value["metadata"]["name"], value["spec"]
        paused = spec.get("paused", False)
        pods = [pod for pod in self.pods(name) if "deletionTimestamp" not in pod["metadata"]]
        new = [pod for pod in pods if pod["of"] == spec["template"]]
        old = [pod for pod in pods if pod not in new]
        ready = [pod for pod in pods if _is_ready(pod)]
        rolling = spec["strategy"].get("rollingUpdate") or {}
        surge = 0 if rolling.get("maxSurge") == 0 else 1
        down = rolling["maxUnavailable"] if isinstance(rolling.get("maxUnavailable"), int) else 0
        refused = False
        if not paused:
            unready_old = [pod for pod in old if not _is_ready(pod)]
            if unready_old:
                self._delete(unready_old[0])
            elif old and len(ready) > spec["replicas"] - down:
                self._delete(old[0])
            elif len(pods) > spec["replicas"] and not old:
                self._delete(sorted(new, key=_is_ready)[0])
            elif len(pods) < spec["replicas"] + (surge if old else 0) and len(new) < spec["replicas"]:
                refused = bool(self.unmade) and QUEUE_LABEL in spec["template"]["metadata"]["labels"]
                if not refused:
                    self._create(value)
        pods = [pod for pod in self.pods(name) if "deletionTimestamp" not in pod["metadata"]]
        ready = [pod for pod in pods if _is_ready(pod)]
        self.lowest[name] = min(self.lowest.get(name, len(ready)), len(ready))
        value["status"] = {
            "observedGeneration": value["metadata"]["generation"],
            "replicas": len(pods),
            "updatedReplicas": sum(pod["of"] == spec["template"] for pod in pods),
            "readyReplicas": len(ready),
            "availableReplicas": len(ready),
            "conditions": [{"type": "ReplicaFailure", "status": "True", "message": self.unmade}] if refused else [],
        }
        if not self.history and not [pod for pod in pods if pod["of"] != spec["template"]]:
            for old_set in self._sets(name):
                if old_set["spec"]["template"] != spec["template"]:
                    del self.stored[_key(old_set)]

    def _sets(self, name: str) -> list[Value]:
        return [each for each in self.of("replicasets.apps") if each["metadata"]["ownerReferences"][0]["name"] == name]

    def _create(self, value: Value) -> None:
        template, number = value["spec"]["template"], next(self._numbers)
        name = value["metadata"]["name"]
        own = self._set_of(value)
        digest = own["metadata"]["name"].removeprefix(f"{name}-")
        labels = {**template["metadata"]["labels"], "pod-template-hash": digest}
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": own["metadata"]["name"],
            "controller": True,
        }
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-h-{number:05}",
                    "namespace": TEAM,
                    "labels": labels,
                    "ownerReferences": [owner],
                },
                "spec": {
                    **copy.deepcopy(template["spec"]),
                    **({"schedulingGates": [dict(GATE)]} if QUEUE_LABEL in labels and not self.inert else {}),
                },
                "status": {},
                "of": copy.deepcopy(template),
                "model": name,
            }
        )

    def _set_of(self, value: Value) -> Value:
        """The ReplicaSet of its template as it is now."""
        name, template, revision = value["metadata"]["name"], value["spec"]["template"], next(self._numbers)
        for each in self._sets(name):
            if each["spec"]["template"] == template:
                return each
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "controller": True}
        made = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{name}-h{revision}",
                "namespace": TEAM,
                "annotations": {"deployment.kubernetes.io/revision": str(revision)},
                "ownerReferences": [owner],
            },
            "spec": {"template": copy.deepcopy(template)},
        }
        self.put(made)
        return made

    def _delete(self, pod: Value) -> None:
        pod["metadata"]["deletionTimestamp"] = "now"

    def _kubelet(self) -> None:
        for pod in self.of("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                if not self.kept:
                    del self.stored[_key(pod)]
            elif pod["spec"].get("schedulingGates"):
                continue
            elif pod["model"] in self.stuck:
                if not _is_ready(pod):
                    said = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu"
                    pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": said}]}
            else:
                pod["spec"]["nodeSelector"] = {"pool": "a100"} if QUEUE_LABEL in pod["metadata"]["labels"] else {}
                pod["spec"]["nodeName"] = "one"
                pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    def _kueue(self) -> None:
        if self.inert:
            return
        pods = {pod["metadata"]["uid"]: pod for pod in self.of("pods")}
        for workload in self.of(WORKLOADS.name):
            if workload["metadata"]["ownerReferences"][0]["uid"] not in pods:
                del self.stored[_key(workload)]
        of_kueue = {each["metadata"]["ownerReferences"][0]["uid"]: each for each in self.of(WORKLOADS.name)}
        for uid, pod in pods.items():
            queue = pod["metadata"]["labels"].get(QUEUE_LABEL)
            if queue and uid not in of_kueue:
                owner = {"kind": "Pod", "uid": uid, "name": pod["metadata"]["name"], "controller": True}
                self.put(
                    {
                        "apiVersion": f"{KUEUE}/v1beta2",
                        "kind": "Workload",
                        "metadata": {
                            "name": f"pod-{pod['metadata']['name']}",
                            "namespace": TEAM,
                            "ownerReferences": [owner],
                        },
                        "spec": {"queueName": queue},
                        "status": {},
                    }
                )
        self._admit(pods)

    def _admit(self, pods: dict[str, Value]) -> None:
        """Each queue from its own floor alone."""
        held: dict[str, int] = {}
        waiting = []
        for workload in self.of(WORKLOADS.name):
            if workload["status"].get("admitted"):
                held[workload["spec"]["queueName"]] = held.get(workload["spec"]["queueName"], 0) + 1
            else:
                waiting.append(workload)
        for workload in waiting:
            queue, pod = workload["spec"]["queueName"], pods.get(workload["metadata"]["ownerReferences"][0]["uid"])
            of = self.value(
                f"clusterqueues.{KUEUE}", self.value(f"localqueues.{KUEUE}", queue)["spec"]["clusterQueue"], ""
            )
            floor = int(of["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])
            if pod is not None and held.get(queue, 0) < floor:
                held[queue] = held.get(queue, 0) + 1
                conditions = [{"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "True"}]
                workload["status"] = {"admitted": True, "conditions": conditions}
                pod["spec"].pop("schedulingGates", None)
            else:
                said = "couldn't assign flavors to pod set main: insufficient unused quota"
                workload["status"] = {"conditions": [{"type": "QuotaReserved", "status": "False", "message": said}]}
        for queue in self.of(f"localqueues.{KUEUE}"):
            of = self.value(f"clusterqueues.{KUEUE}", queue["spec"]["clusterQueue"], "")
            total = {"name": GPU, "total": str(held.get(queue["metadata"]["name"], 0))}
            of["status"]["flavorsReservation"] = [{"name": "gpus", "resources": [total]}]


def _is_ready(pod: Value) -> bool:
    return any(each["type"] == "Ready" for each in pod["status"].get("conditions", ()))


def _key(value: Value) -> tuple[str, str, str]:
    group, _, _ = value["apiVersion"].rpartition("/")
    plural = f"{value['kind'].lower()}s"
    return (f"{plural}.{group}" if group else plural), value["metadata"].get("namespace", ""), value["metadata"]["name"]


def _selected(value: Value, labels: str) -> bool:
    own = value["metadata"].get("labels", {})
    return all(
        own.get(term.partition("=")[0]) == term.partition("=")[2]
        if "=" in term
        else (term[1:] not in own if term.startswith("!") else term in own)
        for term in filter(None, labels.split(","))
    )


def _merge(value: Value, patch: Value) -> None:
    """RFC 7386."""
    for key, new in patch.items():
        if new is None:
            value.pop(key, None)
        elif isinstance(new, dict):
            if not isinstance(value.get(key), dict):
                value[key] = {}
            _merge(value[key], new)
        else:
            value[key] = new
