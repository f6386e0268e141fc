"""`floorkeeper adopt` on a cluster in memory: what it refuses, what it writes, and what a Ctrl-C leaves."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from tests.live.rollout_world import GPU, KUEUE, TEAM, Value, World, cluster_queue, deployment, local_queue
from webhook.engine.policy import Policy
from webhook.kube.names import QUEUE_LABEL
from webhook.live.adopt.walk import walk
from webhook.live.api import ApiError
from webhook.live.deployments import STRATEGY
from webhook.live.options import Misuse

BOTH = {"model-a": "a-lq", "model-b": "b-lq"}
ALL = {**BOTH, "model-c": "c-lq"}


def adopt(world: World, wanted: dict[str, str] | None = None, **options: Any) -> int:
    """The exit code."""
    options.setdefault("yes", True)
    try:
        walk(world, TEAM, wanted or {"model-a": "a-lq"}, Policy(), world.waiting, **options)
    except typer.Exit as end:
        return end.exit_code
    return 0


def template_label(value: Value) -> str | None:
    found: str | None = value["spec"]["template"]["metadata"]["labels"].get(QUEUE_LABEL)
    return found


def assert_adopted(world: World, wanted: dict[str, str]) -> None:
    for name, queue in wanted.items():
        value = world.deployment(name)
        assert template_label(value) == queue
        assert value["spec"]["strategy"] == STRATEGY
        assert all(pod["metadata"]["labels"][QUEUE_LABEL] == queue for pod in world.pods(name))
        assert value["status"]["readyReplicas"] == value["spec"]["replicas"]


def test_one_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 3), deployment("model-b", 2))
    assert adopt(world, BOTH) == 0
    assert_adopted(world, BOTH)
    assert world.lowest == {"model-a": 2, "model-b": 1}
    said = capsys.readouterr().out.splitlines()
    assert said[:5] == [
        'Deployment "model-a" -> LocalQueue "a-lq", ClusterQueue "cq-a"',
        "  1. set its strategy: maxSurge 0, maxUnavailable 1 (is maxSurge 25%, maxUnavailable 25%); this restarts "
        "nothing",
        f"  2. label its pod template: {QUEUE_LABEL}=a-lq; this restarts its 3 replicas, one at a time, never fewer "
        "than 2 ready",
        "  3. follow the rollout, for 20s at the most without a further replica ready",
        "  quota: 3 of 3 replicas are admitted (3 from its own floor)",
    ]
    steps = [line for line in said if line.startswith("model-") and "updated" not in line]
    assert steps == [
        "model-a: strategy set: maxSurge 0, maxUnavailable 1; this restarts nothing",
        f"model-a: label set: {QUEUE_LABEL}=a-lq",
        "model-a: adopted: 3 of 3 ready in a-lq",
        "model-b: strategy set: maxSurge 0, maxUnavailable 1; this restarts nothing",
        f"model-b: label set: {QUEUE_LABEL}=b-lq",
        "model-b: adopted: 2 of 2 ready in b-lq",
    ]
    assert "model-a: 1 of 3 updated, 2 ready, 1 gated (Kueue has made no Workload of it yet)" in said


def test_adopted_already(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 2, queue="a-lq", strategy=dict(STRATEGY)))
    before = world.deployment("model-a")["metadata"]["resourceVersion"]
    assert adopt(world) == 0
    assert "is adopted already: nothing to do" in capsys.readouterr().out
    assert world.deployment("model-a")["metadata"]["resourceVersion"] == before


def test_labelled_without_the_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    """As at install time, when the strategy was forgotten: nothing restarts."""
    world = World(deployment("model-a", 2, queue="a-lq"))
    pods = [pod["metadata"]["name"] for pod in world.pods("model-a")]
    assert adopt(world) == 0
    assert world.deployment("model-a")["spec"]["strategy"] == STRATEGY
    assert [pod["metadata"]["name"] for pod in world.pods("model-a")] == pods
    assert "  2. its label is set, and 2 of 2 replicas are updated: go on from there" in capsys.readouterr().out


def _own_label(value: Value) -> None:
    value["metadata"]["labels"] = {QUEUE_LABEL: "b-lq"}


def _paused(value: Value) -> None:
    value["spec"]["paused"] = True


def _deleting(value: Value) -> None:
    value["metadata"]["deletionTimestamp"] = "now"


def _other_queue(value: Value) -> None:
    value["spec"]["template"]["metadata"]["labels"][QUEUE_LABEL] = "b-lq"


def _recreate(value: Value) -> None:
    value["spec"]["strategy"] = {"type": "Recreate"}


def _other_rollout(value: Value) -> None:
    value["spec"]["template"]["spec"]["containers"][0]["image"] = "vllm:2"
    value["metadata"]["generation"] += 1


def _selector(value: Value) -> None:
    value["spec"]["selector"]["matchExpressions"] = [{"key": QUEUE_LABEL, "operator": "DoesNotExist"}]


def _limit_alone(value: Value) -> None:
    value["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}}


def _uncovered(value: Value) -> None:
    value["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi"


def _too_large(value: Value) -> None:
    amounts = {GPU: "11"}
    value["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_own_label, "its Deployment-level label names b-lq"),
        (_paused, "it is paused, so no label reaches a pod: kubectl rollout resume deployment/model-a"),
        (_deleting, "it is being deleted"),
        (_other_queue, "it is in queue b-lq already"),
        (_recreate, "its strategy is Recreate: the label would take all 2 replicas down at once"),
        (_other_rollout, "a rollout that is not ours is under way"),
        (_selector, "[queue-name-in-selector]"),
        (_limit_alone, "[implicit-gpu-request]"),
        (_uncovered, "[uncovered-resource]"),
        (_too_large, "[replica-over-budget]"),
    ],
)
def test_refused_before_anything_is_written(change: Any, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"), deployment("model-b"))
    world.stuck = {"model-a"}
    change(world.deployment("model-a"))
    world.run(3 if change is _other_rollout else 0)
    before = {name: world.deployment(name)["metadata"]["resourceVersion"] for name in BOTH}
    assert adopt(world, BOTH) == 1
    said = capsys.readouterr()
    problems = [line for line in said.out.splitlines() if line.startswith("  problem: ")]
    assert any(problem in line for line in problems), problems
    assert said.err == "floorkeeper: see the problems above; nothing was written\n"
    assert {name: world.deployment(name)["metadata"]["resourceVersion"] for name in BOTH} == before


def test_queue_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    labelled = deployment("model-b", 1, queue="gone-lq", strategy=dict(STRATEGY))
    wanted = {"model-a": "typo-lq", "model-b": "gone-lq"}
    world = World(deployment("model-a"))
    world.put(labelled)
    assert adopt(world, wanted) == 2
    assert capsys.readouterr() == (
        "",
        "floorkeeper: no LocalQueue gone-lq, typo-lq in namespace team; it has a-lq, b-lq; nothing was written\n",
    )


def test_queue_that_goes_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 1), deployment("model-b", 1))

    def take(number: int, when: str) -> None:
        if template_label(world.deployment("model-a")):
            world.stored.pop((f"localqueues.{KUEUE}", TEAM, "b-lq"), None)

    world.interrupt = take
    assert adopt(world, BOTH) == 1
    assert 'stopped: Deployment "model-b": no longer as it was planned: ' in (said := capsys.readouterr().out)
    assert "must name a LocalQueue that exists, is b-lq" in said


def test_queue_that_leads_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    world.value(f"localqueues.{KUEUE}", "a-lq")["spec"]["clusterQueue"] = "cq-x"
    assert adopt(world) == 1
    assert 'whose ClusterQueue "cq-x" does not exist; fix: create it' in capsys.readouterr().out


def test_queue_that_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["spec"]["stopPolicy"] = "Hold"
    assert adopt(world) == 1
    assert "must lead to a queue that admits" in capsys.readouterr().out


def test_hard_gpu_quota(capsys: pytest.CaptureFixture[str]) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": TEAM},
        "spec": {"hard": {f"requests.{GPU}": "10"}},
    }
    models = (deployment("model-a"), deployment("model-b", queue="b-lq"), deployment("model-c"))
    world = World(*models, local_queue("c-lq", "cq-b"), quota)
    assert adopt(world, ALL) == 1
    said = capsys.readouterr().out
    assert said.count("[gpu-resource-quota]") == 1
    assert said.startswith(
        """\
