"""An audit as Markdown, for an issue, a wiki or the summary of a CI job. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

from webhook.check.formats.characters import visible
from webhook.live.audit.report import Audit, AuditFinding
from webhook.live.audit.text import exempted, not_evaluated, others_named, summary, title_of

_TICKS = re.compile("`+")


def render(audit: Audit) -> str:
    return "\n".join(_lines(audit)) + "\n"


def _lines(audit: Audit) -> Iterator[str]:
    yield "# Floorkeeper audit"
    yield ""
    yield f"{summary(audit)}."
    for title, findings in groupby(audit.findings, key=title_of):
        yield ""
        yield f"## {title}"
        yield ""
        yield "| verdict | rule | what | objects |"
        yield "| --- | --- | --- | ---: |"
        yield from map(_row, findings)
    yield from _list("Exempt", map(exempted, audit.exempted))
    yield from _list("Not evaluated", map(not_evaluated, audit.not_evaluated))


def _row(found: AuditFinding) -> str:
    message = found.message.removesuffix(f" [{found.rule}]")
    others = others_named(found.objects)
    also = f"<br>also {_cell(others)}" if others else ""
    first = f"{found.namespace}: " if found.about_setup and found.namespace else ""
    return f"| {found.severity} | `{found.rule}` | {_cell(first + message)}{also} | {found.count:,} |"


def _list(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield ""
        yield f"## {title}"
        yield ""
        yield from (f"- {_code(line)}" for line in found)


def _cell(text: str) -> str:
    return _code(text).replace("|", "\\|")


def _code(text: str) -> str:
    """What a cluster holds stays text: no markup, and no link, mention or entity either, which cannot be escaped."""
    ticks = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
    space = " " if "`" in text else ""
    return f"{ticks}{space}{visible(text)}{space}{ticks}"
