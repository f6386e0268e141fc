"""A running cluster as the source of facts: one watch for each kind, and lists where the watch is too slow."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from webhook.kube.facts import PROJECTIONS
from webhook.kube.snapshot import Snapshot
from webhook.sources.access import ACCESS
from webhook.sources.confirm import Confirmation
from webhook.sources.connection import Connection
from webhook.sources.events import EventWriter
from webhook.sources.ledger import FloorLedger, LedgerTiming
from webhook.sources.outage import Outage
from webhook.sources.source import Event, KindState
from webhook.sources.store import ClusterStore, own_namespace
from webhook.sources.timing import Timing
from webhook.sources.watch import Report, Watcher

_log = logging.getLogger("floorkeeper.cluster")

_STOP_SECONDS = 0.8


@dataclass(slots=True)
class _Standing:
    """What is known about how well a kind is known."""

    current_at: float
    problem: str = ""
    required: bool = True


class ClusterSource:
    """Watches the cluster that a kubeconfig names, or the one that this pod runs in if `kubeconfig` is None."""

    def __init__(
        self,
        kubeconfig: Path | None,
        kinds: Collection[str] = tuple(PROJECTIONS),
        *,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
        ledger_timing: LedgerTiming | None = None,
        namespace: str = "",
    ) -> None:
        """`kinds` are those to watch, of PROJECTIONS; the others stay unknown, and no right to read them is needed.

        `namespace` is where the ledger is, '' for our own.
        """
        self.snapshot = Snapshot(unknown="is not watched")
        for kind in kinds:
            self.snapshot.forget(kind, "not read yet")
        self._kinds = tuple(kinds)
        self._timing = timing or Timing()
        self._clock = clock
        self._connection = Connection(kubeconfig, self._timing, clock)
        self._stopping = threading.Event()
        self._outage = Outage(self._stopping)
        self._events = EventWriter(self._connection, self._timing, self._stopping)
        self._watchers: dict[str, Watcher] = {}
        self._threads: list[threading.Thread] = []
        self._standings = {kind: _Standing(clock()) for kind in kinds}
        self._confirmation = Confirmation(self._connection, self.snapshot, self._version, self._timing)
        self._store = ClusterStore(self._connection, self._version, namespace or own_namespace())
        self.ledger = FloorLedger(self.snapshot, self._store, ledger_timing)

    async def start(self) -> None:
        """Loads the configuration, which may run an exec plugin, and begins to watch. Raises SourceError."""
        await asyncio.to_thread(self._connection.load)
        loop = asyncio.get_running_loop()

        def post(report: Report) -> None:
            try:
                loop.call_soon_threadsafe(self._apply, report)
            except RuntimeError:
                # The loop was closed without stop(): there is nobody left to tell.
                self._stopping.set()

        self._threads.append(threading.Thread(target=self._events.run, name="events", daemon=True))
        self._threads[0].start()
        for kind in self._kinds:
            self._standings[kind].current_at = self._clock()
            watcher = Watcher(
                ACCESS[kind], self._connection, post, self._stopping, self._outage, self._timing, self._clock
            )
            self._watchers[kind] = watcher
            thread = threading.Thread(target=watcher.run, name=f"watch-{ACCESS[kind].resource}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _version(self, kind: str) -> str:
        """The API version in use of a kind, '' if it is not watched or not known yet."""
        watcher = self._watchers.get(kind)
        return watcher.version if watcher is not None else ""

    async def stop(self) -> None:
        self._stopping.set()
        self._outage.end()
        self._connection.close()
        self._events.stop()
        self._confirmation.stop()
        self.ledger.stop()
        self._store.stop()
        deadline = time.monotonic() + _STOP_SECONDS
        await asyncio.to_thread(self._join, deadline)

    def _join(self, deadline: float) -> None:
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def states(self) -> Mapping[str, KindState]:
        now = self._clock()
        unknown = self.snapshot.unknown()
        return {
            kind: KindState(
                known=kind not in unknown,
                age_seconds=max(0.0, now - standing.current_at),
                detail=standing.problem or unknown.get(kind, ""),
                required=standing.required,
            )
            for kind, standing in self._standings.items()
        }

    async def settle(self) -> None:
        await asyncio.sleep(self._timing.settle)

    async def confirm(self, kinds: frozenset[str], namespace: str) -> bool:
        if self._stopping.is_set():
            return False
        return await self._confirmation.confirm(kinds, namespace)

    def tell(self, events: Sequence[Event]) -> None:
        self._events.tell(events)

    def _apply(self, report: Report) -> None:
        """Writes what a watcher found. Runs on the loop's thread, between two decisions."""
        kind = report.kind
        standing = self._standings[kind]
        problem = report.problem or report.unknown
        if problem != standing.problem:
            if problem:
                _log.warning("facts are not kept current", extra={"fields": {"kind": kind, "problem": problem}})
            else:
                _log.info("facts are kept current again", extra={"fields": {"kind": kind}})
        standing.problem = problem
        if report.unknown:
            # Without namespaces nothing can be judged, whatever the reason.
            standing.required = kind == "Namespace"
            self.snapshot.forget(kind, report.unknown)
            return
        if report.facts is not None:
            standing.required = True
            self.snapshot.replace(kind, report.facts)
            self._confirmation.watch_listed(kind)
        for namespace, name, fact in report.changes:
            if fact is None:
                self.snapshot.remove(kind, namespace, name)
            elif not self.snapshot.put(kind, fact):
                continue
            self._confirmation.watch_changed(kind, namespace or name)
        if report.current_at is not None:
            standing.current_at = report.current_at
