"""Three paths, to be read and nothing else: the page, its data, and whether this process lives."""

from __future__ import annotations

import logging
from collections.abc import Collection

import orjson
from starlette.types import Receive, Scope, Send

from webhook.live.page.board import Board
from webhook.live.page.document import document
from webhook.live.page.hosts import Hosts

CLOCK_HEADER = "floorkeeper-clock"
"""How fresh the data are, as JSON: also on an answer that they have not changed."""

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
_BODY = (b"content-length", b"transfer-encoding")
_NOTHING = "default-src 'none'; frame-ancestors 'none'"

log = logging.getLogger("floorkeeper.page")


class PageApp:
    """The ASGI app. Paths are compared as a whole, so that no file can be reached by one; bodies are not read."""

    def __init__(self, board: Board, names: Collection[str] = ()) -> None:
        """`names` are those that the page is taken under, beside addresses and localhost."""
        self._board = board
        self._hosts = Hosts(names)
        self._answers = {"/": self._page, "/data.json": self._data, "/healthz": self._health}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  (no body is read)
        if scope["type"] != "http":
            return
        answer = self._answers.get(scope["path"])
        # Whoever looks whether we live, such as a kubelet or a load balancer, may call us anything.
        refusal = "" if answer == self._health else self._hosts.refusal(_said(scope, b"host"))
        if refusal:
            status, headers, body = _text(421, refusal)
        elif any(name in _BODY and value != b"0" for name, value in scope["headers"]):
            status, headers, body = _text(413, "a request has no body here", connection="close")
        elif answer is None:
            status, headers, body = _text(404, "not found; there is / and /data.json")
        elif scope["method"] not in ("GET", "HEAD"):
            status, headers, body = _text(405, "this page is only read", allow="GET, HEAD")
        else:
            try:
                status, headers, body = answer(scope)
            except Exception:
                log.exception("answering failed")
                status, headers, body = _text(500, "internal error; see Floorkeeper's log")
        if status != 304:
            headers["content-length"] = str(len(body))
        headers = {"content-security-policy": _NOTHING, "cache-control": "no-cache", **_SAFE, **headers}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _page(self, scope: Scope) -> _Answer:
        page = document()
        headers = {"etag": f'"{page.tag}"', "content-security-policy": page.policy}
        if _has(scope, page.tag):
            return 304, headers, b""
        return 200, headers | {"content-type": "text/html; charset=utf-8"}, page.html

    def _data(self, scope: Scope) -> _Answer:
        data = self._board.data()
        clock = orjson.dumps({**self._board.clock(), "page": document().tag})
        headers = {"etag": f'W/"{data.tag}"', CLOCK_HEADER: clock.decode()}
        if _has(scope, data.tag):
            return 304, headers, b""
        return 200, headers | {"content-type": _JSON}, b'{"clock":%b,%b\n' % (clock, data.body[1:])

    def _health(self, _scope: Scope) -> _Answer:
        return 200, {"content-type": _JSON}, b'{"status":"ok"}\n'


_Answer = tuple[int, dict[str, str], bytes]


def _text(status: int, text: str, **headers: str) -> _Answer:
    return status, {"content-type": _TEXT, **headers}, f"{text}\n".encode()


def _said(scope: Scope, header: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == header]


def _has(scope: Scope, tag: str) -> bool:
    """Whether the client says that it has this content (If-None-Match)."""
    said = b",".join(_said(scope, b"if-none-match")).decode("latin-1")
    tags = {each.strip().removeprefix("W/") for each in said.split(",")}
    return "*" in tags or f'"{tag}"' in tags
