"""The rules and the checks of the set-up, as `floorkeeper explain` and `floorkeeper rules` show them. Pure."""

from __future__ import annotations

import json
from typing import Any, Literal

from webhook.check import pages
from webhook.engine.verdict import Severity
from webhook.live.audit.report import SETUP
from webhook.live.audit.setup import CHECKS, Check
from webhook.report import rule_pages, rule_table
from webhook.rules import RULES


def setup_pages() -> list[pages.Page]:
    return list(map(_page, CHECKS))


def listed(output: Literal["table", "markdown", "json"]) -> str:
    """All rules and checks: a line each, as they are in the README, or with everything that is known about them."""
    if output == "markdown":
        return "\n\n".join((rule_table(RULES), rule_pages(RULES), check_table(), check_pages()))
    if output == "json":
        described = [*map(pages.described, RULES), *map(_described, CHECKS)]
        return json.dumps(described, indent=2, ensure_ascii=False)
    rows = [("CHECK OF THE SET-UP", "SEVERITY", "WHAT HOLDS")]
    rows += [(_id(check), check.severity.value, check.summary) for check in CHECKS]
    return f"{pages.rule_lines()}\n\n{pages.aligned(rows)}"


def check_table() -> str:
    """The checks as a Markdown table. Each id links to the check's page."""
    rows = ["| check | severity | what holds |", "| --- | --- | --- |"]
    # An anchor has no slash.
    rows += (
        f"| [{_id(check)}](#{_id(check).replace('/', '')}) | {check.severity} | {check.summary} |" for check in CHECKS
    )
    return "\n".join(rows)


def check_pages() -> str:
    """The checks' pages in Markdown, each under a heading."""
    return "\n\n".join(f"### {_id(check)}\n\n{check.page}" for check in CHECKS)


def _id(check: Check) -> str:
    return f"{SETUP}{check.id}"


def _page(check: Check) -> pages.Page:
    told = f"Told by audits alone, as {check.severity}{'' if check.severity is Severity.WARN else ' at the worst'}."
    return pages.Page(_id(check), check.page, (f"{told} It judges no write, and no mode of the policy changes it.",))


def _described(check: Check) -> dict[str, Any]:
    """As a rule is, which of all writes judges none."""
    return {
        "rule": _id(check),
        "mode": check.severity,
        "patched": False,
        "kinds": [],
        "comparedWith": [],
        "summary": check.summary,
        "page": check.page,
    }
