"""`floorkeeper serve` as a child process, and a client that trusts its certificate and no other."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from scripts.quickstart.certificate import CertificateFiles
from scripts.quickstart.signals import Signals

HOST = "127.0.0.1"
_START_SECONDS = 30.0  # a cold, busy machine imports for some seconds
_STOP_SECONDS = 10.0
_ANSWER_SECONDS = 10.0  # the API server's own patience
_POLL_SECONDS = 0.05
_TAIL_LINES = 15


class ServerFailed(Exception):
    """The server did not start, or ended: the message holds what it said itself."""


class Interrupted(Exception):
    """A signal came while the server was starting."""


class Client:
    """HTTPS with one connection, which is opened again when it was closed."""

    def __init__(self, port: int, certificate: Path) -> None:
        self.port = port
        self._context = ssl.create_default_context(cafile=str(certificate))
        self._connection = HTTPSConnection(HOST, port, context=self._context, timeout=_ANSWER_SECONDS)

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body. Raises OSError and HTTPException."""
        return self._request("GET", path, None)

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Sends JSON; status and body come back. Raises OSError and HTTPException."""
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        try:
            self._connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException):
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()


class Server:
    """A running child. `client` reaches it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, client: Client) -> None:
        self._process = process
        self._log = log
        self._read = 0  # bytes of the log that were handed out
        self.client = client

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.client.port}"

    def check(self) -> None:
        """Raises ServerFailed if the server has ended."""
        if self._process.poll() is not None:
            raise ServerFailed(f"the server ended:\n{_tail(self._log)}")

    def new_log_entries(self) -> Iterator[dict[str, Any]]:
        """What the server logged since the last call."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            # A line without its end is still being written.
            lines = [line for line in file if line.endswith(b"\n")]
        self._read += sum(map(len, lines))
        for line in lines:
            with suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    yield entry


@contextmanager
def serving(
    port: int, state: Path, policy: Path, files: CertificateFiles, log: Path, signals: Signals
) -> Iterator[Server]:
    """A server that is ready, until the block ends. Port 0 is any free one. Raises ServerFailed and Interrupted."""
    command = [sys.executable, "-m", "webhook", "serve", f"--host={HOST}", f"--port={port}", f"--state={state}",
               f"--policy={policy}", f"--tls-cert={files.certificate}", f"--tls-key={files.key}"]  # fmt: skip
    with log.open("wb") as output:
        # A group of its own: Ctrl-C in the terminal reaches us alone, and we end the server when we are done with it.
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0)
    client: Client | None = None
    try:
        client = _ready(process, log, files.certificate, signals)
        yield Server(process, log, client)
    finally:
        if client is not None:
            client.close()
        _stop(process)


def _ready(process: subprocess.Popen[bytes], log: Path, certificate: Path, signals: Signals) -> Client:
    """A client of the server, once /readyz says yes."""
    deadline = time.monotonic() + _START_SECONDS
    client: Client | None = None
    said = "it does not listen yet"
    while time.monotonic() < deadline:
        if signals.received is not None:
            raise Interrupted
        if process.poll() is not None:
            raise ServerFailed(f"the server did not start:\n{_tail(log)}{_advice(log)}")
        port = _listening_port(log)
        if client is None and port is not None:
            client = Client(port, certificate)
        if client is not None:
            try:
                status, body = client.get("/readyz")
            except (OSError, HTTPException) as error:
                said = str(error)
            else:
                if status == 200:
                    return client
                said = body.decode(errors="replace")
        time.sleep(_POLL_SECONDS)
    raise ServerFailed(f"the server was not ready after {_START_SECONDS:.0f} s: {said}\n{_tail(log)}")


def _listening_port(log: Path) -> int | None:
    """The port of the log line that tells of the start, None so far."""
    for line in log.read_text(errors="replace").splitlines():
        if '"serving"' in line:
            return int(json.loads(line)["address"].rpartition(":")[2])
    return None


def _advice(log: Path) -> str:
    taken = "cannot listen on" in log.read_text(errors="replace")
    return "\nChoose another port: ./scripts/run --port N (0 is any free one)" if taken else ""


def _tail(log: Path) -> str:
    return "\n".join(f"  {line}" for line in log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the server. SIGINT rather than SIGTERM: nobody else sends requests, so it need not drain for seconds."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