Deployment "model-a" -> LocalQueue "a-lq", ClusterQueue "cq-a"

Deployment "model-b" -> LocalQueue "b-lq", ClusterQueue "cq-b"
  1. set its strategy: maxSurge 0, maxUnavailable 1 (is maxSurge 25%, maxUnavailable 25%); this restarts nothing
  2. its label is set, and 2 of 2 replicas are updated: go on from there
  3. follow the rollout, for 20s at the most without a further replica ready

Deployment "model-c" -> LocalQueue "c-lq", ClusterQueue "cq-b"

Namespace team, for model-a, model-c
  problem: ResourceQuota "gpus": """
    )


def test_what_is_not_known_of_any_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 1), deployment("model-b", 1))
    world.forbidden = {"limitranges", "resourcequotas"}
    assert adopt(world, BOTH, dry_run=True) == 3
    said = capsys.readouterr().out
    _, shared = said.split("Namespace team, for model-a, model-b\n")
    lines = [line for line in shared.splitlines() if line.startswith("  not evaluated: ")]
    assert len(lines) == said.count("not evaluated: ") > 2, said
    assert len(set(lines)) == len(lines)
    assert "  not evaluated: ResourceQuota: not allowed to list resourcequotas" in shared


def test_short_grace_period_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    value = deployment("model-a")
    value["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    assert adopt(World(value)) == 0
    assert "  warn: " in (line := next(x for x in capsys.readouterr().out.splitlines() if "short-grace-period" in x)), (
        line
    )


def test_missing_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    assert adopt(World(deployment("model-a")), {"modle-a": "a-lq"}) == 2
    assert capsys.readouterr().err == (
        "floorkeeper: no Deployment modle-a in namespace team; it has model-a; what is of another kind is labelled by "
        "hand (README, Kinds); nothing was written\n"
    )


def test_missing_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    with pytest.raises(typer.Exit) as end:
        walk(world, "nowhere", BOTH, Policy(), world.waiting)
    assert end.value.exit_code == 2
    assert capsys.readouterr() == ("", "floorkeeper: there is no namespace nowhere; correct the name\n")


def test_what_may_not_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    world.forbidden = {f"clusterqueues.{KUEUE}"}
    assert adopt(world) == 3
    assert "cannot check anything: ClusterQueue: not allowed to list" in capsys.readouterr().err
    assert template_label(world.deployment("model-a")) is None


def test_without_quota_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 3))
    world.stored[f"clusterqueues.{KUEUE}", "", "cq-a"] = {**cluster_queue("cq-a", 2, cohort="")}
    assert adopt(world) == 1
    assert (
        '1 of 3 replicas would wait, gated: ClusterQueue "cq-a" has 2 of 2 nvidia.com/gpu in gpus left of its own, and '
        "its rollout would stop there, with 2 ready; raise the floor of cq-a, or scale down first, or take that with "
        "--let-wait"
    ) in capsys.readouterr().out
    assert adopt(world, let_wait=True) == 0
    assert "model-a: adopted: 2 of 3 ready in a-lq, 1 gated: couldn't assign flavors" in capsys.readouterr().out
    assert world.lowest["model-a"] == 2


def test_without_any_quota(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 1))
    world.stored[f"clusterqueues.{KUEUE}", "", "cq-a"] = {**cluster_queue("cq-a", 1, cohort="")}
    world.put(deployment("filler", 1, queue="a-lq"))
    world.run(6)
    assert adopt(world, let_wait=True) == 1
    assert "so its rollout would take a replica down and bring none back" in capsys.readouterr().out


def test_one_quota_is_not_given_twice(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 3), deployment("model-b", 3))
    world.stored[f"clusterqueues.{KUEUE}", "", "cq-a"] = {**cluster_queue("cq-a", 5, cohort="")}
    assert adopt(world, {"model-a": "a-lq", "model-b": "a-lq"}) == 1
    problems = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  problem: ")]
    assert len(problems) == 1
    assert problems[0].startswith("  problem: 1 of 3 replicas would wait, gated")


def test_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    before = world.deployment("model-a")["metadata"]["resourceVersion"]
    assert adopt(world, dry_run=True, yes=False) == 0
    assert capsys.readouterr().out.endswith("Dry run: the API server takes these writes; nothing was written.\n")
    assert world.deployment("model-a")["metadata"]["resourceVersion"] == before


def test_no_terminal_and_no_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(deployment("model-a"))
    with open("/dev/null") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with pytest.raises(Misuse, match="adopting needs a yes, and there is no terminal to ask on; give --yes"):
            adopt(world, yes=False)
    assert template_label(world.deployment("model-a")) is None


def test_webhook_that_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))

    def refuse(value: Value) -> None:
        raise ApiError('patch deployments.apps "model-a": 403 admission webhook "x" denied the request: no', 403)

    world.webhook = refuse
    assert adopt(world) == 1
    assert "the API server does not take it (tried with a dry run): patch deployments.apps" in capsys.readouterr().out


def test_strategy_that_is_written_back(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))

    def write_back(value: Value) -> None:
        value["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}

    world.webhook = write_back
    assert adopt(world) == 1
    said = capsys.readouterr().out
    assert "its strategy was not taken, is maxSurge 1, maxUnavailable 0" in said
    assert "its template is untouched, and no replica was restarted." in said
    assert template_label(world.deployment("model-a")) is None, "no label without the strategy"


def test_replica_that_does_not_become_ready(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 3), deployment("model-b"))
    world.stuck = {"model-a"}
    assert adopt(world, BOTH) == 1
    said = capsys.readouterr().out
    assert 'stopped: Deployment "model-a": no further replica became ready within 20s: 1 of 3 updated, 2 ready' in said
    assert said.endswith(
        """\
