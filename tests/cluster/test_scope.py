"""Whom the API server asks us about, tried on a real one with a recorder in our place.

The configurations are the shipped ones under another name and for another label than the shipped server's, which may
serve in the same cluster at the same time.
"""

from __future__ import annotations

import base64
import copy
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificate import write_certificate
from tests.cluster.api import Answer, Api
from tests.cluster.controlplane import Cluster, until
from tests.cluster.recorder import Recorder
from tests.cluster.scope_objects import (
    ASKED_BUT_REFUSED,
    CALLED,
    GPU,
    QUEUE,
    RESOURCES,
    SCALED_OBJECT,
    SPARED,
    SPARED_AND_REFUSED,
    WITH_GPU,
    Object,
    container,
    deployment,
    horizontal_pod_autoscaler,
    pod,
    pod_spec,
)
from tests.cluster.server import free_endpoint
from tests.cluster.team import GPU as GPU_NAME
from tests.cluster.team import cluster_queue, flavor
from webhook.engine.policy import Policy
from webhook.kube.accelerators import accelerators
from webhook.kube.kinds import Kind, Kinds
from webhook.kube.names import QUEUE_LABEL, SYSTEM_NAMESPACES
from webhook.kube.paths import EVERY_ITEM, EVERY_VALUE
from webhook.kube.row import Template
from webhook.kube.selector import LabelSelector, Requirement
from webhook.kube.shapes import SPEC, Alone
from webhook.scope import webhook_configurations

pytestmark = pytest.mark.cluster

BASE = Path(__file__).parents[2] / "manifests" / "base"
LABEL = "scope.floorkeeper.io/managed"
MANAGED, UNMANAGED, HOME = "scope-managed", "scope-unmanaged", "scope-recorder"
"""Namespaces; HOME holds the Service that leads to the recorder."""

ANNOTATION = {"metadata": {"annotations": {"example.com/note": "1"}}}


def both(operation: str, resource: str) -> list[str]:
    return [f"mutate {operation} {resource}", f"validate {operation} {resource}"]


class Scope:
    """The cluster, with the recorder registered in it."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster, self.api = cluster, Api.of(cluster)
        self.address, self.port = free_endpoint()
        self.certificate = directory
        self.ca_bundle = base64.b64encode(write_certificate(directory, f"floorkeeper.{HOME}.svc")).decode()
        self.recorder = Recorder(self.address, self.port, directory)

    def restart(self) -> None:
        self.recorder = Recorder(self.address, self.port, self.certificate)

    def register(self, name: str, configurations: list[Object]) -> None:
        for configuration in configurations:
            configuration["metadata"]["name"] = name
            for hook in configuration["webhooks"]:
                hook["clientConfig"]["caBundle"] = self.ca_bundle
                hook["clientConfig"]["service"]["namespace"] = HOME
                hook["clientConfig"]["service"]["port"] = self.port
        self.cluster.apply(*configurations)

    def unregister(self, name: str) -> None:
        kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
        self.cluster("delete", kinds, name, "--ignore-not-found")

    def make_namespace(self, name: str, **labels: str) -> None:
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})

    def post(self, value: Object, namespace: str, dry_run: bool = True) -> Answer:
        """The JSON as it is: kubectl's own validation would refuse half of the odd objects."""
        version = value["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return self.api.post(f"{root}/namespaces/{namespace}/{RESOURCES[value['kind']]}", value, dry_run)

    def create(self, value: Object, namespace: str = MANAGED) -> None:
        answer = self.post(value, namespace, dry_run=False)
        assert answer.stored, answer.message

    def patch(self, target: str, body: object, subresource: str = "", kind: str = "merge") -> None:
        answer = self.api.patch(self.cluster.path(target, "-n", MANAGED) + subresource, body, kind)
        assert answer.stored, answer.message

    def asked(self, name: str | None = None) -> list[str]:
        """What was asked since the last time, about objects in MANAGED."""
        calls = self.recorder.calls(MANAGED, name)
        self.recorder.clear()
        return calls

    def asked_at_least_once(self, name: str) -> list[str]:
        """The API server asks again when a patch meets a controller's status write."""
        return sorted(set(self.asked(name)))

    def pods(self, app: str) -> list[Object]:
        return self.cluster.items("pods", "-n", MANAGED, "-l", f"app={app}")

    def wait_until_called(self) -> None:
        """The API server learns of configurations by watching, of each kind by itself."""

        def called() -> bool:
            self.recorder.clear()
            self.post(CALLED["gpu-pod"], MANAGED)
            return self.recorder.calls(MANAGED) == both("CREATE", "pods")

        until("both doors are asked", called, 30)
        self.recorder.clear()


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scope]:
    scope = Scope(cluster, tmp_path_factory.mktemp("recorder"))
    try:
        scope.make_namespace(HOME)
        scope.make_namespace(UNMANAGED)
        scope.make_namespace(MANAGED, **{LABEL: "true"})
        service = {"type": "ExternalName", "externalName": scope.address}
        metadata = {"name": "floorkeeper", "namespace": HOME}
        cluster.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})
        for owner in OWNERS:
            scope.create(owner)
        scope.register("floorkeeper-scope", webhook_configurations(Policy(LabelSelector(((LABEL, "true"),)))))
        scope.wait_until_called()
        yield scope
    finally:
        scope.unregister("floorkeeper-scope")
        scope.recorder.stop()
        cluster("delete", "namespace", MANAGED, UNMANAGED, HOME, "--ignore-not-found", "--wait=false")


