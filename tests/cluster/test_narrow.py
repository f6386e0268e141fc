"""What the webhook is never asked, and what goes on while it is down."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import yaml

from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import Floorkeeper
from tests.cluster.team import Object, Team, cluster_queue
from webhook.kube.names import MANAGED_LABEL


def moved(team: Team, value: Object, namespace: str) -> Object:
    value = copy.deepcopy(value)
    value["metadata"]["namespace"] = namespace
    return value


def quota(team: Team, name: str, **hard: str) -> Object:
    metadata = {"name": name, "namespace": team.namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def test_unmanaged_namespaces_and_other_kinds_are_never_sent(team: Team, floorkeeper: Floorkeeper) -> None:
    calls = floorkeeper.calls()
    team.cluster.apply(team.deployment("model-a", 2), quota(team, "pods", pods="100"), team.local_queue("default-not"))
    until("the model serves", lambda: team.ready("model-a") == 2)
    team.kubectl("delete", "deployment", "model-a")
    assert floorkeeper.calls() == calls

    team.manage()
    # Becoming managed is the one thing that is asked about a Namespace.
    until("the namespace is judged", lambda: floorkeeper.calls() == calls + 1, 10)
    team.cluster.apply(
        team.gateway(),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": team.namespace}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "x", "namespace": team.namespace},
            "spec": {"ports": [{"port": 80}]},
        },
    )
    until("the gateway serves", lambda: team.ready("gateway") == 1)
    team.kubectl("scale", "deployment", "gateway", "--replicas=2")
    until("and scales", lambda: team.ready("gateway") == 2)
    team.kubectl("label", "deployment", "gateway", "team=x")
    team.kubectl("delete", "deployment", "gateway")
    assert floorkeeper.calls() == calls + 1


@pytest.fixture
def down(team: Team, floorkeeper: Floorkeeper) -> Iterator[Team]:
    """A managed team with models that run, and a webhook that is dead."""
    team.manage()
    team.cluster.apply(team.deployment("model-a", 2), team.deployment("model-b", 2), team.gateway())
    until("both serve", lambda: team.ready("model-a") == 2 and team.ready("model-b") == 2)
    floorkeeper.stop()
    yield team
    floorkeeper.start()


def test_while_it_is_down(down: Team, cluster: Cluster) -> None:
    team = down
    refused = 'failed calling webhook "{}.floorkeeper.io"'
    result = cluster.apply(team.deployment("model-c", queue="model-a-lq"), check=False)
    assert refused.format("workloads.mutate") in result.stderr
    result = cluster.apply(quota(team, "pods", pods="100"), check=False)
    assert refused.format("resourcequotas.validate") in result.stderr
    queue = f"{team.namespace}-model-a"
    raised = cluster_queue(queue, team.namespace, team.namespace, 6)
    assert refused.format("floors.validate") in cluster.apply(raised, check=False).stderr
    cluster("label", "clusterqueue", queue, "note=x")

    team.kubectl("scale", "deployment", "model-a", "--replicas=5")
    until("new replicas are made, ungated and scheduled", lambda: team.ready("model-a") == 5)
    team.kubectl("scale", "deployment", "model-a", "--replicas=1")
    team.kubectl("scale", "deployment", "model-a", "--replicas=0")
    until("scaled to the last pod", lambda: team.pods("model-a") == [])
    (pod, _) = team.pods("model-b")
    team.kubectl("delete", "pod", pod["metadata"]["name"])
    until("a deleted replica is replaced", lambda: team.ready("model-b") == 2)
    team.kubectl("delete", "deployment", "model-b", "--cascade=foreground", "--timeout=30s")
    cluster.apply(
        team.local_queue("default-not"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": team.namespace}},
    )
    team.kubectl("scale", "deployment", "gateway", "--replicas=2")
    team.kubectl("annotate", "deployment", "gateway", "note=x")
    cluster("annotate", "namespace", team.namespace, "note=x")

    for namespace in ("kube-system", "kueue-system", "floorkeeper-system"):
        cluster("label", "namespace", namespace, f"{MANAGED_LABEL}=true", "--overwrite")
        value = moved(team, team.deployment("gpu-agent"), namespace)
        try:
            cluster.apply(value)
        finally:
            cluster("label", "namespace", namespace, f"{MANAGED_LABEL}-")
            cluster("delete", "-f", "-", "--ignore-not-found", input=yaml.safe_dump(value))

    nodes = cluster.items("nodes")
    cluster("annotate", "node", nodes[0]["metadata"]["name"], "note=x", "--overwrite")
    # Kueue lets go of a queue by an UPDATE, once its Workloads are gone.
    team.kubectl("delete", "localqueue", "model-a-lq", "--timeout=60s")
    cluster("delete", "clusterqueue", queue, "--timeout=60s")
    cluster("delete", "namespace", team.namespace, "--timeout=60s")


def test_the_account_has_no_right_that_it_does_not_need(cluster: Cluster, floorkeeper: Floorkeeper) -> None:
    """The server runs with exactly this account, so what it needs it has."""
    account = "--as=system:serviceaccount:floorkeeper-system:floorkeeper"
    for right in (
        "get secrets",
        "list secrets",
        "list configmaps",
        "get configmaps",
        "create configmaps",
        "update configmaps",
        "create pods",
        "get pods",
        "get pods/log",
        "patch deployments.apps",
        "update namespaces",
        "delete localqueues.kueue.x-k8s.io",
        "update clusterqueues.kueue.x-k8s.io",
        "get nodes",
        "patch nodes",
        "create events",
        "create events.events.k8s.io",
        "update mutatingwebhookconfigurations",
        "impersonate users",
    ):
        result = cluster("auth", "can-i", *right.split(), "--all-namespaces", account, check=False)
        assert result.stdout.strip() == "no", right
    for right in (
        "list localqueues.kueue.x-k8s.io --all-namespaces",
        "list nodes",
        "create events.events.k8s.io -n default",
        "create configmaps -n floorkeeper-system",
        "update configmaps/floorkeeper-reservations -n floorkeeper-system",
    ):
        assert cluster("auth", "can-i", *right.split(), account).stdout.strip() == "yes", right
    elsewhere = cluster("auth", "can-i", "update", "configmaps/other", "-n", "floorkeeper-system", account, check=False)
    assert elsewhere.stdout.strip() == "no"
