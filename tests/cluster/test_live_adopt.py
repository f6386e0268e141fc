"""`floorkeeper adopt`, `verify` and `release` on the real control plane, and Ctrl-C at each of their steps."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.between import Between, Passed, between
from tests.cluster.controlplane import until
from tests.cluster.inside import Ended, ended, press_ctrl_c, typed
from tests.cluster.polling import polled
from tests.cluster.server import Floorkeeper
from tests.cluster.team import Team
from webhook.kube.names import QUEUE_LABEL
from webhook.live.adopt.walk import walk as adopt
from webhook.live.api import Api
from webhook.live.options import policy_of
from webhook.live.release.walk import walk as release
from webhook.live.waiting import Waiting

ROOT = Path(__file__).parents[2]
BOTH = ("model-a=model-a-lq", "model-b=model-b-lq")
HOLD = "floorkeeper.test/hold"
"""A finalizer."""


def command(team: Team, word: str, *words: str) -> list[str]:
    given = ["-n", team.namespace, "--kubeconfig", str(team.cluster.kubeconfig)]
    return [sys.executable, "-u", "-m", "webhook", word, *words, *given]


def run(team: Team, word: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(team, word, *words),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def here(team: Team, word: str, *words: str, kubeconfig: Path | None = None) -> Ended:
    """The command in this process."""
    return typed(word, *words, "-n", team.namespace, "--kubeconfig", str(kubeconfig or team.cluster.kubeconfig))


def walked(team: Team, word: str, *words: str, kubeconfig: Path | None = None, dry_run: bool = False) -> Ended:
    """As the command does, but that it looks ten times a second."""

    def walk() -> None:
        with Api.opened(kubeconfig or team.cluster.kubeconfig) as api:
            waiting = Waiting(60.0, 0.1)
            if word == "adopt":
                wanted = dict(each.split("=") for each in words)
                adopt(api, team.namespace, wanted, policy_of(api, None), waiting, yes=True, dry_run=dry_run)
            else:
                release(api, team.namespace, set(words), waiting, yes=True, dry_run=dry_run)

    return ended(walk)


def interrupted(team: Team, at: str, word: str, *words: str) -> subprocess.CompletedProcess[str]:
    """What becomes of a command that gets a Ctrl-C as soon as it has written `at`, at a terminal."""
    terminal, end = pty.openpty()
    try:
        with subprocess.Popen(
            command(team, word, *words),
            cwd=ROOT,
            stdin=end,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            seen = b""
            while at.encode() not in seen:
                piece = os.read(process.stdout.fileno(), 4096)
                assert piece, f"ended without {at!r}: {seen.decode()} {process.stderr.read().decode()}"
                seen += piece
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=30)
        return subprocess.CompletedProcess(process.args, process.returncode, (seen + output).decode(), errors.decode())
    finally:
        os.close(terminal)
        os.close(end)


def serve(team: Team, model_a: int = 3, model_b: int = 2) -> None:
    team.cluster.apply(team.deployment("model-a", model_a), team.deployment("model-b", model_b))
    until("both serve", lambda: team.ready("model-a") == model_a and team.ready("model-b") == model_b)


def queue_of(team: Team, name: str) -> str | None:
    found: str | None = team.get("deployment", name)["spec"]["template"]["metadata"]["labels"].get(QUEUE_LABEL)
    return found


def test_release_while_others_wait(team: Team) -> None:
    """What waits in the cohort would be let in by the quota that is given up, on the GPU of a replica that restarts."""
    serve(team, 2, 1)
    adopted = walked(team, "adopt", *BOTH)
    assert adopted.code == 0, adopted
    team.kubectl("scale", "deployment/model-b", "--replicas=9")
    until("one waits, and Kueue says so", lambda: len(team.gated("model-b")) == 1 and pending(team, "model-b") == 1, 60)
    refused = walked(team, "release", "model-a")
    assert refused.code == 1, refused
    assert f"problem: 1 Workload waits in ClusterQueue {team.namespace}-model-b: " in refused.out
    assert queue_of(team, "model-a") == "model-a-lq"
    (remedy,) = re.findall(r"kubectl (patch clusterqueues.kueue.x-k8s.io .*}}')", refused.out)
    own = walked(team, "release", "model-b")
    assert own.code == 1, own
    assert "problem: 1 of its replicas wait, gated: " in own.out
    team.kubectl("scale", "deployment/model-b", "--replicas=8")
    until("nothing waits", lambda: pending(team, "model-b") == 0, 30)
    team.cluster(*shlex.split(remedy))
    released = walked(team, "release", "model-a")
    assert released.code == 0, released
    assert (team.ready("model-a"), team.ready("model-b")) == (2, 8)


def pending(team: Team, name: str) -> int:
    status = team.cluster.get("clusterqueue", f"{team.namespace}-{name}")["status"]
    return int(status.get("pendingWorkloads", 0))


def test_managed_at_deny(team: Team, floorkeeper: Floorkeeper) -> None:
    """Floorkeeper's webhook takes the adoption, and puts the label back that release takes off."""
    serve(team, 2, 1)
    team.manage()
    adopted = walked(team, "adopt", *BOTH)
    assert adopted.code == 0, adopted
    again = here(team, "adopt", *BOTH, "--yes")
    assert again.code == 0, again
    assert "All are adopted: nothing to do." in again.out
    refused = here(team, "release", "--all", "--yes")
    assert refused.code == 1, refused
    remedy = f"kubectl annotate namespace {team.namespace} floorkeeper.io/mode=warn --overwrite"
    assert refused.out.count(remedy) == 1
    assert f"Namespace {team.namespace}, for model-a, model-b\n" in refused.out
    assert refused.err == "floorkeeper: see the problems above; nothing was written\n"
    assert queue_of(team, "model-a") == "model-a-lq"
    _, *words = shlex.split(remedy)
    team.cluster(*words)
    until("the mode is known", lambda: walked(team, "release", dry_run=True).code == 0, 20)
    released = walked(team, "release")
    assert released.code == 0, released
    assert queue_of(team, "model-a") is None
    assert team.workloads() == []


