"""Least privilege of a server that audits: each right of the component is missed when it is not there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.api import Api as Writes
from tests.cluster.controlplane import Cluster, until
from tests.cluster.rights import NAMESPACE, Account, Grant, accounts, grants, roles_of
from tests.cluster.server import ROOT, Floorkeeper
from tests.cluster.team import Team
from webhook.engine.policy import Policy
from webhook.live.api import Api, ApiError
from webhook.live.audit.policy_report import API_VERSION, LABELS
from webhook.live.audit.publication import publish
from webhook.live.audit.run import Asked, audit

Object = dict[str, Any]
REPORTS = f"/apis/{API_VERSION}"
STALE: Object = {
    "apiVersion": API_VERSION,
    "kind": "PolicyReport",
    "metadata": {"name": "floorkeeper", "namespace": NAMESPACE, "labels": LABELS},
}
"""Of a namespace that nobody manages."""


def rights(file: str) -> list[Object]:
    return roles_of(yaml.safe_load_all((ROOT / "manifests" / file).read_text()))


def without_reports(api: Writes, stale: bool) -> None:
    """As before the first audit, or after one of another policy."""
    for place in api.client.get(f"{REPORTS}/policyreports").json()["items"]:
        own = place["metadata"]
        api.client.delete(f"{REPORTS}/namespaces/{own['namespace']}/policyreports/{own['name']}")
    api.client.delete(f"{REPORTS}/clusterpolicyreports/floorkeeper")
    if stale:
        answer = api.post(f"{REPORTS}/namespaces/{NAMESPACE}/policyreports", STALE)
        assert answer.stored, answer


def missed(account: Account) -> str:
    """What an audit cannot look at, and what cannot be written."""
    with Api.opened(account.kubeconfig) as api:
        found = audit(api, Asked(Policy()))
        reasons = [entry.reason for entry in found.not_evaluated]
        try:
            reasons += publish(api, found).failures
        except ApiError as error:
            reasons.append(str(error))
    return "\n".join(reason for reason in reasons if "not allowed" in reason)


def names(text: str, grant: Grant) -> bool:
    resource = re.escape(f"{grant.resource}.{grant.group}" if grant.group else grant.resource)
    return re.search(rf"not allowed to (\w+ or )?{grant.verb}( or \w+)? {resource}\b", text) is not None


@pytest.fixture
def gated(team: Team) -> None:
    """A pod whose Workload says why it waits."""
    team.manage()
    assert team.api.create(team.deployment("lost", queue="no-such-lq", maxSurge=0, maxUnavailable=1)).stored
    until("its pod waits", lambda: any(pod["spec"].get("schedulingGates") for pod in team.pods("lost")))


def test_each_right_is_missed(
    cluster: Cluster, api: Writes, floorkeeper: Floorkeeper, gated: None, tmp_path: Path
) -> None:
    of_audits = rights("components/audit/rbac.yaml")
    roles = [*rights("base/rbac.yaml"), *of_audits]
    with accounts(cluster, api, roles, tmp_path, grants(of_audits)) as (whole, *lacking):
        without_reports(api, stale=True)
        assert missed(whole) == ""
        assert api.client.get(f"{REPORTS}/namespaces/{NAMESPACE}/policyreports").json()["items"] == []
        told: dict[Grant, str] = {}
        for account in lacking:
            assert account.lacks is not None
            without_reports(api, stale=account.lacks.verb == "delete")
            told[account.lacks] = missed(account)
    without_reports(api, stale=False)
    assert {grant: text for grant, text in told.items() if not names(text, grant)} == {}
    assert sorted(map(str, told)) == sorted(map(str, grants(of_audits)))
