"""One replica: `python -m benchmarks.soak.replica DIR HOST PORT` is `floorkeeper serve`, at the pace of the soak."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.soak.pace import Pace
from webhook.rules import NEEDS
from webhook.server.managed import ManagedCertificate
from webhook.server.process import Settings, serve
from webhook.sources.cluster import ClusterSource

PACE, POLICY, KUBECONFIG, SECRET = "pace.json", "policy.yaml", "kubeconfig", "floorkeeper-tls"


def main() -> None:
    directory, (host, port) = Path(sys.argv[1]), sys.argv[2:]
    pace, kubeconfig = Pace.read(directory / PACE), directory / KUBECONFIG
    serve(
        Settings(
            host,
            int(port),
            lambda more: ClusterSource(kubeconfig, sorted(NEEDS | more), timing=pace.timing()),
            "soak",
            directory / POLICY,
            managed=lambda: ManagedCertificate(kubeconfig, SECRET, timing=pace.keeping()),
            drain_seconds=pace.drain,
        )
    )


if __name__ == "__main__":
    main()
