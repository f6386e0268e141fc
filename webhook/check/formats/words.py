"""Sentences that several formats say. Pure."""

from __future__ import annotations

from webhook.check.result import Found, NotJudged, Result, Skipped
from webhook.engine.verdict import Severity


def counted(number: int, noun: str) -> str:
    """'1 object', '2 objects', '2 patches'."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def object_name(entry: Found | Skipped) -> str:
    """'Deployment team-a/model-a', and 'ClusterQueue a' for what is in no namespace."""
    name = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
    return f"{entry.kind} {name}"


def not_evaluated(entry: NotJudged) -> str:
    return f"not evaluated: {entry.reason} [{entry.rule}] ({counted(entry.objects, 'object')})"


def nothing_checked(result: Result) -> str:
    """Why nothing was, '' if something was."""
    if result.checked:
        return ""
    if result.skipped:
        skipped = len(result.skipped)
        why = "the only object was skipped" if skipped == 1 else f"all {skipped:,} objects were skipped"
    else:
        why = "there is no object in the input"
        if result.errors:
            why = "the errors come first" if result.objects else "no object could be read"
    return f"nothing was checked: {why}"


def summary(result: Result) -> str:
    """'5 objects: 3 checked, 2 skipped; 1 denial, 0 warnings, 1 patch', and what else there is to know."""
    counts = ((Severity.DENY, "denial"), (Severity.WARN, "warning"), (Severity.PATCH, "patch"))
    parts = [
        f"{counted(result.objects, 'object')}: {result.checked:,} checked, {len(result.skipped):,} skipped",
        ", ".join(counted(result.count(severity), noun) for severity, noun in counts),
    ]
    if result.not_evaluated:
        parts.append(f"{counted(len({entry.rule for entry in result.not_evaluated}), 'rule')} not evaluated")
    if result.errors:
        parts.append(counted(len(result.errors), "error"))
    return "; ".join(parts)
