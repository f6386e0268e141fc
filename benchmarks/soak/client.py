"""An open loop of writes: each is sent when it is due, whether or not the former ones were answered."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import httptools
import uvloop
import yaml

from benchmarks.soak.calls import Call
from benchmarks.soak.writes import Write

_CONNECTIONS = 32
"""More would ask a machine that is too slow for the rate to do more at once, and not sooner."""
_LONGEST_ANSWER = 60.0
_LONGEST_TEXT = 1000


class Connection(asyncio.Protocol):
    """One request after the other."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._body: list[bytes] = []
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.is_over = False
        self._lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if not self._parser.should_keep_alive():
            self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), b"".join(self._body)))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True
        self._lost.set()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(str(error or "closed")))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Code and body. Raises OSError, and TimeoutError."""
        assert self._transport is not None
        self._body, self._answer = [], asyncio.get_running_loop().create_future()
        self._transport.write(request)
        async with asyncio.timeout(_LONGEST_ANSWER):
            return await self._answer

    def close(self) -> None:
        self.is_over = True
        if self._transport is not None:
            self._transport.abort()

    async def closed(self) -> None:
        self.close()
        await self._lost.wait()


class Client:
    """Sends the writes over and over as the user of a kubeconfig with a token and an inline CA."""

    def __init__(self, kubeconfig: Path, writes: Sequence[Write], rate: float) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        address = urlsplit(cluster["server"])
        self._host, self._port = str(address.hostname), address.port
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=authority)
        self._requests = [(write, self._request(write, user["token"])) for write in writes]
        self._rate = rate
        self._idle: list[Connection] = []
        self._room = asyncio.Semaphore(_CONNECTIONS)
        self._stopping = threading.Event()
        self.calls: list[Call] = []
        """What has been answered, or has failed."""

    def _request(self, write: Write, token: str) -> bytes:
        head = (
            f"{write.method} {write.path}?dryRun=All HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Authorization: Bearer {token}\r\n"
            f"Content-Type: {write.content_type}\r\nContent-Length: {len(write.body)}\r\n\r\n"
        )
        return head.encode() + write.body

    @contextmanager
    def running(self) -> Iterator[Client]:
        """In a thread of its own."""
        thread = threading.Thread(target=lambda: uvloop.run(self._run()))
        thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            thread.join()

    async def _run(self) -> None:
        began = time.monotonic()
        under_way: set[asyncio.Task[None]] = set()
        for number in count():
            due = began + number / self._rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if self._stopping.is_set():
                break
            task = asyncio.create_task(self._send(due, *self._requests[number % len(self._requests)]))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.gather(*under_way)
        await asyncio.gather(*(connection.closed() for connection in self._idle))

    async def _send(self, due: float, write: Write, request: bytes) -> None:
        code, text, is_right = 0, "", False
        try:
            async with self._room:
                if self._stopping.is_set():
                    # The machine was too slow for the rate: it was never sent, and is not counted.
                    return
                code, body = await self._ask(request)
            is_right = write.is_right(code, body)
            text = "" if is_right else body.decode(errors="replace")[:_LONGEST_TEXT]
        except (OSError, TimeoutError) as error:
            text = f"{type(error).__name__}: {error}"
        self.calls.append(Call(due, time.monotonic(), write.name, is_right, code, text))

    async def _ask(self, request: bytes) -> tuple[int, bytes]:
        connection = await self._connected()
        try:
            return await connection.ask(request)
        except TimeoutError:
            connection.close()
            raise
        finally:
            if not connection.is_over:
                self._idle.append(connection)

    async def _connected(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_over:
                return connection
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(Connection, self._host, self._port, ssl=self._context)
        return made
