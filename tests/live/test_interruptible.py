"""Output that nobody reads any more, or that finds no room: a walk says how it leaves things, as after Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from tests.live.plan_world import PROGRAM, Asked, PlanWorld, guide, running_world
from tests.live.rollout_world import TEAM, World, deployment
from webhook.engine.policy import Policy
from webhook.kube.names import QUEUE_LABEL
from webhook.live.adopt.walk import walk as adopt
from webhook.live.deployments import STRATEGY
from webhook.live.release.walk import walk as release

LOWER = 'lower ClusterQueue "model-b": nvidia.com/gpu in a 5 -> 3'
RAISE = 'raise ClusterQueue "model-a": nvidia.com/gpu in a 5 -> 7'
AGAIN = "Run this again with the same --set: it goes on from here."
UNREAD = "floorkeeper: nobody reads the output any more: "
FULL = "floorkeeper: the output cannot be written: No space left on device: "


def adopted() -> tuple[World, Callable[[World], None]]:
    def run(world: World) -> None:
        adopt(world, TEAM, {"model-a": "a-lq"}, Policy(), world.waiting, yes=True)

    return World(deployment("model-a", 2)), run


def released() -> tuple[World, Callable[[World], None]]:
    def run(world: World) -> None:
        release(world, TEAM, {"model-a"}, world.waiting, yes=True)

    return World(deployment("model-a", 2, queue="a-lq", strategy=dict(STRATEGY))), run


def code_of(run: Callable[[World], None], world: World) -> int:
    try:
        run(world)
    except typer.Exit as end:
        return end.exit_code
    return 0


@pytest.mark.parametrize("made", [adopted, released])
def test_a_walk_whose_pipe_is_closed(
    made: Callable[[], tuple[World, Callable[[World], None]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world, run = made()
    before = QUEUE_LABEL in world.deployment("model-a")["spec"]["template"]["metadata"]["labels"]
    ours, theirs = os.pipe()

    def leave(number: int, when: str) -> None:
        labels = world.deployment("model-a")["spec"]["template"]["metadata"]["labels"]
        if when == "after" and (QUEUE_LABEL in labels) != before:
            os.close(ours)
            world.interrupt = lambda number, when: None

    world.interrupt = leave
    with monkeypatch.context() as patch, os.fdopen(theirs, "w") as stdout:
        patch.setattr(sys, "stdout", stdout)
        assert code_of(run, world) == 141
    what = "its label is off" if before else "its label is set"
    assert capsys.readouterr().err.startswith(f"{UNREAD}model-a: {what}, and its rollout goes on by itself")
    assert code_of(run, world) == 0


@pytest.mark.parametrize("made", [adopted, released])
def test_a_walk_that_cannot_say_what_it_will_do(
    made: Callable[[], tuple[World, Callable[[World], None]]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world, run = made()
    generation = world.deployment("model-a")["metadata"]["generation"]
    with monkeypatch.context() as patch, open("/dev/full", "w") as stdout:
        patch.setattr(sys, "stdout", stdout)
        assert code_of(run, world) == 1
    assert capsys.readouterr().err == f"{FULL}nothing was written; run the command again\n"
    assert world.deployment("model-a")["metadata"]["generation"] == generation


@pytest.fixture
def where(tmp_path: Path) -> Iterator[tuple[PlanWorld, Path]]:
    with running_world(tmp_path) as (world, kubeconfig):
        world.put(*guide())
        yield world, kubeconfig


def started(kubeconfig: Path, *words: str) -> list[str]:
    wanted = ("--set", "model-a=7", "--set", "model-b=3", "--kubeconfig", str(kubeconfig))
    return [sys.executable, "-c", PROGRAM, *wanted, *words]


@pytest.mark.parametrize("both", [False, True], ids=["stdout", "stderr too"])
def test_a_plan_whose_pipe_is_closed(where: tuple[PlanWorld, Path], both: bool) -> None:
    world, kubeconfig = where

    def leave(asked: Asked) -> None:
        if asked.writes and len(world.patches()) == 1:
            os.close(ours)

    world.before = leave
    ours, theirs = os.pipe()
    stderr = theirs if both else subprocess.PIPE
    with subprocess.Popen(started(kubeconfig, "--apply", "--yes"), stdout=theirs, stderr=stderr, text=True) as process:
        os.close(theirs)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 141
    assert (world.floor("model-a"), world.floor("model-b")) == (5, 3)
    if not both:
        back = "To take back what is done: floorkeeper plan --set model-b/a/nvidia.com/gpu=5 --apply"
        assert err == f"{UNREAD}Done: {LOWER}\nNot done: {RAISE}\n{AGAIN}\n{back}\n"


def test_a_plan_that_nobody_sees(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        started(kubeconfig, "--apply", "--yes"),
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
        check=False,
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (141, f"{UNREAD}nothing was written; run the command again\n")
    assert world.patches() == []


@pytest.mark.parametrize(
    ("words", "left", "floors"),
    [
        (("--apply", "--yes"), "nothing was written; run the command again\n", (5, 5)),
        (("-o", "yaml"), "nothing was written; run the command again\n", (5, 5)),
        (("-o", "json"), "nothing was written; run the command again\n", (5, 5)),
        (("--apply", "--yes", "-o", "json"), "All is done: 2 steps.\n", (7, 3)),
    ],
)
def test_a_plan_on_a_full_disk(
    where: tuple[PlanWorld, Path], words: tuple[str, ...], left: str, floors: tuple[int, int]
) -> None:
    world, kubeconfig = where
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            started(kubeconfig, *words), stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False
        )
    assert done.returncode == 1
    assert done.stderr.endswith(f"{FULL}{left}")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert (world.floor("model-a"), world.floor("model-b")) == floors


def test_a_short_answer_on_a_full_disk(tmp_path: Path) -> None:
    """One that Python keeps until the end."""
    with running_world(tmp_path) as (_, kubeconfig), open("/dev/full", "w") as full:
        command = [sys.executable, "-c", PROGRAM, "-o", "json", "--kubeconfig", str(kubeconfig)]
        buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False, env=buffered
        )
    assert (done.returncode, done.stderr) == (1, f"{FULL}nothing was written; run the command again\n")
