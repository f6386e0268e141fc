"""The routes."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from webhook import __version__
from webhook.engine.rule import Rule, Stage
from webhook.server.admission import Admission
from webhook.server.endpoint import AdmissionEndpoint
from webhook.server.load import Load, LoadCollector
from webhook.server.log import LogCollector
from webhook.server.metrics import Metrics
from webhook.server.readiness import Readiness

if TYPE_CHECKING:  # there only where audits are done, or a page is
    from webhook.live.audit.metrics import AuditMetrics
    from webhook.live.page.denials import Denials


def app(
    rules: Sequence[Rule],
    readiness: Readiness,
    load: Load | None = None,
    denials: Denials | None = None,
    audit: AuditMetrics | None = None,
) -> FastAPI:
    """The app that judges by these rules, with the policy and facts that `readiness` reports on.

    `denials` keeps the last ones for the page, None without one. `audit` are the metrics of audits, None if none are
    done.
    """
    metrics = Metrics(readiness)
    admission = Admission(rules, readiness.policies, readiness.source)
    load = load or Load()
    for collector in (LoadCollector(load), LogCollector(), *([audit] if audit is not None else ())):
        metrics.registry.register(collector)
    webhooks = {
        f"/{stage.value}": AdmissionEndpoint(stage, admission, metrics, readiness, load, denials) for stage in Stage
    }
    routes: list[BaseRoute] = [
        # An endpoint that is no function is called as the ASGI app that it is.
        *(Route(path, endpoint, methods=["POST"]) for path, endpoint in webhooks.items()),
        *_reports(readiness, metrics),
    ]
    return _App(
        webhooks,
        title="Floorkeeper",
        version=__version__,
        openapi_url=None,
        redirect_slashes=False,
        routes=routes,
        exception_handlers={HTTPException: _http_error, Exception: _own_fault},
    )


class _App(FastAPI):
    """FastAPI, save that reviews go straight to their webhook: its middleware would cost as much as a judgement."""

    def __init__(self, posted: Mapping[str, AdmissionEndpoint], **settings: Any) -> None:
        super().__init__(**settings)
        self._posted = posted

    def at_once(self, scope: Scope, body: bytearray) -> bytes | None:
        """As webhook.server.connection.AtOnce."""
        endpoint = self._posted.get(scope["path"]) if scope["method"] == "POST" else None
        return None if endpoint is None else endpoint.at_once(scope, body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._posted.get(scope.get("path", ""))
        if endpoint is not None and scope["type"] == "http" and scope["method"] == "POST":
            await endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def _reports(readiness: Readiness, metrics: Metrics) -> list[Route]:
    async def healthz(_request: Request) -> Response:
        return _json({"status": "ok"})

    async def readyz(_request: Request) -> Response:
        report = readiness.report()
        return _json(report, 200 if report["ready"] else 503)

    async def version(_request: Request) -> Response:
        return _json({"version": __version__, "python": platform.python_version()})

    async def metrics_page(request: Request) -> Response:
        page, content_type = metrics.page(request.headers.get("accept", ""))
        return Response(page, headers={"content-type": content_type})

    return [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/version", version),
        Route("/metrics", metrics_page),
    ]


def _json(value: object, status: int = 200) -> Response:
    # With a newline at the end, for curl in a terminal.
    return Response(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE), status, media_type="application/json")


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _json({"error": error.detail}, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _own_fault(_request: Request, _error: Exception) -> Response:
    # uvicorn logs the traceback of what is raised again behind this handler.
    return _json({"error": "internal error"}, 500)
