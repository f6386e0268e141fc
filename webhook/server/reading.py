"""Reading files that may be on a network: a file system that hangs holds up nothing but what is read from it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

PATIENCE = 10.0
"""Seconds after which a read counts as hanging."""

T = TypeVar("T")


class Reader(Generic[T]):
    """Calls something that blocks, in a thread that not even the end of the process waits for."""

    def __init__(self, call: Callable[[], T], name: str, patience: float = PATIENCE) -> None:
        """`name` is what is read."""
        self._call = call
        self._name = name
        self._patience = patience
        self._reading: asyncio.Future[T] | None = None

    async def read(self) -> T:
        """What the call answers or raises; TimeoutError while it hangs, and then the next `read` waits on."""
        loop = asyncio.get_running_loop()
        if self._reading is None:
            self._reading = loop.create_future()
            threading.Thread(target=self._run, args=(loop, self._reading), name="reader", daemon=True).start()
        await asyncio.wait({self._reading}, timeout=self._patience)
        if not self._reading.done():
            raise TimeoutError(
                f"{self._name}: reading it takes longer than {self._patience:g} s; look at the volume that it is on"
            )
        done, self._reading = self._reading, None
        return done.result()

    def _run(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[T]) -> None:
        settle: Callable[[], None]
        try:
            answer = self._call()
        except Exception as error:
            settle = partial(future.set_exception, error)
        else:
            settle = partial(future.set_result, answer)
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle)
