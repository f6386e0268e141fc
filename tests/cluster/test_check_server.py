"""`floorkeeper check --server` against the real API server, Kueue and the server itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import ROOT, Floorkeeper
from tests.cluster.team import Object, Team, cluster_queue
from webhook.kube.names import MANAGED_LABEL


@pytest.fixture
def managed(floorkeeper: Floorkeeper, team: Team) -> Team:
    team.manage()
    return team


def namespace(team: Team) -> Object:
    labels = {MANAGED_LABEL: "true"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team.namespace, "labels": labels}}


def asked(cluster: Cluster, file: Path, *objects: Object, words: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    """Exit code and lines. What is written a moment ago may not have reached the server: ask again until it has."""
    file.write_text(yaml.safe_dump_all(objects, sort_keys=False))
    command = [sys.executable, "-m", "webhook", "check", "--server", file.name, *words]
    environment: dict[str, Any] = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, cwd=file.parent, env=environment, capture_output=True, text=True, check=False)
    assert found.stderr == ""
    return found.returncode, found.stdout.splitlines()


def test_allowed_warned_and_denied(cluster: Cluster, managed: Team, tmp_path: Path) -> None:
    home, file = managed.namespace, tmp_path / "in.yaml"
    fine = managed.deployment("fine", queue="model-a-lq", maxSurge=0, maxUnavailable=1)
    surging = managed.deployment("surging", queue="model-b-lq")
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": home}}
    quota["spec"] = {"hard": {"requests.nvidia.com/gpu": "1"}}
    objects = (namespace(managed), fine, surging, quota)

    def denied() -> tuple[int, list[str]] | None:
        code, lines = asked(cluster, file, *objects)
        return (code, lines) if code == 1 else None

    _, lines = until("the namespace is known to be managed", denied, 20) or (0, [])
    verdicts = [line.split(": ")[1:3] for line in lines if not line.startswith(" ")][:-1]
    assert verdicts == [
        ["allowed", f"Namespace {home}"],
        ["allowed", f"Deployment {home}/fine"],
        ["warned", f"Deployment {home}/surging"],
        ["denied", f"ResourceQuota {home}/q"],
    ]
    surge = next(line for line in lines if "/surging: " in line)
    assert surge.endswith("[surge-without-quota]")
    assert 'denied the request: ResourceQuota "q": ' in lines[-2]
    assert lines[-1] == "4 objects asked about: 2 allowed, 1 warned, 1 denied; 0 differ from offline"
    assert managed.get("deployment", "fine") is None, "a dry run writes nothing"


def test_differences_from_offline(cluster: Cluster, managed: Team, tmp_path: Path) -> None:
    home, file = managed.namespace, tmp_path / "in.yaml"
    # The cluster holds 10 GPUs and two floors of 5; the file has no nodes and no other queue.
    third = cluster_queue(f"{home}-model-a", home, home, 6)
    misnamed: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Not A Name"}, "data": {}}

    def denied() -> tuple[int, list[str]] | None:
        code, lines = asked(cluster, file, third, misnamed)
        return (code, lines) if lines[0].startswith("in.yaml:1: denied") else None

    code, lines = until("the floors are known", denied, 20) or (0, [])
    assert code == 1
    assert lines[1] == "    offline: allowed"
    assert lines[2].startswith(f'    offline alone: warn: ClusterQueue "{home}-model-a": spec.cohortName: ')
    assert lines[3].startswith(f'    in the cluster alone: ClusterQueue "{home}-model-a": ')
    assert lines[3].endswith("[floors-exceed-capacity]")
    assert lines[4].startswith('in.yaml:21: denied: ConfigMap default/Not A Name: ConfigMap "Not A Name" is invalid: ')
    assert lines[5:] == [
        "    offline: allowed",
        "2 objects asked about: 0 allowed, 0 warned, 2 denied; 2 differ from offline",
    ]


def test_what_cannot_be_asked(cluster: Cluster, managed: Team, tmp_path: Path) -> None:
    unknown: Object = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}}
    code, lines = asked(cluster, tmp_path / "in.yaml", unknown, namespace(managed))
    assert (code, lines) == (
        2,
        [
            f"in.yaml:6: allowed: Namespace {managed.namespace}",
            "in.yaml:1: error: the cluster serves no example.org/v1 Thing; install what brings it",
            "1 object asked about: 1 allowed, 0 warned, 0 denied; 0 differ from offline",
        ],
    )


def test_without_the_right_to_write(cluster: Cluster, managed: Team, tmp_path: Path) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster("create", "token", "default", "-n", managed.namespace).stdout.strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    nobody = Cluster(tmp_path / "kubeconfig", cluster.kubectl)
    code, lines = asked(nobody, tmp_path / "in.yaml", namespace(managed))
    assert code == 2
    assert lines[0].startswith("in.yaml:1: error: namespaces ")
    assert lines[0].endswith("--server needs the right to patch what it asks about")


def test_as_a_plugin_of_kubectl(cluster: Cluster, managed: Team, tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-floorkeeper"
    plugin.write_text(f"#!{sys.executable}\nfrom webhook.cli import main\nmain()\n")
    plugin.chmod(0o755)
    file = tmp_path / "in.yaml"
    file.write_text(yaml.safe_dump(namespace(managed)))
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    found = subprocess.run(
        [cluster.kubectl, "floorkeeper", "check", "--server", str(file)],
        env={**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout.splitlines()[0]) == (0, f"{file}:1: allowed: Namespace {managed.namespace}")
