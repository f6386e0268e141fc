"""uvicorn, set up as the API server needs it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn
from fastapi import FastAPI

from webhook.server.certificates import Certificates
from webhook.server.connection import Connection

KEEP_ALIVE_SECONDS = 120
"""Idle connections are kept longer than the API server's 90 s, or it would write into one that we just closed."""

GRACE_SECONDS = 5
"""For answers under way when serving ends."""


def server_config(built: FastAPI, certificates: Certificates) -> uvicorn.Config:
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
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_context_factory=lambda _config, _default: certificates.context,
    )


class Server(uvicorn.Server):
    """uvicorn without its own ideas of signals."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell_start = started

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell_start()
