"""One replica's part in keeping a certificate: the Secret that all replicas share, and the caBundle of both webhook
configurations.

Every change is written on condition that nobody else has written since. The configurations are read before the Secret:
then a bundle is never written over a newer one, for whoever wrote what was read had a Secret at most as new.
"""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Generic, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from webhook.kube.objects import mapping, metadata, string
from webhook.server.authority import pem
from webhook.server.bundle import bundles, trusts, with_bundle
from webhook.server.certificates import CertificateError, CertificateState, ListeningContext
from webhook.server.keyring import Keyring, Leaf, read_keyring
from webhook.server.rotation import CLEARED, Lifetimes, Sight, Step, next_step
from webhook.sources.ledger import Conflict, StoreError
from webhook.sources.named import NamedObject, Object, generation_of

_ATTEMPTS = 5
_AGAIN = 0.2
"""Seconds until the next look, where others were quicker each time."""

_OWNER = "cert-manager.io/certificate-name"
"""The annotation by which cert-manager says that a Secret is its own: it would undo whatever we write."""

T = TypeVar("T")

log = logging.getLogger("floorkeeper.certificate")


@dataclass(frozen=True, slots=True)
class KeeperTiming:
    """In seconds, but for the lifetimes; tests and benchmarks shorten them."""

    lifetimes: Lifetimes = Lifetimes()
    poll: float = 10.0
    """Between two looks, if nothing is heard before."""

    retry: float = 1.0
    """Before the first look after a failure. It doubles with each, up to `poll`."""

    notice: float = 10.0
    """How long an API server may take to notice what was written to a webhook configuration; most take one or less."""

    settle: float = 3600.0
    """How long what the newest CA signed is seen in the Secret, without a failure, before the CA before it goes. Other
    replicas take `poll` and `notice` to follow."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A webhook configuration, as far as it could be read."""

    object: NamedObject
    value: Object | None = None
    """None if there is none, or if it could not be read."""

    known: bool = True

    @property
    def name(self) -> str:
        return str(self.object.place)

    def trusts(self, authority: x509.Certificate) -> bool:
        """Whether its webhooks do. Where it is missing there are none."""
        return self.known and (self.value is None or trusts(self.value, authority))


@dataclass(frozen=True, slots=True)
class _Since(Generic[T]):
    """What was seen last, and when first."""

    value: T
    time: float

    def then(self, value: T, now: float) -> _Since[T]:
        return self if value == self.value else _Since(value, now)


