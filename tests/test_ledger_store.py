"""The ledger's ConfigMap over HTTP: what is sent, and what each answer comes to."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.api_server import ApiServer, status
from webhook.sources.connection import Connection
from webhook.sources.ledger import Conflict, StoreError
from webhook.sources.store import ClusterStore, own_namespace
from webhook.sources.timing import Timing

Object = dict[str, Any]
PATH = "/api/v1/namespaces/floorkeeper-system/configmaps"
STORED: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "floorkeeper-reservations",
        "namespace": "floorkeeper-system",
        "resourceVersion": "7",
        "labels": {"team": "ours"},
    },
    "data": {"reservations": "[]", "note": "kept"},
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Scripted

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = json.loads(self.rfile.read(length)) if length else None
        self.server.asked.append((self.command, self.path, sent))
        code, value = self.server.answers.pop(0)
        if not code:
            self.close_connection = True
            return
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()


class Scripted(ThreadingHTTPServer):
    """Answers what it is told to, one by one; code 0 hangs up."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[tuple[str, str, Any]] = []


@pytest.fixture
def server() -> Iterator[Scripted]:
    server = Scripted()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def store(server: Scripted, tmp_path: Path) -> Iterator[ClusterStore]:
    connection = Connection(ApiServer(port=server.server_address[1]).kubeconfig(tmp_path), replace(Timing(), connect=2))
    connection.load()
    store = ClusterStore(connection, {"Cohort": "v1beta2"}.get, "floorkeeper-system")  # type: ignore[arg-type]
    yield store
    store.stop()
    connection.close()


def test_it_is_created_and_then_replaced(server: Scripted, store: ClusterStore) -> None:
    async def test() -> None:
        server.answers = [(404, status(404, "NotFound")), (201, STORED), (200, STORED), (200, STORED)]
        text, version = await store.read()
        assert (text, version) == ("", None)
        await store.write("[1]", version)
        text, version = await store.read()
        assert text == "[]"
        await store.write("[2]", version)

    asyncio.run(test())
    name = f"{PATH}/floorkeeper-reservations"
    created = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "floorkeeper-reservations",
            "namespace": "floorkeeper-system",
            "labels": {"app.kubernetes.io/name": "floorkeeper"},
        },
        "data": {"reservations": "[1]"},
    }
    replaced = {**STORED, "data": {"reservations": "[2]", "note": "kept"}}
    assert server.asked == [
        ("GET", name, None),
        ("POST", PATH, created),
        ("GET", name, None),
        ("PUT", name, replaced),
    ]


@pytest.mark.parametrize("data", [None, {}, {"note": "x"}])
def test_an_empty_one_holds_nothing(server: Scripted, store: ClusterStore, data: Any) -> None:
    server.answers = [(200, {**STORED, "data": data})]
    assert asyncio.run(_read(store))[0] == ""


async def _read(store: ClusterStore) -> tuple[str, object]:
    return await store.read()


async def _create(store: ClusterStore) -> None:
    await store.write("[]", None)


async def _update(store: ClusterStore) -> None:
    await store.write("[]", STORED)


async def _list(store: ClusterStore) -> None:
    await store.read_all("Cohort")


@pytest.mark.parametrize(("call", "code"), [(_create, 409), (_update, 409), (_update, 404)])
def test_somebody_else_was_faster(
    server: Scripted, store: ClusterStore, call: Callable[[ClusterStore], Awaitable[None]], code: int
) -> None:
    server.answers = [(code, status(code, "whatever"))]

    async def test() -> None:
        with pytest.raises(Conflict):
            await call(store)

    asyncio.run(test())