model-a: its label is set, and its rollout goes on by itself, one replica at a time.
To go on once that is mended, run the same command again. To go back:
  floorkeeper release model-a -n team
which takes the label off and rolls its replicas once more, as this does by hand:
  kubectl patch deployment model-a -n team --type=merge -p """
        """'{"spec":{"template":{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":null}}}}}'
Its strategy can stay as it is now; this brings back what it was:
  kubectl patch deployment model-a -n team --type=merge -p """
        """'{"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"}}}}'
"""
    )
    assert template_label(world.deployment("model-b")) is None, "the second one is left alone"
    assert world.lowest["model-a"] == 2
    world.stuck = set()
    assert adopt(world, BOTH) == 0
    assert_adopted(world, BOTH)


def test_autoscaler_beyond_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    """It adds replicas in the middle of the rollout, and one of them finds no quota."""
    world = World(deployment("model-a", 3))
    world.stored[f"clusterqueues.{KUEUE}", "", "cq-a"] = {**cluster_queue("cq-a", 4, cohort="")}

    def scale(number: int, when: str) -> None:
        value = world.deployment("model-a")
        if template_label(value) and value["spec"]["replicas"] == 3 and value["status"].get("updatedReplicas") == 1:
            value["spec"]["replicas"] = 5
            value["metadata"]["generation"] += 1

    world.interrupt = scale
    assert adopt(world) == 0
    assert "model-a: adopted: 4 of 5 ready in a-lq, 1 gated: couldn't assign" in capsys.readouterr().out


def test_api_server_that_is_away_for_a_moment() -> None:
    world = World(deployment("model-a", 2))

    def fail(number: int, when: str) -> None:
        # After the checks every seventh request fails, once before it reaches the API server and once after.
        if world.now > 0 and number % 7 == 0:
            raise ApiError("the API server does not answer: refused", 0)

    world.interrupt = fail
    assert adopt(world) == 0
    assert_adopted(world, {"model-a": "a-lq"})


def test_somebody_else_writes_at_the_same_time() -> None:
    world = World(deployment("model-a", 2))

    def write(number: int, when: str) -> None:
        if when == "after" and number % 3 == 0:
            value = world.deployment("model-a")
            value["metadata"]["resourceVersion"] += "0"

    world.interrupt = write
    assert adopt(world) == 0
    assert_adopted(world, {"model-a": "a-lq"})


def test_interrupted_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """A Ctrl-C before or after any one request leaves what the next run goes on from."""
    whole = World(deployment("model-a", 2), deployment("model-b", 1))
    assert adopt(whole, BOTH) == 0
    left = set()
    for number in range(1, whole.requests + 1):
        for moment in ("before", "after"):
            world = World(deployment("model-a", 2), deployment("model-b", 1))

            def press(at: int, when: str, number: int = number, moment: str = moment) -> None:
                if (at, when) == (number, moment):
                    raise KeyboardInterrupt

            world.interrupt = press
            assert adopt(world, BOTH) == 130
            left.add(capsys.readouterr().err.strip())
            assert adopt(world, BOTH) == 0
            assert_adopted(world, BOTH)
            assert world.lowest["model-a"] >= 1
    assert left == {
        "floorkeeper: interrupted: nothing was written; run the command again",
        *(
            f"floorkeeper: interrupted: {done}{name}: {step}. Run the same command again to go on."
            for name, done in (("model-a", ""), ("model-b", "adopted: model-a; "))
            for step in (
                "nothing of it is written",
                "its strategy may be set, which restarts nothing",
                "its strategy is set, which restarts nothing",
                "its label may be set; if so, its rollout goes on by itself, one replica at a time",
                "its label is set, and its rollout goes on by itself, one replica at a time",
            )
        ),
    }


def test_labelled_by_hand_and_deadlocked(capsys: pytest.CaptureFixture[str]) -> None:
    """The guide's deadlock: the label without the strategy, and the budget is full."""
    world = World(deployment("model-a", 1, queue="a-lq"))
    world.stored[f"clusterqueues.{KUEUE}", "", "cq-a"] = {**cluster_queue("cq-a", 1, cohort="")}
    _other_rollout(world.deployment("model-a"))
    world.run(6)
    assert len(world.pods("model-a")) == 2, "one serves, and the surge pod is gated"
    assert adopt(world) == 0
    assert_adopted(world, {"model-a": "a-lq"})
    assert "its label is set, and 1 of 1 replicas are updated: go on from there" in capsys.readouterr().out


