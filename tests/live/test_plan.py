"""What `floorkeeper plan` shows, and what it says of floors that are only wanted."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.checking import local_queue
from tests.live.plan_world import PROGRAM, PlanWorld, Refusal, guide, plain, running_world, used
from tests.quota_objects import GPU, cohort, flavor, node, queue
from tests.test_cli import ran


@pytest.fixture
def where(tmp_path: Path) -> Iterator[tuple[PlanWorld, Path]]:
    with running_world(tmp_path) as (world, kubeconfig):
        world.put(*guide())
        yield world, kubeconfig


DEFAULTS = "policy: the defaults, for there is no ConfigMap\nfloorkeeper-system/floorkeeper-policy"
PICTURE = """\
nvidia.com/gpu in flavor a
  hardware ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━    10
  usable   ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━    10
  floors   ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━    10
  Fits: floors of nvidia.com/gpu in flavor a: ClusterQueue "model-a" 5 +
  ClusterQueue "model-b" 5 = 10; hardware: 10 on 2 nodes
  cohort models                                   floor used borrowed lent gated
  model-a  ███████████▒▒▒▒▒▒▒▒                        5    3        0    2     0
  model-b  ███████████████████▚▚▚▚▚▚▚▚                5    7        2    0     1

█ used of the floor   ▒ lent   · free   ▚ borrowed   ? asked by gated Workloads
gated: Workloads that wait for quota
"""


def test_the_picture_at_80_columns_without_colours(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    assert world.run(kubeconfig=kubeconfig, env={"COLUMNS": "80"}) == (0, f"{PICTURE}{DEFAULTS}\n", "")


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(where: tuple[PlanWorld, Path], width: int) -> None:
    world, kubeconfig = where
    _, out, _ = world.run("--set", "model-a=8", kubeconfig=kubeconfig, env={"COLUMNS": str(width)})
    # What cannot be broken is: a path, and the numbers with the shortest bar.
    assert max(map(len, out.splitlines())) <= max(width, 65)


@pytest.mark.parametrize(("columns", "width"), [("0", 80), ("1", 54), ("-5", 80), ("x", 80)])
def test_a_width_that_is_none(where: tuple[PlanWorld, Path], columns: str, width: int) -> None:
    world, kubeconfig = where
    code, out, _ = world.run("--set", "model-a=4", kubeconfig=kubeconfig, env={"COLUMNS": columns})
    assert code == 0
    assert "1. lower ClusterQueue" in out
    assert max(map(len, out.splitlines())) <= width
    if width == 80:
        assert out == world.run("--set", "model-a=4", kubeconfig=kubeconfig, env={"COLUMNS": "80"})[1]


def test_flavors_that_are_not_asked_about_are_not_drawn(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.put(*(flavor(name, pool=name) for name in "abcd"))
    world.put(*(node(f"gpu-{name}", 10, labels={"pool": name}) for name in "abcd"))
    world.put(queue("other", {"b": "4"}), queue("third", {"c": "4"}))
    _, out, _ = world.run(kubeconfig=kubeconfig)
    assert [f"in flavor {name}\n" in out for name in "abcd"] == [True] * 4
    assert "not drawn" not in out
    _, out, _ = world.run("--set", "model-a=4", kubeconfig=kubeconfig)
    assert [f"in flavor {name}\n" in out for name in "abcd"] == [True, False, False, False]
    assert "\nnot drawn: 3 other flavors (floorkeeper plan draws all)\n" in out
    # Nothing is to be done, and it is asked about all the same.
    _, out, _ = world.run("--set", "other=4", "--set", "third=4", "--set", "model-b=5", kubeconfig=kubeconfig)
    assert [f"in flavor {name}\n" in out for name in "abcd"] == [True, True, True, False]
    assert "\nnot drawn: 1 other flavor (floorkeeper plan draws all)\n" in out
    _, out, _ = world.run("-o", "json", "--set", "model-a=4", kubeconfig=kubeconfig)
    assert len(json.loads(out)["floors"]) == 4


def test_small_floors_of_much_hardware_are_seen(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.put(node("gpu-3", gpus=990))
    _, out, _ = world.run(kubeconfig=kubeconfig, env={"COLUMNS": "80"})
    bar = "█" * 27 + "▚" * 11
    assert f"  model-b  {bar}     5    7        2    0     1\n" in out
    assert "bars of queues have a scale of their own" in out


def test_bars_say_the_same_in_colours(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    _, coloured, _ = world.run(kubeconfig=kubeconfig, env={"COLUMNS": "80", "FORCE_COLOR": "1"})
    assert "\x1b[33m▚▚▚▚▚▚▚▚\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == f"{PICTURE}{DEFAULTS}\n"


def test_a_terminal_of_ascii_alone(where: tuple[PlanWorld, Path]) -> None:
    command = [sys.executable, "-c", PROGRAM, "--kubeconfig", str(where[1])]
    shown = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii"}).stdout.decode()
    assert "  model-b  ###################++++++++                5    7        2    0     1\n" in shown
    assert shown.isascii()


def test_numbers_as_json(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    code, out, _ = world.run("-o", "json", "--set", "model-a=3", kubeconfig=kubeconfig)
    found = json.loads(out)
    (section,) = found["floors"]
    owners = {owner["name"]: owner for owner in section.pop("owners")}
    assert code == 0
    assert section == {
        "resource": GPU,
        "flavors": ["a"],
        "hardware": 10,
        "usable": 10,
        "floors": 10,
        "planned": 8,
        "unmetHardware": 0,
        "unmetUsable": 0,
        "unclaimed": 0,
        "verdict": 'fits: floors of nvidia.com/gpu in flavor a: ClusterQueue "model-a" 5 + ClusterQueue "model-b" 5 '
        "= 10; hardware: 10 on 2 nodes",
        "notEvaluated": {},
    }
    assert owners["model-b"] == {
        "kind": "ClusterQueue",
        "name": "model-b",
        "flavor": "a",
        "cohorts": ["models"],
        "floor": 5,
        "planned": 5,
        "used": 7,
        "borrowed": 2,
        "lent": {"least": 0, "most": 0},
        "gated": {"workloads": 1, "asked": 0},
        "note": "",
    }
    assert (owners["model-a"]["planned"], owners["model-a"]["lent"]) == (3, {"least": 2, "most": 2})
    assert found["plan"]["steps"] == [
        {
            "kind": "ClusterQueue",
            "name": "model-a",
            "moves": [{"flavor": "a", "resource": GPU, "from": 5, "to": 3}],
            "effects": [
                "it uses 3: no replica of its own is touched",
                "model-b borrows 2 of it: they stay, and are not admitted again once they end or are reclaimed",
            ],
            "warnings": [],
        }
    ]
    assert found["plan"]["arithmetic"] == [
        'fits, and leaves 2 that nobody may claim: floors of nvidia.com/gpu in flavor a: ClusterQueue "model-b" 5 + '
        'ClusterQueue "model-a" 3 = 8; hardware: 10 on 2 nodes'
    ]


def test_lower_comes_before_raise(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    code, out, _ = world.run("--set", "model-a=7", "--set", "model-b=3", kubeconfig=kubeconfig)
    said = plain(out)
    assert code == 0
    assert "2 steps; in this order none of them is denied:" in said
    first = said.index('1. lower ClusterQueue "model-b": nvidia.com/gpu in a 5 -> 3')
    assert first < said.index('2. raise ClusterQueue "model-a": nvidia.com/gpu in a 5 -> 7')
    assert "it uses 7, of which 4 (2 now) are borrowed then, and may be reclaimed by model-a" in said
    assert said.endswith(
        'After it: fits: floors of nvidia.com/gpu in flavor a: ClusterQueue "model-a" 7 + ClusterQueue "model-b" 3 = '
        "10; hardware: 10 on 2 nodes "
    )


def test_what_waits_is_drawn_by_what_it_asks_for(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.put(local_queue("b-lq", "model-b", "n"))
    world.put(
        {
            "kind": "Workload",
            "metadata": {"name": "waits", "namespace": "n"},
            "spec": {"queueName": "b-lq"},
            "status": {"resourceRequests": [{"name": "main", "resources": {GPU: "2"}}]},
        }
    )
    _, out, _ = world.run(kubeconfig=kubeconfig, env={"COLUMNS": "80"})
    (row,) = (line for line in out.splitlines() if line.startswith("  model-b"))
    *_, bar, floor, taken, borrowed, lent, gated = row.split()
    assert (floor, taken, borrowed, lent, gated) == ("5", "7", "2", "0", "1")
    assert re.fullmatch("█+▚+[?]+", bar)
    assert abs(bar.count("?") - bar.count("▚")) <= 1, "2 are asked for, and 2 borrowed"


def test_a_queue_whose_only_flavor_does_not_exist(where: tuple[PlanWorld, Path]) -> None:
    """It promises nothing, and what waits in it would be in no picture."""
    world, kubeconfig = where
    world.put({**queue("ghost", {"b200": "0"}), "status": {"pendingWorkloads": 2}})
    code, out, _ = world.run(kubeconfig=kubeconfig, env={"COLUMNS": "80"})
    assert code == 3
    picture = plain(out.partition("in flavor b200")[2])
    assert picture.startswith(' Not evaluated: ResourceFlavor "b200" does not exist yet')
    assert " ghost 0 ? ? ? 2 Kueue has not reported its use " in picture


def test_how_many_replicas_a_lowering_may_stop(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    sizes = (1, 2, 4)
    for number, size in enumerate(sizes):
        pods = {"flavors": {GPU: "a"}, "resourceUsage": {GPU: str(size)}}
        reserved = {"type": "QuotaReserved", "status": "True"}
        admission = {"clusterQueue": "model-b", "podSetAssignments": [pods]}
        world.put(
            {
                "kind": "Workload",
                "metadata": {"name": f"w-{number}", "namespace": "n"},
                "spec": {"queueName": "q"},
                "status": {"admission": admission, "conditions": [reserved]},
            }
        )
    _, out, _ = world.run("--set", "model-b=4", kubeconfig=kubeconfig)
    # 3 are borrowed then: the two small ones hold as many.
    assert "up to 2 of its 3 replicas (Workloads) may be stopped, and are gated until there is room" in plain(out)


def test_who_may_start_after_a_raise(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    lower = "--set=model-a=2"
    _, out, _ = world.run(lower, "--set=model-b=8", kubeconfig=kubeconfig)
    waits = "1 Workload waits there: Kueue may admit it up to the new floor, 8 (7 used now), by reclaiming what others"
    assert waits in plain(out)
    # What it borrowed becomes its own, and no more.
    _, out, _ = world.run(lower, "--set=model-b=7", kubeconfig=kubeconfig)
    assert "waits there" not in out


def test_a_long_name_has_a_line_of_its_own(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    name = "a-queue-of-which-the-name-leaves-no-room-for-a-bar"
    world.put(used(queue(name, {"a": "0"}, cohortName="models"), 1, 1))
    _, out, _ = world.run(kubeconfig=kubeconfig, env={"COLUMNS": "80"})
    bar = " " * 11 + "▚" * 4 + " " * 35
    assert f"  {name}\n{bar}    0    1        1    0     0\n" in out


def test_no_order_exists(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    code, out, _ = world.run("--set", "model-a=9", "--set", "model-b=3", kubeconfig=kubeconfig)
    said = plain(out)
    assert code == 1
    assert "There is no order in which every step is let in:" in said
    assert '- raise ClusterQueue "model-a": nvidia.com/gpu in a 5 -> 9 denied: ClusterQueue "model-a": ' in said
    assert "[floors-exceed-capacity]" in said
    assert "No other order helps: what lowers floors comes first" in said
    assert "With all of it: exceeds the hardware by 2: floors of nvidia.com/gpu in flavor a:" in said


def test_quota_that_moves_between_flavors_is_lowered_everywhere_first(tmp_path: Path) -> None:
    with running_world(tmp_path) as (world, kubeconfig):
        pools = [node(name, gpus=10, labels={"pool": name}) for name in ("a", "b")]
        queues = [queue(name, {"a": "5", "b": "5"}) for name in ("x", "y")]
        world.put(*pools, flavor("a", pool="a"), flavor("b", pool="b"), *queues)
        wanted = [
            f"--set={name}/{of}/{GPU}={to}"
            for name, of, to in (("x", "a", 7), ("x", "b", 3), ("y", "a", 3), ("y", "b", 7))
        ]
        code, out, _ = world.run(*wanted, "--apply", "--yes", kubeconfig=kubeconfig)
        assert code == 0, out
        assert world.patches() == ["x", "y", "x", "y"]
        for name, floors in (("x", ["7", "3"]), ("y", ["3", "7"])):
            (group,) = world.stored("ClusterQueue", name)["spec"]["resourceGroups"]
            assert [entry["resources"][0]["nominalQuota"] for entry in group["flavors"]] == floors


def test_a_cohorts_own_quota(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.put(cohort("models", {"a": "0"}))
    code, out, _ = world.run("--set", "cohort:models=2", "--set", "model-a=3", kubeconfig=kubeconfig)
    said = plain(out)
    assert code == 0
    assert '1. lower ClusterQueue "model-a"' in said
    assert '2. raise Cohort "models": nvidia.com/gpu in a 0 -> 2' in said
    assert "(models) 0>2 - - 0 -" in said


def test_of_config_maps_only_kueues_own_is_read(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.run(kubeconfig=kubeconfig)
    lists = [asked.query for asked in world.requests if asked.path == "/api/v1/configmaps"]
    assert lists
    assert all("fieldSelector=metadata.name=kueue-manager-config" in query for query in lists)


def test_nodes_that_cannot_be_read_are_said(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.before = lambda asked: Refusal(403, "no") if asked.path == "/api/v1/nodes" else None
    code, out, _ = world.run(kubeconfig=kubeconfig)
    assert code == 3
    assert "Not evaluated: Node: none known" in out
    assert "not evaluated: Node: not allowed to list nodes; ask for that right" in out
    code, out, _ = world.run("--set", "model-a=4", "--apply", "--yes", kubeconfig=kubeconfig)
    assert code == 3
    assert "Not evaluated: whether this fits cannot be said." in out
    assert out.endswith("\nNothing was written.\n")
    assert world.patches() == []


def test_workloads_that_cannot_be_read_are_said(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.before = lambda asked: Refusal(403, "no") if asked.path.endswith("/workloads") else None
    code, out, _ = world.run("--set", "model-b=3", kubeconfig=kubeconfig)
    assert code == 3
    assert "how many replicas that may stop is not known: not allowed to list workloads.kueue.x-k8s.io" in plain(out)


def test_a_queue_that_kueue_has_not_looked_at(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.put(queue("model-c", {"a": "0"}, cohortName="models"))
    _, out, _ = world.run(kubeconfig=kubeconfig)
    assert "Kueue has not reported its use" in out
    # Nothing is known of what the others lend then.
    assert "5    3        0    ?     0" in out


def test_floors_above_the_hardware(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.set_floor("model-a", 7)
    code, out, _ = world.run(kubeconfig=kubeconfig)
    assert code == 1
    assert "Exceeds the hardware by 2: floors of nvidia.com/gpu in flavor a:" in plain(out)
    assert "!!!" in out


def test_an_excess_is_lowered_though_not_all_of_it(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.set_floor("model-a", 9)
    code, out, _ = world.run("--set", "model-a=7", "--apply", "--yes", kubeconfig=kubeconfig)
    assert code == 0
    assert "After it: exceeds the hardware by 2:" in plain(out)
    assert world.floor("model-a") == 7


def test_without_kueue(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    world.kueue = False
    code, _, err = world.run(kubeconfig=kubeconfig)
    said = "the cluster does not serve ClusterQueues: Kueue is not installed, so there are no floors"
    assert (code, err) == (3, f"floorkeeper: {said}\n")


def test_what_cannot_be_meant_is_all_said(where: tuple[PlanWorld, Path], capsys: pytest.CaptureFixture[str]) -> None:
    world, kubeconfig = where
    world.put(flavor("b", pool="b"), queue("both", {"a": "0", "b": "0"}), queue("cpus", {"a": "4"}, resource="cpu"))
    words = ("model-c=1", "model-a", "model-a=x", "model-a=-1", "model-a=0.5", "model-a/b/c=1", "both=1", "cpus=1")
    options = [part for word in (*words, "cohort:none=1", "model-a=3", "model-a=4") for part in ("--set", word)]
    code, _, err = ran(capsys, "plan", *options, "--kubeconfig", str(kubeconfig))
    whole = "Kueue counts whole accelerators: write a whole number, such as 7"
    assert code == 2
    assert err.splitlines() == [
        'floorkeeper: --set model-c=1: there is no ClusterQueue "model-c"; did you mean model-b?',
        "floorkeeper: --set model-a: write it as NAME=AMOUNT or NAME/FLAVOR/RESOURCE=AMOUNT",
        "floorkeeper: --set model-a=x: the amount is 'x', not a quantity such as 1 or 500m",
        f"floorkeeper: --set model-a=-1: the amount is -1; {whole}",
        f"floorkeeper: --set model-a=0.5: the amount is 0.5; {whole}",
        'floorkeeper: --set model-a/b/c=1: ClusterQueue "model-a" has no such quota; it has model-a/a/nvidia.com/gpu',
        'floorkeeper: --set both=1: ClusterQueue "both" has 2 accelerator quotas; say which: both/a/nvidia.com/gpu, '
        "both/b/nvidia.com/gpu",
        'floorkeeper: --set cpus=1: ClusterQueue "cpus" has no quota of an accelerator; add it to its '
        "spec.resourceGroups first",
        'floorkeeper: --set cohort:none=1: there is no Cohort "none"',
        "floorkeeper: --set model-a=4: is said twice, with two amounts; try: floorkeeper plan --help",
    ]
    # What is not in this cluster may be in another.
    assert world.run("--set", "model-c=1", kubeconfig=kubeconfig) == (
        2,
        "",
        'floorkeeper: --set model-c=1: there is no ClusterQueue "model-c"; did you mean model-b?\n',
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--apply"], "say what is wanted: --set QUEUE=AMOUNT"),
        (["-o", "yaml"], "say what is wanted: --set QUEUE=AMOUNT"),
        (["--set", "model-a=1", "--apply", "-o", "yaml"], "give --apply or -o yaml, not both"),
        (["--set", "model-a=1", "--yes"], "--yes is of use with --apply alone"),
        (
            ["--set", "model-a=1", "--apply"],
            "--apply asks before it writes, and stdin is no terminal: look at the plan, then give --yes",
        ),
    ],
)
def test_options_that_do_not_go_together(
    where: tuple[PlanWorld, Path],
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, kubeconfig = where
    with open("/dev/null") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        done = ran(capsys, "plan", *words, "--kubeconfig", str(kubeconfig))
    assert done == (2, "", f"floorkeeper: {message}; try: floorkeeper plan --help\n")
    assert world.requests == []


def test_patches_for_kubectl(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    code, out, _ = world.run("-o", "yaml", "--set", "model-a=7", "--set", "model-b=3", kubeconfig=kubeconfig)
    assert code == 0
    place = "/spec/resourceGroups/0/flavors/0"
    patches = [
        [
            {"op": "test", "path": f"{place}/name", "value": "a"},
            {"op": "test", "path": f"{place}/resources/0/name", "value": GPU},
            {"op": "test", "path": f"{place}/resources/0/nominalQuota", "value": "5"},
            {"op": "replace", "path": f"{place}/resources/0/nominalQuota", "value": floor},
        ]
        for floor in ("3", "7")
    ]
    assert list(yaml.safe_load_all(out)) == patches
    commands = [line.removeprefix("# ") for line in out.splitlines() if line.startswith("# kubectl patch")]
    words = [shlex.split(command) for command in commands]
    assert [word[:5] for word in words] == [
        ["kubectl", "patch", "clusterqueues.kueue.x-k8s.io", name, "--type=json"] for name in ("model-b", "model-a")
    ]
    assert [json.loads(word[6]) for word in words] == patches


def test_patches_of_a_plan_that_is_denied_are_not_written(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    code, out, err = world.run("-o", "yaml", "--set", "model-a=9", kubeconfig=kubeconfig)
    assert (code, out) == (1, "")
    assert "There is no order in which every step is let in:" in err


def test_a_policy_declares_capacity(where: tuple[PlanWorld, Path], tmp_path: Path) -> None:
    world, kubeconfig = where
    file = tmp_path / "policy.yaml"
    capacity = {"declared": {"a": {GPU: 12}}}
    file.write_text(yaml.safe_dump({"apiVersion": "floorkeeper.io/v1alpha1", "kind": "Policy", "capacity": capacity}))
    code, out, _ = world.run("--set", "model-a=7", "--policy", str(file), kubeconfig=kubeconfig)
    assert code == 0
    assert "10 on 2 nodes + 2 declared = 12" in plain(out)


def test_the_policy_of_the_cluster(where: tuple[PlanWorld, Path]) -> None:
    world, kubeconfig = where
    home = "/api/v1/namespaces/floorkeeper-system/configmaps/floorkeeper-policy"
    ignored = {"apiVersion": "floorkeeper.io/v1alpha1", "kind": "Policy", "capacity": {"ignoreFlavors": ["a"]}}
    world.objects[home] = {"metadata": {}, "data": {"policy.yaml": yaml.safe_dump(ignored)}}
    _, out, _ = world.run(kubeconfig=kubeconfig)
    assert out.endswith("\npolicy: ConfigMap floorkeeper-system/floorkeeper-policy\n")
    assert "model-a" not in out
    world.objects[home] = {"metadata": {}, "data": {"policy.yaml": "kind: Pol"}}
    code, out, err = world.run(kubeconfig=kubeconfig)
    assert (code, out) == (2, "")
    assert "ConfigMap floorkeeper-system/floorkeeper-policy, policy.yaml" in err


def test_no_floor_and_no_accelerator(tmp_path: Path) -> None:
    with running_world(tmp_path) as (world, kubeconfig):
        world.put(node("n", gpus=None), used(queue("cpus", {"a": "4"}, resource="cpu"), 0, resource="cpu"))
        code, out, _ = world.run(kubeconfig=kubeconfig)
        said = (
            "There are no floors: no ClusterQueue has quota of an accelerator, and no ResourceFlavor selects nodes that"
        )
        assert code == 0
        assert plain(out).startswith(f"{said} offer one. ")
