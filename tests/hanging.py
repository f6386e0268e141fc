"""`floorkeeper serve` with certificate files that can be read once and then hang, as a network mount may."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from webhook.server.authority import Pair
from webhook.server.files import FileCertificate, read_pair
from webhook.server.process import Settings, serve
from webhook.sources.manifests import ManifestSource


def main() -> None:
    folder = Path(sys.argv[1])
    pairs = iter([read_pair(folder / "tls.crt", folder / "tls.key")])

    def read(_certificate: Path, _key: Path) -> Pair:
        for pair in pairs:
            return pair
        threading.Event().wait()
        raise AssertionError("nothing ever happens")

    serve(
        Settings(
            "127.0.0.1",
            0,
            lambda _: ManifestSource(folder / "state"),
            "a test",
            folder / "policy.yaml",
            managed=lambda: FileCertificate(folder / "tls.crt", folder / "tls.key", read, patience=0.2),
        )
    )


if __name__ == "__main__":
    main()
