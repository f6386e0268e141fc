"""Many objects put straight into etcd, as an API server would have stored them: a fifth of the time of writes to it."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx

from scripts.controlplane.layout import Layout

Object = dict[str, Any]
_BATCH = 50
"""Of a transaction: etcd takes 128 operations and 1.5 MiB."""

_PLACES = {
    "Namespace": "namespaces",
    "ConfigMap": "configmaps",
    "ServiceAccount": "serviceaccounts",
    "Node": "minions",
    "Pod": "pods",
    "Deployment": "deployments",
    "ResourceFlavor": "kueue.x-k8s.io/resourceflavors",
    "Cohort": "kueue.x-k8s.io/cohorts",
    "ClusterQueue": "kueue.x-k8s.io/clusterqueues",
    "LocalQueue": "kueue.x-k8s.io/localqueues",
    "Workload": "kueue.x-k8s.io/workloads",
}


def store(place: Path, values: Iterable[Object]) -> None:
    """Puts them into the control plane of this folder, over what is there by the same names.

    Nothing judges them, and only defaults are filled in, whenever they are read.
    """
    record = Layout(place).read_record()
    assert record is not None
    (health,) = (process.health for process in record.processes if process.name == "etcd")
    waiting = iter(values)
    with httpx.Client(base_url=str(health).removesuffix("/readyz"), timeout=60, trust_env=False) as client:
        while batch := [{"requestPut": _put(value)} for value in islice(waiting, _BATCH)]:
            answer = client.post("/v3/kv/txn", json={"success": batch})
            assert answer.status_code == 200, answer.text


def _put(value: Object) -> dict[str, str]:
    metadata = value["metadata"]
    whole = {**metadata, "uid": str(uuid.uuid4()), "creationTimestamp": "2026-11-29T10:00:00Z"}
    key = "/".join(_key(value["kind"], metadata))
    return {
        "key": base64.b64encode(key.encode()).decode(),
        "value": base64.b64encode(json.dumps({**value, "metadata": whole}).encode()).decode(),
    }


def _key(kind: str, metadata: Object) -> Iterator[str]:
    yield from ("/registry", _PLACES[kind])
    if "namespace" in metadata:
        yield metadata["namespace"]
    yield metadata["name"]
