"""The API server over plain HTTP, by way of kubectl proxy: hundreds of writes without a process for each."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.cluster.controlplane import Cluster

Object = dict[str, Any]
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
_PLURALS = {
    "ClusterQueue": "clusterqueues",
    "Deployment": "deployments",
    "LocalQueue": "localqueues",
    "Namespace": "namespaces",
    "Pod": "pods",
    "ReplicaSet": "replicasets",
    "ResourceFlavor": "resourceflavors",
    "ResourceQuota": "resourcequotas",
    "RuntimeClass": "runtimeclasses",
    "StatefulSet": "statefulsets",
}


@dataclass(frozen=True)
class Answer:
    code: int
    value: Any
    """The object as it is stored, or the Status."""

    warnings: tuple[str, ...]

    @property
    def message(self) -> str:
        return str(self.value.get("message", "")) if self.value.get("kind") == "Status" else ""


@dataclass(frozen=True)
class Api:
    client: httpx.Client

    def create(self, value: Object, dry_run: bool = False) -> Answer:
        return self._write("POST", collection(value), value, dry_run)

    def update(self, value: Object, dry_run: bool = False) -> Answer:
        return self._write("PUT", path(value), value, dry_run)

    def delete(self, value: Object) -> Answer:
        return _answer(self.client.delete(path(value), params={"propagationPolicy": "Background"}))

    def read(self, value: Object) -> Any:
        """The stored object, None if there is none."""
        answer = self.client.get(path(value))
        return answer.json() if answer.status_code == 200 else None

    def _write(self, method: str, where: str, value: Object, dry_run: bool) -> Answer:
        return _answer(self.client.request(method, where, json=value, params={"dryRun": "All"} if dry_run else {}))


def _answer(response: httpx.Response) -> Answer:
    texts = [text for header in response.headers.get_list("warning") for text in _WARNING.findall(header)]
    return Answer(response.status_code, response.json(), tuple(re.sub(r"\\(.)", r"\1", text) for text in texts))


def collection(value: Object) -> str:
    version, namespace = value["apiVersion"], value["metadata"].get("namespace")
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return (
        f"{base}/namespaces/{namespace}/{_PLURALS[value['kind']]}" if namespace else f"{base}/{_PLURALS[value['kind']]}"
    )


def path(value: Object) -> str:
    return f"{collection(value)}/{value['metadata']['name']}"


@contextmanager
def proxied(cluster: Cluster) -> Iterator[Api]:
    command = [cluster.kubectl, "--kubeconfig", str(cluster.kubeconfig), "proxy", "--port=0", "--address=127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().rpartition(" ")[2].strip()
            with httpx.Client(base_url=f"http://{address}", timeout=30) as client:
                yield Api(client)
        finally:
            process.terminate()
