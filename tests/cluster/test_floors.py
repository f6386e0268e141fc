"""Floors on the real control plane: what Kueue lets in, what Floorkeeper does not, and the guide's own files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import Floorkeeper, _wait_until_called
from tests.cluster.team import GPU, Team, cluster_queue

Object = dict[str, Any]


@contextmanager
def without(floorkeeper: Floorkeeper) -> Iterator[None]:
    """A cluster on which nobody asks Floorkeeper."""
    cluster = floorkeeper.cluster
    kinds = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")
    registrations = [value for value in floorkeeper.objects if value["kind"].lower() in kinds]
    for kind in kinds:
        cluster("delete", kind, "floorkeeper")
    try:
        yield
    finally:
        cluster.apply(*registrations)
        _wait_until_called(cluster, floorkeeper)


def queue(team: Team, model: str, floor: Any, **changes: Any) -> Object:
    value = cluster_queue(f"{team.namespace}-{model}", team.namespace, team.namespace, floor)
    value["spec"].update(changes)
    return value


def unscheduled(team: Team) -> list[str]:
    """Pods past Kueue's gate that no node holds."""
    return [
        pod["metadata"]["name"]
        for pod in team.cluster.items("pods", "-n", team.namespace)
        if not pod["spec"].get("schedulingGates") and not pod["spec"].get("nodeName")
    ]


def test_kueue_alone_admits_what_no_node_holds(team: Team, floorkeeper: Floorkeeper) -> None:
    with without(floorkeeper):
        team.set_floors(6, 6)
        for model in ("model-a", "model-b"):
            team.cluster.apply(team.deployment(model, 6, f"{model}-lq", maxSurge=0, maxUnavailable=1))
        until("ten replicas run", lambda: team.ready("model-a") + team.ready("model-b") == 10)
        stuck = until("two are admitted for nothing", lambda: found if len(found := unscheduled(team)) == 2 else [])
        events = until(
            "the scheduler says so",
            lambda: team.cluster.items("events", "-n", team.namespace, "--field-selector", "reason=FailedScheduling"),
        )
        assert {event["involvedObject"]["name"] for event in events} & set(stuck)
        team.set_floors(5, 5)


def test_the_second_queue_is_denied_with_the_arithmetic(team: Team, floorkeeper: Floorkeeper) -> None:
    name, flavor = team.namespace, team.namespace
    third = cluster_queue(f"{name}-model-c", flavor, name, 1)
    answer = team.cluster.create(third, check=False)
    assert answer.returncode == 1
    assert answer.stderr.strip().endswith(
        'admission webhook "floors.validate.floorkeeper.io" denied the request: '
        f'ClusterQueue "{name}-model-c": spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: must keep the '
        f"floors within the hardware, is 1: floors of {GPU} in flavor {flavor}: "
        f'ClusterQueue "{name}-model-a" 5 + ClusterQueue "{name}-model-b" 5 + ClusterQueue "{name}-model-c" 1 = 11; '
        "hardware: 10 on 2 nodes; fix: lower it to 0, or first lower other floors by 1 in all, such as "
        f'ClusterQueue "{name}-model-b" to 4, then repeat this write; for nodes yet to come, declare the flavor\'s '
        "total, 11, in the policy (capacity.declared) [floors-exceed-capacity]"
    )


