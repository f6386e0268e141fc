"""`floorkeeper serve --audit-every` on the real control plane, with the rights that are shipped for it and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.api import Api
from tests.cluster.auditing import AuditingServer, allowed_to_audit, auditing
from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import Floorkeeper
from tests.cluster.team import Team
from webhook.live.audit.policy_report import API_VERSION

Object = dict[str, Any]
OVERDUE = 60


@pytest.fixture(scope="module")
def server(
    cluster: Cluster, floorkeeper: Floorkeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AuditingServer]:
    folder = tmp_path_factory.mktemp("audits")
    with allowed_to_audit(cluster, "floorkeeper-audits") as kubeconfig, auditing(folder, kubeconfig, "1s") as server:
        yield server


def report(api: Api, namespace: str) -> Object | None:
    path = f"/apis/{API_VERSION}/namespaces/{namespace}/policyreports/floorkeeper"
    answer = api.client.get(path)
    return answer.json() if answer.status_code == 200 else None


def reported(api: Api, namespace: str) -> set[tuple[str, str]]:
    """Rule and result."""
    found = report(api, namespace)
    return {(each["rule"], each["result"]) for each in found["results"]} if found is not None else {("absent", "")}


def test_mistakes_come_and_go(team: Team, cluster: Cluster, api: Api, server: AuditingServer) -> None:
    """They were made before the namespace was managed."""
    surging = team.deployment("surging", queue="model-a-lq")
    quota: Object = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": team.namespace},
        "spec": {"hard": {"requests.nvidia.com/gpu": "100"}},
    }
    for value in (surging, quota):
        assert team.api.create(value).stored
    until("the first audit is done", lambda: server.logged("audited"), OVERDUE)
    before = server.metrics()
    assert reported(api, team.namespace) == {("absent", "")}

    team.manage()
    wrong = {("surge-without-quota", "fail"), ("gpu-resource-quota", "fail")}
    until("they are reported", lambda: reported(api, team.namespace) == wrong, OVERDUE)
    until("they are on the page", lambda: on_page(server, team) == {"surge-without-quota", "gpu-resource-quota"}, 10)
    for rule in ("surge-without-quota", "gpu-resource-quota"):
        name = f"findings {rule}"
        assert server.metrics()[name] == before.get(name, 0) + 1
    assert server.metrics()["interval_seconds"] == 1.0

    # Nothing is kept from it: every kind can be read, and the certificate is known to be trusted.
    assert server.logged("audited")[-1]["notEvaluated"] == []
    assert server.logged("policy reports not written") == []

    # Nothing is written while nothing changes.
    version = (report(api, team.namespace) or {})["metadata"]["resourceVersion"]
    seen = len(server.logged("audited"))
    until("two more are done", lambda: len(server.logged("audited")) >= seen + 2, OVERDUE)
    assert (report(api, team.namespace) or {})["metadata"]["resourceVersion"] == version

    assert team.api.delete(quota).code == 200
    patch = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}
    team.cluster("patch", "deployment", "surging", "-n", team.namespace, "-p", json.dumps(patch))
    until("nothing is reported", lambda: reported(api, team.namespace) == set(), OVERDUE)
    until("nothing is on the page", lambda: on_page(server, team) == set(), 10)
    after = server.metrics()
    assert after.get("findings gpu-resource-quota", 0) == before.get("findings gpu-resource-quota", 0)
    assert [line["notEvaluated"] for line in server.logged("audited") if line["notEvaluated"]] == []
    assert (after["failures_total"], after["unpublished_total"]) == (0, 0), server.logged("audit failed")

    team.cluster("label", "namespace", team.namespace, "floorkeeper.io/managed-")
    until("the report is gone", lambda: report(api, team.namespace) is None, OVERDUE)


def on_page(server: AuditingServer, team: Team) -> set[str]:
    """The rules that something in the team's namespace violates."""
    found = server.violations()["rules"]
    return {rule["rule"] for rule in found for each in rule["findings"] if each["namespace"] == team.namespace}
