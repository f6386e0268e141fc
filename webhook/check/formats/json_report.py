"""A result for programs: one JSON document, whose schema is in schema.py. Pure."""

from __future__ import annotations

from typing import Any

from webhook.check.formats.characters import json_text
from webhook.check.result import Fault, Found, Place, Result, Skipped
from webhook.engine.verdict import Severity

API_VERSION, KIND = "floorkeeper.io/v1alpha1", "CheckReport"


def render(result: Result) -> str:
    return json_text(report(result))


def report(result: Result) -> dict[str, Any]:
    """The document before it is written."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "findings": [_finding(found) for found in result.findings],
        "notEvaluated": [
            {"rule": entry.rule, "reason": entry.reason, "objects": entry.objects} for entry in result.not_evaluated
        ],
        "summary": totals(result),
        "errors": [_fault(fault) for fault in result.errors],
        "notes": [_fault(fault) for fault in result.notes],
        "skipped": [_skipped(entry) for entry in result.skipped],
    }


def totals(result: Result) -> dict[str, int]:
    """The numbers of the summary."""
    return {
        "objects": result.objects,
        "checked": result.checked,
        "skipped": len(result.skipped),
        "denials": result.count(Severity.DENY),
        "warnings": result.count(Severity.WARN),
        "patches": result.count(Severity.PATCH),
    }


def _finding(found: Found) -> dict[str, Any]:
    value: dict[str, Any] = {
        "rule": found.rule,
        "severity": found.severity,
        "apiVersion": found.api_version,
        "kind": found.kind,
        "namespace": found.namespace,
        "name": found.name,
        "path": found.path,
        "message": found.message,
        **_place(found.place),
    }
    if found.change:
        value["change"] = [dict(operation) for operation in found.change]
    if found.old:
        value["old"] = True
    return value


def _skipped(entry: Skipped) -> dict[str, Any]:
    return {
        "apiVersion": entry.api_version,
        "kind": entry.kind,
        "namespace": entry.namespace,
        "name": entry.name,
        "reason": entry.reason,
        "unknownKind": entry.unknown_kind,
        **_place(entry.place),
    }


def _fault(fault: Fault) -> dict[str, Any]:
    return {**_place(fault.place), "message": fault.message}


def _place(place: Place) -> dict[str, Any]:
    return {"file": place.file, "line": place.line, "column": place.column}
