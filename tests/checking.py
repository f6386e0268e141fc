"""`floorkeeper check` on objects that a test wrote as dicts: what it says, line by line."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.cases import TODAY
from webhook.check.inputs import read_inputs
from webhook.check.judging import check
from webhook.check.options import Options
from webhook.check.result import Result

Object = dict[str, Any]
OPTIONS = Options(today=TODAY, paths=("-",))
GPU = "nvidia.com/gpu"
TEAM = "team"


def checked(*objects: Object, **options: Any) -> Result:
    """The result for objects that come from stdin, in this order."""
    return checked_text(yaml.safe_dump_all(objects, sort_keys=False), **options)


def checked_text(text: str, **options: Any) -> Result:
    wanted = replace(OPTIONS, **options)
    return check(read_inputs(wanted.paths, io.BytesIO(text.encode()), wanted.namespace), wanted)


def written(folder: Path, *objects: Object) -> str:
    """The name of a folder that holds these objects and nothing else."""
    folder.mkdir(exist_ok=True)
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects, sort_keys=False))
    return str(folder)


def lines(result: Result) -> list[str]:
    """All that it says of rules: 'deny: message', 'warn: not evaluated: …'. As admission, a note warns."""
    return [
        *(f"{found.severity}: {found.message}" for found in result.findings),
        *(f"warn: {note.message}" for note in result.notes),
        *(f"warn: not evaluated: {entry.reason} [{entry.rule}]" for entry in result.not_evaluated),
    ]


def said(result: Result) -> list[str]:
    """Each finding in short: 'deny floors-exceed-capacity ClusterQueue b'."""
    return [f"{found.severity} {found.rule} {found.kind} {found.name}" for found in result.findings]


def unjudged(result: Result) -> list[str]:
    return [f"{entry.rule}: {entry.reason} ({entry.objects})" for entry in result.not_evaluated]


def skips(result: Result) -> list[str]:
    return [f"{entry.kind} {entry.namespace}/{entry.name}: {entry.reason}" for entry in result.skipped]


# Objects


def namespace(name: str = TEAM, managed: bool = True, default_queue: str = "") -> Object:
    labels = {"floorkeeper.io/managed": "true"} if managed else {}
    annotations = {"floorkeeper.io/default-queue": default_queue} if default_queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
    }


def local_queue(name: str, cluster_queue: str, home: str = TEAM) -> Object:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": home},
        "spec": {"clusterQueue": cluster_queue},
    }


def cluster_queue(name: str, gpus: int = 5, flavor: str = "a100", **spec: Any) -> Object:
    quota = {"name": flavor, "resources": [{"name": GPU, "nominalQuota": gpus}]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "cohortName": "pool",
            "preemption": {"reclaimWithinCohort": "Any"},
            "resourceGroups": [{"coveredResources": [GPU], "flavors": [quota]}],
            **spec,
        },
    }


def flavor(name: str = "a100", **labels: str) -> Object:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": labels} if labels else {},
    }


def node(name: str = "n1", gpus: int = 10, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": {GPU: str(gpus)},
            "capacity": {GPU: str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def deployment(name: str, queue: str = "", home: str = TEAM, gpus: int = 1, **spec: Any) -> Object:
    """One on which every rule is silent if the queue is there."""
    labels = {"app": name, **({"kueue.x-k8s.io/queue-name": queue} if queue else {})}
    amounts = {GPU: str(gpus)} if gpus else {}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **({"namespace": home} if home else {})},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 60, "containers": [container]},
            },
            **spec,
        },
    }


def autoscaler(target: str, most: int) -> Object:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": target, "namespace": TEAM},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "maxReplicas": most,
        },
    }


QUOTAS: tuple[Object, ...] = (
    namespace(),
    flavor(),
    cluster_queue("a"),
    cluster_queue("b"),
    local_queue("a-lq", "a"),
    local_queue("b-lq", "b"),
)
"""The guide's quota objects: two floors of 5."""


def changed(value: Mapping[str, Any], path: Iterable[str], to: Any) -> Object:
    """A copy with one field otherwise; mappings on the way are made."""
    first, *rest = path
    inner = value.get(first) or {}
    return {**value, first: changed(inner, rest, to) if rest else to}
