"""Promises to raises that are not stored yet: what is written, what is counted, and when it is over."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.door import Door, review_of
from tests.ledger_world import AT_ONCE, Replica, World
from tests.quota_objects import Object, check, checked, cohort, flavor, node, queue
from webhook.engine.policy import Capacity, Exemption, Mode, Policy
from webhook.kube.quota_facts import MULTIKUEUE_CONTROLLER
from webhook.sources.ledger import LONGEST, LedgerTiming, StoreError
from webhook.sources.source import LedgerError

UNTIL = "08:01:30 UTC"
"""90 s after the world's clock, which never moves by itself."""


@pytest.fixture
def world() -> World:
    """Floors of 4 and 4 on 10 GPUs, of which 2 more fit."""
    world = World()
    for value in (node("n", 10), flavor("f"), queue("a", {"f": 4}), queue("b", {"f": 4}), cohort("c")):
        world.store(value)
    return world


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def raised(world: World, name: str, amount: int) -> tuple[Object, Object]:
    """A ClusterQueue with another floor, and as it is."""
    old = world.get("ClusterQueue", name)
    return {**queue(name, {"f": amount}), "metadata": old["metadata"]}, old


def entry(world: World, name: str, amount: int, uid: str, **changes: Any) -> Object:
    return {
        "kind": "ClusterQueue",
        "name": name,
        "uid": uid,
        "expires": 1_800_000_090,
        "version": world.get("ClusterQueue", name)["metadata"]["resourceVersion"],
        "created": "",
        "floors": [{"flavor": "f", "resource": "nvidia.com/gpu", "amount": str(amount)}],
        "labels": None,
        **changes,
    }


def denied_by_a(reserved: str = f" (reserved until {UNTIL} for a write that is not stored yet)") -> str:
    return (
        'ClusterQueue "b": spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: must keep the floors within '
        "the hardware, is 6: floors of nvidia.com/gpu in flavor f: "
        f'ClusterQueue "a" 6{reserved} + ClusterQueue "b" 6 = 12; hardware: 10 on 1 node; '
        f"fix: leave it at 4, or {f'try again after {UNTIL}, or ' if reserved else ''}"
        'first lower ClusterQueue "a" to 4, then repeat this write; for nodes yet to come, '
        "declare the flavor's total, 12, in the policy (capacity.declared) [floors-exceed-capacity]"
    )


def messages(verdict: Any) -> list[str]:
    return [finding.message for finding in verdict.denials]


def test_a_raise_is_promised_what_it_raises(world: World) -> None:
    async def test() -> None:
        assert (await Replica(world).validate(*raised(world, "a", 6), "w1")).allowed
        assert world.calls == ["read", "list ClusterQueue", "list Cohort", "list ResourceFlavor", "write"]
        assert world.entries == [entry(world, "a", 6, "w1")]

    run(test())


def test_of_two_raises_of_which_one_fits_the_second_is_denied_and_told_why(world: World) -> None:
    async def test() -> None:
        assert (await Replica(world).validate(*raised(world, "a", 6), "w1")).allowed
        text = world.text
        assert messages(await Replica(world).validate(*raised(world, "b", 6), "w2")) == [denied_by_a()]
        assert world.text == text, "a denial writes nothing"

    run(test())


def test_a_raise_that_fits_beside_what_is_promised(world: World) -> None:
    async def test() -> None:
        assert (await Replica(world).validate(*raised(world, "a", 5), "w1")).allowed
        assert (await Replica(world).validate(*raised(world, "b", 5), "w2")).allowed
        assert world.promised == ["w1", "w2"]

    run(test())


def test_what_is_stored_is_counted_as_stored(world: World) -> None:
    """The replica's own watch knows nothing of it."""

    async def test() -> None:
        replica = Replica(world)
        value, old = raised(world, "a", 6)
        assert (await replica.validate(value, old, "w1")).allowed
        world.store(value)
        assert messages(await replica.validate(*raised(world, "b", 6), "w2")) == [denied_by_a(reserved="")]

    run(test())


def test_quota_that_was_lowered_a_moment_ago_can_be_used(world: World) -> None:
    async def test() -> None:
        replica = Replica(world)
        world.store(raised(world, "a", 2)[0])
        assert (await replica.validate(*raised(world, "b", 8), "w1")).allowed

    run(test())


def test_a_write_that_cannot_be_stored_any_more_is_not_counted(world: World) -> None:
    """Another write of the same object came first: the API server judges this one again, under another uid."""

    async def test() -> None:
        assert (await Replica(world).validate(*raised(world, "a", 6), "w1")).allowed
        world.store(world.get("ClusterQueue", "a"))
        assert (await Replica(world).validate(*raised(world, "b", 6), "w2")).allowed
        assert world.entries == [entry(world, "b", 6, "w2")]

    run(test())


