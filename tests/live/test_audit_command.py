"""The command line of `floorkeeper audit`: options, exit codes, files, and the policy that it goes by."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.api_server import ApiServer
from tests.checking import TEAM, deployment
from tests.live.audit_world import SOUND, cluster
from webhook.live.adopt.command import adopt
from webhook.live.audit.command import audit
from webhook.live.audit.schema import SCHEMA
from webhook.live.plan.command import plan
from webhook.live.verify.command import verify

ROOT = Path(__file__).parents[2]
APP = typer.Typer()
APP.command()(audit)
APPS = typer.Typer()
for each in (audit, plan, verify, adopt):
    APPS.command()(each)
SURGING = deployment("x", "a-lq", strategy={"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
SHORT = deployment("x", "a-lq")
SHORT["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with cluster(*SOUND) as found:
        yield found


def run(api: ApiServer, folder: Path, *words: str) -> Result:
    return CliRunner().invoke(APP, ["--kubeconfig", str(api.kubeconfig(folder)), *words])


def policy_map(text: str | None) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "floorkeeper-policy", "namespace": "floorkeeper-system"},
        "data": {} if text is None else {"policy.yaml": text},
    }


def test_nothing_is_wrong(api: ApiServer, tmp_path: Path) -> None:
    result = run(api, tmp_path)
    assert (result.exit_code, result.stdout) == (0, "1 namespace, 6 objects: 6 checked; 0 denials, 0 warnings\n")
    assert result.stderr == (
        "floorkeeper: policy: the defaults, for there is no ConfigMap floorkeeper-system/floorkeeper-policy\n"
    )


def test_what_fails(api: ApiServer, tmp_path: Path) -> None:
    api.put(SHORT)
    assert run(api, tmp_path).exit_code == 0
    assert run(api, tmp_path, "--fail-on", "warn").exit_code == 1
    api.put(SURGING)
    assert run(api, tmp_path).exit_code == 1
    api.delete("Deployment", TEAM, "x")
    api.forbidden.add(("list", "replicasets"))
    assert run(api, tmp_path).exit_code == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-n", "nowhere"], "floorkeeper: there is no namespace nowhere; correct the name"),
        (["--fail-on", "all"], "floorkeeper: --fail-on: must be of warn, is 'all'; try: floorkeeper audit --help"),
        (["--interval", "0s"], "floorkeeper: --interval: must be a duration from 1s to 24h, is '0s'; try 10m"),
        (["--output-file", "/nowhere/x"], "floorkeeper: /nowhere/x: cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be_used(api: ApiServer, tmp_path: Path, words: Sequence[str], message: str) -> None:
    result = run(api, tmp_path, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].startswith(message)


def test_a_cluster_that_does_not_answer(tmp_path: Path) -> None:
    with cluster() as api:
        kubeconfig = api.kubeconfig(tmp_path)
    result = CliRunner().invoke(APP, ["--kubeconfig", str(kubeconfig)])
    assert result.exit_code == 3
    assert "the API server does not answer" in result.stderr


def test_the_policy_is_that_of_the_cluster(api: ApiServer, tmp_path: Path) -> None:
    api.put(SURGING)
    kind = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
    api.put(policy_map(f"{kind}rules: {{surge-without-quota: off}}\n"))
    result = run(api, tmp_path)
    assert (result.exit_code, result.stderr) == (
        0,
        "floorkeeper: policy: ConfigMap floorkeeper-system/floorkeeper-policy\n",
    )
    file = tmp_path / "policy.yaml"
    file.write_text(kind)
    result = run(api, tmp_path, "--policy", str(file))
    assert (result.exit_code, result.stderr) == (1, f"floorkeeper: policy: {file}\n")


def test_a_policy_of_the_cluster_that_cannot_be_used(api: ApiServer, tmp_path: Path) -> None:
    where = "ConfigMap floorkeeper-system/floorkeeper-policy"
    api.put(policy_map(None))
    result = run(api, tmp_path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"floorkeeper: {where} has no policy.yaml; give the policy with --policy\n",
    )
    api.put(policy_map("kind: Nothing"))
    assert run(api, tmp_path).exit_code == 2
    api.forbidden.add(("get", "configmaps"))
    result = run(api, tmp_path)
    assert result.exit_code == 3
    assert result.stderr.endswith("ask for that right; or give the policy with --policy\n")


@pytest.mark.parametrize("code", [401, 503])
@pytest.mark.parametrize("command", ["audit", "plan", "verify", "adopt"])
def test_a_policy_of_the_cluster_that_cannot_be_read(api: ApiServer, tmp_path: Path, code: int, command: str) -> None:
    api.faults["get", "configmaps"] += [lambda to: to.status(code, "", "not now")] * 5
    words = {"audit": [], "plan": [], "verify": ["-n", TEAM], "adopt": ["x=a-lq", "-n", TEAM, "--dry-run"]}[command]
    result = CliRunner().invoke(APPS, [command, "--kubeconfig", str(api.kubeconfig(tmp_path)), *words])
    assert result.exit_code == 3
    assert result.stderr.endswith(f": {code} not now; or give the policy with --policy\n")


def test_the_schema() -> None:
    result = CliRunner().invoke(APP, ["--schema"])
    assert (result.exit_code, json.loads(result.stdout)) == (0, SCHEMA)


def test_a_file(api: ApiServer, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text("before")
    result = run(api, tmp_path, "--output-file", str(file), "-o", "json")
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads(file.read_text())["kind"] == "AuditReport"
    # Nothing else is left there.
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kubeconfig", "report.json"]


def test_a_file_that_is_a_link_stays_one(api: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link, dangling = tmp_path / "there" / "report", tmp_path / "link", tmp_path / "dangling"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "there" / "new")
    for file in (link, dangling):
        assert run(api, tmp_path, "--output-file", str(file)).exit_code == 0
        assert file.is_symlink()
        assert file.read_text().startswith("1 namespace")
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in target.parent.iterdir()) == ["new", "report"]


def test_a_pipe_is_written_to(api: ApiServer, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text)
        assert run(api, tmp_path, "--output-file", str(pipe)).exit_code == 0
        assert read.result(20).startswith("1 namespace")
    assert pipe.is_fifo()


def test_stdout_by_another_name(api: ApiServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("wb") as stdout, (tmp_path / "err").open("wb") as stderr:
        stdout.write(b"before\n")
        stdout.flush()
        with started(api, tmp_path, stdout, stderr, "--output-file", "/dev/stdout") as process:
            assert process.wait(20) == 0
        # What others write there comes after it.
        os.write(stdout.fileno(), b"after\n")
    first, *_, last = out.read_text().splitlines()
    assert (first, last) == ("before", "after")
    assert "namespace, " in out.read_text()


def started(api: ApiServer, folder: Path, stdout: IO[bytes] | int, stderr: IO[bytes], *words: str) -> Popen[bytes]:
    code = "import typer\nfrom webhook.live.audit.command import audit\ntyper.run(audit)"
    return Popen(
        [sys.executable, "-c", code, "--kubeconfig", str(api.kubeconfig(folder)), *words],
        stdout=stdout,
        stderr=stderr,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_nobody_reads(api: ApiServer, tmp_path: Path) -> None:
    with (tmp_path / "err").open("wb") as stderr, started(api, tmp_path, PIPE, stderr) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(20) == 141
    assert "Traceback" not in (tmp_path / "err").read_text()


def test_watching_prints_what_changes_until_it_is_interrupted(api: ApiServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("wb") as stdout, (tmp_path / "err").open("wb") as stderr:
        process = started(api, tmp_path, stdout, stderr, "--watch", "--interval", "1")
        try:
            until_says(out, "0 denials")
            api.put(SURGING)
            until_says(out, "surge-without-quota")
            # It goes on where one look fails, and says so.
            api.faults["list", "namespaces"].append(lambda to: to.status(403, "Forbidden", "no"))
            until_says(tmp_path / "err", "trying again")
            looked = len(api.asked("list", "nodes"))
            while len(api.asked("list", "nodes")) < looked + 2:
                time.sleep(0.05)
        finally:
            process.send_signal(signal.SIGINT)
            code_of_end = process.wait(20)
    assert code_of_end == 130
    # What has not changed is not printed again.
    assert out.read_text().count("namespace, ") == 2
    assert (tmp_path / "err").read_text().endswith("floorkeeper: interrupted: nothing was changed\n")
    assert {request.verb for request in api.requests} == {"list", "get", "discover"}


def test_a_policy_that_changes_counts_with_the_next_look(api: ApiServer, tmp_path: Path) -> None:
    api.put(SURGING)
    kind = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = started(api, tmp_path, stdout, stderr, "--watch", "--interval", "1")
        try:
            until_says(out, "1 denial")
            api.put(policy_map(f"{kind}rules: {{surge-without-quota: off}}\n"))
            until_says(out, "0 denials")
            until_says(err, "policy: ConfigMap floorkeeper-system/floorkeeper-policy, which has changed")
            api.put(policy_map("kind: Nothing"))
            until_says(err, "; the last good one stays\n")
            looked = len(api.asked("list", "nodes"))
            while len(api.asked("list", "nodes")) < looked + 2:
                time.sleep(0.05)
            api.put(policy_map(f"{kind}rules: {{surge-without-quota: off}}\n"))
            until_says(err, "policy: ConfigMap floorkeeper-system/floorkeeper-policy, as before")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(20)
    assert err.read_text().count("the last good one stays") == 1
    # With the last good one, nothing was said anew.
    assert out.read_text().count("namespace, ") == 2


def until_says(file: Path, words: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while words not in file.read_text():
        assert time.monotonic() < end, file.read_text()
        time.sleep(0.05)
