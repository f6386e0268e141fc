"""What `floorkeeper verify` says of pods: those that wait, those that no queue counts, and those that are not there."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from tests.live.rollout_world import GPU, KUEUE, TEAM, WORKLOADS, Value, World, deployment, local_queue
from tests.live.verify_world import Verified, failing, gated, made, pod, verified
from webhook.engine.policy import Exemption, Policy
from webhook.kube.names import POD_SET_LABEL, QUEUE_LABEL
from webhook.live.api import ApiError
from webhook.live.verify.assertion import Assertion, Outcome, text
from webhook.live.verify.assertion import json as as_json
from webhook.live.verify.command import exit_code

NIGHTLY = Policy(exemptions=(Exemption("test rig", namespace=TEAM, workload="nightly", until=date(9999, 1, 1)),))


def spec(world: World, kind: str, name: str, namespace: str = TEAM) -> dict[str, Any]:
    found: dict[str, Any] = world.value(f"{kind}.{KUEUE}", name, namespace)["spec"]
    return found


# Pods that wait


def _no_queue(world: World) -> None:
    gated(world, "lost", "no-such-lq", said="LocalQueue no-such-lq doesn't exist")


def _nowhere(world: World) -> None:
    world.put(
        {
            "apiVersion": f"{KUEUE}/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "x-lq", "namespace": TEAM},
            "spec": {"clusterQueue": "cq-x"},
        }
    )
    gated(world, "lost", "x-lq")


def _too_big(world: World) -> None:
    gated(world, "big", "a-lq", 64)


def _stopped(world: World) -> None:
    spec(world, "localqueues", "a-lq")["stopPolicy"] = "Hold"
    gated(world, "held", "a-lq")


def _stopped_above(world: World) -> None:
    spec(world, "clusterqueues", "cq-a", "")["stopPolicy"] = "HoldAndDrain"
    gated(world, "held", "a-lq")


def _inactive(world: World) -> None:
    condition = {"type": "Active", "status": "False", "message": "FlavorNotFound", "observedGeneration": 1}
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["status"]["conditions"] = [condition]
    gated(world, "held", "a-lq")


def _closed(world: World) -> None:
    spec(world, "clusterqueues", "cq-a", "")["namespaceSelector"] = {"matchLabels": {"team": "other"}}
    gated(world, "held", "a-lq")


def _uncovered(world: World) -> None:
    gated(world, "held", "a-lq")
    container = world.value("pods", "held")["spec"]["containers"][0]
    container["resources"] = {"limits": {"example.com/fpga": "1"}}


def _off(world: World) -> None:
    gated(world, "held", "a-lq", active=False)


def _let_go(world: World) -> None:
    conditions = [{"type": each, "status": "True"} for each in ("QuotaReserved", "Admitted")]
    gated(world, "held", "a-lq")["status"]["conditions"] = conditions


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            _no_queue,
            'lost: gated, and nothing lets it go: there is no LocalQueue "no-such-lq" in namespace team: create',
        ),
        (_nowhere, 'LocalQueue "x-lq" leads to ClusterQueue "cq-x", which does not exist: create it'),
        (_too_big, f'it asks for 64 {GPU}, and ClusterQueue "cq-a" can have 10 at the most, borrowed quota included'),
        (_stopped, 'LocalQueue "a-lq" is stopped (stopPolicy Hold): set that to None'),
        (_stopped_above, 'ClusterQueue "cq-a" is stopped (stopPolicy HoldAndDrain): set that to None'),
        (_inactive, 'ClusterQueue "cq-a" is not Active: FlavorNotFound: mend that'),
        (_closed, 'ClusterQueue "cq-a" takes nothing from namespace team: see its namespaceSelector'),
        (_uncovered, 'it asks for example.com/fpga, which ClusterQueue "cq-a" does not cover'),
        (_off, "Workload pod-held is off: set its spec.active to true"),
        (_let_go, "gated, though its Workload is admitted: see that Kueue's controller runs"),
    ],
)
def test_gated_for_another_reason_than_the_budget(change: Callable[[World], None], said: str) -> None:
    world = made()
    change(world)
    found = verified(world)["gated-beyond-budget"]
    assert len(found.failures) == 1
    assert said in found.failures[0]
    assert not any("gated in" in line for line in found.evidence)


def _not_looked_at(world: World) -> None:
    gated(world, "next", "a-lq", 4, said="")


def _checked(world: World) -> None:
    workload = gated(world, "next", "a-lq")
    workload["status"] = {
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "admissionChecks": [{"name": "nodes", "state": "Pending", "message": "asked for"}],
    }


def _preempting(world: World) -> None:
    gated(world, "next", "a-lq", said="insufficient unused quota. Pending the preemption of 1 workload(s)")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_not_looked_at, "Kueue has not looked at its Workload yet: look again"),
        (_checked, "it has quota, and waits for admission checks (nodes is Pending: asked for); look again"),
        (_preempting, "Pending the preemption of 1 workload(s); look again once they are gone"),
    ],
)
def test_whether_it_waits_rightly_is_not_known_yet(change: Callable[[World], None], said: str) -> None:
    world = made()
    change(world)
    found = verified(world)["gated-beyond-budget"]
    assert found.outcome is Outcome.NOT_EVALUATED
    assert said in found.unknown[0]


def test_a_queue_that_cannot_be_looked_at_is_not_fine() -> None:
    world = made()
    _no_queue(world)
    world.forbidden = {f"localqueues.{KUEUE}"}
    found = verified(world)["gated-beyond-budget"]
    assert found.outcome is Outcome.NOT_EVALUATED
    assert found.unknown[0].startswith("lost: whether it waits rightly: LocalQueue: not allowed to list")


def _in_line() -> Verified:
    """A queue of 5 of which 3 are used: one of 4 waits, and one of 1 behind it."""
    world = made()
    spec(world, "clusterqueues", "cq-a", "")["queueingStrategy"] = "StrictFIFO"
    gated(world, "head", "a-lq", 4)
    later = gated(world, "later", "a-lq", said="")
    later["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["status"]["pendingWorkloads"] = 2
    return world


def test_strict_fifo_lets_nobody_pass() -> None:
    found = verified(_in_line())["gated-beyond-budget"]
    assert found.outcome is Outcome.PASS
    assert "1 gated in a-lq: stands behind others in ClusterQueue cq-a (StrictFIFO)" in found.evidence


def test_by_priority_the_small_one_is_at_the_head() -> None:
    world = _in_line()
    world.value(WORKLOADS.name, "pod-later")["spec"]["priority"] = 100
    (failure,) = verified(world)["gated-beyond-budget"].failures
    assert failure.startswith("later: gated although ")


def test_best_effort_fifo_lets_it_pass() -> None:
    world = _in_line()
    spec(world, "clusterqueues", "cq-a", "")["queueingStrategy"] = "BestEffortFIFO"
    (failure,) = verified(world)["gated-beyond-budget"].failures
    assert failure.startswith("later: gated although ")


def test_others_may_stand_at_the_head_of_the_line() -> None:
    world = _in_line()
    for kind, name in (("pods", "head"), (WORKLOADS.name, "pod-head")):
        del world.stored[kind, TEAM, name]
    found = verified(world)["gated-beyond-budget"]
    assert found.unknown == [
        'later: whether it waits rightly: ClusterQueue "cq-a" is StrictFIFO, and pods of other namespaces may stand '
        "before it"
    ]


def test_what_is_stopped_stands_in_no_line() -> None:
    world = _in_line()
    world.put(local_queue("stopped-lq", "cq-a"))
    spec(world, "localqueues", "stopped-lq")["stopPolicy"] = "Hold"
    spec(world, "workloads", "pod-head")["queueName"] = "stopped-lq"
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["status"]["pendingWorkloads"] = 1
    (failure,) = verified(world)["gated-beyond-budget"].failures
    assert failure.startswith("later: gated although ")


def test_a_pod_group_needs_room_for_all_of_it() -> None:
    world = made()
    first, second = gated(world, "one", "a-lq"), gated(world, "two", "a-lq", 2)
    del world.stored[WORKLOADS.name, TEAM, "pod-two"]
    first["metadata"]["ownerReferences"] += second["metadata"]["ownerReferences"]
    assert "gated-beyond-budget" not in failing(verified(world))


# Pods that no queue counts


def _job(world: World, name: str, *, of: str = "", uid: str = "") -> list[Value]:
    """The ownerReferences of the Job's pods."""
    above = {"apiVersion": "batch/v1", "kind": "CronJob", "name": of, "controller": True}
    world.put(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": TEAM, "ownerReferences": [above] if of else []},
        }
    )
    return [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid or name, "controller": True}]


