"""`floorkeeper plan` on the real control plane: floors moved under load, with the webhook in place."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.between import Between, Passed, between
from tests.cluster.controlplane import Cluster, stays, until
from tests.cluster.inside import Ended, press_ctrl_c, typed
from tests.cluster.server import Floorkeeper
from tests.cluster.team import GPU, Team, made_team


def command(kubeconfig: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "webhook", "plan", *words, "--kubeconfig", str(kubeconfig)]


def plan(team: Team, *words: str, kubeconfig: Path | None = None) -> Ended:
    return typed("plan", *words, "--kubeconfig", str(kubeconfig or team.cluster.kubeconfig))


def wanted(team: Team, model_a: int, model_b: int) -> list[str]:
    floors = {"model-a": model_a, "model-b": model_b}
    return [f"--set={team.namespace}-{name}={floor}" for name, floor in floors.items()]


def floors(team: Team) -> tuple[int, int]:
    return _floor(team, "model-a"), _floor(team, "model-b")


def _floor(team: Team, name: str) -> int:
    value = team.cluster.get("clusterqueue", f"{team.namespace}-{name}")
    return int(value["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])


def step(team: Team, verb: str, name: str, before: int, after: int) -> str:
    return f'{verb} ClusterQueue "{team.namespace}-{name}": {GPU} in {team.namespace} {before} -> {after}'


def owner(team: Team, name: str) -> dict[str, Any]:
    """The numbers of one queue."""
    (row,) = (each for each in owners(team) if each["name"] == f"{team.namespace}-{name}")
    return row


def owners(team: Team) -> list[dict[str, Any]]:
    found = json.loads(plan(team, "-o", "json").out)
    return [each for section in found["floors"] for each in section["owners"]]


def _let_in(team: Team, value: dict[str, Any]) -> bool:
    return team.api.write(value).stored


def _runs(team: Team, name: str, replicas: int) -> bool:
    return team.ready(name) == replicas


@pytest.fixture(scope="module")
def running(cluster: Cluster, floorkeeper: Floorkeeper) -> Iterator[Team]:
    with made_team(cluster, "plan") as team:
        yield _loaded(team)


@pytest.fixture
def loaded(running: Team) -> Iterator[Team]:
    """model-a runs 8 replicas on its floor of 5 and on 3 that model-b does not use, and has one more gated; model-b
    runs 2. All of it is so again after a test."""
    yield running
    moved_back(running)
    assert (running.ready("model-a"), len(running.gated("model-a")), running.ready("model-b")) == (8, 1, 2)


def moved_back(team: Team) -> None:
    """To 5/5, from whatever floors."""
    until("the floors are let in", lambda: plan(team, *wanted(team, 5, 5), "--apply", "--yes").code == 0, 20)


def _loaded(team: Team) -> Team:
    team.manage()
    for name, replicas, running in (("model-b", 2, 2), ("model-a", 9, 8)):
        value = team.deployment(name, replicas, f"{name}-lq", maxSurge=0, maxUnavailable=1)
        until(f"{name} is let in", partial(_let_in, team, value), 10)
        until(f"{running} replicas run", partial(_runs, team, name, running), 60)
    until("Kueue reports it", lambda: owner(team, "model-a")["used"] == 8 and owner(team, "model-b")["used"] == 2, 20)
    return team


@pytest.fixture
def middle(loaded: Team, tmp_path: Path) -> Iterator[Between]:
    with between(loaded.cluster, tmp_path) as found:
        yield found


def test_the_numbers_are_kueues(loaded: Team) -> None:
    model_a, model_b = owner(loaded, "model-a"), owner(loaded, "model-b")
    numbers = ("floor", "used", "borrowed", "lent", "gated")
    assert {name: model_a[name] for name in numbers} == {
        "floor": 5,
        "used": 8,
        "borrowed": 3,
        "lent": {"least": 0, "most": 0},
        "gated": {"workloads": 1, "asked": 1},
    }
    assert {name: model_b[name] for name in numbers} == {
        "floor": 5,
        "used": 2,
        "borrowed": 0,
        "lent": {"least": 3, "most": 3},
        "gated": {"workloads": 0, "asked": 0},
    }


def test_the_guides_rebalance_under_load(loaded: Team) -> None:
    """5/5 to 7/3: no replica is touched, since none of model-b's is above its new floor."""
    before = {pod["metadata"]["uid"] for name in ("model-a", "model-b") for pod in loaded.pods(name)}
    asked = command(loaded.cluster.kubeconfig, *wanted(loaded, 7, 3), "--apply", "--yes")
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lower, raised = step(loaded, "lower", "model-b", 5, 3), step(loaded, "raise", "model-a", 5, 7)
    assert done.stdout.endswith(
        f"1 of 2: {lower}: written, and read back\n2 of 2: {raised}: written, and read back\nAll is done: 2 steps.\n"
    )
    assert floors(loaded) == (7, 3)
    stays("8 and 2 replicas are ready", lambda: (loaded.ready("model-a"), loaded.ready("model-b")) == (8, 2), 2)
    assert {pod["metadata"]["uid"] for name in ("model-a", "model-b") for pod in loaded.pods(name)} == before
    until("Kueue counts by the new floors", lambda: owner(loaded, "model-a")["borrowed"] == 1, 20)