def test_nothing_is_written(team: Team, tmp_path: Path) -> None:
    """Of what is interrupted before, and of what cannot be."""
    serve(team, 1, 1)
    before = [team.get("deployment", name) for name in ("model-a", "model-b")]
    verified = here(team, "verify", "-o", "json")
    assert verified.code == 1, verified
    assert "model-a: 1 pod with accelerators that no queue counts" in verified.out
    dry = here(team, "adopt", *BOTH, "--dry-run")
    assert dry.code == 0, dry
    assert dry.out.endswith("Dry run: the API server takes these writes; nothing was written.\n")
    unasked = run(team, "adopt", *BOTH)
    assert unasked.returncode == 2, unasked
    assert "there is no terminal to ask on; give --yes" in unasked.stderr
    assert unasked.stderr.endswith("; try: floorkeeper adopt --help\n")
    result = interrupted(team, "Go on?", "adopt", *BOTH)
    assert result.returncode == 130, result
    assert result.stderr.endswith("floorkeeper: interrupted: nothing was written; run the command again\n")
    with between(team.cluster, tmp_path) as middle:
        for word in ("adopt", "release"):
            interrupted_while_it_reads(team, middle, word)
    others = "; what is of another kind is labelled by hand (README, Kinds)"
    for words, said in (
        (("adopt", "modle-a=model-a-lq"), f"no Deployment modle-a in namespace {{}}; it has model-a, model-b{others}"),
        (("release", "modle-a"), f"no Deployment modle-a in namespace {{}}; it has model-a, model-b{others}"),
        (("adopt", "model-a=b-lq"), "no LocalQueue b-lq in namespace {}; it has model-a-lq, model-b-lq"),
    ):
        done = here(team, *words)
        assert done == Ended(2, "", f"floorkeeper: {said.format(team.namespace)}; nothing was written\n")
    # Kueue would label the Deployment itself with it, and refuses that on what runs.
    team.cluster.apply(team.local_queue("default"))
    refused = walked(team, "adopt", *BOTH)
    assert refused.code == 1, refused
    assert "[conflicting-queue-name]" in refused.out
    for value in before:
        assert team.get("deployment", value["metadata"]["name"])["spec"] == value["spec"]


