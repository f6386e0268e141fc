"""One address for several servers: connections go to each in turn, and can be held up or frozen on their way.

`python -m tests.cluster.balancer HOST:PORT HOST:PORT…` runs one as a process, as a Service does it: connections to the
first address go to those of the others whose /readyz answers 200.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import ssl
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

Address = tuple[str, int]
_CHUNK = 64 * 1024
_PROBE_SECONDS = 0.3
"""Between two looks whether a server is ready. A kubelet takes longer, but a Pod that is to end is left out at once."""

_PROBE = b"GET /readyz HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n"

_ANY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_ANY.check_hostname, _ANY.verify_mode = False, ssl.CERT_NONE


class Balancer:
    """Passes bytes on in a thread of its own. A server that has died takes its connections with it, and what was still
    held up on them."""

    def __init__(self, address: Address, servers: Sequence[Address], probes: bool = False) -> None:
        """`probes`: new connections go only to servers that say that they are ready. Those that are there stay."""
        self.longest_delay = 0.0
        """Seconds that a piece of an answer is held up at the most; how long, is drawn."""

        self._address = address
        self._servers = list(servers)
        self._probes = probes
        self._ready = set[Address]() if probes else set(servers)
        self._next = 0
        self._loop = asyncio.new_event_loop()
        self._background: list[asyncio.Task[None]] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing: set[asyncio.Event] = set()
        """One for each connection; cleared while it is frozen."""

    @contextmanager
    def running(self) -> Iterator[Balancer]:
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        try:
            server = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(self._stop(server), self._loop).result(10)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    def run(self) -> None:
        """In this thread, until SIGTERM."""
        self._loop.add_signal_handler(signal.SIGTERM, self._loop.stop)
        server = self._loop.run_until_complete(self._start())
        self._loop.run_forever()
        self._loop.run_until_complete(self._stop(server))

    def hang_up(self) -> None:
        """Ends every connection, so that the next ones go to each server in turn."""
        self._loop.call_soon_threadsafe(self._abort)

    def freeze(self) -> None:
        """No byte comes by the connections that are there any more, and neither side is told. New ones work."""
        self._loop.call_soon_threadsafe(self._freeze)

    def _freeze(self) -> None:
        for each in self._flowing:
            each.clear()

    async def _start(self) -> asyncio.Server:
        if self._probes:
            self._background = [asyncio.create_task(self._probe(server)) for server in self._servers]
        return await asyncio.start_server(self._pass, *self._address)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _stop(self, server: asyncio.Server) -> None:
        server.close()
        for task in self._background:
            task.cancel()
        self._abort()
        for each in self._flowing:
            each.set()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)

    async def _probe(self, server: Address) -> None:
        while True:
            (self._ready.add if await is_ready(server) else self._ready.discard)(server)
            await asyncio.sleep(_PROBE_SECONDS)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the client, until either side ends it."""
        server = await self._connected()
        if server is None:
            writer.transport.abort()
            return
        writers = writer, server[1]
        self._writers.update(writers)
        flowing = asyncio.Event()
        flowing.set()
        self._flowing.add(flowing)
        held: asyncio.Queue[bytes] = asyncio.Queue()
        ways = [
            asyncio.create_task(way)
            for way in (
                self._copy(reader, server[1], flowing),
                self._hold(server[0], held, flowing),
                self._let_go(held, writer),
            )
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._flowing.discard(flowing)
            for way in ways:
                way.cancel()
            for each in writers:
                self._writers.discard(each)
                if self._probes:
                    each.close()
                else:
                    each.transport.abort()
        await asyncio.gather(*ways, return_exceptions=True)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for _ in self._servers:
            self._next = (self._next + 1) % len(self._servers)
            server = self._servers[self._next]
            if server in self._ready:
                with contextlib.suppress(OSError):
                    return await asyncio.open_connection(*server)
        return None

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
        while data := await reader.read(_CHUNK):
            await flowing.wait()
            writer.write(data)
            await writer.drain()

    async def _hold(self, reader: asyncio.StreamReader, held: asyncio.Queue[bytes], flowing: asyncio.Event) -> None:
        while data := await reader.read(_CHUNK):
            await flowing.wait()
            held.put_nowait(data)
        if self._probes:
            # A Service loses nothing of what a server said before it closed the connection.
            await held.join()

    async def _let_go(self, held: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
        while True:
            data = await held.get()
            await asyncio.sleep(random.uniform(0.0, self.longest_delay))
            writer.write(data)
            await writer.drain()
            held.task_done()


async def is_ready(server: Address) -> bool:
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(*server, ssl=_ANY)
            writer.write(_PROBE)
            status = await reader.readline()
            writer.transport.abort()
    except (OSError, TimeoutError):
        return False
    return status.startswith(b"HTTP/1.1 200 ")


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    import uvloop

    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    front, *backs = map(address, sys.argv[1:])
    Balancer(front, backs, probes=True).run()
