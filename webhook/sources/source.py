"""What a door expects of a source of facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

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


class Source(Protocol):
    """Implemented by the sources, called by `serve`.

    All methods run on the event loop's thread, and so does every write to the snapshot: a decision, which never awaits,
    sees one state from start to end.
    """

    snapshot: Snapshot

    async def start(self) -> None:
        """Begins to read, and returns before everything is read. Raises SourceError if it can never work."""

    async def stop(self) -> None:
        """Ends whatever start began, within a second."""

    def states(self) -> Mapping[str, KindState]:
        """One state for each kind that it reads, of `webhook.kube.facts.PROJECTIONS`."""

    async def confirm(self, kinds: frozenset[str], namespace: str) -> bool:
        """Reads kinds of one namespace again, past the watch, and says whether a fact changed. Takes 2 s at the most.

        Only Namespace, LocalQueue and ClusterQueue are worth it; others are left as they are. A failure changes nothing
        and raises nothing.
        """


class SourceError(Exception):
    """The source cannot be used at all: the message says what is wrong, where, and what to do."""
