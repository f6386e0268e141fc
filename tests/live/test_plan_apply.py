"""`floorkeeper plan --apply`: one step at a time, whatever happens between and whenever it is interrupted."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.plan_world import PROGRAM, Asked, PlanWorld, Refusal, guide, plain, running_world

WANTED = ("--set", "model-a=7", "--set", "model-b=3")
LOWER = 'lower ClusterQueue "model-b": nvidia.com/gpu in a 5 -> 3'
RAISE = 'raise ClusterQueue "model-a": nvidia.com/gpu in a 5 -> 7'
ALL_DONE = f"1 of 2: {LOWER}: written, and read back\n2 of 2: {RAISE}: written, and read back\nAll is done: 2 steps.\n"
AGAIN = "Run this again with the same --set: it goes on from here.\n"
MENDED = "Once that is mended, run this again with the same --set: it goes on from here.\n"
BACK = "To take back what is done: floorkeeper plan --set model-b/a/nvidia.com/gpu=5 --apply\n"
NOTHING_DONE = f"Nothing is done.\nNot done: {LOWER}\nNot done: {RAISE}\n"
HALF_DONE = f"Done: {LOWER}\nNot done: {RAISE}\n"


@pytest.fixture
def where(tmp_path: Path) -> Iterator[tuple[PlanWorld, Path]]:
    with running_world(tmp_path) as (world, kubeconfig):
        world.put(*guide())
        yield world, kubeconfig


def applied(where: tuple[PlanWorld, Path], *more: str) -> tuple[int, str, str]:
    world, kubeconfig = where
    return world.run(*WANTED, "--apply", "--yes", *more, kubeconfig=kubeconfig)


def floors(world: PlanWorld) -> tuple[int, int]:
    return world.floor("model-a"), world.floor("model-b")


def test_each_step_is_written_and_read_back(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    versions = [world.stored("ClusterQueue", name)["metadata"]["resourceVersion"] for name in ("model-b", "model-a")]
    before = world.stored("ClusterQueue", "model-b")["spec"]
    code, out, err = applied(where)
    assert (code, err) == (0, "")
    assert out.endswith(ALL_DONE)
    assert floors(world) == (7, 3)
    patches = [asked for asked in world.requests if asked.writes]
    assert [asked.body["metadata"] for asked in patches] == [{"resourceVersion": version} for version in versions]
    for patch in patches:
        read = world.requests[patch.number + 1]
        assert (read.method, read.path) == ("GET", patch.path)
    after = world.stored("ClusterQueue", "model-b")["spec"]
    before["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "3"
    assert after == before


def test_once_all_is_so_nothing_is_written(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    applied(where)
    code, out, _ = applied(where)
    assert code == 0
    assert out.endswith("Every floor is as wanted: there is nothing to do.\n")
    assert world.patches() == ["model-b", "model-a"]


def test_progress_as_json(where: tuple[PlanWorld, Path]) -> None:
    code, out, err = applied(where, "-o", "json")
    assert (code, err) == (0, ALL_DONE)
    found = json.loads(out)
    assert [step["name"] for step in found["done"]] == ["model-b", "model-a"]
    assert found["pending"] == []


def test_a_status_that_comes_between_costs_one_more_look(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where

    def touch(asked: Asked) -> None:
        if asked.writes and len(world.patches()) <= 3:
            world.touch("model-b")

    world.before = touch
    code, _, _ = applied(where)
    assert code == 0
    assert world.patches() == ["model-b"] * 4 + ["model-a"]
    # Of everything: for the plan, and before each step.
    assert sum(asked.path.endswith("/nodes") for asked in world.requests) == 3


def test_a_floor_that_somebody_else_raises_is_judged(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where

    def take(asked: Asked) -> None:
        if asked.writes and asked.path.endswith("/model-a"):
            world.set_floor("model-b", 5)
            world.touch("model-a")

    world.before = take
    code, out, err = applied(where)
    assert code == 1
    assert "must keep the floors within the hardware, is 7: " in err
    assert out.endswith(f"{HALF_DONE}{MENDED}{BACK}")
    assert floors(world) == (5, 5)


def test_what_somebody_else_has_done_is_not_done_again(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    world.after = lambda asked: world.set_floor("model-a", 7) if asked.writes else None
    code, out, _ = applied(where)
    assert code == 0
    assert out.endswith(f"2 of 2: {RAISE}: is so already\nAll is done: 2 steps.\n")
    assert world.patches() == ["model-b"]


def test_what_else_changed_in_its_spec_is_kept(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where

    def edit(asked: Asked) -> None:
        if world.patches() == ["model-b"] and asked.writes:
            value = world.stored("ClusterQueue", "model-b")
            value["spec"]["queueingStrategy"] = "StrictFIFO"
            world.put(value)

    world.before = edit
    code, _, _ = applied(where)
    assert code == 0
    assert world.patches() == ["model-b", "model-b", "model-a"]
    assert world.stored("ClusterQueue", "model-b")["spec"]["queueingStrategy"] == "StrictFIFO"


def test_what_somebody_else_has_done_is_not_taken_back(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where

    def others(asked: Asked) -> None:
        # The plan lists them, and the first step does.
        lists = [each for each in world.requests if each.path.endswith("/clusterqueues")]
        if asked in lists[1:2]:
            world.set_floor("model-b", 3)

    world.before = lambda asked: Refusal(422, "no") if asked.writes else others(asked)
    code, out, _ = applied(where)
    assert code == 1
    assert out.endswith(f"1 of 2: {LOWER}: is so already\n{HALF_DONE}{MENDED}")


def test_what_was_not_agreed_to_is_not_done(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where

    def edit(asked: Asked) -> None:
        if asked.writes and asked.path.endswith("/model-b"):
            world.set_floor("model-a", 6)
            world.touch("model-a")

    world.before = edit
    code, out, err = applied(where)
    assert code == 1
    why = "somebody else changed it meanwhile; run this again to see what is left to do"
    assert err == f"floorkeeper: {RAISE}: {why}\n"
    assert out.endswith(f"{HALF_DONE}{MENDED}{BACK}")
    assert floors(world) == (6, 3)


def test_somebody_who_writes_all_the_time(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    world.before = lambda asked: world.touch("model-b") if asked.writes else None
    code, _, err = applied(where)
    assert code == 1
    assert err == f"floorkeeper: {LOWER}: others write to it all the time; run this again when they have ended\n"
    assert len(world.patches()) == 20
    assert floors(world) == (5, 5)


def test_a_denial_stops_with_its_words(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    denial = 'admission webhook "clusterqueues.validate.example.com" denied the request: not on a Friday'
    world.before = lambda asked: Refusal(403, denial) if asked.writes and asked.path.endswith("/model-a") else None
    code, out, err = applied(where)
    assert code == 1
    assert err == f'floorkeeper: patch clusterqueues.kueue.x-k8s.io "model-a": 403 {denial}\n'
    assert out.endswith(f"{HALF_DONE}{MENDED}{BACK}")
    assert floors(world) == (5, 3)


def test_an_answer_that_was_lost_is_looked_for(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    world.after = lambda asked: Refusal(504, "timed out") if asked.writes else None
    code, out, _ = applied(where)
    assert code == 0
    assert out.endswith(ALL_DONE)


def test_an_error_at_the_first_write(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    world.before = lambda asked: Refusal(500, "failed calling webhook") if asked.writes else None
    code, out, err = applied(where)
    assert code == 1
    assert err == 'floorkeeper: patch clusterqueues.kueue.x-k8s.io "model-b": 500 failed calling webhook\n'
    assert out.endswith(f"{NOTHING_DONE}{MENDED}")


def test_what_somebody_sets_back_at_once_is_said(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    world.after = lambda asked: world.set_floor("model-b", 5) if asked.writes else None
    code, out, err = applied(where)
    assert code == 1
    assert "it was written, and is something else already: somebody else sets it, such as a GitOps tool" in err
    assert out.endswith(f"{NOTHING_DONE}{MENDED}")
    assert world.patches() == ["model-b"]


def test_a_queue_that_goes_meanwhile(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where

    def remove(asked: Asked) -> None:
        if asked.writes:
            del world.objects["/apis/kueue.x-k8s.io/v1beta2/clusterqueues/model-a"]

    world.after = remove
    code, out, err = applied(where)
    assert (code, err) == (1, 'floorkeeper: ClusterQueue "model-a" is gone\n')
    assert out.endswith(f"{HALF_DONE}{MENDED}{BACK}")


def test_an_api_server_that_goes_away(where: tuple[PlanWorld, Path]) -> None:
    world, _ = where
    world.before = lambda asked: Refusal(503, "away") if world.patches() and asked.method == "GET" else None
    code, out, err = applied(where)
    assert code == 3
    assert 'clusterqueues.kueue.x-k8s.io "model-b": 503 away' in err
    assert out.endswith(f"Nothing is done.\nNot known whether it is written: {LOWER}\nNot done: {RAISE}\n{AGAIN}{BACK}")
    assert floors(world) == (5, 3)


def started(kubeconfig: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, *WANTED, "--apply", *words, "--kubeconfig", str(kubeconfig)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("when", ["first read", "last read", "lower", "look", "read again", "raise", "last look"])
def test_ctrl_c_at_each_step(where: tuple[PlanWorld, Path], when: str, late: bool) -> None:
    """Before the API server has seen the request, or after it has done what it was asked for."""
    world, kubeconfig = where
    interrupted = False

    def reached(asked: Asked) -> bool:
        patches = world.patches()
        match when:
            case "first read":
                return asked.number == 0
            case "last read":
                return (
                    asked.path.endswith("/workloads")
                    and sum(each.path.endswith("/workloads") for each in world.requests) == 2
                )
            case "lower" | "raise":
                return asked.writes and len(patches) == (1 if when == "lower" else 2)
            case "look" | "last look":
                count = 1 if when == "look" else 2
                return len(patches) == count and world.requests[-2].writes
            case _:
                return len(patches) == 1 and asked.path.endswith("/nodes")

    def interrupt(asked: Asked) -> None:
        nonlocal interrupted
        if not interrupted and reached(asked):
            interrupted = True
            process.send_signal(signal.SIGINT)

    setattr(world, "after" if late else "before", interrupt)
    with started(kubeconfig, "--yes") as process:
        _, err = process.communicate(timeout=30)
    assert interrupted
    if when == "last look" and late and process.returncode == 0:
        return  # the answer was quicker than the signal
    assert process.returncode == 130
    said = {
        (5, 5): f"{NOTHING_DONE}{AGAIN}",
        (5, 3): f"{HALF_DONE}{AGAIN}{BACK}",
        (7, 3): "All is done: 2 steps.\n",
    }[floors(world)]
    if when == "first read":
        said = "nothing was written; run the command again\n"
    # One that the API server was just told to write may still be.
    unsure = said.replace("Not done", "Not known whether it is written", 1).removesuffix(BACK)
    unsure += BACK if when == "lower" else BACK.replace("--apply", "--set model-a/a/nvidia.com/gpu=5 --apply")
    ends = [
        f"\nfloorkeeper: interrupted: {text}" for text in ((said, unsure) if when in ("lower", "raise") else (said,))
    ]
    assert err in ends
    code, _, _ = applied(where)
    assert code == 0
    assert floors(world) == (7, 3)


@pytest.mark.parametrize(("answer", "code", "after"), [("n", 1, (5, 5)), ("y", 0, (7, 3))])
def test_it_asks_on_a_terminal(where: tuple[PlanWorld, Path], answer: str, code: int, after: tuple[int, int]) -> None:
    world, kubeconfig = where
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-c", PROGRAM, *WANTED, "--apply", "--kubeconfig", str(kubeconfig)]
        with subprocess.Popen(
            command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            os.write(ours, f"{answer}\n".encode())
            out, err = process.communicate(timeout=30)
    finally:
        os.close(ours)
        os.close(theirs)
    assert "Apply these 2 steps? [y/N]:" in plain(err)
    assert (process.returncode, floors(world)) == (code, after)
    assert out.endswith("Nothing was written.\n" if answer == "n" else ALL_DONE)