def test_a_write_of_what_is_gone_is_not_counted(world: World) -> None:
    async def test() -> None:
        assert (await Replica(world).validate(*raised(world, "a", 6), "w1")).allowed
        world.delete("ClusterQueue", "a")
        assert (await Replica(world).validate(*raised(world, "b", 10), "w2")).allowed

    run(test())


def test_a_promise_ends_by_itself(world: World) -> None:
    async def test() -> None:
        assert (await Replica(world).validate(*raised(world, "a", 6), "w1")).allowed
        world.now += 89
        assert not (await Replica(world).validate(*raised(world, "b", 6), "w2")).allowed
        world.now += 1
        assert (await Replica(world).validate(*raised(world, "b", 6), "w3")).allowed
        assert world.promised == ["w3"]

    run(test())


def test_a_dry_run_is_judged_like_the_write_and_promised_nothing(world: World) -> None:
    async def test() -> None:
        replica = Replica(world)
        assert (await replica.validate(*raised(world, "a", 6), "w1", dryRun=True)).allowed
        assert world.text == ""
        assert (await replica.validate(*raised(world, "a", 6), "w2")).allowed
        verdict = await replica.validate(*raised(world, "b", 6), "w3", dryRun=True)
        assert messages(verdict) == [denied_by_a()]
        assert world.promised == ["w2"]

    run(test())


def test_a_write_that_is_tried_again_replaces_its_own_promise(world: World) -> None:
    async def test() -> None:
        replica = Replica(world)
        assert (await replica.validate(*raised(world, "a", 6), "w1")).allowed
        world.now += 30
        assert (await replica.validate(*raised(world, "a", 6), "w2")).allowed
        assert world.entries == [entry(world, "a", 6, "w2", expires=1_800_000_120)]

    run(test())


def test_of_several_writes_of_one_queue_the_largest_counts(world: World) -> None:
    """Only one of them can be stored, but nobody knows which."""

    async def test() -> None:
        replica = Replica(world)
        assert (await replica.validate(*raised(world, "a", 6), "w1")).allowed
        assert (await replica.validate(*raised(world, "a", 5), "w2")).allowed
        assert world.promised == ["w1", "w2"]
        assert messages(await replica.validate(*raised(world, "b", 6), "w3")) == [denied_by_a()]

    run(test())


def test_a_new_queue_is_promised_its_floor_until_it_is_there(world: World) -> None:
    async def test() -> None:
        replica = Replica(world)
        new = queue("d", {"f": 2})
        new["metadata"]["uid"] = "d1"
        assert (await replica.validate(new, None, "w1")).allowed
        assert world.entries == [{**entry(world, "a", 2, "w1", version="", created="d1"), "name": "d"}]
        # One that somebody else made can be deleted again, and then this one can still be stored.
        world.store({**queue("d", {"f": 0}), "metadata": {"name": "d", "uid": "d2"}})
        assert not (await replica.validate(*raised(world, "b", 6), "w2")).allowed
        world.store({**queue("d", {"f": 0}), "metadata": {"name": "d", "uid": "d1"}})
        assert (await replica.validate(*raised(world, "b", 6), "w3")).allowed
        assert world.promised == ["w3"]

    run(test())


def test_cohorts_are_held_like_queues(world: World) -> None:
    async def test() -> None:
        replica = Replica(world)
        old = world.get("Cohort", "c")
        assert (await replica.validate({**cohort("c", {"f": 2}), "metadata": old["metadata"]}, old, "w1")).allowed
        assert not (await replica.validate(*raised(world, "b", 6), "w2")).allowed
        assert [(each["kind"], each["uid"]) for each in world.entries] == [("Cohort", "w1")]

    run(test())


def test_a_flavor_that_is_to_get_other_nodes_is_held_too(world: World) -> None:
    async def test() -> None:
        world.store(node("m", 8, {"pool": "m"}))
        replica = Replica(world)
        old = world.get("ResourceFlavor", "f")
        assert (await replica.validate({**flavor("f", pool="m"), "metadata": old["metadata"]}, old, "w1")).allowed
        assert [(each["labels"], each["floors"]) for each in world.entries] == [({"pool": "m"}, [])]
        verdict = await replica.validate(*raised(world, "b", 6), "w2")
        assert "floors of nvidia.com/gpu in flavor f" in messages(verdict)[0]
        assert "hardware: 8 on 1 node" in messages(verdict)[0]

    run(test())


