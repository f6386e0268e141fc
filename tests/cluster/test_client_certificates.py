"""--client-ca against a real API server that shows a client certificate to the webhooks it calls."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.certificate import write_certificate
from tests.cluster.controlplane import Cluster, until
from tests.serving import Serving

NAMESPACE = "client-certificates"
HOOK = "client-certificates.floorkeeper.test"
LABELS = {"floorkeeper.io/managed": "true"}


@pytest.fixture
def asking(cluster: Cluster, tmp_path: Path) -> Iterator[Serving]:
    """A server that wants the API server's certificate, asked by it about the ResourceQuotas of one namespace.

    The namespace is managed in what this server has for its cluster and not in the cluster itself, so that nobody else
    has a say.
    """
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    managed = {**namespace, "metadata": {"name": NAMESPACE, "labels": LABELS}}
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "namespace.yaml").write_text(yaml.safe_dump(managed))
    bundle = write_certificate(tmp_path, f"floorkeeper.{NAMESPACE}.svc", "127.0.0.1")
    own = ["--state", tmp_path / "state", "--tls-cert", tmp_path / "tls.crt", "--tls-key", tmp_path / "tls.key"]
    assert cluster.webhook_client_ca, "needs a control plane of our own: unset KUBECONFIG"
    clients = ["--client-ca", cluster.webhook_client_ca, "--client-name", "kube-apiserver"]
    server = Serving(*map(str, own + clients))
    objects = [namespace, *_registration(server.port, bundle)]
    try:
        cluster.apply(*objects)
        yield server
    finally:
        cluster("delete", "-f", "-", "--ignore-not-found", "--wait=false", input=yaml.safe_dump_all(objects[::-1]))
        server.end()


def _registration(port: int, bundle: bytes) -> list[dict[str, Any]]:
    service = {"name": "floorkeeper", "namespace": NAMESPACE}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["resourcequotas"]}
    webhook = {
        "name": HOOK,
        "clientConfig": {
            "service": {**service, "port": port, "path": "/validate"},
            "caBundle": base64.b64encode(bundle).decode(),
        },
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": service,
            "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": HOOK},
            "webhooks": [webhook],
        },
    ]


def _quota(name: str, **hard: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def test_only_the_api_server_is_answered(cluster: Cluster, asking: Serving) -> None:
    gpus = _quota("gpus", **{"requests.nvidia.com/gpu": "1"})

    def denied() -> str:
        return cluster.create(gpus, "--dry-run=server", check=False).stderr

    until("the API server asks us", lambda: f'admission webhook "{HOOK}" denied the request' in denied(), 20)
    assert "[gpu-resource-quota]" in denied()
    cluster.create(_quota("services", services="5"), "--dry-run=server")

    request = {"uid": "1", "operation": "CREATE", "object": gpus}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    with asking.client() as nobody:
        answer = nobody.post("/validate", json=review)
        assert answer.status_code == 401
        assert "none was shown" in answer.text
        # The kubelet has no certificate for us.
        assert nobody.get("/readyz").status_code == 200
