"""`floorkeeper release` on a cluster in memory: what it refuses, what it waits for, and what a Ctrl-C leaves."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import typer

from tests.live.rollout_world import TEAM, WORKLOADS, Value, World, deployment, local_queue
from webhook.kube.names import QUEUE_LABEL
from webhook.live.api import ApiError
from webhook.live.deployments import STRATEGY, template_queue
from webhook.live.release.walk import walk

FREE = [
    "Nothing is in these queues any more, so nothing holds up their deletion:",
    "  kubectl delete localqueues.kueue.x-k8s.io a-lq b-lq -n team",
    "  kubectl delete clusterqueues.kueue.x-k8s.io cq-a cq-b",
    "  kubectl delete resourceflavors.kueue.x-k8s.io gpus",
]


ALL_AT_ONCE = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 4}}
NONE_LEFT = "No Deployment of namespace team is in a queue."
BACK = """\
To go on once that is mended, run the same command again. To go back:
  kubectl patch deployment model-a -n team --type=merge -p \
'{"spec":{"template":{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"a-lq"}}}}}'
  floorkeeper adopt model-a --queue a-lq -n team
which puts the label back, and follows the rollout by it.
"""


def release(world: World, *names: str, **options: Any) -> int:
    """The exit code."""
    options.setdefault("yes", True)
    try:
        walk(world, TEAM, set(names), world.waiting, **options)
    except typer.Exit as end:
        return end.exit_code
    return 0


def adopted(name: str, replicas: int, queue: str) -> Value:
    return deployment(name, replicas, queue=queue, strategy=dict(STRATEGY))


def assert_out(world: World, *names: str) -> None:
    for name in names:
        value = world.deployment(name)
        assert QUEUE_LABEL not in value["spec"]["template"]["metadata"]["labels"]
        assert not any(QUEUE_LABEL in pod["metadata"]["labels"] for pod in world.pods(name))
        assert value["status"]["readyReplicas"] == value["spec"]["replicas"]


def test_all_one_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 3, "a-lq"), adopted("model-b", 2, "b-lq"), deployment("gateway", 1))
    assert len(world.of(WORKLOADS.name)) == 5
    assert release(world) == 0
    assert_out(world, "model-a", "model-b")
    assert world.of(WORKLOADS.name) == []
    assert (world.lowest["model-a"], world.lowest["model-b"]) == (2, 1)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == 'Deployment "model-a" <- LocalQueue a-lq'
    assert not any("gateway" in line for line in said)
    assert said[-5:-1] == FREE


def test_named_one_leaves_the_other_alone(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 2, "a-lq"), adopted("model-b", 1, "b-lq"))
    assert release(world, "model-a") == 0
    assert_out(world, "model-a")
    assert world.deployment("model-b")["spec"]["template"]["metadata"]["labels"][QUEUE_LABEL] == "b-lq"
    said = capsys.readouterr().out
    assert "  kubectl delete localqueues.kueue.x-k8s.io a-lq -n team\n" in said
    assert "kubectl delete clusterqueues.kueue.x-k8s.io cq-a\n" in said
    assert "b-lq" not in said, "nobody asked about it"
    assert "resourceflavors" not in said, "cq-b names the flavor too"


def test_cluster_queue_that_another_local_queue_leads_to(capsys: pytest.CaptureFixture[str]) -> None:
    """That one is empty, and nobody asked about it."""
    world = World(adopted("model-a", 2, "a-lq"), local_queue("spare-lq", "cq-a"))
    assert release(world, "model-a") == 0
    said = capsys.readouterr().out
    assert "ClusterQueue cq-a is still in use, by LocalQueue spare-lq: leave it\n" in said
    assert "delete clusterqueues" not in said


def test_strategy_that_somebody_puts_back_in_between() -> None:
    """Before the label goes it is set again."""
    world = World(deployment("model-a", 4, queue="a-lq", strategy=copy.deepcopy(ALL_AT_ONCE)))
    sets: list[int] = []

    def put_back(number: int, when: str) -> None:
        value = world.deployment("model-a")
        if when == "before" and not sets and value["spec"]["strategy"] == STRATEGY:
            sets.append(number)
            value["spec"]["strategy"] = copy.deepcopy(ALL_AT_ONCE)
            value["metadata"]["resourceVersion"] += "0"

    world.interrupt = put_back
    assert release(world) == 0
    assert sets
    assert_out(world, "model-a")
    assert world.lowest["model-a"] == 3


def test_cluster_queue_of_another_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    other = local_queue("theirs", "cq-a")
    other["metadata"]["namespace"] = "other"
    world = World(adopted("model-a", 1, "a-lq"), other)
    assert release(world) == 0
    said = capsys.readouterr().out
    assert "ClusterQueue cq-a is still in use, by LocalQueue other/theirs: leave it" in said
    assert "clusterqueues.kueue.x-k8s.io cq-b\n" in said


def test_queues_of_what_could_not_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 1, "a-lq"))
    world.forbidden = {"statefulsets.apps"}
    assert release(world) == 3
    said = capsys.readouterr().out
    assert "not everything could be looked at: StatefulSet: not allowed to list statefulsets.apps" in said
    assert "As far as could be seen, nothing is in these any more:" in said


def test_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 1))
    before = world.deployment("model-a")["metadata"]["resourceVersion"]
    assert release(world) == 0
    assert release(world, "model-a") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{NONE_LEFT}\n")
    assert said.endswith('Deployment "model-a"\n  is in no queue: nothing to do\n')
    assert world.deployment("model-a")["metadata"]["resourceVersion"] == before


def test_object_label_is_one_way(capsys: pytest.CaptureFixture[str]) -> None:
    value = adopted("model-a", 1, "a-lq")
    value["metadata"]["labels"] = {QUEUE_LABEL: "a-lq"}
    world = World(value, adopted("model-b", 1, "b-lq"))
    assert release(world, "model-a", "model-b") == 1
    assert "problem: its Deployment-level label names a-lq, and Kueue refuses to have that removed" in (
        capsys.readouterr().out
    )
    assert world.deployment("model-b")["spec"]["template"]["metadata"]["labels"][QUEUE_LABEL] == "b-lq"
    assert release(world) == 1
    said = capsys.readouterr().out
    assert "  cannot be undone: its Deployment-level label names a-lq" in said
    assert said.endswith("Still in a queue, by a label that cannot be removed: model-a.\n")
    assert_out(world, "model-b")


def test_paused(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 2, "a-lq"))
    world.deployment("model-a")["spec"]["paused"] = True
    assert release(world) == 1
    assert "it is paused, so its pods would keep the label: kubectl rollout resume" in capsys.readouterr().out


def _put_back(value: Value) -> None:
    value["spec"]["template"]["metadata"]["labels"].setdefault(QUEUE_LABEL, "a-lq")


def _deny(value: Value) -> None:
    if QUEUE_LABEL not in value["spec"]["template"]["metadata"]["labels"]:
        raise ApiError(
            'patch deployments.apps "model-a": 403 admission webhook "deployments.validate.floorkeeper.io" denied the '
            "request: it must name a LocalQueue",
            403,
        )


AT_DENY = """\
Namespace team, for model-a, model-b
  where that webhook is Floorkeeper's, the namespace is managed at deny; hold it at warn, and run this again:
    kubectl annotate namespace team floorkeeper.io/mode=warn --overwrite
  or take it out of the policy's managedNamespaces (by default: the label floorkeeper.io/managed)
