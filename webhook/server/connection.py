"""One client's connection: uvicorn's, with bounds on the head of a request.

uvicorn bounds neither how long a head may take nor how large it may grow, nor how long a client may stay silent before
its first request.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024  # bytes; the API server's requests have less than 1 KiB
HEAD_SECONDS = 15.0
_CLOSE_SECONDS = 1.0


class Connection(HttpToolsProtocol):
    """HTTP/1.1 on one socket."""

    head_seconds = HEAD_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        """Received since the head of a request began; 0 if none has."""

        self._in_head = False
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Go's client opens connections ahead of need: silence before the first request is as good as between two.
        self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self._refuse_head()
        elif self.timeout_keep_alive_task is None and (self.cycle is None or self.cycle.response_complete):
            # A stray line break, or the rest of a body that was refused: no request has begun.
            self._wait_for_request()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._head_timer = self.loop.call_later(self.head_seconds, self._refuse_head)

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._end_soon()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._end_soon()

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

    def _end_head(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
