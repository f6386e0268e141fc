"""Equal findings said once. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from webhook.engine.verdict import Finding, Note, Severity
from webhook.kube.objects import show_path
from webhook.live.audit.report import AuditFinding, Reference

_WORST_FIRST = (Severity.DENY, Severity.PATCH, Severity.WARN)


def collapsed(findings: Iterable[tuple[Reference, Finding]]) -> tuple[AuditFinding, ...]:
    """One for each thing that is said of objects of one kind in one namespace, in the same words but for their names.

    Sorted as Audit has it: the set-up first, then by namespace, the worse before the better.
    """
    groups: dict[tuple[str, Severity, str, str, str], tuple[Finding, set[Reference]]] = {}
    for reference, finding in findings:
        said = finding.message.removeprefix(_named(finding))
        key = finding.rule, finding.severity, reference.kind, reference.namespace, said
        groups.setdefault(key, (finding, set()))[1].add(reference)
    found = [_of(finding, said, objects) for (*_, said), (finding, objects) in groups.items()]
    return tuple(sorted(found, key=_order))


def _of(finding: Finding, said: str, objects: set[Reference]) -> AuditFinding:
    violation, path = finding.violation, show_path(finding.path)
    return AuditFinding(
        finding.rule,
        finding.severity,
        path,
        f"{_who(objects)}{said}",
        f"{path}: {violation.must}, is {violation.actual}",
        f"would be patched: {violation.done}" if finding.note is Note.WOULD_PATCH else violation.fix,
        tuple(sorted(objects)),
    )


def _order(found: AuditFinding) -> tuple[object, ...]:
    return (
        not found.about_setup,
        found.namespace,
        _WORST_FIRST.index(found.severity),
        found.rule,
        found.objects[0],
        found.path,
        found.message,
    )


def _named(finding: Finding) -> str:
    return f'{finding.kind} "{finding.name}"'


def _who(objects: Iterable[Reference]) -> str:
    """'Deployment "model-a" and 2 more'."""
    first, *others = sorted(objects)
    return f'{first.kind} "{first.name}"' + (f" and {len(others):,} more" if others else "")
