"""The certificate that new connections get: from files that are read again when they change, or made at start."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVICE = "floorkeeper.floorkeeper-system.svc"
"""The name that the API server checks for, by the Service of the shipped manifests."""

_LIFETIME = timedelta(days=365)


class CertificateError(Exception):
    """The pair cannot be served: the message says which file, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its chain, and its key, both in PEM."""

    certificate: bytes
    key: bytes


class Certificates:
    """The TLS context to listen with. A new pair is in force for the next connection; open ones keep theirs.

    The context hands each new connection over to that of the present pair. Loading a second pair into the first context
    would leave its old certificate there, if the two keys differ in type, for some clients to get.
    """

    def __init__(self, pair: Pair, files: tuple[Path, Path] | None = None) -> None:
        """Raises CertificateError."""
        self._files = files
        self._seen: Pair | None = pair
        self._served = _Served.from_pair(pair)
        self.error = ""
        """Why the files' present content is not served, '' if it is."""

        self.context = self._served.context
        self.context.sni_callback = self._choose

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        # Called for every connection, also for one that names no server.
        connection.context = self._served.context

    @property
    def expires(self) -> datetime:
        return self._served.expires

    @property
    def fingerprint(self) -> str:
        return self._served.fingerprint

    @classmethod
    def from_files(cls, certificate: Path, key: Path) -> Certificates:
        """Raises CertificateError."""
        return cls(_read_pair(certificate, key), (certificate, key))

    @classmethod
    def self_signed(cls, host: str) -> Certificates:
        """A pair for this process alone, which also answers to the name or address that it listens on."""
        return cls(self_signed_pair(host))

    async def refresh(self) -> bool:
        """Reads the files again; whether their content is new, good or bad. What is wrong with it is in `error`.

        A Secret's files are swapped one link at a time, so a certificate and a key that do not fit together are most
        often whole again a moment later.
        """
        if self._files is None:
            return False
        try:
            pair = await asyncio.to_thread(_read_pair, *self._files)
        except CertificateError as error:
            changed = self.error != str(error)
            self._seen, self.error = None, str(error)
            return changed
        if pair == self._seen:
            return False
        self._seen = pair
        try:
            self._take(_Served.from_pair(pair))
        except CertificateError as error:
            self.error = str(error)
        else:
            self.error = ""
        return True

    def _take(self, new: _Served) -> None:
        # An expired certificate never takes the place of one that holds.
        if new.expires <= datetime.now(UTC) < self.expires:
            raise CertificateError(f"the new certificate expired at {new.expires.isoformat()}")
        self._served = new


@dataclass(frozen=True, slots=True)
class _Served:
    """A pair that OpenSSL has accepted."""

    context: ssl.SSLContext
    expires: datetime
    fingerprint: str

    @classmethod
    def from_pair(cls, pair: Pair) -> _Served:
        """Raises CertificateError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            with pem_file(pair.certificate) as certificate, pem_file(pair.key) as key:
                # Without a password at hand OpenSSL would ask for one on the terminal.
                context.load_cert_chain(certificate, key, password="")
            leaf = x509.load_pem_x509_certificates(pair.certificate)[0]
        except (ssl.SSLError, ValueError, OSError) as error:
            raise CertificateError(f"the certificate and the key cannot be served together: {error}") from None
        return cls(context, leaf.not_valid_after_utc, leaf.fingerprint(hashes.SHA256()).hex())


def _read_pair(certificate: Path, key: Path) -> Pair:
    for file in (certificate, key):
        if file.exists() and not file.is_file():
            # Opening a pipe would wait for a writer, and with it whatever else is reloaded.
            raise CertificateError(f"{file}: is no regular file; give the path of a PEM file")
    try:
        return Pair(certificate.read_bytes(), key.read_bytes())
    except OSError as error:
        raise CertificateError(f"{error.filename}: {error.strerror}") from None


_IN_MEMORY = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


@contextmanager
def pem_file(content: bytes, in_memory: bool = _IN_MEMORY) -> Iterator[str]:
    """The content under a name, for OpenSSL reads nothing else: in memory, or for a moment in a file of our own."""
    if in_memory:
        descriptor = os.memfd_create("pem")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with NamedTemporaryFile() as temporary:
            temporary.write(content)
            temporary.flush()
            yield temporary.name


def self_signed_pair(host: str, now: datetime | None = None, lifetime: timedelta = _LIFETIME) -> Pair:
    """A certificate for localhost, the Service and `host`, signed by its own P-256 key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "floorkeeper")])
    start = now or datetime.now(UTC)
    hosts = dict.fromkeys(("localhost", "127.0.0.1", "::1", SERVICE, host))
    key_identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of API server and node differ a little.
        .not_valid_before(start - timedelta(minutes=5))
        .not_valid_after(start + lifetime)
        .add_extension(x509.SubjectAlternativeName(map(_general_name, hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(key_identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_identifier), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode())
