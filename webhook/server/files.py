"""A certificate from files, as cert-manager's are mounted: read again when they change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from webhook.server.authority import Pair
from webhook.server.certificates import CertificateError, CertificateState, ListeningContext
from webhook.server.reading import PATIENCE, Reader

_SECONDS = 1.0
"""Between two looks at the files."""

log = logging.getLogger("floorkeeper.certificate")


class FileCertificate:
    """The pair that two files hold, and the last good one while they are broken."""

    def __init__(
        self,
        certificate: Path,
        key: Path,
        read: Callable[[Path, Path], Pair] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """`read` reads the files, and may take `patience` seconds for it. Raises CertificateError."""
        read = read or read_pair
        self._error = ""
        self._seen: Pair | None = read(certificate, key)
        self._context = ListeningContext(self._seen)
        self._source = str(certificate)
        self._reader = Reader(lambda: read(certificate, key), self._source, patience)

    def context(self) -> ListeningContext:
        return self._context

    def state(self) -> CertificateState:
        return CertificateState(self._source, self._context.expires, self._context.fingerprint, self._error)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            try:
                if await self.refresh():
                    self._tell()
            except Exception:
                log.exception("reloading the certificate failed")

    async def refresh(self) -> bool:
        """Reads the files again; whether their content is new, good or bad. What is wrong with it is in `state`.

        A Secret's files are swapped one link at a time, so a certificate and a key that do not fit together are most
        often whole again a moment later.
        """
        try:
            pair = await self._reader.read()
        except (CertificateError, TimeoutError) as error:
            before, self._seen, self._error = self._error, None, str(error)
            return self._error != before
        if pair == self._seen:
            return False
        self._seen, self._error = pair, ""
        try:
            self._context.take(pair)
        except CertificateError as error:
            self._error = str(error)
        return True

    def _tell(self) -> None:
        state = self.state()
        fields = {"fingerprint": state.fingerprint, "expires": state.expires.isoformat(), "error": state.error}
        if state.error:
            log.error("certificate files are broken, the last good pair is served", extra={"fields": fields})
        else:
            log.info("certificate reloaded", extra={"fields": fields})


def read_pair(certificate: Path, key: Path) -> Pair:
    """Raises CertificateError."""
    for file in (certificate, key):
        if file.exists() and not file.is_file():
            # Opening a pipe would wait for a writer.
            raise CertificateError(f"{file}: is no regular file; give the path of a PEM file")
    try:
        return Pair(certificate.read_bytes(), key.read_bytes())
    except OSError as error:
        raise CertificateError(f"{error.filename}: {error.strerror}") from None
