"""An audit of a large cluster through a real API server: how long it takes, in how much memory, and in pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.filling import Connection
from benchmarks.fleet import Fleet
from tests.cluster.controlplane import Cluster, own_cluster
from tests.cluster.storing import store
from webhook.kube.names import QUEUE_LABEL
from webhook.sources.listing import PAGE

Object = dict[str, Any]

ROOT = Path(__file__).parents[2]
FLEET = Fleet(nodes=5000, queues=1000, workloads=2000)
UNCOUNTED = 10
SECONDS, MEBIBYTES = 30.0, 400.0
_COMMAND = "import typer; from webhook.live.audit.command import audit; typer.run(audit)"


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """No controller runs, so the objects stay as they were written."""
    left_out = "kueue,scheduler,controller-manager,kwok"
    with own_cluster(tmp_path_factory.mktemp("full"), "--nodes", "0", "--without", left_out) as cluster:
        assert cluster.place is not None
        for values in FLEET.objects().values():
            store(cluster.place, values)
        store(cluster.place, workloads())
        yield cluster


def workloads() -> Iterator[Object]:
    """Of all pods but the first few, each by what made it, for its uid is not known before it is stored."""
    for pod in islice(FLEET.objects()["Pod"], UNCOUNTED, None):
        own = pod["metadata"]
        (made,) = own["ownerReferences"]
        reference = {"apiVersion": "v1", "kind": "Pod", "name": own["name"], "uid": made["uid"]}
        metadata = {"name": f"pod-{own['name']}", "namespace": own["namespace"], "ownerReferences": [reference]}
        pods = {"name": "main", "count": 1, "template": {"spec": pod["spec"]}}
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}
        yield {**kind, "metadata": metadata, "spec": {"queueName": own["labels"][QUEUE_LABEL], "podSets": [pods]}}


def lists(cluster: Cluster, resource: str) -> float:
    """How many lists of a kind the API server has answered."""
    with closing(Connection(cluster.kubeconfig)) as connection:
        code, text = connection.ask("GET", "/metrics")
    assert code == 200
    return sum(
        sample.value
        for family in text_string_to_metric_families(text.decode())
        if family.name == "apiserver_request"
        for sample in family.samples
        if sample.name == "apiserver_request_total"
        and (sample.labels["verb"], sample.labels["resource"]) == ("LIST", resource)
    )


def test_an_audit_of_a_large_cluster(full: Cluster, tmp_path: Path) -> None:
    before = {
        resource: lists(full, resource) for resource in ("nodes", "deployments", "clusterqueues", "workloads", "pods")
    }
    report = tmp_path / "report.json"
    words = ["--kubeconfig", str(full.kubeconfig), "-o", "json", "--output-file", str(report)]
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *words], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    _, _, used = os.wait4(process.pid, 0)
    seconds, mebibytes = time.monotonic() - began, used.ru_maxrss / 1024
    process.returncode = 0
    print(f"{seconds:.1f} s, of which {used.ru_utime + used.ru_stime:.1f} on the processor; {mebibytes:.0f} MiB")
    found = json.loads(report.read_text())
    assert found["summary"]["checked"] >= FLEET.workloads + 2 * FLEET.queues
    counts: Counter[str] = Counter()
    for each in found["findings"]:
        counts[each["rule"]] += each["count"]
    # No controller has looked at the queues, Kueue's configuration lists no integrations, and two models share a queue.
    assert counts["setup/cluster-queue-inactive"] == FLEET.queues
    assert counts["unknown-queue"] == FLEET.workloads
    assert counts["shared-local-queue"] == FLEET.queues
    assert counts["setup/uncounted-pods"] == UNCOUNTED
    assert [each["rule"] for each in found["notEvaluated"]] == ["setup/kueue-down"]
    pages = {resource: lists(full, resource) - number for resource, number in before.items()}
    assert pages == {
        "nodes": FLEET.nodes / PAGE,
        "deployments": FLEET.workloads / PAGE,
        "clusterqueues": FLEET.queues / PAGE,
        "workloads": ceil((FLEET.workloads - UNCOUNTED) / PAGE),
        # Once more, for those that no Workload stands for may be gone.
        "pods": 2 * FLEET.workloads / PAGE,
    }
    assert seconds < SECONDS
    assert mebibytes < MEBIBYTES
