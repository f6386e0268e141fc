"""Every kind through the real API server with the real definitions, Kueue beside us: what becomes of each write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import read_documents
from tests.cluster.api import Answer, Api, path
from tests.cluster.controlplane import Cluster, stays, until
from tests.cluster.server import Floorkeeper
from tests.cluster.team import GPU
from tests.cluster.workloads import (
    FOUND,
    PLACES,
    QUEUE,
    Change,
    Object,
    World,
    add_label,
    add_request,
    change_elsewhere,
    change_template,
    done,
    double,
    labels,
    made_world,
    remove_label,
    remove_request,
)
from tests.kinds import short
from webhook.kube.kinds import WORKLOADS
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.row import Relabel

# The tables. `allowed`: stored as it is, and nothing said. `patched`: the label was put there. `warned`: stored as it
# is, and told. `denied`: by us. `refused`: by the API server or by Kueue, for whom the field is immutable. `-`: no such
# write: a creation has no former state, a subresource no template, and a request is in the template.

ONE_BY_ONE = """
                    create   dry run  template  elsewhere  deleting  scale    status   delete
clean               allowed  allowed  allowed   allowed    allowed   allowed  allowed  allowed
no label            patched  patched  patched   warned     allowed   allowed  allowed  allowed
label added         -        -        allowed   allowed    allowed   -        -        -
label removed       -        -        patched   patched    allowed   -        -        -
no label, more      -        -        patched   -          allowed   -        -        -
limit only          denied   denied   warned    warned     -         allowed  allowed  allowed
request added       -        -        allowed   -          -         -        -        -
request removed     -        -        denied    -          -         -        -        -
limit only, more    -        -        denied    -          -         -        -        -
"""
"""Kinds that get the label later, too, by a rollout that happens anyway, and for which there is quota."""

WHOLE = """
                    create   dry run  template  elsewhere  deleting  scale    status   delete