def interrupted_while_it_reads(team: Team, middle: Between, word: str) -> None:
    for at in range(1, 4):
        asked: list[Passed] = []

        def interrupt(passed: Passed, asked: list[Passed] = asked, at: int = at) -> None:
            asked.append(passed)
            if len(asked) == at:
                press_ctrl_c()

        middle.before = interrupt
        words = BOTH if word == "adopt" else ["--all"]
        done = here(team, word, *words, kubeconfig=middle.kubeconfig)
        said = "\nfloorkeeper: interrupted: nothing was written; run the command again\n"
        assert done == Ended(130, "", said)
        assert not any(passed.writes for passed in asked)


def test_goes_on_wherever_it_was_interrupted(team: Team) -> None:
    """One Deployment after the other, from the first step of adopting to the last of releasing."""
    model_a = team.deployment("model-a", 2)
    model_a["spec"]["revisionHistoryLimit"] = 0
    team.cluster.apply(model_a, team.deployment("model-b", 2))
    until("both serve", lambda: team.ready("model-a") == team.ready("model-b") == 2)
    for at, left in (
        ("model-a: strategy set", "model-a: its "),
        ("model-a: adopted", "adopted: model-a"),
        ("model-b: strategy set", "model-b: its "),
        ("model-b: label set", "model-b: its label is set, and its rollout goes on by itself"),
    ):
        result = interrupted(team, at, "adopt", *BOTH, "--yes")
        assert result.returncode == 130, result
        assert f"floorkeeper: interrupted: {left}" in result.stderr
        assert result.stderr.endswith("Run the same command again to go on.\n")
    again = run(team, "adopt", *BOTH, "--yes")
    assert again.returncode == 0, again
    assert_adopted(team)

    # Its pods drain for long; their ReplicaSet is gone before.
    held = [pod["metadata"]["name"] for pod in team.pods("model-a") if "deletionTimestamp" not in pod["metadata"]]
    hold(team, held, "add")
    for at, left in (
        ("model-a: out of its queue", "out of their queues: model-a"),
        ("model-b: label taken off", "model-b: its label is off, and its rollout goes on by itself"),
        ("waiting for ", "all labels are off; Kueue is about to let go of the last Workloads"),
    ):
        result = interrupted(team, at, "release", "--all", "--yes")
        assert result.returncode == 130, result
        assert 'Deployment "model-a" <- LocalQueue model-a-lq\n' in result.stdout
        assert left in result.stderr
    assert len(team.cluster.items("replicasets", "-n", team.namespace, "-l", "app=model-a")) == 1
    late = run(team, "release", "--all", "--yes", "--timeout", "3s")
    assert late.returncode == 1, late
    assert 'Deployment "model-a" <- LocalQueue model-a-lq\n  1. its label is off, and 2 of 2 rep' in late.stdout
    assert "waiting for 4 to go: Pod model-a-" in late.stdout
    assert "not gone after 3s" in late.stdout
    assert "kubectl delete" not in late.stdout
    hold(team, held, "remove")
    again = run(team, "release", "--all", "--yes")
    assert again.returncode == 0, again
    assert f"  kubectl delete localqueues.kueue.x-k8s.io model-a-lq model-b-lq -n {team.namespace}\n" in again.stdout
    assert team.workloads() == []
    for name in ("model-a", "model-b"):
        assert queue_of(team, name) is None
        assert team.rolled_out(name)


