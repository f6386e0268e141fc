"""The guide's rollout deadlock, and what Floorkeeper leaves alone: rebalancing and models that run."""

from __future__ import annotations

from tests.cluster.controlplane import Cluster, stays, until
from tests.cluster.server import Floorkeeper
from tests.cluster.team import Team, made_team
from webhook.kube.names import QUEUE_LABEL

GATES = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]


def serve_both(team: Team) -> None:
    """Floors of 1 and 9, and every replica of both models admitted: the budget is full."""
    team.set_floors(1, 9)
    team.cluster.apply(team.deployment("model-a", 1, "model-a-lq"), team.deployment("model-b", 9, "model-b-lq"))
    until("both models serve", lambda: team.ready("model-a") == 1 and team.ready("model-b") == 9)


def test_deadlock_then_not(cluster: Cluster, floorkeeper: Floorkeeper) -> None:
    with made_team(cluster, "deadlock") as team:
        serve_both(team)
        team.set_image("model-a", "v0.12.0")
        (pod,) = until("a pod is gated", lambda: team.gated("model-a"))
        assert sorted(gate["name"] for gate in pod["spec"]["schedulingGates"]) == GATES
        stays("the rollout is where it was", lambda: team.gated("model-a") == [pod] and team.ready("model-a") == 1, 10)
        assert not team.rolled_out("model-a")

    with made_team(cluster, "no-deadlock") as team:
        team.manage()
        serve_both(team)
        team.set_image("model-a", "v0.12.0")
        until("the rollout finishes", lambda: team.rolled_out("model-a"), 30)
        (pod,) = team.pods("model-a")
        assert pod["spec"]["containers"][0]["image"] == "vllm/vllm-openai:v0.12.0"
        assert team.get("deployment", "model-a")["spec"]["strategy"] == {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"},
        }


def test_stuck_rollout_is_freed_by_its_next_write(team: Team, floorkeeper: Floorkeeper) -> None:
    serve_both(team)
    team.set_image("model-a", "v0.12.0")
    until("a pod is gated", lambda: team.gated("model-a"))
    team.manage()
    result = team.kubectl("annotate", "deployment", "model-a", "note=x")
    assert result.stderr.splitlines() == [
        'Warning: Deployment "model-a": spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%; patched: set to 0 '
        "[surge-without-quota]"
    ]
    until("the rollout finishes", lambda: team.rolled_out("model-a"), 30)


def test_rebalancing_is_untouched(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    result = team.cluster.apply(team.deployment("model-a", 8), team.deployment("model-b", 0))
    assert result.stderr.count("[missing-queue-name]") == 2
    until("an idle peer lends", lambda: team.ready("model-a") == 8)
    assert len(team.workloads()) == 8, "one Workload for each replica"

    calls = floorkeeper.calls()
    team.kubectl("scale", "deployment", "model-a", "--replicas=12")
    until("pods over budget are gated", lambda: team.ready("model-a") == 10 and len(team.gated("model-a")) == 2)
    stays("and stay so", lambda: team.ready("model-a") == 10 and len(team.gated("model-a")) == 2, 3)
    assert len(team.workloads()) == 12

    team.kubectl("scale", "deployment", "model-b", "--replicas=6")
    until("a waking model takes its floor back", lambda: team.ready("model-b") == 5 and team.ready("model-a") == 5)
    stays("contention settles on the floors", lambda: team.ready("model-b") == 5 and team.ready("model-a") == 5, 3)
    team.kubectl("scale", "deployment", "model-b", "--replicas=0")
    until("what it leaves is borrowed again", lambda: team.ready("model-a") == 10)
    assert floorkeeper.calls() == calls, "scaling, preemption and ungating are never intercepted"


def test_no_unasked_restart(team: Team, floorkeeper: Floorkeeper) -> None:
    team.cluster.apply(team.deployment("model-a", 2))
    until("the model serves", lambda: team.ready("model-a") == 2)
    before = hashes(team)
    team.manage()

    for change in (
        ("annotate", "deployment", "model-a", "note=x"),
        ("patch", "deployment", "model-a", "--type=merge", "-p", '{"spec":{"replicas":3}}'),
    ):
        result = team.kubectl(*change)
        assert (
            f'Warning: Deployment "model-a": spec.template.metadata.labels[{QUEUE_LABEL}]: must name a LocalQueue, is '
            "absent; not denied: it was so before;"
        ) in result.stderr
    until("the new replica serves", lambda: team.ready("model-a") == 3)
    assert hashes(team) == before
    deployment = team.get("deployment", "model-a")
    assert QUEUE_LABEL not in deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0

    team.set_image("model-a", "v0.12.0")
    until("the rollout finishes", lambda: team.rolled_out("model-a"))
    assert team.get("deployment", "model-a")["spec"]["template"]["metadata"]["labels"][QUEUE_LABEL] == "model-a-lq"
    until("every replica is counted", lambda: len(team.workloads()) == 3)


def test_image_change_without_quota_keeps_the_model_up(team: Team, floorkeeper: Floorkeeper) -> None:
    """A label with no quota behind it would gate the new pod, and the model would be down."""
    team.set_floors(0, 10)
    team.cluster.apply(team.deployment("model-a", 1), team.deployment("model-b", 9, "model-b-lq"))
    until("both models serve", lambda: team.ready("model-a") == 1 and team.ready("model-b") == 9)
    team.manage()
    result = team.set_image("model-a", "v0.12.0")
    assert "must name a LocalQueue, is absent; not denied: it was so before;" in result.stderr
    until("the rollout finishes", lambda: team.rolled_out("model-a"))
    assert QUEUE_LABEL not in team.get("deployment", "model-a")["spec"]["template"]["metadata"]["labels"]


def test_image_change_into_a_held_queue_keeps_the_model_up(team: Team, floorkeeper: Floorkeeper) -> None:
    team.cluster.apply(team.deployment("model-a", 1))
    until("the model serves", lambda: team.ready("model-a") == 1)
    hold = '{"spec":{"stopPolicy":"Hold"}}'
    team.cluster("patch", "clusterqueue", f"{team.namespace}-model-a", "--type=merge", "-p", hold)
    team.manage()
    result = team.set_image("model-a", "v0.12.0")
    assert "free quota for it in model-a-lq first: with the label now, new pods would be gated" in result.stderr
    until("the rollout finishes", lambda: team.rolled_out("model-a"))


def hashes(team: Team) -> set[str]:
    return {pod["metadata"]["labels"]["pod-template-hash"] for pod in team.pods("model-a")}
