"""What the checks of the set-up look at, and what they answer with. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from webhook.engine.policy import Policy
from webhook.kube.objects import Object, Path
from webhook.live.audit.reading import Reading
from webhook.live.audit.report import Reference


@dataclass(frozen=True, slots=True)
class Defect:
    """One thing that is wrong with the set-up. It reads as a rule's violation does."""

    about: Reference
    path: Path
    must: str
    actual: str
    fix: str
    advice: bool = False
    """It is a warning, whatever its check is."""


class NotLookedAt(Exception):
    """A check could not be done. The message says why, on one line."""


@dataclass(frozen=True, slots=True)
class Registrations:
    """The webhook configurations of the cluster, the certificates that our server shows, and the Lease of Kueue.

    What could not be read is absent, and `unread` says why, by the kind's name.
    """

    mutating: tuple[Object, ...] = ()
    validating: tuple[Object, ...] = ()
    secret: Mapping[str, bytes] | None = None
    """The data of the Secret with the server's certificate, None if it was not read."""

    secret_name: str = ""
    """Namespace and name, '' where no webhook of ours is registered for a Service."""

    lease: Object | None = None
    """The one by which Kueue's controllers elect their leader, None where there is none in Kueue's namespaces."""

    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    reading: Reading
    registrations: Registrations
    policy: Policy
    now: datetime
    """In UTC."""

    limited: bool = False
    """Only some namespaces were asked about: nothing is said of the others."""

    @property
    def managed(self) -> list[str]:
        """The namespaces that are looked at, without those that are being deleted."""
        facts = ((name, self.reading.snapshot.namespace(name)) for name in self.reading.managed)
        return [name for name, fact in facts if fact is None or not fact.terminating]

    def need(self, *names: str) -> None:
        """Raises NotLookedAt if one of these kinds (deployments.apps) could not be listed."""
        reasons = list(self.unread(*names))
        if reasons:
            raise NotLookedAt("; ".join(reasons))

    def unread(self, *names: str) -> Iterator[str]:
        """Why these kinds could not be listed, of those of which it is so."""
        unread = {**self.reading.unread, **self.registrations.unread}
        for name in names:
            if name in unread:
                # Most reasons name the kind themselves.
                yield unread[name] if name in unread[name] else f"{name}: {unread[name]}"
