"""The guide's namespace as it should not be: every mistake that the guide warns of, made while nobody looked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.cluster.server import ROOT
from tests.cluster.team import GPU, Team
from webhook.kube.names import QUEUE_LABEL

Object = dict[str, Any]
NAMESPACE = "llm-d-optimized-baseline"
QUEUE_A, QUEUE_B = "llm-d-model-a-cq", "llm-d-model-b-cq"
SOUND: Object = {"maxSurge": 0, "maxUnavailable": 1}

FOUND = (
    "deny setup/webhook-absent MutatingWebhookConfiguration floorkeeper",
    "deny setup/webhook-absent ValidatingWebhookConfiguration floorkeeper",
    "warn setup/gated-pods Pod embedder",
    "warn setup/local-queue-nowhere LocalQueue canary-lq",
    "warn setup/uncounted-pods Deployment model-a",
    "warn setup/uncounted-pods Deployment model-b",
    f"deny floors-exceed-capacity ClusterQueue {QUEUE_B}",
    f"warn missing-cohort ClusterQueue {QUEUE_B}",
    f"warn no-reclaim ClusterQueue {QUEUE_B}",
    "deny gpu-resource-quota ResourceQuota gpu-budget",
    "deny hidden-gpu-use Deployment notebook",
    "deny implicit-gpu-request Deployment model-b",
    "deny missing-queue-name Deployment model-a,model-b",
    "deny queue-name-in-selector Deployment canary",
    "deny surge-without-quota Deployment model-a,model-b,probe",
    "warn gated-pods-over-quota ResourceQuota gpu-budget",
    "warn replicas-over-ceiling HorizontalPodAutoscaler canary",
    "warn shared-local-queue Deployment probe",
    "warn short-grace-period Deployment model-b",
    "warn unknown-queue Deployment embedder",
)
"""What an audit has to say of it: severity, rule, kind and names."""

IN_THE_SET_UP = FOUND[:2]
"""What is right once Floorkeeper is installed."""


def mistaken(team: Team) -> Iterator[Object]:
    """Step 2's objects, with floors beyond the hardware and a queue without a cohort; then workloads."""
    for path in sorted((ROOT / "examples" / "cluster").glob("*.yaml")):
        for value in yaml.safe_load_all(path.read_text()):
            name = value["metadata"]["name"]
            if name == QUEUE_A:
                value["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = 6
            if name == QUEUE_B:
                del value["spec"]["cohortName"], value["spec"]["preemption"]
            if value["kind"] != "Node":
                yield value
    yield local_queue("canary-lq", "llm-d-canary-cq")
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota"}
    quota |= {"metadata": {"name": "gpu-budget", "namespace": NAMESPACE}}
    yield {**quota, "spec": {"hard": {f"requests.{GPU}": "20", "pods": "50"}}}
    yield team.deployment("model-a", 3)
    model_b = team.deployment("model-b", 2)
    pod = model_b["spec"]["template"]["spec"]
    del pod["containers"][0]["resources"]["requests"]
    pod["terminationGracePeriodSeconds"] = 5
    yield model_b
    canary = team.deployment("canary", queue="model-a-lq", **SOUND)
    canary["spec"]["selector"]["matchLabels"][QUEUE_LABEL] = "model-a-lq"
    yield canary
    yield autoscaler("canary", 50)
    yield team.deployment("probe", queue="model-a-lq")
    yield team.deployment("embedder", queue="embedder-lq", **SOUND)
    notebook = team.gateway("notebook")
    notebook["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    yield notebook


RUN = {"model-a": 3, "model-b": 2, "canary": 1, "probe": 1, "notebook": 1, "optimized-baseline-gateway": 1}
"""The replicas that run all the same."""


def mends(team: Team) -> Iterator[tuple[str, Object | None]]:
    """What the messages say is to be done, but for what adopting mends: kubectl's words, and what it reads."""
    home = f"-n {NAMESPACE}"
    yield f"delete resourcequota gpu-budget {home}", None
    spec = {"cohortName": "llm-d-gpu", "preemption": {"reclaimWithinCohort": "Any"}}
    yield f"patch clusterqueue {QUEUE_B} --type=merge -p {_json({'spec': spec})}", None
    container = {"name": "vllm", "resources": {"requests": {GPU: "1"}}}
    pod = {"terminationGracePeriodSeconds": 60, "containers": [container]}
    yield f"patch deployment model-b {home} -p {_json({'spec': {'template': {'spec': pod}}})}", None
    # A LocalQueue's ClusterQueue and a Deployment's selector are as they were made.
    yield f"delete localqueue canary-lq {home}", None
    for name, queue in (("canary-lq", QUEUE_A), ("probe-lq", QUEUE_A), ("embedder-lq", QUEUE_B)):
        yield "create -f -", local_queue(name, queue)
    yield f"delete deployment canary {home} --cascade=foreground", None
    yield "create -f -", team.deployment("canary", queue="canary-lq", **SOUND)
    yield f"patch hpa canary {home} --type=merge -p {_json({'spec': {'maxReplicas': 4}})}", None
    labels = {"metadata": {"labels": {QUEUE_LABEL: "probe-lq"}}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": SOUND}
    yield f"patch deployment probe {home} -p {_json({'spec': {'strategy': strategy, 'template': labels}})}", None
    yield f"set env deployment/notebook {home} NVIDIA_VISIBLE_DEVICES-", None


def _json(value: Object) -> str:
    return f"'{json.dumps(value)}'"


def local_queue(name: str, cluster_queue: str) -> Object:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"clusterQueue": cluster_queue},
    }


def autoscaler(name: str, most: int) -> Object:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "maxReplicas": most},
    }