def test_a_label_of_kueue_counts_for_nothing_without_a_workload() -> None:
    world = made()
    world.put(pod("forged", labels={POD_SET_LABEL: "main"}))
    world.put(pod("forged-both", labels={POD_SET_LABEL: "main", QUEUE_LABEL: "a-lq"}))
    # The model's Kueue makes a Workload for whatever has a queue label; here it does not.
    world.inert = True
    found = verified(world)
    assert found["none-outside"].failures == [
        "Pod forged: 1 pod with accelerators that no queue counts; create it again with the label "
        "kueue.x-k8s.io/queue-name"
    ]
    assert found["one-workload-each"].failures[0].startswith("forged-both: the label is there and no Workload")


def test_a_job_that_is_admitted_counts_its_pods() -> None:
    world = made()
    owners = _job(world, "train", uid="uid-of-train")
    world.put(pod("train-x", labels={POD_SET_LABEL: "main"}, ownerReferences=owners))
    workload = gated(world, "other", "a-lq", 9)
    workload["metadata"] |= {"name": "job-train", "ownerReferences": [{"kind": "Job", "uid": "uid-of-train"}]}
    assert "none-outside" not in failing(verified(world))


def test_what_made_it_may_be_counted_and_not_seen() -> None:
    world = made()
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "ray", "uid": "ray", "controller": True}
    world.put(pod("ray-head", labels={POD_SET_LABEL: "main"}, ownerReferences=[owner]))
    assert verified(world)["none-outside"].unknown == [
        "ray-head: whether a Workload counts what made it cannot be seen"
    ]


