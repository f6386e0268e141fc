"""The verdicts of the rules on what stands in a cluster. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from webhook.engine.evaluate import judge
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Stage, Survey
from webhook.engine.shared import told_once
from webhook.engine.subject import Subject
from webhook.engine.verdict import Finding, Note, Severity
from webhook.kube.facts import NamespaceFact
from webhook.kube.kinds import NAMESPACE, Kind
from webhook.kube.objects import Object, metadata, string
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.live.audit.report import Exempted, NotEvaluated, Reference
from webhook.rules import RULES

_RULES = tuple(replace(rule, stage=Stage.VALIDATE) for rule in RULES if not rule.removal)
"""Nothing is being written, so a rule that speaks in /mutate, before Kueue rewrites the object, speaks of what is."""

_EXEMPT = "it is exempt: "
"""How the engine begins to say why it passed something over."""


@dataclass
class Judgement:
    """`findings` have the object that they are about beside them, and come in its order."""

    findings: list[tuple[Reference, Finding]] = field(default_factory=list)
    exempted: list[Exempted] = field(default_factory=list)
    not_evaluated: list[NotEvaluated] = field(default_factory=list)
    checked: int = 0


def judge_all(values: Sequence[tuple[Kind, Object]], snapshot: Snapshot, policy: Policy, today: date) -> Judgement:
    """Every rule over every object, one by one and then all together. `today` (UTC) is for exemptions."""
    run = _Run(snapshot, policy, today)
    for kind, value in values:
        run.judge(kind, value)
    for rule in _RULES:
        if rule.survey is not None and policy.rules.get(rule.id, rule.mode) is not Mode.OFF:
            run.survey(rule, rule.survey)
    return run.result()


def reference(value: Object, namespaced: bool = True) -> Reference:
    own = metadata(value)
    namespace = string(own.get("namespace")) if namespaced else ""
    return Reference(namespace, string(value.get("kind")), string(own.get("name")), string(value.get("apiVersion")))


class _Run:
    """Objects are named by their index in `subjects`."""

    def __init__(self, snapshot: Snapshot, policy: Policy, today: date) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._today = today
        self._subjects: list[Subject] = []
        self._findings: list[tuple[int, Finding]] = []
        self._missing: dict[tuple[str, str], set[int]] = {}
        self._exempted: list[Exempted] = []
        self._rules: dict[Kind, tuple[Rule, ...]] = {}
        self._held = {
            fact.name
            for fact in snapshot.facts("Namespace")
            if isinstance(fact, NamespaceFact) and fact.mode == Mode.WARN
        }

    def judge(self, kind: Kind, value: Object) -> None:
        namespace = "" if kind is NAMESPACE or kind.cluster_scoped else string(metadata(value).get("namespace"))
        # As a write that changes nothing, so that the remedy is one for what runs: a label would restart it, or is too
        # late. What quota objects come to is judged as if they were new.
        old = value if kind.is_workload else None
        subject = Subject(kind, namespace, value, self._policy.accelerators, old, kinds=self._policy.kinds)
        verdict = judge(self._for(kind), Stage.VALIDATE, subject, self._snapshot, self._policy, self._today)
        if verdict.passed_over:
            if verdict.passed_over.startswith(_EXEMPT):
                reason = verdict.passed_over.removeprefix(_EXEMPT)
                self._exempted.append(Exempted(reference(value), reason, verdict.exempted))
            return
        index = len(self._subjects)
        self._subjects.append(subject)
        self._findings += ((index, _as_it_stands(finding)) for finding in verdict.findings)
        self._findings += ((index, finding) for finding in self._would_patch(subject))
        for entry in verdict.not_evaluated:
            self._missing.setdefault((entry.rule, entry.missing), set()).add(index)

    def _for(self, kind: Kind) -> tuple[Rule, ...]:
        """Asking all rules costs as much as their answers."""
        if kind not in self._rules:
            self._rules[kind] = tuple(rule for rule in _RULES if rule.judges(kind))
        return self._rules[kind]

    def _would_patch(self, subject: Subject) -> list[Finding]:
        """What is held at `warn` and could be mended is told by /mutate alone, whose rules look at the same object."""
        rules = [rule for rule in self._for(subject.kind) if rule.fixes and self._warns(rule, subject)]
        if not rules:
            return []
        verdict = judge(rules, Stage.MUTATE, subject, self._snapshot, self._policy, self._today)
        return [finding for finding in verdict.findings if finding.note is Note.WOULD_PATCH]

    def _warns(self, rule: Rule, subject: Subject) -> bool:
        mode = self._policy.rules.get(rule.id, rule.mode)
        return mode is Mode.WARN or (mode is Mode.DENY and subject.namespace in self._held)

    def survey(self, rule: Rule, survey: Survey) -> None:
        indexes = {id(subject): index for index, subject in enumerate(self._subjects) if rule.judges(subject.kind)}
        subjects = [self._subjects[index] for index in indexes.values()]
        if not subjects:
            return
        try:
            for subject, violation in survey(subjects, self._snapshot, self._policy):
                finding = Finding(rule.id, Severity.WARN, subject.kind.kind, subject.namespace, subject.name, violation)
                self._findings.append((indexes[id(subject)], finding))
        except FactsMissing as missing:
            self._missing.setdefault((rule.id, str(missing)), set()).update(indexes.values())

    def result(self) -> Judgement:
        found = Judgement(exempted=sorted(self._exempted, key=lambda each: each.object), checked=len(self._subjects))
        for index, finding in told_once(self._findings):
            subject = self._subjects[index]
            found.findings.append((reference(subject.value, not subject.kind.cluster_scoped), finding))
        found.not_evaluated = sorted(
            NotEvaluated(rule, reason, len(indexes)) for (rule, reason), indexes in self._missing.items()
        )
        return found


def _as_it_stands(finding: Finding) -> Finding:
    """Admission lets pass what was so before, with a warning. Here everything was, and is what is asked about."""
    if finding.note is Note.OLD:
        return replace(finding, severity=Severity.DENY, note=Note.NONE)
    return finding