class Keeper:
    """Called in one thread; `state` may be read in others."""

    def __init__(
        self,
        secret: NamedObject,
        configurations: Sequence[NamedObject],
        names: Sequence[str],
        context: ListeningContext,
        timing: KeeperTiming,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now` is what certificates are compared with, `clock` what waits are measured by."""
        self._secret = secret
        self._configurations = configurations
        self._names = names
        self._context = context
        self._timing = timing
        self._now = now
        self._clock = clock
        self.mine: Leaf | None = None
        """What is served, if it came from the Secret."""

        self._generations: _Since[object] = _Since(None, clock())
        """Of the configurations; None if one could not be read."""

        self._issuer: _Since[x509.Certificate | None] = _Since(None, clock())
        """Of the Secret's certificate; None if it could not be read."""

        self._trusted: set[str] = set()
        """The configurations that have trusted what is served."""

        self._is_first = True
        self._is_ready = False
        self._failures = 0
        self._troubles: list[str] = []
        self.state = self._state([])

    def look(self) -> float:
        """Brings Secret, configurations and what is served a step further. Seconds until the next look."""
        for _ in range(_ATTEMPTS):
            self._troubles = []
            seen = [self._read(each) for each in self._configurations]
            try:
                seen = self._step(seen)
                self._is_first = False
            except Conflict:
                continue
            except StoreError as error:
                self._issuer = _Since(None, self._clock())
                self._troubles.append(str(error))
            self.state = self._state(seen)
            self._failures = self._failures + 1 if self._troubles else 0
            return self._wait()
        return _AGAIN

    def _wait(self) -> float:
        timing = self._timing
        if self._failures:
            return min(timing.retry * 2.0 ** min(self._failures - 1, 16), timing.poll)
        # Right after that, what waits for the API server to notice can go on.
        left = self._generations.time + timing.notice - self._clock()
        return min(timing.poll, left) if left > 0 else timing.poll

    def _read(self, configuration: NamedObject) -> _Seen:
        try:
            return _Seen(configuration, configuration.read())
        except StoreError as error:
            self._troubles.append(str(error))
            return _Seen(configuration, known=False)

    def _step(self, seen: list[_Seen]) -> list[_Seen]:
        """The configurations as they are after it. Raises Conflict, and StoreError if the Secret cannot be read."""
        secret = self._secret.read()
        if owner := string(mapping(metadata(secret or {}).get("annotations")).get(_OWNER)):
            raise StoreError(
                f"the {self._secret.place} is kept by cert-manager, for its Certificate {owner}; delete that and then "
                "the Secret, or serve with --tls-cert and --tls-key"
            )
        stored, wrong = read_keyring(mapping(mapping(secret).get("data")), self._names)
        sight = self._sight(seen, stored)
        step = next_step(stored, self._names, self._timing.lifetimes, sight)
        keyring = self._write(secret, stored, step, wrong)
        after = [self._publish(each, keyring) for each in seen]
        self._take(keyring, sight)
        if self.mine is not None and not self._is_ready:
            # If the trust is news, the API server may not know yet.
            waited = self._is_first or self._has_noticed()
            self._is_ready = waited and all(each.trusts(self.mine.issuer) for each in seen)
        return after

    def _sight(self, seen: Sequence[_Seen], stored: Keyring) -> Sight:
        clock = self._clock()
        generations = [generation_of(each.value) for each in seen] if all(each.known for each in seen) else None
        self._generations = self._generations.then(generations, clock)
        issuer = stored.leaf.issuer if stored.leaf is not None else None
        self._issuer = self._issuer.then(issuer, clock)
        noticed = self._has_noticed()
        return Sight(
            self._now(),
            lambda authority: noticed and all(each.trusts(authority) for each in seen),
            lambda authority: all(each.trusts(authority) for each in seen),
            self.mine,
            [authority for each in seen for bundle in bundles(each.value or {}) for authority in bundle],
            issuer is not None and clock - self._issuer.time >= self._timing.settle,
        )

    def _has_noticed(self) -> bool:
        """Whether the API server knows the configurations as they are."""
        generations = self._generations
        return generations.value is not None and self._clock() - generations.time >= self._timing.notice

    def _write(self, secret: Object | None, stored: Keyring, step: Step, wrong: Sequence[str]) -> Keyring:
        """What the Secret holds after it. Raises Conflict."""
        if step.keyring is stored and not wrong:
            return stored
        data = {name: b64encode(content).decode() for name, content in step.keyring.data().items()}
        try:
            if secret is None:
                self._secret.create({"type": "kubernetes.io/tls", "data": data})
            else:
                self._secret.update({**secret, "data": {**mapping(secret.get("data")), **data}})
        except StoreError as error:
            about = f" (the Secret: {', '.join(wrong)})" if wrong and secret is not None else ""
            self._troubles.append(f"{error}{about}")
            return stored
        for message in step.told or ([CLEARED] if wrong else []):
            self._log(message, step.keyring.leaf, secret=str(self._secret.place), wrong=list(wrong) if secret else [])
        return step.keyring

    def _publish(self, seen: _Seen, keyring: Keyring) -> _Seen:
        """Raises Conflict."""
        if seen.value is None or not keyring.authorities:
            return seen
        new = with_bundle(seen.value, b"".join(pem(each.certificate) for each in keyring.authorities))
        if new != seen.value:
            lost = self.mine is not None and seen.name in self._trusted and not seen.trusts(self.mine.issuer)
            try:
                new = seen.object.update(new)
            except StoreError as error:
                self._troubles.append(str(error))
                return seen
            self._log("caBundle restored" if lost else "caBundle published", keyring.leaf, configuration=seen.name)
        return replace(seen, value=new)

    def _take(self, keyring: Keyring, sight: Sight) -> None:
        """Serves what the Secret holds, unless what is served is trusted and that is not yet."""
        leaf, mine = keyring.leaf, self.mine
        if leaf is None or (mine is not None and leaf.pair == mine.pair):
            return
        waits = (
            mine is not None
            and mine.issuer != leaf.issuer
            and sight.now < mine.certificate.not_valid_after_utc - self._timing.lifetimes.last
            and any(mine.issuer == each.certificate for each in keyring.authorities)
            and not sight.trusts(leaf.issuer)
        )
        if waits:
            return
        try:
            self._context.take(leaf.pair)
        except CertificateError as error:
            self._troubles.append(f"{self._secret.place}: {error}")
            return
        self.mine = leaf
        self._log("certificate reloaded", leaf)

    def _state(self, seen: Sequence[_Seen]) -> CertificateState:
        issuer = self.mine.issuer if self.mine is not None else None
        absent = [each.name for each in seen if each.known and each.value is None]
        distrust = [each.name for each in seen if issuer is None or not each.trusts(issuer)]
        error, pending = "; ".join(self._troubles), ""
        if issuer is None:
            pending = error or f"the {self._secret.place} has not been read yet"
        elif not self._is_ready:
            pending = f"not trusted yet by the {' and the '.join(distrust) or 'API server'}"
        self._trusted |= {each.name for each in seen if each.name not in distrust}
        return CertificateState(
            str(self._secret.place),
            self._context.expires,
            self._context.fingerprint,
            error,
            f"there is no {' and no '.join(absent)} yet; its caBundle is written once there is" if absent else "",
            pending,
            issuer.not_valid_after_utc if issuer is not None else None,
            issuer is not None and bool(seen) and not absent and not distrust,
            self._timing.lifetimes.last,
            tuple(each.value for each in seen if each.value is not None),
        )

    def _log(self, message: str, leaf: Leaf | None, **more: object) -> None:
        fields = dict(more)
        if leaf is not None:
            fields |= {
                "fingerprint": leaf.certificate.fingerprint(hashes.SHA256()).hex(),
                "expires": leaf.certificate.not_valid_after_utc.isoformat(),
                "authority": leaf.issuer.fingerprint(hashes.SHA256()).hex(),
                "authorityExpires": leaf.issuer.not_valid_after_utc.isoformat(),
            }
        log.info(message, extra={"fields": fields})
