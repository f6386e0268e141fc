"""What several objects are at fault for together (Violation.shared) is said once, by a door that sees them all."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from webhook.engine.verdict import Finding


def told_once(findings: Sequence[tuple[int, Finding]]) -> Iterator[tuple[int, Finding]]:
    """The findings, by their objects' numbers, without those that another object says as well in a better place."""
    best: dict[tuple[str, Hashable], tuple[bool, int]] = {}
    for index, finding in findings:
        found = finding.violation
        if found.shared is not None:
            key = finding.rule, found.shared
            best[key] = max(best.get(key, (False, -1)), (not found.aside, index))
    said: set[tuple[int, str, str]] = set()
    for index, finding in findings:
        found = finding.violation
        if found.shared is not None and best[finding.rule, found.shared] != (not found.aside, index):
            continue
        # A survey may say what the rule has said of the change.
        if (index, finding.rule, finding.message) not in said:
            said.add((index, finding.rule, finding.message))
            yield index, finding