clean               allowed  allowed  allowed   allowed    allowed   allowed  allowed  allowed
no label            patched  patched  warned    warned     allowed   allowed  allowed  allowed
label added         -        -        refused   refused    refused   -        -        -
label removed       -        -        patched   patched    allowed   -        -        -
no label, more      -        -        denied    -          allowed   -        -        -
limit only          denied   denied   warned    warned     -         allowed  allowed  allowed
request added       -        -        allowed   -          -         -        -        -
request removed     -        -        denied    -          -         -        -        -
limit only, more    -        -        denied    -          -         -        -        -
"""
"""Kinds that are admitted as a whole: the label comes at creation or never, and Kueue has it immutable."""

TABLES = {short(row): WHOLE if row.gang and row.relabel is Relabel.NOTHING else ONE_BY_ONE for row in WORKLOADS}

# row: the state it starts from, and how the write changes it
ROWS: dict[str, tuple[str, tuple[Change, ...]]] = {
    "clean": ("clean", ()),
    "no label": ("unlabelled", ()),
    "label added": ("unlabelled", (add_label,)),
    "label removed": ("clean", (remove_label,)),
    "no label, more": ("unlabelled", (double,)),
    "limit only": ("limit-only", ()),
    "request added": ("limit-only", (add_request,)),
    "request removed": ("clean", (remove_request,)),
    "limit only, more": ("limit-only", (double,)),
}


def alike(rows: str, columns: str, verdict: str) -> dict[str, str]:
    """The same verdict in several cells."""
    return {f"{row}/{column}": verdict for row in rows.split("; ") for column in columns.split("; ")}


NO_LABEL = "no label; label removed; no label, more"
EVERY_ROW = "; ".join(ROWS)
UPDATES = "template; elsewhere; deleting"

EXCEPTIONS: dict[str, dict[str, str]] = {
    # No queue can hold it. Each write of it is told so.
    "daemonset": alike(NO_LABEL, "create; dry run; template; elsewhere", "warned"),
    # We are asked about its creation alone, when the API server has filled in the request. Then hardly anything of it
    # can change, and the label cannot, for Kueue. On its way out it is soon gone.
    "pod": alike("limit only", "create; dry run; elsewhere", "allowed")
    | alike(EVERY_ROW, "template", "refused")
    | alike("no label", "elsewhere", "allowed")
    | alike("label added; label removed", "elsewhere", "refused")
    | alike(EVERY_ROW, "deleting", "-"),
    # The label is for the Jobs to come.
    "cronjob": alike("no label", "elsewhere", "patched"),
    # The API server holds the template.
    "job": alike(EVERY_ROW, "template", "refused") | alike("no label, more", "deleting", "refused"),
    "trainjob": alike(EVERY_ROW, "template", "refused") | alike("no label, more", "deleting", "refused"),
    # Kueue does not see it, or is not set up to.
    "volcano-job": alike("label added", UPDATES, "allowed"),
    # It has one number for both request and limit.
    "sparkapplication": alike("label added", UPDATES, "allowed")
    | alike("limit only; request added; request removed; limit only, more", "create; dry run; template", "-")
    | alike("limit only", "elsewhere; scale; status; delete", "-"),
    # Kueue holds the resources, and of two who refuse, the API server passes on whoever answers first.
    "leaderworkerset": alike("request added", "template", "refused")
    | alike("request removed", "template", "denied or refused")
    | alike("label removed", "deleting", "refused"),
    # It has a second template, whose pods the label would restart without need.
    "llminferenceservice": alike("no label", "template", "warned") | alike("no label, more", "template", "denied"),
}

SCALED = """
deployment statefulset replicaset replicationcontroller rollout cloneset leaderworkerset pytorchjob paddlejob jaxjob
"""
"""What has a scale subresource."""

BYSTANDERS = Path(__file__).parents[1] / "bystanders"

ADVICE = {
    "knative-configuration": {"surge-without-quota"},
    "knative-service": {"surge-without-quota"},
    "llminferenceservice": {"surge-without-quota"},
    "sparkapplication": {"unknown-queue"},
}
"""Rules that have something to say of the manifest whatever becomes of it."""


def cells() -> Iterator[Any]:
    for kind, table in TABLES.items():
        header, *lines = (re.split(r" {2,}", line.strip()) for line in table.strip().splitlines())
        for row, *verdicts in lines:
            for column, usual in zip(header, verdicts, strict=True):
                expected = EXCEPTIONS.get(kind, {}).get(f"{row}/{column}", usual)
                if "-" not in (usual, expected) and (column != "scale" or kind in SCALED.split()):
                    yield pytest.param(kind, row, column, expected, id=f"{kind}/{row}/{column}")


@pytest.fixture(scope="module")
def world(cluster: Cluster, api: Api, floorkeeper: Floorkeeper) -> Iterator[World]:
    with made_world(cluster, api) as world:
        yield world


def write(world: World, kind: str, row: str, column: str) -> Answer:
    state, changes = ROWS[row]
    match column:
        case "create" | "dry run":
            value = world.written(kind, "made", *{"clean": (add_label,)}.get(row, FOUND.get(state, ())))
            value["metadata"]["name"] += f"-{state}-{column[0]}"
            answer = world.api.create(value, dry_run=column == "dry run")
            stored = column == "create" and answer.code == 201
            assert (world.api.read(value) is not None) is stored
            return answer
        case "template":
            return world.change(kind, state, change_template, *changes)
        case "elsewhere":
            return world.change(kind, state, change_elsewhere, *changes)
        case "deleting":
            return world.change(kind, f"leaving-{state}", change_elsewhere, *changes)
        case "scale":
            return world.change(kind, state, lambda scale, _: scale["spec"].update(replicas=3), subresource="scale")
        case "status":
            return world.change(kind, state, double, subresource="status")
        case _:
            return world.api.delete(world.written(kind, state), dry_run=True)


def verdict(kind: str, answer: Answer) -> str:
    if answer.code == 422 or '.kb.io" denied the request' in answer.message:
        return "refused"
    if answer.code == 403 and '.floorkeeper.io" denied the request' in answer.message:
        return "denied"
    assert answer.code in (200, 201), answer
    assert not [text for text in answer.warnings if text.startswith("unknown field")], "not as its definition has it"
    said = [text for text in answer.warnings if rule_of(text) not in {"", *ADVICE.get(kind, ())}]
    if any("; patched: " in text for text in said):
        return "patched"
    return "warned" if said else "allowed"


def rule_of(text: str) -> str:
    found = re.search(r"\[([a-z-]+)\]$", text)
    return found[1] if found else ""


@pytest.mark.parametrize(("kind", "row", "column", "expected"), list(cells()))
def test_verdicts(world: World, kind: str, row: str, column: str, expected: str) -> None:
    answer = write(world, kind, row, column)
    assert verdict(kind, answer) in expected.split(" or "), (answer.message, answer.warnings)
    if answer.code in (200, 201) and column not in ("scale", "delete"):
        labelled = row not in NO_LABEL.split("; ") or expected == "patched"
        assert labels(answer.value, kind).get(QUEUE_LABEL) == (QUEUE if labelled else None)


# What a kind makes is not judged again: an owner, and what its controller makes for it.
CHILDREN = """
deployment replicaset; replicaset pod; statefulset pod; daemonset pod; replicationcontroller pod; job pod; jobset job
cloneset pod; volcano-job pod; leaderworkerset pod; leaderworkerset statefulset; rollout replicaset
notebook statefulset
knative-service knative-configuration; inferenceservice deployment; inferenceservice knative-service
llminferenceservice deployment
llminferenceservice leaderworkerset; raycluster pod; rayjob raycluster; rayservice raycluster; pytorchjob pod; tfjob pod
xgboostjob pod; jaxjob pod; paddlejob pod; mpijob job; trainjob jobset; appwrapper job; sparkapplication pod
"""


def test_every_owner_is_tried() -> None:
    """But for a Pod, and for what others make and nobody's controller."""
    owners = {pair.split()[0] for pair in re.split("[;\n]", CHILDREN.strip())}
    assert {short(row) for row in WORKLOADS} - owners <= {"pod", "cronjob", "knative-configuration"}


