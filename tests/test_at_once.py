"""Reviews that are answered without a task: what the client sees is the same, in whatever pieces the request comes."""

from __future__ import annotations

import gc
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.types import Scope

from tests.cases import BASE, FIXTURES, read_documents, snapshot_of
from tests.door import Door, StillSource, review_of
from tests.serving import until
from tests.test_load import BODY, REVIEW, connected, door_of, head, listening, metrics_of, read_answer
from webhook.server import endpoint
from webhook.server.admission import Admission
from webhook.server.app import _App
from webhook.server.connection import Connection

DENIED = json.dumps(review_of(read_documents(FIXTURES / "implicit-gpu-request" / "fail-limit-only.yaml")[-1])).encode()
COUNTED = 'floorkeeper_requests_total{kind="Deployment",operation="CREATE",verdict="allowed",webhook="validate"} '


@contextmanager
def watched(door: Door, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, list[bool]]]:
    """A port, and of each request that was looked at whether it was answered at once."""
    found: list[bool] = []
    at_once = _App.at_once

    def told(app: _App, scope: Scope, body: bytearray) -> bytes | None:
        answer = at_once(app, scope, body)
        found.append(answer is not None)
        return answer

    monkeypatch.setattr(_App, "at_once", told)
    with listening(door) as (port, _):
        yield port, found


def plain(answer: bytes) -> bytes:
    return re.sub(rb"date: [^\r]*\r\n", b"", answer)


def test_the_answer_is_the_same_however_the_request_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    request = head(len(BODY)) + BODY
    with door_of() as door, watched(door, monkeypatch) as (port, found), connected(port) as client:
        answers = []
        for pieces, pause in (
            ([request], 0.0),
            ([head(len(BODY)), BODY], 0.0),
            ([request[:4096], request[4096:]], 0.001),
            ([request[:4096], request[4096:]], 0.2),
            ([request[:10], request[10:300], request[300:]], 0.2),
        ):
            for piece in pieces:
                client.sendall(piece)
                time.sleep(pause)
            answers.append(plain(read_answer(client)))
        assert len(set(answers)) == 1
        assert answers[0].startswith(b"HTTP/1.1 200 OK\r\n")
        assert found[0] is True
        assert len(found) in (2, 3), "what comes later than a moment gets a task"
        assert all(found)
        assert f"{COUNTED}5.0" in metrics_of(port)
        assert 'in_flight{webhook="validate"} 0.0' in metrics_of(port)


def test_what_is_wrong_or_takes_longer_is_answered_by_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: what was looked at in vain is neither counted nor told."""
    with door_of() as door, watched(door, monkeypatch) as (port, found), connected(port) as client:
        for body, status in ((b"{", b"400"), (DENIED, b"200")):
            client.sendall(head(len(body)) + body)
            assert read_answer(client).startswith(b"HTTP/1.1 " + status)
        client.sendall(head(len(BODY)).replace(b"application/json", b"text/plain") + BODY)
        assert read_answer(client).startswith(b"HTTP/1.1 415")
        assert found == [False] * 3
        text = metrics_of(port)
        assert 'verdict="malformed",webhook="validate"} 2.0' in text
        assert 'floorkeeper_rule_hits_total{rule="implicit-gpu-request",severity="deny"} 1.0' in text


def test_a_fault_of_our_own_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(endpoint, "response", broken)
    with door_of() as door, watched(door, monkeypatch) as (port, found), connected(port) as client:
        client.sendall(head(len(BODY)) + BODY)
        assert read_answer(client).startswith(b"HTTP/1.1 500")
        assert found == [False]
        assert 'floorkeeper_request_errors_total{webhook="validate"} 1.0' in metrics_of(port)


def test_what_is_denied_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    judge = Admission._judge

    def told(*given: Any) -> Any:
        judged.append("once")
        return judge(*given)

    monkeypatch.setattr(Admission, "_judge", told)
    with door_of() as door, watched(door, monkeypatch) as (port, found), connected(port) as client:
        for body in (DENIED, BODY):
            client.sendall(head(len(body)) + body)
            read_answer(client)
        assert (found, len(judged)) == ([False, True], 2)


@pytest.mark.parametrize("pause", [0.0, 0.1])
def test_whose_time_is_over_is_told_so(monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    with door_of() as door, watched(door, monkeypatch) as (port, _), connected(port) as client:
        client.sendall(head(len(BODY), timeout="50ms"))
        time.sleep(pause)
        client.sendall(BODY)
        assert read_answer(client).startswith(b"HTTP/1.1 429")


def test_an_unmanaged_namespace_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    unmanaged = [{**BASE[0], "metadata": {"name": REVIEW["request"]["namespace"]}}, *BASE[1:]]
    with (
        door_of(StillSource(snapshot_of(unmanaged))) as door,
        watched(door, monkeypatch) as (port, found),
        connected(port) as client,
    ):
        client.sendall(head(len(BODY)) + BODY)
        assert read_answer(client).startswith(b"HTTP/1.1 200")
    assert found == [False]


def test_a_client_that_goes_in_the_middle_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with door_of() as door, watched(door, monkeypatch) as (port, found):
        for pause in (0.0, 0.1):
            with connected(port) as client:
                client.sendall(head(len(BODY)) + BODY[:100])
                time.sleep(pause)
        until(lambda: 'in_flight{webhook="validate"} 0.0' in metrics_of(port))
        assert found == []


def test_what_a_connection_held_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers of TLS are large, and garbage is seldom collected."""
    gc.collect()
    gc.disable()
    try:
        with door_of() as door, watched(door, monkeypatch) as (port, found):
            for _ in range(10):
                with connected(port) as client:
                    client.sendall(head(len(BODY)) + BODY)
                    read_answer(client)
            until(lambda: sum(isinstance(each, Connection) for each in gc.get_objects()) < 3)
        assert found == [True] * 10
    finally:
        gc.enable()


def test_while_draining_clients_turn_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with door_of() as door, watched(door, monkeypatch) as (port, found), connected(port) as client:
        door.readiness.draining = True
        client.sendall(head(len(BODY)) + BODY)
        assert b"\r\nconnection: close\r\n" in read_answer(client)
    assert found == [False]