def test_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 0))
    assert adopt(world) == 0
    assert template_label(world.deployment("model-a")) == "a-lq"
    assert "it has no replicas: nothing restarts" in capsys.readouterr().out


def test_quota_that_goes_after_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """While the first one rolls, a peer takes what the second one was to have."""
    world = World(deployment("model-a", 1), deployment("model-b", 1))

    def take(number: int, when: str) -> None:
        if template_label(world.deployment("model-a")):
            world.stored[f"clusterqueues.{KUEUE}", "", "cq-b"] = cluster_queue("cq-b", 0, cohort="")

    world.interrupt = take
    assert adopt(world, BOTH) == 1
    said = capsys.readouterr().out
    assert 'stopped: Deployment "model-b": no longer as it was planned: ' in said
    assert "model-b: nothing of it is written." in said
    assert template_label(world.deployment("model-b")) is None
    assert world.lowest["model-b"] == 1


def test_rights_that_are_missing_are_found_before_anything_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    world.forbidden = {"workloads.kueue.x-k8s.io"}
    before = world.deployment("model-a")["metadata"]["resourceVersion"]
    assert adopt(world) == 3
    assert capsys.readouterr() == (
        "",
        "floorkeeper: not allowed to list workloads.kueue.x-k8s.io; ask for that right; nothing was written\n",
    )
    assert world.deployment("model-a")["metadata"]["resourceVersion"] == before


