"""`--live`: facts of the cluster that the current kubeconfig leads to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api_server import KUEUE, ApiServer
from tests.checking import GPU, QUOTAS, autoscaler, checked, cluster_queue, deployment, node, said, unjudged
from webhook.check.result import Fault, Result
from webhook.check.state import COMMAND_LINE

COUNTING = ("replica-over-budget", "uncovered-resource")
CLUSTER = (*QUOTAS, node(), deployment("x", "a-lq"))


def live(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *objects: Any, **options: Any) -> Result:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    return checked(*objects, live=True, **options)


def test_state_is_the_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ApiServer().running() as api:
        for value in CLUSTER:
            api.put(value)
        result = live(api, tmp_path, monkeypatch, deployment("z", "a-lq"), cluster_queue("b", 6), autoscaler("x", 12))
        # Cohorts, LimitRanges … are known to be absent, and so is what is not installed.
        assert (said(result), unjudged(result), result.errors) == (
            [
                "warn shared-local-queue Deployment z",
                "deny floors-exceed-capacity ClusterQueue b",
                "warn replicas-over-ceiling HorizontalPodAutoscaler x",
            ],
            [f"{rule}: ConfigMap: kueue-manager-config not found (1)" for rule in COUNTING],
            (),
        )
        assert {request.verb for request in api.requests} == {"list", "discover"}


def test_the_input_overrides_the_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ApiServer().running() as api:
        for value in CLUSTER:
            api.put(value)
        assert said(live(api, tmp_path, monkeypatch, cluster_queue("a", 3), cluster_queue("b", 7))) == []


def test_what_may_not_be_listed_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ApiServer().running() as api:
        for value in CLUSTER:
            api.put(value)
        api.faults["list", "nodes"].append(lambda to: to.status(403, "Forbidden", "nodes is forbidden"))
        result = live(api, tmp_path, monkeypatch, cluster_queue("b"))
        assert unjudged(result) == [
            f"{rule}: Node: cannot be listed: 403 nodes is forbidden (1)"
            for rule in ("floors-below-capacity", "floors-exceed-capacity", "malformed-quota")
        ]


def test_without_kueue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ApiServer().running() as api:
        api.served[KUEUE] = ()
        api.put(QUOTAS[0])
        result = live(api, tmp_path, monkeypatch, deployment("x", "a-lq"))
        assert "unknown-queue: LocalQueue: cannot be listed: 404 Kueue is not installed (1)" in unjudged(result)


@pytest.mark.parametrize("resource", ["namespaces"])
def test_without_namespaces_nothing_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resource: str) -> None:
    with ApiServer().running() as api:
        api.faults["list", resource].append(lambda to: to.status(403, "Forbidden", "no"))
        result = live(api, tmp_path, monkeypatch, deployment("x", "a-lq"))
    text = "Namespace cannot be listed: 403 no; without it nothing can be judged"
    assert result == Result(errors=(Fault(COMMAND_LINE, f"--live: {text}"),), objects=1)


def test_a_cluster_that_does_not_know_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ApiServer().running() as api:
        api.faults["list", "configmaps"] += [lambda to: to.status(401, "Unauthorized", "who?")] * 3
        result = live(api, tmp_path, monkeypatch, deployment("x", "a-lq"))
    (fault,) = result.errors
    assert fault.message == f"--live: the cluster of {tmp_path / 'kubeconfig'} cannot be read: 401 who?"


def test_a_cluster_that_is_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ApiServer().running() as api:
        path = api.kubeconfig(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(path))
    (fault,) = checked(deployment("x"), live=True).errors
    assert fault.message.startswith(f"--live: the cluster of {path} cannot be read: ")
    assert "refused" in fault.message


def test_without_a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    text = "there is no kubeconfig; set KUBECONFIG, or leave --live out and give --state"
    assert checked(deployment("x"), live=True).errors == (Fault(COMMAND_LINE, f"--live: {text}"),)


def test_pods_outside_of_queues_are_asked_for_where_they_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy.yaml"
    head = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
    policy.write_text(f"{head}capacity: {{discountUnqueued: true}}\n")
    spec = {"nodeName": "n1", "containers": [{"name": "m", "resources": {"limits": {GPU: "2"}}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "kube-system"}, "spec": spec}
    with ApiServer().running() as api:
        for value in (*CLUSTER, pod):
            api.put(value)
        assert said(live(api, tmp_path, monkeypatch, cluster_queue("b"))) == []
        assert len(api.asked("list", "pods")) == 1
        found = live(api, tmp_path, monkeypatch, cluster_queue("b"), policy=str(policy))
        assert said(found) == ["warn floors-exceed-capacity ClusterQueue b"]
        assert len(api.asked("list", "pods")) == 3
