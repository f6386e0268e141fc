"""`floorkeeper serve` as a process of its own, on a port of loopback, and what it says on stderr."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

PATIENCE = 20.0
"""Seconds after which something that should happen counts as never happening."""


def run(*arguments: str, **more: str) -> subprocess.Popen[str]:
    """The command `floorkeeper`, started. The environment names no cluster, unless `more` does."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("KUBE", "HOME"))}
    return subprocess.Popen(
        [sys.executable, "-m", "webhook", *arguments],
        env={**environment, "HOME": "/nonexistent", **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(happened: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What `happened` answers, once that is true."""
    end = time.monotonic() + seconds
    while True:
        found = happened()
        if found or time.monotonic() > end:
            assert found, "it never happened"
            return found
        time.sleep(0.02)


class Serving:
    """A server that serves."""

    def __init__(self, *arguments: str) -> None:
        self.process = run("serve", "--port", "0", *arguments)
        self.lines: list[dict[str, Any]] = []
        """What it logged so far."""

        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            (started,) = until(lambda: self.logged("serving") or self._ended())
        except BaseException:
            self.end()
            raise
        self.started: dict[str, Any] = started
        self.url: str = started["address"]
        self.port = int(self.url.rpartition(":")[2])

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(json.loads(line))

    def _ended(self) -> bool:
        assert self.process.poll() is None, self.lines
        return False

    def logged(self, message: str) -> list[dict[str, Any]]:
        """What has been read of it so far: it is written and read beside the answers, so wait for it with `until`."""
        return [line for line in self.lines if line["message"] == message]

    def certificate(self) -> str:
        """The certificate that a new connection gets, in PEM."""
        return ssl.get_server_certificate(("127.0.0.1", self.port), timeout=PATIENCE)

    def trusting(self, *certificates: str) -> ssl.SSLContext:
        """A client's context that trusts these certificates, or without any, the one served now; and nothing else."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata="\n".join(certificates or (self.certificate(),)))
        return context

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.url, verify=self.trusting(), timeout=PATIENCE, trust_env=False) as client:
            yield client

    @contextmanager
    def connection(self) -> Iterator[ssl.SSLSocket]:
        """A connection on which the test writes HTTP itself."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        with plain, self.trusting().wrap_socket(plain, server_hostname="localhost") as secure:
            yield secure

    def end(self) -> int:
        """Stops it, gently at first, and answers its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        code = self.process.wait()
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


@contextmanager
def serving(*arguments: str) -> Iterator[Serving]:
    server = Serving(*arguments)
    try:
        yield server
    finally:
        server.end()
