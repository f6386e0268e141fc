"""The API server, as the commands of the live door ask it: one request at a time, lists in pages, patches."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from webhook.check.formats.characters import visible
from webhook.kube.kinds import BUILT_IN
from webhook.kube.objects import Object, mapping, sequence, string
from webhook.sources.connection import Connection, StatusError
from webhook.sources.listing import PAGE
from webhook.sources.timing import Timing

_SILENCE = 30.0  # seconds without a byte
_LONGEST = 60.0  # seconds of one request, which is 500 large objects at the most
_LONGEST_LIST = 300.0  # seconds of all pages of a list
_BUSY = 429
_ATTEMPTS = 3  # while the API server is too busy
_PAUSE, _LONGEST_PAUSE = 1.0, 5.0  # seconds between two of them
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_JSON = "application/json"
_MANAGER = "floorkeeper"
_NO_RIGHT = re.compile('User "[^"]*" cannot ')
"""How the API server says it of a write. Quotas, PodSecurity and others refuse these with the same code."""


class ApiError(Exception):
    """What was asked, and why it was refused or not answered: to be shown to the person as it is.

    `code` is that of the answer, 0 without one; 200 for one that is not what was asked for.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        # Webhooks and proxies write it too. A denial may have several lines.
        super().__init__("\n".join(map(visible, message.split("\n"))))
        self.code = code