def test_what_has_a_scale_is_scaled(world: World) -> None:
    found = set()
    for row in WORKLOADS:
        address = path(world.written(short(row), "clean")).partition("/namespaces/")[0]
        names = {resource["name"] for resource in world.api.client.get(address).json()["resources"]}
        found |= {short(row)} if f"{row.resource}/scale" in names else set()
    assert found == set(SCALED.split())


def owned(world: World, owner: str, kind: str) -> Object:
    """An object without a label, as the controller of a clean one makes it."""
    parent = world.api.read(world.written(owner, "clean"))
    reference = {name: parent[name] for name in ("apiVersion", "kind")}
    reference |= {name: parent["metadata"][name] for name in ("name", "uid")} | {"controller": True}
    value = world.written(kind, "clean")
    value["metadata"] |= {"name": f"of-{owner}", "ownerReferences": [reference]}
    return value


def test_what_they_make_is_not_asked_about(world: World, floorkeeper: Floorkeeper) -> None:
    calls = floorkeeper.calls()
    for pair in re.split("[;\n]", CHILDREN.strip()):
        owner, kind = pair.split()
        answer = done(world.api.create(owned(world, owner, kind), dry_run=True))
        assert QUEUE_LABEL not in labels(answer.value, kind), pair
    assert floorkeeper.calls() == calls


# The accelerators of each Workload that Kueue makes and admits: one for each pod, each group, or the whole.
ADMITTED = {
    "deployment": [1, 1],
    "statefulset": [1, 1],
    "replicaset": [1, 1],
    "replicationcontroller": [1, 1],
    "pod": [1],
    "job": [2],
    "cronjob": [1],
    "jobset": [4],
    "leaderworkerset": [4, 4],
    "raycluster": [4],
    "rayjob": [4],
    "rayservice": [4],
    "pytorchjob": [4],
    "tfjob": [2],
    "xgboostjob": [2],
    "jaxjob": [4],
    "paddlejob": [2],
    "mpijob": [4],
    "trainjob": [4],
    "appwrapper": [4],
}


