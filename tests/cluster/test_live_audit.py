"""`floorkeeper audit` of the real control plane: every mistake is found, and nothing else."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from tests.cluster.api import Api as Writes
from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import POLICY, Floorkeeper
from tests.cluster.team import GPU, Team, cluster_queue
from tests.live.audit_world import Authority
from webhook.kube.names import POD_SET_LABEL, QUEUE_LABEL
from webhook.live.api import Api
from webhook.live.audit.policy_report import API_VERSION, policy_reports
from webhook.live.audit.report import Audit
from webhook.live.audit.run import Asked, audit
from webhook.policy import read_policy

Object = dict[str, Any]
_GENERATED = re.compile(r"-[0-9a-f]{8,10}-[0-9a-z]{5}$")


def look(cluster: Cluster, *namespaces: str) -> Audit:
    with Api.opened(cluster.kubeconfig) as api:
        return audit(api, Asked(read_policy(POLICY), namespaces))


def said(found: Audit) -> list[str]:
    """Each finding in short, with the names of the Deployments that pods are of."""
    names = [sorted({_GENERATED.sub("", about.name) for about in each.objects}) for each in found.findings]
    return [
        f"{each.severity} {each.rule} {each.objects[0].kind} {','.join(of)}"
        for each, of in zip(found.findings, names, strict=True)
    ]


def test_a_namespace_of_a_team_that_does_it_right(team: Team, floorkeeper: Floorkeeper, cluster: Cluster) -> None:
    team.manage()
    for name in ("model-a", "model-b"):
        # Whole, since the API server may not know yet that the namespace is managed.
        assert team.api.create(team.deployment(name, 2, f"{name}-lq", maxSurge=0, maxUnavailable=1)).stored
        until(f"{name} is ready", partial(ready, team, name, 2))
    assert team.api.create(team.gateway()).stored
    found = look(cluster, team.namespace)
    assert (said(found), found.not_evaluated, found.exit_code()) == ([], (), 0)


def ready(team: Team, name: str, replicas: int) -> bool:
    return team.ready(name) == replicas


def mistakes(team: Team) -> Iterator[Object]:
    """One object for each."""
    kept: Any = {"maxSurge": 0, "maxUnavailable": 1}
    yield team.deployment("no-label", **kept)
    yield team.deployment("surge-1", queue="model-a-lq")
    yield team.deployment("surge-2", queue="model-a-lq")
    limits = team.deployment("limits-only", queue="model-b-lq", **kept)
    limits["spec"]["template"]["spec"]["containers"][0]["resources"].pop("requests")
    yield limits
    selecting = team.deployment("selecting", queue="model-b-lq", **kept)
    selecting["spec"]["selector"]["matchLabels"][QUEUE_LABEL] = "model-b-lq"
    yield selecting
    hidden = team.gateway("hidden")
    hidden["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    yield hidden
    brief = team.deployment("brief", queue="model-a-lq", **kept)
    brief["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    yield brief
    yield team.deployment("lost", queue="no-such-lq", **kept)
    greedy = team.deployment("greedy", queue="model-b-lq", **kept)
    sixteen = {"requests": {GPU: "16"}, "limits": {GPU: "16"}}
    greedy["spec"]["template"]["spec"]["containers"][0]["resources"] = sixteen
    yield greedy
    for name, key in (("gpus", f"requests.{GPU}"), ("pods", "pods")):
        yield {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": name, "namespace": team.namespace},
            "spec": {"hard": {key: "100"}},
        }
    yield {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "surge-1", "namespace": team.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "surge-1"},
            "maxReplicas": 50,
        },
    }
    nowhere = team.local_queue("nowhere-lq")
    nowhere["spec"]["clusterQueue"] = f"{team.namespace}-missing"
    yield nowhere


def copied(team: Team) -> Object:
    """A pod with the label that Kueue puts on those of a Job, on a node that has no room for it."""
    template = team.deployment("copied")["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "copied", "namespace": team.namespace, "labels": {POD_SET_LABEL: "main"}},
        "spec": {**template["spec"], "nodeName": f"{team.namespace}-1"},
    }


def test_a_namespace_full_of_mistakes(team: Team, floorkeeper: Floorkeeper, cluster: Cluster) -> None:
    """They were made before the namespace was managed, and a node has gone since."""
    assert (
        team.api.delete({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{team.namespace}-2"}}).code == 200
    )
    for value in mistakes(team):
        answer = team.api.create(value)
        assert answer.stored, answer
    runs = ("no-label", "surge-1", "surge-2", "limits-only", "hidden")
    for name in runs:
        until(f"{name} is ready", partial(ready, team, name, 1))
    for name in ("lost", "greedy"):
        until(f"{name} waits, and Kueue says why", partial(says_why, team, name))
    assert team.api.create(copied(team)).stored
    until("a copied pod runs", lambda: team.get("pod", "copied")["status"].get("phase") == "Running")
    team.manage()
    found = look(cluster, team.namespace)
    queue = team.namespace
    assert said(found) == [
        "warn setup/gated-pods Pod greedy",
        "warn setup/gated-pods Pod lost",
        "warn setup/local-queue-nowhere LocalQueue nowhere-lq",
        "warn setup/uncounted-pods Deployment no-label",
        "warn setup/uncounted-pods Pod copied",
        f"deny floors-exceed-capacity ClusterQueue {queue}-model-b",
        "deny gpu-resource-quota ResourceQuota gpus",
        "deny hidden-gpu-use Deployment hidden",
        "deny implicit-gpu-request Deployment limits-only",
        "deny missing-queue-name Deployment no-label",
        "deny missing-queue-name Pod copied",
        "deny queue-name-in-selector Deployment selecting",
        "deny replica-over-budget Deployment greedy",
        "deny surge-without-quota Deployment surge-1,surge-2",
        "warn gated-pods-over-quota ResourceQuota pods",
        "warn replicas-over-ceiling HorizontalPodAutoscaler surge-1",
        "warn shared-local-queue Deployment selecting",
        "warn shared-local-queue Deployment surge-2",
        "warn short-grace-period Deployment brief",
        "warn unknown-queue Deployment lost",
    ]
    gated = [each.what for each in found.findings if each.rule == "setup/gated-pods"]
    assert "nvidia.com/gpu" in gated[0]
    assert gated[1] == "spec.schedulingGates: must be admitted, is gated: LocalQueue no-such-lq doesn't exist"
    assert (found.not_evaluated, found.exempted, found.exit_code()) == ((), (), 1)
    reports_are_stored(team.api, found)


def says_why(team: Team, name: str) -> bool:
    """Whether the Workload of its pod has a reason."""
    pods = {pod["metadata"]["name"] for pod in team.pods(name)}
    return any(
        condition["type"] == "QuotaReserved" and condition["message"]
        for workload in team.workloads()
        if any(owner["name"] in pods for owner in workload["metadata"]["ownerReferences"])
        for condition in workload.get("status", {}).get("conditions", [])
    )


# PolicyReports


def reports_are_stored(api: Writes, found: Audit) -> None:
    """As they are, by the API that they are written for."""
    for report in policy_reports(found):
        assert report["apiVersion"] == API_VERSION
        own, home = report["metadata"], report["metadata"].get("namespace")
        within = f"/namespaces/{home}/policyreports" if home else "/clusterpolicyreports"
        # That of the cluster may be there from a server that audited.
        api.client.delete(f"/apis/{API_VERSION}{within}/{own['name']}")
        answer = api.post(f"/apis/{API_VERSION}{within}", report)
        assert answer.stored, answer
        assert {key: answer.value[key] for key in ("summary", "results")} == {
            key: report[key] for key in ("summary", "results")
        }
        assert answer.value["metadata"]["labels"] == own["labels"]
        assert api.client.delete(f"/apis/{API_VERSION}{within}/{own['name']}").status_code == 200


# The set-up


def test_the_set_up_of_the_server_is_sound(floorkeeper: Floorkeeper, cluster: Cluster) -> None:
    found = look(cluster)
    ours = ("setup/webhook", "setup/ca-bundle", "setup/kueue", "setup/integration", "setup/namespace-left-out")
    assert [each.message for each in found.findings if each.rule.startswith(ours)] == []
    assert [entry for entry in found.not_evaluated if entry.what.startswith("setup/")] == []


def test_webhooks_that_are_called_late_and_trust_another_server(
    floorkeeper: Floorkeeper, cluster: Cluster, api: Writes
) -> None:
    """A configuration of an older installation, by another name, that nobody took away."""
    (shipped,) = [value for value in floorkeeper.objects if value["kind"] == "MutatingWebhookConfiguration"]
    webhook = dict(shipped["webhooks"][0])
    expired = Authority(datetime.now(UTC) - timedelta(days=1)).pem
    client = {**webhook["clientConfig"], "caBundle": base64.b64encode(expired).decode()}
    # It is asked about nothing.
    nothing = {"matchLabels": {"floorkeeper.test/nothing": "true"}}
    webhook |= {"clientConfig": client, "namespaceSelector": nothing, "timeoutSeconds": 10}
    old = {**shipped, "metadata": {"name": "zz-floorkeeper"}, "webhooks": [webhook]}
    assert api.create(old).stored
    try:
        found = [each for each in look(cluster).findings if each.objects[0].name == "zz-floorkeeper"]
    finally:
        assert api.delete(old).code == 200
    assert sorted((each.rule, each.severity.value, each.path) for each in found) == [
        ("setup/ca-bundle", "deny", "webhooks[0].clientConfig.caBundle"),
        ("setup/webhook-differs", "deny", "webhooks[0].namespaceSelector"),
        ("setup/webhook-differs", "warn", "webhooks[0].timeoutSeconds"),
        ("setup/webhook-order", "deny", "metadata.name"),
    ]
    (late,) = [each.what for each in found if each.rule == "setup/webhook-order"]
    assert late == (
        "metadata.name: must sort before kueue-mutating-webhook-configuration, whose webhooks are called once, is "
        "zz-floorkeeper"
    )


def test_a_queue_of_a_flavor_that_is_gone(team: Team, floorkeeper: Floorkeeper, cluster: Cluster) -> None:
    team.manage()
    broken = team.api.read(cluster_queue(f"{team.namespace}-model-a", "", "", 0))
    broken["spec"]["resourceGroups"][0]["flavors"][0]["name"] = "floorkeeper-gone"
    assert team.api.update(broken).stored
    until("Kueue has seen it", lambda: inactive(look(cluster, team.namespace)))
    (found,) = inactive(look(cluster, team.namespace))
    assert found == (
        "status.conditions: must be Active, is FlavorNotFound: Can't admit new workloads: references missing "
        "ResourceFlavor(s): floorkeeper-gone"
    )


def inactive(found: Audit) -> list[str]:
    return [each.what for each in found.findings if each.rule == "setup/cluster-queue-inactive"]
