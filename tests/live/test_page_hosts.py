"""Under which names the page is taken: one that a stranger makes to stand for our address is not among them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.live.page_client import all_of, client_of, connected
from tests.live.page_world import World
from webhook.live.page.queues import NoQueues
from webhook.live.page.server import listen
from webhook.policy import PolicyFile
from webhook.server.page import PageSettings, page_server
from webhook.sources.manifests import ManifestSource

TAKEN = ("127.0.0.1:1", "10.1.2.3", "[::1]", "[fe80::1]:8080", "localhost", "LocalHost.:8080")
FOREIGN = (
    "evil.example.com", "evil.example.com:8080", "localhost.evil.example.com", "127.0.0.1.evil.example.com",
    "evil.example.com#localhost", "localhost:80:80", "localhost@evil", "::1", "[localhost]", "[127.0.0.1]", "", ":80",
    "2130706433", "a" * 255,
)  # fmt: skip


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with client_of(World()) as client:
        yield client


@pytest.mark.parametrize("host", TAKEN)
def test_hosts_that_nobody_else_can_stand_for(client: httpx.Client, host: str) -> None:
    for path in ("/", "/data.json", "/?anything=else"):
        assert client.get(path, headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_name_is_refused(client: httpx.Client, host: str) -> None:
    for path in ("/", "/data.json", "/nothing"):
        answer = client.get(path, headers={"host": host})
        assert answer.status_code == 421, path
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert "; open it by an IP address or as localhost; " in answer.text
        assert "--page-name <name>" in answer.text
    assert client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET /data.json HTTP/1.0\r\n\r\n", b"421 "),
        (b"GET /data.json HTTP/1.1\r\n\r\n", b"400 "),
        (b"GET /data.json HTTP/1.1\r\nhost: localhost\r\nhost: evil.example.com\r\n\r\n", b"400 "),
        (b"GET http://evil.example.com/data.json HTTP/1.0\r\nhost: localhost\r\n\r\n", b"404 "),
        (b"GET /healthz HTTP/1.0\r\n\r\n", b"200 "),
    ],
)
def test_a_request_names_one_host(client: httpx.Client, said: bytes, status: bytes) -> None:
    with connected(client) as raw:
        raw.sendall(said)
        assert all_of(raw).startswith(b"HTTP/1.1 " + status)


def test_names_that_are_given_are_taken() -> None:
    with client_of(World(), names=("floors.example.com", "Floors.team", "10.0.0.1", "")) as client:
        for host in ("floors.example.com", "FLOORS.example.com:443", "floors.team", "localhost", "127.0.0.1"):
            assert client.get("/data.json", headers={"host": host}).status_code == 200
        answer = client.get("/data.json", headers={"host": "evil.example.com"})
        assert answer.status_code == 421
        assert answer.text == (
            'the page is not taken under the name "evil.example.com"; open it by an IP address or as localhost, '
            "floors.example.com, floors.team; floorkeeper serve --page-name <name> lets another name in\n"
        )


def test_the_name_that_it_is_served_on_is_taken(tmp_path: Path) -> None:
    settings = PageSettings("Floors.internal", 0, lambda: NoQueues("there is no cluster"), {"floors.example.com"})

    async def answers() -> list[int]:
        page = page_server(settings, listen("127.0.0.1", 0), PolicyFile(None), ManifestSource(tmp_path), audits=False)
        running = asyncio.create_task(page.run())
        async with httpx.AsyncClient(base_url=page.url, trust_env=False) as client:
            hosts = ("floors.internal:8080", "floors.example.com", "evil.example.com")
            found = [(await client.get("/", headers={"host": host})).status_code for host in hosts]
        page.stop()
        await running
        return found

    assert asyncio.run(answers()) == [200, 200, 421]
