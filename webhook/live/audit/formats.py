"""What an audit looks like to each of its readers. Pure.

SARIF and JUnit are those of `check`, by way of its result: a finding's place is where the object would be looked for.
"""

from __future__ import annotations

from typing import Any

from webhook.check.formats import junit, sarif
from webhook.check.formats.characters import json_text
from webhook.check.result import Found, NotJudged, Place, Result, Skipped
from webhook.engine.verdict import Severity
from webhook.live.audit import markdown, text
from webhook.live.audit.report import SETUP, Audit, AuditFinding, Exempted, Reference
from webhook.live.audit.schema import API_VERSION, KIND
from webhook.live.audit.setup import CHECKS

FORMATS = ("text", "json", "sarif", "junit", "markdown")


def render(name: str, audit: Audit, *, colour: bool = False, fail_on: tuple[str, ...] = ()) -> str:
    """The audit in one of FORMATS, ending with a line break."""
    match name:
        case "text":
            return text.render(audit, colour=colour)
        case "json":
            return json_text(document(audit))
        case "markdown":
            return markdown.render(audit)
        case "sarif":
            return json_text(log(audit))
    return junit.render(as_result(audit), fail_on=fail_on, name="floorkeeper audit")


def log(audit: Audit) -> dict[str, Any]:
    """The SARIF document before it is written, with what is published of the set-up's checks."""
    found = sarif.log(as_result(audit))
    checks = {f"{SETUP}{check.id}": check for check in CHECKS}
    for rule in found["runs"][0]["tool"]["driver"]["rules"]:
        if rule["id"] in checks:
            check = checks[rule["id"]]
            rule["shortDescription"] = {"text": check.summary}
            rule["help"] = {"text": check.page}
    return found


def document(audit: Audit) -> dict[str, Any]:
    """The JSON document before it is written."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "at": audit.at,
        "seconds": round(audit.seconds, 3),
        "namespaces": list(audit.namespaces),
        "findings": [_finding(found) for found in audit.findings],
        "notEvaluated": [
            {"rule": entry.what, "reason": entry.reason, "objects": entry.objects} for entry in audit.not_evaluated
        ],
        "exempt": [
            {**_reference(entry.object), "reason": entry.reason, "rules": list(entry.rules)} for entry in audit.exempted
        ],
        "summary": {
            "namespaces": len(audit.namespaces),
            "objects": audit.objects,
            "checked": audit.checked,
            "exempt": len(audit.exempted),
            "denials": audit.count(Severity.DENY),
            "warnings": audit.count(Severity.WARN),
        },
    }


def _finding(found: AuditFinding) -> dict[str, Any]:
    return {
        "rule": found.rule,
        "severity": found.severity,
        "path": found.path,
        "message": found.message,
        "count": found.count,
        "objects": [_reference(each) for each in found.objects],
    }


def _reference(about: Reference) -> dict[str, str]:
    return {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
    }


def as_result(audit: Audit) -> Result:
    """As what `check` comes to. Objects that a finding is also about are in its message by their number."""
    return Result(
        findings=tuple(_found(found) for found in audit.findings),
        skipped=tuple(_skipped(entry) for entry in audit.exempted),
        not_evaluated=tuple(NotJudged(entry.what, entry.reason, entry.objects) for entry in audit.not_evaluated),
        objects=audit.objects,
        checked=audit.checked,
    )


def _found(found: AuditFinding) -> Found:
    first = found.objects[0]
    return Found(
        _place(first),
        found.rule,
        found.severity,
        first.api_version,
        first.kind,
        first.namespace,
        first.name,
        found.path,
        found.message,
    )


def _skipped(entry: Exempted) -> Skipped:
    about = entry.object
    return Skipped(
        _place(about), about.api_version, about.kind, about.namespace, about.name, f"it is exempt: {entry.reason}"
    )


def _place(about: Reference) -> Place:
    """A file stands for a namespace, or for the cluster."""
    return Place(f"namespaces/{about.namespace}" if about.namespace else "cluster")
