"""Why pods wait, in words, and how long anybody waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.rollout_world import TEAM, WORKLOADS, World, deployment
from webhook.live.api import ApiError
from webhook.live.following import Follower
from webhook.live.pods import pods_of, why_gated
from webhook.live.waiting import seconds_of, shown


def workload(*conditions: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "w"}, "spec": {}, "status": {"conditions": list(conditions)}, **fields}


RESERVED = {"type": "QuotaReserved", "status": "True"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "Kueue has made no Workload of it yet"),
        (workload(), "Kueue has not looked at its Workload yet"),
        (workload({"type": "QuotaReserved", "status": "False", "message": "1 more\n needed"}), "1 more needed"),
        (
            workload({"type": "Evicted", "status": "True", "message": "Preempted to accommodate"}),
            "Preempted to accommodate",
        ),
        (workload(spec={"active": False}), "its Workload is deactivated (spec.active false)"),
        (workload(RESERVED, {"type": "Admitted", "status": "True"}), "Kueue has admitted it this moment"),
        (
            workload(
                status={
                    "conditions": [RESERVED],
                    "admissionChecks": [
                        {"name": "provision", "state": "Pending", "message": "waiting for nodes"},
                        {"name": "other", "state": "Ready", "message": ""},
                    ],
                }
            ),
            "it has quota, and waits for admission checks (provision is Pending: waiting for nodes)",
        ),
    ],
)
def test_why_gated(value: dict[str, Any] | None, words: str) -> None:
    assert why_gated(value) == words


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}]}, ""),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]},
            "not scheduled: 0/2 nodes are available",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "vllm", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
                ]
            },
            'container "vllm": ImagePullBackOff: no such image',
        ),
        ({"containerStatuses": [{"name": "vllm", "state": {"running": {}}}]}, "it is starting"),
    ],
)
def test_why_not_ready(status: dict[str, Any], words: str) -> None:
    (pod,) = pods_of([{"metadata": {"name": "p", "uid": "u"}, "spec": {}, "status": status}], [])
    assert pod.reason == words


def follower(world: World, said: list[str]) -> Follower:
    return Follower(world, TEAM, WORKLOADS, world.waiting, said.append)


def test_autoscaler_that_never_rests_does_not_keep_it_for_ever() -> None:
    world = World(deployment("model-a", 2))
    world.stuck = {"model-a"}
    value = world.deployment("model-a")
    value["spec"]["template"]["spec"]["containers"][0]["image"] = "vllm:2"
    value["metadata"]["generation"] += 1

    def scale(number: int, when: str) -> None:
        value["spec"]["replicas"] = 2 + int(world.now) % 2

    world.interrupt = scale
    followed = follower(world, []).follow("model-a", settled=lambda _: False)
    assert followed.late
    assert world.now <= world.waiting.timeout * 4 + 1


def test_each_replica_has_its_own_time() -> None:
    """Five that take 15 of 20 seconds each are all waited for."""
    world = World(deployment("model-a", 5))
    value = world.deployment("model-a")
    value["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    value["spec"]["template"]["spec"]["containers"][0]["image"] = "vllm:2"
    value["metadata"]["generation"] += 1

    def load(number: int, when: str) -> None:
        world.stuck = {"model-a"} if int(world.now) % 15 else set()

    world.interrupt = load
    assert not follower(world, []).follow("model-a", settled=lambda _: False).late
    assert world.now > 60


def test_an_api_server_that_stays_away() -> None:
    world, said = World(deployment("model-a")), list[str]()

    def fail(number: int, when: str) -> None:
        raise ApiError("get deployments: the API server does not answer: refused", 0)

    world.interrupt = fail
    with pytest.raises(ApiError):
        follower(world, said).follow("model-a", settled=lambda _: False)
    assert said == ["get deployments: the API server does not answer: refused; trying again"]
    assert world.now <= world.waiting.timeout + 1


def test_a_refusal_is_not_waited_out() -> None:
    world = World(deployment("model-a"))
    world.forbidden = {"pods"}
    with pytest.raises(ApiError):
        follower(world, []).follow("model-a", settled=lambda _: False)
    assert world.now == 0


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400)])
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "m", "10x", "1m30", "-5s", "²s"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        seconds_of(text)


def test_shown() -> None:
    assert [shown(seconds) for seconds in (600.0, 90.0, 60.0, 5.0)] == ["10m", "90s", "1m", "5s"]


def test_ready_and_not_yet_available() -> None:
    world, said = World(deployment("model-a", minReadySeconds=30)), list[str]()
    value = world.deployment("model-a")
    value["spec"]["template"]["spec"]["containers"][0]["image"] = "vllm:2"
    value["metadata"]["generation"] += 1

    def settle(number: int, when: str) -> None:
        world.deployment("model-a")["status"]["availableReplicas"] = 1

    world.interrupt = settle
    followed = follower(world, said).follow("model-a", settled=lambda _: False)
    assert followed.late
    words = "2 of 2 updated, 2 ready, 1 of them not yet available (minReadySeconds 30)"
    assert followed.sight.words == words
    assert said[-1] == f"model-a: {words}"
