"""The few API calls that `up` makes itself: one kept connection is far quicker than a kubectl per object."""

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .ports import LOOPBACK
from .progress import ClusterError

Object = dict[str, Any]

# kind -> (path of its API group and version, plural, whether it lives in a namespace); only what `up` writes.
_COLLECTIONS: Mapping[str, tuple[str, str, bool]] = {
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "MutatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        False,
    ),
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "Pod": ("/api/v1", "pods", True),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "Secret": ("/api/v1", "secrets", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        False,
    ),
}


class Refused(ClusterError):
    """The API server answered, and the answer was no."""

    def __init__(self, what: str, status: int, answer: Any) -> None:
        message = answer.get("message", answer) if isinstance(answer, dict) else answer
        super().__init__(f"{what}: the API server answered {status}: {message}")
        self.status = status


class Api:
    """A client for one server on loopback; without a token it asks as nobody, which health checks allow."""

    def __init__(self, port: int, token: str | None, authority: Path) -> None:
        self._port = port
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._connection: http.client.HTTPSConnection | None = None

    def request(self, method: str, path: str, body: Object | None = None) -> tuple[int, Any]:
        """Status and decoded answer. Raises OSError or HTTPException while nobody answers."""
        headers = {"Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(LOOPBACK, self._port, timeout=30, context=self._tls)
        try:
            self._connection.request(method, path, data, headers)
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text.decode(errors="replace")

    def get(self, path: str) -> Any:
        """The decoded answer; None while it is not 200 or nobody answers, for use in waiting loops."""
        try:
            status, answer = self.request("GET", path)
        except (OSError, http.client.HTTPException):
            return None
        return answer if status == 200 else None

    def create(self, obj: Object, dry_run: bool = False) -> Object:
        """Create the object, or with dry_run only ask for what would be stored."""
        prefix, plural, namespaced = _COLLECTIONS[obj["kind"]]
        metadata = obj["metadata"]
        if namespaced:
            prefix = f"{prefix}/namespaces/{metadata['namespace']}"
        query = "?dryRun=All" if dry_run else ""
        status, answer = self.request("POST", f"{prefix}/{plural}{query}", obj)
        if status not in (200, 201):
            raise Refused(f'{obj["kind"]} "{metadata["name"]}"', status, answer)
        created: Object = answer
        return created

    def request_token(self, namespace: str, account: str) -> str:
        """A token of the ServiceAccount, valid for longer than any test runs."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": ""},
                   "spec": {"expirationSeconds": 365 * 24 * 3600}}  # fmt: skip
        status, answer = self.request("POST", path, request)
        if status != 201:
            raise Refused(f'a token for ServiceAccount "{account}"', status, answer)
        token: str = answer["status"]["token"]
        return token

    def serves(self, crd: Object) -> bool:
        """Whether API discovery shows the kind of a CRD; clients that look once, at their start, need that."""
        spec = crd["spec"]
        versions = [version["name"] for version in spec["versions"] if version["served"]]
        found = [self.get(f"/apis/{spec['group']}/{version}") for version in versions]
        return all(
            answer is not None and any(resource["name"] == spec["names"]["plural"] for resource in answer["resources"])
            for answer in found
        )

    def replace(self, obj: Object) -> None:
        """Write back an object without a namespace that was read or created before."""
        prefix, plural, _ = _COLLECTIONS[obj["kind"]]
        name = obj["metadata"]["name"]
        status, answer = self.request("PUT", f"{prefix}/{plural}/{name}", obj)
        if status != 200:
            raise Refused(f'{obj["kind"]} "{name}"', status, answer)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
