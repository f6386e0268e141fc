"""Events as they are written: to a small server that keeps them by name, as the API server does."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.serving import until
from webhook.sources.connection import Connection
from webhook.sources.events import PATH, EventWriter, manifest, name_of
from webhook.sources.source import Event
from webhook.sources.timing import Timing

SINCE = 1_795_910_400.0  # 2026-11-29T00:00:00Z
AWAY = Event("ClusterQueue", "model-a", "uid-a", True, "CapacityAway", "capacity is away, 5 more", SINCE, False)
FIT = replace(AWAY, warning=False, reason="FloorsFit", text="floors fit again")
QUICK = Timing(connect=2, retry=0.01, retry_most=0.02)


class Keeper(ThreadingHTTPServer):
    """Events by name. The next requests meet the faults first: a code each, or 0 to be broken off."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: dict[str, Any] = {}
        self.faults: deque[int] = deque()
        self.denied: set[str] = set()
        """Methods that are never allowed."""

        self.requests: list[tuple[str, str]] = []

    @property
    def said(self) -> list[tuple[str, str]]:
        """The reason of each Event, and of whom it is."""
        return [(value["reason"], value["regarding"]["name"]) for value in self.events.values()]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: some are broken off on purpose."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Keeper

    def do_POST(self) -> None:
        value = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = value["metadata"]["name"]
        if self._refused(name):
            return
        if name in self.server.events:
            self._send(409, {"kind": "Status", "code": 409, "reason": "AlreadyExists"})
        else:
            self.server.events[name] = value
            self._send(201, value)

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        if not self._refused(name):
            found = self.server.events.get(name)
            self._send(200 if found else 404, found or {"kind": "Status", "code": 404, "reason": "NotFound"})

    def _refused(self, name: str) -> bool:
        self.server.requests.append((self.command, name))
        assert self.path.startswith(PATH)
        code = (
            403 if self.command in self.server.denied else self.server.faults.popleft() if self.server.faults else 200
        )
        if code == 0:
            self.close_connection = True
        elif code != 200:
            self._send(code, {"kind": "Status", "code": code, "message": "no"})
        return code != 200

    def _send(self, code: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    server = Keeper()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def writing(keeper: Keeper, folder: Path, clock: Callable[[], float] = lambda: SINCE + 120) -> Iterator[EventWriter]:
    """A writer that runs. At the end it is stopped, and ends."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{keeper.server_address[1]}"}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    connection, stopping = Connection(folder / "config", QUICK), threading.Event()
    connection.load()
    writer = EventWriter(connection, QUICK, stopping, clock)
    thread = threading.Thread(target=writer.run)
    thread.start()
    try:
        yield writer
    finally:
        stopping.set()
        connection.close()
        writer.stop()
        thread.join(5)
        assert not thread.is_alive()


def until_kept(keeper: Keeper, count: int) -> None:
    until(lambda: len(keeper.events) == count)


def until_said(keeper: Keeper, name: str) -> None:
    """Until a queue was told that its floors fit."""
    until(lambda: ("FloorsFit", name) in keeper.said)


def test_an_event_says_what_and_since_when() -> None:
    assert manifest(AWAY, "model-a.x", SINCE + 120.25, "pod-1") == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "model-a.x", "namespace": "default"},
        "eventTime": "2026-11-29T00:02:00.250000Z",
        "type": "Warning",
        "reason": "CapacityAway",
        "action": "CompareFloors",
        "note": "capacity is away, 5 more; since 2026-11-29T00:00:00Z",
        "regarding": {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "name": "model-a",
            "uid": "uid-a",
        },
        "reportingController": "floorkeeper.io/floorkeeper",
        "reportingInstance": "pod-1",
    }
    assert manifest(replace(FIT, found=True), "x", SINCE, "x")["type"] == "Normal"
    note = manifest(replace(AWAY, text="é" * 1000, found=True), "x", SINCE, "x")["note"]
    assert note.endswith("é; since 2026-11-29T00:00:00Z or earlier")
    assert len(note.encode()) in (1023, 1024)


def test_a_name_follows_from_what_is_said() -> None:
    assert name_of(AWAY, 0) == name_of(replace(AWAY, since=SINCE + 1, found=True, warning=False), 0)
    others = [replace(AWAY, uid="u"), replace(AWAY, reason="r"), replace(AWAY, text="t")]
    assert len({name_of(AWAY, 0), name_of(AWAY, 1), *(name_of(other, 0) for other in others)}) == 5
    assert name_of(AWAY, 0).startswith("model-a.")
    assert len(name_of(replace(AWAY, name="a" * 253), 0)) == 253
    assert ".-." not in name_of(replace(AWAY, name="a" * 235 + "-bcd"), 0)


@pytest.mark.parametrize("late", [0.0, 1.5, -1.5])
def test_two_replicas_say_it_once(keeper: Keeper, tmp_path: Path, late: float) -> None:
    """The second one sees it begin a moment later, or earlier."""
    for moved, other in ((0.0, "one"), (late, "two")):
        with writing(keeper, tmp_path, lambda: SINCE + 120) as writer:
            writer.tell([replace(AWAY, since=SINCE + moved), replace(FIT, name=other)])
            until_said(keeper, other)
    assert keeper.said == [("CapacityAway", "model-a"), ("FloorsFit", "one"), ("FloorsFit", "two")]


def test_a_restart_says_nothing_again(keeper: Keeper, tmp_path: Path) -> None:
    with writing(keeper, tmp_path) as writer:
        writer.tell([AWAY])
        until_kept(keeper, 1)
    with writing(keeper, tmp_path, lambda: SINCE + 1000) as writer:
        writer.tell([replace(AWAY, since=SINCE + 900, found=True), FIT])
        until_said(keeper, "model-a")
    assert len(keeper.said) == 2
    assert [method for method, _ in keeper.requests] == ["POST", "POST", "POST"]


def test_the_same_a_while_later_is_said_again(keeper: Keeper, tmp_path: Path) -> None:
    now = SINCE
    with writing(keeper, tmp_path, lambda: now) as writer:
        for times in (1, 2, 3):
            writer.tell([replace(AWAY, since=now - 120)])
            until_kept(keeper, times)
            now += 1800
    assert [value["note"].rpartition(" ")[2] for value in keeper.events.values()] == [
        "2026-11-28T23:58:00Z",
        "2026-11-29T00:28:00Z",
        "2026-11-29T00:58:00Z",
    ]


def test_one_that_expires_between_two_requests(keeper: Keeper, tmp_path: Path) -> None:
    keeper.faults += [409, 404]
    with writing(keeper, tmp_path) as writer:
        writer.tell([AWAY])
        until_kept(keeper, 1)
    assert list(keeper.events) == [name_of(AWAY, 1)]


@pytest.mark.parametrize("faults", [[500, 503], [429], [0, 0], [401], [408, 504]])
def test_what_fails_is_tried_again(
    keeper: Keeper, tmp_path: Path, faults: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    keeper.faults += faults
    with writing(keeper, tmp_path) as writer, caplog.at_level(logging.WARNING, "floorkeeper.events"):
        writer.tell([AWAY, FIT])
        until_kept(keeper, 2)
    assert keeper.said == [("CapacityAway", "model-a"), ("FloorsFit", "model-a")]
    assert len(caplog.records) == len(set(faults))


def test_what_is_refused_is_logged_once(keeper: Keeper, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keeper.denied = {"POST"}
    events = [replace(AWAY, name=f"queue-{number}") for number in range(5)]
    with writing(keeper, tmp_path) as writer, caplog.at_level(logging.WARNING, "floorkeeper.events"):
        writer.tell(events)
        until(lambda: len(keeper.requests) == 5)
        keeper.denied = set()
        writer.tell([FIT])
        until_kept(keeper, 1)
        keeper.denied = {"POST"}
        writer.tell(events[:2])
        until(lambda: len(keeper.requests) == 8)
        until(lambda: len(caplog.records) == 2)
    assert [vars(record)["fields"] for record in caplog.records] == [
        {"kind": "ClusterQueue", "name": "queue-0", "reason": "CapacityAway", "problem": "403 no"}
    ] * 2


def test_without_the_right_to_read_one_that_is_there_counts(keeper: Keeper, tmp_path: Path) -> None:
    keeper.denied = {"GET"}
    with writing(keeper, tmp_path) as writer:
        writer.tell([AWAY, replace(AWAY, since=SINCE + 5000), FIT])
        until_said(keeper, "model-a")
    assert len(keeper.said) == 2


def test_it_ends_at_once_while_nobody_answers(keeper: Keeper, tmp_path: Path) -> None:
    keeper.faults += [503] * 1000
    with writing(keeper, tmp_path) as writer:
        writer.tell([AWAY] * 20_000)
        until(lambda: keeper.requests)
        began = time.monotonic()
    assert time.monotonic() - began < 1