def admitted(world: World, state: str) -> dict[str, list[int]]:
    """The accelerators that Kueue counts for each Workload of a namespace, by the kind that it was made for."""
    found: dict[str, list[int]] = {}
    for workload in world.cluster.items("workloads.kueue.x-k8s.io", "-n", world.namespace(state)):
        assert workload["spec"]["queueName"] == QUEUE
        pod_sets = workload.get("status", {}).get("admission", {}).get("podSetAssignments", [])
        used = sum(int(pod_set.get("resourceUsage", {}).get(GPU, 0)) for pod_set in pod_sets)
        found.setdefault(top(world.api, workload), []).append(used)
    # A DaemonSet's pods are as many as there are nodes.
    found.pop("daemonset", None)
    return found


def top(api: Api, value: Object) -> str:
    """The kind of what made it in the end."""
    for reference in value["metadata"].get("ownerReferences", []):
        # Of a group's Workload, the LeaderWorkerSet is no controller.
        if reference.get("controller") or value["kind"] == "Workload":
            name = {"name": reference["name"], "namespace": value["metadata"]["namespace"]}
            owner = api.read({"apiVersion": reference["apiVersion"], "kind": reference["kind"], "metadata": name})
            return top(api, owner)
    return str(value["kind"]).lower()


def test_kueue_makes_one_workload_of_each_unit(world: World) -> None:
    for state in ("clean", "unlabelled"):
        name = world.written("cronjob", state)["metadata"]["name"]
        world.cluster("create", "job", f"{name}-1", f"--from=cronjob/{name}", "-n", world.namespace(state))
    for owner, kind in (("rayjob", "raycluster"), ("jobset", "job"), ("trainjob", "jobset")):
        done(world.api.create(owned(world, owner, kind)))
    until("all are admitted", lambda: admitted(world, "clean") == ADMITTED)
    # A CronJob that was there before is an old offender; its next Job is not.
    until("the late Job is admitted", lambda: admitted(world, "unlabelled") == {"cronjob": [1]})
    stays("nothing is queued twice", lambda: admitted(world, "clean") == ADMITTED, 2)


def bystanders() -> Iterator[Object]:
    for file in sorted(BYSTANDERS.glob("*.yaml")):
        yield from read_documents(file)
    for name in ("litellm", "postgres", "prometheus"):
        metadata = {"name": name, "labels": {"app": name}}
        ports = [{"name": "http", "port": 80, "targetPort": "http"}]
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": "{}"}}
        spec = {"clusterIP": "None", "selector": {"app": name}, "ports": ports}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def text(value: Object) -> str:
    """The object without what the API server owns."""
    owned = ("namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields")
    metadata = {name: entry for name, entry in value["metadata"].items() if name not in owned}
    return json.dumps({**value, "metadata": metadata}).replace(value["metadata"]["uid"], "UID")


def test_bystanders_are_left_byte_for_byte(world: World, floorkeeper: Floorkeeper) -> None:
    calls = floorkeeper.calls()
    api, autoscalers = world.api, 0
    for value in bystanders():
        ours, theirs = (
            {**value, "metadata": {**value["metadata"], "namespace": world.namespace(state)}}
            for state in ("made", "unmanaged")
        )
        answers = [done(api.create(each)) for each in (ours, theirs)]
        assert text(answers[0].value) == text(answers[1].value)
        assert answers[0].warnings == answers[1].warnings
        # Of an autoscaler we ask what it scales, and say nothing.
        autoscalers += value["kind"] == "HorizontalPodAutoscaler"
        changed = [done(api.change(each, lambda stored: change_elsewhere(stored, ""))) for each in (ours, theirs)]
        assert changed[0].value["metadata"]["annotations"]["example.com/note"] == "1"
        if value["kind"] in ("Deployment", "StatefulSet"):
            done(api.change(ours, lambda scale: scale["spec"].update(replicas=3), subresource="scale"))
    for value in bystanders():
        done(api.delete({**value, "metadata": {**value["metadata"], "namespace": world.namespace("made")}}))
    assert floorkeeper.calls() == calls + autoscalers


def test_what_is_leaving_goes(world: World, floorkeeper: Floorkeeper) -> None:
    calls = floorkeeper.calls()
    world.let_go()

    def left() -> list[str]:
        states = ("leaving-clean", "leaving-unlabelled")
        return [kind for kind in PLACES for state in states if world.api.read(world.written(kind, state))]

    until("all are gone", lambda: not left())
    assert floorkeeper.calls() == calls
