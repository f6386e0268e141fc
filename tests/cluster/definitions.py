"""CustomResourceDefinitions of kinds that no Go module brings one of: tests/fixtures/kinds/<kind>/crd.yaml."""

from __future__ import annotations

from tests.cases import FIXTURES, read_documents
from tests.cluster.controlplane import Cluster


def install_definitions(cluster: Cluster) -> None:
    definitions = [value for file in FIXTURES.glob("kinds/*/crd.yaml") for value in read_documents(file)]
    cluster.apply(*definitions)
    names = (f"customresourcedefinition/{value['metadata']['name']}" for value in definitions)
    cluster("wait", "--for=condition=Established", *names, "--timeout=30s")