"""


@pytest.mark.parametrize("webhook", [_put_back, _deny])
def test_managed_at_deny(webhook: Any, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 2, "a-lq"), adopted("model-b", 1, "b-lq"), deployment("gateway", 1))
    world.webhook = webhook
    before = world.deployment("model-a")["metadata"]["resourceVersion"]
    assert release(world) == 1
    said = capsys.readouterr()
    assert said.out.endswith(AT_DENY)
    assert said.out.count("  problem: ") == 2
    assert said.out.count("floorkeeper.io/mode=warn") == 1
    assert said.err == "floorkeeper: see the problems above; nothing was written\n"
    assert world.deployment("model-a")["metadata"]["resourceVersion"] == before


def test_put_back_although_the_dry_run_was_fine(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 2, "a-lq"))
    writes = []

    def second(value: Value) -> None:
        writes.append(value)
        if len(writes) > 1:
            _put_back(value)

    world.webhook = second
    assert release(world) == 1
    said = capsys.readouterr().out
    assert 'stopped: Deployment "model-a": a webhook put the label back: a-lq\n  where that webhook is ' in said
    assert "    kubectl annotate namespace team floorkeeper.io/mode=warn --overwrite\n" in said


def test_workload_that_does_not_go(capsys: pytest.CaptureFixture[str]) -> None:
    """An old pod drains for long, and its Workload with it."""
    world = World(adopted("model-a", 1, "a-lq"))
    world.kept = True
    assert release(world) == 1
    said = capsys.readouterr().out
    assert "waiting for 2 to go: Pod model-a-h-" in said
    assert "not gone after 20s. Kueue takes the finalizer kueue.x-k8s.io/resource-in-use off" in said
    assert "kubectl delete" not in said
    world.kept = False
    assert release(world) == 0
    assert capsys.readouterr().out.splitlines()[-5:-1] == FREE


@pytest.mark.parametrize("history", [True, False])
def test_all_goes_on_while_pods_drain(history: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Also when the ReplicaSet of the pods that drain is gone already."""
    world = World(adopted("model-a", 2, "a-lq"), adopted("model-b", 1, "b-lq"))
    world.kept, world.history = True, history
    assert release(world, "model-a") == 1
    capsys.readouterr()
    assert len(world.of("replicasets.apps")) == (3 if history else 2)
    world.interrupt = _goes_on_after(world, 5)
    assert release(world) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        'Deployment "model-a" <- LocalQueue a-lq\n  1. its label is off, and 2 of 2 replicas are updated: go on'
    )
    assert "\nwaiting for 6 to go: Pod model-a-h-" in said
    assert said.splitlines()[-5:-1] == FREE
    assert world.of(WORKLOADS.name) == []