DENIED = "grant it as in manifests/base/rbac.yaml"
FAILURES: list[tuple[Any, tuple[int, Any], bool, str]] = [
    (_read, (403, status(403, "Forbidden")), True, f"not allowed to get the ConfigMap; {DENIED}"),
    (_create, (403, status(403, "Forbidden")), True, f"not allowed to create the ConfigMap; {DENIED}"),
    (_update, (403, status(403, "Forbidden")), True, f"not allowed to update the ConfigMap; {DENIED}"),
    (_list, (403, status(403, "Forbidden")), True, f"not allowed to list cohorts.kueue.x-k8s.io; {DENIED}"),
    (_read, (404, b"no such page"), True, "get the ConfigMap: 404 no such page"),
    (
        _create,
        (404, status(404, "NotFound")),
        False,
        "create the ConfigMap: there is no namespace floorkeeper-system; create it",
    ),
    (_update, (422, status(422, "Invalid", "it is immutable")), True, "update the ConfigMap: 422 it is immutable"),
    (_read, (500, status(500, "", "etcd")), False, "get the ConfigMap: 500 etcd"),
    (_read, (429, status(429, "", "slow down")), False, "get the ConfigMap: 429 slow down"),
    (_list, (410, status(410, "Expired", "too old")), False, "list cohorts.kueue.x-k8s.io: 410 too old"),
    (_read, (200, []), False, "get the ConfigMap: the answer is no ConfigMap"),
    (
        _read,
        (200, {**STORED, "data": {"reservations": 5}}),
        True,
        "its data.reservations is no text; delete it, and it is made anew",
    ),
]


@pytest.mark.parametrize(("call", "answer", "lasting", "message"), FAILURES)
def test_what_a_failure_is_called(
    server: Scripted,
    store: ClusterStore,
    call: Callable[[ClusterStore], Awaitable[Any]],
    answer: tuple[int, Any],
    lasting: bool,
    message: str,
) -> None:
    server.answers = [answer]

    async def test() -> None:
        with pytest.raises(StoreError) as caught:
            await call(store)
        assert (str(caught.value), caught.value.lasting) == (message, lasting)

    asyncio.run(test())


def test_who_hangs_up_may_be_asked_again(server: Scripted, store: ClusterStore) -> None:
    server.answers = [(0, None), (200, STORED)]

    async def test() -> None:
        with pytest.raises(StoreError, match=r"^get the ConfigMap: ") as caught:
            await store.read()
        assert not caught.value.lasting
        assert (await store.read())[0] == "[]"

    asyncio.run(test())


def test_a_handshake_that_fails_is_told_in_one_line(server: Scripted, tmp_path: Path) -> None:
    """By somebody who speaks no TLS, in place of an API server that is about to end."""
    config = ApiServer(port=server.server_address[1]).kubeconfig(tmp_path)
    config.write_text(config.read_text().replace("http://", "https://"))
    connection = Connection(config, replace(Timing(), connect=2))
    connection.load()
    store = ClusterStore(connection, {"Cohort": "v1beta2"}.get, "floorkeeper-system")  # type: ignore[arg-type]

    async def test() -> None:
        with pytest.raises(StoreError, match=r"^get the ConfigMap: SSLError \[SSL: ") as caught:
            await store.read()
        assert not caught.value.lasting

    asyncio.run(test())
    store.stop()
    connection.close()


def test_objects_come_with_their_versions(server: Scripted, store: ClusterStore) -> None:
    item = {"metadata": {"name": "c", "resourceVersion": "5", "uid": "u"}, "spec": {"parentName": "root"}}
    page = {"kind": "CohortList", "apiVersion": "kueue.x-k8s.io/v1beta2", "metadata": {"resourceVersion": "9"}}
    server.answers = [(200, {**page, "items": [item]})]

    async def test() -> None:
        found = await store.read_all("Cohort")
        assert {name: (each.version, each.uid) for name, each in found.items()} == {"c": ("5", "u")}
        with pytest.raises(StoreError) as caught:
            await store.read_all("ClusterQueue")
        assert str(caught.value) == "list clusterqueues.kueue.x-k8s.io: its API version is not known yet"

    asyncio.run(test())
    assert server.asked == [("GET", "/apis/kueue.x-k8s.io/v1beta2/cohorts?limit=500", None)]


def test_the_namespace_is_that_of_our_pod(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("gpu-admin\n")
    assert own_namespace(tmp_path / "namespace") == "gpu-admin"
    assert own_namespace(tmp_path / "none") == "floorkeeper-system"