def guarantee(name: str, gpus: int) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"guarantee": {"resource": {"nvidia.com/gpu": str(gpus)}}},
    }


def test_volcanos_guarantees_are_held_too(world: World) -> None:
    async def test() -> None:
        world.store(guarantee("v", 4))
        world.store(guarantee("w", 4))
        replica = Replica(world)
        verdicts = []
        for name in "vw":
            old = world.get("Queue", name)
            value = {**guarantee(name, 6), "metadata": old["metadata"]}
            verdicts.append(await replica.validate(value, old, f"w-{name}"))
        assert [verdict.allowed for verdict in verdicts] == [True, False]
        assert f"reserved until {UNTIL}" in messages(verdicts[1])[0]
        assert world.calls == ["read", "list Queue", "write", "read", "list Queue"]

    run(test())


def test_volcanos_promises_are_kept_and_count_for_nobody_else(world: World) -> None:
    async def test() -> None:
        other = entry(world, "a", 9, "v1", kind="Queue", version="7")
        world.text = json.dumps([other])
        assert (await Replica(world).validate(*raised(world, "a", 6), "w1")).allowed
        assert world.entries == [other, entry(world, "a", 6, "w1")]

    run(test())


# What needs no ledger

LOWER: dict[str, Object] = {
    "lowers": queue("a", {"f": 3}),
    "only changes its preemption": queue("a", {"f": 4}, preemption={"reclaimWithinCohort": "Any"}),
    "raises no accelerator": queue("a", {"f": {"nominalQuota": 99, "name": "cpu"}}),
}


@pytest.mark.parametrize("value", LOWER.values(), ids=LOWER.keys())
def test_a_write_that_raises_nothing_asks_nobody(world: World, value: Object) -> None:
    async def test() -> None:
        old = world.get("ClusterQueue", "a")
        await Replica(world).validate({**value, "metadata": old["metadata"]}, old, "w1")
        assert world.calls == []

    run(test())