def _goes_on_after(world: World, seconds: float) -> Callable[[int, str], None]:
    end = world.now + seconds

    def drained(number: int, when: str) -> None:
        world.kept = world.kept and world.now < end

    return drained


def test_all_goes_on_before_the_last_replica_is_ready(capsys: pytest.CaptureFixture[str]) -> None:
    """No pod with the label is left, and its rollout is not over."""
    world = World(adopted("model-a", 1, "a-lq"))
    world.stuck = {"model-a"}
    assert release(world) == 1
    world.run(3)
    assert [QUEUE_LABEL in pod["metadata"]["labels"] for pod in world.pods("model-a")] == [False]
    assert capsys.readouterr().out.endswith(BACK)
    assert release(world) == 1
    said = capsys.readouterr().out
    assert said.startswith('Deployment "model-a" <- LocalQueue a-lq\n  1. its label is off, and 1 of 1 replicas are ')
    assert "no further replica became ready within 20s" in said
    assert said.endswith(BACK)
    world.stuck = set()
    assert release(world) == 0
    assert "model-a: out of its queue: 1 of 1 ready\n" in capsys.readouterr().out
    assert_out(world, "model-a")


def test_all_leaves_alone_what_left_long_ago(capsys: pytest.CaptureFixture[str]) -> None:
    """Replicas that were added since, and another rollout."""
    world = World(adopted("model-a", 1, "a-lq"))
    assert release(world) == 0
    value = world.deployment("model-a")
    value["spec"]["replicas"] = 2
    value["metadata"]["generation"] += 1
    world.stuck = {"model-a"}
    world.run(3)
    world.deployment("model-a")["status"]["conditions"] = [{"type": "Progressing", "reason": "NewReplicaSetAvailable"}]
    capsys.readouterr()
    assert release(world, dry_run=True) == 0
    assert capsys.readouterr().out.startswith("No Deployment of namespace team is in a queue.\n")
    value["spec"]["template"]["spec"]["containers"][0]["image"] = "vllm:2"
    value["metadata"]["generation"] += 1
    world.run(3)
    assert release(world, dry_run=True) == 0
    assert capsys.readouterr().out.startswith("No Deployment of namespace team is in a queue.\n")


