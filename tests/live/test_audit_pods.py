"""What `floorkeeper audit` says of pods: why they are gated, and which no queue counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api_server import Answering
from tests.checking import TEAM, deployment, flavor, namespace, node
from tests.live.audit_world import (
    NOW,
    Object,
    audited,
    but,
    cluster,
    lines,
    look,
    missed,
    owner,
    pod,
    said,
    told,
)
from webhook.engine.policy import Exemption, Policy

DELETED = "2026-11-30T11:00:00Z"
GATES = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
POD_SET: Any = {"kueue.x-k8s.io/podset": "main"}
GROUP: Any = {"kueue.x-k8s.io/pod-group-name": "w"}
PREBUILT: Any = {"kueue.x-k8s.io/prebuilt-workload-name": "w"}


def workload(name: str, *pods: str, reserved: str = "False", message: str = "", **conditions: str) -> Object:
    found = [{"type": "QuotaReserved", "status": reserved, "reason": "Pending", "message": message}]
    found += [{"type": kind, "status": status} for kind, status in conditions.items()]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": TEAM,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": each, "uid": each} for each in pods],
        },
        "status": {"conditions": found if message or reserved == "True" else []},
    }


def test_gated_pods_say_why_in_kueues_words(tmp_path: Path) -> None:
    lacking = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu, 1 more needed"
    template = owner("ReplicaSet", "x-5d4")
    gated = [pod(f"x-5d4-{number}", "a-lq", GATES, template) for number in range(1, 10)]
    gated[6]["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "group"
    gated[7]["metadata"]["deletionTimestamp"] = "2026-11-30T11:00:00Z"
    objects = but(
        *gated,
        workload("pod-1", "x-5d4-1", message=lacking),
        workload("pod-2", "x-5d4-2", message=lacking),
        workload("pod-3", "x-5d4-3", message="ClusterQueue c doesn't exist"),
        workload("pod-4", "x-5d4-4"),
        workload("pod-5", "x-5d4-5", reserved="True"),
        workload("pod-6", "x-5d4-6", reserved="True", Admitted="True"),
        workload("group", message=lacking),
    )
    place = "spec.schedulingGates: must be admitted, is gated"
    waits = "free quota for it, scale down, or let it wait: it holds no accelerator meanwhile [setup/gated-pods]"
    mend = "mend what Kueue names: until then it waits [setup/gated-pods]"
    seen = "see that Kueue's controller runs with the pod integration on, and manages this namespace [setup/gated-pods]"
    assert told(tmp_path, *objects) == [
        f'warn: Pod "x-5d4-1" and 2 more: {place}: {lacking}; fix: {waits}',
        f'warn: Pod "x-5d4-3": {place}: ClusterQueue c doesn\'t exist; fix: {mend}',
        f'warn: Pod "x-5d4-4": {place}: Kueue has not looked at its Workload yet; fix: {seen}',
        f'warn: Pod "x-5d4-5": {place}: it has quota, and waits for admission checks; fix: {mend}',
        f'warn: Pod "x-5d4-6": {place}: Kueue has admitted it this moment; fix: look again; if it is so still, {seen}',
        f'warn: Pod "x-5d4-9": {place}: Kueue has made no Workload of it yet; fix: {seen}',
    ]


WORKLOADS = "not allowed to list workloads.kueue.x-k8s.io; ask for that right"


def test_gated_pods_whose_workloads_may_not_be_read(tmp_path: Path) -> None:
    with cluster(*but(pod("x", "a-lq", GATES))) as api:
        api.forbidden.add(("list", "workloads"))
        found = look(api, tmp_path)
    assert missed(found) == [f"workloads.kueue.x-k8s.io: {WORKLOADS}", f"setup/gated-pods: {WORKLOADS}"]
    assert lines(found) == [
        'warn: Pod "x": spec.schedulingGates: must be admitted, is gated: why is not known; fix: read its Workload, '
        "which says what is lacking [setup/gated-pods]"
    ]


def test_gated_pods_of_a_namespace_that_goes(tmp_path: Path) -> None:
    going = namespace("going")
    going["status"] = {"phase": "Terminating"}
    waits = pod("x", "a-lq", GATES)
    waits["metadata"]["namespace"] = "going"
    assert told(tmp_path, *but(going, waits)) == []


def test_workloads_are_read_where_a_pod_waits_or_says_that_it_is_counted(tmp_path: Path) -> None:
    with cluster(*but(pod("x"))) as api:
        look(api, tmp_path)
        assert api.asked("list", "workloads") == []
    for each in (pod("x", "a-lq"), pod("x", **POD_SET), pod("x", "a-lq", GATES)):
        with cluster(*but(each)) as api:
            look(api, tmp_path)
            assert [request.namespace for request in api.asked("list", "workloads")] == [TEAM]


def test_pods_on_accelerators_that_no_queue_counts(tmp_path: Path) -> None:
    of = owner("ReplicaSet", "rogue-5d4")
    replicas = [pod(f"rogue-5d4-{each}", owner=of, **{"pod-template-hash": "5d4"}) for each in ("a", "b")]
    done = pod("done")
    done["status"]["phase"] = "Succeeded"
    cpu = pod("cpu")
    cpu["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
    set_ = pod("db-0", owner=owner("StatefulSet", "db"))
    foreign = pod("trainer-0", owner=owner("TrainingSet", "trainer", "ai.example.com/v1"))
    counted = [pod("x", "a-lq"), workload("pod-x", "x")]
    objects = but(deployment("rogue"), *replicas, done, cpu, set_, foreign, pod("bare"), *counted)
    fix = "label it for a queue (floorkeeper adopt, for a Deployment): Kueue takes what it holds for free"
    must, end = "must be counted by a queue, is outside of any with", f"; fix: {fix} [setup/uncounted-pods]"
    assert told(tmp_path, *objects) == [
        f'warn: Deployment "rogue": spec.template: {must} 2 nvidia.com/gpu in 2 pods{end}',
        f'warn: Pod "bare": metadata.labels[kueue.x-k8s.io/queue-name]: {must} 1 nvidia.com/gpu in 1 pod{end}',
        f'warn: StatefulSet "db": spec.template: {must} 1 nvidia.com/gpu in 1 pod{end}',
        f'warn: TrainingSet "trainer": spec: {must} 1 nvidia.com/gpu in 1 pod{end}',
    ]


def test_uncounted_pods_of_other_namespaces_on_the_nodes_of_the_flavors(tmp_path: Path) -> None:
    strays = [pod("inside"), pod("outside"), pod("unknown")]
    for stray, place in zip(strays, ("n1", "n2", "n3"), strict=True):
        stray["metadata"]["namespace"], stray["spec"]["nodeName"] = "free", place
    objects = but(namespace("free", managed=False), flavor(pool="a"), node("n1", pool="a"), node("n2"), *strays)
    assert told(tmp_path, *objects) == [
        'warn: Pod "inside": metadata.labels[kueue.x-k8s.io/queue-name]: must be counted by a queue, is outside of any '
        "with 1 nvidia.com/gpu in 1 pod; fix: label it for a queue in a managed namespace, or keep it off the nodes of "
        "the flavors [setup/uncounted-pods]"
    ]
    assert told(tmp_path, *objects, namespaces=[TEAM]) == []


LABELLED = (
    'warn: Pod "{}": metadata.labels[kueue.x-k8s.io/queue-name]: must be counted by a queue, is labelled for one, and '
    "without a Workload, with 1 nvidia.com/gpu in 1 pod; fix: see that Kueue's controller runs with the pod "
    "integration on, and manages this namespace; then restart it: the label came too late, or Kueue did not heed it "
    "[setup/uncounted-pods]"
)


def test_labelled_pods_without_a_workload(tmp_path: Path) -> None:
    """They were made while Kueue's webhooks did not see them. A Workload of the same name's former pod is another's."""
    former = workload("pod-again", "again")
    former["metadata"]["ownerReferences"][0]["uid"] = "former"
    objects = but(pod("x", "a-lq"), pod("y", "b-lq"), workload("pod-y", "y"), pod("again", "b-lq"), former)
    assert told(tmp_path, *objects) == [LABELLED.format("again").replace('"again"', '"again" and 1 more')]


