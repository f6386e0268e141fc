"""Takes connections off the listening sockets.

uvicorn would leave this to asyncio, which tells nobody of a connection before its TLS handshake is done, and gives that
a minute: by then, clients that only connect would have all the file descriptors.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Sequence

MOST_HANDSHAKES = 500
"""At once. Each takes us about a millisecond, and a client within a cluster hardly longer."""

HANDSHAKE_SECONDS = 5.0

_RETRY_SECONDS = 0.005  # for a file descriptor to be free again
_TELL_SECONDS = 10.0

log = logging.getLogger("floorkeeper.listener")


class Listener:
    """Gives every connection whose handshake is done a protocol of its own."""

    def __init__(
        self,
        protocol: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext,
        most: int = MOST_HANDSHAKES,
        seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._protocol = protocol
        self._context = context
        self._most = most
        self._seconds = seconds
        self._handshakes: dict[asyncio.Task[None], None] = {}
        """Under way, in the order in which they began."""

        self._sockets: list[socket.socket] = []
        self._untold = 0
        self._told = False

    def start(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = list(sockets)
        for each in sockets:
            each.setblocking(False)
            self._listen(each)

    @property
    def handshakes(self) -> int:
        """Under way: connections that a client may think it has, and we do not have yet."""
        return len(self._handshakes)

    def stop(self) -> None:
        """Takes those that have connected, and then no more; handshakes that have begun go on."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each)
            self._take_all(each)
            each.close()
        self._sockets = []

    def _listen(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._take_all, listening)

    def _take_all(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self._most):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Most likely there are no file descriptors left.
                self._drop_oldest(str(error))
                loop.remove_reader(listening)
                loop.call_later(_RETRY_SECONDS, self._listen, listening)
                return
            accepted.setblocking(False)
            handshake = loop.create_task(self._handshake(accepted))
            self._handshakes[handshake] = None
            handshake.add_done_callback(lambda done: self._handshakes.pop(done, None))
            if len(self._handshakes) > self._most:
                self._drop_oldest(f"more than {self._most} are at their TLS handshake")

    async def _handshake(self, accepted: socket.socket) -> None:
        # What goes wrong here, the client is told by TLS.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._seconds,
                ssl_shutdown_timeout=self._seconds,
            )

    def _drop_oldest(self, reason: str) -> None:
        """The log says so at once, and what follows in sum."""
        oldest = next(iter(self._handshakes), None)
        if oldest is not None:
            oldest.cancel()
            del self._handshakes[oldest]
        self._untold += 1
        if not self._told:
            self._tell(reason)

    def _tell(self, reason: str) -> None:
        self._told = self._untold > 0
        if self._told:
            log.warning("connections dropped", extra={"fields": {"count": self._untold, "reason": reason}})
            self._untold = 0
            asyncio.get_running_loop().call_later(_TELL_SECONDS, self._tell, reason)