def test_what_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 1, "a-lq"))
    assert release(world, "model-a", "modle-a") == 2
    assert capsys.readouterr().err == (
        "floorkeeper: no Deployment modle-a in namespace team; it has model-a; what is of another kind is labelled by "
        "hand (README, Kinds); nothing was written\n"
    )
    for names in ((), ("model-a",)):
        with pytest.raises(typer.Exit) as end:
            walk(world, "nowhere", set(names), world.waiting)
        assert end.value.exit_code == 2
        assert capsys.readouterr() == ("", "floorkeeper: there is no namespace nowhere; correct the name\n")


def test_one_that_goes_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 1, "a-lq"), adopted("model-b", 1, "b-lq"))

    def take(number: int, when: str) -> None:
        if world.now:
            world.stored.pop(("deployments.apps", TEAM, "model-b"), None)

    world.interrupt = take
    assert release(world) == 1
    said = capsys.readouterr().out
    assert said.endswith('stopped: Deployment "model-b" is gone: somebody deleted it, and its pods with it\n')


def test_replica_that_does_not_become_ready(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 2, "a-lq"))
    world.stuck = {"model-a"}
    assert release(world) == 1
    said = capsys.readouterr().out
    assert (
        'stopped: Deployment "model-a": no further replica became ready within 20s: 1 of 2 updated, 1 ready (not '
        "scheduled: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu). No GPU is free for it: scale another "
        "model down, and it goes on by itself; or do with fewer: kubectl scale deployment/model-a -n team --replicas=1 "
        "(and its autoscaler's minimum), then run this again\n"
    ) in said
    assert said.endswith(BACK)
    assert world.lowest["model-a"] == 1


def test_gated_replicas_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """They would block the rollout, or take GPUs beyond the budget."""
    world = World(adopted("model-a", 7, "a-lq"))
    assert release(world) == 1
    said = capsys.readouterr().out
    assert "  problem: 2 of its replicas wait, gated: without the label each takes a GPU" in said
    assert "scale it down to what is ready first, or give --let-wait\n" in said
    assert "  warn: Kueue chose its nodes by its flavor (pool=a100): without a queue its template alone does" in said
    assert template_queue(world.deployment("model-a")) == "a-lq"
    assert release(world, dry_run=True, let_wait=True) == 0
    assert "  warn: 2 of its replicas wait, gated: without the label" in capsys.readouterr().out


def waiting_in(world: World, name: str, count: int) -> None:
    """As Kueue's status has it."""
    queue = world.stored["clusterqueues.kueue.x-k8s.io", "", name]
    queue["status"]["pendingWorkloads"] = count


def test_whoever_waits_in_the_cohort_would_take_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 2, "a-lq"))
    waiting_in(world, "cq-b", 2)
    assert release(world, "model-a") == 1
    assert (
        "Namespace team, for model-a\n  problem: 2 Workloads wait in ClusterQueue cq-b: Kueue lets in what waits as "
        "soon as quota is given up, and that may take the GPU of a replica that restarts; scale down what waits, or "
        "hold the queue: kubectl patch clusterqueues.kueue.x-k8s.io cq-b --type=merge "
        """-p '{"spec":{"stopPolicy":"Hold"}}'; or give --let-wait\n"""
    ) in capsys.readouterr().out
    assert template_queue(world.deployment("model-a")) == "a-lq"
    assert release(world, "model-a", let_wait=True) == 0
    assert "  warn: 2 Workloads wait in ClusterQueue cq-b: " in capsys.readouterr().out
    assert_out(world, "model-a")


