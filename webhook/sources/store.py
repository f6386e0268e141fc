"""The ledger's document in a ConfigMap of our own namespace, and the queues as they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import orjson

from webhook.kube.facts import PROJECTIONS
from webhook.kube.objects import mapping, metadata, string
from webhook.sources.access import ACCESS
from webhook.sources.connection import Connection, StatusError
from webhook.sources.ledger import Conflict, StoreError
from webhook.sources.listing import list_pages
from webhook.sources.promise import Stored

CONFIG_MAP = "floorkeeper-reservations"
_KEY = "reservations"
_SILENCE = 3.0
"""Seconds, well within the ledger's deadline: one call that hangs leaves time for another."""

_THREADS = 4  # for three lists at once, and the tidying
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NAMESPACE = "floorkeeper-system"

_T = TypeVar("_T")


def own_namespace(file: Path = _NAMESPACE_FILE) -> str:
    """The namespace that this pod runs in, floorkeeper-system for what runs in none."""
    try:
        return file.read_text().strip() or _NAMESPACE
    except OSError:
        return _NAMESPACE


class ClusterStore:
    """Implements webhook.sources.ledger.Store. `versions` tells the API version in use of a kind, '' for none."""

    def __init__(self, connection: Connection, versions: Callable[[str], str], namespace: str) -> None:
        self.name = f"ConfigMap {namespace}/{CONFIG_MAP}"
        self._connection = connection
        self._versions = versions
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps"
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ledger")

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def read(self) -> tuple[str, object]:
        """The version is the whole ConfigMap, None if there is none: what others put there is written back."""
        found = await self._run("get the ConfigMap", self._read)
        text = mapping(mapping(found).get("data")).get(_KEY, "")
        if not isinstance(text, str):
            raise StoreError(f"its data.{_KEY} is no text; delete it, and it is made anew", lasting=True)
        return text, found

    async def write(self, text: str, version: object) -> None:
        verb = "create" if version is None else "update"
        await self._run(f"{verb} the ConfigMap", lambda: self._write(text, version))

    async def read_all(self, kind: str) -> dict[str, Stored]:
        return await self._run(f"list {ACCESS[kind].name}", lambda: self._list(kind))

    async def _run(self, what: str, call: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, call)
        except Conflict:
            raise
        except StatusError as error:
            if error.code == 403:
                raise StoreError(
                    f"not allowed to {what}; grant it as in manifests/base/rbac.yaml", lasting=True
                ) from None
            lasting = error.code not in (401, 408, 410, 429) and error.code < 500
            raise StoreError(f"{what}: {error}", lasting=lasting) from None
        except Exception as error:  # of the network, of ssl, of a credentials plugin
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise StoreError(f"{what}: {reason}") from None

    # In the pool's threads

    def _read(self) -> dict[str, Any] | None:
        try:
            with self._connection.request("GET", f"{self._path}/{CONFIG_MAP}", {}, silence=_SILENCE) as answer:
                found = orjson.loads(answer.read())
        except StatusError as error:
            # The word NotFound tells the API server from a proxy that knows no such path.
            if error.code == 404 and error.reason == "NotFound":
                return None
            raise
        if not isinstance(found, dict):
            raise ValueError("the answer is no ConfigMap")
        return found

    def _write(self, text: str, version: Any) -> None:
        if version is None:
            labels = {"app.kubernetes.io/name": "floorkeeper"}
            own = {"name": CONFIG_MAP, "namespace": self._namespace, "labels": labels}
            value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": own, "data": {_KEY: text}}
            method, path = "POST", self._path
        else:
            value = {**version, "data": {**mapping(version.get("data")), _KEY: text}}
            method, path = "PUT", f"{self._path}/{CONFIG_MAP}"
        try:
            with self._connection.request(method, path, {}, value, silence=_SILENCE) as answer:
                answer.read()
        except StatusError as error:
            # Created or written by somebody else meanwhile, or deleted.
            if error.code == 409 or (error.code == 404 and version is not None):
                raise Conflict from None
            if error.code == 404:
                raise ValueError(f"there is no namespace {self._namespace}; create it") from None
            raise

    def _list(self, kind: str) -> dict[str, Stored]:
        version = self._versions(kind)
        if not version:
            raise ValueError("its API version is not known yet")
        found: dict[str, Stored] = {}
        for objects, _ in list_pages(self._connection, ACCESS[kind], version, _SILENCE):
            for value in objects:
                own, fact = metadata(value), PROJECTIONS[kind](value)
                if fact is not None:
                    found[fact.name] = Stored(fact, string(own.get("resourceVersion")), string(own.get("uid")))
        return found
