"""Clients that mean no good: they keep nobody else out, and write nothing into our log."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.live.page_client import GET_HEALTH, client_of, connected, is_closed
from tests.live.page_world import World, base
from tests.quota_objects import queue
from webhook.live.page.server import MOST_CONNECTIONS
from webhook.live.page.state import MOST_QUEUES


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with client_of(World()) as client:
        yield client


def test_when_there_are_too_many_the_one_that_has_waited_longest_goes(client: httpx.Client) -> None:
    held = [connected(client) for _ in range(MOST_CONNECTIONS)]
    try:
        # By its answer the last one shows that all are there. Whoever is answered waits anew.
        for each in (held[-1], *held[:3]):
            each.sendall(GET_HEALTH)
            assert each.recv(4096).startswith(b"HTTP/1.1 200 ")
        with connected(client) as more:
            more.sendall(GET_HEALTH)
            assert more.recv(4096).startswith(b"HTTP/1.1 200 ")
            time.sleep(0.2)
            assert [index for index, each in enumerate(held) if is_closed(each)] == [3]
    finally:
        for each in held:
            each.close()


def test_those_who_say_little_keep_nobody_out(client: httpx.Client) -> None:
    slow: list[socket.socket] = []
    try:
        for _ in range(3):
            for _ in range(MOST_CONNECTIONS):
                slow.append(connected(client))
                slow[-1].sendall(b"GET / HTTP/1.1\r\nx: ")
            for path in ("", "data.json", "healthz"):
                assert httpx.get(f"{client.base_url}{path}", timeout=5, trust_env=False).status_code == 200
        time.sleep(0.2)
        assert sum(not is_closed(each) for each in slow) < MOST_CONNECTIONS
    finally:
        for each in slow:
            each.close()


def large() -> World:
    """Its data are more than the sockets between here and there hold."""
    return World(*base(), *(queue(f"q{index:03}-{'x' * 200}", {"a100": 1}) for index in range(MOST_QUEUES)))


def unreading(client: httpx.Client, requests: bytes) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.settimeout(5)
    found.connect(("127.0.0.1", client.base_url.port or 0))
    found.sendall(requests)
    return found


def get_data(connection: str) -> bytes:
    return f"GET /data.json HTTP/1.1\r\nhost: localhost\r\nconnection: {connection}\r\n\r\n".encode()


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_an_answer_that_nobody_reads_is_given_up(connection: str) -> None:
    with client_of(large(), seconds=0.5) as client, unreading(client, get_data(connection)) as raw:
        whole = len(client.get("/data.json").content)
        time.sleep(1)
        read = 0
        with contextlib.suppress(ConnectionResetError):
            while chunk := raw.recv(65536):
                read += len(chunk)
        assert read < whole


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_those_who_read_no_answer_keep_nobody_out(connection: str) -> None:
    unread: list[socket.socket] = []
    with client_of(large(), seconds=1.0) as client:
        try:
            unread.extend(unreading(client, get_data(connection) * 9) for _ in range(2 * MOST_CONNECTIONS))
            assert httpx.get(f"{client.base_url}data.json", timeout=5, trust_env=False).status_code == 200
        finally:
            for each in unread:
                each.close()


HOSTILE = {
    "no HTTP": b"\x16\x03\x01\x02\x00\r\n\r\n",
    "a WebSocket": b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no chunk": b"GET / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nZZZ\r\n",
    "a chunk too long": b"GET / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n",
    "no second request": b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n\0\0\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n\r\n",
    "a foreign Host": b"GET / HTTP/1.1\r\nhost: evil.example.com\r\n\r\n",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_strangers_send_is_not_logged(client: httpx.Client, what: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with connected(client) as raw:
            raw.sendall(HOSTILE[what])
            assert raw.recv(4096).startswith(b"HTTP/1.1 ")
    assert client.get("/healthz").status_code == 200
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []
