"""Serving the page over plain HTTP: beside another server on one event loop, or in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from webhook.live.page.app import PageApp
from webhook.live.page.board import Board

MOST_CONNECTIONS = 64
SECONDS = 15.0
"""For a request to arrive, and again for the client to read the answer. Pages ask every five."""

MAX_HEAD = 16 * 1024
"""Bytes of a request, which has no body."""

_END_SECONDS = 1

log = logging.getLogger("floorkeeper.page")

# uvicorn warns of what strangers send, some of it with advice for its own developers. Any client can fill a log so.
_uvicorn_log = logging.getLogger("floorkeeper.page.uvicorn")
_uvicorn_log.setLevel(logging.ERROR)


class CannotListen(Exception):
    """The address cannot be had: the message says which, and why."""


def listen(host: str, port: int) -> list[socket.socket]:
    """A socket for each address that the host stands for, all on one port; port 0 is any. Raises CannotListen."""
    sockets: list[socket.socket] = []
    try:
        found = dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
        for family, _, _, _, address in found:
            taken = sockets[0].getsockname()[1] if sockets else port
            sockets.append(socket.create_server((str(address[0]), taken), family=family))
    except OSError as error:
        for one in sockets:
            one.close()
        raise CannotListen(f"cannot listen on {host} port {port} for the page: {error.strerror or error}") from None
    return sockets


def url_of(sockets: Sequence[socket.socket]) -> str:
    host, port = sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class _Connection(H11Protocol):
    """uvicorn's, which waits for ever for a first request, or for the rest of one, and takes any number of clients."""

    seconds = SECONDS
    _timer: asyncio.TimerHandle | None = None
    _began = 0.0
    _is_dropped = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = _uvicorn_log

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()
        others = [each for each in cast("set[_Connection]", self.connections) - {self} if not each._is_dropped]
        if len(others) >= MOST_CONNECTIONS:
            # Not the new one, or those who say nothing would keep everybody else out.
            min(others, key=_Connection._rank)._drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # Its head was fine, and what follows is not: it is not answered a second time.
            self.cycle.disconnected = True
            if self.cycle.response_started:
                self._drop()
                return
        super().send_400_response(msg)

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._begin()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begin()

    def _begin(self) -> None:
        """From here on there is time for one thing: the head of a request, or the whole of an answer."""
        self._end()
        # Also while it closes, for that waits until what is written has been read.
        self._began = self.loop.time()
        self._timer = self.loop.call_later(self.seconds, self._drop)

    def _rank(self) -> tuple[bool, float]:
        """The least is dropped first: who has kept us waiting for longest, and those who wait for us last."""
        is_ours = self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused
        return is_ours, self._began

    def _drop(self) -> None:
        self._is_dropped = True
        self.transport.abort()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    """uvicorn without its own ideas of signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class PageServer:
    """The page on some sockets, from `run` to `stop`. What fails here is logged, and holds up nobody else."""

    def __init__(
        self, board: Board, sockets: Sequence[socket.socket], seconds: float = SECONDS, names: Collection[str] = ()
    ) -> None:
        """`seconds` is the patience with one client; `names` are as PageApp has them."""
        self.board = board
        self.url = url_of(sockets)
        self._sockets = list(sockets)
        config: dict[str, Any] = {
            "http": type("_Connection", (_Connection,), {"seconds": seconds}),
            "ws": "none",
            "lifespan": "off",
            "interface": "asgi3",
            "log_config": None,
            "access_log": False,
            "proxy_headers": False,
            "server_header": False,
            "timeout_graceful_shutdown": _END_SECONDS,
            "h11_max_incomplete_event_size": MAX_HEAD,
        }
        self._server = _Server(uvicorn.Config(PageApp(board, names), **config))

    async def run(self) -> None:
        """Until `stop`, or until it is cancelled."""
        reading = asyncio.create_task(self._read())
        log.info("page", extra={"fields": {"address": self.url}})
        try:
            await self._server.serve(self._sockets)
        except Exception:
            log.exception("serving the page failed")
        finally:
            reading.cancel()
            await asyncio.wait({reading})
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()
            for each in self._sockets:
                each.close()

    async def _read(self) -> None:
        try:
            await self.board.run()
        except Exception:
            log.exception("keeping the page's data current failed")

    def stop(self) -> None:
        """Ends it soon. From the loop's thread."""
        self._server.should_exit = True


@contextlib.contextmanager
def served(
    board: Board, sockets: Sequence[socket.socket], seconds: float = SECONDS, names: Collection[str] = ()
) -> Iterator[str]:
    """The page's address while its thread serves it: for a command that does its own work meanwhile."""
    server = PageServer(board, sockets, seconds, names)
    thread = threading.Thread(target=lambda: asyncio.run(server.run()), name="page")
    thread.start()
    try:
        yield server.url
    finally:
        # A plain flag, at which the server looks ten times a second.
        server.stop()
        thread.join()
