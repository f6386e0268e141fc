"""What the Secret of self-managed certificates should hold next. Nothing is read or written here.

A certificate is renewed at two thirds of its life. A CA is too, in steps that leave no moment in which a replica may
serve what the API server does not trust: the new CA stands beside the old one; once every webhook has trusted both for
a while, the new one signs; once every replica has long had what it signed, the old one goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from webhook.server.authority import BACKDATE, Authority, new_authority, signed_pair
from webhook.server.keyring import Keyring, Leaf
from webhook.server.verification import has_known_key

_MOST_AUTHORITIES = 16


@dataclass(frozen=True, slots=True)
class Lifetimes:
    certificate: timedelta = timedelta(days=90)
    authority: timedelta = timedelta(days=730)
    backdate: timedelta = BACKDATE

    @property
    def last(self) -> timedelta:
        """Time before a certificate's end in which any other that is trusted is better than to wait."""
        return min(timedelta(hours=1), self.certificate / 10)


@dataclass(frozen=True, slots=True)
class Sight:
    """What one replica sees beside the Secret."""

    now: datetime
    trusts: Callable[[x509.Certificate], bool]
    """Whether every webhook has trusted this CA for long enough that the API server knows."""

    trusts_now: Callable[[x509.Certificate], bool]
    """Whether every webhook trusts it, be it news or not."""

    mine: Leaf | None = None
    """What it serves, if that came from the Secret."""

    trusted: Sequence[x509.Certificate] = ()
    """What any webhook trusts now."""

    settled: bool = False
    """Whether every replica has long had what the CA of the stored certificate signed."""


@dataclass(frozen=True, slots=True)
class Step:
    """The next keyring, and how the log tells what is new in it, if anything is."""

    keyring: Keyring
    told: tuple[str, ...] = ()


MADE = "certificate made"
RENEWED = "certificate renewed"
AUTHORITY_MADE = "certificate authority made"
ROTATION_BEGUN = "certificate authority rotation: a new one is to be trusted beside the old one"
ROTATION_SIGNED = "certificate authority rotation: the new one has signed the certificate"
ROTATION_ENDED = "certificate authority rotation: the old one is trusted no more"
CLEARED = "what could not be used is gone from the Secret"


def next_step(stored: Keyring, names: Sequence[str], lifetimes: Lifetimes, sight: Sight) -> Step:
    """What the Secret should hold next; `stored` itself if that is right as it is."""
    authorities, told = _authorities(stored.authorities, lifetimes, sight)
    signers = [each for each in authorities if each.key is not None]
    newest = signers[0]
    leaf, said = _leaf(stored.leaf, authorities, names, lifetimes, sight)
    told += said
    if leaf.issuer == newest.certificate:
        if sight.settled and len(authorities) > 1 and leaf == stored.leaf:
            authorities = [newest]
            told.append(ROTATION_ENDED)
        # What signs no more has no use for its key.
        authorities = [each if each is newest else Authority(each.certificate) for each in authorities]
    keyring = Keyring(tuple(authorities), leaf)
    return Step(stored) if keyring == stored else Step(keyring, tuple(told))


def _authorities(stored: Sequence[Authority], lifetimes: Lifetimes, sight: Sight) -> tuple[list[Authority], list[str]]:
    """Those that are trusted, at least one of them with a key, and what to tell."""
    left = [each for each in stored if _holds(each.certificate, sight.now)]
    told = [ROTATION_ENDED] if 0 < len(left) < len(stored) else []
    signer = next((each for each in left if each.key is not None), None)
    if signer is not None and not _is_due(signer.certificate, lifetimes.authority, sight.now):
        return left, told
    mine = [] if sight.mine is None else [sight.mine.issuer]
    # Where the Secret names none, other replicas may still serve what an authority signed that is known from elsewhere.
    known = [*mine, *(() if left else sight.trusted)]
    for certificate in dict.fromkeys(known):
        usable = _holds(certificate, sight.now) and has_known_key(certificate)
        if usable and all(certificate != each.certificate for each in left):
            left.append(Authority(certificate))
    told.append(ROTATION_BEGUN if left else AUTHORITY_MADE)
    new = new_authority(sight.now, lifetimes.authority, lifetimes.backdate)
    return [new, *left[: _MOST_AUTHORITIES - 1]], told


def _leaf(
    stored: Leaf | None, authorities: Sequence[Authority], names: Sequence[str], lifetimes: Lifetimes, sight: Sight
) -> tuple[Leaf, list[str]]:
    """What to serve, and what to tell."""
    trusted = {each.certificate for each in authorities}
    signers = [each for each in authorities if each.key is not None]
    newest = signers[0]

    def works(leaf: Leaf | None) -> bool:
        return leaf is not None and _holds(leaf.certificate, sight.now) and leaf.issuer in trusted

    leaf = stored if works(stored) and stored is not None and _is_for(stored.certificate, names) else None
    ends = leaf is not None and leaf.certificate.not_valid_after_utc - sight.now < lifetimes.last
    trusts = sight.trusts_now if ends else sight.trusts
    signer = next((each for each in signers if trusts(each.certificate) or _signed(each, leaf)), None)
    if leaf is None:
        if signer is None and works(sight.mine) and sight.mine is not None:
            # Nobody would trust a new one yet.
            return sight.mine, []
        return new_leaf(signer or newest, names, lifetimes, sight.now), [MADE if stored is None else RENEWED]
    if signer is newest and leaf.issuer != newest.certificate:
        return new_leaf(newest, names, lifetimes, sight.now), [ROTATION_SIGNED]
    if signer is not None and _is_due(leaf.certificate, lifetimes.certificate, sight.now):
        new = new_leaf(signer, names, lifetimes, sight.now)
        if new.certificate.not_valid_after_utc > leaf.certificate.not_valid_after_utc:
            return new, [RENEWED]
    return leaf, []


def new_leaf(authority: Authority, names: Sequence[str], lifetimes: Lifetimes, now: datetime) -> Leaf:
    pair = signed_pair(authority, names, now, lifetimes.certificate, lifetimes.backdate)
    return Leaf(pair, x509.load_pem_x509_certificate(pair.certificate), authority.certificate)


def _holds(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _is_due(certificate: x509.Certificate, lifetime: timedelta, now: datetime) -> bool:
    """Whether two thirds of its life are over."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= end - min(lifetime, end - start) / 3


def _is_for(certificate: x509.Certificate, names: Sequence[str]) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return set(names) <= set(found.get_values_for_type(x509.DNSName))


def _signed(authority: Authority, leaf: Leaf | None) -> bool:
    return leaf is not None and leaf.issuer == authority.certificate