def test_the_other_order_is_denied_and_not_planned(loaded: Team) -> None:
    shown = plan(loaded, f"--set={loaded.namespace}-model-a=7", "--apply", "--yes")
    assert shown.code == 1
    said = " ".join(shown.out.split())
    assert "There is no order in which every step is let in:" in said
    arithmetic = f'ClusterQueue "{loaded.namespace}-model-a" 7 + ClusterQueue "{loaded.namespace}-model-b" 5 = 12'
    assert f"{arithmetic}; hardware: 10 on 2 nodes; fix: leave it at 5, or first lower" in said
    assert floors(loaded) == (5, 5)


def test_a_denial_of_the_webhook_stops_with_its_words(loaded: Team, tmp_path: Path) -> None:
    """The policy here declares more than that of the server."""
    policy = tmp_path / "policy.yaml"
    declared = {loaded.namespace: {GPU: 12}}
    words = {"apiVersion": "floorkeeper.io/v1alpha1", "kind": "Policy", "capacity": {"declared": declared}}
    policy.write_text(yaml.safe_dump(words))
    done = plan(loaded, *wanted(loaded, 8, 4), "--apply", "--yes", "--policy", str(policy))
    assert done.code == 1
    assert 'validate.floorkeeper.io" denied the request:' in done.err
    assert "must keep the floors within the hardware, is 8:" in done.err
    assert "[floors-exceed-capacity]" in done.err
    raised = step(loaded, "raise", "model-a", 5, 8)
    lower = step(loaded, "lower", "model-b", 5, 4)
    again = "Once that is mended, run this again with the same --set: it goes on from here."
    back = f"floorkeeper plan --set {loaded.namespace}-model-b/{loaded.namespace}/{GPU}=5 --apply"
    assert done.out.endswith(f"Done: {lower}\nNot done: {raised}\n{again}\nTo take back what is done: {back}\n")
    assert floors(loaded) == (5, 4)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_ctrl_c_at_each_step(loaded: Team, middle: Between, late: bool) -> None:
    """At each write and at each look after it, before the API server sees it and once it has done it."""
    path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{}".format
    queue_a, queue_b = (path(f"{loaded.namespace}-{name}") for name in ("model-a", "model-b"))
    # The first patch of each is a dry run.
    places = [("GET", "/api/v1/nodes", 2), ("PATCH", queue_b, 2), ("GET", queue_b, 1)]
    places += [("GET", "/api/v1/nodes", 3), ("PATCH", queue_a, 2), ("GET", queue_a, 1)]
    lower = step(loaded, "lower", "model-b", 5, 3)
    for place in places:
        middle.counts.clear()

        def interrupt(passed: Passed, place: tuple[str, str, int] = place) -> None:
            if (passed.method, passed.path, passed.count) == place:
                press_ctrl_c()

        setattr(middle, "after" if late else "before", interrupt)
        words = (*wanted(loaded, 7, 3), "--apply", "--yes")
        done = plan(loaded, *words, kubeconfig=middle.kubeconfig)
        assert done.code == 130, (place, done)
        assert done.err.startswith("\nfloorkeeper: interrupted: ")
        ended = {(5, 5): "Nothing is done.\n", (5, 3): f"Done: {lower}\n", (7, 3): "All is done: 2 steps.\n"}
        # A write that was under way when the command ended may come after it.
        assert ended[floors(loaded)] in done.err or "Not known whether it is written: " in done.err, place
        middle.before = middle.after = lambda passed: None
        again = plan(loaded, *words)
        assert again.code == 0, again
        assert floors(loaded) == (7, 3)
        assert loaded.ready("model-a") == 8
        loaded.set_floors(5, 5)
    assert (loaded.ready("model-a"), loaded.ready("model-b")) == (8, 2)