POLICIES = {
    "off": Policy(rules={"floors-exceed-capacity": Mode.OFF}),
    "warn": Policy(rules={"floors-exceed-capacity": Mode.WARN}),
    "exempt": Policy(exemptions=(Exemption("jane knows", users=frozenset({"jane"})),)),
    "ignored flavor": Policy(capacity=Capacity(ignore_flavors=frozenset({"f"}))),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_where_nothing_can_be_denied_nothing_is_promised(world: World, policy: Policy) -> None:
    async def test() -> None:
        replica = Replica(world, policy=policy)
        assert (await replica.validate(*raised(world, "a", 60), "w1")).allowed
        assert world.calls == []

    run(test())


def test_hardware_elsewhere_needs_no_promise(world: World) -> None:
    async def test() -> None:
        world.store(check("remote", MULTIKUEUE_CONTROLLER))
        world.store(queue("a", {"f": 4}, admissionChecksStrategy=checked("remote")))
        old = world.get("ClusterQueue", "a")
        value = queue("a", {"f": 60}, admissionChecksStrategy=checked("remote"))
        verdict = await Replica(world).validate({**value, "metadata": old["metadata"]}, old, "w1")
        assert [each.rule for each in verdict.not_evaluated] == ["floors-exceed-capacity"]
        assert world.calls == []

    run(test())


def test_without_a_kind_that_decides_nobody_can_judge(world: World) -> None:
    """RBAC that refuses one kind turns off the rules that need it, and no more."""

    async def test() -> None:
        replica = Replica(world)
        replica.source.snapshot.forget("Cohort", "not allowed: list cohorts.kueue.x-k8s.io")
        verdict = await replica.validate(*raised(world, "a", 60), "w1")
        assert verdict.allowed
        assert "floors-exceed-capacity" in [each.rule for each in verdict.not_evaluated]
        assert world.calls == []

    run(test())


def test_a_folder_of_manifests_has_no_ledger(world: World) -> None:
    async def test() -> None:
        replica = Replica(world)
        replica.source.ledger = None
        assert (await replica.validate(*raised(world, "a", 6), "w1")).allowed
        assert not (await replica.validate(*raised(world, "a", 7), "w2")).allowed
        assert world.calls == []

    run(test())


# Others who write at the same time


def test_who_was_overtaken_judges_again(world: World) -> None:
    """Another replica's promise comes between reading the ledger and writing it."""

    async def test() -> None:
        async def overtake(call: str) -> None:
            if call == "write" and world.calls.count("write") == 1:
                assert (await Replica(world).validate(*raised(world, "a", 6), "w1")).allowed

        world.pause = overtake
        assert messages(await Replica(world).validate(*raised(world, "b", 6), "w2")) == [denied_by_a()]
        assert world.promised == ["w1"]
        assert world.calls.count("read") == 3

    run(test())


def test_the_first_reservation_of_all_can_be_overtaken_too(world: World) -> None:
    async def test() -> None:
        async def overtake(call: str) -> None:
            if call == "write" and world.calls.count("write") == 1:
                assert (await Replica(world).validate(*raised(world, "a", 5), "w1")).allowed

        world.pause = overtake
        assert (await Replica(world).validate(*raised(world, "b", 5), "w2")).allowed
        assert world.promised == ["w1", "w2"]

    run(test())


def test_a_promise_that_is_kept_and_dropped_between_the_two_looks(world: World) -> None:
    """Who looked at the queues first would count it nowhere."""

    async def test() -> None:
        value, old = raised(world, "a", 6)
        assert (await Replica(world).validate(value, old, "w1")).allowed
        looks: list[str] = []

        async def keep(call: str) -> None:
            looks.append(call)
            if call in ("was read", "listed ClusterQueue") and len(looks) == 2:
                world.store(value)
                await world.write("[]", world.text_version)

        world.pause = keep
        assert messages(await Replica(world).validate(*raised(world, "b", 6), "w2")) == [denied_by_a(reserved="")]

    run(test())


def test_raises_of_one_process_do_not_meet(world: World) -> None:
    async def test() -> None:
        async def switch(_call: str) -> None:
            await asyncio.sleep(0)

        world.pause = switch
        replica = Replica(world)
        for name in "defg":
            world.store(queue(name, {"f": 0}))
        asking = [replica.validate(*raised(world, name, 1), f"w-{name}") for name in "defg"]
        verdicts = await asyncio.gather(*asking)
        assert [verdict.allowed for verdict in verdicts] == [True, True, False, False]
        assert world.calls.count("read") == 4

    run(test())


# Our own faults: the write is neither allowed nor denied

HOME = "the floors could not be reserved in ConfigMap floorkeeper-system/floorkeeper-reservations: "


def failing(world: World, *errors: Exception, at: str = "read") -> None:
    left = list(errors)

    async def fail(call: str) -> None:
        if call == at and left:
            raise left.pop(0)

    world.pause = fail


@pytest.mark.parametrize("at", ["read", "list Cohort", "write"])
def test_a_failure_that_passes_is_tried_again(world: World, at: str) -> None:
    async def test() -> None:
        failing(world, *[StoreError("503 etcd has no leader")] * 3, at=at)
        assert (await Replica(world).validate(*raised(world, "a", 6), "w1")).allowed
        assert world.promised == ["w1"]

    run(test())


def test_a_lost_answer_leaves_one_promise(world: World) -> None:
    """The ledger was written, and nobody told us."""

    async def test() -> None:
        failing(world, StoreError("silent for 3 s"), at="was written")
        assert (await Replica(world).validate(*raised(world, "a", 6), "w1")).allowed
        assert world.entries == [entry(world, "a", 6, "w1")]

    run(test())


@pytest.mark.parametrize("at", ["read", "list Cohort", "write"])
def test_a_failure_that_lasts_is_said_at_once(world: World, at: str) -> None:
    async def test() -> None:
        failing(world, StoreError("not allowed to get the ConfigMap; grant it", lasting=True), at=at)
        with pytest.raises(LedgerError) as caught:
            await Replica(world).validate(*raised(world, "a", 6), "w1")
        assert str(caught.value) == f"{HOME}not allowed to get the ConfigMap; grant it"
        assert world.text == ""

    run(test())


async def _never(_call: str) -> None:
    await asyncio.Event().wait()


def test_a_decision_has_a_deadline(world: World) -> None:
    timing = replace(AT_ONCE, deadline=0.1, retry=0.005)

    async def takes(problem: str) -> None:
        began = time.monotonic()
        with pytest.raises(LedgerError) as caught:
            await Replica(world, timing).validate(*raised(world, "a", 6), "w1")
        assert time.monotonic() - began < 1
        assert str(caught.value) == f"{HOME}{problem}; try again"

    async def test() -> None:
        failing(world, *[StoreError("503 etcd has no leader")] * 1000)
        await takes("503 etcd has no leader")

        async def write(call: str) -> None:
            await asyncio.sleep(0)
            if call == "write":
                world.text_version = world.revision = world.revision + 1

        world.pause = write
        await takes("other replicas are writing it all the time")
        world.pause = _never
        await takes("it does not answer")
        assert world.text == ""

    run(test())


def test_who_waits_for_others_has_the_same_deadline(world: World) -> None:
    async def test() -> None:
        world.pause = _never
        replica = Replica(world, replace(AT_ONCE, deadline=0.1))
        began = time.monotonic()
        asking = [replica.validate(*raised(world, "a", 6), f"w{number}") for number in range(3)]
        errors = await asyncio.gather(*asking, return_exceptions=True)
        assert time.monotonic() - began < 1
        assert all(isinstance(error, LedgerError) for error in errors)

    run(test())


DAMAGED = {
    "no JSON": "reserved: all",
    "no list": "{}",
    "no entries": "[1]",
    "nothing in it": "[{}]",
    "a time in words": '[{"expires": "tomorrow"}]',
    "a time beyond all": '[{"expires": 1e300}]',
    "floors that are none": '[{"expires": 1, "floors": 3}]',
    "an amount that is none": '[{"expires": 1, "floors": [{"flavor": "f", "resource": "r", "amount": "many"}]}]',
    "labels that are none": '[{"expires": 1, "floors": [], "labels": 5}]',
    "a name that is none": '[{"expires": 1, "floors": [], "labels": null, "kind": "Queue", "name": 1}]',
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_ledger_that_somebody_edited(world: World, text: str) -> None:
    async def test() -> None:
        world.text = text
        with pytest.raises(LedgerError) as caught:
            await Replica(world).validate(*raised(world, "a", 6), "w1")
        start, _, reason = str(caught.value).partition("its content is not Floorkeeper's (")
        assert start == HOME
        assert reason.endswith("); delete it, and it is made anew")
        assert world.text == text

    run(test())


def test_the_ledger_has_a_largest_size(world: World) -> None:
    async def test() -> None:
        many = [entry(world, "a", 4, f"w{number}", version="1", kind="Queue") for number in range(4000)]
        many[7]["expires"] = 1_800_000_033
        world.text = json.dumps(many)
        assert len(world.text) > LONGEST
        with pytest.raises(LedgerError) as caught:
            await Replica(world).validate(*raised(world, "a", 6), "w1")
        assert str(caught.value) == (
            f"{HOME}it is full, with 4000 reservations of writes that are not stored yet; try again after 08:00:33 UTC"
        )

    run(test())


@pytest.fixture
def door(world: World) -> Iterator[Door]:
    door = Door(Replica(world).source, Policy())
    yield door
    door.close()


def test_the_api_server_gets_a_500_with_the_reason(world: World, door: Door) -> None:
    failing(world, StoreError("not allowed to get the ConfigMap; grant it", lasting=True))
    body = json.dumps(review_of(*raised(world, "a", 6), uid="w1")).encode()
    status, headers, answer = door.send("/validate", body)
    # As text, which the API server repeats to the person who wrote.
    assert (status, headers["content-type"]) == (500, "text/plain; charset=utf-8")
    assert answer.decode() == f"{HOME}not allowed to get the ConfigMap; grant it (request w1)"
    assert world.calls == ["read"]


def test_mutate_reserves_nothing(world: World, door: Door) -> None:
    assert door.ask("/mutate", review_of(*raised(world, "a", 6)))["allowed"]
    assert world.calls == []


# Tidying


async def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not what():
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.005)


def test_a_promise_is_dropped_once_its_write_is_stored(world: World) -> None:
    async def test() -> None:
        replica = Replica(world, LedgerTiming(retry=0.0, tidy=(0.01,) * 100))
        value, old = raised(world, "a", 5)
        assert (await replica.validate(value, old, "w1")).allowed
        assert (await replica.validate(*raised(world, "b", 5), "w2")).allowed
        world.store(value)
        await until(lambda: world.promised == ["w2"])
        looks = world.calls.count("read")
        await until(lambda: world.calls.count("read") >= looks + 3)
        assert world.promised == ["w2"]
        world.now += 90
        await until(lambda: world.promised == [])
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    run(test())


def test_tidying_goes_on_after_failures_and_takes_nobodys_turn(world: World) -> None:
    async def test() -> None:
        replica = Replica(world, LedgerTiming(retry=0.0, tidy=(0.01,) * 100))
        value, old = raised(world, "a", 5)
        assert (await replica.validate(value, old, "w1")).allowed
        world.store(value)
        blocked = asyncio.Event()
        begun = asyncio.Event()

        async def block(call: str) -> None:
            if call == "read" and not begun.is_set():
                begun.set()
                await blocked.wait()
                raise StoreError("503")

        world.pause = block
        await begun.wait()
        assert (await replica.validate(*raised(world, "b", 5), "w2")).allowed
        assert world.promised == ["w2"]
        world.store(raised(world, "b", 5)[0])
        blocked.set()
        await until(lambda: world.promised == [])

    run(test())
