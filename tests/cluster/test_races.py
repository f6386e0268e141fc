"""What watches, other controllers and other webhooks do in between."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import Floorkeeper
from tests.cluster.team import Team
from tests.door import review_of
from tests.test_quantity import REFUSED, VALUES
from webhook.kube.names import MANAGED_LABEL, QUEUE_LABEL
from webhook.kube.quantity import parse


def labelled(floorkeeper: Floorkeeper, value: Any) -> bool:
    """Whether the server puts the queue label on this object. Asked directly: the API server's own knowledge of a
    namespace lags as well, and what it does not send cannot show what we know."""
    response = floorkeeper.review("/mutate", review_of(value))
    return "model-a-lq" in base64.b64decode(response.get("patch", "")).decode()


def test_namespace_that_became_managed_a_moment_ago(team: Team, api: Api, floorkeeper: Floorkeeper) -> None:
    """The API server may know it before any watch does, so we ask before we let an object through."""
    plain = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team.namespace}}
    managed = {**plain, "metadata": {"name": team.namespace, "labels": {MANAGED_LABEL: "true"}}}
    deployment = team.deployment("model-a")
    for _ in range(20):
        assert api.update(copy.deepcopy(managed)).code == 200
        assert labelled(floorkeeper, deployment)
        assert api.update(copy.deepcopy(plain)).code == 200
        until("no longer managed", lambda: not labelled(floorkeeper, deployment), 10)


def test_queue_that_was_made_a_moment_ago(team: Team, api: Api, floorkeeper: Floorkeeper) -> None:
    team.manage()
    queue, deployment = team.local_queue("model-a-lq"), team.deployment("model-a")
    for _ in range(10):
        api.delete(queue)
        until("the LocalQueue is gone", lambda: not labelled(floorkeeper, deployment), 10)
        assert api.create(queue).code == 201
        assert labelled(floorkeeper, deployment)


def test_claim_template_that_was_made_a_moment_ago(team: Team, api: Api, floorkeeper: Floorkeeper) -> None:
    """Only the template says that the devices are GPUs; it comes with the workload, in the same breath."""
    team.manage()
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": team.namespace},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    deployment = team.deployment("model-a")
    pod = deployment["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    for _ in range(10):
        assert api.create(template).code == 201
        assert labelled(floorkeeper, deployment)
        api.delete(template)
        until("the template is gone", lambda: not labelled(floorkeeper, deployment), 10)


def test_tug_of_war_changes_nothing_and_is_counted(team: Team, api: Api, floorkeeper: Floorkeeper) -> None:
    """A controller that writes its own strategy back, ten times."""
    team.manage()
    owned = team.deployment("model-a", 1, "model-a-lq", maxSurge="100%", maxUnavailable="0%")
    owner = {"apiVersion": "example.com/v1", "kind": "ModelServer", "name": "x", "uid": "1", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]

    def is_patched() -> bool:
        answer = api.create(copy.deepcopy(owned), dry_run=True)
        return answer.code == 201 and answer.value["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0

    # Of a namespace that has just become managed, the API server may tell /validate a moment before /mutate.
    until("both webhooks are called", is_patched, 10)
    created = api.create(owned)
    assert created.code == 201
    until("the status is written", lambda: api.read(owned).get("status", {}).get("observedGeneration"))
    hits = floorkeeper.hits("surge-without-quota", "patch")
    answers = [api.update(copy.deepcopy(owned)) for _ in range(10)]
    assert [answer.value["spec"] for answer in answers] == [created.value["spec"]] * 10
    assert len({answer.warnings for answer in answers}) == 1
    assert 'is controlled by ModelServer "x"' in answers[0].warnings[-1] + answers[0].warnings[0]
    # maxSurge and maxUnavailable, ten times, and once more for every write that met another one and was tried again.
    assert floorkeeper.hits("surge-without-quota", "patch") >= hits + 20


def test_forged_owner_does_not_help(team: Team, api: Api, floorkeeper: Floorkeeper) -> None:
    team.manage()
    template = team.deployment("model-a")["spec"]["template"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": True}
    pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(template)}
    pod["metadata"] = {"name": "model-a", "namespace": team.namespace, "ownerReferences": [owner]}
    answer = api.create(pod, dry_run=True)
    assert answer.value["metadata"]["labels"][QUEUE_LABEL] == "model-a-lq"
    assert answer.value["spec"]["schedulingGates"]


def test_pods_of_an_old_offender_are_made(team: Team, floorkeeper: Floorkeeper) -> None:
    """What a Deployment was allowed, its pods are allowed."""
    deployment = team.deployment("model-a", 1)
    del deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    team.cluster.apply(deployment)
    team.manage()
    team.kubectl("scale", "deployment", "model-a", "--replicas=3")
    until("new pods are made", lambda: team.ready("model-a") == 3)
    result = team.kubectl("annotate", "deployment", "model-a", "note=x")
    assert [line.rpartition("[")[2] for line in result.stderr.splitlines()] == [
        "surge-without-quota]",
        "missing-queue-name]",
        "implicit-gpu-request]",
    ]
    result = team.kubectl(
        "patch", "deployment", "model-a", "--type=json", "-p",
        '[{"op":"replace","path":"/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu","value":"4"}]',
        check=False,
    )  # fmt: skip
    assert "denied the request" in result.stderr, "it got worse"


def test_debugging_a_pod(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    team.cluster.apply(team.deployment("model-a"))
    until("the model serves", lambda: team.ready("model-a") == 1)
    (pod,) = team.pods("model-a")
    calls = floorkeeper.calls()
    team.kubectl("debug", pod["metadata"]["name"], "--image=busybox", "--target=vllm", "--container=shell")
    assert floorkeeper.calls() == calls


def test_our_webhook_runs_before_kueues(cluster: Cluster, floorkeeper: Floorkeeper) -> None:
    names = [value["metadata"]["name"] for value in cluster.items("mutatingwebhookconfigurations")]
    assert names == sorted(names)
    assert "floorkeeper" in names
    assert any(name.startswith("kueue") for name in names)
    assert names.index("floorkeeper") < min(i for i, name in enumerate(names) if name.startswith("kueue"))


def test_what_is_stored_is_what_is_shipped(cluster: Cluster, floorkeeper: Floorkeeper) -> None:
    """Every field that the API server would fill in is spelled out, so that GitOps tools see no drift."""
    for value in floorkeeper.objects:
        if value["kind"].endswith("WebhookConfiguration"):
            stored = cluster.get(value["kind"], value["metadata"]["name"])
            bundles = [webhook["clientConfig"].pop("caBundle") for webhook in stored["webhooks"]]
            assert stored["webhooks"] == value["webhooks"]
            assert base64.b64decode(bundles[0]).startswith(b"-----BEGIN")


@pytest.fixture(scope="module")
def plain_namespace(cluster: Cluster) -> Iterator[str]:
    cluster("create", "namespace", "quantities")
    yield "quantities"
    cluster("delete", "namespace", "quantities", "--wait=false")


@pytest.mark.parametrize("text", [text for text, _ in VALUES if text is not None] + [*REFUSED, True, False], ids=repr)
def test_quantities_agree(plain_namespace: str, api: Api, text: Any) -> None:
    value = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": plain_namespace},
        "spec": {"hard": {"requests.memory": text}},
    }
    answer = api.create(value, dry_run=True)
    if answer.code == 201:
        # A resource list keeps thousandths, rounded up; a quantity of its own keeps billionths.
        assert parse(answer.value["spec"]["hard"]["requests.memory"]) == -(-parse(text) // 10**6) * 10**6
    elif answer.code == 422:
        assert parse(text) < 0, "negative is a quantity all the same"
    else:
        with pytest.raises(ValueError, match="quantity"):
            parse(text)
