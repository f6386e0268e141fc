"""A server that is measured: a process of its own that answers reviews over TLS, on a port of loopback."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from benchmarks.start import Usage

HOST = "127.0.0.1"
_ROOT = Path(__file__).parents[2]
_START_SECONDS, _STOP_SECONDS, _ANSWER_SECONDS = 120.0, 10.0, 60.0
_POLL_SECONDS = 0.005
_LONGEST_LOG = 1 << 20


class Contender:
    """A running server. `ready` is the seconds from its start to the first time that it says so."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], port: int, log: Path, context: ssl.SSLContext):
        self.name = name
        self.port = port
        self.ready = 0.0
        self.process = process
        self._log = log
        self._context = context

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    @property
    def usage(self) -> Usage:
        return Usage.of(self.process.pid)

    def trim_log(self) -> None:
        """A server that logs each patch would fill the disk in a million reviews."""
        if self._log.stat().st_size > _LONGEST_LOG:
            os.truncate(self._log, 0)

    @contextmanager
    def connection(self) -> Iterator[http.client.HTTPSConnection]:
        made = http.client.HTTPSConnection(HOST, self.port, timeout=_ANSWER_SECONDS, context=self._context)
        try:
            yield made
        finally:
            made.close()

    def ask(self, path: str, body: bytes) -> Any:
        """The response to a review. Raises RuntimeError if it is no answer to one."""
        with self.connection() as connection:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{self.name}: {path} answered {answer.status}: {text[:500].decode(errors='replace')}")
        response = orjson.loads(text)["response"]
        if response["uid"] != orjson.loads(body)["request"]["uid"]:
            raise RuntimeError(f"{self.name}: {path} answered another review")
        return response

    def warm(self, path: str, body: bytes, count: int) -> None:
        """So many reviews, one after the other."""
        with self.connection() as connection:
            for _ in range(count):
                connection.request("POST", path, body, {"Content-Type": "application/json"})
                connection.getresponse().read()

    def wait(self, began: float, path: str) -> None:
        """Until it answers 200 there, or, '' for a server that tells nothing, takes connections."""
        while not self._answers(path):
            if self.process.poll() is not None or time.monotonic() > began + _START_SECONDS:
                raise RuntimeError(f"{self.name} did not start: {self._log.read_text(errors='replace')[-2000:]}")
            time.sleep(_POLL_SECONDS)
        self.ready = time.monotonic() - began

    def _answers(self, path: str) -> bool:
        try:
            if not path:
                with socket.create_connection((HOST, self.port), timeout=_ANSWER_SECONDS):
                    return True
            with self.connection() as connection:
                connection.request("GET", path)
                return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def end(self) -> None:
        """SIGINT at first: ours then does not drain for seconds."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_SECONDS)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def running(name: str, words: Sequence[str], port: int, certificates: Path, ready: str = "") -> Iterator[Contender]:
    """The command of these words, from its start to its end."""
    context = ssl.create_default_context(cafile=str(certificates / "tls.crt"))
    log = certificates / f"{name.replace(' ', '-')}.log"
    # No cluster of somebody's, not even by chance.
    environment = {key: text for key, text in os.environ.items() if not key.startswith("KUBE")}
    with log.open("ab") as output:
        began = time.monotonic()
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=_ROOT, env=environment, process_group=0
        )
    contender = Contender(name, process, port, log, context)
    try:
        contender.wait(began, ready)
        yield contender
    finally:
        contender.end()


def free_port() -> int:
    with socket.create_server((HOST, 0)) as found:
        return int(found.getsockname()[1])


def ours(port: int, certificates: Path, policy: Path, *source: str) -> list[str]:
    """The command that serves Floorkeeper. `source` is --state or --kubeconfig with its value."""
    command = [sys.executable, "-m", "webhook", "serve", "--host", HOST, "--port", str(port), "--policy", str(policy)]
    pair = ["--tls-cert", str(certificates / "tls.crt"), "--tls-key", str(certificates / "tls.key")]
    return [*command, *pair, *source]