def test_a_pod_without_a_node_would_take_the_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """It is in no queue, and need not be in the namespace."""
    world = World(adopted("model-a", 2, "a-lq"), adopted("model-b", 1, "b-lq"))
    waits = copy.deepcopy(world.pods("model-a")[0])
    waits["metadata"] |= {"name": "waits", "namespace": "other", "uid": "waits", "labels": {"app": "waits"}}
    waits["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    }
    world.stored["pods", "other", "waits"] = waits
    assert release(world, "model-a") == 1
    assert (
        "  problem: 1 pod finds no node (other/waits): the scheduler gives it the GPU of a replica that restarts, "
        "which then finds none; scale down what waits first; or give --let-wait\n"
    ) in capsys.readouterr().out
    assert template_queue(world.deployment("model-a")) == "a-lq"
    # One of what is released is no stranger.
    del world.stored["pods", "other", "waits"]
    waits["metadata"] |= {"namespace": TEAM, "labels": dict(world.pods("model-b")[0]["metadata"]["labels"])}
    world.stored["pods", TEAM, "waits"] = waits
    assert release(world, "model-a") == 1
    assert release(world, dry_run=True) == 0
    # One that asks for no accelerator takes none.
    waits["metadata"]["labels"] = {"app": "waits"}
    waits["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert release(world, "model-a") == 0


def test_its_own_gated_replicas_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 7, "a-lq"), adopted("model-b", 2, "b-lq"))
    gated = sum(len(pod["spec"].get("schedulingGates", ())) > 0 for pod in world.pods("model-a"))
    assert gated == 2
    waiting_in(world, "cq-a", gated)
    assert release(world) == 1
    assert "wait in ClusterQueue" not in capsys.readouterr().out
    waiting_in(world, "cq-a", gated + 1)
    assert release(world) == 1
    assert "problem: 1 Workload waits in ClusterQueue cq-a: " in capsys.readouterr().out


def test_queues_that_cannot_be_read_before(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 2, "a-lq"))
    world.forbidden = {"clusterqueues.kueue.x-k8s.io"}
    assert release(world, dry_run=True) == 3
    assert "warn: whether something waits for what is given up: not evaluated: " in capsys.readouterr().out


def test_one_at_a_time_whatever_its_strategy_was(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 4, queue="a-lq", strategy=copy.deepcopy(ALL_AT_ONCE)))
    assert release(world) == 0
    assert_out(world, "model-a")
    assert world.lowest["model-a"] == 3
    assert world.deployment("model-a")["spec"]["strategy"] == STRATEGY
    said = capsys.readouterr().out
    assert (
        "  1. set its strategy: maxSurge 0, maxUnavailable 1 (is maxSurge 0, maxUnavailable 4); this restarts nothing, "
        "and stays\n  2. take kueue.x-k8s.io/queue-name off its pod template; this restarts its 4 replicas once more, "
        "one at a time, and no queue counts them any more\n"
    ) in said
    assert (
        "model-a: strategy set: maxSurge 0, maxUnavailable 1; this restarts nothing\nmodel-a: label taken off" in said
    )


def test_strategy_that_is_written_back(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 4, queue="a-lq", strategy=copy.deepcopy(ALL_AT_ONCE)))

    def write_back(value: Value) -> None:
        value["spec"]["strategy"] = copy.deepcopy(ALL_AT_ONCE)

    world.webhook = write_back
    assert release(world) == 1
    problem = "  problem: a webhook writes its strategy: maxSurge 0, maxUnavailable 4\n"
    assert problem in capsys.readouterr().out
    assert world.lowest.get("model-a", 4) == 4


