"""Making certificates: one that signs itself, and a CA with what it signs. Nothing is read or written here."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVICE = "floorkeeper.floorkeeper-system.svc"
"""The name that the API server checks for, by the Service of the shipped manifests."""

BACKDATE = timedelta(minutes=5)
"""Clocks of API server and node differ a little."""

_LIFETIME = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its chain, and its key, both in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA. Without its key it is trusted, and signs nothing more."""

    certificate: x509.Certificate
    key: CertificateIssuerPrivateKeyTypes | None = field(default=None, repr=False)

    def has_signed(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names of a Service within its cluster, the one that the API server checks for first."""
    name = f"{service}.{namespace}"
    return (f"{name}.svc", f"{name}.svc.cluster.local", name)


def new_authority(now: datetime, lifetime: timedelta, backdate: timedelta = BACKDATE) -> Authority:
    """A CA of its own P-256 key, which may sign no other CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Two of them are trusted at the same time, so each has its own name.
    name = _name(f"floorkeeper-ca-{serial:x}"[:64])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(name, name, key.public_key(), serial, now - backdate, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate, key)


def signed_pair(
    authority: Authority, names: Iterable[str], now: datetime, lifetime: timedelta, backdate: timedelta = BACKDATE
) -> Pair:
    """A server's certificate, which ends with its CA's at the latest, and a P-256 key."""
    if authority.key is None:
        raise ValueError("the CA has no key to sign with")
    issuer = authority.certificate
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + lifetime, issuer.not_valid_after_utc)
    start = max(now - backdate, issuer.not_valid_before_utc)
    builder = _builder(_name("floorkeeper"), issuer.subject, key.public_key(), x509.random_serial_number(), start, end)
    certificate = _for_server(builder, names, key.public_key(), _issuer_identifier(issuer)).sign(
        authority.key, hashes.SHA256()
    )
    return Pair(pem(certificate), key_pem(key))


def self_signed_pair(host: str, now: datetime | None = None, lifetime: timedelta = _LIFETIME) -> Pair:
    """A certificate for localhost, the Service and `host`, signed by its own P-256 key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, start = _name("floorkeeper"), now or datetime.now(UTC)
    hosts = dict.fromkeys(("localhost", "127.0.0.1", "::1", SERVICE, host))
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    serial = x509.random_serial_number()
    builder = _builder(name, name, key.public_key(), serial, start - BACKDATE, start + lifetime)
    certificate = _for_server(builder, hosts, key.public_key(), issuer).sign(key, hashes.SHA256())
    return Pair(pem(certificate), key_pem(key))


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    serial: int,
    start: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _for_server(
    builder: x509.CertificateBuilder,
    names: Iterable[str],
    key: ec.EllipticCurvePublicKey,
    issuer: x509.AuthorityKeyIdentifier,
) -> x509.CertificateBuilder:
    return (
        builder.add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(issuer, critical=False)
    )


def _issuer_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode())
