"""An admission webhook that allows everything and remembers what it was asked."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Recorder:
    """HTTPS at one address, with the certificate tls.crt and tls.key of a folder."""

    def __init__(self, address: str, port: int, certificate: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
        self._server = _Server((address, port), context)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def calls(self, namespace: str, name: str | None = None) -> list[str]:
        """What was asked about a namespace, or about one object of it, sorted: 'mutate CREATE deployments'.

        A Namespace is in itself.
        """
        return sorted(
            f"{door} {request['operation']} {_resource(request)}"
            for door, request in list(self._server.asked)
            if request.get("namespace") == namespace and name in (None, request.get("name"))
        )

    def calls_about(self, resource: str, name: str) -> list[str]:
        """What was asked about objects of a kind and a name, in any namespace or in none."""
        return sorted(
            f"{door} {request['operation']} {_resource(request)}"
            for door, request in list(self._server.asked)
            if request["resource"]["resource"] == resource and request.get("name") == name
        )

    def clear(self) -> None:
        self._server.asked.clear()

    def stop(self) -> None:
        """As if it were killed: the port is closed, and so is every connection that the API server keeps."""
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._server.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=10)


def _resource(request: dict[str, Any]) -> str:
    subresource = request.get("subResource")
    return str(request["resource"]["resource"]) + (f"/{subresource}" if subresource else "")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], context: ssl.SSLContext) -> None:
        super().__init__(address, _Handler)
        self._context = context
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.connections: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = self.socket.accept()
        # The handshake is left to the connection's own thread, where a slow client holds up nobody.
        wrapped = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        self.connections.add(wrapped)
        return wrapped, address

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: broken connections are what `stop` makes."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        door = self.path.partition("?")[0].strip("/")
        self.server.asked.append((door, review["request"]))
        response = {"uid": review["request"]["uid"], "allowed": True}
        answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
