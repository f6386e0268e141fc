"""One object of the API server, by its name: read, written on condition that nobody else has meanwhile, and watched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import orjson

from webhook.kube.objects import metadata
from webhook.sources.connection import StatusError
from webhook.sources.ledger import Conflict, StoreError

Object = dict[str, Any]

_SILENCE = 3.0  # seconds
_ELSEWHERE = re.compile("denied the request|being terminated")
"""How a 403 reads that is not about rights."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object is."""

    api_version: str
    kind: str
    plural: str
    name: str
    namespace: str = ""
    """'' for a kind that is in none."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def path(self) -> str:
        """Of all objects of the kind there."""
        root = "apis" if "/" in self.api_version else "api"
        within = f"/namespaces/{quote(self.namespace, safe='')}" if self.namespace else ""
        return f"/{root}/{self.api_version}{within}/{self.plural}"


class Body(Protocol):
    """What is needed of webhook.sources.connection.Answer."""

    def read(self) -> bytes: ...

    def read_lines(self) -> Iterator[list[bytes]]: ...


class Requests(Protocol):
    """What is needed of webhook.sources.connection.Connection."""

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        *,
        accept: str = "application/json",
        silence: float,
    ) -> AbstractContextManager[Body]: ...


class NamedObject:
    """Everything here blocks, may be called from any thread, and raises StoreError."""

    def __init__(self, connection: Requests, place: Place, rights: str) -> None:
        """`rights` is the file of the rights that are needed."""
        self.place = place
        self._connection = connection
        self._rights = rights

    def read(self) -> Object | None:
        """The object, None if there is none."""
        with self._doing("get"):
            try:
                found = self._request("GET", f"{self.place.path}/{quote(self.place.name, safe='')}")
            except StatusError as error:
                # The word NotFound tells the API server from a proxy that knows no such path.
                if error.code == 404 and error.reason == "NotFound":
                    return None
                raise
            return found

    def create(self, body: Mapping[str, Any]) -> None:
        """With these fields beside its name. Raises Conflict if it is there by now."""
        own = {"name": self.place.name, "labels": {"app.kubernetes.io/name": "floorkeeper"}}
        value = {"apiVersion": self.place.api_version, "kind": self.place.kind, "metadata": own, **body}
        with self._doing("create"):
            try:
                self._request("POST", self.place.path, value)
            except StatusError as error:
                if error.code == 404:
                    raise ValueError(f"there is no namespace {self.place.namespace}; create it") from None
                raise

    def update(self, value: Object) -> Object:
        """`value` is what was read, with changes; answers with what is stored. Raises Conflict if somebody else has
        written or deleted it since."""
        with self._doing("update"):
            try:
                return self._request("PUT", f"{self.place.path}/{quote(self.place.name, safe='')}", value)
            except StatusError as error:
                if error.code == 404:
                    raise Conflict from None
                raise

    def watch(self, changed: Callable[[], None], seconds: int, silence: float) -> None:
        """Calls `changed` at the start and at each change, for `seconds`. `silence` is longer than that."""
        selected = {"fieldSelector": f"metadata.name={self.place.name}", "timeoutSeconds": str(seconds)}
        query = {"watch": "true", **selected}
        with self._doing("watch"), self._connection.request("GET", self.place.path, query, silence=silence) as answer:
            changed()
            for lines in answer.read_lines():
                if lines:
                    changed()

    def _request(self, method: str, path: str, body: Object | None = None) -> Object:
        with self._connection.request(method, path, {}, body, silence=_SILENCE) as answer:
            found = orjson.loads(answer.read())
        if not isinstance(found, dict):
            raise ValueError(f"the answer is no {self.place.kind}")
        return found

    @contextmanager
    def _doing(self, verb: str) -> Iterator[None]:
        try:
            yield
        except (Conflict, StoreError):
            raise
        except StatusError as error:
            if error.code == 409:
                raise Conflict from None
            if error.code == 403 and not _ELSEWHERE.search(str(error)):
                raise StoreError(
                    f"not allowed to {verb} the {self.place}; grant it as in {self._rights}", lasting=True
                ) from None
            raise StoreError(f"{verb} the {self.place}: {error}") from None
        except Exception as error:  # of the network, of ssl, of a credentials plugin
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise StoreError(f"{verb} the {self.place}: {reason}") from None


def generation_of(value: Object | None) -> tuple[object, object]:
    """What differs between any two states of what an object asks for, its absence included."""
    own = metadata(value or {})
    return own.get("uid"), own.get("generation")