def test_a_pod_set_label_without_a_workload(tmp_path: Path) -> None:
    assert told(tmp_path, *but(pod("forged", **POD_SET))) == [
        'warn: Pod "forged": metadata.labels[kueue.x-k8s.io/queue-name]: must be counted by a queue, is outside of '
        "any, with the label kueue.x-k8s.io/podset and no Workload, with 1 nvidia.com/gpu in 1 pod; fix: label it for "
        "a queue (floorkeeper adopt, for a Deployment): Kueue takes what it holds for free [setup/uncounted-pods]"
    ]


def of(workload: Object, kind: str, name: str) -> Object:
    """The Workload as one of another object."""
    reference = {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    workload["metadata"]["ownerReferences"] = [reference]
    return workload


def annotated(value: Object, name: str) -> Object:
    value["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": name}
    return value


JOB = owner("Job", "train-0", "batch/v1")


def job(name: str, above: Object) -> Object:
    metadata = {"name": name, "namespace": TEAM, "uid": name, "ownerReferences": [above]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}}


@pytest.mark.parametrize(
    "objects",
    [
        [pod("x", owner=JOB, **POD_SET), of(workload("job-train"), "Job", "train-0")],
        [
            pod("x", owner=JOB, **POD_SET),
            job("train-0", owner("JobSet", "train", "jobset.x-k8s.io/v1alpha2")),
            of(workload("jobset-train"), "JobSet", "train"),
        ],
        [annotated(pod("x", owner=owner("Unseen", "u", "x.io/v1"), **POD_SET), "w"), of(workload("w"), "Unseen", "v")],
        [pod("x", "a-lq", **GROUP), workload("w", "y")],
        [pod("x", "a-lq", **PREBUILT), of(workload("w"), "StatefulSet", "db")],
        [pod("x", "a-lq"), workload("pod-x", "x", Finished="True")],
    ],
    ids=["Job", "JobSet", "what is not seen", "group", "prebuilt", "that ends just now"],
)
def test_pods_with_a_workload_behind_them(tmp_path: Path, objects: list[Object]) -> None:
    assert [line for line in told(tmp_path, *but(*objects)) if "uncounted" in line] == []


def test_a_pod_that_was_copied_with_all_its_labels(tmp_path: Path) -> None:
    """It has no owner; the Workload that it names is that of the pods of a Job."""
    copied = annotated(pod("copied", **POD_SET), "job-train")
    assert said(audited(tmp_path, *but(copied, of(workload("job-train"), "Job", "train-0")))) == [
        "warn setup/uncounted-pods Pod copied",
        "deny missing-queue-name Pod copied",
    ]


def test_pods_that_go_while_it_reads(tmp_path: Path) -> None:
    """Their Workloads go with them."""
    with cluster(*but(pod("gone", "a-lq"), pod("going", "a-lq"), pod("stays", "b-lq"), pod("done", "a-lq"))) as api:

        def pods_go(to: Answering) -> None:
            api.delete("Pod", TEAM, "gone")
            api.put({**(end := pod("going", "a-lq")), "metadata": {**end["metadata"], "deletionTimestamp": DELETED}})
            api.put({**pod("done", "a-lq"), "status": {"phase": "Succeeded"}})
            api.list(to, "workloads", to.asked.query, TEAM)

        api.faults["list", "workloads"].append(pods_go)
        found = look(api, tmp_path)
    assert [line for line in lines(found) if "[setup/" in line] == [LABELLED.format("stays")]


def test_without_the_right_to_see_workloads(tmp_path: Path) -> None:
    with cluster(*but(pod("labelled", "a-lq"), pod("bare"))) as api:
        api.forbidden.add(("list", "workloads"))
        found = look(api, tmp_path)
    assert [line for line in said(found) if "setup" in line] == ["warn setup/uncounted-pods Pod bare"]
    assert missed(found) == [f"workloads.kueue.x-k8s.io: {WORKLOADS}", f"setup/uncounted-pods: {WORKLOADS}"]


def test_without_the_right_to_see_nodes(tmp_path: Path) -> None:
    """Those of managed namespaces are told wherever they are."""
    outside = pod("outside")
    outside["metadata"]["namespace"] = "free"
    with cluster(*but(namespace("free", managed=False), outside, pod("inside"))) as api:
        api.forbidden.add(("list", "nodes"))
        found = look(api, tmp_path)
    assert [line for line in said(found) if "setup" in line] == ["warn setup/uncounted-pods Pod inside"]
    assert "setup/uncounted-pods: Node: not allowed to list nodes; ask for that right" in missed(found)


@pytest.mark.parametrize("home", ["kube-system", "kueue-system"])
def test_uncounted_pods_of_a_system_namespace(tmp_path: Path, home: str) -> None:
    stray = pod("stray")
    stray["metadata"]["namespace"] = home
    (line,) = told(tmp_path, *but(namespace(home), stray))
    assert line.endswith(
        "; fix: keep it off the nodes of the flavors, by a taint or a nodeSelector: no queue is for a system "
        "namespace [setup/uncounted-pods]"
    )


def test_pods_that_go_or_whose_namespace_does(tmp_path: Path) -> None:
    going = namespace("going")
    going["metadata"]["deletionTimestamp"] = DELETED
    held, left = pod("held"), pod("left")
    held["metadata"]["deletionTimestamp"] = DELETED
    left["metadata"]["namespace"] = "going"
    assert told(tmp_path, *but(going, held, left)) == []


