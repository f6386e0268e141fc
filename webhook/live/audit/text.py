"""An audit for people: what is wrong, by namespace, what is let through, what nobody knows, and the sums. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from webhook.check.formats.characters import visible
from webhook.check.formats.words import counted
from webhook.engine.verdict import Severity
from webhook.live.audit.report import Audit, AuditFinding, Exempted, NotEvaluated, Reference

_BOLD, _FAINT, _RED, _YELLOW = "1", "2", "1;31", "1;33"
_COLOURS = {Severity.DENY: _RED, Severity.PATCH: _YELLOW, Severity.WARN: _YELLOW}
_NAMED = 5  # objects of one finding, beside the first, that are named

SETUP_TITLE, CLUSTER_TITLE = "set-up", "cluster"

_Paint = Callable[[str, str], str]


def render(audit: Audit, *, colour: bool = False) -> str:
    """The whole page, ending with a line break. `colour` adds ANSI sequences; nothing in the cluster can."""
    paint = _coloured if colour else _plain
    blocks = [list(_section(title, list(found), paint)) for title, found in groupby(audit.findings, key=title_of)]
    blocks.append([paint(visible(line), _FAINT) for line in map(exempted, audit.exempted)])
    blocks.append([paint(visible(line), _FAINT) for line in map(not_evaluated, audit.not_evaluated)])
    blocks.append([paint(summary(audit), _BOLD)])
    return "\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n"


def _plain(text: str, _code: str) -> str:
    return text


def _coloured(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def title_of(found: AuditFinding) -> str:
    """Under which heading it stands."""
    if found.about_setup:
        return SETUP_TITLE
    return f"namespace {found.namespace}" if found.namespace else CLUSTER_TITLE


def _section(title: str, findings: Iterable[AuditFinding], paint: _Paint) -> Iterator[str]:
    yield paint(title, _BOLD)
    for found in findings:
        # The heading of the set-up says nothing of where it is.
        where = f"{found.namespace}: " if found.about_setup and found.namespace else ""
        yield f"{paint(f'{found.severity}:', _COLOURS[found.severity])} {visible(where + found.message)}"
        others = others_named(found.objects)
        if others:
            yield paint(visible(f"  also {others}"), _FAINT)


def others_named(objects: tuple[Reference, ...]) -> str:
    """All objects but the first: 'b, c, d, e, f and 3 more'."""
    names = [each.name for each in objects[1:]]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def object_name(about: Reference) -> str:
    """'Deployment team-a/model-a', and 'ClusterQueue a' for what is in no namespace."""
    return f"{about.kind} {about.namespace}/{about.name}" if about.namespace else f"{about.kind} {about.name}"


def exempted(entry: Exempted) -> str:
    spoke = f" (else: {', '.join(entry.rules)})" if entry.rules else ""
    return f"exempt: {object_name(entry.object)}: {entry.reason}{spoke}"


def not_evaluated(entry: NotEvaluated) -> str:
    """As admission and check say it, with how many objects that was so for where that is known."""
    objects = f" ({counted(entry.objects, 'object')})" if entry.objects else ""
    return f"not evaluated: {entry.reason} [{entry.what}]{objects}"


def summary(audit: Audit) -> str:
    """'2 namespaces, 12 objects: 9 checked; 4 denials, 1 warning; 1 exempt; 2 not evaluated'."""
    parts = [
        f"{counted(len(audit.namespaces), 'namespace')}, {counted(audit.objects, 'object')}: {audit.checked:,} checked",
        f"{counted(audit.count(Severity.DENY), 'denial')}, {counted(audit.count(Severity.WARN), 'warning')}",
    ]
    if audit.exempted:
        parts.append(f"{len(audit.exempted):,} exempt")
    if audit.not_evaluated:
        parts.append(f"{len(audit.not_evaluated):,} not evaluated")
    return "; ".join(parts)
