"""An object of every kind of the table in each of the states that a write can start from, each state in a namespace.

What is `clean` was let in by the server. All else was there before its namespace was managed.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.cluster.api import Answer, Api, path
from tests.cluster.controlplane import Cluster, until
from tests.cluster.team import GPU, cluster_queue, flavor, node
from tests.kinds import manifest, mended, short
from webhook.kube.kinds import WORKLOADS, Kind
from webhook.kube.names import MANAGED_LABEL, QUEUE_LABEL

Object = dict[str, Any]
Change = Callable[[Object, str], None]
"""Of an object, whose kind goes by the short name of tests.kinds."""

QUEUE = "model-a-lq"
HOLD = "floorkeeper.test/hold"
"""A finalizer."""


@dataclass(frozen=True)
class Place:
    """Where things are in a kind's manifest, as tests/fixtures/kinds has it: steps with full stops between."""

    labelled: str
    """What holds the queue label in its metadata, '' for the object itself."""

    amounts: str
    """What says how many accelerators the first container that has any asks for."""

    @property
    def container(self) -> str:
        return self.amounts.rpartition(".")[0]


def _place(row: Kind) -> Place:
    (amounts, *_) = (place for place, value in _mappings(manifest(row)) if _is_gpu(value))
    labels = [place for place, value in _mappings(mended(row)) if QUEUE_LABEL in value]
    # Only a DaemonSet gets none, and its pods could carry it.
    labelled = labels[0].removesuffix("metadata.labels").removesuffix(".") if labels else "spec.template"
    return Place(labelled, amounts)


def _mappings(value: Any, place: str = "") -> Iterator[tuple[str, Object]]:
    """Every mapping in it, with where it is."""
    if isinstance(value, dict):
        yield place, value
    for step, entry in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from _mappings(entry, f"{place}.{step}" if place else str(step))


def _is_gpu(value: Object) -> bool:
    return GPU in (value.get("limits") or {}) or value.get("name") == GPU


PLACES = {short(row): _place(row) for row in WORKLOADS}
_MANIFESTS = {short(row): manifest(row) for row in WORKLOADS}


def at(value: Any, place: str) -> Any:
    for step in place.split(".") if place else ():
        value = value[int(step)] if step.isdigit() else value.setdefault(step, {})
    return value


def amounts(value: Object, kind: str) -> Object:
    found: Object = at(value, PLACES[kind].amounts)
    return found


def labels(value: Object, kind: str) -> Object:
    found: Object = at(at(value, PLACES[kind].labelled), "metadata.labels")
    return found


def add_label(value: Object, kind: str) -> None:
    labels(value, kind)[QUEUE_LABEL] = QUEUE


def remove_label(value: Object, kind: str) -> None:
    del labels(value, kind)[QUEUE_LABEL]


def add_request(value: Object, kind: str) -> None:
    amounts(value, kind)["requests"] = dict(amounts(value, kind)["limits"])


def remove_request(value: Object, kind: str) -> None:
    del amounts(value, kind)["requests"]


def double(value: Object, kind: str) -> None:
    """Twice the accelerators."""
    sides = amounts(value, kind)
    for side, name in [(sides, "quantity"), (sides.get("requests"), GPU), (sides.get("limits"), GPU)]:
        if side and name in side:
            side[name] = type(side[name])(int(side[name]) * 2)


def change_template(value: Object, kind: str) -> None:
    at(value, PLACES[kind].container).setdefault("env", []).append({"name": "LOG_LEVEL", "value": "debug"})


def change_elsewhere(value: Object, kind: str) -> None:
    at(value, "metadata.annotations")["example.com/note"] = "1"


def _hold(value: Object, kind: str) -> None:
    value["metadata"]["finalizers"] = [HOLD]


FOUND: dict[str, tuple[Change, ...]] = {
    "unlabelled": (),
    "limit-only": (add_label, remove_request),
    "leaving-clean": (_hold, add_label),
    "leaving-unlabelled": (_hold,),
}
"""The states that were there before, and how they differ from what a person writes."""


