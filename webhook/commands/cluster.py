"""Which cluster a command is about, and what it takes facts from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from webhook.commands.failure import Failure
from webhook.sources.kubeconfig_path import default_kubeconfig

if TYPE_CHECKING:
    from webhook.live.page.queues import QueueSource
    from webhook.server.certificates import CertificateSource
    from webhook.sources.source import Source


def source_of(state: Path | None, kubeconfig: Path | None) -> tuple[Callable[[frozenset[str]], Source], str]:
    """How to make the source of facts, given kinds that are needed beside those of the rules, and its name."""
    if state is not None:
        return lambda _: _manifest_source(state), f"state {state}"
    kubeconfig = cluster_of(kubeconfig)
    return lambda more: _cluster_source(kubeconfig, more), f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster"


def cluster_of(kubeconfig: Path | None) -> Path | None:
    """The kubeconfig to use, None for the cluster around us."""
    if kubeconfig is None and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        kubeconfig = default_kubeconfig()
        if kubeconfig is None:
            raise Failure(
                "no cluster to take facts from: give --state DIR (manifests) or --kubeconfig FILE, or run in a cluster",
                is_usage=True,
            )
    return kubeconfig


def managed_certificate(kubeconfig: Path | None, secret: str) -> CertificateSource:
    from webhook.server.managed import ManagedCertificate

    return ManagedCertificate(kubeconfig, secret)


def _manifest_source(directory: Path) -> Source:
    from webhook.sources.manifests import ManifestSource

    return ManifestSource(directory)


def queues_of(state: Path | None, kubeconfig: Path | None) -> QueueSource:
    """Where the page gets the use of queues from."""
    from webhook.live.page.queues import NoQueues, QueueReader

    if state is not None:
        return NoQueues("the facts come from a folder of manifests, and no Kueue uses its queues")
    return QueueReader(cluster_of(kubeconfig))


def _cluster_source(kubeconfig: Path | None, more: frozenset[str]) -> Source:
    from webhook.rules import NEEDS
    from webhook.sources.cluster import ClusterSource

    return ClusterSource(kubeconfig, sorted(NEEDS | more))