@pytest.fixture
def scope(installed: Scope) -> Scope:
    installed.recorder.clear()
    return installed


# Kueue's webhooks look up the owners of a Pod.
OWNERS: list[Object] = [
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "owner"},
        "spec": {"suspend": True, "template": {"spec": pod_spec(restartPolicy="Never")}},
    },
    {**CALLED["gpu-replicaset"], "metadata": {"name": "owner"}},
]


def test_what_is_stored_is_what_is_shipped(cluster: Cluster) -> None:
    """No field is filled in by the API server, so GitOps tools see no drift."""
    for configuration in yaml.safe_load_all((BASE / "webhooks.yaml").read_text()):
        configuration["metadata"]["name"] = "floorkeeper-dry"
        stored = json.loads(cluster.create(configuration, "--dry-run=server", "-o", "json").stdout)
        assert stored["webhooks"] == configuration["webhooks"]
    service = yaml.safe_load((BASE / "service.yaml").read_text())
    service["metadata"] |= {"name": "floorkeeper-dry", "namespace": "default"}
    stored = json.loads(cluster.create(service, "--dry-run=server", "-o", "json").stdout)
    allocated = ("clusterIP", "clusterIPs", "ipFamilies")
    assert {key: value for key, value in stored["spec"].items() if key not in allocated} == service["spec"]


@pytest.mark.parametrize("case", CALLED)
def test_called(scope: Scope, case: str) -> None:
    answer = scope.post(CALLED[case], MANAGED)
    assert answer.stored, answer.message
    assert scope.asked() == both("CREATE", RESOURCES[CALLED[case]["kind"]])


@pytest.mark.parametrize("case", ASKED_BUT_REFUSED)
def test_asked_before_others_refuse(scope: Scope, case: str) -> None:
    assert not scope.post(ASKED_BUT_REFUSED[case], MANAGED).stored
    assert "mutate CREATE deployments" in scope.asked()


@pytest.mark.parametrize("case", SPARED)
def test_spared(scope: Scope, case: str) -> None:
    answer = scope.post(SPARED[case], MANAGED)
    assert answer.stored, answer.message
    assert scope.asked() == []


@pytest.mark.parametrize("case", SPARED_AND_REFUSED)
def test_spared_and_refused_by_others(scope: Scope, case: str) -> None:
    refusal = scope.post(SPARED_AND_REFUSED[case], MANAGED).message
    assert "is invalid" in refusal or ".kb.io" in refusal, refusal
    assert scope.asked() == []


def test_unmanaged_namespace(scope: Scope) -> None:
    for case in ("gpu", "gpu-pod", "label-on-object", "runtime-class"):
        assert scope.post(CALLED[case], UNMANAGED).stored
    for value in (quota("x"), local_queue("default")):
        assert scope.post(value, UNMANAGED).stored
    assert scope.recorder.calls(UNMANAGED) == []


