"""A result as GitLab's code quality report, which it shows in merge requests. Pure."""

from __future__ import annotations

from typing import Any

from webhook.check.formats.characters import json_text
from webhook.check.formats.fingerprint import finding_key, fingerprints
from webhook.check.formats.identity import distinct, relative
from webhook.check.result import Place, Result
from webhook.engine.verdict import Severity

_SEVERITIES = {Severity.DENY: "critical", Severity.WARN: "minor", Severity.PATCH: "info"}


def render(result: Result, *, root: str = "") -> str:
    """A list of issues. Files below `root`, the repository, are named relative to it."""
    findings = distinct(result.findings)
    faults = [("blocker", "unusable-input", fault) for fault in result.errors]
    faults += [("minor", "input", fault) for fault in result.notes]
    keys = [(relative(fault.place.file, root), name, fault.message) for _, name, fault in faults]
    prints = fingerprints([*keys, *(finding_key(found, root) for found in findings)])
    issues = [_issue(fault.place, fault.message, name, severity, root) for severity, name, fault in faults]
    issues += [_issue(found.place, found.message, found.rule, _SEVERITIES[found.severity], root) for found in findings]
    return json_text([{**issue, "fingerprint": each} for issue, each in zip(issues, prints, strict=True)])


def _issue(place: Place, message: str, name: str, severity: str, root: str) -> dict[str, Any]:
    location = {"path": relative(place.file, root) or ".", "lines": {"begin": max(place.line, 1)}}
    return {"description": message, "check_name": name, "severity": severity, "location": location}
