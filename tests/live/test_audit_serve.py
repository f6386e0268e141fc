"""`floorkeeper audit --serve`: the page of a command, for as long as somebody lets it run."""

from __future__ import annotations

import logging
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.api_server import ApiServer
from tests.live.audit_world import SOUND, cluster
from tests.live.test_audit_command import ROOT, SURGING, policy_map
from tests.serving import PATIENCE, run, until
from webhook.live.audit.screen import LogLines

_SERVED = re.compile(r"the page is at (http://127\.0\.0\.1:\d+)/ until Ctrl-C\n")


@contextmanager
def served(api: ApiServer, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The command, and the file to which its stderr goes."""
    told = folder / "err"
    words = ["audit", "--serve", "0", "--interval", "1", "--kubeconfig", str(api.kubeconfig(folder))]
    with told.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-m", "webhook", *words], stderr=stderr, cwd=ROOT)
        try:
            yield process, told
        finally:
            process.kill()
            process.wait()


def test_the_page_is_there_until_ctrl_c(tmp_path: Path) -> None:
    with cluster(*SOUND) as api, served(api, tmp_path) as (process, told):
        address = until(lambda: _SERVED.search(told.read_text()))[1]
        with httpx.Client(base_url=address, trust_env=False, timeout=PATIENCE) as page:
            assert "<title>Floorkeeper</title>" in page.get("/").text
            until(lambda: page.get("/data.json").json()["violations"]["at"])
            assert "surge-without-quota" not in page.get("/data.json").text
            # It looks again by itself.
            api.put(SURGING)
            until(lambda: "surge-without-quota" in page.get("/data.json").text)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert told.read_text().endswith("floorkeeper: interrupted: nothing was changed\n")
    assert {request.verb for request in api.requests} <= {"list", "get", "watch", "discover"}


def test_a_reason_is_told_once_and_again_when_it_ends(tmp_path: Path) -> None:
    with cluster(*SOUND) as api, served(api, tmp_path) as (process, told):
        address = until(lambda: _SERVED.search(told.read_text()))[1]
        until(lambda: httpx.get(f"{address}/data.json", trust_env=False).json()["violations"]["at"])
        api.forbidden.add(("list", "namespaces"))
        until(lambda: "audit failed: not allowed to list namespaces" in told.read_text())
        looked = len(api.asked("list", "namespaces"))
        until(lambda: len(api.asked("list", "namespaces")) > looked + 2)
        api.forbidden.clear()
        until(lambda: "floorkeeper: audited again\n" in told.read_text())
        assert told.read_text().count("audit failed") == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_an_outage_is_one_line_however_many_kinds_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.Logger("floorkeeper.cluster")
    log.addHandler(LogLines())

    def lacks(kind: str, problem: str) -> None:
        log.warning("facts are not kept current", extra={"fields": {"kind": kind, "problem": problem}})

    for _ in range(2):
        for kind in ("Node", "Cohort"):
            lacks(kind, f"watch {kind}: refused")
            lacks(kind, f"list {kind}: refused")
        lacks("Node", "watch Node: 503 \x1b[2J")
        log.info("facts are kept current again", extra={"fields": {"kind": "Node"}})
        log.info("facts are kept current again", extra={"fields": {"kind": "Cohort"}})
    outage = [
        "floorkeeper: facts are not kept current: Node: watch Node: refused",
        "floorkeeper: facts are not kept current: Node: watch Node: 503 \\x1b[2J",
        "floorkeeper: facts are kept current again: Node",
    ]
    assert capsys.readouterr().err.splitlines() == outage * 2


def test_a_policy_that_changes_counts(tmp_path: Path) -> None:
    with cluster(*SOUND, SURGING) as api, served(api, tmp_path) as (_, told):
        address = until(lambda: _SERVED.search(told.read_text()))[1]

        def shown() -> str:
            return httpx.get(f"{address}/data.json", trust_env=False).text

        until(lambda: "surge-without-quota" in shown())
        kind = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
        api.put(policy_map(f"{kind}rules: {{surge-without-quota: off}}\n"))
        until(lambda: "surge-without-quota" not in shown())
        api.put(policy_map("kind: Nothing"))
        until(lambda: "the last good one stays" in told.read_text())


def test_what_does_not_go_together(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, cluster(*SOUND) as api:
        port = str(taken.getsockname()[1])
        shown = ["--kubeconfig", str(api.kubeconfig(tmp_path)), "--serve", port]
        for words, code, message in (
            ((), 1, f"cannot listen on 127.0.0.1 port {port} for the page: "),
            (("--watch",), 2, "--serve shows a page: give it without --watch, --output, --output-file and --fail-on"),
            (("-o", "json"), 2, "--serve shows a page: give it without "),
            (("--policy-reports",), 2, "--policy-reports are about all managed namespaces: give them without --serve"),
        ):
            process = run("audit", *shown, *words)
            _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == code
            assert f"floorkeeper: {message}" in errors