@dataclass(frozen=True)
class World:
    cluster: Cluster
    api: Api
    name: str
    """Of its queue, its flavor and its nodes."""

    def namespace(self, state: str) -> str:
        return f"{self.name}-{state}"

    def written(self, kind: str, state: str, *changes: Change) -> Object:
        """The manifest as a person writes it, without a label, and then changed."""
        value = copy.deepcopy(_MANIFESTS[kind])
        value["metadata"]["namespace"] = self.namespace(state)
        if kind == "cronjob":
            # Its hour may come while the tests run.
            value["spec"]["suspend"] = True
        if "replicas" in value["spec"] and kind != "leaderworkerset":
            value["spec"]["replicas"] = 2
        for change in changes:
            change(value, kind)
        return value

    def change(self, kind: str, state: str, *changes: Change, subresource: str = "") -> Answer:
        """A dry run of an update."""

        def edit(value: Object) -> None:
            for change in changes:
                change(value, kind)

        return self.api.change(self.written(kind, state), edit, dry_run=True, subresource=subresource)

    def fill(self, state: str) -> None:
        for kind in PLACES:
            if kind == "sparkapplication" and state == "limit-only":
                # It has one amount for both.
                continue
            done(self.api.create(self.written(kind, state, *FOUND[state])))
            if state.startswith("leaving"):
                done(self.api.delete(self.written(kind, state)))

    def manage(self, *states: str) -> None:
        names = map(self.namespace, states)
        self.cluster("label", "namespace", *names, f"{MANAGED_LABEL}=true")
        for state in states:
            value = self.written("notebook", state, lambda value, _: value["metadata"].update(name="model-a-probe"))
            until("it is managed", partial(self._is_told, value), 20)

    def _is_told(self, value: Object) -> bool:
        return bool(self.api.create(value, dry_run=True).warnings)

    def let_go(self) -> None:
        for state in ("leaving-clean", "leaving-unlabelled"):
            for kind in PLACES:
                self.api.client.patch(
                    path(self.written(kind, state)),
                    json={"metadata": {"finalizers": None}},
                    headers={"Content-Type": "application/merge-patch+json"},
                )


@contextmanager
def made_world(cluster: Cluster, api: Api) -> Iterator[World]:
    # A namespace takes its time to go.
    name = f"kinds-{time.monotonic_ns() % 10**6}"
    world = World(cluster, api, name)
    pool = {"floorkeeper.test/pool": name}
    nodes = [node(f"{name}-{number}", pool, 500) for number in (1, 2)]
    states = ["clean", "made", "unmanaged", *FOUND]
    namespaces = [world.namespace(state) for state in states]
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "spec": {"clusterQueue": name}}
    try:
        cluster.apply(
            *nodes,
            flavor(name, pool),
            *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in namespaces),
            *({**queue, "metadata": {"name": QUEUE, "namespace": each}} for each in namespaces),
        )
        until("the queue", lambda: api.create(cluster_queue(name, name, name, 1000)).code == 201, 10)
        for state in FOUND:
            world.fill(state)
        world.manage("clean", "made", *FOUND)
        for kind in PLACES:
            # A DaemonSet gets no label from us.
            done(api.create(world.written(kind, "clean", *([add_label] if kind == "daemonset" else []))))
        _run(world)
        yield world
    finally:
        world.let_go()
        cluster("delete", "namespace", *namespaces, "--wait=false")
        cluster("delete", "clusterqueue,resourceflavor", name, "--wait=false")
        cluster("delete", "node", *(value["metadata"]["name"] for value in nodes))


_RUNNING = dict.fromkeys(
    ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "updatedReadyReplicas"), 2
)


def _run(world: World) -> None:
    """Until they have pods: their own, or what a controller would say."""
    for row in WORKLOADS:
        if row.pods_now and not row.gang and "." in row.group:
            value = world.written(short(row), "unlabelled")
            done(world.api.change(value, lambda stored: stored.update(status=_RUNNING), subresource="status"))
    for state in ("unlabelled", "clean"):
        for kind in ("deployment", "statefulset", "replicaset", "replicationcontroller"):
            value = world.written(kind, state)
            until(f"the {kind} runs", partial(_runs, world, value), 20)


def _runs(world: World, value: Object) -> bool:
    return bool(world.api.read(value)["status"].get("replicas"))


def done(answer: Answer) -> Answer:
    assert answer.code in (200, 201, 202), answer
    return answer
