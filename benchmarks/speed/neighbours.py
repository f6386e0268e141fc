"""Servers that answer and decide nothing: `python -m benchmarks.speed.neighbours NAME PORT CERTIFICATES [ANSWERS]`.

All run under uvicorn, with uvloop and httptools, as ours does. They take the uid from where kube-apiserver writes it,
at the front of the request.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

_FIELD = b'"uid":"'
_LENGTH = 36
_ALLOWED = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"%s","allowed":true}}'


class RawApp:
    """Answers each path with bytes that have the uid in place of %s."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self._answers = {path: tuple(answer.split(b"%s")) for path, answer in answers.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        front, back = self._answers[scope["path"]]
        start = body.index(_FIELD) + len(_FIELD)
        payload = front + body[start : start + _LENGTH] + back
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(payload))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": payload})


def floor() -> ASGIApp:
    """The least that a server in Python can do: read the request, write an answer."""
    return RawApp(dict.fromkeys(("/mutate", "/validate"), _ALLOWED))


def canned(answers: Path) -> ASGIApp:
    """The same with answers of ours, from a file: path to text."""
    return RawApp({path: text.encode() for path, text in json.loads(answers.read_text()).items()})


def fastapi() -> ASGIApp:
    """A route that decodes the body itself."""
    app = FastAPI(openapi_url=None)

    async def review(request: Request) -> Response:
        asked = orjson.loads(await request.body())
        answer: dict[str, Any] = {"uid": asked["request"]["uid"], "allowed": True}
        value = {"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": answer}
        return Response(orjson.dumps(value), media_type="application/json")

    for path in ("/mutate", "/validate"):
        app.post(path, response_model=None)(review)
    return app


def main() -> None:
    name, port, certificates, *answers = sys.argv[1:]
    made: ASGIApp = canned(Path(answers[0])) if name == "canned" else {"floor": floor, "fastapi": fastapi}[name]()
    uvicorn.run(
        made,
        host="127.0.0.1",
        port=int(port),
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=120,
        ssl_certfile=str(Path(certificates) / "tls.crt"),
        ssl_keyfile=str(Path(certificates) / "tls.key"),
    )


if __name__ == "__main__":
    main()