def test_label_that_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Kueue is set up not to look at pods, and its configuration may not be read."""
    world = World(deployment("model-a", 1))
    world.forbidden = {"configmaps"}
    world.inert = True
    assert adopt(world) == 1
    assert "one of its pods has the label and no Workload (model-a-h-" in capsys.readouterr().out


def _stall(world: World) -> None:
    world.stored[f"clusterqueues.{KUEUE}", "", "cq-a"] = {**cluster_queue("cq-a", 3, cohort="")}


def test_rollout_that_stops_as_it_was_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Two of five find no quota, so one stays as it was; the next Deployment is not kept waiting for it."""
    world = World(deployment("model-a", 5), deployment("model-b", 2))
    _stall(world)
    assert adopt(world, BOTH, let_wait=True) == 0
    said = capsys.readouterr().out
    assert "; its rollout stops there, with 4 ready, until quota is free\n" in said
    assert (
        "model-a: its rollout stops there, as --let-wait takes it: 4 of 5 ready, of which 1 is as it was, and no queue "
        "counts it, 1 gated: couldn't assign flavors to pod set main: insufficient unused quota; it goes on by itself "
        "once quota is free\n"
    ) in said
    assert "Adopted: model-b. In mid-rollout, until quota is free: model-a. Put label" in said
    assert_adopted(world, {"model-b": "b-lq"})
    assert world.lowest["model-a"] == 4
    assert adopt(world, BOTH, let_wait=True) == 0, "the same once more"
    assert adopt(world, BOTH) == 1, "who does not take that waits"
    assert "no further replica became ready within 20s: 4 of 5 updated, 4 ready, 1 gated" in capsys.readouterr().out
    world.stored[f"clusterqueues.{KUEUE}", "", "cq-a"] = {**cluster_queue("cq-a", 5, cohort="")}
    assert adopt(world, BOTH) == 0
    assert_adopted(world, BOTH)


