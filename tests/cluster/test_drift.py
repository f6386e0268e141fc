"""Nodes that go away on the real control plane: the numbers, the Events, and who is not troubled."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.api import path
from tests.cluster.controlplane import Cluster, stays, until
from tests.cluster.server import POLICY, Floorkeeper, free_endpoint
from tests.cluster.team import GPU, TEAM_LABEL, Team, node
from webhook.kube.names import QUEUE_LABEL

Object = dict[str, Any]
GRACE = 2
UNMANAGED = "floorkeeper.io/unmanaged"
"""kwok leaves a node with this label alone, so that it stays not Ready."""


class Nodes:
    """The two nodes of a team, of 5 GPUs each; what happens here happens to the second one."""

    def __init__(self, team: Team) -> None:
        self.api = team.api
        self._node = node(f"{team.namespace}-2", {TEAM_LABEL: team.namespace})

    def cordon(self) -> None:
        self._change({"spec": {"unschedulable": True}})

    def uncordon(self) -> None:
        self._change({"spec": {"unschedulable": None}})

    def fail(self) -> None:
        self._change({"metadata": {"labels": {UNMANAGED: "true"}}})
        self._status({"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]})

    def recover(self) -> None:
        self._status({"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]})
        self._change({"metadata": {"labels": {UNMANAGED: None}}})

    def offer(self, gpus: int, capacity: int = 5) -> None:
        self._status({"allocatable": {GPU: str(gpus)}, "capacity": {GPU: str(capacity)}})

    def delete(self) -> None:
        assert self.api.delete(self._node).stored

    def create(self) -> None:
        assert self.api.write(self._node).stored

    def _change(self, change: Object, subresource: str = "") -> None:
        answer = self.api.patch(path(self._node) + subresource, change)
        assert answer.stored, answer.message

    def _status(self, status: Object) -> None:
        self._change({"status": status}, "/status")


@pytest.fixture
def nodes(team: Team) -> Iterator[Nodes]:
    """Both are there again at the end."""
    nodes = Nodes(team)
    yield nodes
    nodes.create()


def numbers(server: Floorkeeper, flavor: str) -> dict[str, float]:
    """By metric, without the beginning of its name."""
    return {
        sample.name.removeprefix("floorkeeper_flavor_"): sample.value
        for family in text_string_to_metric_families(server.get("/metrics").text)
        for sample in family.samples
        if sample.name.startswith("floorkeeper_flavor_") and sample.labels["flavor"] == flavor
    }


def of(hardware: int, usable: int, unmet_hardware: int, unmet_usable: int, unclaimed: int) -> dict[str, float]:
    """With floors of 5 and 5."""
    return {
        "hardware": hardware,
        "usable": usable,
        "floors": 10,
        "unmet_hardware": unmet_hardware,
        "unmet_usable": unmet_usable,
        "unclaimed": unclaimed,
    }


def test_the_numbers_follow_the_nodes_and_nobody_is_denied(team: Team, nodes: Nodes, floorkeeper: Floorkeeper) -> None:
    team.manage()
    whole = of(10, 10, 0, 0, 0)
    steps: list[tuple[str, Callable[[], None], dict[str, float]]] = [
        ("at the start", lambda: None, whole),
        ("cordoned", nodes.cordon, of(10, 5, 0, 5, 0)),
        ("uncordoned", nodes.uncordon, whole),
        ("not Ready", nodes.fail, of(10, 5, 0, 5, 0)),
        ("Ready", nodes.recover, whole),
        ("the device plugin fell over", lambda: nodes.offer(0), of(10, 5, 0, 5, 0)),
        ("in part", lambda: nodes.offer(3), of(10, 8, 0, 2, 0)),
        ("the kubelet restarts", lambda: nodes.offer(0, 0), of(5, 5, 5, 5, 0)),
        ("GPUs are added", lambda: nodes.offer(8, 8), of(13, 13, 0, 0, 3)),
        ("deleted", nodes.delete, of(5, 5, 5, 5, 0)),
        ("back", nodes.create, whole),
    ]
    strategies = ("StrictFIFO", "BestEffortFIFO")
    for turn, (what, act, expected) in enumerate(steps):
        act()
        until(what, lambda expected=expected: numbers(floorkeeper, team.namespace) == expected, 15)  # type: ignore[misc]
        edited = team.cluster(
            "patch", "clusterqueue", f"{team.namespace}-model-a", "--type=merge",
            "-p", json.dumps({"spec": {"queueingStrategy": strategies[turn % 2]}}),
        )  # fmt: skip
        assert (edited.stdout.count("patched"), edited.stderr) == (1, ""), what
        created = team.cluster.create(team.deployment("model-a", 1, "model-a-lq"), "--dry-run=server")
        assert "created" in created.stdout, what


def events(cluster: Cluster, name: str) -> list[tuple[str, str, str]]:
    """Type, reason and note of what was said of a queue, the oldest first; of a note, what is before the date."""
    found = [
        value
        for value in cluster.items("events.events.k8s.io", "-n", "default")
        if value["regarding"].get("name") == name and value["reportingController"] == "floorkeeper.io/floorkeeper"
    ]
    return [
        (value["type"], value["reason"], value["note"].rpartition("; since 20")[0])
        for value in sorted(found, key=lambda value: str(value["eventTime"]))
    ]


@contextmanager
def second(first: Floorkeeper, directory: Path) -> Iterator[Floorkeeper]:
    """Another replica, with the files of this directory."""
    server = Floorkeeper(first.cluster, directory, *free_endpoint(), objects=first.objects)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def quick(floorkeeper: Floorkeeper) -> Iterator[Floorkeeper]:
    """The server under a policy with a short grace."""
    with floorkeeper.policy_replaced(f"{POLICY.read_text()}capacity: {{graceSeconds: {GRACE}}}\n"):
        yield floorkeeper


def test_each_queue_is_told_once(team: Team, nodes: Nodes, quick: Floorkeeper) -> None:
    name = team.namespace
    queues = [f"{name}-model-a", f"{name}-model-b"]
    arithmetic = (
        f"floors of {GPU} in flavor {name}: "
        f'ClusterQueue "{name}-model-a" 5 + ClusterQueue "{name}-model-b" 5 = 10; {{}}: 5 on 1 node; fix: {{}}'
    )
    fix = "else admitted pods stay unscheduled"
    away = "capacity is away, 5 more guaranteed than usable: " + arithmetic.format("usable", f"bring nodes back, {fix}")
    exceed = "5 more guaranteed than there is hardware: " + arithmetic.format(
        "hardware", f"add nodes or lower floors, {fix}"
    )
    told: list[tuple[str, str, str]] = []

    def all_told() -> bool:
        return [events(team.cluster, queue) for queue in queues] == [told, told]

    with second(quick, quick.directory):
        nodes.cordon()
        until("it is known", lambda: numbers(quick, name)["usable"] == 5, 10)
        nodes.uncordon()
        stays("a short dip raises nothing", all_told, GRACE + 3)

        nodes.cordon()
        told.append(("Warning", "CapacityAway", away))
        until("each queue is told", all_told, GRACE + 10)
        # A restart lists everything anew, and finds a state that has been told.
        quick.stop()
        quick.start()
        stays("nobody is told again", all_told, GRACE + 4)

        nodes.uncordon()
        fit = f"floors of {GPU} in flavor {name} fit again: 10 guaranteed, 10 usable"
        told.append(("Normal", "FloorsFit", fit))
        until("the end is told", all_told, GRACE + 10)

        nodes.cordon()
        told.append(("Warning", "CapacityAway", away))
        until("the same a while later is told again", all_told, GRACE + 10)

        nodes.delete()
        told.append(("Warning", "FloorsExceedHardware", exceed))
        until("that the hardware is gone is told", all_told, GRACE + 10)
        stays("once, by two replicas", all_told, GRACE + 1)
    problems = [line for line in quick.log() if line["logger"] == "floorkeeper.events"]
    assert problems == []
    described = team.cluster("describe", "clusterqueue", queues[0]).stdout
    assert all(reason in described for reason in ("CapacityAway", "FloorsFit", "FloorsExceedHardware"))
    (stored, *_) = (
        value
        for value in team.cluster.items("events.events.k8s.io", "-n", "default")
        if value["regarding"].get("name") == queues[0]
    )
    assert stored["regarding"]["uid"] == team.cluster.get("clusterqueue", queues[0])["metadata"]["uid"]


def pod(team: Team, name: str, gpus: int) -> Object:
    resources = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": team.namespace},
        "spec": {
            "nodeSelector": {TEAM_LABEL: team.namespace},
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/x", "resources": resources}],
        },
    }


def job(team: Team, name: str, gpus: int) -> Object:
    """In a queue by its own label, which its pods do not have."""
    template = pod(team, name, gpus)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": team.namespace, "labels": {QUEUE_LABEL: "model-a-lq"}},
        "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]}},
    }


def test_what_pods_outside_of_kueue_hold_is_not_usable(team: Team, floorkeeper: Floorkeeper, tmp_path: Path) -> None:
    shutil.copy(floorkeeper.directory / "kubeconfig", tmp_path / "kubeconfig")
    (tmp_path / "policy.yaml").write_text(f"{POLICY.read_text()}capacity: {{discountUnqueued: true}}\n")

    def usable(gpus: int) -> Callable[[], bool]:
        return lambda: numbers(server, team.namespace)["usable"] == gpus

    with second(floorkeeper, tmp_path) as server:
        until("nothing is held", usable(10), 15)
        team.cluster.apply(pod(team, "bare", 2))
        until("a bare pod holds two", usable(8), 15)
        team.cluster.apply(job(team, "queued", 3))
        until("the Job's pod is there", lambda: [each["spec"].get("nodeName") for each in team.pods("queued")])
        (queued,) = team.pods("queued")
        assert QUEUE_LABEL not in queued["metadata"]["labels"]
        stays("it is Kueue's", usable(8), 2)
        team.kubectl("delete", "pod", "bare")
        until("nothing is held", usable(10), 15)
        assert numbers(server, team.namespace)["hardware"] == 10
