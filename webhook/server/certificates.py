"""The certificate that new connections get: what a source of it is, and the TLS context to listen with."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from tempfile import NamedTemporaryFile
from typing import Any, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.server.authority import Pair, self_signed_pair


class CertificateError(Exception):
    """What is given cannot be served: the message says which file, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class CertificateState:
    """What is told of a certificate."""

    source: str
    """Where it comes from: 'self-signed', a file, a Secret."""

    expires: datetime
    fingerprint: str
    """SHA-256 of the DER form, in hexadecimal."""

    error: str = ""
    """Why no newer one can take its place, '' if one can."""

    note: str = ""
    """What an admin should know and that is no fault, '' for nothing."""

    pending: str = ""
    """Why the API server cannot call us yet, '' once it can."""

    authority_expires: datetime | None = None
    """When the CA that signed it expires, None if that CA is not ours."""

    published: bool | None = None
    """Whether every webhook of both configurations trusts it, None if that is not ours to see to."""

    last: timedelta = timedelta(hours=1)
    """Time before the end in which an error means that there will be no certificate."""

    registered: tuple[Mapping[str, Any], ...] | None = None
    """The webhook configurations that the API server has, as last read; None if they are not ours to read."""


class CertificateSource(Protocol):
    """Where the certificate comes from. Called by webhook.server.process, `state` by webhook.server.readiness too.

    Implemented here by OwnCertificate, and by webhook.server.files.FileCertificate (cert-manager mounts the files) and
    webhook.server.managed.ManagedCertificate.
    """

    def context(self) -> ListeningContext:
        """What to listen with, from the start on."""

    async def run(self) -> None:
        """Keeps the certificate current, and tells the log, until it is cancelled."""

    def state(self) -> CertificateState: ...


class ListeningContext(ssl.SSLContext):
    """What a server listens with. Each connection is made from the pair and the client CA in force; open ones keep
    theirs.

    A context of its own for each pair leaves nothing of the one before: no certificate of another type of key, and no
    session by which a client would come back whose CA is trusted no more.
    """

    def __new__(cls, *_: object) -> ListeningContext:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, pair: Pair) -> None:
        """Raises CertificateError."""
        # Pairs come from the thread of a source, client CAs from another.
        self._lock = threading.Lock()
        self._pair = pair
        self._client_authorities: tuple[x509.Certificate, ...] = ()
        self._served = _Served.of(pair, ())

    def take(self, pair: Pair) -> None:
        """For new connections. Raises CertificateError, and then the last pair stays."""
        with self._lock:
            new = _Served.of(pair, self._client_authorities)
            # An expired certificate never takes the place of one that holds.
            if new.expires <= datetime.now(UTC) < self._served.expires:
                raise CertificateError(f"the new certificate expired at {new.expires.isoformat()}")
            self._pair, self._served = pair, new

    def ask_clients(self, authorities: tuple[x509.Certificate, ...]) -> None:
        """Asks clients for a certificate, and ends the handshake of one that shows another than these CAs signed.

        Raises CertificateError, and then the last CAs stay.
        """
        with self._lock:
            self._served = _Served.of(self._pair, authorities)
            self._client_authorities = authorities

    @property
    def expires(self) -> datetime:
        return self._served.expires

    @property
    def fingerprint(self) -> str:
        return self._served.fingerprint

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """How asyncio and uvloop begin a connection."""
        return self._served.context.wrap_bio(*args, **kwargs)


class OwnCertificate:
    """A pair for this process alone, which also answers to the name or address that it listens on."""

    def __init__(self, host: str) -> None:
        self._context = ListeningContext(self_signed_pair(host))

    def context(self) -> ListeningContext:
        return self._context

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()

    def state(self) -> CertificateState:
        return CertificateState("self-signed", self._context.expires, self._context.fingerprint)


@dataclass(frozen=True, slots=True)
class _Served:
    """A pair that OpenSSL has accepted."""

    context: ssl.SSLContext
    expires: datetime
    fingerprint: str

    @classmethod
    def of(cls, pair: Pair, client_authorities: tuple[x509.Certificate, ...]) -> _Served:
        """Raises CertificateError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if client_authorities:
            _ask_clients(context, client_authorities)
        try:
            with pem_file(pair.certificate) as certificate, pem_file(pair.key) as key:
                # Without a password at hand OpenSSL would ask for one on the terminal.
                context.load_cert_chain(certificate, key, password="")
            leaf = x509.load_pem_x509_certificates(pair.certificate)[0]
        except (ssl.SSLError, ValueError, OSError) as error:
            raise CertificateError(f"the certificate and the key cannot be served together: {error}") from None
        return cls(context, leaf.not_valid_after_utc, leaf.fingerprint(hashes.SHA256()).hex())


def _ask_clients(context: ssl.SSLContext, authorities: tuple[x509.Certificate, ...]) -> None:
    """Raises CertificateError."""
    # Kubelet's probes and Prometheus have none to show.
    context.verify_mode = ssl.CERT_OPTIONAL
    # As in Go, whatever certificate is given is trusted, also one that another CA signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in authorities))
    except ssl.SSLError as error:
        raise CertificateError(f"the client CA cannot be used: {error}") from None


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
