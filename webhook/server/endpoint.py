"""One webhook: the ASGI app that reads a review, has it judged and answers.

It is called for every write that Kubernetes asks about, so it reads and writes bytes and builds no request or response
objects.
"""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter

import orjson
from starlette.types import Message, Receive, Scope, Send

from webhook.engine.rule import Stage
from webhook.kube.kinds import kind_of
from webhook.kube.snapshot import FactsMissing
from webhook.server.admission import Admission, Decision
from webhook.server.metrics import Metrics
from webhook.server.readiness import Readiness
from webhook.server.response import response
from webhook.server.review import MalformedReview, Review, review
from webhook.server.text import printable
from webhook.sources.source import LedgerError

MAX_BODY = 8 * 1024 * 1024
"""Bytes. A review holds an object twice, and etcd takes 1.5 MiB, the API server 3 MiB of each."""

BODY_SECONDS = 15.0
"""How long a client may take to send a body; the API server gives up on the whole call after 10 s."""

_LONGEST_NAME = 256  # characters of a name in a log line
_LONGEST_MESSAGE = 1024
_MOST_MESSAGES = 20

log = logging.getLogger("floorkeeper.admission")


class _Refused(Exception):
    """A request that is not judged at all."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.error = error


class _ClientGone(Exception):
    """Nobody is left to answer to."""


class AdmissionEndpoint:
    """POST /mutate or /validate."""

    body_seconds = BODY_SECONDS

    def __init__(self, stage: Stage, admission: Admission, metrics: Metrics, readiness: Readiness) -> None:
        self._stage = stage
        self._admission = admission
        self._metrics = metrics
        self._readiness = readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        request: Review | None = None
        content_type = b"application/json"
        try:
            body = await _read_body(scope, receive, self.body_seconds)
            request = review(body)
            decision = await self._admission.decide(self._stage, request)
            status, payload, verdict = 200, response(request, decision.verdict, decision.stale), decision.outcome
            self._tell(request, decision, verdict)
        except _ClientGone:
            return
        except (_Refused, MalformedReview) as error:
            status = error.status if isinstance(error, _Refused) else 400
            payload, verdict = orjson.dumps({"error": str(error)}), "malformed"
            self._log(logging.WARNING, "request refused", request, {"status": status, "error": str(error)})
        except Exception as error:
            # These two say all there is to say. FactsMissing comes only where the namespaces are not known.
            told = isinstance(error, FactsMissing | LedgerError)
            about = "facts missing: " if isinstance(error, FactsMissing) else ""
            text = about + printable(str(error), _LONGEST_MESSAGE) if told else "internal error"
            status, verdict = 500, "error"
            uid = request.uid if request else ""
            payload = orjson.dumps({"error": text, "uid": uid})
            if isinstance(error, LedgerError):
                # kubectl shows it to the person: the API server repeats what is text, and of all else says "unknown".
                payload, content_type = f"{text} (request {uid})".encode(), b"text/plain; charset=utf-8"
            self._log(logging.ERROR, text, request, {"status": status}, traceback=not told)
        await self._answer(send, status, payload, content_type)
        self._count(request, verdict, perf_counter() - started)

    async def _answer(self, send: Send, status: int, payload: bytes, content_type: bytes) -> None:
        headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(payload))]
        # The rest of a body that came too slowly is not waited for; while draining, clients should turn to others.
        if status == 408 or self._readiness.draining:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": payload})

    def _count(self, request: Review | None, verdict: str, seconds: float) -> None:
        operation, kind = "unknown", "other"
        if request is not None:
            row = kind_of(request.group, request.kind)
            operation, kind = request.operation, row.kind if row else "other"
        self._metrics.request(self._stage, operation, kind, verdict, seconds)

    def _tell(self, request: Review, decision: Decision, outcome: str) -> None:
        """Counts what the rules said, and logs a denied, patched or exempt request."""
        verdict = decision.verdict
        if verdict.exemption is not None:
            reason = verdict.exemption.reason
            self._metrics.exemption(reason)
            used: dict[str, object] = {
                "verdict": outcome,
                "rules": list(verdict.exempted),
                "reason": printable(reason, _LONGEST_MESSAGE),
            }
            self._log(logging.INFO, f"request {outcome}", request, used)
        if not verdict.findings and not verdict.not_evaluated:
            return
        hits = decision.hits
        for rule, severity in hits:
            self._metrics.hit(rule, severity)
        if outcome in ("denied", "patched"):
            messages = [finding.message for finding in verdict.findings[:_MOST_MESSAGES]]
            fields: dict[str, object] = {
                "verdict": outcome,
                "rules": sorted({rule for rule, _ in hits}),
                "messages": [printable(message, _LONGEST_MESSAGE) for message in messages],
            }
            self._log(logging.INFO, f"request {outcome}", request, fields, name=verdict.findings[0].name)

    def _log(
        self,
        level: int,
        message: str,
        request: Review | None,
        more: dict[str, object],
        *,
        name: str = "",
        traceback: bool = False,
    ) -> None:
        """One line, with who wrote what; never a part of the object itself."""
        if not log.isEnabledFor(level):
            return
        fields: dict[str, object] = {"webhook": self._stage.value}
        if request is not None:
            fields |= {
                "uid": request.uid,
                "operation": request.operation,
                "kind": printable(request.kind, _LONGEST_NAME),
                "namespace": printable(request.namespace, _LONGEST_NAME),
                "name": printable(name or request.name, _LONGEST_NAME),
                "user": printable(request.user, _LONGEST_NAME),
                "dryRun": request.dry_run,
            }
        log.log(level, message, extra={"fields": fields | more}, exc_info=traceback)


async def _read_body(scope: Scope, receive: Receive, seconds: float) -> bytes:
    """The body, once its type and size are found to be right."""
    for name, value in scope["headers"]:
        if name == b"content-type":
            if value.partition(b";")[0].strip().lower() != b"application/json":
                raise _Refused(415, "header Content-Type: must be application/json")
        elif name == b"content-length" and value.isdigit() and int(value[:19]) > MAX_BODY:
            raise _too_large()
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body"):
                body: bytes = message.get("body", b"")
                if len(body) > MAX_BODY:
                    raise _too_large()
                return body
            return await _read_chunks(message, receive)
    except TimeoutError:
        raise _Refused(408, f"body: did not arrive within {seconds:g} s") from None


async def _read_chunks(message: Message, receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        if message["type"] != "http.request":
            raise _ClientGone
        chunk = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY:
            raise _too_large()
        if not message.get("more_body"):
            return b"".join(chunks)
        message = await receive()


def _too_large() -> _Refused:
    return _Refused(413, f"body: must have at most {MAX_BODY} bytes")
