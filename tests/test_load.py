"""What is turned away, so that nothing waits for longer than its caller, and how serving ends on its connections."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter

import pytest

from tests.cases import BASE, FIXTURES, policy_of, read_documents, snapshot_of
from tests.door import Door, StillSource, review_of
from tests.serving import PATIENCE, until
from webhook.engine.rule import Stage
from webhook.rules import RULES
from webhook.server.address import listen_on
from webhook.server.app import app
from webhook.server.certificates import OwnCertificate
from webhook.server.connection import Connection
from webhook.server.http import Server, server_config
from webhook.server.listener import HANDSHAKE_SECONDS, MOST_HANDSHAKES
from webhook.server.load import Call, Load, Reason, Shed, caller_seconds

REVIEW = review_of(read_documents(FIXTURES / "missing-queue-name" / "pass-labelled.yaml")[-1])
BODY = json.dumps(REVIEW).encode()
BUSY = (
    "Floorkeeper did not judge this request: {}; try again. If it happens often, give Floorkeeper more CPU or "
    "replicas; metric floorkeeper_requests_shed_total"
)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (b"timeout=5s", 5),
        (b"timeout=1m0s", 60),
        (b"timeout=1h2m3.5s", 3723.5),
        (b"timeout=500ms", 0.5),
        (b"timeout=" + b"9" * 400 + b"h", 86400),
        (b"timeout=1%C2%B5s", 1e-6),
        (b"a=b&timeout=10s", 10),
        (b"", None),
        (b"timeout=", None),
        (b"timeout=5", None),
        (b"timeout=-5s", None),
        (b"timeout=%ff", None),
        (b"x", None),
    ],
)
def test_what_the_api_server_says_of_its_patience(query: bytes, seconds: float | None) -> None:
    assert caller_seconds(query) == (seconds if seconds is None else pytest.approx(seconds))


def call(ago: float = 0.0, timeout: bytes = b"") -> Call:
    scope = {"state": {"arrived": perf_counter() - ago}, "query_string": b"timeout=" + timeout}
    return Call(Stage.VALIDATE, scope)


class TestRoom:
    def test_for_so_many_calls(self) -> None:
        load = Load(most_calls=2)
        first, second, third = call(), call(), call(timeout=b"5s")
        load.enter(first)
        load.enter(second)
        with pytest.raises(Shed) as shed:
            load.enter(third)
        assert (shed.value.reason, shed.value.again) == (Reason.CALLS, True)
        load.leave(third)
        load.leave(first)
        load.enter(call())
        assert load.in_flight == {Stage.MUTATE: 0, Stage.VALIDATE: 2}

    def test_a_stalled_body_makes_room(self) -> None:
        load = Load(most_calls=2)
        stalled, whole = call(ago=2), call(ago=3)
        load.enter(whole)
        load.complete(whole)
        load.enter(stalled)
        load.enter(call())
        assert (stalled.evicted, whole.evicted) == (Reason.CALLS, None)

    def test_for_so_many_bytes(self) -> None:
        load = Load(most_bytes=100)
        coming, whole, other = call(), call(), call()
        for each in (whole, coming, other):
            load.enter(each)
        load.receive(whole, 60)
        load.complete(whole)
        load.receive(coming, 40)
        load.receive(other, 40)
        assert coming.evicted is Reason.BYTES, "it has been coming for longest"
        with pytest.raises(Shed) as shed:
            load.complete(coming)
        assert shed.value.reason is Reason.BYTES
        for each in (coming, other):
            with pytest.raises(Shed):
                load.receive(each, 1)
        for each in (whole, coming, other):
            load.leave(each)
        last = call()
        load.enter(last)
        load.receive(last, 100)
        load.complete(last)

    def test_for_nobody_whose_time_is_over(self) -> None:
        load = Load()
        late = call(ago=4.95, timeout=b"5s")
        load.enter(late)
        with pytest.raises(Shed) as shed:
            load.complete(late)
        assert (shed.value.reason, shed.value.again) == (Reason.LATE, False)

    def test_the_log_says_it_at_once_and_then_in_sum(self, caplog: pytest.LogCaptureFixture) -> None:
        async def turn_away() -> None:
            for _ in range(100):
                load.count(Stage.MUTATE, Reason.CALLS)

        load = Load()
        asyncio.run(turn_away())
        (line,) = caplog.records
        assert (line.levelname, line.getMessage()) == ("WARNING", "requests shed")
        assert vars(line)["fields"] == {"reasons": {"too-many-requests": 1}, "inFlight": 0, "bytes": 0}
        assert load.shed[Stage.MUTATE, Reason.CALLS] == 100


class SlowSource(StillSource):
    """It takes an hour to confirm anything."""

    async def confirm(self, kinds: frozenset[str], namespace: str) -> bool:
        await asyncio.sleep(3600)
        return False


@contextmanager
def door_of(source: StillSource | None = None, load: Load | None = None) -> Iterator[Door]:
    door = Door(source or StillSource(snapshot_of(BASE)), policy_of())
    door.app = app(RULES, door.readiness, load)
    try:
        yield door
    finally:
        door.close()


class TestAnswers:
    def test_busy(self) -> None:
        with door_of(load=Load(most_calls=0)) as door:
            status, headers, body = door.send("/validate", BODY)
            metrics = door.metrics()
        assert (status, headers["content-type"], headers["retry-after"]) == (429, "text/plain; charset=utf-8", "1")
        assert body.decode() == BUSY.format("1000 requests are under way already")
        assert 'floorkeeper_requests_shed_total{reason="too-many-requests",webhook="validate"} 1.0' in metrics
        assert 'floorkeeper_requests_shed_total{reason="too-late",webhook="mutate"} 0.0' in metrics
        assert 'floorkeeper_requests_in_flight{webhook="validate"} 0.0' in metrics
        assert "floorkeeper_log_lines_dropped_total 0.0" in metrics
        assert "floorkeeper_requests_total{" not in metrics

    def test_a_body_that_came_when_the_callers_time_was_over(self) -> None:
        with door_of() as door, listening(door) as (port, _), connected(port) as client:
            client.sendall(head(len(BODY), timeout="50ms"))
            assert read_answer(client).startswith(b"HTTP/1.1 429 ")
            client.sendall(BODY)
            assert ask(client)
            assert 'floorkeeper_requests_shed_total{reason="too-late",webhook="validate"} 1.0' in metrics_of(port)

    def test_no_wait_beyond_the_callers_time(self) -> None:
        """The namespace is not managed as far as is known, so the source is asked once more."""
        unmanaged = [{**BASE[0], "metadata": {"name": REVIEW["request"]["namespace"]}}, *BASE[1:]]
        source = SlowSource(snapshot_of(unmanaged))
        with door_of(source) as door, listening(door) as (port, _), connected(port) as client:
            began = time.monotonic()
            client.sendall(head(len(BODY), timeout="1s") + BODY)
            answer = read_answer(client)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"retry-after" not in answer
        assert answer.endswith(BUSY.format("the caller's time was over before there was an answer").encode())
        assert 0.8 < time.monotonic() - began < 1.0 + PATIENCE / 10


class FewConnections(Connection):
    most_connections = 3


@contextmanager
def listening(
    door: Door,
    connection: type[Connection] = Connection,
    grace: float = 5.0,
    handshakes: int = MOST_HANDSHAKES,
    handshake_seconds: float = HANDSHAKE_SECONDS,
) -> Iterator[tuple[int, Callable[[], None]]]:
    """The app on a port, in a thread; and what ends it, for one that is to end before the context does."""
    config = server_config(door.app, OwnCertificate("127.0.0.1"))
    config.http = connection
    sockets = listen_on("127.0.0.1", 0)
    server = Server(config, lambda: None)
    server.grace_seconds = grace
    server.most_handshakes, server.handshake_seconds = handshakes, handshake_seconds
    thread = threading.Thread(target=server.run, args=(sockets,))
    thread.start()

    def end() -> None:
        door.readiness.draining = server.should_exit = True

    try:
        yield sockets[0].getsockname()[1], end
    finally:
        end()
        thread.join()


@contextmanager
def connected(port: int) -> Iterator[ssl.SSLSocket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as plain, secured(plain) as secure:
        yield secure


def secured(plain: socket.socket) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain)


def head(length: int, timeout: str = "10s") -> bytes:
    return (
        f"POST /validate?timeout={timeout} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def read_answer(client: ssl.SSLSocket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = client.recv(65536)
        assert piece, received
        received += piece
    start, _, rest = received.partition(b"\r\n\r\n")
    length = int(start.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    while len(rest) < length:
        rest += client.recv(65536)
    return start + b"\r\n\r\n" + rest


def is_over(client: ssl.SSLSocket) -> bool:
    try:
        return client.recv(1) == b""
    except OSError:
        return True


class TestStalledClients:
    def test_the_room_of_stalled_bodies_goes_to_others(self) -> None:
        """Each sends 400 of 500 kB and then nothing, and there is room for 1 MB."""
        with door_of(load=Load(most_bytes=10**6)) as door, listening(door) as (port, _), ExitStack() as stack:
            stalled = [stack.enter_context(connected(port)) for _ in range(5)]
            for client in stalled:
                client.sendall(head(500_000) + b" " * 400_000)
            for client in stalled[:3]:
                answer = read_answer(client)
                assert answer.startswith(b"HTTP/1.1 429 ")
                assert b"\r\nretry-after: 1\r\nconnection: close\r\n" in answer
                assert is_over(client)
            with connected(port) as client:
                client.sendall(head(len(BODY)) + BODY)
                assert read_answer(client).startswith(b"HTTP/1.1 200 ")
            stalled[4].sendall(b" " * (100_000 - len(BODY)) + BODY)
            assert read_answer(stalled[4]).startswith(b"HTTP/1.1 200 ")

    def test_the_connection_that_is_silent_for_longest_has_to_go(self) -> None:
        load = Load()
        with door_of(load=load) as door, listening(door, FewConnections) as (port, _), ExitStack() as stack:
            idle, stalled, talking = (stack.enter_context(connected(port)) for _ in range(3))
            assert ask(idle)
            stalled.sendall(head(1000) + b" ")
            until(lambda: load.in_flight[Stage.VALIDATE] == 1)
            assert ask(talking)
            assert ask(stack.enter_context(connected(port)))
            assert is_over(idle)
            assert ask(talking)
            assert ask(stack.enter_context(connected(port)))
            assert is_over(stalled)
            assert ask(talking)


def ask(client: ssl.SSLSocket) -> bool:
    client.sendall(head(len(BODY)) + BODY)
    return read_answer(client).startswith(b"HTTP/1.1 200 ")


class TestEnd:
    def test_what_has_begun_is_answered(self) -> None:
        """A head, a body and a connection that was opened a moment ago: the API server is about to write into it."""
        with door_of() as door, listening(door) as (port, end), ExitStack() as stack:
            in_head, in_body = (stack.enter_context(connected(port)) for _ in range(2))
            in_head.sendall(head(len(BODY))[:10])
            in_body.sendall(head(len(BODY)) + BODY[:10])
            until(lambda: 'in_flight{webhook="validate"} 1.0' in metrics_of(port))
            fresh = stack.enter_context(connected(port))
            end()
            until(lambda: refuses(port))
            in_head.sendall(head(len(BODY))[10:] + BODY)
            in_body.sendall(BODY[10:])
            fresh.sendall(head(len(BODY)) + BODY)
            for client in (in_head, in_body, fresh):
                answer = read_answer(client)
                assert answer.startswith(b"HTTP/1.1 200 ")
                assert b"\r\nconnection: close\r\n" in answer
                assert is_over(client)

    def test_a_handshake_that_has_begun_is_waited_for(self) -> None:
        """In TLS 1.3 its client is done first, and writes at once. On a busy machine it takes its time, also to begin:
        what has connected is taken."""
        with door_of() as door, listening(door) as (port, end), ExitStack() as stack:
            clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE)) for _ in range(5)]
            end()
            until(lambda: refuses(port))
            time.sleep(0.5)
            for plain in clients:
                with secured(plain) as client:
                    assert ask(client)

    def test_an_idle_connection_is_told_to_call_again(self) -> None:
        """For a request that crosses the end: an API server repeats what is answered so, and nothing else."""
        with door_of() as door, listening(door) as (port, end), connected(port) as idle:
            assert ask(idle)
            end()
            answer = read_answer(idle)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: 1\r\nconnection: close" in answer
            assert is_over(idle)

    def test_a_body_that_never_ends_is_one_line(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        with door_of() as door, listening(door, grace=0.2) as (port, end), connected(port) as client:
            client.sendall(head(1000) + b" ")
            until(lambda: 'in_flight{webhook="validate"} 1.0' in metrics_of(port))
            end()
            answer = read_answer(client)
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert answer.endswith(BUSY.format("this server is shutting down").encode())
        (line,) = (record for record in caplog.records if record.levelno > logging.INFO)
        assert (line.getMessage(), line.exc_info) == ("requests shed", None)
        assert vars(line)["fields"]["reasons"] == {"shutting-down": 1}


def metrics_of(port: int) -> str:
    with connected(port) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return read_answer(client).decode()


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except OSError:
        return True
    return False
