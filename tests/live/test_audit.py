"""What `floorkeeper audit` says of the objects of a cluster: every rule, each thing once, and what it did not see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.checking import GPU, TEAM, autoscaler, changed, cluster_queue, deployment, local_queue, namespace, node
from tests.live.audit_world import (
    NOW,
    SOUND,
    Object,
    active,
    audited,
    but,
    cluster,
    kueue_config,
    lines,
    look,
    missed,
    owner,
    pod,
    registered,
    said,
)
from webhook.engine.policy import Exemption, Mode, Policy, QueueMapping
from webhook.kube.kinds import KINDS, Kind
from webhook.kube.selector import LabelSelector
from webhook.live.api import Api, Resource
from webhook.live.audit.reading import CannotAudit
from webhook.live.audit.report import Exempted, NotEvaluated, Reference
from webhook.live.audit.run import Asked, audit
from webhook.rules import RULES
from webhook.sources.access import ACCESS

SURGING = {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


def surging(name: str, **options: Any) -> Object:
    return deployment(name, "a-lq", strategy=SURGING, **options)


def test_nothing_is_said_of_what_is_well(tmp_path: Path) -> None:
    found = audited(tmp_path, *but(deployment("x", "a-lq"), deployment("gateway", gpus=0)))
    assert (found.findings, found.exempted, found.not_evaluated) == ((), (), ())
    assert (found.namespaces, found.objects, found.checked, found.at) == ((TEAM,), 8, 8, NOW.timestamp())
    assert found.exit_code() == 0


def test_the_mistakes_of_the_guide(tmp_path: Path) -> None:
    limits = deployment("limits", "b-lq")
    limits["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {}
    label = {"kueue.x-k8s.io/queue-name": "b-lq"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": TEAM},
        "spec": {"hard": {f"requests.{GPU}": "8"}},
    }
    found = audited(
        tmp_path,
        *but(
            active(cluster_queue("b", 6)),
            deployment("rogue"),
            surging("x"),
            limits,
            deployment("chosen", "b-lq", selector={"matchLabels": {"app": "chosen", **label}}),
            quota,
            autoscaler("x", 12),
        ),
    )
    assert said(found) == [
        "deny floors-exceed-capacity ClusterQueue b",
        "deny gpu-resource-quota ResourceQuota gpus",
        "deny implicit-gpu-request Deployment limits",
        "deny missing-queue-name Deployment rogue",
        "deny queue-name-in-selector Deployment chosen",
        "deny surge-without-quota Deployment x",
        "warn replicas-over-ceiling HorizontalPodAutoscaler x",
        "warn shared-local-queue Deployment limits",
    ]
    assert (found.not_evaluated, found.exit_code()) == ((), 1)


def test_equal_findings_are_said_once_with_their_number(tmp_path: Path) -> None:
    rest = [namespace("other"), local_queue("a-lq", "a", "other"), surging("c", home="other")]
    found = audited(tmp_path, *but(surging("b"), surging("a", replicas=3), *rest), policy=only("surge-without-quota"))
    said_of = "spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%; fix: set it to 0: a surge pod has no quota to "
    assert lines(found) == [
        f'deny: Deployment "c": {said_of}claim, so the rollout would wait for ever [surge-without-quota]',
        f'deny: Deployment "a" and 1 more: {said_of}claim, so the rollout would wait for ever [surge-without-quota]',
    ]
    two = found.findings[1]
    assert two.objects == tuple(Reference(TEAM, "Deployment", name, "apps/v1") for name in ("a", "b"))
    assert two.what == "spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%"
    assert two.fix == "set it to 0: a surge pod has no quota to claim, so the rollout would wait for ever"


def only(*rules: str) -> Policy:
    return Policy(rules={rule.id: Mode.OFF for rule in RULES if rule.id not in rules})


def test_what_all_floors_come_to_is_said_too(tmp_path: Path) -> None:
    found = audited(tmp_path, *but(active(cluster_queue("b", 3))))
    assert said(found) == ["warn floors-below-capacity ClusterQueue b"]
    assert found.exit_code() == 0
    assert found.exit_code(["warn"]) == 1


def test_a_namespace_held_at_warn_hears_of_all_the_same(tmp_path: Path) -> None:
    held = namespace()
    held["metadata"]["annotations"] = {"floorkeeper.io/mode": "warn"}
    rogue = deployment("rogue", strategy=SURGING)
    conflict = changed(deployment("both", "b-lq"), ("metadata", "labels"), {"kueue.x-k8s.io/queue-name": "a-lq"})
    found = audited(tmp_path, *but(held, rogue, conflict))
    assert said(found) == [
        "warn conflicting-queue-name Deployment both",
        "warn missing-queue-name Deployment rogue",
        "warn surge-without-quota Deployment rogue",
    ]
    assert found.findings[2].fix == "would be patched: set to 0"


def test_a_rule_at_warn_that_would_patch(tmp_path: Path) -> None:
    policy = Policy(rules={"surge-without-quota": Mode.WARN})
    assert said(audited(tmp_path, *but(surging("x")), policy=policy)) == ["warn surge-without-quota Deployment x"]


def test_a_rule_that_is_off_is_silent(tmp_path: Path) -> None:
    policy = Policy(rules={"surge-without-quota": Mode.OFF})
    assert said(audited(tmp_path, *but(surging("x")), policy=policy)) == []


MAPPED = Policy(queues=(QueueMapping(TEAM, "a-lq", "model-*"),))


def test_the_remedy_is_one_for_what_runs(tmp_path: Path) -> None:
    """Never one that takes a serving model down, nor one that comes too late."""
    serving = {**deployment("model-x"), "status": {"replicas": 1, "readyReplicas": 1}}
    job = {**changed(deployment("model-job"), ("kind",), "Job"), "apiVersion": "batch/v1"}
    kueue = kueue_config(integrations={"frameworks": ["pod", "deployment", "batch/job"]})
    objects = but(kueue, serving, deployment("model-idle", replicas=0), pod("model-pod"), job)
    found = audited(tmp_path, *objects, policy=MAPPED)
    assert {each.objects[0].name: each.fix for each in found.findings if each.rule == "missing-queue-name"} == {
        "model-idle": "set it to a-lq",
        "model-x": "set it to a-lq; that restarts the pods",
        "model-pod": "create the Pod again with the label",
        "model-job": "create the Job again with the label",
    }
    assert {each.severity.value for each in found.findings if each.rule == "missing-queue-name"} == {"deny"}


def test_the_remedy_where_quota_is_used_up(tmp_path: Path) -> None:
    serving = {**deployment("model-x"), "status": {"replicas": 1, "readyReplicas": 1}}
    used = {"name": "a100", "resources": [{"name": GPU, "total": "5"}]}
    full = active(cluster_queue("a"))
    full["status"]["flavorsReservation"] = [used]
    found = audited(tmp_path, *but(serving, full), policy=MAPPED)
    assert [each.fix for each in found.findings] == [
        "free quota for it in a-lq first: with the label now, new pods would be gated"
    ]


def test_what_is_exempt_is_listed(tmp_path: Path) -> None:
    policy = Policy(exemptions=(Exemption("rig, INC-412", namespace=TEAM, workload="canary-*"),))
    found = audited(tmp_path, *but(surging("canary-x"), pod("canary-y")), policy=policy)
    assert found.findings == ()
    assert found.exempted == (
        Exempted(Reference(TEAM, "Deployment", "canary-x", "apps/v1"), "rig, INC-412", ("surge-without-quota",)),
        Exempted(Reference(TEAM, "Pod", "canary-y", "v1"), "rig, INC-412", ("missing-queue-name",)),
    )


def test_an_exemption_that_has_ended_is_none(tmp_path: Path) -> None:
    ended = Exemption("rig", namespace=TEAM, workload="*", until=NOW.date().replace(day=29))
    found = audited(tmp_path, *but(surging("x")), policy=Policy(exemptions=(ended,)))
    assert (said(found), found.exempted) == (["deny surge-without-quota Deployment x"], ())


def test_children_are_not_judged_twice(tmp_path: Path) -> None:
    replicas = changed(deployment("rogue-5d4"), ("kind",), "ReplicaSet")
    replicas["metadata"]["ownerReferences"] = [owner("Deployment", "rogue")]
    child = pod("rogue-5d4-x", owner=owner("ReplicaSet", "rogue-5d4"), **{"pod-template-hash": "5d4"})
    job = changed(deployment("nightly-1"), ("kind",), "Job") | {"apiVersion": "batch/v1"}
    job["metadata"]["ownerReferences"] = [owner("CronJob", "nightly", "batch/v1")]
    found = audited(tmp_path, *but(deployment("rogue"), replicas, child, job))
    assert said(found) == ["warn setup/uncounted-pods Deployment rogue", "deny missing-queue-name Deployment rogue"]
    assert (found.objects, found.checked) == (10, 7)


def test_what_is_not_managed_is_not_judged_and_quota_is(tmp_path: Path) -> None:
    other = [namespace("other", managed=False), surging("x", home="other")]
    found = audited(tmp_path, *but(*other, active(cluster_queue("c", 6))))
    assert said(found) == ["deny floors-exceed-capacity ClusterQueue c"]


def test_what_is_going_away_is_left_alone(tmp_path: Path) -> None:
    found = audited(tmp_path, *but(changed(surging("x"), ("metadata", "deletionTimestamp"), "2026-11-30T11:00:00Z")))
    assert (said(found), found.objects, found.checked) == ([], 7, 6)


def test_some_namespaces_alone(tmp_path: Path) -> None:
    other = [namespace("other"), local_queue("a-lq", "c", "other"), surging("x", home="other")]
    objects = but(*other, active(cluster_queue("c", 6)), surging("y"))
    with cluster(*objects) as api:
        assert said(look(api, tmp_path, namespaces=["other"])) == [
            "deny floors-exceed-capacity ClusterQueue c",
            "deny surge-without-quota Deployment x",
        ]
        here = look(api, tmp_path, namespaces=[TEAM])
    # Its own queues share the hardware with the others.
    assert said(here) == ["deny floors-exceed-capacity ClusterQueue b", "deny surge-without-quota Deployment y"]
    assert here.namespaces == (TEAM,)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere", "there is no namespace nowhere; correct the name"),
        ("free", "namespace free is not managed; label it floorkeeper.io/managed=true, or leave it out"),
        ("kube-system", "namespace kube-system is the system's, which is never managed; leave it out"),
    ],
)
def test_a_namespace_that_cannot_be_asked_about(tmp_path: Path, name: str, why: str) -> None:
    objects = but(namespace("free", managed=False), namespace("kube-system"))
    with cluster(*objects) as api, pytest.raises(CannotAudit, match=f"^{why}$") as caught:
        look(api, tmp_path, namespaces=[name])
    assert caught.value.usage


# What it did not see


def test_a_kind_that_may_not_be_listed_is_named(tmp_path: Path) -> None:
    with cluster(*but(surging("x"))) as api:
        api.forbidden |= {("list", "replicasets"), ("list", "nodes")}
        found = look(api, tmp_path)
    nodes = "not allowed to list nodes; ask for that right"
    assert found.not_evaluated[:2] == (
        NotEvaluated("nodes", nodes),
        NotEvaluated("replicasets.apps", "not allowed to list replicasets.apps; ask for that right"),
    )
    assert NotEvaluated("floors-exceed-capacity", f"Node: {nodes}", 3) in found.not_evaluated
    assert said(found) == ["deny surge-without-quota Deployment x"]
    assert found.exit_code() == 1
    assert replace(found, findings=()).exit_code() == 3


def test_without_pods(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        api.forbidden.add(("list", "pods"))
        found = look(api, tmp_path)
    reason = "not allowed to list pods; ask for that right"
    assert missed(found) == [
        f"pods: {reason}",
        f"setup/gated-pods: {reason}",
        f"setup/uncounted-pods: {reason}",
    ]
    assert found.exit_code() == 3


def test_a_kind_of_kueue_that_is_not_served(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        api.absent.add("cohorts")
        found = look(api, tmp_path)
    assert missed(found)[0] == "cohorts.kueue.x-k8s.io: cohorts.kueue.x-k8s.io is not served"
    assert "floors-exceed-capacity: Cohort: cohorts.kueue.x-k8s.io is not served" in missed(found)
    assert found.exit_code() == 3


def test_a_kind_that_is_served_in_a_version_from_the_future(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        api.served["ray.io"] = ("v9",)
        found = look(api, tmp_path)
    assert missed(found) == [
        f"{name}.ray.io: is served as v9 alone, which this version does not know"
        for name in ("rayclusters", "rayjobs", "rayservices")
    ]


@pytest.mark.parametrize(("code", "reason"), [(403, "not allowed to "), (429, ""), (503, "")])
def test_a_group_that_cannot_be_asked_about(
    tmp_path: Path, code: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webhook.live.api._LONGEST_PAUSE", 0.01)
    with cluster(*but(surging("x"), pod("g", "a-lq", ["kueue.x-k8s.io/admission"]))) as api:
        api.faults["discover", "kueue.x-k8s.io"] += [lambda to: to.status(code, "", "not now")] * 50
        found = look(api, tmp_path)
    said_of = {entry.what: entry.reason for entry in found.not_evaluated}
    assert said_of["kueue.x-k8s.io"].startswith(f"{reason}find the versions of kueue.x-k8s.io")
    # That it is not installed is not known, and no rule goes by that.
    assert {"setup/kueue-absent", "setup/gated-pods", "setup/integration-off", "unknown-queue"} <= set(said_of)
    assert [line for line in said(found) if "kueue-absent" in line] == []
    # It is asked once, and a few times more where it is busy.
    assert len(api.asked("discover", "kueue.x-k8s.io")) == (3 if code == 429 else 1)
    assert replace(found, findings=()).exit_code() == 3


@pytest.mark.parametrize("answer", [{"kind": "Status"}, {"kind": "DeploymentList", "items": [None]}, b"<html>", b"[]"])
def test_what_is_no_list_is_named(tmp_path: Path, answer: object) -> None:
    with cluster(*but(surging("x"))) as api:
        api.faults["list", "deployments"].append(lambda to: to.send(200, answer))
        found = look(api, tmp_path)
    assert missed(found)[0].startswith("deployments.apps: list deployments.apps: the answer is no ")
    assert replace(found, findings=()).exit_code() == 3


def test_a_kind_that_somebody_does_not_find_is_named(tmp_path: Path) -> None:
    with cluster(*but(surging("x"))) as api:
        api.served["ray.io"] = ("v1",)
        for kind in ("deployments", "rayjobs"):
            api.faults["list", kind].append(lambda to: to.send(404, b"not here"))
        found = look(api, tmp_path)
    assert missed(found)[:2] == [
        "deployments.apps: list deployments.apps: 404 not here",
        "rayjobs.ray.io: list rayjobs.ray.io: 404 not here",
    ]


def test_without_namespaces_nothing_can_be_said(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        api.forbidden.add(("list", "namespaces"))
        why = "not allowed to list namespaces; ask for that right; without namespaces nothing can be judged"
        with pytest.raises(CannotAudit, match=f"^{why}$") as caught:
            look(api, tmp_path)
    assert not caught.value.usage


def test_an_api_server_that_goes_away(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        kubeconfig = api.kubeconfig(tmp_path)
    with Api.opened(kubeconfig) as client, pytest.raises(CannotAudit, match="does not answer"):
        audit(client, Asked(Policy()))


# How it asks


def test_it_lists_each_kind_once_in_pages_and_never_watches(tmp_path: Path) -> None:
    nodes = [node(f"n{number}", 0) for number in range(1100)]
    with cluster(*but(*nodes, surging("x"))) as api:
        look(api, tmp_path)
    assert {request.verb for request in api.requests} == {"list", "get", "discover"}
    assert all(request.query["limit"] == "500" for request in api.requests if request.verb == "list")
    pages = [request.query.get("continue") for request in api.asked("list", "nodes")]
    assert [page is None for page in pages] == [True, False, False]
    once = [request.resource for request in api.requests if request.verb == "list" and "continue" not in request.query]
    assert sorted(once) == sorted(set(once))


def test_a_list_whose_token_expires_begins_again(tmp_path: Path) -> None:
    with cluster(*but(*[deployment(f"d{number}", gpus=0) for number in range(600)])) as api:
        gone = iter([False, True])

        def second_page_expires(to: Any) -> None:
            if next(gone):
                to.status(410, "Expired", "The provided continue parameter is too old")
            else:
                api.list(to, "deployments", to.asked.query, "")

        api.faults["list", "deployments"] += [second_page_expires] * 2
        found = look(api, tmp_path)
    assert (found.objects, found.not_evaluated) == (606, ())
    assert len(api.asked("list", "deployments")) == 4


def test_claims_of_pods_are_taken_off_where_the_policy_says_so(tmp_path: Path) -> None:
    policy = Policy(capacity=replace(Policy().capacity, discount_unqueued=True))
    objects = but(*[pod(f"stray-{number}") for number in range(2)])
    plain = audited(tmp_path, *objects, policy=only("floors-exceed-capacity"))
    discounted = audited(tmp_path, *objects, policy=replace(policy, rules=only("floors-exceed-capacity").rules))
    assert [each for each in said(plain) if "floors" in each] == []
    assert [each for each in said(discounted) if "floors" in each] == ["warn floors-exceed-capacity ClusterQueue b"]


def test_every_kind_of_the_table_is_asked_for(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        for row in KINDS.rows:
            if "." in row.group:
                api.served[row.group] = tuple(dict.fromkeys((*api.served[row.group], *row.versions)))
        # The double knows no such objects.
        known = {ACCESS[kind].resource for kind in ACCESS} | {"replicasets"}
        api.absent |= {row.resource for row in KINDS.rows} - known
        look(api, tmp_path)
    asked = {request.path for request in api.requests if request.verb == "list"}
    for row in KINDS.rows:
        paths = {Resource(row.group, version, row.resource).path() for version in row.versions}
        assert len(paths & asked) == 1, row


def test_a_kind_that_a_policy_adds(tmp_path: Path) -> None:
    row: Kind = replace(
        KINDS.of("apps", "StatefulSet") or KINDS.rows[0], group="apps", kind="ReplicaSet2", resource="daemonsets2"
    )
    with cluster(*SOUND) as api:
        api.absent.add("daemonsets2")
        look(api, tmp_path, policy=Policy(kinds=KINDS.and_others([row])))
        assert len(api.asked("list", "daemonsets2")) == 1


def test_registrations_by_another_policy(tmp_path: Path) -> None:
    policy = Policy(managed_namespaces=LabelSelector((("team", "a"),)))
    home = namespace("a")
    home["metadata"]["labels"] = {"team": "a"}
    objects = but(home, surging("x", home="a"), *registered(policy=policy), local_queue("a-lq", "a", "a"))
    found = audited(tmp_path, *objects, policy=policy)
    assert found.namespaces == ("a",)
    assert said(found) == [
        f"warn setup/namespace-unguarded Namespace {TEAM}",
        "deny surge-without-quota Deployment x",
    ]