def test_raising_before_lowering_is_denied_with_the_order_that_works(team: Team, floorkeeper: Floorkeeper) -> None:
    name = team.namespace
    answer = team.cluster.apply(queue(team, "model-a", 7), check=False)
    assert answer.returncode == 1
    assert f'first lower ClusterQueue "{name}-model-b" to 3, then repeat this write' in answer.stderr
    # One right after the other: what the first wrote may not have come by a watch yet.
    for model, floor in (("model-b", 3), ("model-a", 7)):
        team.cluster.apply(queue(team, model, floor))
    floors = [
        team.cluster.get("clusterqueue", f"{name}-{model}")["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
        for model in ("model-a", "model-b")
    ]
    assert [str(entry["nominalQuota"]) for entry in floors] == ["7", "3"]


def test_cohort_quota_adds_to_its_members(team: Team, floorkeeper: Floorkeeper) -> None:
    """Kueue admits up to the sum, so the sum is what must fit."""
    name = team.namespace
    groups = queue(team, "model-a", 2)["spec"]["resourceGroups"]
    cohort = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": name},
        "spec": {"resourceGroups": groups},
    }
    try:
        answer = team.cluster.create(cohort, check=False)
        assert f'Cohort "{name}" 2 = 12; hardware: 10 on 2 nodes' in answer.stderr
        team.set_floors(2, 2)
        groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = 6
        team.cluster.create(cohort)
        team.cluster.apply(team.deployment("model-a", 10, "model-a-lq", maxSurge=0, maxUnavailable=1))
        until("all ten are admitted, eight of them borrowed", lambda: team.ready("model-a") == 10)
    finally:
        team.cluster("delete", "cohort", name, "--ignore-not-found", "--wait=false")


@pytest.fixture
def guide(cluster: Cluster, floorkeeper: Floorkeeper, tmp_path: Path) -> Iterator[Path]:
    """The guide's budget as a kustomization, in its order: ClusterQueues, LocalQueues, then the empty flavor."""
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "guide", "labels": {"floorkeeper.io/managed": "true"}},
        }
    )
    models = ("model-a", "model-b")
    files: dict[str, list[Object]] = {
        "clusterqueues.yaml": [
            cluster_queue(f"guide-{model}-cq", "guide-gpu-default", "guide-gpu", 5) for model in models
        ],
        "localqueues.yaml": [
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "LocalQueue",
                "metadata": {"name": f"{model}-lq"},
                "spec": {"clusterQueue": f"guide-{model}-cq"},
            }
            for model in models
        ],
        "resourceflavor.yaml": [
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ResourceFlavor",
                "metadata": {"name": "guide-gpu-default"},
            }
        ],
    }
    for name, objects in files.items():
        (tmp_path / name).write_text(yaml.safe_dump_all(objects))
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"namespace": "guide", "resources": list(files)}))
    yield tmp_path
    cluster("delete", "deployments", "--all", "-n", "guide", "--ignore-not-found")
    cluster("delete", "-k", str(tmp_path), "--ignore-not-found", "--wait=false")
    cluster("delete", "namespace", "guide", "--wait=false")


def test_the_guides_own_files_go_in_and_out_in_one_run(cluster: Cluster, guide: Path) -> None:
    team = Team(cluster, "guide")
    applied = cluster("apply", "-k", str(guide))
    assert applied.stdout.count(" created") == 5
    assert "denied" not in applied.stderr
    cluster.apply(
        *(team.deployment(model, 2, f"{model}-lq", maxSurge=0, maxUnavailable=1) for model in ("model-a", "model-b"))
    )
    until("the models serve", lambda: team.ready("model-a") + team.ready("model-b") == 4)

    refused = cluster("delete", "-k", str(guide), "--wait=false", check=False)
    assert refused.stderr.count("[queue-in-use]") == 4, refused.stderr
    assert len(cluster.items("clusterqueues")) >= 2

    cluster("annotate", "namespace", "guide", "floorkeeper.io/mode=warn")
    for model in ("model-a", "model-b"):
        opt_out(team, model)
        cluster("rollout", "status", f"deployment/{model}", "-n", "guide", "--timeout=60s", timeout=90)
    cluster("delete", "-k", str(guide), "--ignore-not-found=true", timeout=120)
    assert cluster.get("clusterqueue", "guide-model-a-cq") is None
    assert cluster.get("resourceflavor", "guide-gpu-default") is None


def opt_out(team: Team, model: str) -> None:
    """The guide's patch. Until the namespace is known to be held at warn, Floorkeeper puts the label back."""
    patch = '{"spec": {"template": {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": null}}}}}'

    def is_out() -> bool:
        team.kubectl("patch", "deployment", model, "--type=merge", "-p", patch)
        return (
            "kueue.x-k8s.io/queue-name" not in team.get("deployment", model)["spec"]["template"]["metadata"]["labels"]
        )

    until("the label goes and stays away", is_out)
