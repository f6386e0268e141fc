"""The ledger: floors that are promised to writes which are not stored yet, for all replicas in one document.

Two raises at once would each fit what is stored, and not both. So every raise is judged by what is stored and what is
promised, and is itself promised before it is allowed:

1. read the ledger, 2. read the queues, 3. leave out promises that are over, 4. judge, 5. write the promise into the
ledger, on condition that nobody has written it since 1; else again from 1.

By 5, of two allowed raises one read the ledger after the other one's promise was in it. Either it found the promise
there, and counted it; or the promise was dropped, then or before, by somebody who saw in the queues that the write was
stored or can never be. That is why the queues are read after the ledger, and anew: whoever dropped the promise earlier
looked at the queues before our 1, so at 2 we see what they saw. Were the queues read first, a write could be stored and
its promise dropped between our two looks, and we would count it nowhere.

A write that raises nothing needs none of this: the API server stores it only on top of the version that it lowers.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from webhook.capacity.pending import MOST_FLAVORS
from webhook.engine.verdict import Verdict
from webhook.kube.facts import Fact
from webhook.kube.reservation import Reservation
from webhook.kube.snapshot import Snapshot
from webhook.sources.promise import Live, Promise, Stored, document, promise, promises_in
from webhook.sources.source import LedgerError, PendingWrite

_log = logging.getLogger("floorkeeper.ledger")

LONGEST = 512 * 1024
"""Bytes of the document. An object in etcd may have 1.5 MiB by default, a ConfigMap 1 MiB."""

_TOGETHER = (("ClusterQueue", "Cohort", "ResourceFlavor"), ("Queue",))
"""The kinds that are judged together: Kueue's floors and the nodes that they are on, and Volcano's guarantees."""

_KINDS = frozenset(kind for kinds in _TOGETHER for kind in kinds)


@dataclass(frozen=True, slots=True)
class LedgerTiming:
    """All in seconds; tests shorten them."""

    expiry: float = 90.0
    """How long a promise holds. The API server gives up on a request after 60 s (--request-timeout); the rest is for
    clocks that differ."""

    deadline: float = 7.0
    """The longest that one decision takes; the API server waits 10 s for us."""

    retry: float = 0.02
    """The longest first wait after a conflict or a failure. It doubles with each, up to `retry_most`, and is cut at
    random so that replicas do not meet again."""

    retry_most: float = 0.5
    tidy: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0, 60.0)
    """The waits between looks whether the writes are stored, so that their promises can go. Longer than `expiry` in
    all, so that the last look finds nothing that still holds."""


class Conflict(Exception):
    """Somebody else has written the ledger since it was read."""


class StoreError(Exception):
    """What the store could not do, and why. `lasting`: to try again will not help."""

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


class Store(Protocol):
    """Where the ledger is, and the queues. Implemented by webhook.sources.store, and in memory by tests."""

    name: str
    """For people: what to look at, or to delete."""

    async def read(self) -> tuple[str, object]:
        """The ledger's text, '' if there is none yet, and its version for `write`. Raises StoreError."""

    async def write(self, text: str, version: object) -> None:
        """Replaces the ledger if it still has this version. Raises Conflict, and StoreError."""

    async def read_all(self, kind: str) -> dict[str, Stored]:
        """Every object of a kind, by name, as it is stored at a moment within this call. Raises StoreError."""