class NotAllowed(ApiError):
    """Whoever asks has not the right to (code 403). What admission refuses is another thing."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as URLs name it: Resource("apps", "v1", "deployments"). The core group is ''."""

    group: str
    version: str
    plural: str

    @property
    def name(self) -> str:
        """As kubectl and RBAC name it: deployments.apps."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "") -> str:
        root = f"/apis/{self.group}" if self.group else "/api"
        inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{root}/{self.version}{inside}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


NAMESPACES = Resource("", "v1", "namespaces")
NODES = Resource("", "v1", "nodes")
PODS = Resource("", "v1", "pods")
EVENTS = Resource("", "v1", "events")
CONFIG_MAPS = Resource("", "v1", "configmaps")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
REPLICA_SETS = Resource("apps", "v1", "replicasets")


class Api:
    """Every method raises ApiError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def opened(cls, kubeconfig: Path | None) -> Iterator[Api]:
        """By a kubeconfig, or from inside a cluster without one. Raises SourceError for one that cannot be used."""
        connection = Connection(kubeconfig, Timing())
        connection.load()
        try:
            yield cls(connection)
        finally:
            connection.close()

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """None where it does not exist, or its kind does not."""
        what = f'get {resource.name} "{name}"' + (f" in namespace {namespace}" if namespace else "")
        try:
            found = self._ask(what, "GET", resource.path(namespace, name))
        except ApiError as error:
            # Whoever else says 404 of a kind that is always there does not know the cluster.
            if error.code != 404 or (resource.group in BUILT_IN and _reason(error) != "NotFound"):
                raise
            return None
        if not isinstance(found.get("metadata"), dict):
            raise _odd(what, "no object")
        return found

    def items(
        self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "", *, required: bool = False
    ) -> Iterator[dict[str, Any]]:
        """All of a kind, of one namespace or of all, page by page. Of a kind that is not served there is none, or with
        `required` an ApiError of code 404."""
        what = f"list {resource.name}"
        query = {"limit": str(PAGE), "labelSelector": labels, "fieldSelector": fields}
        query = {name: text for name, text in query.items() if text}
        end = time.monotonic() + _LONGEST_LIST
        while True:
            try:
                page = self._ask(what, "GET", resource.path(namespace), query)
            except ApiError as error:
                if error.code != 404 or "continue" in query or self._serves(resource):
                    raise
                if required:
                    raise ApiError(f"{resource.name} is not served", 404) from error
                return
            items = page.get("items", ())
            if "items" not in page or not all(map(_is_object, items or ())):
                raise _odd(what, "no list of objects")
            kind = string(page.get("kind")).removesuffix("List")
            # The API server leaves kind and apiVersion out of the items of built-in lists.
            yield from ({"apiVersion": page.get("apiVersion"), "kind": kind, **item} for item in items or ())
            token = string(mapping(page.get("metadata")).get("continue"))
            if not token:
                return
            if token == query.get("continue"):
                raise _odd(what, "the same page again")
            if time.monotonic() >= end:
                raise ApiError(f"{what}: not at its end after {_LONGEST_LIST:.0f} s; the API server is slow", 200)
            query["continue"] = token

    def patch(
        self, resource: Resource, name: str, body: Object, namespace: str = "", *, dry_run: bool = False
    ) -> Object:
        """The object after a JSON merge patch (RFC 7386). With metadata.resourceVersion in `body`, it is refused (409)
        if the object has changed since."""
        query = {"fieldManager": _MANAGER, **({"dryRun": "All"} if dry_run else {})}
        what = f'patch {resource.name} "{name}"'
        return self._ask(what, "PATCH", resource.path(namespace, name), query, body)

    def create(self, resource: Resource, body: Object, namespace: str = "", *, dry_run: bool = False) -> Object:
        """The object as it is stored or, by a dry run, would be."""
        query = {"fieldManager": _MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self._ask(f"create {resource.name}", "POST", resource.path(namespace), query, body, _JSON)

    def apply(self, resource: Resource, name: str, body: Object, namespace: str = "") -> None:
        """Makes the object what `body` says (server-side apply), where it is not. `body` is whole: what it no longer
        says, and we once wrote, goes. Whoever else wrote one of its fields loses that field."""
        query = {"fieldManager": _MANAGER, "force": "true"}
        what = f'create or patch {resource.name} "{name}"' + (f" in namespace {namespace}" if namespace else "")
        self._ask(what, "PATCH", resource.path(namespace, name), query, body, _APPLY)

    def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Code 404 where it does not exist."""
        what = f'delete {resource.name} "{name}"' + (f" in namespace {namespace}" if namespace else "")
        self._ask(what, "DELETE", resource.path(namespace, name))

    def versions(self, group: str) -> tuple[str, ...]:
        """The versions of a group that are served, the preferred one first; () for a group that is not there."""
        what = f"find the versions of {group}"
        try:
            found = self._ask(what, "GET", f"/apis/{group}")
        except ApiError as error:
            if error.code != 404:
                raise
            return ()
        if not isinstance(found.get("versions"), list):
            raise _odd(what, "no API group")
        return tuple(string(mapping(row).get("version")) for row in found["versions"])

    def _serves(self, resource: Resource) -> bool:
        """Whether the cluster has the kind, whose list was answered with 404."""
        if resource.group in BUILT_IN:
            return True
        try:
            found = self._ask(f"find {resource.name}", "GET", f"/apis/{resource.group}/{resource.version}")
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return any(mapping(row).get("name") == resource.plural for row in sequence(found.get("resources")))

    def _ask(
        self,
        what: str,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = _MERGE,
    ) -> dict[str, Any]:
        for attempt in range(_ATTEMPTS):
            began = time.monotonic()
            try:
                with (
                    self._connection.broken_off_after(_LONGEST),
                    self._connection.request(
                        method, path, query or {}, body, content_type=content_type, silence=_SILENCE
                    ) as answer,
                ):
                    found = orjson.loads(answer.read())
                break
            except StatusError as error:
                if error.code == _BUSY and method == "GET" and attempt < _ATTEMPTS - 1:
                    time.sleep(min(error.retry_after or _PAUSE, _LONGEST_PAUSE))
                    continue
                if error.code == 403 and (method == "GET" or _NO_RIGHT.search(str(error))):
                    raise NotAllowed(f"not allowed to {what}; ask for that right", 403) from error
                raise ApiError(f"{what}: {error}", error.code) from error
            except orjson.JSONDecodeError as error:
                raise _odd(what, "no JSON", method) from error
            except Exception as error:  # of the network, of ssl, of a credentials plugin
                reason = " ".join(str(error).split())[:300] or type(error).__name__
                if time.monotonic() - began >= _LONGEST:
                    reason = f"not in full after {_LONGEST:.0f} s"
                raise ApiError(f"{what}: the API server does not answer: {reason}") from error
        if not isinstance(found, dict):
            raise _odd(what, "no object", method)
        return found


def _reason(error: ApiError) -> str:
    return error.__cause__.reason if isinstance(error.__cause__, StatusError) else ""


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("metadata"), dict)


def _odd(what: str, answer: str, method: str = "GET") -> ApiError:
    # Whether something was written, such an answer does not say.
    code = 200 if method == "GET" else 0
    return ApiError(f"{what}: the answer is {answer}; see what is between here and the API server", code)
