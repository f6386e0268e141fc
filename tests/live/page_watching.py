"""The page of a command, in a thread, as `floorkeeper audit --serve` has it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import until
from webhook.engine.policy import Policy
from webhook.live.api import Api
from webhook.live.audit.report import Audit
from webhook.live.page.server import listen
from webhook.live.page.watching import watch_and_serve


class Watching:
    def __init__(self, kubeconfig: Path, audit: Callable[[Api], Audit], every: float) -> None:
        sockets = listen("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        self._page = watch_and_serve(kubeconfig, Policy, sockets, audit, every)
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._thread = threading.Thread(target=self._main)
        self._thread.start()

    def _main(self) -> None:
        async def run() -> None:
            task = asyncio.current_task()
            assert task is not None
            self._running = asyncio.get_running_loop(), task
            await self._page

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(run())

    def data(self) -> Any:
        try:
            return httpx.get(f"{self.url}/data.json", timeout=10, trust_env=False).json()
        except httpx.TransportError:
            return {"violations": {"at": None, "reason": ""}, "flavors": {"rows": []}, "queues": {"rows": []}}

    def interrupt(self) -> None:
        loop, task = until(lambda: self._running)
        loop.call_soon_threadsafe(task.cancel)
        self._thread.join()


@contextmanager
def watching(kubeconfig: Path, audit: Callable[[Api], Audit], every: float = 0.1) -> Iterator[Watching]:
    """`every` is the seconds between two audits."""
    page = Watching(kubeconfig, audit, every)
    try:
        yield page
    finally:
        page.interrupt()
