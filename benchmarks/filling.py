"""Many writes to an API server, over connections that are kept open."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import yaml

from benchmarks.fleet import Object

_WRITERS = 12
"""Threads: enough to keep an API server of two cores busy."""

_PATHS = {
    "Namespace": ("/api/v1", "namespaces"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Node": ("/api/v1", "nodes"),
    "Pod": ("/api/v1", "pods"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "ResourceFlavor": ("/apis/kueue.x-k8s.io/v1beta2", "resourceflavors"),
    "Cohort": ("/apis/kueue.x-k8s.io/v1beta2", "cohorts"),
    "ClusterQueue": ("/apis/kueue.x-k8s.io/v1beta2", "clusterqueues"),
    "LocalQueue": ("/apis/kueue.x-k8s.io/v1beta2", "localqueues"),
}


class Connection:
    """One connection of the user that a kubeconfig with a token and an inline CA names."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        address = urlsplit(cluster["server"])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        self._headers = {"Authorization": f"Bearer {user['token']}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPSConnection(str(address.hostname), address.port, timeout=60, context=context)

    def ask(self, method: str, path: str, value: Object | None = None, **headers: str) -> tuple[int, bytes]:
        """Code and body."""
        body = None if value is None else orjson.dumps(value)
        self._connection.request(method, path, body, {**self._headers, **headers})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str) -> Any:
        """The decoded answer, None where there is none such."""
        code, body = self.ask("GET", path)
        return orjson.loads(body) if code == 200 else None


def create(kubeconfig: Path, values: Iterable[Object]) -> int:
    """Creates them all, and says how many; those that exist are left as they are."""
    waiting, lock = iter(values), threading.Lock()

    def following() -> Iterator[Object]:
        while True:
            with lock:
                value = next(waiting, None)
            if value is None:
                return
            yield value

    def write(_: int) -> int:
        done = 0
        with closing(Connection(kubeconfig)) as connection:
            for value in following():
                code, body = connection.ask("POST", _collection(value), value)
                if code not in (201, 409):
                    raise RuntimeError(f"{value['kind']} {value['metadata']['name']}: {code} {body[:500].decode()}")
                done += 1
        return done

    with ThreadPoolExecutor(_WRITERS) as pool:
        return sum(pool.map(write, range(_WRITERS)))


def _collection(value: Object) -> str:
    base, plural = _PATHS[value["kind"]]
    namespace = value["metadata"].get("namespace")
    return f"{base}/namespaces/{namespace}/{plural}" if namespace else f"{base}/{plural}"


def listed(connection: Connection, kind: str, page: int = 500) -> tuple[int, int]:
    """Reads all objects of a kind and throws them away: how many there are, and how many bytes they took."""
    base, plural = _PATHS[kind]
    objects = size = 0
    token = ""
    while True:
        code, body = connection.ask("GET", f"{base}/{plural}?limit={page}{token}")
        if code != 200:
            raise RuntimeError(f"list {plural}: {code} {body[:500].decode()}")
        found = json.loads(body)
        objects, size = objects + len(found["items"]), size + len(body)
        if not found["metadata"].get("continue"):
            return objects, size
        token = f"&continue={found['metadata']['continue']}"