def test_rollout_that_is_about_to_go_on_is_waited_for() -> None:
    """Kueue has no quota for a moment: another Workload is going."""
    world = World(deployment("model-a", 3))

    def ease(number: int, when: str) -> None:
        floor = 5 if int(world.now) % 4 == 3 else 0
        if template_label(world.deployment("model-a")):
            world.stored[f"clusterqueues.{KUEUE}", "", "cq-a"] = {**cluster_queue("cq-a", floor, cohort="")}

    world.interrupt = ease
    assert adopt(world, let_wait=True) == 0
    assert_adopted(world, {"model-a": "a-lq"})


def test_adopted_and_counted_by_no_queue(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-b"))
    world.inert = True
    world.put(deployment("model-a", 2, queue="a-lq", strategy=dict(STRATEGY)))
    world.run(6)
    assert adopt(world) == 1
    said = capsys.readouterr()
    assert "  problem: 2 of its pods have the label and no Workload (model-a-h-" in said.out
    assert "nothing to do" not in said.out
    assert said.err == "floorkeeper: see the problems above; nothing was written\n"


def test_adopted_and_not_all_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 2, queue="a-lq", strategy=dict(STRATEGY)))
    world.forbidden = {"limitranges"}
    assert adopt(world) == 3
    assert capsys.readouterr().out.endswith(
        "\nAll are adopted. Not everything could be looked at: see 'not evaluated' above.\n"
    )


def test_adopted_into_a_queue_that_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a", 2, queue="a-lq", strategy=dict(STRATEGY)))
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["spec"]["stopPolicy"] = "Hold"
    assert adopt(world) == 1
    assert "must lead to a queue that admits" in capsys.readouterr().out