def _with_claim(world: World) -> None:
    value = pod("dra", 0)
    value["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimTemplateName": "gpu"}]
    world.put(value)


def _template(world: World, device_class: str) -> None:
    request = {"name": "g", "exactly": {"deviceClassName": device_class, "count": 2}}
    world.put(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpu", "namespace": TEAM},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
    )


def _with_dra() -> Verified:
    world = made()
    world.groups["resource.k8s.io"] = "v1"
    _with_claim(world)
    return world


def test_gpus_by_resource_claims_are_seen() -> None:
    world = _with_dra()
    _template(world, "gpu.nvidia.com")
    (failure,) = verified(world)["none-outside"].failures
    assert failure.startswith("Pod dra: 1 pod with accelerators that no queue counts")


def test_other_devices_are_none_of_accelerators() -> None:
    world = _with_dra()
    _template(world, "nic.example.com")
    assert verified(world)["none-outside"].evidence == ["none found"]


def test_claims_that_cannot_be_looked_at() -> None:
    world = _with_dra()
    _template(world, "gpu.nvidia.com")
    world.forbidden = {"resourceclaimtemplates.resource.k8s.io"}
    found = verified(world)["none-outside"]
    assert (found.outcome, found.evidence) == (Outcome.NOT_EVALUATED, [])
    assert found.unknown[0].startswith("dra: whether it has accelerators: ResourceClaimTemplate: not allowed to list")


def test_a_claim_that_is_not_there() -> None:
    found = verified(_with_dra())["none-outside"]
    assert found.unknown == [
        'dra: whether it has accelerators: ResourceClaimTemplate "gpu", which it names, is not there'
    ]


