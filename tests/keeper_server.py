"""The API server of tests/keeper_world.py over HTTP, with watches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.keeper_world import MemoryApi
from webhook.sources.connection import StatusError


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: KeeperServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        query = dict(parse_qsl(where.query))
        try:
            if "watch" in query:
                self._watch(where.path, query)
            else:
                self._answer(200, self.server.ask(self.command, where.path, self._body()))
        except StatusError as error:
            status = {"kind": "Status", "code": error.code, "reason": error.reason, "message": str(error)}
            self._answer(error.code, status)

    def do_POST(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        self.do_GET()

    def _body(self) -> Any:
        length = int(self.headers.get("Content-Length") or 0)
        return json.loads(self.rfile.read(length)) if length else None

    def _answer(self, code: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self, path: str, query: dict[str, str]) -> None:
        """The object that the field selector names, now and whenever it changes, until the server ends."""
        plural, name = path.rpartition("/")[2], query["fieldSelector"].removeprefix("metadata.name=")
        self.server.refuse("watch", plural)
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        seen: Any = None
        while not self.server.ended.is_set():
            with self.server.lock:
                found = self.server.api.objects.get(f"{path}/{name}")
            if found is not None and found != seen:
                seen = found
                self.wfile.write(json.dumps({"type": "MODIFIED", "object": found}).encode() + b"\n")
            time.sleep(0.01)


class KeeperServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: MemoryApi) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api
        self.lock = threading.Lock()
        self.ended = threading.Event()

    def ask(self, method: str, path: str, body: Any) -> Any:
        """Raises StatusError."""
        with self.lock, self.api.request(method, path, {}, body, silence=1.0) as answer:
            return json.loads(answer.read())

    def refuse(self, verb: str, plural: str) -> None:
        """Raises StatusError if that is not allowed."""
        if (verb, plural) in self.api.refused:
            raise StatusError(403, f"{plural} is forbidden: cannot {verb} resource", "Forbidden")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: clients that hang up are what tests make."""


@contextmanager
def served(api: MemoryApi, folder: Path) -> Iterator[tuple[KeeperServer, Path]]:
    """The server, and a kubeconfig that leads there."""
    server = KeeperServer(api)
    kubeconfig = folder / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "x", "user": {"token": "x"}}],
    }
    kubeconfig.write_text(json.dumps(config))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server, kubeconfig
    finally:
        server.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
