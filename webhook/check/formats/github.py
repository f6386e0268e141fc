"""A result as workflow commands, which GitHub Actions shows as annotations at the lines of a pull request. Pure.

GitHub shows ten of each level for a step: what could not be used comes before the findings.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.check.formats.characters import visible
from webhook.check.formats.identity import distinct, relative
from webhook.check.formats.words import not_evaluated, nothing_checked, summary
from webhook.check.result import Place, Result
from webhook.engine.verdict import Severity

_LEVELS = {Severity.DENY: "error", Severity.WARN: "warning", Severity.PATCH: "notice"}


def render(result: Result, *, root: str = "") -> str:
    """A line each. Files below `root`, the checkout, are named relative to it."""
    return "".join(f"{line}\n" for line in _lines(result, root))


def _lines(result: Result, root: str) -> Iterator[str]:
    for fault in result.errors:
        yield _command("error", fault.message, "unusable input", fault.place, root)
    for found in distinct(result.findings):
        yield _command(_LEVELS[found.severity], found.message, found.rule, found.place, root)
    for note in result.notes:
        yield _command("warning", note.message, "input", note.place, root)
    for entry in result.not_evaluated:
        yield _command("notice", not_evaluated(entry), entry.rule)
    nothing = nothing_checked(result)
    if nothing:
        yield _command("warning", nothing, "floorkeeper check")
    yield summary(result)


def _command(level: str, message: str, title: str, place: Place | None = None, root: str = "") -> str:
    properties: dict[str, str] = {}
    if place is not None and place.file:
        properties["file"] = relative(place.file, root)
        if place.line:
            properties |= {"line": str(place.line), "col": str(max(place.column, 1))}
    properties["title"] = title
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {listed}::{_data(message)}"


def _data(text: str) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return visible(text)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
