"""What a developer meets on kubectl apply, and what applying again does."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from tests.cluster.controlplane import until
from tests.cluster.server import Floorkeeper
from tests.cluster.team import GPU, Object, Team
from webhook.kube.names import QUEUE_LABEL

PLACE = f"spec.template.metadata.labels[{QUEUE_LABEL}]"


def without_request(team: Team) -> Object:
    value = team.deployment("model-a", queue="model-a-lq", maxSurge=0, maxUnavailable=1)
    del value["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    return value


def quota(team: Team) -> Object:
    metadata = {"name": "gpus", "namespace": team.namespace}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": {f"requests.{GPU}": 10}},
    }


def selecting(team: Team) -> Object:
    value = team.deployment("model-a", queue="model-a-lq", maxSurge=0, maxUnavailable=1)
    value["spec"]["selector"]["matchLabels"][QUEUE_LABEL] = "model-a-lq"
    return value


def hidden(team: Team) -> Object:
    value = team.gateway()
    container = value["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    return value


BAD: dict[str, tuple[Any, str, str]] = {
    "implicit": (
        without_request,
        "workloads.validate",
        'Deployment "model-a": spec.template.spec.containers[0].resources.requests[nvidia.com/gpu]: must equal the '
        "limit, 1, is absent; fix: set it to 1 [implicit-gpu-request]",
    ),
    "no queue": (
        lambda team: team.deployment("other", maxSurge=0, maxUnavailable=1),
        "workloads.validate",
        f'Deployment "other": {PLACE}: must name a LocalQueue, is absent; fix: set it to one of the LocalQueues of '
        "namespace {namespace}: model-a-lq, model-b-lq [missing-queue-name]",
    ),
    "quota": (
        quota,
        "resourcequotas.validate",
        'ResourceQuota "gpus": spec.hard[requests.nvidia.com/gpu]: must not be limited in a managed namespace, is 10; '
        "fix: remove it: a gated pod counts against it, so Kueue could queue none; the nominalQuota of ClusterQueues "
        "replaces it [gpu-resource-quota]",
    ),
    "selector": (
        selecting,
        "workloads.validate",
        f'Deployment "model-a": spec.selector.matchLabels[{QUEUE_LABEL}]: must not select by the queue label, is '
        "model-a-lq; fix: take it out; with kustomize, use labels with includeSelectors: false and includeTemplates: "
        "true [queue-name-in-selector]",
    ),
    "hidden": (
        hidden,
        "workloads.validate",
        'Deployment "gateway": spec.template.spec.containers[0].env[0].value: must be none without an accelerator '
        "request, is NVIDIA_VISIBLE_DEVICES=all; fix: request nvidia.com/gpu in resources.limits, or set it to none "
        "[hidden-gpu-use]",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_denied_with_the_exact_message(team: Team, floorkeeper: Floorkeeper, bad: str) -> None:
    team.manage()
    make, webhook, message = BAD[bad]
    value = make(team)
    for arguments in (("--dry-run=server",), ()):
        result = team.cluster("apply", *arguments, "-f", "-", input=_yaml(value), check=False)
        assert result.returncode == 1
        assert result.stderr == (
            'Error from server (Forbidden): error when creating "STDIN": admission webhook '
            f'"{webhook}.floorkeeper.io" denied the request: {message.format(namespace=team.namespace)}\n'
        )
        assert team.get(value["kind"], value["metadata"]["name"]) is None


def test_everything_at_once(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    value = team.deployment("other", maxSurge=0, maxUnavailable=1)
    del value["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    value["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    result = team.cluster.apply(value, check=False)
    assert result.stderr.count("Warning: ") == 1
    assert [line.rpartition("[")[2] for line in result.stderr.splitlines()] == [
        "short-grace-period]",
        "missing-queue-name]",
        "implicit-gpu-request]",
    ]


def test_dry_run_gives_the_same_and_leaves_nothing(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    value = team.deployment("model-a")
    dry = team.cluster("apply", "--dry-run=server", "-f", "-", "-o", "json", input=_yaml(value))
    assert team.get("deployment", "model-a") is None
    wet = team.cluster("apply", "-f", "-", "-o", "json", input=_yaml(value))
    assert dry.stderr == wet.stderr
    assert wet.stderr.splitlines() == [
        'Warning: Deployment "model-a": spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%; patched: set to 0 '
        "[surge-without-quota]",
        f'Warning: Deployment "model-a": {PLACE}: must name a LocalQueue, is absent; patched: set to model-a-lq, from '
        "the policy's queues [missing-queue-name]",
    ]


@pytest.mark.parametrize("strategy", [{}, {"maxSurge": "25%", "maxUnavailable": "25%"}], ids=["omitted", "in the file"])
def test_applying_twice_changes_nothing(team: Team, floorkeeper: Floorkeeper, strategy: dict[str, Any]) -> None:
    team.manage()
    value = team.deployment("model-a", **strategy)
    team.cluster.apply(value)
    until("the model serves", lambda: team.rolled_out("model-a"))
    before = team.get("deployment", "model-a")
    team.cluster("apply", "-f", "-", input=_yaml(value))
    after = team.get("deployment", "model-a")
    assert (after["metadata"]["generation"], after["spec"]) == (before["metadata"]["generation"], before["spec"])
    # The API server counts changed annotations as a generation of a Deployment, and these drop some of kubectl's.
    team.cluster("apply", "--server-side", "--force-conflicts", "-f", "-", input=_yaml(value))
    assert team.get("deployment", "model-a")["spec"] == before["spec"]


def test_replacing_with_the_file_restarts_nothing(team: Team, floorkeeper: Floorkeeper) -> None:
    """The file has no label, the live object does: what a replace takes away comes back."""
    team.manage()
    value = team.deployment("model-a", 5)
    team.cluster.apply(value)
    until("the model serves", lambda: team.rolled_out("model-a"))
    before = team.get("deployment", "model-a")
    pods = {pod["metadata"]["uid"] for pod in team.pods("model-a")}
    team.cluster("replace", "-f", "-", input=_yaml(value))
    assert team.get("deployment", "model-a")["spec"] == before["spec"]
    until("it is observed", lambda: team.rolled_out("model-a"))
    assert {pod["metadata"]["uid"] for pod in team.pods("model-a")} == pods


def test_other_kinds_of_workload(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    deployment = team.deployment("model-a")
    pod_spec = copy.deepcopy(deployment["spec"]["template"])
    pod = {"apiVersion": "v1", "kind": "Pod", **pod_spec}
    pod["metadata"] = {"generateName": "model-b-", "namespace": team.namespace}
    created = team.cluster("create", "-f", "-", "-o", "json", input=_yaml(pod))
    assert f'Pod "model-b-*": metadata.labels[{QUEUE_LABEL}]: must name' in created.stderr
    until("the bare pod is counted", lambda: len(team.workloads()) == 1)

    stateful = copy.deepcopy(deployment)
    stateful["kind"] = "StatefulSet"
    stateful["spec"]["serviceName"] = "model-a"
    team.cluster.apply(stateful)
    until("the StatefulSet serves", lambda: team.ready("model-a") == 1)
    team.kubectl("scale", "statefulset", "model-a", "--replicas=3")
    until("and scales", lambda: team.ready("model-a") == 3)
    assert len(team.workloads()) == 4


def _yaml(value: Object) -> str:
    return yaml.safe_dump(value)
