"""A certificate for one run, and its key: both are gone with the folder that they are in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from webhook.server.authority import self_signed_pair


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """In PEM. Clients trust `certificate`, which signs itself."""

    certificate: Path
    key: Path


def write_certificate(folder: Path, host: str) -> CertificateFiles:
    """A fresh pair for a server on this host."""
    pair = self_signed_pair(host)
    files = CertificateFiles(folder / "tls.crt", folder / "tls.key")
    files.certificate.write_bytes(pair.certificate)
    with open(os.open(files.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as key:
        key.write(pair.key)
    return files
