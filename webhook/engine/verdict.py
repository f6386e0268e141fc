"""What a judgement comes to: findings, the patch, and what could not be judged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from webhook.engine.patch import Operation
from webhook.engine.policy import Exemption
from webhook.engine.rule import Violation
from webhook.kube.cached import cached
from webhook.kube.objects import Object, Path, show_path


class Severity(StrEnum):
    DENY = "deny"
    PATCH = "patch"
    WARN = "warn"


class Note(StrEnum):
    """Why a finding is no denial, where that needs words."""

    NONE = ""
    PATCHED = "patched"
    WOULD_PATCH = "would patch"
    OLD = "old"


@dataclass(frozen=True)
class Finding:
    """A violation with its verdict, addressed to the person who wrote the object."""

    rule: str
    severity: Severity
    kind: str
    namespace: str
    name: str
    violation: Violation
    note: Note = Note.NONE

    @property
    def path(self) -> Path:
        return self.violation.path

    @cached
    def place(self) -> str:
        """The path, as the API server spells it."""
        return show_path(self.violation.path)

    @cached
    def message(self) -> str:
        """The whole sentence, as every door prints it."""
        found = self.violation
        match self.note:
            case Note.PATCHED:
                end = f"patched: {found.done}"
            case Note.WOULD_PATCH:
                end = f"would be patched: {found.done}"
            case Note.OLD:
                end = f"not denied: it was so before; fix: {found.fix}"
            case _:
                end = f"fix: {found.fix}"
        return f'{self.kind} "{self.name}": {self.place}: {found.must}, is {found.actual}; {end} [{self.rule}]'


@dataclass(frozen=True, slots=True)
class NotEvaluated:
    """A rule that had no facts to judge by: neither pass nor fail."""

    rule: str
    missing: str
    """The kind that is not known, and why."""

    @property
    def message(self) -> str:
        return f"not evaluated: {self.missing} [{self.rule}]"


class Verdict(NamedTuple):
    """The outcome of one judgement.

    `value` is the object after the patch. `confirm` names kinds whose facts a finding depends on: a door with a live
    cluster reads them again before it believes the finding, since a watch lags behind.
    """

    value: Object
    findings: tuple[Finding, ...] = ()
    patch: tuple[Operation, ...] = ()
    not_evaluated: tuple[NotEvaluated, ...] = ()
    exemption: Exemption | None = None
    """The exemption that let the object through, if a rule would have spoken."""

    exempted: tuple[str, ...] = ()
    """The ids of the rules that would have spoken, sorted."""

    passed_over: str = ""
    """Why the object was not judged at all, '' if it was."""

    advice: tuple[str, ...] = ()
    """Warnings about the findings as a whole."""

    confirm: frozenset[str] = frozenset()

    @property
    def denials(self) -> tuple[Finding, ...]:
        return tuple([finding for finding in self.findings if finding.severity is Severity.DENY])

    @property
    def allowed(self) -> bool:
        return not self.denials

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the person is told although the object passes: patches, warnings, and what was not evaluated."""
        if not self.findings and not self.not_evaluated:
            return self.advice
        return (
            *(finding.message for finding in self.findings if finding.severity is not Severity.DENY),
            *(entry.message for entry in self.not_evaluated),
            *self.advice,
        )