def test_system_namespaces_with_the_managed_label(scope: Scope) -> None:
    made = [name for name in SYSTEM_NAMESPACES if scope.cluster.get("namespace", name) is None]
    for name in made:
        scope.make_namespace(name)
    scope.cluster("label", "namespace", *SYSTEM_NAMESPACES, f"{LABEL}=true")
    try:
        # The copies that the API server selects by follow within moments.
        time.sleep(1)
        for name in SYSTEM_NAMESPACES:
            for value in (CALLED["gpu"], quota("x"), local_queue("default"), horizontal_pod_autoscaler("v2")):
                assert scope.post(value, name).stored
            scope.create(local_queue("deleted"), name)
            scope.cluster("delete", "localqueue", "deleted", "-n", name, "--wait=false")
            assert scope.recorder.calls(name) == []
    finally:
        scope.cluster("label", "namespace", *SYSTEM_NAMESPACES, f"{LABEL}-")
        if made:
            scope.cluster("delete", "namespace", *made, "--wait=false")


def test_updates_of_a_gpu_deployment(scope: Scope) -> None:
    scope.create(deployment(WITH_GPU, metadata={"name": "updated"}, labels=QUEUE))
    assert scope.asked("updated") == both("CREATE", "deployments")
    for body in (
        ANNOTATION,
        {"spec": {"minReadySeconds": 1}},
        {"spec": {"template": {"metadata": {"labels": {QUEUE_LABEL: None}}}}},
        {"spec": {"template": {"spec": {"containers": [container()]}}}},
    ):
        scope.patch("deployment/updated", body)
        assert scope.asked_at_least_once("updated") == both("UPDATE", "deployments")
    # By now neither what it is nor what it was has a GPU.
    scope.patch("deployment/updated", {"spec": {"minReadySeconds": 2}})
    assert scope.asked() == []


def test_a_label_taken_from_what_has_no_gpu(scope: Scope) -> None:
    scope.create(deployment(metadata={"name": "opted-out"}, labels=QUEUE))
    scope.recorder.clear()
    scope.patch("deployment/opted-out", {"spec": {"template": {"metadata": {"labels": {QUEUE_LABEL: None}}}}})
    assert scope.asked_at_least_once("opted-out") == both("UPDATE", "deployments")


def test_updates_of_a_gateway(scope: Scope) -> None:
    scope.create(deployment(metadata={"name": "gateway"}))
    scope.patch("deployment/gateway", ANNOTATION)
    scope.patch("deployment/gateway", {"spec": {"template": {"metadata": {"labels": {"changed": "yes"}}}}})
    assert scope.asked() == []
    scope.patch("deployment/gateway", {"spec": {"template": {"spec": {"containers": [container(**GPU)]}}}})
    assert scope.asked_at_least_once("gateway") == both("UPDATE", "deployments")


