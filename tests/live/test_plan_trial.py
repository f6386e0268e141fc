"""What the API server says of the steps of a plan, before the first one is written."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.live.plan_world import Asked, PlanWorld, Refusal, guide, plain, running_world, used
from tests.quota_objects import GPU, cohort, flavor, node, queue

WANTED = ("--set", "model-a=7", "--set", "model-b=3")
LIMIT = (
    'admission webhook "vclusterqueue.kb.io" denied the request: spec.resourceGroups[0].flavors[0].resources[0].'
    'lendingLimit: Invalid value: "5": must be less than or equal to the nominalQuota'
)
OURS = 'admission webhook "floors.validate.floorkeeper.io" denied the request: ClusterQueue "model-a": spec: {} [{}]'
ROOM = OURS.format("must keep the floors within the hardware, is 7; fix: lower others first", "floors-exceed-capacity")
OTHER = OURS.format("must be a quantity, is x; fix: write one", "malformed-quota")
POLICY = (
    "clusterqueues.kueue.x-k8s.io \"model-a\" is forbidden: ValidatingAdmissionPolicy 'no' with binding 'no' denied "
    "request: ask finance first"
)
RIGHT = 'not allowed to patch clusterqueues.kueue.x-k8s.io "model-{}"; ask for that right'


@pytest.fixture
def where(tmp_path: Path) -> Iterator[tuple[PlanWorld, Path]]:
    with running_world(tmp_path) as (world, kubeconfig):
        world.put(*guide())
        yield world, kubeconfig


def refusing(name: str, message: str, code: int = 403) -> Callable[[Asked], Refusal | None]:
    return lambda asked: Refusal(code, message) if asked.method == "PATCH" and asked.path.endswith(name) else None


def tries(world: PlanWorld) -> list[str]:
    return [asked.path.rpartition("/")[2] for asked in world.requests if asked.tries]


def test_each_step_is_tried_before_the_first_is_written(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    assert world.run(*WANTED, "--apply", "--yes", kubeconfig=kubeconfig)[0] == 0
    patches = [asked for asked in world.requests if asked.method == "PATCH"]
    assert [asked.tries for asked in patches] == [True, True, False, False]
    assert tries(world) == ["model-b", "model-a"]


@pytest.mark.parametrize("words", [(), ("-o", "json"), ("-o", "yaml")])
def test_a_plan_alone_is_tried_too(where: tuple[PlanWorld, Path], words: tuple[str, ...]) -> None:
    world, kubeconfig = where
    assert world.run(*WANTED, *words, kubeconfig=kubeconfig)[0] == 0
    assert tries(world) == ["model-b", "model-a"]
    assert world.patches() == []


@pytest.mark.parametrize("message", [LIMIT, POLICY, OTHER, f"{ROOM}\n{OTHER}"])
def test_what_others_refuse_of_a_later_step_stops_the_first(where: tuple[PlanWorld, Path], message: str) -> None:
    world, kubeconfig = where
    world.before = refusing("/model-a", message)
    code, out, _ = world.run(*WANTED, "--apply", "--yes", kubeconfig=kubeconfig)
    assert (code, world.patches()) == (1, [])
    said = plain(out)
    assert "The API server does not take every step (tried by a dry run): 1. lower " in said
    assert f'refused: patch clusterqueues.kueue.x-k8s.io "model-a": 403 {plain(message)}' in said
    assert out.endswith("\nNothing was written.\n")


def test_a_floor_below_its_lending_limit(where: tuple[PlanWorld, Path]) -> None:
    """Kueue refuses that, and what is advised makes it possible."""
    world, kubeconfig = where
    world.put(used(queue("model-b", {"a": {"nominalQuota": "5", "lendingLimit": "5"}}, cohortName="models"), 2))
    world.before = refusing("/model-b", LIMIT)
    code, out, err = world.run(*WANTED, "-o", "yaml", kubeconfig=kubeconfig)
    assert (code, out) == (1, "")
    assert "fix: lower its lendingLimit first, which may not be above the floor:" in plain(err)
    (command,) = (line for line in err.splitlines() if "kubectl patch" in line)
    *words, patch = shlex.split(command)
    assert words == ["kubectl", "patch", "clusterqueues.kueue.x-k8s.io", "model-b", "--type=json", "-p"]
    place = "/spec/resourceGroups/0/flavors/0/resources/0/lendingLimit"
    assert json.loads(patch) == [
        {"op": "test", "path": place, "value": "5"},
        {"op": "replace", "path": place, "value": "3"},
    ]
    code, out, _ = world.run(*WANTED, "-o", "json", kubeconfig=kubeconfig)
    found = json.loads(out)["plan"]
    assert (code, found["possible"], [each["name"] for each in found["rejected"]]) == (1, False, ["model-b"])


def test_our_own_webhook_sees_the_floors_before_the_first_step(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.before = lambda asked: refusing("/model-a", ROOM)(asked) if asked.tries else None
    code, out, _ = world.run(*WANTED, "--apply", "--yes", kubeconfig=kubeconfig)
    assert code == 0
    assert out.endswith("All is done: 2 steps.\n")


def test_our_own_webhook_counts_for_the_first_step(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.before = refusing("/model-b", ROOM)
    code, out, _ = world.run(*WANTED, kubeconfig=kubeconfig)
    assert code == 1
    assert "refused: patch clusterqueues.kueue.x-k8s.io" in plain(out)


def test_an_account_that_may_not_patch(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.before = refusing("", 'clusterqueues.kueue.x-k8s.io is forbidden: User "me" cannot patch it')
    said = "not evaluated: whether the API server takes these steps: {}".format
    code, out, _ = world.run(*WANTED, kubeconfig=kubeconfig)
    assert code == 3
    assert "2 steps; in this order none of them is denied by Floorkeeper's rules:" in plain(out)
    assert all(said(RIGHT.format(name)) in plain(out) for name in "ab")
    # Who makes the patches may be somebody else.
    code, out, err = world.run(*WANTED, "-o", "yaml", kubeconfig=kubeconfig)
    assert code == 3
    assert len(list(yaml.safe_load_all(out))) == 2
    assert f"# {said(RIGHT.format('b'))}\n" in out
    assert f"floorkeeper: {said(RIGHT.format('b'))}\n" in err
    code, out, _ = world.run(*WANTED, "-o", "json", kubeconfig=kubeconfig)
    assert (code, json.loads(out)["plan"]["notEvaluated"]) == (3, [said(RIGHT.format(name)) for name in "ba"])
    code, out, _ = world.run(*WANTED, "--apply", "--yes", kubeconfig=kubeconfig)
    assert (code, world.patches()) == (3, [])
    assert out.endswith("\nNothing was written.\n")


@pytest.mark.parametrize(
    ("code", "message"),
    [(500, "failed calling webhook"), (400, 'admission webhook "x" does not support dry run'), (429, "busy")],
)
def test_a_step_that_cannot_be_tried(where: tuple[PlanWorld, Path], code: int, message: str) -> None:
    world, kubeconfig = where
    world.before = lambda asked: Refusal(code, message) if asked.tries else None
    ended, out, _ = world.run(*WANTED, "--apply", "--yes", kubeconfig=kubeconfig)
    assert (ended, world.patches()) == (3, [])
    assert "not evaluated: whether the API server takes these steps: patch clusterqueues.kueue.x-k8s.io" in plain(out)
    assert message in plain(out)


def test_the_second_step_of_an_object_is_tried_on_its_first(tmp_path: Path) -> None:
    with running_world(tmp_path) as (world, kubeconfig):
        pools = [node(name, gpus=10, labels={"pool": name}) for name in ("a", "b")]
        world.put(*pools, flavor("a", pool="a"), flavor("b", pool="b"), queue("x", {"a": "7", "b": "3"}))
        wanted = [f"--set=x/{of}/{GPU}={to}" for of, to in (("a", 3), ("b", 7))]
        assert world.run(*wanted, kubeconfig=kubeconfig)[0] == 0
        bodies = [asked.body["spec"]["resourceGroups"][0]["flavors"] for asked in world.requests if asked.tries]
        floors = [[each["resources"][0]["nominalQuota"] for each in body] for body in bodies]
        assert floors == [["3", "3"], ["3", "7"]]


def test_what_cannot_be_is_not_tried(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    code, out, _ = world.run("--set", "model-a=9", "--apply", "--yes", kubeconfig=kubeconfig)
    assert (code, tries(world)) == (1, [])
    assert out.endswith("\nNothing was written.\n")


def test_a_cohorts_lending_limit(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.put(cohort("models", {"a": {"nominalQuota": "2", "lendingLimit": "1"}}, parentName="top"))
    world.before = refusing("/models", LIMIT)
    _, out, _ = world.run("--set", "cohort:models=0", kubeconfig=kubeconfig)
    assert "kubectl patch cohorts.kueue.x-k8s.io models --type=json" in out
