"""A result for code scanning: SARIF 2.1.0. Pure.

Sections named below are those of the OASIS standard.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from webhook import __version__
from webhook.check.formats.characters import json_text
from webhook.check.formats.fingerprint import finding_key, fingerprints
from webhook.check.formats.identity import distinct, relative
from webhook.check.formats.json_report import totals
from webhook.check.formats.words import not_evaluated, nothing_checked, object_name
from webhook.check.result import Fault, Found, Place, Result
from webhook.engine.policy import Mode
from webhook.engine.rule import Rule
from webhook.engine.verdict import Severity
from webhook.rules import RULES

_LEVELS = {Severity.DENY: "error", Severity.WARN: "warning", Severity.PATCH: "note"}


def render(result: Result, *, root: str = "") -> str:
    return json_text(log(result, root))


def log(result: Result, root: str = "") -> dict[str, Any]:
    """The document before it is written. Files below `root` are named relative to it."""
    findings = distinct(result.findings)
    known = {rule.id: _rule(rule) for rule in RULES}
    # A reader looks up every rule that a result names.
    known.update({found.rule: {"id": found.rule} for found in findings if found.rule not in known})
    index = {name: number for number, name in enumerate(known)}
    prints = fingerprints(finding_key(found, root) for found in findings)
    nothing = nothing_checked(result)
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "Floorkeeper", "version": __version__, "rules": list(known.values())}},
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": not result.errors,
                        "toolExecutionNotifications": [
                            *(_fault(fault, "error", root) for fault in result.errors),
                            *(_fault(fault, "warning", root) for fault in result.notes),
                            *([{"level": "warning", "message": _message(nothing)}] if nothing else []),
                        ],
                        "toolConfigurationNotifications": [
                            {
                                "level": "warning",
                                "message": _message(not_evaluated(entry)),
                                "associatedRule": {"id": entry.rule},
                            }
                            for entry in result.not_evaluated
                        ],
                    }
                ],
                "results": [
                    _result(found, index[found.rule], fingerprint, root)
                    for found, fingerprint in zip(findings, prints, strict=True)
                ],
                "properties": {"summary": totals(result)},
            }
        ],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    page = rule.page.strip()
    return {
        "id": rule.id,
        "shortDescription": _message(rule.summary),
        "help": {**_message(page), "markdown": _escaped(page)},
        "defaultConfiguration": {"level": "error" if rule.mode is Mode.DENY else "warning"},
    }


def _result(found: Found, index: int, fingerprint: str, root: str) -> dict[str, Any]:
    name = {"name": found.name, "fullyQualifiedName": f"{found.api_version} {object_name(found)}"}
    value: dict[str, Any] = {
        "ruleId": found.rule,
        "ruleIndex": index,
        "level": _LEVELS[found.severity],
        "message": _message(found.message),
        "locations": [{**_location(found.place, root), "logicalLocations": [name]}],
        "partialFingerprints": {"finding/v1": fingerprint},
    }
    if found.change:
        value["properties"] = {"change": [dict(operation) for operation in found.change]}
    return value


def _fault(fault: Fault, level: str, root: str) -> dict[str, Any]:
    value: dict[str, Any] = {"level": level, "message": _message(fault.message)}
    # What is wrong with the command line is in no file.
    if fault.place.file:
        value["locations"] = [_location(fault.place, root)]
    return value


def _location(place: Place, root: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(relative(place.file, root))}}
    if place.line:
        physical["region"] = {"startLine": place.line, "startColumn": max(place.column, 1)}
    return {"physicalLocation": physical}


def _uri(path: str) -> str:
    """A path as a URI reference. Bytes of the name that are no UTF-8 are still the same bytes."""
    encoded = quote(path, errors="surrogateescape")
    return "file:///" + encoded.lstrip("/") if path.startswith("/") else encoded


def _message(text: str) -> dict[str, str]:
    return {"text": _escaped(text)}


def _escaped(text: str) -> str:
    """Braces are doubled, for alone they are placeholders (3.11.5); what would be a link stays text (3.11.6)."""
    return text.replace("{", "{{").replace("}", "}}").replace("](", "] (")