def test_subresources_and_pods_that_exist(scope: Scope) -> None:
    scope.create(deployment(WITH_GPU, metadata={"name": "scaled"}))
    scope.create(pod("debugged", container(**GPU)))
    scope.recorder.clear()
    scope.cluster("scale", "deployment/scaled", "-n", MANAGED, "--replicas=0")
    scope.patch("deployment/scaled", {"status": {"conditions": []}}, "/status")
    debugger = {"name": "debugger", "image": "x", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    ephemeral = {"spec": {"ephemeralContainers": [debugger]}}
    scope.patch("pod/debugged", ephemeral, "/ephemeralcontainers", kind="strategic")
    scope.patch("pod/debugged", {"status": {"message": "x"}}, "/status")
    scope.patch("pod/debugged", ANNOTATION)
    scope.patch("pod/debugged", {"spec": {"containers": [{"name": "main", "image": "y"}]}}, kind="strategic")
    scope.cluster("delete", "pod", "debugged", "-n", MANAGED, "--now", "--wait=false")
    assert scope.asked() == []


def rolling(name: str, replicas: int) -> Object:
    value = copy.deepcopy(deployment(WITH_GPU, metadata={"name": name}, replicas=replicas))
    value["spec"]["selector"] = {"matchLabels": {"app": name}}
    value["spec"]["template"]["metadata"]["labels"] = {"app": name}
    return value


def test_what_a_deployment_makes_is_not_judged_again(scope: Scope) -> None:
    scope.create(rolling("parent", 1))
    until("there is a pod", lambda: len(scope.pods("parent")) == 1)
    scope.cluster("scale", "deployment/parent", "-n", MANAGED, "--replicas=3")
    until("there are three pods", lambda: len(scope.pods("parent")) == 3)
    assert scope.asked() == both("CREATE", "deployments")
    scope.cluster("delete", "deployment/parent", "-n", MANAGED, "--cascade=foreground", "--timeout=60s")
    until("the pods are gone", lambda: not scope.pods("parent"))
    assert scope.asked() == []


def test_an_orphan_is_a_top_object(scope: Scope) -> None:
    scope.create(rolling("orphaned", 0))

    def replica_sets() -> list[Object]:
        return scope.cluster.items("replicasets", "-n", MANAGED, "-l", "app=orphaned")

    [made] = until("there is a ReplicaSet", replica_sets)
    scope.recorder.clear()
    scope.cluster("delete", "deployment/orphaned", "-n", MANAGED, "--cascade=orphan", "--timeout=60s")
    [orphan] = replica_sets()
    assert "ownerReferences" not in orphan["metadata"]
    assert scope.asked() == [], "letting go must not wait for us"
    scope.patch(f"replicaset/{made['metadata']['name']}", {"metadata": {"annotations": {"note": "x"}}})
    assert scope.asked_at_least_once(made["metadata"]["name"]) == both("UPDATE", "replicasets")


@pytest.mark.parametrize("kind", ["deployment", "resourcequota"])
def test_finalizers_of_what_is_being_deleted(scope: Scope, kind: str) -> None:
    held = {"name": "held", "finalizers": ["example.com/hold"]}
    scope.create(deployment(WITH_GPU, metadata=held) if kind == "deployment" else {**quota("held"), "metadata": held})
    scope.cluster("delete", kind, "held", "-n", MANAGED, "--wait=false")
    scope.recorder.clear()
    scope.patch(f"{kind}/held", {"metadata": {"finalizers": None}})
    until("it is gone", lambda: scope.cluster.get(kind, "held", "-n", MANAGED) is None)
    assert scope.asked() == []


def quota(name: str) -> Object:
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "100"}}}


def test_resource_quotas(scope: Scope) -> None:
    scope.create(quota("counted"))
    until("its use is counted", lambda: scope.cluster.get("resourcequota", "counted", "-n", MANAGED)["status"])
    assert scope.asked() == ["validate CREATE resourcequotas"]
    scope.patch("resourcequota/counted", ANNOTATION)
    assert scope.asked() == []
    scope.patch("resourcequota/counted", {"spec": {"hard": {"requests.nvidia.com/gpu": "10"}}})
    assert scope.asked_at_least_once("counted") == ["validate UPDATE resourcequotas"]
    scope.cluster("delete", "resourcequota", "counted", "-n", MANAGED)
    assert scope.asked() == []


def local_queue(name: str, version: str = "v1beta2") -> Object:
    kind = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "LocalQueue"}
    return {**kind, "metadata": {"name": name}, "spec": {"clusterQueue": "cq"}}


def test_local_queues(scope: Scope) -> None:
    for version in ("v1beta1", "v1beta2"):
        assert scope.post(local_queue("default", version), MANAGED).stored
        assert scope.post(local_queue("model-a", version), MANAGED).stored
        assert scope.asked() == ["validate CREATE localqueues"]
    scope.create(local_queue("default"))
    scope.recorder.clear()
    scope.patch("localqueue/default", {"spec": {"stopPolicy": "Hold"}})
    assert scope.asked() == []
    scope.cluster("delete", "localqueue", "default", "-n", MANAGED)
    assert scope.asked_at_least_once("default") == ["validate DELETE localqueues"]
    assert scope.post(local_queue("x"), UNMANAGED, dry_run=False).stored
    scope.cluster("delete", "localqueue", "x", "-n", UNMANAGED)
    assert scope.recorder.calls(UNMANAGED) == []


VOLCANO_QUEUE: Object = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "scope"},
    "spec": {"guarantee": {"resource": {GPU_NAME: "1"}}},
}
COHORT: Object = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "scope"}, "spec": {}}
LABEL_EDIT = {"metadata": {"labels": {"note": "x"}}}
# resource: the object, and a change of its spec
QUOTAS: dict[str, tuple[Object, Object]] = {
    "clusterqueues": (cluster_queue("scope", "scope", "scope", 1), {"spec": {"stopPolicy": "Hold"}}),
    "cohorts": (COHORT, {"spec": {"parentName": "scope-parent"}}),
    "resourceflavors": (flavor("scope", {"scope": "x"}), {"spec": {"nodeLabels": {"scope": "y"}}}),
    "queues": (VOLCANO_QUEUE, {"spec": {"guarantee": {"resource": {GPU_NAME: "2"}}}}),
}


