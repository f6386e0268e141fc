"""The AdmissionReview v1 response: a Verdict in, bytes out, within the limits that the API server sets."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from webhook.engine.verdict import Finding, Severity, Verdict
from webhook.kube.objects import show_path
from webhook.server.review import API_VERSION, KIND, Review
from webhook.server.text import printable

# The API server keeps 256 characters of a warning and 4096 of all warnings of a request (apiserver 1.36), to which both
# calls add.
_LONGEST_WARNING = 255
_ALL_WARNINGS = 2047
_ROOM_FOR_MORE = 40  # for the line that says how many were left out

_LONGEST_MESSAGE = 1024  # characters of one finding in a denial
_ALL_MESSAGES = 8192  # bytes
_LONGEST_FIELD = 256
_LONGEST_NAME = 253  # as long as any name of an object can be
_LONGEST_REASON = 256
_SHORTEST_NAME = 16
_NAMED = re.compile(r'(\w+ ")([^"]*)(": )')


def response(review: Review, verdict: Verdict, stale: str = "") -> bytes:
    """The answer to a review. `stale` is one more warning, '' for none."""
    answer: dict[str, Any] = {"uid": review.uid, "allowed": True}
    if verdict.patch:
        answer["patchType"] = "JSONPatch"
        answer["patch"] = b64encode(orjson.dumps(verdict.patch)).decode()
    denials = verdict.denials
    if denials:
        answer["allowed"] = False
        answer["status"] = _status(review, denials)
    texts = (*verdict.warnings, stale) if stale else verdict.warnings
    if texts:
        answer["warnings"] = warnings(texts)
    if verdict.findings or verdict.not_evaluated or verdict.exemption is not None:
        answer["auditAnnotations"] = _annotations(verdict)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": answer})


def warnings(texts: Iterable[str]) -> list[str]:
    """Warnings of which the API server drops none: each once, each short, and the last says how many were left out."""
    lines = list(dict.fromkeys(printable(_fitted(text), _LONGEST_WARNING) for text in texts))
    total = 0
    for index, line in enumerate(lines):
        total += len(line)
        if total > _ALL_WARNINGS - _ROOM_FOR_MORE:
            return [*lines[:index], f"… and {len(lines) - index} more warnings"]
    return lines


def _fitted(text: str) -> str:
    """The text with the object's name cut as far as it must be: who wrote it knows the name, but not the fix."""
    over = len(text) - _LONGEST_WARNING
    named = _NAMED.match(text)
    if over <= 0 or named is None:
        return text
    start, name, end = named.groups()
    kept = max(len(name) - over - 1, _SHORTEST_NAME)
    return f"{start}{name[:kept]}…{end}{text[named.end() :]}" if kept < len(name) else text


def _status(review: Review, denials: Sequence[Finding]) -> dict[str, Any]:
    """A meta/v1 Status: the message for people, and the same findings one by one as causes."""
    lines: list[str] = []
    causes: list[dict[str, str]] = []
    size = 0
    for finding in denials:
        line = printable(finding.message, _LONGEST_MESSAGE)
        size += len(line.encode()) + 1
        if size > _ALL_MESSAGES - _ROOM_FOR_MORE:
            lines.append(f"… and {len(denials) - len(causes)} more")
            break
        lines.append(line)
        field = printable(show_path(finding.path), _LONGEST_FIELD)
        causes.append({"reason": "FieldValueInvalid", "message": line, "field": field})
    return {
        "status": "Failure",
        "message": "\n".join(lines),
        "reason": "Forbidden",
        "code": 403,
        "details": {
            "name": printable(denials[0].name, _LONGEST_NAME),
            "group": review.group,
            "kind": review.kind,
            "causes": causes,
        },
    }


_ANNOTATIONS = {"denied": Severity.DENY, "patched": Severity.PATCH, "warned": Severity.WARN}


def _annotations(verdict: Verdict) -> dict[str, str]:
    """What the audit log keeps; the API server puts the webhook's name before each key."""
    found = {
        key: ",".join(sorted({finding.rule for finding in verdict.findings if finding.severity is severity}))
        for key, severity in _ANNOTATIONS.items()
    }
    found["not-evaluated"] = ",".join(sorted({entry.rule for entry in verdict.not_evaluated}))
    if verdict.exemption is not None:
        found["exempted"] = printable(verdict.exemption.reason, _LONGEST_REASON)
        found["exempted-rules"] = ",".join(verdict.exempted)
    return {key: text for key, text in found.items() if text}
