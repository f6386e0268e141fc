"""What the Secret of self-managed certificates holds: CAs, and a certificate that one of them signed."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from webhook.server.authority import Authority, Pair, key_pem, pem, signed_pair
from webhook.server.verification import has_known_key, refusal

CERTIFICATE, KEY, AUTHORITIES, AUTHORITY_KEYS = "tls.crt", "tls.key", "ca.crt", "ca.key"
"""Keys of the Secret. cert-manager writes the first three as well."""

_UNKNOWN_KEY = "a key that the API server cannot use; make it on P-256, P-384 or P-521, or RSA of 2048 bits or more"

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.+?-----END \1-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a server shows, and who signed it."""

    pair: Pair
    certificate: x509.Certificate
    issuer: x509.Certificate


@dataclass(frozen=True, slots=True)
class Keyring:
    authorities: tuple[Authority, ...] = ()
    """All that are trusted, the newest first."""

    leaf: Leaf | None = None

    def data(self) -> dict[str, bytes]:
        """As the Secret has it."""
        pair = self.leaf.pair if self.leaf is not None else Pair(b"", b"")
        return {
            CERTIFICATE: pair.certificate,
            KEY: pair.key,
            AUTHORITIES: b"".join(pem(each.certificate) for each in self.authorities),
            AUTHORITY_KEYS: b"".join(key_pem(each.key) for each in self.authorities if each.key is not None),
        }


def read_keyring(data: Mapping[str, object], names: Sequence[str]) -> tuple[Keyring, list[str]]:
    """From the data of a Secret, as JSON has it, and what is wrong with it; never with a part of a key.

    `names` are those that clients know the server by. What they would not take is left out.
    """
    contents = {name: _content(data, name) for name in (CERTIFICATE, KEY, AUTHORITIES, AUTHORITY_KEYS)}
    keyring, wrong = _read(tuple(contents.items()), tuple(names))
    return keyring, list(wrong)


# A Secret is read every few seconds and seldom changes; a handshake takes 10 ms.
@lru_cache(maxsize=4)
def _read(contents: tuple[tuple[str, bytes], ...], names: tuple[str, ...]) -> tuple[Keyring, tuple[str, ...]]:
    data, wrong = dict(contents), list[str]()
    keys, unread = _keys(data[AUTHORITY_KEYS])
    if unread:
        wrong.append(f"{AUTHORITY_KEYS} holds a key that cannot be read")
    found = [_with_key(each, keys) for each in _certificates(data[AUTHORITIES], AUTHORITIES, wrong)]
    if found and all(each.key is None for each in found):
        wrong.append(f"{AUTHORITY_KEYS} has no key of a CA in {AUTHORITIES}")
    authorities = tuple(_usable(each, names, wrong) for each in found if _is_known(each, wrong))
    leaf = _read_leaf(data[CERTIFICATE], data[KEY], authorities, names, wrong)
    return Keyring(authorities, leaf), tuple(wrong)


def read_bundle(text: object) -> tuple[x509.Certificate, ...]:
    """The certificates of a caBundle, none if it cannot be read."""
    return tuple(_certificates(_content({"": text}, ""), "", []))


def _is_known(authority: Authority, wrong: list[str]) -> bool:
    known = has_known_key(authority.certificate)
    if not known:
        wrong.append(f"{AUTHORITIES} holds a CA with {_UNKNOWN_KEY}")
    return known


def _usable(authority: Authority, names: Sequence[str], wrong: list[str]) -> Authority:
    """Without its key, if clients would not take what it signs."""
    if authority.key is None:
        return authority
    start, end = authority.certificate.not_valid_before_utc, authority.certificate.not_valid_after_utc
    try:
        pair = signed_pair(authority, names, start, end - start)
        why = refusal(pair, authority.certificate, names[0])
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        why = str(error)
    if not why:
        return authority
    wrong.append(f"{AUTHORITIES} holds a CA that cannot sign for {names[0]}: {why}")
    return Authority(authority.certificate)


def _read_leaf(
    certificate: bytes, content: bytes, authorities: Sequence[Authority], names: Sequence[str], wrong: list[str]
) -> Leaf | None:
    chain = _certificates(certificate, CERTIFICATE, wrong)
    keys, unread = _keys(content)
    if not keys:
        wrong.append(f"{KEY} {'cannot be read' if unread else 'holds no key'}")
    if not chain or not keys:
        return None
    if keys[0].public_key() != chain[0].public_key():
        wrong.append(f"{KEY} does not fit {CERTIFICATE}")
        return None
    issuer = next((each.certificate for each in authorities if each.has_signed(chain[0])), None)
    if issuer is None:
        wrong.append(f"{CERTIFICATE} is signed by no CA in {AUTHORITIES}")
        return None
    pair = Pair(certificate, content)
    why = refusal(pair, issuer, names[0]) if has_known_key(chain[0]) else f"it has {_UNKNOWN_KEY}"
    if why:
        wrong.append(f"{CERTIFICATE} cannot be served for {names[0]}: {why}")
        return None
    return Leaf(pair, chain[0], issuer)


def _certificates(content: bytes, name: str, wrong: list[str]) -> list[x509.Certificate]:
    try:
        # The keys are looked at as well: some cannot be read until then.
        return [each for each in x509.load_pem_x509_certificates(content) if each.public_key()]
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if b"CERTIFICATE-----" in content:
            wrong.append(f"{name} holds a certificate that cannot be read")
        else:
            wrong.append(f"{name} holds no certificate")
        return []


def _with_key(certificate: x509.Certificate, keys: Sequence[_Key]) -> Authority:
    """The CA, with its key if there is one and it may sign."""
    try:
        is_ca = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        is_ca = False
    key = next((each for each in keys if is_ca and each.public_key() == certificate.public_key()), None)
    return Authority(certificate, key)


def _keys(content: bytes) -> tuple[list[_Key], bool]:
    """The private keys, and whether there are some that cannot be read or used."""
    found: list[_Key] = []
    blocks = [match.group() for match in _PRIVATE_KEY.finditer(content)]
    for block in blocks:
        try:
            key = load_pem_private_key(block, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
        if isinstance(key, _Key):
            found.append(key)
    return found, len(found) < max(len(blocks), content.count(b"-----BEGIN"))


def _content(data: Mapping[str, object], name: str) -> bytes:
    text = data.get(name)
    try:
        return b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        return b""
