"""One object of the API server by its name: what each answer comes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from webhook.sources.connection import StatusError
from webhook.sources.ledger import Conflict, StoreError
from webhook.sources.named import Body, NamedObject, Place, generation_of

SECRET = Place("v1", "Secret", "secrets", "tls", "ours")
WEBHOOKS = Place(
    "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "x"
)
STORED = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls", "uid": "u", "resourceVersion": "7"}}


class Answering:
    """Answers everything in the same way, and remembers the questions."""

    def __init__(self, answer: bytes | Exception, *events: list[bytes]) -> None:
        self.asked: list[tuple[str, str, Mapping[str, str], Mapping[str, Any] | None]] = []
        self._answer = answer
        self._events = events

    @contextmanager
    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        *,
        accept: str = "application/json",
        silence: float,
    ) -> Iterator[Body]:
        self.asked.append((method, path, query, body))
        if isinstance(self._answer, Exception):
            raise self._answer
        yield self

    def read(self) -> bytes:
        assert isinstance(self._answer, bytes)
        return self._answer

    def read_lines(self) -> Iterator[list[bytes]]:
        yield from self._events


def named(answer: bytes | Exception, place: Place = SECRET) -> tuple[NamedObject, Answering]:
    connection = Answering(answer)
    return NamedObject(connection, place, "rbac.yaml"), connection


def test_what_is_asked() -> None:
    secret, connection = named(b"{}")
    secret.read()
    secret.create({"type": "Opaque", "data": {"a": "YQ=="}})
    secret.update(STORED)
    created = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "tls", "labels": {"app.kubernetes.io/name": "floorkeeper"}},
        "type": "Opaque",
        "data": {"a": "YQ=="},
    }
    assert connection.asked == [
        ("GET", "/api/v1/namespaces/ours/secrets/tls", {}, None),
        ("POST", "/api/v1/namespaces/ours/secrets", {}, created),
        ("PUT", "/api/v1/namespaces/ours/secrets/tls", {}, STORED),
    ]
    webhooks, connection = named(b"{}", WEBHOOKS)
    webhooks.read()
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    assert connection.asked == [("GET", f"{path}/x", {}, None)]


def test_a_watch() -> None:
    connection = Answering(b"", [b"{}"], [], [b"{}", b"{}"])
    rung: list[int] = []
    NamedObject(connection, WEBHOOKS, "rbac.yaml").watch(lambda: rung.append(1), 60, 75.0)
    query = {"watch": "true", "fieldSelector": "metadata.name=x", "timeoutSeconds": "60"}
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    assert connection.asked == [("GET", path, query, None)]
    assert len(rung) == 3, "at the start, and for each piece that says something"


def test_generations() -> None:
    first, second = ({"metadata": {"uid": "u", "generation": number, "resourceVersion": "7"}} for number in (1, 2))
    labelled = {"metadata": {"uid": "u", "generation": 1, "resourceVersion": "8"}}
    assert generation_of(first) == generation_of(labelled)
    assert len({generation_of(first), generation_of(second), generation_of(None)}) == 3


def test_none_is_there() -> None:
    assert named(StatusError(404, "not found", "NotFound"))[0].read() is None


@pytest.mark.parametrize("error", [StatusError(409, "exists", "AlreadyExists"), StatusError(409, "x", "Conflict")])
def test_somebody_else_was_quicker(error: StatusError) -> None:
    with pytest.raises(Conflict):
        named(error)[0].create({})
    with pytest.raises(Conflict):
        named(error)[0].update(STORED)


def test_deleted_meanwhile() -> None:
    with pytest.raises(Conflict):
        named(StatusError(404, "not found", "NotFound"))[0].update(STORED)


@pytest.mark.parametrize(
    ("verb", "answer", "message", "lasting"),
    [
        (
            "read",
            StatusError(403, 'secrets "tls" is forbidden: User "x" cannot get resource "secrets"', "Forbidden"),
            "not allowed to get the Secret ours/tls; grant it as in rbac.yaml",
            True,
        ),
        (
            "create",
            StatusError(403, 'admission webhook "x" denied the request: no Secrets here'),
            'create the Secret ours/tls: 403 admission webhook "x" denied the request: no Secrets here',
            False,
        ),
        (
            "create",
            StatusError(403, "unable to create new content in namespace ours because it is being terminated"),
            "create the Secret ours/tls: 403 unable to create new content in namespace ours because it is being "
            "terminated",
            False,
        ),
        (
            "create",
            StatusError(404, 'namespaces "ours" not found', "NotFound"),
            "create the Secret ours/tls: there is no namespace ours; create it",
            False,
        ),
        ("read", StatusError(404, "no such page"), "get the Secret ours/tls: 404 no such page", False),
        ("read", StatusError(500, "etcd"), "get the Secret ours/tls: 500 etcd", False),
        ("read", OSError("no  route\n"), "get the Secret ours/tls: no route", False),
        ("read", TimeoutError(), "get the Secret ours/tls: TimeoutError", False),
        ("read", b"[]", "get the Secret ours/tls: the answer is no Secret", False),
    ],
)
def test_troubles(verb: str, answer: bytes | Exception, message: str, lasting: bool) -> None:
    secret, _ = named(answer)
    with pytest.raises(StoreError) as raised:
        secret.read() if verb == "read" else secret.create({})
    assert (str(raised.value), raised.value.lasting) == (message, lasting)
