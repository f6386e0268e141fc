"""What a run of `floorkeeper check` comes to, as every output format reads it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from webhook.engine.patch import Operation
from webhook.engine.verdict import Severity

FINE, FAILED, UNUSABLE, NOT_EVALUATED = 0, 1, 2, 3
"""Exit codes. Unusable input comes before what fails, and that before what was not evaluated."""

FAIL_ON = ("patch", "warn", "not-evaluated")
"""What can be asked to fail beside denials, which always do."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a file. Lines and columns count from 1; line 0 stands for the file as a whole."""

    file: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """One finding. `place` is that of the key at `path`, or of its nearest parent that is there.

    `path` is as the API server spells it, and `message` the whole sentence that admission says. `change` is the
    object's patch, the same one for all its findings of severity patch, else empty. `old` says that it was so before (a
    comparison with another state of the files).
    """

    place: Place
    rule: str
    severity: Severity
    api_version: str
    kind: str
    namespace: str
    name: str
    path: str
    message: str
    change: tuple[Operation, ...] = ()
    old: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """An object that was not judged, and why: its namespace is not managed, Floorkeeper knows no rule for its kind …"""

    place: Place
    api_version: str
    kind: str
    namespace: str
    name: str
    reason: str
    unknown_kind: bool = False


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A rule that had no facts, the reason, and how many objects that was so for."""

    rule: str
    reason: str
    objects: int = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """What cannot be used: a file, a document, an argument. The message says what is wrong and what to do."""

    place: Place
    message: str
    warning: bool = False
    """Of a note: it fails where warnings do."""


@dataclass(frozen=True, slots=True)
class Result:
    """All of it, each tuple sorted by place. `objects` were in the input, `checked` of them were judged."""

    findings: tuple[Found, ...] = ()
    notes: tuple[Fault, ...] = ()
    """Warnings about the input itself, which are no findings: the same object twice, a field of another version."""

    skipped: tuple[Skipped, ...] = ()
    not_evaluated: tuple[NotJudged, ...] = ()
    errors: tuple[Fault, ...] = ()
    objects: int = 0
    checked: int = 0

    def count(self, severity: Severity) -> int:
        return sum(found.severity is severity for found in self.findings)

    def exit_code(self, fail_on: Collection[str] = (), allow_empty: bool = False) -> int:
        """`fail_on` is a part of FAIL_ON."""
        if self.errors or (not self.checked and not allow_empty):
            return UNUSABLE
        severities = {Severity.DENY, *(Severity(name) for name in fail_on if name != "not-evaluated")}
        warned = Severity.WARN in severities and any(note.warning for note in self.notes)
        if warned or any(found.severity in severities for found in self.findings):
            return FAILED
        return NOT_EVALUATED if self.not_evaluated and "not-evaluated" in fail_on else FINE
