"""Whether the API server, which goes by a caBundle, trusts the certificate that a server shows. Pure."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID

_Extension = TypeVar("_Extension", bound=x509.ExtensionType)

CERTIFICATE = "tls.crt"
"""The Secret's key with the server's certificate and, after it, those between it and its CA."""

_FOR_SERVERS = frozenset({ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})


def of_bundle(bundle: object, secret: Mapping[str, bytes] | None, name: str, now: datetime) -> str:
    """What is wrong with a caBundle (base64 of PEM), '' if nothing is. `secret` is the data of the server's Secret and
    `name` what it is called; without it nobody knows whether the bundle is the right one."""
    if not isinstance(bundle, str) or not bundle:
        return "empty"
    try:
        trusted = _read(b64decode(bundle, validate=True))
    except (binascii.Error, ValueError, TypeError, UnsupportedAlgorithm):
        return "unreadable: not base64 of certificates in PEM"
    if not trusted:
        return "empty of certificates"
    valid = [each for each in trusted if _is_valid(each, now)]
    if not valid:
        return _dated(trusted, now)
    chain = _chain(secret) if secret is not None else []
    # What is wrong with the certificate itself is not said of each bundle.
    if not chain or _vouches(valid, chain, now):
        return ""
    return f"foreign: it did not sign {CERTIFICATE} in Secret {name}"


def of_certificate(secret: Mapping[str, bytes], hosts: Sequence[str], now: datetime) -> list[str]:
    """What is wrong with the server's certificate, whoever signed it. `hosts` are the names that it is called by."""
    chain = _chain(secret)
    if not chain:
        return ["unreadable: no certificate in PEM"]
    shown = chain[0]
    found = [] if _is_valid(shown, now) else [_dated([shown], now)]
    names = _names(shown)
    found += [
        f"for {', '.join(names) or 'no name'}, and not for {host}"
        for host in hosts
        if not any(_covers(name, host) for name in names)
    ]
    usage = _extension(shown, x509.ExtendedKeyUsage)
    if usage is not None and _FOR_SERVERS.isdisjoint(usage):
        found.append("not for servers: its extended key usage lacks serverAuth")
    return found


def _dated(certificates: Sequence[x509.Certificate], now: datetime) -> str:
    last = max(each.not_valid_after_utc for each in certificates)
    if last < now:
        return f"expired, on {last:%Y-%m-%d}"
    return f"not valid yet, but from {min(each.not_valid_before_utc for each in certificates):%Y-%m-%d} on"


def _vouches(trusted: Sequence[x509.Certificate], chain: Sequence[x509.Certificate], now: datetime) -> bool:
    """Whether the first of the chain is trusted, or was signed, over others of the chain maybe, by what is."""
    shown, *between = chain
    reached, ahead = {shown}, [shown]
    while ahead:
        each = ahead.pop()
        if each in trusted or any(_has_signed(authority, each) for authority in trusted):
            return True
        above = [other for other in between if other not in reached and _is_valid(other, now)]
        above = [other for other in above if _has_signed(other, each)]
        reached.update(above)
        ahead += above
    return False


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        constraints = _extension(authority, x509.BasicConstraints)
        if constraints is None or not constraints.ca:
            return False
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def _names(certificate: x509.Certificate) -> list[str]:
    found = _extension(certificate, x509.SubjectAlternativeName)
    return [] if found is None else found.get_values_for_type(x509.DNSName)


def _covers(name: str, host: str) -> bool:
    """A star stands for the first part of a name."""
    first, _, rest = host.lower().partition(".")
    return name.lower() in (f"{first}.{rest}", f"*.{rest}")


def _extension(certificate: x509.Certificate, kind: type[_Extension]) -> _Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except (x509.ExtensionNotFound, ValueError):
        return None


def _chain(secret: Mapping[str, bytes]) -> list[x509.Certificate]:
    """That of the server's certificate, which comes first; none where it cannot be read."""
    try:
        return _read(secret.get(CERTIFICATE, b""))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return []


def _read(content: bytes) -> list[x509.Certificate]:
    """Raises ValueError where there is no certificate, or one that cannot be read."""
    return x509.load_pem_x509_certificates(content)
