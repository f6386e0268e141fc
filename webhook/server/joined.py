"""An answer's head and body, written at once."""

from __future__ import annotations

import asyncio


class Joined:
    """Writes the head of an answer together with what follows: each write by itself is a TLS record and a system call.

    It stands for the transport as far as uvicorn's cycle of one request uses it.
    """

    __slots__ = ("_head", "_is_joined", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._is_joined = False

    def write(self, data: bytes) -> None:
        if self._is_joined:
            self._transport.write(data)
        elif not self._head:
            self._head = data
        else:
            self._is_joined = True
            self._transport.write(self._head + data)

    def flush(self) -> None:
        """The answer is complete: one to HEAD has nothing after its head."""
        if self._head and not self._is_joined:
            self._is_joined = True
            self._transport.write(self._head)

    def close(self) -> None:
        self.flush()
        self._transport.close()
