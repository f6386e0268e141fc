"""`floorkeeper verify` on a cluster in memory: each assertion passes, fails and is not evaluated."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.live.rollout_world import GATE, GPU, KUEUE, TEAM, WORKLOADS, Value, World, cluster_queue, deployment, node
from tests.live.verify_world import failing, made, verified
from webhook.engine.policy import Exemption, Policy
from webhook.kube.names import QUEUE_LABEL
from webhook.live.api import ApiError
from webhook.live.verify.assertion import Assertion, Outcome, text
from webhook.live.verify.assertion import json as as_json
from webhook.live.verify.command import assertions, exit_code


def test_all_is_well() -> None:
    found = verified(made())
    assert {each.outcome for each in found.values()} == {Outcome.PASS}
    assert exit_code(list(found.values())) == 0
    assert found["one-workload-each"].evidence == ["5 pods in queues, 5 Workloads of pods"]
    assert found["admitted-within-nominal"].evidence == [
        "cohort pool: 5 of 10 nvidia.com/gpu in gpus admitted (cq-a 3 of its 5, cq-b 2 of its 5)"
    ]
    assert found["floors-fit"].evidence == ["nvidia.com/gpu in gpus: floors 10, hardware 10, usable 10"]


def test_gated_beyond_the_budget_is_well() -> None:
    found = verified(made(replicas=7))
    assert failing(found) == {}
    assert found["gated-beyond-budget"].evidence == [
        "2 gated in a-lq: couldn't assign flavors to pod set main: insufficient unused quota",
        "2 gated, 7 ready",
    ]


def _no_condition(world: World) -> None:
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["status"].pop("conditions")


def _old_condition(world: World) -> None:
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["metadata"]["generation"] = 2


def _inactive(world: World) -> None:
    condition = {"type": "Active", "status": "False", "message": "FlavorNotFound", "observedGeneration": 1}
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["status"]["conditions"] = [condition]


def _nowhere(world: World) -> None:
    world.value(f"localqueues.{KUEUE}", "a-lq")["spec"]["clusterQueue"] = "cq-x"


def _no_queue(world: World) -> None:
    for name in ("a-lq", "b-lq"):
        del world.stored[f"localqueues.{KUEUE}", TEAM, name]


def _alone(world: World) -> None:
    for name, cohort in (("cq-a", "one"), ("cq-b", "two")):
        world.value(f"clusterqueues.{KUEUE}", name, "")["spec"]["cohortName"] = cohort


def _uncounted(world: World) -> None:
    workload = world.of(WORKLOADS.name)[0]
    del world.stored[WORKLOADS.name, TEAM, workload["metadata"]["name"]]


def _left_behind(world: World) -> None:
    pod = world.pods("model-a")[0]
    del world.stored["pods", TEAM, pod["metadata"]["name"]]


def _lowered(world: World) -> None:
    for name in ("cq-a", "cq-b"):
        quota = world.value(f"clusterqueues.{KUEUE}", name, "")["spec"]["resourceGroups"][0]["flavors"][0]
        quota["resources"][0]["nominalQuota"] = "2"


def _outside(world: World) -> None:
    world.put(deployment("canary", 1))
    world.run(3)


def _too_many(world: World) -> None:
    del world.stored["nodes", "", "one"]
    world.put(node("two", 8))


def _room(world: World) -> None:
    """Gated, and its floor is free: Kueue has stopped looking."""
    pod = world.pods("model-a")[0]
    pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    for workload in world.of(WORKLOADS.name):
        if workload["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]:
            condition = {"type": "QuotaReserved", "status": "False", "message": "The workload is requeued"}
            workload["status"] = {"conditions": [condition]}


@pytest.mark.parametrize(
    ("change", "which", "said"),
    [
        (_no_condition, "controller-answers", 'ClusterQueue "cq-a" has no Active condition: no controller looks at it'),
        (_old_condition, "controller-answers", "its Active condition is of generation 1, its spec of 2"),
        (
            _inactive,
            "queues-active",
            'ClusterQueue "cq-a" is not Active: FlavorNotFound; until it is, its pods stay gated',
        ),
        (_nowhere, "queues-active", 'LocalQueue "a-lq" leads to ClusterQueue "cq-x", which does not exist: create it'),
        (_no_queue, "queues-active", "namespace team has no LocalQueue"),
        (_alone, "cohort-shared", "must name a cohort that another queue is in, is one, where it is alone"),
        (_uncounted, "one-workload-each", "the label is there and no Workload, so no queue counts it"),
        (_left_behind, "one-workload-each", "its pod is gone, and it still holds its finalizer"),
        (_lowered, "admitted-within-nominal", "cohort pool: 5 of 4 nvidia.com/gpu in gpus admitted"),
        (
            _outside,
            "none-outside",
            "Deployment canary: 1 pod with accelerators that no queue counts; floorkeeper adopt canary --queue QUEUE",
        ),
        (
            _too_many,
            "floors-fit",
            'ClusterQueue "cq-a" 5 + ClusterQueue "cq-b" 5 = 10; hardware: 8 on 1 node: lower a floor',
        ),
        (
            _room,
            "gated-beyond-budget",
            ': gated although ClusterQueue "cq-a" has 2 of 5 nvidia.com/gpu of its own floor',
        ),
    ],
)
def test_failures(change: Callable[[World], None], which: str, said: str) -> None:
    world = made()
    change(world)
    found = verified(world)
    assert which in failing(found)
    assert any(said in line for line in found[which].failures), found[which].failures
    assert exit_code(list(found.values())) == 1


@pytest.mark.parametrize(
    ("forbidden", "which"),
    [
        (f"localqueues.{KUEUE}", {"controller-answers", "queues-active", "cohort-shared", "floors-fit"}),
        ("nodes", {"floors-fit"}),
        ("pods", {"one-workload-each", "gated-beyond-budget", "none-outside"}),
        (WORKLOADS.name, {"one-workload-each", "gated-beyond-budget"}),
        ("events", {"preemptions"}),
    ],
)
def test_what_may_not_be_read(forbidden: str, which: set[str]) -> None:
    world = made()
    world.forbidden = {forbidden}
    found = verified(world)
    assert failing(found) == {}
    unknown = {each.id for each in found.values() if each.outcome is Outcome.NOT_EVALUATED}
    assert which <= unknown
    assert all(f"not allowed to list {forbidden}" in line for name in which for line in found[name].unknown)
    assert exit_code(list(found.values())) == 3


def test_what_a_controller_is_about_to_do_is_no_failure() -> None:
    world = made()
    _uncounted(world)
    found = assertions(world, TEAM, Policy(), world.sleep)
    assert not any(each.failures for each in found)


def test_exempt_pods_are_evidence() -> None:
    world = made()
    _outside(world)
    policy = Policy(exemptions=(Exemption("test rig", namespace=TEAM, workload="canary*", until=date(9999, 1, 1)),))
    found = verified(world, policy)["none-outside"]
    assert found.failures == []
    assert found.evidence == ["Deployment canary is exempt (1 pod): test rig", "none found"]


@pytest.mark.parametrize(
    ("error", "outcome", "said"),
    [
        (
            ApiError('500 failed calling webhook "vclusterqueue.kb.io": deadline exceeded', 500),
            Outcome.FAIL,
            "Kueue's webhook does not answer: 500 failed calling webhook",
        ),
        *(
            (
                ApiError(said, code),
                Outcome.NOT_EVALUATED,
                f"whether it runs: {said}; there is no Lease c1f6bfd2.kueue.x-k8s.io. A controller that has stopped",
            )
            for said, code in (
                ("not allowed to patch clusterqueues; ask for that right", 403),
                ("503 the API server is overloaded", 503),
                ("504 timeout: request did not complete", 504),
                ("the API server does not answer: timed out", 0),
                ('500 failed calling webhook "clusterqueues.example.com": no answer', 500),
                ('403 admission webhook "clusterqueues.example.com" denied the request: no', 403),
                ('400 admission webhook "clusterqueues.example.com" does not support dry run', 400),
            )
        ),
        (ApiError('403 admission webhook "vclusterqueue.kb.io" denied the request: no', 403), Outcome.PASS, "answers"),
        (None, Outcome.PASS, "Kueue's webhook, which is of the same process, answers (a dry run that changes nothing)"),
    ],
)
def test_whether_its_process_answers(error: ApiError | None, outcome: Outcome, said: str) -> None:
    world = made()

    def answer(value: Value) -> None:
        if error is not None:
            raise error

    world.webhook = answer
    found = verified(world)["controller-answers"]
    assert found.outcome is outcome
    assert any(said in line for line in (*found.evidence, *found.failures, *found.unknown)), found


def _lease(renewed: str, home: str = "kueue-system") -> Value:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "c1f6bfd2.kueue.x-k8s.io", "namespace": home},
        "spec": {"holderIdentity": "kueue-1", "renewTime": renewed},
    }


def test_a_lease_that_nobody_renews() -> None:
    world = made()
    world.put(_lease("2026-01-01T00:00:00.000000Z"))
    assert "no controller runs" in verified(world)["controller-answers"].failures[0]


def test_a_lease_that_is_renewed() -> None:
    world = made()
    world.webhook = refuse
    world.put(_lease("2026-01-01T00:00:00.000000Z", "formerly-kueue"))
    world.put(_lease(datetime.now(UTC).isoformat()))
    found = verified(world)["controller-answers"]
    assert found.outcome is Outcome.PASS
    assert "Lease c1f6bfd2.kueue.x-k8s.io was renewed within the last 60 s, by kueue-1" in found.evidence


def test_a_lease_of_times_to_come() -> None:
    world = made()
    world.put(_lease((datetime.now(UTC) + timedelta(hours=1)).isoformat()))
    assert "set the clocks" in verified(world)["controller-answers"].unknown[0]


def refuse(value: Value) -> None:
    raise ApiError("not allowed to patch clusterqueues; ask for that right", 403)


def test_as_text_and_as_json() -> None:
    passed = Assertion("one", "one holds", ["seen"])
    failed = Assertion("two", "two holds", failures=["wrong: mend it"], unknown=["Node: forbidden"])
    unknown = Assertion("three", "three holds", unknown=["Pod: forbidden"])
    assert list(text(TEAM, [passed, failed, unknown])) == [
        "pass           one holds [one]",
        "               seen",
        "fail           two holds [two]",
        "               fail: wrong: mend it",
        "               not evaluated: Node: forbidden",
        "not evaluated  three holds [three]",
        "               not evaluated: Pod: forbidden",
        "namespace team: 1 pass, 1 fail, 1 not evaluated",
    ]
    assert json.loads(as_json(TEAM, [failed])) == {
        "namespace": TEAM,
        "assertions": [
            {
                "id": "two",
                "assertion": "two holds",
                "outcome": "fail",
                "evidence": [],
                "failures": ["wrong: mend it"],
                "notEvaluated": ["Node: forbidden"],
            }
        ],
    }


def test_what_keeps_several_pods_is_said_once() -> None:
    world = made()
    for workload in world.of(WORKLOADS.name):
        del world.stored[WORKLOADS.name, TEAM, workload["metadata"]["name"]]
    pods = world.pods("model-a")
    for pod in pods:
        pod["spec"]["schedulingGates"] = [dict(GATE)]
    (failure,) = verified(world)["gated-beyond-budget"].failures
    names = ", ".join(pod["metadata"]["name"] for pod in pods)
    assert failure.startswith(f"{names}: gated, and Kueue has made no Workload of it yet: see that Kueue's controller")


def test_a_larger_pod_has_no_room() -> None:
    """What is left of a floor is not enough for it, so it is gated with reason."""
    world = made()
    world.stored[f"clusterqueues.{KUEUE}", "", "cq-a"] = cluster_queue("cq-a", 3)
    _room(world)
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["status"]["flavorsReservation"] = [
        {"name": "gpus", "resources": [{"name": GPU, "total": "3"}]}
    ]
    assert "gated-beyond-budget" not in failing(verified(world))
    assert all(QUEUE_LABEL in pod["metadata"]["labels"] for pod in world.pods("model-a"))


def test_nothing_passes_without_evidence() -> None:
    world = made()
    for kind in ("localqueues.kueue.x-k8s.io", "deployments.apps", "pods"):
        for key in [key for key in world.stored if key[0] == kind]:
            del world.stored[key]
    found = verified(world)
    assert exit_code(list(found.values())) == 1
    for each in found.values():
        assert each.evidence or each.outcome is not Outcome.PASS, each
    assert found["floors-fit"].unknown == [
        "there is nothing to look at: no queue of the namespace has quota of accelerators"
    ]