class FloorLedger:
    """Implements Ledger. All methods run on the loop's thread."""

    kinds = frozenset({"ClusterQueue", "Cohort"})
    """Of which a fact tells its uid."""

    def __init__(
        self,
        snapshot: Snapshot,
        store: Store,
        timing: LedgerTiming | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` is the wall clock: its times are compared with those that other replicas wrote."""
        self._snapshot = snapshot
        self._store = store
        self._timing = timing or LedgerTiming()
        self._clock = clock
        # The raises of this process go one after the other: at once they would only fail each other's step 5.
        self._turn = asyncio.Lock()
        self._ours: set[str] = set()
        """Request uids whose promises may still be in the ledger."""

        self._created: dict[str, str] = {}
        """Request uids of our CREATEs, by the uid that the object will have."""

        self._done: set[str] = set()
        """Request uids of CREATEs whose object the watch has brought: it is stored, even if it is gone again."""

        self.error = ""
        """Why the last raise could not be judged, or why none could be now, '' if all is well."""

        self._tidying: asyncio.Task[None] | None = None
        snapshot.observe(self)

    def start(self) -> None:
        """Looks once whether the ledger can be read, so that it is told before somebody raises a floor."""
        self._tidying = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        try:
            self._parsed((await self._store.read())[0])
        except StoreError as error:
            self.error = f"{self._store.name}: {error}"
            _log.error("floors cannot be reserved, so raises are refused", extra={"fields": {"problem": self.error}})

    def changed(self, kind: str, before: Fact | None, after: Fact | None) -> None:  # noqa: ARG002
        """As webhook.kube.snapshot.Observer."""
        uid = self._created.pop(getattr(after, "uid", ""), "")
        if uid:
            self._done.add(uid)

    async def hold(self, write: PendingWrite, judge: Callable[[Snapshot], Verdict]) -> Verdict:
        kinds = next(kinds for kinds in _TOGETHER if write.reservation.kind in kinds)
        if not self._snapshot.unknown().keys().isdisjoint(kinds):
            # No rule can judge it here, and each says so.
            return judge(self._snapshot)
        problem = StoreError("other raises are under way")
        try:
            async with asyncio.timeout(self._timing.deadline), self._turn:
                problem = StoreError("it does not answer")
                for attempt in range(64):
                    try:
                        verdict = await self._attempt(write, kinds, judge)
                        self.error = ""
                        return verdict
                    except Conflict:
                        problem = StoreError("other replicas are writing it all the time")
                    except StoreError as error:
                        problem = error
                        if error.lasting:
                            break
                    self._tell("judging again", write.reservation, problem=str(problem))
                    await asyncio.sleep(self._delay(attempt))
        except TimeoutError:
            pass
        self.error = f"{self._store.name}: {problem}"
        again = "" if problem.lasting else "; try again"
        raise LedgerError(f"the floors could not be reserved in {self._store.name}: {problem}{again}")

    def stop(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()

    def _delay(self, attempt: int) -> float:
        longest = min(self._timing.retry * 2.0**attempt, self._timing.retry_most)
        return random.uniform(0.0, longest)  # noqa: S311 - spreads load, keeps no secret

    def _tell(self, message: str, about: Reservation, **more: str) -> None:
        _log.info(message, extra={"fields": {"kind": about.kind, "name": about.name, "uid": about.uid, **more}})

    async def _attempt(
        self, write: PendingWrite, kinds: Collection[str], judge: Callable[[Snapshot], Verdict]
    ) -> Verdict:
        text, version = await self._store.read()
        promises = self._standing(text)
        live = await self._read_live(kinds)
        now = self._clock()
        held = [each for each in promises if not each.over(now, live)]
        facts = {kind: [stored.fact for stored in objects.values()] for kind, objects in live.items()}
        # Volcano's promises are nothing to Kueue's floors, nor the other way round.
        reserved = [each.reservation for each in held if each.reservation.kind in live]
        self._refuse_a_crowd(held, write)
        verdict = judge(self._snapshot.overlaid(facts, reserved))
        if not verdict.allowed or write.dry_run:
            return verdict
        own = promise(write, now + self._timing.expiry)
        await self._store.write(self._written([*(each for each in held if not own.replaces(each)), own], held), version)
        self._ours.add(write.reservation.uid)
        if write.created:
            self._created[write.created] = write.reservation.uid
        self._tidy_soon()
        self._tell("reserved", own.reservation, until=own.reservation.until)
        return verdict

    def _refuse_a_crowd(self, held: list[Promise], write: PendingWrite) -> None:
        """Each flavor that may or may not be written doubles what a verdict has to look at."""
        own = write.reservation
        flavors = [
            each
            for each in held
            if each.reservation.labels is not None
            and (each.reservation.kind, each.reservation.name) != (own.kind, own.name)
        ]
        if len(flavors) > MOST_FLAVORS and own.kind != "Queue":
            until = min(flavors, key=lambda each: each.expires).reservation.until
            what = f"{len(flavors)} ResourceFlavors are written by others just now; try again after {until}"
            raise StoreError(what, lasting=True)

    def _standing(self, text: str) -> list[Promise]:
        """The promises of which nothing shows yet that they are over. To be asked before the queues are read: what is
        stored by then is among what is read."""
        return [each for each in self._parsed(text) if each.reservation.uid not in self._done]

    def _parsed(self, text: str) -> list[Promise]:
        try:
            return promises_in(text)
        except ValueError as error:
            what = f"its content is not Floorkeeper's ({str(error)[:200]}); delete it, and it is made anew"
            raise StoreError(what, lasting=True) from None

    def _written(self, promises: list[Promise], held: list[Promise]) -> str:
        text = document(promises)
        if len(text.encode()) > LONGEST:
            first = datetime.fromtimestamp(min((each.expires for each in held), default=self._clock()), UTC)
            what = f"it is full, with {len(held)} reservations of writes that are not stored yet"
            raise StoreError(f"{what}; try again after {first:%H:%M:%S} UTC", lasting=True)
        return text

    async def _read_live(self, kinds: Collection[str]) -> Live:
        found = await asyncio.gather(*map(self._store.read_all, kinds))
        return dict(zip(kinds, found, strict=True))

    # In the background

    def _tidy_soon(self) -> None:
        self.stop()
        self._tidying = asyncio.create_task(self._tidy())

    async def _tidy(self) -> None:
        """Drops promises once they are over, so that the ledger is empty when nobody writes. No decision waits."""
        for wait in self._timing.tidy:
            await asyncio.sleep(wait)
            try:
                await self._drop_what_is_over()
            except (Conflict, StoreError) as error:
                _log.debug("the ledger could not be tidied: %s", error)
            if not self._ours:
                return

    async def _drop_what_is_over(self) -> None:
        text, version = await self._store.read()
        promises = self._standing(text)
        live = await self._read_live(sorted(_KINDS & {each.reservation.kind for each in promises}))
        now = self._clock()
        held = [each for each in promises if not each.over(now, live)]
        if len(held) < len(self._parsed(text)):
            await self._store.write(document(held), version)
        left = {each.reservation.uid for each in held}
        self._ours &= left
        self._done &= left
        self._created = {uid: request for uid, request in self._created.items() if request in left}
