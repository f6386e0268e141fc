"""One address for several servers: connections go to each in turn, and answers can be held up on their way."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_CHUNK = 64 * 1024


class Balancer:
    """Passes bytes on in a thread of its own. A server that has died takes its connections with it, and what was still
    held up on them."""

    def __init__(self, address: tuple[str, int], servers: Sequence[tuple[str, int]]) -> None:
        self.longest_delay = 0.0
        """Seconds that a piece of an answer is held up at the most; how long, is drawn."""

        self._address = address
        self._servers = list(servers)
        self._next = 0
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()

    @contextmanager
    def running(self) -> Iterator[Balancer]:
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        try:
            listening = asyncio.start_server(self._pass, *self._address)
            server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self._stop(server), self._loop).result(10)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    def hang_up(self) -> None:
        """Ends every connection, so that the next ones go to each server in turn."""
        self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _stop(self, server: asyncio.Server) -> None:
        server.close()
        self._abort()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the client, until either side ends it."""
        server = await self._connected()
        if server is None:
            writer.transport.abort()
            return
        writers = writer, server[1]
        self._writers.update(writers)
        held: asyncio.Queue[bytes] = asyncio.Queue()
        ways = [
            asyncio.create_task(way)
            for way in (self._copy(reader, server[1]), self._hold(server[0], held), self._let_go(held, writer))
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for each in writers:
            self._writers.discard(each)
            each.transport.abort()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self._servers:
            self._next = (self._next + 1) % len(self._servers)
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(*self._servers[self._next])
        return None

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()

    async def _hold(self, reader: asyncio.StreamReader, held: asyncio.Queue[bytes]) -> None:
        while data := await reader.read(_CHUNK):
            held.put_nowait(data)

    async def _let_go(self, held: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
        while True:
            data = await held.get()
            await asyncio.sleep(random.uniform(0.0, self.longest_delay))
            writer.write(data)
            await writer.drain()
