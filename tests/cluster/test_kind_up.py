"""What scripts/kind-up applies, on a real API server; the script itself needs Docker."""

from __future__ import annotations

import re

from tests.cluster.controlplane import Cluster
from tests.cluster.server import ROOT, Floorkeeper
from webhook.kube.names import MANAGED_LABEL

_SCRIPT = (ROOT / "scripts" / "kind-up").read_text()


def test_the_api_server_takes_what_is_installed(cluster: Cluster, floorkeeper: Floorkeeper) -> None:
    rendered = cluster("kustomize", "--load-restrictor=LoadRestrictionsNone", str(ROOT / "examples" / "kind")).stdout
    assert "image: floorkeeper:kind\n" in rendered
    # A dry run, since its Service and webhook configurations are in use here under the same names.
    taken = cluster("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", input=rendered)
    assert taken.stdout.count("serverside-applied") == rendered.count("\nkind: ")


def test_the_api_server_takes_the_examples(cluster: Cluster) -> None:
    [names] = re.findall(r"for file in (.*); do", _SCRIPT)
    files = [f"examples/cluster/{name}.yaml" for name in names.split()]
    files += re.findall(r"kubectl apply -f (examples\S+\.yaml)", _SCRIPT)
    assert files[-1] == "examples/kind/models.yaml"
    # In a namespace that no other test makes and removes, and that nobody guards.
    texts = [(ROOT / file).read_text().replace("llm-d-optimized-baseline", "kind-up") for file in files]
    namespace, *rest = (text.replace(MANAGED_LABEL, "floorkeeper.test/trial") for text in texts)
    cluster("apply", "-f", "-", input=namespace)
    try:
        for text in rest:
            cluster("apply", "--dry-run=server", "-f", "-", input=text)
    finally:
        cluster("delete", "-f", "-", "--wait=false", input=namespace)
