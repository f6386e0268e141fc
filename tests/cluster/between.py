"""A proxy between a command and the API server, for what is to happen at a certain request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import yaml

from tests.cluster.controlplane import Cluster


@dataclass(frozen=True)
class Passed:
    """A request that comes through, the how manieth of its kind, from 1."""

    method: str
    path: str
    count: int
    dry_run: bool = False

    @property
    def writes(self) -> bool:
        return self.method == "PATCH" and not self.dry_run


Hook = Callable[[Passed], object]


@dataclass
class Between:
    kubeconfig: Path
    before: Hook = lambda passed: None
    """Before the API server sees it. True: it never does."""

    after: Hook = lambda passed: None
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    between: Between
    client: httpx.Client

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        # Whoever is interrupted may end a connection in any state.
        with suppress(ConnectionError):
            super().handle()

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        sent = {name: self.headers[name] for name in ("Accept", "Content-Type") if name in self.headers}
        with self.between.lock:
            key = self.command, self.path.partition("?")[0]
            count = self.between.counts[key] = self.between.counts.get(key, 0) + 1
            passed = Passed(*key, count, "dryRun=All" in self.path)
            if self.between.before(passed) is True:
                self.close_connection = True
                return
            answer = self.client.request(self.command, self.path, content=body, headers=sent)
            self.between.after(passed)
        # Whoever was interrupted does not wait for the answer.
        with suppress(ConnectionError):
            self.send_response(answer.status_code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

    do_GET = do_POST = do_PATCH = _pass  # noqa: N815


@contextmanager
def between(cluster: Cluster, directory: Path) -> Iterator[Between]:
    """One request at a time; `kubeconfig` leads through it, with every right."""
    assert cluster.reading is not None
    found = Between(directory / "between.yaml")
    handler = type("Handler", (_Passing,), {"between": found, "client": cluster.reading.client})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "users": [{"name": "me", "user": {}}],
    }
    found.kubeconfig.write_text(yaml.safe_dump(config))
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