def test_label_taken_off_before_with_a_strategy_that_surges(capsys: pytest.CaptureFixture[str]) -> None:
    """On nodes that are full the surge pod waits for the GPU that the old one holds."""
    world = World(adopted("model-a", 1, "a-lq"))
    value = world.deployment("model-a")
    value["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    del value["spec"]["template"]["metadata"]["labels"][QUEUE_LABEL]
    value["metadata"]["generation"] += 1
    world.stuck = {"model-a"}
    world.run(3)

    def free(number: int, when: str) -> None:
        world.stuck = {"model-a"} if len(world.pods("model-a")) > 1 else set()

    world.interrupt = free
    assert release(world) == 0
    assert_out(world, "model-a")


def test_not_in_a_queue_and_in_mid_rollout() -> None:
    """Its strategy is nobody's business."""
    world = World(deployment("model-a", 2, strategy=copy.deepcopy(ALL_AT_ONCE)))
    value = world.deployment("model-a")
    value["spec"]["template"]["spec"]["containers"][0]["image"] = "vllm:2"
    value["metadata"]["generation"] += 1
    assert release(world, "model-a") == 0
    assert value["spec"]["strategy"] == ALL_AT_ONCE


def test_queue_whose_floor_is_lent(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 1, "a-lq"))
    other = local_queue("theirs", "cq-b")
    other["metadata"]["namespace"] = "other"
    world.put(other)

    def borrow(number: int, when: str) -> None:
        total = {"name": "nvidia.com/gpu", "total": "7"}
        status = world.value("clusterqueues.kueue.x-k8s.io", "cq-b", "")["status"]
        status["flavorsReservation"] = [{"name": "gpus", "resources": [total]}]

    world.interrupt = borrow
    assert release(world, "model-a") == 0
    said = capsys.readouterr().out
    assert "ClusterQueue cq-a lends to its cohort, where peers borrow (cq-b 2 nvidia.com/gpu in gpus): leave it" in said
    assert "delete localqueues.kueue.x-k8s.io a-lq -n team\n" in said
    assert "delete clusterqueues" not in said


def test_rights_that_are_missing_are_found_before_anything_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(adopted("model-a", 1, "a-lq"))
    world.forbidden = {WORKLOADS.name}
    assert release(world) == 3
    assert capsys.readouterr().out == ""


def test_interrupted_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """A Ctrl-C before or after any one request leaves what the next run goes on from."""

    def made() -> World:
        return World(adopted("model-a", 2, "a-lq"), adopted("model-b", 1, "b-lq"))

    whole = made()
    assert release(whole) == 0
    left = set()
    for number in range(1, whole.requests + 1):
        for moment in ("before", "after"):
            world = made()

            def press(at: int, when: str, number: int = number, moment: str = moment) -> None:
                if (at, when) == (number, moment):
                    raise KeyboardInterrupt

            world.interrupt = press
            assert release(world) == 130
            left.add(capsys.readouterr().err.strip())
            world.run(number % 3)
            assert release(world) == 0
            assert_out(world, "model-a", "model-b")
            assert world.of(WORKLOADS.name) == []
            assert world.lowest["model-a"] >= 1
            said = capsys.readouterr().out.splitlines()
            assert [line for line in said if line in FREE] == FREE
    assert "floorkeeper: interrupted: nothing was written; run the command again" in left
    assert {text.partition("interrupted: ")[2].partition(". Run")[0] for text in left} >= {
        "model-a: its label may be off; if so, its rollout goes on by itself",
        "model-a: its label is off, and its rollout goes on by itself",
        "out of their queues: model-a; model-b: its label is off, and its rollout goes on by itself",
        "all labels are off; Kueue is about to let go of the last Workloads",
    }
