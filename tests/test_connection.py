"""What a client may make the server keep: bytes, requests, answers, and connections that say nothing."""

from __future__ import annotations

import gc
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tests.door import Door
from tests.serving import PATIENCE
from tests.test_load import BODY, FewConnections, ask, connected, door_of, head, is_over, listening, read_answer
from webhook.server.connection import MAX_HEAD, WRITE_SECONDS, Connection

CHUNKED = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
GET_UNREAD = GET.replace(b"/healthz", b"/unread/")


@pytest.fixture
def door() -> Iterator[Door]:
    with door_of() as made:
        yield made


def takes(client: ssl.SSLSocket, piece: bytes, most: int) -> bool:
    """Whether the server goes on reading until it has so many bytes of these."""
    sent = 0
    try:
        while sent < most:
            sent += client.send(piece)
    except OSError:
        return False
    return True


class Unread:
    """An app with an answer that no socket holds."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.given_up = threading.Event()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2):
            # uvloop takes any amount, and says only then that it has too much.
            await send({"type": "http.response.body", "body": bytes(2**24), "more_body": True})
        self.begun.set()
        await send({"type": "http.response.body", "body": b""})
        self.given_up.set()


class TestBytes:
    @pytest.mark.parametrize(
        ("begun", "piece"),
        [
            pytest.param(CHUNKED + b"1\r\nx\r\n0\r\n", b"a: b\r\n" * 1000, id="trailers"),
            pytest.param(CHUNKED + b"1\r\nx\r\n0\r\na: ", b"y" * 8192, id="one trailer"),
            pytest.param(CHUNKED + b"1;a=", b"b" * 8192, id="chunk extension"),
            pytest.param(CHUNKED, b"1\r\n \r\n" * 1000, id="tiny chunks"),
            pytest.param(b"", b"\r\n" * 4096, id="line breaks"),
            pytest.param(
                b"GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: ", b"y" * 8192, id="answered"
            ),
        ],
    )
    def test_there_is_an_end_to_all_but_the_body(self, door: Door, begun: bytes, piece: bytes) -> None:
        with listening(door) as (port, _), connected(port) as client:
            client.sendall(begun)
            assert not takes(client, piece, most=200 * MAX_HEAD)

    def test_a_body_in_chunks_with_trailers(self, door: Door) -> None:
        """All of it less than the bound, and twice on one connection more than it."""
        chunks = [b" " * 2**20, *(BODY[start : start + 16] for start in range(0, len(BODY), 16))]
        request = CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
        request += b"0\r\na: " + b"b" * (MAX_HEAD // 2) + b"\r\n\r\n"
        with listening(door) as (port, _), connected(port) as client:
            for _ in range(3):
                client.sendall(request)
                assert read_answer(client).startswith(b"HTTP/1.1 200 ")


class TestPipelines:
    def test_requests_ahead_of_an_answer_are_not_kept(self, door: Door) -> None:
        """Nor is the answer under way lost."""
        with listening(door) as (port, _), connected(port) as client:
            client.sendall(head(len(BODY)) + BODY + GET * 500)
            answer = read_answer(client)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"\r\nconnection: close\r\n" in answer
            assert is_over(client)

    def test_not_even_while_the_answer_takes_long(self, door: Door) -> None:
        unread = Unread()
        door.app.mount("/unread", unread)
        with listening(door) as (port, _), connected(port) as client:
            client.sendall(GET_UNREAD + GET * 500)
            assert unread.begun.wait(PATIENCE)
            assert sum(isinstance(each, RequestResponseCycle) for each in gc.get_objects()) < 10

    def test_one_after_the_other(self, door: Door) -> None:
        with listening(door) as (port, _), connected(port) as client:
            assert all(ask(client) for _ in range(20))


class ImpatientConnections(Connection):
    write_seconds = 0.2


class TestAnswers:
    def test_unread_ones_are_given_up(self, door: Door) -> None:
        unread = Unread()
        door.app.mount("/unread", unread)
        with listening(door, ImpatientConnections) as (port, _), connected(port) as client:
            client.sendall(GET_UNREAD)
            assert unread.given_up.wait(PATIENCE)

    def test_and_at_once_where_room_is_needed(self, door: Door) -> None:
        unread = Unread()
        door.app.mount("/unread", unread)
        with listening(door, FewConnections) as (port, _), ExitStack() as stack:
            stack.enter_context(connected(port)).sendall(GET_UNREAD)
            assert unread.begun.wait(PATIENCE)
            assert not unread.given_up.is_set()
            began = time.monotonic()
            for _ in range(3):
                stack.enter_context(connected(port))
            assert unread.given_up.wait(PATIENCE)
            assert time.monotonic() - began < WRITE_SECONDS / 2


class TestHandshakes:
    def test_the_oldest_has_to_go(self, door: Door, caplog: pytest.LogCaptureFixture) -> None:
        with listening(door, handshakes=3) as (port, _), ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE)) for _ in range(6)]
            assert [each.recv(1) for each in silent[:3]] == [b"", b"", b""]
            with connected(port) as client:
                assert ask(client)
        (line,) = [each for each in caplog.records if each.name == "floorkeeper.listener"]
        assert (line.levelno, line.getMessage()) == (logging.WARNING, "connections dropped")
        assert vars(line)["fields"] == {"count": 1, "reason": "more than 3 are at their TLS handshake"}

    def test_it_has_an_end(self, door: Door) -> None:
        with listening(door, handshake_seconds=0.2) as (port, _):
            began = time.monotonic()
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as silent:
                assert silent.recv(1) == b""
            assert 0.1 < time.monotonic() - began < PATIENCE / 4
