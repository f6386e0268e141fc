"""The page over HTTP: what is answered, to whom, and what a client cannot make us do."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import re
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.live.page_client import all_of, client_of, connected
from tests.live.page_world import NOW, World
from tests.quota_objects import node
from webhook.live.page.app import PageApp
from webhook.live.page.document import document
from webhook.live.page.server import MAX_HEAD, CannotListen, PageServer, listen, url_of


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def client(world: World) -> Iterator[httpx.Client]:
    with client_of(world) as client:
        yield client


@pytest.fixture
def raw(client: httpx.Client) -> Iterator[socket.socket]:
    with connected(client) as found:
        yield found


def test_the_page(client: httpx.Client) -> None:
    answer = client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.content == document().html
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"
    again = client.get("/", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_document_has_all_in_it_and_a_browser_runs_nothing_else() -> None:
    page, policy = document().html.decode(), document().policy
    assert len(re.findall("<script", page)) == len(re.findall("<style", page)) == 1
    for name in ("script", "style"):
        (content,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    for directive in ("default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"):
        assert directive in policy
    # No handler, no style and no markup in what is made, and nothing from anywhere else.
    assert not re.search(r"\son\w+=|\sstyle=|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", page)
    links = set(re.findall(r"(?:href|src|action)=\"([^\"#][^\"]*)\"", page))
    assert {link for link in links if not link.startswith("data:image/svg+xml,")} == {"data.json"}
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}


def test_the_data(client: httpx.Client, world: World) -> None:
    world.passes(7)
    answer = client.get("/data.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    clock = {"now": NOW + 7, "facts": 1.0, "queues": 7.0, "audit": None, "page": document().tag}
    assert answer.json()["clock"] == json.loads(answer.headers["floorkeeper-clock"]) == clock
    assert answer.json()["flavors"]["rows"][0]["verdict"] == "fit"


def test_data_that_have_not_changed_are_not_sent_again_but_their_age_is(client: httpx.Client, world: World) -> None:
    tag = client.get("/data.json").headers["etag"]
    world.passes(20)
    world.age = 17.0
    for said in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
        answer = client.get("/data.json", headers={"if-none-match": said})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
        assert json.loads(answer.headers["floorkeeper-clock"])["facts"] == 17.0
    world.change(node("n2", 5, {"pool": "a"}, cordoned=True))
    world.passes(3)
    answer = client.get("/data.json", headers={"if-none-match": tag})
    assert answer.status_code == 200
    assert answer.headers["etag"] != tag


def test_heads_have_no_bodies(client: httpx.Client) -> None:
    for path in ("/", "/data.json", "/healthz", "/nothing"):
        answer, whole = client.head(path), client.get(path)
        assert (answer.status_code, answer.content) == (whole.status_code, b""), path
        assert int(answer.headers["content-length"]) == len(whole.content), path


def test_it_is_only_read(client: httpx.Client) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"):
        for path in ("/", "/data.json", "/healthz"):
            answer = client.request(method, path)
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD"), (method, path)


def test_health(client: httpx.Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize(
    "path",
    [
        "/../board.py", "/page.js", "/%2e%2e/page.css", "/..%2f..%2fetc/passwd", "//", "/data.json/", "/DATA.JSON",
        "/etc/passwd", "/%00", "/index.html", "/favicon.ico",
    ],
)  # fmt: skip
def test_no_other_path_leads_anywhere(client: httpx.Client, path: str) -> None:
    with connected(client) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        answer = all_of(raw)
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"import" not in answer


def test_a_body_is_not_read(raw: socket.socket) -> None:
    raw.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\nxxx")
    answer = all_of(raw)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer


def test_a_chunked_body_is_not_read(raw: socket.socket) -> None:
    raw.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
    assert all_of(raw).startswith(b"HTTP/1.1 413 ")


def test_a_head_without_end_is_refused(raw: socket.socket) -> None:
    raw.sendall(b"GET / HTTP/1.1\r\nx: " + b"a" * (2 * MAX_HEAD))
    with contextlib.suppress(ConnectionResetError):
        assert raw.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_garbage_is_refused(raw: socket.socket) -> None:
    raw.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    assert all_of(raw).startswith(b"HTTP/1.1 400 ")


def test_a_silent_client_is_put_off(world: World) -> None:
    with (
        client_of(world, seconds=0.3) as client,
        connected(client) as silent,
        connected(client) as slow,
        connected(client) as once,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\n")
        once.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        began = time.monotonic()
        while time.monotonic() < began + 1:
            try:
                slow.sendall(b"x: y\r\n")
            except OSError:
                break
            time.sleep(0.05)
        assert time.monotonic() < began + 1
        assert all_of(once).startswith(b"HTTP/1.1 200 ")
        with contextlib.suppress(ConnectionResetError):
            assert silent.recv(1) == b""


def test_a_fault_of_ours_is_an_answer_too(client: httpx.Client, world: World) -> None:
    world.snapshot = None  # type: ignore[assignment]
    answer = client.get("/data.json")
    assert (answer.status_code, answer.text) == (500, "internal error; see Floorkeeper's log\n")
    assert client.get("/healthz").status_code == 200


def test_a_port_that_is_taken() -> None:
    (taken,) = listen("127.0.0.1", 0)
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"^cannot listen on 127.0.0.1 port {port} for the page: "):
            listen("127.0.0.1", port)


def test_a_host_that_is_none() -> None:
    with pytest.raises(CannotListen, match=r"^cannot listen on no such host port 0 for the page: "):
        listen("no such host", 0)


def test_it_ends_soon_though_clients_stay(world: World) -> None:
    async def run() -> float:
        page = PageServer(world.board, listen("127.0.0.1", 0))
        task = asyncio.create_task(page.run())
        await asyncio.sleep(0.3)
        host, port = httpx.URL(page.url).host, httpx.URL(page.url).port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await reader.readline()
        began = time.monotonic()
        page.stop()
        await task
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, port)
        return time.monotonic() - began

    assert asyncio.run(run()) < 3


def test_its_address_as_a_browser_takes_it() -> None:
    (one,) = listen("127.0.0.1", 0)
    with one:
        assert url_of([one]) == f"http://127.0.0.1:{one.getsockname()[1]}/"


def test_it_answers_nothing_but_http(world: World) -> None:
    sent: list[object] = []

    async def ask() -> None:
        async def send(message: object) -> None:
            sent.append(message)

        async def receive() -> dict[str, object]:
            return {}

        await PageApp(world.board)({"type": "websocket", "path": "/"}, receive, send)

    asyncio.run(ask())
    assert sent == []
