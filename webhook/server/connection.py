"""One client's connection: uvicorn's, with answers at once, and with bounds on what a client may make us keep.

A request that is whole, and that the app can answer without waiting for anything, gets no task and no messages: these
cost more than HTTP itself does.

uvicorn bounds neither how long a head may take nor how large it may grow, nor the trailers of a body, nor the requests
that come ahead of an answer, nor how long a client may stay silent before its first request or leave an answer unread.
And where it closes an idle connection, a request that is on its way would be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from webhook.server.clients import ClientName, client_of
from webhook.server.joined import Joined

MAX_HEAD = 64 * 1024
"""Bytes of a request that are not its body: also trailers, and what chunks come in. The API server's have less than 1
KiB."""

HEAD_SECONDS = 15.0
WRITE_SECONDS = 5.0
"""That a client may leave unread what the socket does not hold."""

MOST_CONNECTIONS = 2000
"""At once, of all clients; each takes some 50 kB, or 300 kB once a large body came by it."""

_AT_ONCE = 16 * 1024
"""Bytes of a body that may be answered without a task, and that nothing accounts for meanwhile."""

_MOMENT_SECONDS = 0.02
"""That the rest of a small request is waited for: an API server sends one in two pieces, right after each other."""

_CLOSE_SECONDS = 1.0
_FRESH_SECONDS = 1.0  # within which a new connection gets the request that it was made for

_HEAD = b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_TEXT = b"This Floorkeeper is shutting down and did not look at the request; send it again."
_GOODBYE = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nretry-after: 1\r\n"
    b"connection: close\r\n\r\n%b" % (len(_TEXT), _TEXT)
)


AtOnce = Callable[[Scope, bytearray], bytes | None]
"""The JSON that answers a POST of a whole body, None if something has to be waited for or is wrong: then the app is
called for it."""


class _Pipelined(Exception):
    """A request came ahead of the answer to the one before, which no client of ours does."""


def _nothing() -> None:
    pass


class Connection(HttpToolsProtocol):
    """HTTP/1.1 on one socket."""

    head_seconds = HEAD_SECONDS
    write_seconds = WRITE_SECONDS
    most_connections = MOST_CONNECTIONS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._other_bytes = 0
        """Received since the request before ended, but for bodies."""

        self._in_head = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._deaf = False
        """Whether what is received is not looked at any more."""

        self._begun: tuple[RequestResponseCycle, Any] | None = None
        """A request that no task was made for yet, and its app."""

        self._begun_timer: asyncio.TimerHandle | None = None
        self._at_once: AtOnce | None = getattr(self.app, "at_once", None)
        self._made = self._heard = perf_counter()
        self._ending = False
        self._client: ClientName | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self._make_room()
        self._client = client_of(transport.get_extra_info("ssl_object"))
        # Go's client opens connections ahead of need: silence before the first request is as good as between two.
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_write()
        self._end_begun()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._heard = perf_counter()
        self._other_bytes += len(data)
        super().data_received(data)
        if self._begun is not None:
            self._go_on()
        if self._other_bytes > MAX_HEAD:
            if self._in_head:
                self._refuse_head()
            else:
                self._cut()
        elif self.timeout_keep_alive_task is None and self._is_idle():
            # A stray line break, or the rest of a body that was refused: no request has begun.
            self._wait_for_request()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # Most requests are whole a moment later, and most of these need no task.
        self._begun = cycle, app

    def _go_on(self, *, is_late: bool = False) -> None:
        """Answers a request at once, or makes a task of it. What comes in two pieces is waited for, for a moment."""
        assert self._begun is not None
        cycle, app = self._begun
        is_plain = cycle.keep_alive and not self.expect_100_continue and not self._deaf and self._at_once is not None
        if is_plain and cycle.more_body and not is_late and len(cycle.body) < _AT_ONCE:
            if self._begun_timer is None:
                self._begun_timer = self.loop.call_later(_MOMENT_SECONDS, partial(self._go_on, is_late=True))
            return
        self._end_begun()
        if is_plain and not cycle.more_body and len(cycle.body) <= _AT_ONCE and not self.flow.write_paused:
            assert self._at_once is not None
            payload = self._at_once(cast(Scope, cycle.scope), cycle.body)
            if payload is not None:
                self._answer(cycle, payload)
                return
        super()._start_asgi_task(cycle, app)

    def _answer(self, cycle: RequestResponseCycle, payload: bytes) -> None:
        """Writes JSON as uvicorn would, in one piece."""
        headers = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        self.transport.write(_HEAD % (headers, len(payload)) + payload)
        cycle.response_started = cycle.response_complete = True
        # As uvicorn does: else the two hold each other, and the buffers of TLS stay until garbage is collected.
        cycle.on_response = _nothing
        self.on_response_complete()

    def on_message_begin(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._deaf = True
            self.cycle.keep_alive = False
            raise _Pipelined
        super().on_message_begin()
        self.scope["state"]["arrived"] = perf_counter()
        self.scope["state"]["client"] = self._client
        self._in_head = True
        self._head_timer = self.loop.call_later(self.head_seconds, self._refuse_head)

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()
        if self._ending:
            self.cycle.keep_alive = False
        if not self.expect_100_continue:
            self.cycle.transport = Joined(self.transport)  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        self._other_bytes -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._other_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        # What is deaf has an answer under way, and is closed after that.
        if not self._deaf:
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_write()

    def shutdown(self) -> None:
        """Ends the connection, but not under a request: one that has begun, or must be about to, is answered first.

        An API server may write a request this very moment, and its client repeats no POST that met a closed connection
        (Go 1.26). So an idle one gets an answer ahead of any request. To a request that crosses it, it says to call
        again in a second, which the API server then does by itself; else it is dropped with the connection. A new one
        is there for a request that is about to come, and what is said ahead of that fails it.
        """
        self._ending = True
        age = perf_counter() - self._made
        if self._in_head or self.transport.is_closing():
            return
        if self.cycle is None and age < _FRESH_SECONDS:
            self.loop.call_later(_FRESH_SECONDS - age, self.shutdown)
            return
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_GOODBYE)
        super().shutdown()
        if self.transport.is_closing():
            self._end_soon()

    def on_response_complete(self) -> None:
        if isinstance(self.cycle.transport, Joined):
            self.cycle.transport.flush()
        super().on_response_complete()
        if self.transport.is_closing():
            self._end_soon()

    def _make_room(self) -> None:
        """Ends the connection that has said nothing for longest, so that silent ones cannot keep others out. One whose
        request is whole waits for us, unless it does not read the answer."""
        all_of_us = cast("set[Connection]", self.connections)
        waiting = [each for each in all_of_us if each is not self and not each._is_judged()]
        min(waiting, key=lambda each: each._heard, default=self).transport.abort()

    def _is_judged(self) -> bool:
        waits = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        return waits and not self.flow.write_paused

    def _is_idle(self) -> bool:
        return not self._in_head and (self.cycle is None or self.cycle.response_complete)

    def _end_soon(self) -> None:
        # Closing TLS waits for the client to agree, which one that sleeps or goes on sending does not.
        self.loop.call_later(_CLOSE_SECONDS, self.transport.abort)

    def _wait_for_request(self) -> None:
        if not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _refuse_head(self) -> None:
        self._end_head()
        if not self.transport.is_closing():
            self.send_400_response("The head of the request is too large or too slow.")
            self._end_soon()
        self._deaf = True

    def _cut(self) -> None:
        # An answer may be under way, or given already, so there is no saying why.
        self._deaf = True
        self.transport.abort()

    def _end_begun(self) -> None:
        self._begun = None
        if self._begun_timer is not None:
            self._begun_timer.cancel()
            self._begun_timer = None

    def _end_write(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _end_head(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