def test_ctrl_c_while_it_reads(loaded: Team, middle: Between) -> None:
    def interrupt(passed: Passed) -> None:
        if passed.path == "/api/v1/nodes":
            process.send_signal(signal.SIGINT)

    middle.before = interrupt
    asked = command(middle.kubeconfig, *wanted(loaded, 7, 3), "--apply", "--yes")
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (
        130,
        "\nfloorkeeper: interrupted: nothing was written; run the command again\n",
    )


def test_ctrl_c_at_the_question(loaded: Team) -> None:
    terminal, end = pty.openpty()
    try:
        asked = command(loaded.cluster.kubeconfig, *wanted(loaded, 7, 3), "--apply")
        with subprocess.Popen(asked, stdin=end, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            seen = b""
            while b"Apply these 2 steps?" not in seen:
                piece = os.read(process.stderr.fileno(), 4096)
                assert piece, seen
                seen += piece
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
    finally:
        os.close(terminal)
        os.close(end)
    assert process.returncode == 130
    assert said.endswith(b"floorkeeper: interrupted: nothing was written; run the command again\n")
    assert floors(loaded) == (5, 5)


def test_what_others_refuse_is_known_before_the_first_write(
    loaded: Team, cluster: Cluster, floorkeeper: Floorkeeper
) -> None:
    asked = (*wanted(loaded, 7, 3), "--apply", "--yes")
    # An account that may read all of it, as the server's does.
    reader = {"kubeconfig": floorkeeper.directory / "kubeconfig"}
    done = plan(loaded, *asked, "--policy", str(floorkeeper.directory / "policy.yaml"), **reader)
    assert done.code == 3
    right = f'not allowed to patch clusterqueues.kueue.x-k8s.io "{loaded.namespace}-model-a"; ask for that right'
    assert f"not evaluated: whether the API server takes these steps: {right}" in " ".join(done.out.split())
    # A policy of somebody else's about the second step.
    name = f"{loaded.namespace}-no"
    queues = {"apiGroups": ["kueue.x-k8s.io"], "apiVersions": ["*"], "resources": ["clusterqueues"]}
    rule = f"object.metadata.name != '{loaded.namespace}-model-a' || object.spec == oldObject.spec"
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    policy = {
        **kind,
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [{**queues, "operations": ["UPDATE"]}]},
            "validations": [{"expression": rule, "message": "ask finance first", "reason": "Forbidden"}],
        },
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    cluster.apply(policy, {**kind, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding})
    try:
        shown = until("it is in force", lambda: _refused(plan(loaded, *wanted(loaded, 7, 3))), 20)
        assert shown is not None
        assert "ask finance first" in " ".join(shown.out.split())
        done = plan(loaded, *asked)
        assert (done.code, floors(loaded)) == (1, (5, 5)), done
    finally:
        cluster("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)
    until("it is gone", lambda: plan(loaded, *wanted(loaded, 7, 3)).code == 0, 20)
    # Kueue itself, about the first step.
    limit = "/spec/resourceGroups/0/flavors/0/resources/0/lendingLimit"
    patch = ("patch", "clusterqueue", f"{loaded.namespace}-model-b", "--type=json", "-p")
    cluster(*patch, json.dumps([{"op": "add", "path": limit, "value": "5"}]))
    try:
        done = plan(loaded, *asked)
        assert (done.code, floors(loaded)) == (1, (5, 5)), done
        said = " ".join(done.out.split())
        assert 'refused: patch clusterqueues.kueue.x-k8s.io "' in said
        assert "must be less than or equal to the nominalQuota" in said
        # What it advises is all that is needed.
        (advice,) = (shlex.split(line)[1:] for line in done.out.splitlines() if "kubectl patch" in line)
        cluster(*advice)
        assert plan(loaded, *asked).code == 0
        assert floors(loaded) == (7, 3)
    finally:
        cluster(*patch, json.dumps([{"op": "remove", "path": limit}]))


def _refused(done: Ended) -> Ended | None:
    return done if done.code == 1 else None


def test_what_was_lent_is_not_admitted_again(loaded: Team) -> None:
    words = f"--set={loaded.namespace}-model-b=2"
    said = " ".join(plan(loaded, words).out.split())
    borrows = f"{loaded.namespace}-model-a borrows 3 of it: they stay, and are not admitted again once they end"
    assert f"it uses 2: no replica of its own is touched {borrows}" in said
    assert plan(loaded, words, "--apply", "--yes").code == 0
    assert loaded.ready("model-a") == 8
    pod = next(pod for pod in loaded.pods("model-a") if not pod["spec"].get("schedulingGates"))
    loaded.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    until("it is not admitted again", lambda: (loaded.ready("model-a"), len(loaded.gated("model-a"))) == (7, 2), 30)
    stays("that is so", lambda: loaded.ready("model-a") == 7, 1)
    moved_back(loaded)
    until("model-a has it again", lambda: _runs(loaded, "model-a", 8), 30)
    until("Kueue reports it", lambda: owner(loaded, "model-a")["used"] == 8, 20)


def test_patches_work_with_kubectl(loaded: Team, cluster: Cluster) -> None:
    queue = f"{loaded.namespace}-model-b"
    before = cluster.get("clusterqueue", queue)["spec"]
    printed = plan(loaded, *wanted(loaded, 7, 3), "-o", "yaml").out
    commands = [shlex.split(line[2:])[1:] for line in printed.splitlines() if line.startswith("# kubectl patch")]
    for words, document in zip(commands, yaml.safe_load_all(printed), strict=True):
        assert json.loads(words[-1]) == document
    for words in commands:
        cluster(*words)
    assert floors(loaded) == (7, 3)
    before["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "3"
    assert cluster.get("clusterqueue", queue)["spec"] == before
    # The floor is not any more what it was.
    assert cluster(*commands[0], check=False).returncode == 1
    assert floors(loaded) == (7, 3)


def test_patch_files_work_with_kubectl(loaded: Team, cluster: Cluster, tmp_path: Path) -> None:
    printed = plan(loaded, *wanted(loaded, 7, 3), "-o", "yaml").out
    for name, document in zip(("model-b", "model-a"), yaml.safe_load_all(printed), strict=True):
        file = tmp_path / "patch.yaml"
        file.write_text(yaml.safe_dump(document))
        cluster("patch", "clusterqueue", f"{loaded.namespace}-{name}", "--type=json", f"--patch-file={file}")
    assert floors(loaded) == (7, 3)


def test_a_cohorts_own_quota(loaded: Team, cluster: Cluster) -> None:
    """Two floors that give two GPUs to their Cohort, of which model-a then borrows as it did."""
    cohort = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Cohort",
        "metadata": {"name": loaded.namespace},
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources": [GPU],
                    "flavors": [{"name": loaded.namespace, "resources": [{"name": GPU, "nominalQuota": "0"}]}],
                }
            ]
        },
    }
    cluster.apply(cohort)
    try:
        words = [f"--set={loaded.namespace}-model-b=3", f"--set=cohort:{loaded.namespace}=2"]
        done = plan(loaded, *words, "--apply", "--yes")
        assert done.code == 0, done
        (row,) = (each for each in owners(loaded) if each["kind"] == "Cohort" and each["name"] == loaded.namespace)
        assert (row["floor"], row["lent"]) == (2, {"least": 2, "most": 2})
        assert owner(loaded, "model-b")["lent"] == {"least": 1, "most": 1}
        stays("8 replicas are ready", lambda: loaded.ready("model-a") == 8, 2)
    finally:
        cluster("delete", "cohort", loaded.namespace, "--wait=false")


def test_what_is_borrowed_then_is_reclaimed(loaded: Team) -> None:
    """5/5 to 3/7, with five more replicas of model-b: what the plan says of model-a is what Kueue does."""
    shown = plan(loaded, *wanted(loaded, 3, 7))
    said = " ".join(shown.out.split())
    assert "it uses 8, of which 5 (3 now) are borrowed then, and may be reclaimed by" in said
    assert "up to 5 of its 8 replicas (Workloads) may be stopped, and are gated until there is room" in said
    done = plan(loaded, *wanted(loaded, 3, 7), "--apply", "--yes")
    assert done.code == 0, done
    loaded.kubectl("scale", "deployment/model-b", "--replicas=7")
    until("model-b has its floor", lambda: (loaded.ready("model-a"), loaded.ready("model-b")) == (3, 7), 60)
    until("the rest is gated", lambda: len(loaded.gated("model-a")) == 6, 20)
    # Then all is as it was.
    loaded.kubectl("scale", "deployment/model-b", "--replicas=2")
    moved_back(loaded)
    until("model-a has it again", lambda: (loaded.ready("model-a"), loaded.ready("model-b")) == (8, 2), 60)
    until("Kueue reports it", lambda: owner(loaded, "model-a")["used"] == 8, 20)