QUOTA = 'create pods: 403 pods "model-a-x" is forbidden: '


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (f"{QUOTA}failed quota: cpu: must specify requests.cpu for: vllm", "failed quota: cpu"),
        (f'{QUOTA}violates PodSecurity "restricted:latest": runAsNonRoot != true', "violates PodSecurity"),
        (f"{QUOTA}exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=2", "exceeded quota"),
        (f"{QUOTA}exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2", ""),
        (f"{QUOTA}exceeded quota: cpu, requested: cpu=1,pods=1, used: cpu=2,pods=1k, limited: cpu=2500m,pods=2k", ""),
    ],
)
def test_pods_that_are_refused(message: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A quota that is full takes a new pod once the old one is gone; one that is over full does not."""
    world = World(deployment("model-a"))

    def refuse(pod: Value) -> None:
        assert pod["metadata"]["labels"][QUEUE_LABEL] == "a-lq"
        assert pod["metadata"]["generateName"] == "model-a-"
        raise ApiError(message, 403)

    world.pod_webhook = refuse
    assert adopt(world) == (1 if problem else 0)
    said = capsys.readouterr().out
    if problem:
        assert "  problem: the API server does not take its pods (tried with a dry run): create pods: 403" in said
        assert problem in said
        assert template_label(world.deployment("model-a")) is None
    else:
        assert "has no room for one pod more (tried with a dry run): each replica goes before its new one" in said


def test_without_the_right_to_create_pods(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    world.forbidden = {"create pods"}
    assert adopt(world, dry_run=True) == 3
    unknown = "  not evaluated: whether the API server takes its pods: not allowed to create pods; ask for that right\n"
    assert unknown in capsys.readouterr().out
    assert adopt(world) == 0
    assert_adopted(world, {"model-a": "a-lq"})


def test_behind_what_waits_in_a_strict_queue(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    queue = world.value(f"clusterqueues.{KUEUE}", "cq-a", "")
    queue["spec"]["queueingStrategy"] = "StrictFIFO"
    queue["status"]["pendingWorkloads"] = 2
    assert adopt(world) == 1
    said = capsys.readouterr().out
    assert 'ClusterQueue "cq-a" is StrictFIFO, and 2 Workloads wait in it already: what comes stands behind' in said
    queue["spec"]["queueingStrategy"] = "BestEffortFIFO"
    assert adopt(world, dry_run=True) == 0


def _shortage(world: World, capsys: pytest.CaptureFixture[str]) -> str:
    assert adopt(world) == 1
    return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  problem: "))


def test_what_there_is_too_little_of(capsys: pytest.CaptureFixture[str]) -> None:
    value = deployment("model-a", 3)
    value["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    world = World(value)
    group = world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["spec"]["resourceGroups"][0]
    group["coveredResources"].append("cpu")
    group["flavors"][0]["resources"].append({"name": "cpu", "nominalQuota": "2"})
    line = _shortage(world, capsys)
    assert " has 2 of 2 cpu in gpus left of its own (and can borrow 0 cpu in gpus), and its rollout would" in line


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("Never", "and Kueue preempts none of them (reclaimWithinCohort Never)"),
        ("LowerPriority", "and whether Kueue preempts them is not evaluated: by reclaimWithinCohort LowerPriority"),
    ],
)
def test_floor_that_peers_borrow(policy: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["spec"]["preemption"]["reclaimWithinCohort"] = policy

    def borrow(number: int, when: str) -> None:
        total = {"name": GPU, "total": "10"}
        status = world.value(f"clusterqueues.{KUEUE}", "cq-b", "")["status"]
        status["flavorsReservation"] = [{"name": "gpus", "resources": [total]}]

    world.interrupt = borrow
    line = _shortage(world, capsys)
    assert (
        "has 5 of 5 nvidia.com/gpu in gpus left of its own; only 0 nvidia.com/gpu in gpus can be had of it now" in line
    )
    assert said in line
    assert line.endswith("and bring none back; have peers that borrow scale down first")
    world.value(f"clusterqueues.{KUEUE}", "cq-a", "")["spec"]["preemption"]["reclaimWithinCohort"] = "Any"
    assert adopt(world, dry_run=True) == 0
    assert "for 2 of them Kueue preempts replicas of peers" in capsys.readouterr().out
    world.deployment("model-a")["spec"]["replicas"] = 6
    world.run(6)
    line = _shortage(world, capsys)
    assert "left of its own (and can borrow 0 nvidia.com/gpu in gpus), and its rollout would stop there, with 5" in line
    assert "; raise the floor of cq-a, or scale down first" in line


def test_two_for_one_queue_are_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"), deployment("model-b"))
    assert adopt(world, {"model-a": "a-lq", "model-b": "a-lq"}, dry_run=True) == 0
    assert "must serve one model, is a-lq, also that of Deployment model-b" in (said := capsys.readouterr().out)
    assert "must serve one model, is a-lq, also that of Deployment model-a" in said


def test_recreate_says_one_thing(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    _recreate(world.deployment("model-a"))
    assert adopt(world) == 1
    assert "Recreate, and stays" not in capsys.readouterr().out


def test_why_no_pod_comes(capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))
    world.unmade = 'pods "model-a-x" is forbidden: exceeded quota: pods'
    assert adopt(world) == 1
    said = capsys.readouterr().out
    assert f"model-a: 0 of 2 updated, 1 ready; no pod comes: {world.unmade}\n" in said
    assert f"within 20s: 0 of 2 updated, 1 ready; no pod comes: {world.unmade}\n" in said


@pytest.mark.parametrize("gone", [True, False])
def test_no_way_back_to_what_is_not_there(gone: bool, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(deployment("model-a"))

    def take(number: int, when: str) -> None:
        if world.now > 3 and gone:
            world.stored.pop(("deployments.apps", TEAM, "model-a"), None)
        elif world.now > 3:
            world.deployment("model-a")["spec"]["template"]["metadata"]["labels"].pop(QUEUE_LABEL, None)

    world.interrupt = take
    world.stuck = {"model-a"}
    assert adopt(world) == 1
    said = capsys.readouterr().out
    reason = "is gone: somebody deleted it, and its pods with it" if gone else "put the label there"
    assert said.endswith(f"{reason}\n")
    assert "To go back" not in said
