"""uvicorn, set up as the API server needs it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import cast

import uvicorn
from fastapi import FastAPI

from webhook.server.certificates import CertificateSource
from webhook.server.connection import Connection

KEEP_ALIVE_SECONDS = 120
"""Idle connections are kept longer than the API server's 90 s, or it would write into one that we just closed."""

GRACE_SECONDS = 10.0
"""For answers under way when serving ends: as long as the API server waits for any."""

_LOOK_SECONDS = 0.02
_CUT_SECONDS = 0.2  # for what is told to those who are cut off


def server_config(built: FastAPI, certificate: CertificateSource) -> uvicorn.Config:
    """uvicorn's settings; sockets are passed in when it serves."""
    return uvicorn.Config(
        built,
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        ssl_context_factory=lambda _config, _default: certificate.context(),
    )


class Server(uvicorn.Server):
    """uvicorn without its own ideas of signals, and of an end."""

    grace_seconds = GRACE_SECONDS

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_start = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  (closed by theirs)
        """Takes no more connections, and ends those that are there once what has begun on them is answered."""
        for server in self.servers:
            server.close()
        connections, tasks = cast("set[Connection]", self.server_state.connections), self.server_state.tasks
        told: set[Connection] = set()
        end = time.monotonic() + self.grace_seconds
        while (connections or tasks) and time.monotonic() < end:
            # One whose handshake was under way joins them later.
            for connection in connections - told:
                connection.shutdown()
            told |= connections
            await asyncio.sleep(_LOOK_SECONDS)
        for connection in list(connections):
            if connection.flow.write_paused:
                # The client does not read its answer.
                connection.transport.abort()
        for task in list(tasks):
            task.cancel()
        await asyncio.sleep(_CUT_SECONDS if tasks else 0)
        for connection in list(connections):
            connection.transport.abort()
