"""What a door expects of a source of facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from webhook.engine.verdict import Verdict
from webhook.kube.reservation import Reservation
from webhook.kube.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class KindState:
    """How well one kind is known. `age_seconds` is the time since the source last heard that its facts are current."""

    known: bool
    age_seconds: float
    detail: str = ""
    """Why it is not known, or what is wrong with the source now; '' if all is well."""

    required: bool = True
    """Whether readiness waits for it. It does not for a kind that the cluster does not serve or lets us not read."""


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write that raises floors, or gives a flavor other nodes, as the API server asks about it."""

    reservation: Reservation
    """What it has to be promised; `until` is '' here."""

    version: str
    """resourceVersion of the object that it starts from, '' at CREATE."""

    created: str
    """uid of the object that a CREATE makes, '' at UPDATE."""

    dry_run: bool


@dataclass(frozen=True, slots=True)
class Event:
    """What is to be said of a ClusterQueue or Cohort, once."""

    kind: str
    name: str
    uid: str
    warning: bool
    """Else it is normal."""

    reason: str
    """Why, as one word in CamelCase."""

    text: str
    """One line that does not say when."""

    since: float
    """When it began, in seconds since the epoch."""

    found: bool
    """It was so when this process began to look, and may have been said before."""


class Ledger(Protocol):
    """What is promised to writes that are not stored yet. Implemented by webhook.sources.ledger."""

    def start(self) -> None:
        """Begins to look whether it can be used, and returns at once."""

    @property
    def error(self) -> str:
        """Why the last raise could be neither allowed nor denied, '' if it was."""

    async def hold(self, write: PendingWrite, judge: Callable[[Snapshot], Verdict]) -> Verdict:
        """The verdict on a write, judged by what is stored and what is promised at this moment.

        If it is allowed, and no dry run, it is promised to the write: from then on every replica counts it. `judge` may
        be called more than once. Takes 7 s at the most. Raises LedgerError.
        """


class LedgerError(Exception):
    """Nothing could be promised, so the write is neither allowed nor denied. The message says why, and what to do."""


class Source(Protocol):
    """Implemented by the sources, called by `serve`.

    All methods run on the event loop's thread, and so does every write to the snapshot: a decision, which never awaits,
    sees one state from start to end.
    """

    snapshot: Snapshot

    @property
    def ledger(self) -> Ledger | None:
        """None where nobody else writes: then the snapshot alone decides."""

    async def start(self) -> None:
        """Begins to read, and returns before everything is read. Raises SourceError if it can never work."""

    async def stop(self) -> None:
        """Ends whatever start began, within a second."""

    def states(self) -> Mapping[str, KindState]:
        """One state for each kind that it reads, of `webhook.kube.facts.PROJECTIONS`."""

    async def settle(self) -> None:
        """Waits until what was written a moment ago has most likely come by a watch; not at all without watches."""

    async def confirm(self, kinds: frozenset[str], namespace: str) -> bool:
        """Reads kinds of one namespace again, past the watch, and says whether a fact changed. Takes 2 s at the most.

        Only Namespace, LocalQueue and ClusterQueue are worth it; others are left as they are. A failure changes nothing
        and raises nothing.
        """

    def tell(self, events: Sequence[Event]) -> None:
        """Says this where people look at such objects, if there is such a place. Returns at once and raises nothing."""


class SourceError(Exception):
    """The source cannot be used at all: the message says what is wrong, where, and what to do."""
