"""Reading past the watch: what one namespace holds at this moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import quote

import orjson

from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.snapshot import Snapshot
from webhook.sources.access import ACCESS
from webhook.sources.connection import Connection, StatusError
from webhook.sources.listing import list_pages
from webhook.sources.timing import Timing

_log = logging.getLogger("floorkeeper.cluster")

CONFIRMED = frozenset({"Namespace", "LocalQueue", "ResourceClaimTemplate", "ResourceClaim"})
"""The kinds that a user creates a moment before the objects that need them."""

_THREADS = 4
_ATTEMPTS = 3

_Mark = tuple[int, int]
"""How often the watch has listed the kind, and has changed the namespace since: equal marks, no write in between."""


class Confirmation:
    """Reads single namespaces again and writes what it finds to the snapshot. All methods run on the loop's thread.

    No resourceVersions are compared, and none need be. A watch delivers every change up to the newest, in order, so an
    older event that arrives after we wrote undoes our work only until the event that we are ahead of. The other way
    round would last: an answer that left the API server before a change, written after the watch brought that change,
    is never put right. So an answer is thrown away, and asked for again, if the watch wrote the same place meanwhile.
    """

    def __init__(
        self,
        connection: Connection,
        snapshot: Snapshot,
        versions: Callable[[str], str],
        timing: Timing,
    ) -> None:
        self._connection = connection
        self._snapshot = snapshot
        self._versions = versions
        self._timing = timing
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="confirm")
        self._asked: dict[tuple[str, str], asyncio.Task[bool]] = {}
        """Reads that have not begun."""

        self._running: dict[tuple[str, str], asyncio.Task[bool]] = {}
        self._lists: dict[str, int] = dict.fromkeys(CONFIRMED, 0)
        self._writes: dict[str, dict[str, int]] = {kind: {} for kind in CONFIRMED}

    def watch_listed(self, kind: str) -> None:
        """To be called when the watch has replaced all facts of a kind."""
        if kind in CONFIRMED:
            self._lists[kind] += 1
            self._writes[kind].clear()

    def watch_changed(self, kind: str, namespace: str) -> None:
        """To be called when the watch has changed a fact of a namespace; of a Namespace, it is the name."""
        if kind in CONFIRMED:
            writes = self._writes[kind]
            writes[namespace] = writes.get(namespace, 0) + 1

    def _mark(self, kind: str, namespace: str) -> _Mark:
        return self._lists[kind], self._writes[kind].get(namespace, 0)

    async def confirm(self, kinds: frozenset[str], namespace: str) -> bool:
        """Whether a fact changed. Who asks while the same is being read shares the next read, which begins after that:
        an answer from before one asked may be older than what one asks about."""
        tasks = []
        for kind in sorted(kinds & CONFIRMED - self._snapshot.unknown().keys()) if namespace else ():
            key = kind, namespace
            if key not in self._asked:
                self._asked[key] = asyncio.create_task(self._read(kind, namespace, self._mark(kind, namespace)))
            tasks.append(self._asked[key])
        if not tasks:
            return False
        done, _ = await asyncio.wait(tasks, timeout=self._timing.confirm)
        return any(not task.cancelled() and task.result() for task in done)

    def stop(self) -> None:
        for task in (*self._running.values(), *self._asked.values()):
            task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _read(self, kind: str, namespace: str, before: _Mark) -> bool:
        """`before` is the mark when somebody first asked."""
        loop, key = asyncio.get_running_loop(), (kind, namespace)
        if key in self._running:
            await asyncio.wait({self._running[key]})
        self._running[key] = self._asked.pop(key)
        fetch = self._fetch_namespace if kind == "Namespace" else partial(self._fetch_all, kind)
        try:
            for _ in range(_ATTEMPTS):
                mark = self._mark(kind, namespace)
                facts = await loop.run_in_executor(self._pool, fetch, namespace)
                if self._mark(kind, namespace) == mark:
                    wrote = kind not in self._snapshot.unknown() and self._write(kind, namespace, facts)
                    return wrote or mark != before
            # The watch brings changes all the while: it needs no help, and what it brought is a change.
            return True
        except Exception as error:
            fields = {"kind": kind, "namespace": namespace, "problem": str(error)[:200]}
            _log.info("facts could not be confirmed", extra={"fields": fields})
            return False
        finally:
            del self._running[key]

    def _write(self, kind: str, namespace: str, facts: Mapping[str, Fact]) -> bool:
        if kind == "Namespace":
            before = self._snapshot.namespace(namespace)
            if namespace in facts:
                return self._snapshot.put(kind, facts[namespace])
            self._snapshot.remove(kind, "", namespace)
            return before is not None
        if facts == self._snapshot.of_namespace(kind, namespace):
            return False
        self._snapshot.replace_namespace(kind, namespace, facts.values())
        return True

    # In the pool's threads

    def _fetch_namespace(self, namespace: str) -> dict[str, Fact]:
        access = ACCESS["Namespace"]
        path = f"{access.path(access.versions[0])}/{quote(namespace, safe='')}"
        try:
            with self._connection.get(path, {}, accept="application/json", silence=self._timing.confirm) as answer:
                fact = PROJECTIONS["Namespace"](orjson.loads(answer.read()))
        except StatusError as error:
            # The word NotFound tells the API server from a proxy that knows no such path.
            if error.code == 404 and error.reason == "NotFound":
                return {}
            raise
        return {} if fact is None else {namespace: fact}

    def _fetch_all(self, kind: str, namespace: str) -> dict[str, Fact]:
        pages = list_pages(self._connection, ACCESS[kind], self._versions(kind), self._timing.confirm, namespace)
        facts = (PROJECTIONS[kind](value) for objects, _ in pages for value in objects)
        return {fact.name: fact for fact in facts if fact is not None}
