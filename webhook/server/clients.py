"""Which clients may send reviews, where the API server is set up to show a certificate."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509

from webhook.server.certificates import CertificateError, ListeningContext
from webhook.server.reading import Reader
from webhook.server.text import printable

_SECONDS = 1.0
"""Between two looks at the file."""

_LONGEST_NAME = 256  # characters of a name in a message

log = logging.getLogger("floorkeeper.certificate")


@dataclass(frozen=True, slots=True)
class ClientName:
    """What the certificate says by which a client came. That a CA which is trusted signed it was verified."""

    names: frozenset[str]
    """The common name, and the DNS names."""

    expires: float
    """Seconds since the epoch. Connections, and sessions that are taken up again, can outlive it."""


def client_of(connection: ssl.SSLObject | None) -> ClientName | None:
    """Who is at the other end of a connection, None if nobody has shown a certificate."""
    shown: Mapping[str, Any] = (connection.getpeercert() if connection is not None else None) or {}
    if not shown:
        return None
    subject = [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
    others = [value for key, value in shown.get("subjectAltName", ()) if key == "DNS"]
    return ClientName(frozenset((*subject, *others)), ssl.cert_time_to_seconds(shown["notAfter"]))


class ClientAuthority:
    """The CAs of a file, in PEM, that is read again when it changes, and the names that may send reviews."""

    def __init__(self, file: Path, names: Collection[str], context: ListeningContext) -> None:
        """`names` are those let in, empty for all that the CAs vouch for. Raises CertificateError."""
        self.error = ""
        """Why the file's present content is not in force, '' if it is."""

        self._names = frozenset(names)
        self._context = context
        self._reader = Reader(lambda: _read(file), str(file))
        self._seen: tuple[x509.Certificate, ...] | None = _read(file)
        context.ask_clients(self._seen)

    def refusal(self, client: ClientName | None) -> str:
        """Why a client may not send reviews, '' if it may."""
        if client is None:
            return "client certificate: none was shown; the API server must be set up to show one"
        if datetime.now(UTC).timestamp() >= client.expires:
            return "client certificate: has expired; renew it"
        if self._names and not self._names & client.names:
            name = printable(", ".join(sorted(client.names)), _LONGEST_NAME)
            return f"client certificate: {name or 'it has no name'}: is none of the names of --client-name"
        return ""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(_SECONDS)
            try:
                if await self.refresh():
                    self._tell()
            except Exception:
                log.exception("reloading the client CA failed")

    async def refresh(self) -> bool:
        """Reads the file again; whether its content is new, good or bad."""
        try:
            authorities = await self._reader.read()
        except (CertificateError, TimeoutError) as error:
            before, self._seen, self.error = self.error, None, str(error)
            return self.error != before
        if authorities == self._seen:
            return False
        self._seen, self.error = authorities, ""
        try:
            self._context.ask_clients(authorities)
        except CertificateError as error:
            self.error = str(error)
        return True

    def _tell(self) -> None:
        if self.error:
            fields = {"error": self.error}
            log.error("client CA file is broken, the last good one is trusted", extra={"fields": fields})
        else:
            log.info("client CA reloaded")


def _read(file: Path) -> tuple[x509.Certificate, ...]:
    if file.exists() and not file.is_file():
        # Opening a pipe would wait for a writer.
        raise CertificateError(f"{file}: is no regular file; give the path of a PEM file")
    try:
        return tuple(x509.load_pem_x509_certificates(file.read_bytes()))
    except OSError as error:
        raise CertificateError(f"{error.filename}: {error.strerror}") from None
    except ValueError:
        raise CertificateError(f"{file}: holds no certificate that can be read; give CA certificates in PEM") from None
