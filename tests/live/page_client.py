"""Clients of a page that is served for a test, polite ones and others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.live.page_world import World
from webhook.live.page.server import listen, served

GET_HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


@contextmanager
def client_of(world: World, **settings: Any) -> Iterator[httpx.Client]:
    """`settings` are those of `served`. What is not read soon fills the sockets."""
    sockets = listen("127.0.0.1", 0)
    for each in sockets:
        # Those that it accepts are as it is.
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with (
        served(world.board, sockets, **settings) as url,
        httpx.Client(base_url=url, timeout=10, trust_env=False) as client,
    ):
        yield client


def connected(client: httpx.Client) -> socket.socket:
    """One more connection, on which nothing is said."""
    return socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=10)


def all_of(raw: socket.socket) -> bytes:
    """What is said until the end."""
    found = b""
    while chunk := raw.recv(65536):
        found += chunk
    return found


def is_closed(raw: socket.socket) -> bool:
    """Whether the other side has ended it; what it said before was read."""
    raw.setblocking(False)
    try:
        return raw.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