def test_an_exemption_holds_for_all_that_comes_of_it() -> None:
    world = made()
    for number in range(5):
        owners = _job(world, f"nightly-2993410{number}", of="nightly")
        world.put(pod(f"nightly-2993410{number}-x", ownerReferences=owners))
    found = verified(world, NIGHTLY)["none-outside"]
    assert (found.failures, found.evidence) == ([], ["CronJob nightly is exempt (5 pods): test rig", "none found"])


def test_each_kind_gets_the_advice_that_fits_it() -> None:
    world = made()
    for number in range(3):
        owners = _job(world, f"nightly-2993410{number}", of="nightly")
        world.put(pod(f"nightly-2993410{number}-x", ownerReferences=owners))
    world.put(pod("train-x", ownerReferences=_job(world, "train")))
    for number in range(12):
        world.put(pod(f"bare-{number:02}"))
    world.put(deployment("canary", 2))
    world.run(3)
    tail = "with accelerators that no queue counts;"
    bare = ", ".join(f"bare-{number:02}" for number in range(10))
    assert sorted(verified(world)["none-outside"].failures) == [
        f"CronJob nightly: 3 pods {tail} put the label {QUEUE_LABEL} on its jobTemplate",
        f"Deployment canary: 2 pods {tail} floorkeeper adopt canary --queue QUEUE -n team",
        f"Job train: 1 pod {tail} create it again with the label {QUEUE_LABEL}",
        f"Pod {bare} and 2 more: 12 pods {tail} create it again with the label {QUEUE_LABEL}",
    ]


# Pods that are not there


def _refused(world: World) -> Value:
    """A Deployment that a ResourceQuota lets have no pod."""
    value = deployment("m", 2, queue="a-lq")
    world.put(value)
    said = 'pods "m-1" is forbidden: exceeded quota: q'
    value["status"] = {
        "observedGeneration": 1,
        "conditions": [{"type": "ReplicaFailure", "status": "True", "message": said}],
    }
    return value


def test_pods_that_cannot_be_made() -> None:
    world = Verified()
    _refused(world)
    found = verified(world)
    assert found["pods-made"].failures == [
        'Deployment "m": 0 of 2 pods: pods "m-1" is forbidden: exceeded quota: q; mend what refuses them, or scale it '
        "down"
    ]
    assert found["one-workload-each"].unknown == ["no pod is in a queue: there is nothing to look at"]
    assert exit_code(list(found.values())) == 1


def test_pods_that_are_not_made_for_no_reason_that_is_told() -> None:
    world = Verified()
    _refused(world)["status"].pop("conditions")
    (failure,) = verified(world)["pods-made"].failures
    assert failure.endswith("(kubectl describe deployment m -n team)")


def test_a_change_that_its_controller_has_not_seen() -> None:
    world = Verified()
    _refused(world)["metadata"]["generation"] = 2
    assert verified(world)["pods-made"].outcome is Outcome.NOT_EVALUATED


def test_pods_that_are_replaced_come_later() -> None:
    world = made()
    value = world.deployment("model-a")
    value["status"]["replicas"] = 2
    world.pods("model-a")[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert verified(world)["pods-made"].unknown == [
        'Deployment "model-a": 2 of 3 pods: some are going still; look again'
    ]


@pytest.mark.parametrize(
    ("policy", "there", "outcome"),
    [("OrderedReady", 1, Outcome.PASS), ("Parallel", 1, Outcome.FAIL), ("OrderedReady", 0, Outcome.FAIL)],
)
def test_a_stateful_set_makes_one_pod_after_the_other(policy: str, there: int, outcome: Outcome) -> None:
    world = made()
    template = deployment("set", queue="a-lq")["spec"]["template"]
    world.put(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "set", "namespace": TEAM, "generation": 1},
            "spec": {"replicas": 2, "podManagementPolicy": policy, "template": template},
            "status": {"observedGeneration": 1, "replicas": there},
        }
    )
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "controller": True}
    if there:
        gated(world, "set-0", "a-lq", 9)
        world.value("pods", "set-0")["metadata"]["ownerReferences"] = [owner]
    assert verified(world)["pods-made"].outcome is outcome