def hold(team: Team, pods: Sequence[str], how: str) -> None:
    for name in pods:
        finalizers = team.get("pod", name)["metadata"].get("finalizers", [])
        wanted = [*finalizers, HOLD] if how == "add" else [each for each in finalizers if each != HOLD]
        team.kubectl("patch", "pod", name, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": wanted}}))


def assert_adopted(team: Team) -> None:
    for name in ("model-a", "model-b"):
        assert queue_of(team, name) == f"{name}-lq"
        assert team.rolled_out(name)
        rolling = team.get("deployment", name)["spec"]["strategy"]["rollingUpdate"]
        assert rolling == {"maxSurge": 0, "maxUnavailable": 1}
    pods = [*team.pods("model-a"), *team.pods("model-b")]
    assert sum("deletionTimestamp" not in pod["metadata"] for pod in pods) == sum(
        team.get("deployment", name)["spec"]["replicas"] for name in ("model-a", "model-b")
    )


def test_adopt_goes_on_in_mid_rollout(team: Team) -> None:
    """One replica is in the queue, the second one finds no quota, and the third still serves as it did."""
    serve(team, 3, 1)
    team.set_floors(1, 1)
    adopted = walked(team, "adopt", "model-b=model-b-lq")
    assert adopted.code == 0, adopted
    short = "problem: 2 of 3 replicas would wait, gated"
    until("Kueue has counted it", lambda: short in walked(team, "adopt", "model-a=model-a-lq", dry_run=True).out, 20)
    refused = walked(team, "adopt", "model-a=model-a-lq")
    assert refused.code == 1, refused
    with polled(team, "model-a") as poll:
        gated = "model-a: 2 of 3 updated, 2 ready, 1 gated (couldn't assign flavors to pod set main"
        result = interrupted(team, gated, "adopt", "model-a=model-a-lq", "--yes", "--let-wait")
        assert result.returncode == 130, result
        late = run(team, "adopt", "model-a=model-a-lq", "--yes", "--timeout", "3s")
        assert late.returncode == 1, late
        assert "no further replica became ready within 3s: 2 of 3 updated, 2 ready, 1 gated" in late.stdout
        assert f"  floorkeeper release model-a -n {team.namespace}\n" in late.stdout
        team.set_floors(5, 5)
        again = walked(team, "adopt", "model-a=model-a-lq")
        assert again.code == 0, again
    assert poll.lowest == {"model-a": 2}
    assert_adopted(team)


def test_interrupted_at_each_write(team: Team, tmp_path: Path) -> None:
    serve(team, 2, 1)
    with between(team.cluster, tmp_path) as middle, polled(team, "model-a") as poll:
        deployments = f"/apis/apps/v1/namespaces/{team.namespace}/deployments"
        strategy_and_label = [f"{deployments}/{name}" for name in ("model-a", "model-b") for _ in range(2)]
        assert interrupted_at_writes(team, middle, "adopt", *BOTH) == strategy_and_label
        assert_adopted(team)
        labels = [f"{deployments}/{name}" for name in ("model-a", "model-b")]
        assert interrupted_at_writes(team, middle, "release") == labels
    assert team.workloads() == []
    assert poll.lowest["model-a"] >= 1, poll


def interrupted_at_writes(team: Team, middle: Between, word: str, *words: str) -> list[str]:
    """The paths of its writes, in order, each with a Ctrl-C before the API server sees it, and once more after that has
    done it. Then it comes to its end."""
    unseen: list[str] = []
    seen: list[str] = []
    while True:
        hit: list[str] = []
        late = len(unseen) > len(seen)

        def interrupt(passed: Passed, hit: list[str] = hit) -> bool:
            if not passed.writes or hit:
                return False
            hit.append(passed.path)
            press_ctrl_c()
            return True

        middle.before, middle.after = (lambda _: None, interrupt) if late else (interrupt, lambda _: None)
        done = walked(team, word, *words, kubeconfig=middle.kubeconfig)
        if not hit:
            assert done.code == 0, done
            assert unseen == seen
            return seen
        assert done.code == 130, (hit, done)
        assert "floorkeeper: interrupted: " in done.err
        assert done.err.endswith("Run the same command again to go on.\n")
        (seen if late else unseen).append(hit[0])