@pytest.mark.parametrize("resource", QUOTAS)
def test_quotas_wherever_they_are_used(scope: Scope, resource: str) -> None:
    """A change of their spec is asked about, and nothing else that happens to them is, but for taking a queue away."""
    value, change = QUOTAS[resource]
    target = f"{resource}.{value['apiVersion'].partition('/')[0]}/scope"

    def asked_after(*words: str) -> list[str]:
        scope.recorder.clear()
        scope.cluster(*words)
        return sorted(set(scope.recorder.calls_about(resource, "scope")))

    def patched(body: Object) -> list[str]:
        return asked_after("patch", target, "--type=merge", "-p", json.dumps(body))

    scope.recorder.clear()
    scope.cluster.create(value)
    assert scope.recorder.calls_about(resource, "scope") == [f"validate CREATE {resource}"]
    # Kueue puts its finalizer on its own.
    if resource in ("clusterqueues", "resourceflavors"):
        until("Kueue has seen it", lambda: scope.cluster.get(target)["metadata"].get("finalizers"))
    assert patched(LABEL_EDIT) == patched(ANNOTATION) == []
    assert patched({"metadata": {"finalizers": ["example.com/hold"]}}) == []
    assert patched(change) == [f"validate UPDATE {resource}"]
    assert patched(change) == []
    goes = [f"validate DELETE {resource}"] if resource == "clusterqueues" else []
    assert asked_after("delete", target, "--wait=false") == goes
    # It is on its way: whatever is written to it now, and deleting it once more, is nobody's business.
    assert asked_after("delete", target, "--wait=false") == []
    assert patched({"spec": {"stopPolicy": "None"}} if resource == "clusterqueues" else LABEL_EDIT) == []
    assert patched({"metadata": {"finalizers": None}}) == []
    until("it is gone", lambda: scope.cluster.get(target) is None)
    assert scope.recorder.calls_about(resource, "scope") == []


def test_an_older_version_is_asked_about_too(scope: Scope) -> None:
    value: Object = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Cohort", "metadata": {"name": "scope-old"}}
    scope.cluster.create(value)
    assert scope.recorder.calls_about("cohorts", "scope-old") == ["validate CREATE cohorts"]
    scope.cluster("delete", "cohort", "scope-old")


def test_queues_that_controllers_take_away(scope: Scope) -> None:
    """Deleting a namespace, or an owner, does not wait for us."""
    scope.make_namespace("scope-queues", **{LABEL: "true"})
    scope.create(local_queue("doomed"), "scope-queues")
    scope.recorder.clear()
    scope.cluster("delete", "namespace", "scope-queues", "--timeout=50s")
    assert scope.recorder.calls_about("localqueues", "doomed") == []

    scope.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "queue-owner"}})
    uid = scope.cluster.get("configmap", "queue-owner", "-n", MANAGED)["metadata"]["uid"]
    owned = local_queue("owned")
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "queue-owner", "uid": uid}
    ]
    scope.create(owned)
    scope.recorder.clear()
    scope.cluster("delete", "configmap", "queue-owner", "-n", MANAGED)
    until("it is collected", lambda: scope.cluster.get("localqueue", "owned", "-n", MANAGED) is None)
    assert scope.asked() == []


@pytest.mark.parametrize(
    "value", [horizontal_pod_autoscaler("v2"), horizontal_pod_autoscaler("v1"), SCALED_OBJECT], ids=["v2", "v1", "KEDA"]
)
def test_autoscalers(scope: Scope, value: Object) -> None:
    resource = RESOURCES[value["kind"]]
    assert scope.post(value, UNMANAGED).stored
    assert scope.recorder.calls(UNMANAGED) == []
    scope.create(value)
    assert scope.asked() == [f"validate CREATE {resource}"]
    scope.patch(f"{resource}/x", ANNOTATION)
    assert scope.asked() == []
    most = "maxReplicaCount" if resource == "scaledobjects" else "maxReplicas"
    scope.patch(f"{resource}/x", {"spec": {most: 5}})
    assert scope.asked_at_least_once("x") == [f"validate UPDATE {resource}"]
    scope.cluster("delete", resource, "x", "-n", MANAGED)
    assert scope.asked() == []


