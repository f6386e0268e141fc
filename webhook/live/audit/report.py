"""What an audit comes to, as every reader of it has it: screens, files, metrics and PolicyReports. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from webhook.engine.verdict import Severity

FINE, FAILED, NOT_EVALUATED = 0, 1, 3
"""Exit codes. What fails comes before what could not be looked at."""

FAIL_ON = ("warn",)
"""What can be asked to fail beside denials, which always do."""

SETUP = "setup/"
"""How the ids of what is wrong with the set-up itself begin; those of rules have no slash."""


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """One object of the cluster. `namespace` is '' for what is in none."""

    namespace: str
    kind: str
    name: str
    api_version: str


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """What is wrong, said once for all objects of one namespace and kind of which it is true in the same words.

    `path` is as the API server spells it. `message` is the whole sentence, with the first object's name and how many
    more there are.
    """

    rule: str
    severity: Severity
    path: str
    message: str
    what: str
    """What must hold and what is there: the sentence without the object's name, the remedy and the rule."""

    fix: str
    """The remedy alone."""

    objects: tuple[Reference, ...]
    """At least one, sorted."""

    @property
    def namespace(self) -> str:
        return self.objects[0].namespace

    @property
    def count(self) -> int:
        return len(self.objects)

    @property
    def about_setup(self) -> bool:
        return self.rule.startswith(SETUP)


@dataclass(frozen=True, slots=True)
class Exempted:
    """An object that the policy exempts, why, and the ids of the rules that would have spoken (sorted, may be none)."""

    object: Reference
    reason: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class NotEvaluated:
    """What could not be looked at: neither fine nor wrong.

    `what` is the id of a rule or of a check of the set-up, or the name of a kind that could not be listed
    (deployments.apps). `objects` is how many were to be judged, 0 where nobody knows.
    """

    what: str
    reason: str
    objects: int = 0


@dataclass(frozen=True, slots=True)
class Audit:
    """All of it. Findings are sorted: the set-up first, then by namespace, what is in none first, the worse first."""

    at: float
    """When it began, in seconds since the epoch."""

    seconds: float
    """How long it took."""

    namespaces: tuple[str, ...]
    """The managed ones that were looked at, sorted."""

    objects: int
    """How many of the kinds that are judged were found there, and of quota objects anywhere."""

    checked: int
    """Of them, how many were judged; the others were made by one that was, are being deleted, or are exempt."""

    findings: tuple[AuditFinding, ...] = ()
    exempted: tuple[Exempted, ...] = ()
    not_evaluated: tuple[NotEvaluated, ...] = ()

    def count(self, severity: Severity) -> int:
        """Of objects, one for each thing that is wrong with it."""
        return sum(found.count for found in self.findings if found.severity is severity)

    def exit_code(self, fail_on: Collection[str] = ()) -> int:
        """`fail_on` is a part of FAIL_ON."""
        severities = {Severity.DENY, *map(Severity, fail_on)}
        if any(found.severity in severities for found in self.findings):
            return FAILED
        return NOT_EVALUATED if self.not_evaluated else FINE

    def same(self, other: Audit) -> bool:
        """Whether it says the same, whenever it was and however long it took."""
        return (self.namespaces, self.findings, self.exempted, self.not_evaluated) == (
            other.namespaces,
            other.findings,
            other.exempted,
            other.not_evaluated,
        )
