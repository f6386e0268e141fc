"""One webhook: the ASGI app that reads a review, has it judged and answers.

It is called for every write that Kubernetes asks about, so it reads and writes bytes and builds no request or response
objects.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

import orjson
from starlette.types import Receive, Scope, Send

from webhook.engine.rule import Stage
from webhook.kube.kinds import kind_of
from webhook.kube.snapshot import FactsMissing
from webhook.server.admission import Admission, Decision
from webhook.server.body import BODY_SECONDS, ClientGone, Refused, check_head, read_body
from webhook.server.load import RETRY_SECONDS, Call, Load, Reason, Shed, arrival, is_late
from webhook.server.metrics import Metrics
from webhook.server.readiness import Readiness
from webhook.server.response import response
from webhook.server.review import MalformedReview, Review, review
from webhook.server.text import printable
from webhook.sources.source import LedgerError

if TYPE_CHECKING:  # there only where a page is
    from webhook.live.page.denials import Denials

_LONGEST_NAME = 256  # characters of a name in a log line
_LONGEST_MESSAGE = 1024
_MOST_MESSAGES = 20

_JSON = b"application/json"
_TEXT = b"text/plain; charset=utf-8"
"""What is text, kubectl shows to the person: the API server repeats it, and of all else says "unknown"."""

log = logging.getLogger("floorkeeper.admission")


@dataclass(slots=True)
class _Answer:
    status: int
    payload: bytes
    verdict: str
    """For the metric; '' if it is not counted there."""

    content_type: bytes = _JSON
    closes: bool = False
    """Whether the rest of the body is not waited for."""

    retry: bool = False
    """Whether the caller is to call again."""


class AdmissionEndpoint:
    """POST /mutate or /validate."""

    body_seconds = BODY_SECONDS

    def __init__(
        self,
        stage: Stage,
        admission: Admission,
        metrics: Metrics,
        readiness: Readiness,
        load: Load,
        denials: Denials | None = None,
    ) -> None:
        """`denials` keeps the last ones for the page, None without one."""
        self._stage = stage
        self._admission = admission
        self._metrics = metrics
        self._readiness = readiness
        self._load = load
        self._denials = denials

    def at_once(self, scope: Scope, body: bytearray) -> bytes | None:
        """The answer to a review for which nothing has to be waited for, None for any other, and for what is wrong:
        calling the endpoint comes to an answer to these, and nothing of them is counted or told here."""
        clients = self._readiness.clients
        if self._readiness.draining or (clients is not None and clients.refusal(scope["state"]["client"])):
            return None
        try:
            check_head(scope)
            asked = review(body)
            decision = None if is_late(scope) else self._admission.decide_at_once(self._stage, asked)
            if decision is None:
                return None
            if decision.verdict.confirm:
                # It is not judged twice, if no fact behind it turns out to be another.
                scope["state"]["judged"] = asked, decision.verdict
                return None
            payload = response(asked, decision.verdict, decision.stale)
        except Exception:  # whatever it is, it comes again where it is told
            return None
        outcome = decision.outcome
        self._tell(asked, decision, outcome)
        self._count(asked, outcome, perf_counter() - scope["state"]["arrived"])
        return payload

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = arrival(scope)
        clients = self._readiness.clients
        if clients is not None and (refusal := clients.refusal(scope.get("state", {}).get("client"))):
            await self._refuse(send, refusal, started)
            return
        call = Call(self._stage, scope)
        try:
            self._load.enter(call)
            answer = await self._answer(call, scope, receive)
        except ClientGone:
            return
        except Shed as shed:
            self._load.count(self._stage, shed.reason)
            answer = _Answer(429, str(shed).encode(), "", _TEXT, call.evicted is not None, shed.again)
        finally:
            self._load.leave(call)
        await self._send(send, answer)
        if answer.verdict:
            self._count(call.review, answer.verdict, perf_counter() - started)

    async def _refuse(self, send: Send, refusal: str, started: float) -> None:
        """To a client that may not send reviews at all, before its request takes anything from others."""
        self._log(logging.WARNING, "request refused", None, {"status": 401, "error": refusal})
        await self._send(send, _Answer(401, orjson.dumps({"error": refusal}), ""))
        self._count(None, "unauthenticated", perf_counter() - started)

    async def _answer(self, call: Call, scope: Scope, receive: Receive) -> _Answer:
        try:
            decision = await self._decide(call, scope, receive)
            assert call.review is not None
            outcome = decision.outcome
            self._tell(call.review, decision, outcome)
            return _Answer(200, response(call.review, decision.verdict, decision.stale), outcome)
        except (ClientGone, Shed):
            raise
        except asyncio.CancelledError:
            # The server ends, and waited for this as long as it may.
            raise Shed(Reason.END, call) from None
        except (Refused, MalformedReview) as error:
            status = error.status if isinstance(error, Refused) else 400
            self._log(logging.WARNING, "request refused", call.review, {"status": status, "error": str(error)})
            return _Answer(status, orjson.dumps({"error": str(error)}), "malformed", closes=status == 408)
        except LedgerError as error:
            text = printable(str(error), _LONGEST_MESSAGE)
            self._log(logging.ERROR, text, call.review, {"status": 500})
            return _Answer(500, f"{text} (request {call.uid})".encode(), "error", _TEXT)
        except Exception as error:
            # It says all there is to say, and comes only where the namespaces are not known.
            told = isinstance(error, FactsMissing)
            text = f"facts missing: {printable(str(error), _LONGEST_MESSAGE)}" if told else "internal error"
            self._log(logging.ERROR, text, call.review, {"status": 500}, traceback=not told)
            return _Answer(500, orjson.dumps({"error": text, "uid": call.uid}), "error")

    async def _decide(self, call: Call, scope: Scope, receive: Receive) -> Decision:
        """Raises Shed as soon as the caller's time is over, whatever is waited for."""
        left = call.left()
        seconds = min(self.body_seconds, left)
        try:
            async with asyncio.timeout(max(0.0, seconds)) as limit:
                call.limit = limit
                body = await read_body(scope, receive, call, self._load)
                if seconds < left:
                    limit.reschedule(None if left == inf else asyncio.get_running_loop().time() + call.left())
                judged, verdict = scope.get("state", {}).pop("judged", (None, None))
                call.review = judged if judged is not None else review(body)
                # A large one need not stay while others are asked.
                del body
                return await self._admission.decide(self._stage, call.review, verdict)
        except TimeoutError:
            if not limit.expired():
                raise
            if call.evicted is not None:
                raise Shed(call.evicted, call) from None
            if call.review is None and seconds < left:
                raise Refused(408, f"body: did not arrive within {round(seconds, 2):g} s") from None
            raise Shed(Reason.LATE, call) from None

    async def _send(self, send: Send, answer: _Answer) -> None:
        headers = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(answer.payload))]
        if answer.retry:
            headers.append((b"retry-after", b"%d" % RETRY_SECONDS))
        # While draining, clients should turn to others.
        if answer.closes or self._readiness.draining:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.payload})

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
        if outcome == "denied" and self._denials is not None:
            self._record(self._denials, request, decision)

    def _record(self, denials: Denials, request: Review, decision: Decision) -> None:
        found = decision.verdict.denials
        denials.record(
            operation=request.operation,
            kind=printable(request.kind, _LONGEST_NAME),
            namespace=printable(request.namespace, _LONGEST_NAME),
            name=printable(found[0].name or request.name, _LONGEST_NAME),
            user=printable(request.user, _LONGEST_NAME),
            dry_run=request.dry_run,
            rules=sorted({finding.rule for finding in found}),
            messages=[printable(finding.message, _LONGEST_MESSAGE) for finding in found[:_MOST_MESSAGES]],
        )

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