def namespace_steps(scope: Scope, name: str, *labels: Object) -> list[list[str]]:
    """What is asked when a namespace is made with the first labels, changed to the others, annotated and deleted."""
    value: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels[0]}}
    changes: list[Object] = [*({"metadata": {"labels": entry}} for entry in labels[1:]), ANNOTATION]
    scope.cluster.create(value)
    seen = [scope.recorder.calls(name)]
    for change in changes:
        scope.recorder.clear()
        scope.cluster("patch", "namespace", name, "--type=merge", "-p", json.dumps(change))
        seen.append(scope.recorder.calls(name))
    scope.recorder.clear()
    scope.cluster("delete", "namespace", name, "--wait=false")
    return seen


def test_namespaces(scope: Scope) -> None:
    managed, refused, unmanaged = {LABEL: "true"}, {LABEL: "false"}, {LABEL: None}
    create, update = ["validate CREATE namespaces"], ["validate UPDATE namespaces"]
    assert namespace_steps(scope, "scope-later", {}, managed, refused) == [[], update, [], []]
    assert namespace_steps(scope, "scope-again", refused, managed, unmanaged) == [[], update, [], []]
    assert namespace_steps(scope, "scope-at-once", managed, {"team": "a"}) == [create, [], []]
    names = ("scope-later", "scope-again", "scope-at-once")
    until("they are gone", lambda: not any(scope.cluster.get("namespace", name) for name in names))
    assert [scope.recorder.calls(name) for name in names] == [[], [], []]


def test_another_policy_and_a_further_row(scope: Scope) -> None:
    """A custom resource may hold anything where a pod template is looked for, and is never refused for it."""
    selector = LabelSelector(
        (("scope/team", "a"),),
        (
            Requirement("tier", "In", frozenset({"gold", "silver"})),
            Requirement("frozen", "NotIn", frozenset({"yes"})),
            Requirement("owner", "Exists"),
            Requirement("old", "DoesNotExist"),
        ),
    )
    row = Kind(
        "floorkeeper.example",
        "Widget",
        "widgets",
        templates=(
            Template(("spec", "pods", EVERY_ITEM)),
            Template(("spec", "roles", EVERY_VALUE)),
            Template(("spec", "head")),
            Template(("spec", "if")),
            Template(
                ("spec", "run"),
                replace(SPEC, alone=(Alone(("model",)), Alone((), ("each",)), Alone(("gpu",), gpu=True))),
            ),
        ),
        selector=("spec", "selector"),
        entry="others",
    )
    policy = Policy(selector, accelerators(("example.com/npu", 'odd"\\name*'), {}), Kinds((row,)))
    scope.cluster.apply(WIDGETS)
    scope.cluster("wait", "--for=condition=Established", "crd/widgets.floorkeeper.example", "--timeout=30s")
    labels = {"scope/team": "a", "tier": "gold", "owner": "me"}
    try:
        scope.register("floorkeeper-scope-widgets", webhook_configurations(policy))
        scope.make_namespace("scope-widgets", **labels)

        def asked(spec: object) -> list[str]:
            widget = {"apiVersion": "floorkeeper.example/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": spec}
            scope.recorder.clear()
            answer = scope.post(widget, "scope-widgets")
            assert answer.stored, answer.message
            return scope.recorder.calls("scope-widgets")

        device = {"limits": {"example.com/npu": 1}}
        npu = {"spec": pod_spec(container(resources=device))}
        called = both("CREATE", "widgets")
        until("widgets are asked about", lambda: asked({"head": npu}) == called, 30)
        for spec in (
            {"pods": [{}, npu]},
            {"roles": {"a": {}, "b": npu}},
            {"if": npu},
            {"run": npu["spec"]},
            {"run": {"model": {"resources": device}}},
            {"run": {"each": device}},
            {"run": {"gpu": {"name": "example.com/npu", "quantity": 1}}},
            {"run": {"labels": QUEUE}},
        ):
            assert asked(spec) == called, spec
        assert asked({"pods": [{"metadata": {"labels": QUEUE}}]}) == called
        assert asked({"selector": {"matchLabels": QUEUE}}) == called
        assert asked({"pods": [{"spec": WITH_GPU}]}) == []
        for odd in ODD:
            run = {"model": odd, "each": odd, "gpu": {"name": odd, "quantity": odd}}
            inside = {"pods": [odd], "head": odd, "if": odd, "roles": {"a": odd}, "run": run, "selector": odd}
            labels_of = {"matchLabels": odd, "matchExpressions": odd}
            assert asked(inside) == asked({"pods": odd, "roles": odd, "run": odd, "selector": labels_of}) == []
        assert asked(None) == asked("text") == asked(5) == []

        seen = namespace_steps(scope, "scope-old", labels | {"old": "x"}, {"old": None}, {"frozen": "yes"})
        assert seen == [[], ["validate UPDATE namespaces"], [], []]
    finally:
        scope.unregister("floorkeeper-scope-widgets")
        scope.cluster("delete", "crd", "widgets.floorkeeper.example", "--wait=false")
        scope.cluster("delete", "namespace", "scope-widgets", "--ignore-not-found", "--wait=false")