def test_an_ownerless_replica_set() -> None:
    world = made()
    template = deployment("alone", queue="a-lq")["spec"]["template"]
    world.put(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "alone", "namespace": TEAM, "generation": 1},
            "spec": {"template": template},
            "status": {"observedGeneration": 1, "replicas": 0},
        }
    )
    (failure,) = verified(world)["pods-made"].failures
    assert failure.startswith('ReplicaSet "alone": 0 of 1 pods')


@pytest.mark.parametrize("values", [(), (deployment("model-a", 0, queue="a-lq"),)])
def test_nothing_to_look_at_is_not_fine(values: tuple[Value, ...]) -> None:
    found = verified(Verified(*values))
    unknown = {each.id for each in found.values() if each.outcome is Outcome.NOT_EVALUATED}
    assert unknown == {"pods-made", "one-workload-each", "gated-beyond-budget"}
    assert "adopt a Deployment first" in found["pods-made"].unknown[0]
    assert exit_code(list(found.values())) == 3


# What strangers write, and what fails


HOSTILE = "\x1b[31mred\x9b2J\u202eltr\x07\x7f\nfail: more"


def test_nothing_acts_on_the_terminal() -> None:
    world = made()
    world.put(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e", "namespace": TEAM},
            "involvedObject": {"kind": f"Workload{HOSTILE}", "name": HOSTILE},
            "message": HOSTILE,
        }
    )
    owners = _job(world, "nightly-1", of="nightly")
    world.put(pod("nightly-1-x", ownerReferences=owners))
    hostile = Policy(exemptions=(Exemption(HOSTILE, namespace=TEAM, workload="nightly"),))
    found = verified(world, hostile)
    lines = list(text(TEAM, list(found.values())))
    assert sum("\\x1b[31mred\\x9b2J\\u202eltr\\x07\\x7f" in line for line in lines) == 2
    assert all(line.isprintable() for line in lines)
    written = as_json(TEAM, list(found.values()))
    assert all(line.isprintable() for line in written.split("\n"))
    evidence = [line for each in json.loads(written)["assertions"] for line in each["evidence"]]
    assert f"CronJob nightly is exempt (1 pod): {HOSTILE}" in evidence


def test_long_lines_and_lists_are_cut() -> None:
    long = Assertion("one", "one holds", [f"{number}: {'x' * 5000}" for number in range(100)])
    lines = list(text(TEAM, [long]))
    assert len(lines) == 33
    assert max(map(len, lines)) < 1100
    assert lines[31].endswith("and 70 more (-o json has all)")


def test_a_list_whose_next_page_has_expired_begins_again() -> None:
    world = made()
    world.refusals = {
        "pods": [ApiError("410 expired", 410), ApiError("410 expired", 410)],
        "nodes": [ApiError("410 expired", 410)],
    }
    assert {each.outcome for each in verified(world).values()} == {Outcome.PASS}


@pytest.mark.parametrize(
    ("resource", "which"),
    [
        ("nodes", {"floors-fit"}),
        ("pods", {"pods-made", "one-workload-each", "gated-beyond-budget", "none-outside"}),
        ("deployments.apps", {"pods-made"}),
        ("events", {"preemptions"}),
    ],
)
@pytest.mark.parametrize("code", [410, 500, 503])
def test_what_is_refused_is_not_evaluated_and_the_rest_is(resource: str, which: set[str], code: int) -> None:
    world = made()
    world.refusals = {resource: [ApiError(f"list {resource}: {code} busy", code)] * 30}
    found = verified(world)
    assert {each.id for each in found.values() if each.outcome is Outcome.NOT_EVALUATED} == which
    assert {each.outcome for each in found.values() if each.id not in which} == {Outcome.PASS}


def test_an_api_server_that_does_not_answer_is_told() -> None:
    world = made()
    world.refusals = {"pods": [ApiError("list pods: the API server does not answer: timed out")]}
    with pytest.raises(ApiError, match="does not answer"):
        verified(world)
