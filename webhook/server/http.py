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
from webhook.server.listener import HANDSHAKE_SECONDS, MOST_HANDSHAKES, Listener

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
    """uvicorn without its own ideas of signals, of a start, and of an end."""

    grace_seconds = GRACE_SECONDS
    most_handshakes = MOST_HANDSHAKES
    handshake_seconds = HANDSHAKE_SECONDS

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_start = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config = self.config
        assert config.ssl is not None
        connection = cast("type[Connection]", config.http_protocol_class)
        self._listener = Listener(
            lambda: connection(config=config, server_state=self.server_state, app_state={}),
            config.ssl,
            self.most_handshakes,
            self.handshake_seconds,
        )
        self._listener.start(sockets or [])
        self.started = True
        self._tell_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  (the listener has them)
        """Takes no more connections, and ends those that are there once what has begun on them is answered."""
        self._listener.stop()
        connections, tasks = cast("set[Connection]", self.server_state.connections), self.server_state.tasks
        told: set[Connection] = set()
        began = time.monotonic()
        # A connection whose handshake was under way joins the others later. Its client may take it for made, for in TLS
        # 1.3 it is done first, and sends no request again that it has written there.
        while (connections or tasks or self._listener.handshakes) and time.monotonic() < began + self.grace_seconds:
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
