"""What scripts/kind-up applies and says to try, on a real control plane; the script itself needs Docker."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.container import Container, running
from tests.cluster.controlplane import Cluster, own_cluster, until
from tests.cluster.server import ROOT, free_endpoint
from webhook.kube.names import QUEUE_LABEL

Object = dict[str, Any]
NAMESPACE = "llm-d-optimized-baseline"
HOME = ("-n", "floorkeeper-system")
MODELS = {"optimized-baseline-a": "model-a-lq", "model-b": "model-b-lq"}
SCRIPT = (ROOT / "scripts" / "kind-up").read_text()
_HINTS = SCRIPT.partition("cat <<END\n")[2].partition("\nEND\n")[0].replace("\\\\\n", " ")
HINTS = [line.strip() for line in _HINTS.splitlines() if line.startswith("  kubectl ")]
"""The commands that it says to try."""


def kubectl(cluster: Cluster, command: str) -> str:
    """What a command of the script or of its hints prints, on both streams."""
    program, *words = shlex.split(command)
    assert program == "kubectl"
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(
        [cluster.kubectl, *words],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Container]]:
    """Two nodes of five GPUs, the guide's queues, and Floorkeeper: a process here in place of its pods."""
    folder = tmp_path_factory.mktemp("kind")
    with own_cluster(folder, "--with", "cert-manager", "--crds", "prometheus-operator") as cluster:
        [names] = re.findall(r"for file in (.*); do", SCRIPT)
        for name in names.split():
            cluster("apply", "-f", str(ROOT / "examples" / "cluster" / f"{name}.yaml"))
        [folder_of_kind] = re.findall(r"kubectl kustomize --load-restrictor=LoadRestrictionsNone (\S+) \|", SCRIPT)
        rendered = cluster("kustomize", "--load-restrictor=LoadRestrictionsNone", str(ROOT / folder_of_kind)).stdout
        cluster("apply", "-f", "-", input=rendered)
        cluster("rollout", "status", "deployment/floorkeeper", *HOME, "--timeout=60s")

        address = free_endpoint()
        assert address[1] == 8443, "the shipped port is held by another program"
        leads_here = {"spec": {"type": "ExternalName", "externalName": address[0]}}
        cluster("patch", "service", "floorkeeper", *HOME, "--type=merge", "-p", json.dumps(leads_here))
        secret = until("there is a certificate", lambda: cluster.get("secret", "floorkeeper-tls", *HOME))
        content = {key: base64.b64decode(text) for key, text in secret["data"].items()}
        objects = list(yaml.safe_load_all(rendered))
        with running(cluster, objects, address, folder / "pod", {"floorkeeper-tls": content}) as container:
            [asked] = re.findall(r"answer=\$\((kubectl create .*) 2>&1\)", SCRIPT)
            until("the API server asks Floorkeeper", lambda: "[gpu-resource-quota]" in kubectl(cluster, asked), 30)
            yield cluster, container


@pytest.fixture
def kind(installed: tuple[Cluster, Container]) -> Cluster:
    return installed[0]


def test_what_is_installed_is_what_the_script_builds(kind: Cluster) -> None:
    found = kind.get("deployment", "floorkeeper", *HOME)
    [container] = found["spec"]["template"]["spec"]["containers"]
    [image] = re.findall(r"(?m)^image=(.+)$", SCRIPT)
    assert container["image"] == image
    assert found["status"]["readyReplicas"] == 2
    policy = kind.get("configmap", "floorkeeper-policy", *HOME)["data"]["policy.yaml"]
    assert policy == (ROOT / "examples" / "policy.yaml").read_text()


def ready(cluster: Cluster) -> dict[str, int]:
    """Replicas of each model."""
    found = {name: cluster.get("deployment", name, "-n", NAMESPACE) for name in MODELS}
    return {name: value["status"].get("readyReplicas", 0) for name, value in found.items()}


