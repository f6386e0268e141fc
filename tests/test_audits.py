"""Audits beside the server, each in a process of its own: what they tell, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from tests.api_server import REPORTS, Answering, ApiServer
from tests.checking import TEAM, deployment
from tests.live.audit_world import SOUND, cluster
from tests.live.page_world import World
from tests.serving import run, until
from webhook.live.audit.child import Order, command
from webhook.live.audit.metrics import AuditMetrics
from webhook.live.page.board import Board
from webhook.policy import PolicyFile
from webhook.server import audits as schedule
from webhook.server.audits import Audits, AuditSettings

POLICY = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
SURGING = deployment("x", "a-lq", strategy={"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
NOTHING = "from webhook.live.audit.report import Audit; found = Audit(7.0, 1.0, ('a',), 1, 1)"
ANSWER = (
    "import pickle, sys; from webhook.live.audit.child import Outcome; "
    f"{NOTHING}; sys.stdout.buffer.write(pickle.dumps(Outcome(found))); sys.stdout.flush()"
)


class Scheduled:
    """Audits by another command, and what they tell."""

    def __init__(self, code: str, kubeconfig: Path | None = None, policy: Path | None = None, **more: Any) -> None:
        self.metrics = AuditMetrics(60)
        self.board: Board = World().board
        self.ready = True
        policies = PolicyFile(policy)
        policies.load()
        child = [sys.executable, "-c", code] if code else None
        settings = AuditSettings(more.pop("every", 60.0), kubeconfig, "floorkeeper-tls")
        self.audits = Audits(settings, policies, self.metrics, lambda: self.ready, self.board, child=child, **more)

    def look(self) -> None:
        asyncio.run(self.audits.look())

    @property
    def page(self) -> str:
        registry = CollectorRegistry()
        registry.register(self.metrics)
        return generate_latest(registry).decode()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; print('a'); print('boom', file=sys.stderr); sys.exit(3)", "it ended with code 3: boom"),
        ("raise ValueError('no such thing')", "it ended with code 1: ValueError: no such thing"),
        ("import os; os.kill(os.getpid(), 9)", "it was killed by signal 9"),
        ("print('hello')", "its answer cannot be read: UnpicklingError"),
        ("", "its answer cannot be read: EOFError"),
        ("import pickle, sys; sys.stdout.buffer.write(pickle.dumps({}))", "its answer is none: dict"),
        (f"import os; {ANSWER}; os._exit(1)", "it ended with code 1"),
        ("import sys; sys.stdout.write('x' * 3000)", "its answer is larger than 2,000 bytes"),
    ],
)
def test_a_child_that_fails_is_told_and_counted(monkeypatch: pytest.MonkeyPatch, code: str, reason: str) -> None:
    monkeypatch.setattr(schedule, "_MOST_BYTES", 2000)
    scheduled = Scheduled(code or "pass")
    scheduled.look()
    assert scheduled.board.audit.reason == reason
    assert scheduled.board.audit.at is None
    assert "floorkeeper_audit_failures_total 1.0" in scheduled.page
    assert "floorkeeper_audit_last_success" not in scheduled.page


def test_a_failure_leaves_the_last_findings(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    scheduled = Scheduled(f"import pathlib; pathlib.Path({str(flag)!r}).touch(exist_ok=False); {ANSWER}")
    scheduled.look()
    assert (scheduled.board.audit.at, scheduled.board.audit.reason, scheduled.board.audit.every) == (7.0, "", 60.0)
    scheduled.look()
    assert scheduled.board.audit.at == 7.0
    assert "FileExistsError" in scheduled.board.audit.reason
    for line in ("floorkeeper_audit_failures_total 1.0", "floorkeeper_audit_last_success_timestamp_seconds 7.0"):
        assert line in scheduled.page


HANG = "import os, pathlib, subprocess, sys, time; beside = subprocess.Popen(['sleep', '60']); "


def hanging(folder: Path) -> str:
    return f"{HANG}pathlib.Path({str(folder / 'pids')!r}).write_text(f'{{os.getpid()}} {{beside.pid}}'); time.sleep(60)"


def gone(folder: Path) -> bool:
    """Whether the child and what it started have ended."""
    return not any(is_running(int(pid)) for pid in (folder / "pids").read_text().split())


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_child_that_hangs_is_ended(tmp_path: Path) -> None:
    scheduled = Scheduled(hanging(tmp_path), limit=1.0)
    scheduled.look()
    assert scheduled.board.audit.reason == "it was not done after 1 s, and was ended"
    until(lambda: gone(tmp_path))


def test_the_end_of_the_server_ends_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "FIRST", 0.0)
    scheduled = Scheduled(hanging(tmp_path))

    async def begin_and_end() -> float:
        running = asyncio.create_task(scheduled.audits.run())
        await asyncio.to_thread(until, lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text())
        began = time.monotonic()
        running.cancel()
        await asyncio.wait({running})
        return time.monotonic() - began

    assert asyncio.run(begin_and_end()) < 2
    until(lambda: gone(tmp_path))
    assert "floorkeeper_audit_failures_total 0.0" in scheduled.page


def test_one_after_the_other_and_none_before_it_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "FIRST", 0.0)
    monkeypatch.setattr(schedule, "_SHARE", 0)
    monkeypatch.setattr(schedule, "_LOOK_SECONDS", 0.05)
    lock, done = tmp_path / "lock", tmp_path / "done"
    code = (
        f"import os, pathlib; lock = pathlib.Path({str(lock)!r}); lock.touch(exist_ok=False); {ANSWER}; "
        f"open({str(done)!r}, 'a').write('x'); lock.unlink()"
    )
    scheduled = Scheduled(code, every=0.01)
    scheduled.ready = False

    async def some() -> None:
        running = asyncio.create_task(scheduled.audits.run())
        await asyncio.sleep(0.3)
        assert not done.exists()
        scheduled.ready = True
        await asyncio.to_thread(until, lambda: done.exists() and len(done.read_text()) >= 3)
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(some())
    assert "floorkeeper_audit_failures_total 0.0" in scheduled.page


def test_it_starts_nothing_that_is_not_there(tmp_path: Path) -> None:
    scheduled = Scheduled("")
    scheduled.audits._child = [str(tmp_path / "nothing")]
    scheduled.look()
    assert scheduled.board.audit.reason == "no process for it could be started: No such file or directory"


# The real child


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with cluster(*SOUND) as found:
        yield found


def test_what_it_finds(api: ApiServer, tmp_path: Path) -> None:
    api.served[REPORTS] = ("v1alpha2",)
    api.put(SURGING)
    scheduled = Scheduled("", api.kubeconfig(tmp_path))
    scheduled.look()
    assert 'floorkeeper_audit_findings{rule="surge-without-quota",severity="deny"} 1.0' in scheduled.page
    assert "floorkeeper_audit_interval_seconds 60.0" in scheduled.page
    assert [each.rule for each in scheduled.board.audit.findings] == ["surge-without-quota"]
    assert len(api.objects["policyreports"][TEAM, "floorkeeper"]["results"]) == 1
    api.delete("Deployment", TEAM, "x")
    api.forbidden.add(("apply", "policyreports"))
    scheduled.look()
    assert "surge-without-quota" not in scheduled.page
    assert "floorkeeper_audit_unpublished_total 1.0" in scheduled.page
    assert scheduled.board.audit.findings == ()


def test_the_policy_is_the_one_in_force(api: ApiServer, tmp_path: Path) -> None:
    api.put(SURGING)
    file = tmp_path / "policy.yaml"
    file.write_text(f"{POLICY}rules: {{surge-without-quota: warn}}\n")
    scheduled = Scheduled("", api.kubeconfig(tmp_path), file)
    # It is broken later, and the last good one stays.
    file.write_text("kind: Nothing\n")
    scheduled.audits._policies.refresh()
    scheduled.look()
    assert 'floorkeeper_audit_findings{rule="surge-without-quota",severity="warn"} 1.0' in scheduled.page


def test_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    with cluster() as api:
        kubeconfig = api.kubeconfig(tmp_path)
    scheduled = Scheduled("", kubeconfig)
    scheduled.look()
    assert "the API server does not answer" in scheduled.board.audit.reason
    assert "\n" not in scheduled.board.audit.reason
    assert "floorkeeper_audit_failures_total 1.0" in scheduled.page


def test_what_a_plugin_prints_is_no_part_of_the_answer(api: ApiServer, tmp_path: Path) -> None:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    text = json.dumps({**credential, "status": {"token": "secret"}})
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\necho noise >&2\necho '{text}'\n")
    script.chmod(0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "interactiveMode": "Never"}
    scheduled = Scheduled("", api.kubeconfig(tmp_path, {"exec": plugin}))
    scheduled.look()
    assert scheduled.board.audit.reason == ""


def test_it_ends_with_the_process_that_started_it(api: ApiServer, tmp_path: Path) -> None:
    """Whatever that one dies of: then the kernel closes the pipe."""
    api.faults["list", "namespaces"].append(Answering.hang)
    order = Order(str(api.kubeconfig(tmp_path)), None, "floorkeeper-tls")
    with subprocess.Popen(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdin is not None
        child.stdin.write(order.line())
        child.stdin.flush()
        until(lambda: api.asked("list", "namespaces"))
        child.stdin.close()
        assert child.wait(5) == 1


# floorkeeper serve --audit-every


@pytest.mark.parametrize("value", ["59s", "25h", "often", "-10m"])
def test_how_often_it_can_be(value: str) -> None:
    process = run("serve", "--port", "0", f"--audit-every={value}")
    _, error = process.communicate(timeout=20)
    assert process.returncode == 2
    assert f"must be a duration from 1m to 24h, is '{value}'; try 10m" in error


def test_not_of_a_folder(tmp_path: Path) -> None:
    process = run("serve", "--port", "0", "--state", str(tmp_path), "--audit-every", "10m")
    _, error = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "give --audit-every without --state" in error


START = """
import sys
from webhook.commands import cli
from webhook.server import audits
audits.FIRST = 0.1
from webhook.cli import main
main()
"""


def test_a_server_that_audits_and_is_interrupted_meanwhile(api: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(yaml.safe_load(POLICY)))
    words = ["serve", "--port=0", f"--kubeconfig={api.kubeconfig(tmp_path)}", "--audit-every=1m", "--drain-seconds=60"]
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-c", START, *words], stderr=stderr, cwd=Path(__file__).parents[1])
    try:
        until(lambda: '"audited"' in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        assert '"denials": 0' in log.read_text() or '"denials":0' in log.read_text()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
    assert process.returncode == 0, log.read_text()


def test_a_server_that_ends_ends_its_audit_first(api: ApiServer, tmp_path: Path) -> None:
    words = ["serve", "--port=0", f"--kubeconfig={api.kubeconfig(tmp_path)}", "--audit-every=1m", "--drain-seconds=5"]
    log = tmp_path / "log"
    # What an audit lists, and the watches do not.
    api.faults["list", "daemonsets"].extend([Answering.hang] * 2)
    with log.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-c", START, *words], stderr=stderr, cwd=Path(__file__).parents[1])
    try:
        until(lambda: api.asked("list", "daemonsets") or process.poll() is not None)
        (child,) = children(process.pid)
        process.send_signal(signal.SIGTERM)
        # Long before it has drained.
        until(lambda: not is_running(child), 2)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_reviews_come_before_it(api: ApiServer, tmp_path: Path) -> None:
    api.faults["list", "namespaces"].append(Answering.hang)
    order = Order(str(api.kubeconfig(tmp_path)), None, "floorkeeper-tls")
    with subprocess.Popen(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdin is not None
        child.stdin.write(order.line())
        child.stdin.flush()
        until(lambda: api.asked("list", "namespaces"))
        assert os.getpriority(os.PRIO_PROCESS, child.pid) >= 10
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip() == "1000"
        child.stdin.close()
