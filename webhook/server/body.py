"""The body of a review: of the right type, not too large, and not too slow."""

from __future__ import annotations

from starlette.types import Message, Receive, Scope

from webhook.server.load import Call, Load

MAX_BODY = 8 * 1024 * 1024
"""Bytes. A review holds an object twice, and etcd takes 1.5 MiB, the API server 3 MiB of each."""

_JSON = b"application/json"
BODY_SECONDS = 15.0
"""How long a client that names no timeout may take to send a body."""


class Refused(Exception):
    """A request that is not judged at all."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error


class ClientGone(Exception):
    """Nobody is left to answer to."""


async def read_body(scope: Scope, receive: Receive, call: Call, load: Load) -> bytes:
    """The body, once its type and size are found to be right. Raises Refused, ClientGone, and webhook.server.load.Shed
    if there is no room for it."""
    check_head(scope)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        _count(call, load, body)
    else:
        body = await _read_chunks(message, receive, call, load)
    load.complete(call)
    return body


def check_head(scope: Scope) -> None:
    """Raises Refused for a body that its head says is of the wrong type, or too large."""
    for name, value in scope["headers"]:
        if name == b"content-type":
            if value != _JSON and value.partition(b";")[0].strip().lower() != _JSON:
                raise Refused(415, "header Content-Type: must be application/json")
        elif name == b"content-length" and value.isdigit() and int(value[:19]) > MAX_BODY:
            raise _too_large()


async def _read_chunks(message: Message, receive: Receive, call: Call, load: Load) -> bytes:
    chunks: list[bytes] = []
    while True:
        if message["type"] != "http.request":
            raise ClientGone
        chunk = message.get("body", b"")
        _count(call, load, chunk)
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await receive()


def _count(call: Call, load: Load, chunk: bytes) -> None:
    if call.size + len(chunk) > MAX_BODY:
        raise _too_large()
    load.receive(call, len(chunk))


def _too_large() -> Refused:
    return Refused(413, f"body: must have at most {MAX_BODY} bytes")
