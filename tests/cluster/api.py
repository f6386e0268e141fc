"""The API server over plain HTTP, by way of kubectl proxy: hundreds of writes without a process for each."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.cluster.controlplane import Cluster
from webhook.kube.kinds import WORKLOADS

Object = dict[str, Any]
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')
_ATTEMPTS = 10
"""At writing over what controllers write to as well."""

_PLURALS = {
    "AdmissionCheck": "admissionchecks",
    "ClusterQueue": "clusterqueues",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Cohort": "cohorts",
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "LimitRange": "limitranges",
    "LocalQueue": "localqueues",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "Namespace": "namespaces",
    "Node": "nodes",
    "Pod": "pods",
    "Queue": "queues",
    "ReplicaSet": "replicasets",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "ResourceFlavor": "resourceflavors",
    "ResourceQuota": "resourcequotas",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "RuntimeClass": "runtimeclasses",
    "ScaledObject": "scaledobjects",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
    "StatefulSet": "statefulsets",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    **{row.kind: row.resource for row in WORKLOADS},
}


@dataclass(frozen=True)
class Answer:
    code: int
    value: Any
    """The object as it is stored, or the Status."""

    warnings: tuple[str, ...]

    @property
    def stored(self) -> bool:
        return self.code in (200, 201)

    @property
    def message(self) -> str:
        return str(self.value.get("message", "")) if self.value.get("kind") == "Status" else ""


@dataclass(frozen=True)
class Api:
    client: httpx.Client
    user: str = ""
    """Whom to be, with every right; '' for the admin of the kubeconfig."""

    @classmethod
    def of(cls, cluster: Cluster) -> Api:
        assert cluster.reading is not None, "only the session's cluster has a proxy"
        return cls(cluster.reading.client)

    def create(self, value: Object, dry_run: bool = False) -> Answer:
        return self.post(collection(value), value, dry_run)

    def post(self, where: str, value: Object, dry_run: bool = False) -> Answer:
        return self._send("POST", where, value, dry_run)

    def update(self, value: Object, dry_run: bool = False) -> Answer:
        """Over what is stored, whatever its version."""
        return self._put(path(value), value, dry_run)

    def write(self, value: Object) -> Answer:
        """Created, or written over what is stored."""
        return self.create(value) if self.read(value) is None else self.update(value)

    def merge(self, value: Object, change: Object) -> Answer:
        return self.patch(path(value), change)

    def patch(self, where: str, change: object, kind: str = "merge") -> Answer:
        """A patch of this kind, merge or strategic."""
        kind = f"application/{'strategic-merge' if kind == 'strategic' else kind}-patch+json"
        return _answer(self.client.patch(where, content=json.dumps(change), headers={"Content-Type": kind}))

    def update_status(self, value: Object) -> Answer:
        return self._put(f"{path(value)}/status", value)

    def change(
        self, value: Object, edit: Callable[[Object], object], dry_run: bool = False, subresource: str = ""
    ) -> Answer:
        """What is stored under the name of `value`, or a subresource of it, with an edit."""
        where = f"{path(value)}/{subresource}" if subresource else path(value)
        for _ in range(_ATTEMPTS):
            stored = self.client.get(where).json()
            edit(stored)
            answer = self._send("PUT", where, stored, dry_run)
            if answer.code != 409:
                break
        return answer

    def delete(self, value: Object, dry_run: bool = False) -> Answer:
        return self._send("DELETE", path(value), None, dry_run, propagationPolicy="Background")

    def delete_all(self, version: str, kind: str, namespace: str) -> Answer:
        """Every object of this kind in the namespace."""
        where = collection({"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace}})
        return self._send("DELETE", where, None, propagationPolicy="Background")

    def read(self, value: Object) -> Any:
        """The stored object, None if there is none."""
        answer = self.client.get(path(value))
        return answer.json() if answer.status_code == 200 else None

    def _put(self, where: str, value: Object, dry_run: bool = False) -> Answer:
        for _ in range(_ATTEMPTS):
            stored = (self.read(value) or {}).get("metadata", {})
            # The finalizers stay: they are a controller's, and no fixture has them.
            kept = {name: stored[name] for name in ("resourceVersion", "finalizers") if name in stored}
            answer = self._send("PUT", where, {**value, "metadata": {**value["metadata"], **kept}}, dry_run)
            if answer.code != 409:
                break
        return answer

    def _send(self, method: str, where: str, value: Object | None, dry_run: bool = False, **parameters: str) -> Answer:
        parameters |= {"dryRun": "All"} if dry_run else {}
        headers = {"Impersonate-User": self.user, "Impersonate-Group": "system:masters"} if self.user else {}
        return _answer(self.client.request(method, where, json=value, params=parameters, headers=headers))


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
