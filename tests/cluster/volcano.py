"""Volcano's Queue, for tests that take its CustomResourceDefinition away and bring it back."""

from __future__ import annotations

from scripts.controlplane.manifests import read_crds
from scripts.controlplane.progress import Progress
from tests.cluster.controlplane import Cluster

CRD = "customresourcedefinition/queues.scheduling.volcano.sh"


def install_volcano(cluster: Cluster) -> None:
    cluster.apply(*(crd for crd in read_crds("volcano", Progress()) if crd["spec"]["names"]["kind"] == "Queue"))
    cluster("wait", "--for=condition=Established", CRD, "--timeout=30s")
