"""The log: in order, whole, and never in the way of a decision."""

from __future__ import annotations

import http.client
import json
import logging
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from tests.cases import FIXTURES, read_documents
from tests.door import review_of
from tests.serving import PATIENCE, until
from webhook.server.log import MOST_LINES, STOP_SECONDS, Log

LOST = "log lines were lost, since they were not read as fast as they came"
DENIED = json.dumps(review_of(read_documents(FIXTURES / "implicit-gpu-request" / "fail-limit-only.yaml")[-1]))


@contextmanager
def logger_to(descriptor: int, most_lines: int = MOST_LINES) -> Iterator[tuple[logging.Logger, Log]]:
    handler = Log(descriptor, most_lines)
    logger = logging.Logger("x")
    logger.addHandler(handler)
    try:
        yield logger, handler
    finally:
        handler.close()


class Pipe:
    """A pipe that nobody reads, until `read`."""

    def __init__(self) -> None:
        self._end, self.descriptor = os.pipe()
        self.lines: list[dict[str, Any]] = []

    def read(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with open(self._end, "rb") as file:
            self.lines.extend(json.loads(line) for line in file)

    def break_off(self) -> None:
        os.close(self._end)


class TestPipe:
    def test_one_that_nobody_reads_holds_nothing_up(self) -> None:
        pipe = Pipe()
        with logger_to(pipe.descriptor, 100) as (logger, log):
            longest = 0.0
            for number in range(3000):
                began = time.perf_counter()
                logger.info("%d %s", number, "x" * 500)
                longest = max(longest, time.perf_counter() - began)
            assert longest < 1
            assert 2000 < log.dropped < 2900, "a pipe takes 64 kB, and 100 lines wait"
            pipe.read()
            until(lambda: sum(line["lines"] for line in pipe.lines if line["message"] == LOST) == log.dropped)
            logger.info("after")
        os.close(pipe.descriptor)
        until(lambda: pipe.lines[-1]["message"] == "after")
        numbers = [int(line["message"].split()[0]) for line in pipe.lines if line["message"].endswith("x")]
        assert numbers == sorted(set(numbers))
        assert len(numbers) == 3000 - log.dropped
        assert pipe.lines[-2]["message"] == LOST, "once it drains"

    def test_one_whose_reader_is_gone(self) -> None:
        pipe = Pipe()
        pipe.break_off()
        with logger_to(pipe.descriptor) as (logger, log):
            for _ in range(3):
                logger.info("x")
            until(lambda: log.dropped == 3)
        os.close(pipe.descriptor)

    def test_what_it_took_before_it_failed_is_not_lost(self) -> None:
        """A pipe of which the reader takes some and goes: whole lines were delivered."""
        pipe = Pipe()
        with logger_to(pipe.descriptor) as (logger, log):
            for number in range(500):
                logger.info("%d %s", number, "x" * 500)
            until(lambda: log.queue.qsize() < 500)
            time.sleep(0.2)
            received = os.read(pipe._end, 2**20)
            pipe.break_off()
            until(lambda: log.dropped > 0)
            until(lambda: log.queue.empty())
        os.close(pipe.descriptor)
        assert 100 < received.count(b"\n") <= 500 - log.dropped < 400

    def test_what_was_lost_is_told_before_the_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever has closed the log may close the descriptor."""
        pipe = Pipe()
        with logger_to(pipe.descriptor, 0) as (logger, log):
            notice = log._writer._notice

            def late(lines: int) -> bytes:
                time.sleep(0.2)
                return notice(lines)

            monkeypatch.setattr(log._writer, "_notice", late)
            logger.info("x")
            assert log.dropped == 1
        os.close(pipe.descriptor)
        pipe.read()
        until(lambda: len(pipe.lines) == 1)
        assert (pipe.lines[0]["message"], pipe.lines[0]["lines"]) == (LOST, 1)

    def test_one_that_is_shared_with_who_does_not_wait(self) -> None:
        """Whoever sets a terminal or a pipe to non-blocking sets it so for all that write to it."""
        pipe = Pipe()
        os.set_blocking(pipe.descriptor, False)
        with logger_to(pipe.descriptor) as (logger, log):
            for number in range(500):
                logger.info("%d %s", number, "x" * 500)
            until(lambda: log.queue.qsize() < 500)
            pipe.read()
            until(lambda: len(pipe.lines) == 500)
        os.close(pipe.descriptor)
        assert [int(line["message"].split()[0]) for line in pipe.lines] == list(range(500))
        assert log.dropped == 0


PROGRAM = """
import contextlib, logging
from webhook.server.log import log_to
with contextlib.closing(log_to(2)):
    for number in range(%d):
        logging.info("%%d %%s", number, "x" * 500)
    %s
"""


def program(lines: int, last: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM % (lines, last)], stderr=subprocess.PIPE, text=True)


class TestExit:
    def test_everything_is_written_and_then_why_it_ended(self) -> None:
        process = program(300, "raise ZeroDivisionError")
        _, text = process.communicate(timeout=PATIENCE)
        lines = text.splitlines()
        assert [int(json.loads(line)["message"].split()[0]) for line in lines[:300]] == list(range(300))
        assert (lines[300], lines[-1]) == ("Traceback (most recent call last):", "ZeroDivisionError")
        assert process.returncode == 1

    def test_nobody_is_waited_for(self) -> None:
        process = program(300, "")
        assert process.stderr is not None
        began = time.monotonic()
        assert process.wait(PATIENCE) == 0
        assert time.monotonic() - began > STOP_SECONDS, "it waits a little"
        process.stderr.close()


class TestServing:
    def test_reviews_are_answered_while_nobody_reads_the_log(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        shutil.copy(FIXTURES / "base" / "cluster.yaml", tmp_path)
        command = [sys.executable, "-m", "webhook", "serve", "--port", str(port), "--state", str(tmp_path)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            client = connected(port)
            for _ in range(MOST_LINES + 200):
                client.request("POST", "/validate", DENIED, {"Content-Type": "application/json"})
                assert client.getresponse().read().startswith(b'{"apiVersion"')
            client.request("GET", "/metrics")
            metrics = client.getresponse().read().decode()
            dropped = [line for line in metrics.splitlines() if line.startswith("floorkeeper_log_lines_dropped_total")]
            count = int(float(dropped[0].split()[1]))
            assert count > 0
            assert process.stderr is not None
            lines = read_lines(process.stderr)
            (told,) = until(lambda: [line for line in lines if line["message"] == LOST])
            assert told["lines"] == count
            client.close()
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
            until(lambda: lines[-1]["message"] == "stopped")
        finally:
            process.kill()
            process.wait()


def read_lines(stream: IO[bytes]) -> list[dict[str, Any]]:
    """Fills up in a thread."""
    lines: list[dict[str, Any]] = []

    def read() -> None:
        with stream:
            lines.extend(json.loads(line) for line in stream)

    threading.Thread(target=read, daemon=True).start()
    return lines


def connected(port: int) -> http.client.HTTPSConnection:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE)

    def connects() -> bool:
        try:
            client.connect()
        except OSError:
            return False
        return True

    until(connects)
    return client