def gpus(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """What Kueue says of each ClusterQueue: the GPUs that are used, and how many of them are borrowed."""
    found = {}
    for queue in cluster.items("clusterqueues"):
        usage = [
            (int(resource["total"]), int(resource["borrowed"]))
            for flavor in queue["status"]["flavorsUsage"]
            for resource in flavor["resources"]
            if resource["name"] == "nvidia.com/gpu"
        ]
        [found[queue["metadata"]["name"]]] = usage
    return found


def admitted(cluster: Cluster) -> list[bool]:
    """Of each Workload of the namespace."""
    return sorted(
        any(each["type"] == "Admitted" and each["status"] == "True" for each in value["status"].get("conditions", []))
        for value in cluster.items("workloads.kueue.x-k8s.io", "-n", NAMESPACE)
    )


def gated(cluster: Cluster) -> list[str]:
    """The model of each pod that Kueue holds back."""
    pods = cluster.items("pods", "-n", NAMESPACE)
    return [pod["metadata"]["labels"]["app"] for pod in pods if pod["spec"].get("schedulingGates")]


def test_what_it_says_to_try(kind: Cluster, installed: tuple[Cluster, Container]) -> None:
    apply, show, borrow, take_back, quota, floor = HINTS
    queues = ("llm-d-model-a-cq", "llm-d-model-b-cq")
    try:
        # Each on its floor, and patched as it came in.
        said = kubectl(kind, apply)
        for name, queue in MODELS.items():
            assert f"deployment.apps/{name} created" in said
            spec = kind.get("deployment", name, "-n", NAMESPACE)["spec"]
            assert spec["template"]["metadata"]["labels"][QUEUE_LABEL] == queue
            assert spec["strategy"]["rollingUpdate"]["maxSurge"] == 0
        assert said.count("[missing-queue-name]") == said.count("[surge-without-quota]") == 2
        until("they run", lambda: ready(kind) == dict.fromkeys(MODELS, 4), 30)
        until("Kueue has admitted them", lambda: admitted(kind) == [True] * 8, 10)
        until("Kueue counts them", lambda: gpus(kind) == dict.fromkeys(queues, (4, 0)), 10)
        shown = kubectl(kind, show)
        assert len(re.findall(r"(?m)^deployment\.apps/\S+ +4/4 ", shown)) == 2
        assert len(re.findall(r"(?m)^workload\.kueue\.x-k8s\.io/\S+ +model-[ab]-lq ", shown)) == 8

        # One borrows the GPU that the other does not use, which then takes it back.
        kubectl(kind, borrow)
        until("one is borrowed", lambda: gpus(kind) == dict(zip(queues, ((6, 1), (4, 0)), strict=True)), 30)
        until("it runs", lambda: ready(kind) == dict(zip(MODELS, (6, 4), strict=True)), 30)
        kubectl(kind, take_back)
        until("it is taken back", lambda: ready(kind) == dict.fromkeys(MODELS, 5), 30)
        until("the sixth is gated", lambda: gated(kind) == ["optimized-baseline-a"], 30)
        until("nothing is borrowed", lambda: gpus(kind) == dict.fromkeys(queues, (5, 0)), 10)
        until("the Workload of a pod that went is gone", lambda: admitted(kind) == [False] + [True] * 10, 30)

        assert "denied the request" in kubectl(kind, quota)
        denial = kubectl(kind, floor)
        assert "denied the request" in denial
        assert "[floors-exceed-capacity]" in denial
    finally:
        kind("delete", "-f", str(ROOT / "examples" / "kind" / "models.yaml"), "--ignore-not-found")
    until("the pods are gone", lambda: kind.items("pods", "-n", NAMESPACE) == [], 30)
    until("so are their Workloads", lambda: admitted(kind) == [], 30)
    until("the floors are free", lambda: gpus(kind) == dict.fromkeys(queues, (0, 0)), 10)
    assert installed[1].troubles() == []


def test_what_the_script_installs_can_be_uninstalled(kind: Cluster) -> None:
    """By the README's commands, the monitoring overlay's objects included, all of which go with the namespace."""
    text = (ROOT / "README.md").read_text()
    uninstall = re.findall(r"(?m)^\$ (kubectl delete .*)$", text.partition("To uninstall, ")[2].partition("### ")[0])
    first, second = uninstall
    monitoring = kind("kustomize", str(ROOT / "manifests" / "overlays" / "monitoring")).stdout
    kind("apply", "-f", "-", input=monitoring)
    rendered = kind("kustomize", "--load-restrictor=LoadRestrictionsNone", str(ROOT / "examples" / "kind")).stdout
    objects = [*yaml.safe_load_all(rendered), *yaml.safe_load_all(monitoring)]
    kubectl(kind, first)
    kind(*shlex.split(second.replace("floorkeeper.yaml", "-"))[1:], input=rendered)
    left = kind("get", "-f", "-", "--ignore-not-found", input=yaml.safe_dump_all(objects))
    assert (left.stdout, left.stderr) == ("", "")
