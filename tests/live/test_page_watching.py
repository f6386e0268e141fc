"""The page of a command, that watches and audits by itself, over a small API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api_server import Answering, ApiServer
from tests.live.page_watching import watching
from tests.live.page_world import base
from tests.serving import until
from webhook.live.api import NODES, Api
from webhook.live.audit.report import Audit, NotEvaluated


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer().running() as server:
        for value in base():
            server.put(value)
        yield server


def test_it_watches_and_audits(server: ApiServer, tmp_path: Path) -> None:
    def audit(api: Api) -> Audit:
        nodes = len(list(api.items(NODES)))
        return Audit(time.time(), 0.1, (), nodes, nodes, not_evaluated=(NotEvaluated("pods", "not allowed"),))

    with watching(server.kubeconfig(tmp_path), audit) as page:
        until(lambda: page.data()["violations"]["at"])
        until(lambda: page.data()["flavors"]["rows"])
        data = page.data()
        assert (data["flavors"]["rows"][0]["verdict"], data["denialsKnown"]) == ("fit", False)
        assert data["violations"]["notEvaluated"] == [{"what": "pods", "why": "not allowed"}]
        # None of them has a status, for no Kueue looks at them here.
        until(lambda: page.data()["queues"]["statusReason"] == "")
        assert {row["inactive"] for row in page.data()["queues"]["rows"]} == {"no Kueue controller has looked at it"}
        first = page.data()["violations"]["at"]
        until(lambda: page.data()["violations"]["at"] > first)


def test_an_audit_that_fails_says_why_and_the_last_one_stands(server: ApiServer, tmp_path: Path) -> None:
    times: list[float] = []

    def audit(_: Api) -> Audit:
        if times:
            raise ValueError("the API server does not answer; check the network")
        times.append(time.time())
        return Audit(times[0], 0.1, (), 1, 1)

    with watching(server.kubeconfig(tmp_path), audit) as page:
        until(lambda: page.data()["violations"]["reason"].startswith("the API server"))
        assert page.data()["violations"]["at"] == pytest.approx(times[0])


def test_an_interrupt_waits_for_no_audit(server: ApiServer, tmp_path: Path) -> None:
    def audit(api: Api) -> Audit:
        list(api.items(NODES, fields="metadata.name=hang"))
        raise AssertionError("never comes here")

    server.faults["list", "nodes"].extend([Answering.hang] * 5)
    began = time.monotonic()
    with watching(server.kubeconfig(tmp_path), audit):
        until(lambda: any(each.query.get("fieldSelector") for each in server.asked("list", "nodes")))
        began = time.monotonic()
    assert time.monotonic() - began < 5