@pytest.mark.parametrize("name", ["nightly", "nightly-1", "nightly-1-x"])
def test_pods_of_what_is_exempt_are_exempt(tmp_path: Path, name: str) -> None:
    """By the name of any of its owners, of which a CronJob is one."""
    child = pod("nightly-1-x", owner=owner("Job", "nightly-1", "batch/v1"))
    objects = but(child, job("nightly-1", owner("CronJob", "nightly", "batch/v1")))
    policy = Policy(exemptions=(Exemption("rig", namespace=TEAM, workload=name),))
    assert told(tmp_path, *objects, policy=policy) == []
    assert len(told(tmp_path, *objects)) == 1
    ended = Policy(exemptions=(Exemption("rig", namespace=TEAM, workload=name, until=NOW.date().replace(day=29)),))
    assert len(told(tmp_path, *objects, policy=ended)) == 1


# Accelerators by resource claims


def claim(kind: str, name: str, device_class: str = "gpu.nvidia.com", **devices: Any) -> Object:
    exactly = {"deviceClassName": device_class, **devices}
    spec: Object = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"spec": spec} if kind == "ResourceClaimTemplate" else spec,
    }


def claiming(name: str, queue: str = "", **source: str) -> Object:
    value = pod(name, queue)
    value["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    value["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    return value


def claimed(folder: Path, *objects: Object, forbidden: str = "") -> tuple[list[str], list[str]]:
    """What is said of uncounted pods, as far as it is about how much they hold, and what could not be looked at."""
    with cluster(*but(*objects)) as api:
        api.served["resource.k8s.io"] = ("v1",)
        if forbidden:
            api.forbidden.add(("list", forbidden))
        found = look(api, folder)
    amounts = [line.partition(" outside of any with ")[2].partition(";")[0] for line in lines(found)]
    return list(filter(None, amounts)), [line for line in missed(found) if line.startswith("setup/uncounted-pods")]


def test_uncounted_pods_with_devices_of_their_own(tmp_path: Path) -> None:
    template = claim("ResourceClaimTemplate", "two", count=2)
    one = claiming("one", resourceClaimTemplateName="two")
    assert claimed(tmp_path, template, one) == (["2 nvidia.com/gpu in 1 pod"], [])
    nic = claim("ResourceClaimTemplate", "two", "nic.example.com")
    assert claimed(tmp_path, nic, one) == ([], [])


def test_uncounted_pods_that_share_devices(tmp_path: Path) -> None:
    """Of one owner they are counted once."""
    pods = [claiming(f"p{number}", resourceClaimName="four") for number in range(3)]
    for each in pods:
        each["metadata"]["ownerReferences"] = [owner("StatefulSet", "p")]
    assert claimed(tmp_path, claim("ResourceClaim", "four", count=4), *pods) == (["4 nvidia.com/gpu in 3 pods"], [])


def test_uncounted_pods_with_devices_that_cannot_be_counted(tmp_path: Path) -> None:
    every = claim("ResourceClaimTemplate", "all", allocationMode="All")
    found = claimed(tmp_path, every, claiming("x", resourceClaimTemplateName="all"))
    assert found == (["some nvidia.com/gpu in 1 pod"], [])


def test_pods_whose_claims_are_not_known(tmp_path: Path) -> None:
    known = claim("ResourceClaimTemplate", "one")
    pods = [claiming("x", resourceClaimTemplateName="gone"), claiming("y", resourceClaimTemplateName="one")]
    assert claimed(tmp_path, known, *pods) == (
        ["1 nvidia.com/gpu in 1 pod"],
        [f"setup/uncounted-pods: ResourceClaimTemplate {TEAM}/gone, which pods claim by, is gone"],
    )
    reason = "not allowed to list resourceclaimtemplates.resource.k8s.io; ask for that right"
    assert claimed(tmp_path, known, pods[1], pod("z"), forbidden="resourceclaimtemplates") == (
        ["1 nvidia.com/gpu in 1 pod"],
        [f"setup/uncounted-pods: ResourceClaimTemplate: {reason}"],
    )


def test_uncounted_pods_with_an_extended_resource_of_a_device_class(tmp_path: Path) -> None:
    device_class: Object = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"extendedResourceName": "example.com/card"},
    }
    card = pod("x")
    card["spec"]["containers"][0]["resources"] = {"limits": {"example.com/card": "3"}}
    assert claimed(tmp_path, device_class, card) == (["3 example.com/card in 1 pod"], [])