WIDGETS: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.floorkeeper.example"},
    "spec": {
        "group": "floorkeeper.example",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
ODD: list[Any] = [
    None,
    1,
    "text",
    {},
    {"metadata": None, "spec": None},
    {"metadata": {"labels": None}, "spec": {"containers": None, "volumes": None, "runtimeClassName": None}},
    {"metadata": {"labels": "text"}, "spec": "text"},
    {"spec": {"containers": "text", "initContainers": {"a": 1}, "volumes": 5, "runtimeClassName": 5}},
    {"spec": {"containers": [None, 1, "text", {}], "volumes": [None, "text", {"hostPath": None}]}},
    {"spec": {"containers": [{"resources": None, "env": None}, {"resources": "text", "env": "text"}]}},
    {"spec": {"containers": [{"resources": {"limits": None, "requests": [1]}, "env": [None, 1, {"name": None}]}]}},
    {"spec": {"volumes": [{"hostPath": "text"}, {"hostPath": {"path": None}}, {"hostPath": {"path": 5}}]}},
]


def test_while_nobody_answers_nothing_else_is_affected(scope: Scope) -> None:
    scope.create(rolling("survivor", 1))
    scope.create(deployment(metadata={"name": "plain"}))
    scope.make_namespace("scope-doomed", **{LABEL: "true"})
    scope.create(rolling("doomed", 1), "scope-doomed")
    scope.create(quota("doomed"), "scope-doomed")
    scope.create(local_queue("doomed"), "scope-doomed")
    scope.cluster.create(cluster_queue("scope-doomed", "scope", "scope", 0))
    scope.recorder.stop()
    try:
        for value in (CALLED["gpu"], CALLED["gpu-pod"], quota("refused")):
            assert "failed calling webhook" in scope.post(value, MANAGED).message
        raised = cluster_queue("scope-doomed", "scope", "scope", 1)
        assert "failed calling webhook" in scope.cluster.apply(raised, check=False).stderr
        scope.cluster("label", "clusterqueue", "scope-doomed", "note=x")
        scope.cluster("delete", "clusterqueue", "scope-doomed", "--timeout=50s")
        for case, value in SPARED.items():
            answer = scope.post(value, MANAGED)
            assert answer.stored, (case, answer.message)
        for namespace in (UNMANAGED, "kube-system", "kueue-system"):
            assert scope.post(CALLED["gpu"], namespace).stored
        assert scope.post(local_queue("default"), MANAGED).stored
        for value in (horizontal_pod_autoscaler("v2"), SCALED_OBJECT):
            assert scope.post(value, MANAGED).stored
        scope.patch("deployment/plain", ANNOTATION)
        scope.cluster("scale", "deployment/survivor", "-n", MANAGED, "--replicas=2")
        (first, _) = until("it scales", lambda: found if len(found := scope.pods("survivor")) == 2 else [])
        scope.patch(f"pod/{first['metadata']['name']}", ANNOTATION)
        scope.cluster("annotate", "nodes", "--all", "example.com/note=1", "--overwrite")
        scope.cluster("create", "namespace", "scope-late")
        scope.cluster("label", "namespace", "scope-late", f"{LABEL}=true")
        scope.cluster("delete", "deployment/survivor", "-n", MANAGED, "--cascade=foreground", "--timeout=50s")
        scope.cluster("delete", "namespace", "scope-late", "scope-doomed", "--timeout=50s")
    finally:
        scope.restart()
    scope.wait_until_called()
