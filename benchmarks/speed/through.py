"""Dry-run creates through a real kube-apiserver: beside no hook, by each server, and by policies inside it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson
import yaml

from benchmarks.figures import show_table
from benchmarks.filling import Connection
from benchmarks.speed.contender import Contender
from benchmarks.speed.field import CANNED, OURS, Place
from benchmarks.speed.hooks import ALL, CEL, NONE, PATCHING, SHIPPED, deployment, registered
from benchmarks.speed.memory import live
from benchmarks.speed.options import Options
from benchmarks.speed.report import Report
from benchmarks.speed.review import NAMESPACE, post
from benchmarks.speed.series import MANY, ONE, Goal, Runs
from benchmarks.start import Usage, control_plane
from scripts.controlplane.layout import Layout
from tests.cluster.controlplane import Cluster

_PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments?dryRun=All&fieldManager=kubectl-client-side-apply"
_PATIENCE = 30.0
_COSTLIER = 5
"""Times the cost of a review: a write takes the API server longer than the webhook."""


def through(place: Place, options: Options, report: Report) -> None:
    root = place.folder / "controlplane"
    with control_plane(root, False) as cluster, place.contenders() as contenders:
        cluster.apply(*registered(contenders, place.authority))
        _wait_until_in_force(cluster)
        table = _measured(place, cluster, root, contenders, options)
        show(table)
        report.add("through", {name: runs.plain() for name, runs in table.items()})
        for goal in _goals(table):
            report.judge(goal)
        live(place, cluster, options, report)


def _wait_until_in_force(cluster: Cluster) -> None:
    """Each that patches is seen to, and no other. Raises RuntimeError."""
    connection, end = Connection(cluster.kubeconfig), time.monotonic() + _PATIENCE
    for name in ALL:
        while True:
            code, body = connection.ask("POST", _PATH, deployment(name))
            value = orjson.loads(body)
            patched = code == 201 and value["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0
            queue = patched and value["spec"]["template"]["metadata"]["labels"].get("kueue.x-k8s.io/queue-name")
            if code == 201 and (queue == "model-a-lq") is (name in PATCHING):
                break
            if time.monotonic() > end:
                raise RuntimeError(f"{name} does not work: {code} {body[:1000].decode(errors='replace')}")
            time.sleep(0.1)


def _measured(
    place: Place, cluster: Cluster, root: Path, contenders: Mapping[str, Contender], options: Options
) -> dict[str, Runs]:
    """CPU is that of the API server and the webhook together."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    address, token = config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"]
    record = Layout(root).read_record()
    assert record is not None
    (server,) = (process.pid for process in record.processes if process.name == "kube-apiserver")
    host = address.removeprefix("https://")
    authorization = f"Bearer {token}"
    requests = {name: post(_PATH, orjson.dumps(deployment(name)), host, Authorization=authorization) for name in ALL}

    def cpu(name: str) -> float:
        contender = contenders.get(OURS if name == SHIPPED else name)
        return Usage.of(server).cpu + (contender.usage.cpu if contender is not None else 0.0)

    found = {name: Runs() for name in ALL}
    connection = Connection(cluster.kubeconfig)
    for name in ALL:
        for _ in range(options.warmup // _COSTLIER):
            connection.ask("POST", _PATH, deployment(name))
    for _ in range(options.rounds):
        for connections in (MANY, ONE):
            for name in ALL:
                before = cpu(name)
                load = place.wrk.press(address, requests[name], connections, options.seconds)
                found[name].add(connections, load, cpu(name) - before)
                for contender in contenders.values():
                    contender.trim_log()
    return found


def show(table: Mapping[str, Runs]) -> None:
    none = table[NONE]
    rows = []
    for name, runs in table.items():
        cost = runs.cost().beyond(none.cost())
        rows.append(
            (
                name,
                runs.rate.shown(1, 0),
                f"{runs.rate.over(none.rate):.2f}",
                runs.p50.shown(1e3),
                f"{runs.p50.beyond(none.p50).middle * 1e3:.2f}",
                f"{cost.middle * 1e3:.2f}",
                f"{runs.failed:,}",
            )
        )
    head = ("req/s, 16 clients", "/ none", "ms p50, 1 client", "added ms", "added ms CPU", "failed")
    print()
    show_table(("through kube-apiserver", *head), rows)
    print(
        f"{SHIPPED} is {OURS} behind the match conditions of the manifests; CPU is the API server's and the webhook's"
    )


def _goals(table: Mapping[str, Runs]) -> Iterator[Goal]:
    none, mine, cel = table[NONE], table[OURS], table[CEL]
    added = mine.p50.beyond(none.p50)
    yield Goal("through: rate to no hook's", mine.rate.over(none.rate), 0.42, at_least=True)
    yield Goal("through: added p50", added.middle * 1e3, 3.4, unit="ms")
    yield Goal("through: rate to the canned server's", mine.rate.over(table[CANNED].rate), 0.95, at_least=True)
    yield Goal("through: rate to CEL's", mine.rate.over(cel.rate), 1.0, at_least=True)
    yield Goal("through: added p50 to CEL's", added.middle / cel.p50.beyond(none.p50).middle, 1.0)
