"""Judging one object: every rule is asked, and every answer is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from webhook.engine.patch import CannotEdit, Edit, diff, edited
from webhook.engine.policy import Exemption, Mode, Policy
from webhook.engine.rule import Rule, Stage, Violation
from webhook.engine.subject import Subject
from webhook.engine.verdict import Finding, Note, NotEvaluated, Severity, Verdict
from webhook.kube.facts import PROJECTIONS, NamespaceFact
from webhook.kube.kinds import NAMESPACE
from webhook.kube.names import SYSTEM_NAMESPACES
from webhook.kube.objects import show_path
from webhook.kube.snapshot import FactsMissing, Snapshot


def judge(
    rules: Sequence[Rule], stage: Stage, subject: Subject, snapshot: Snapshot, policy: Policy, today: date
) -> Verdict:
    """The verdict on a subject at one of the two calls.

    `today` (UTC) decides which exemptions still hold. Raises nothing for any object, however damaged; FactsMissing
    only if the namespaces themselves are unknown, for then nothing can be said about anything.
    """
    namespace = _namespace(subject, snapshot)
    reason = _passed_over(subject, namespace, policy)
    if reason:
        return Verdict(subject.value, passed_over=reason, confirm=_unmanaged_confirm(reason))
    exemption = policy.exemption(subject.user, subject.groups, subject.namespace, subject.name, today)
    if exemption is not None:
        return _exempt(rules, stage, subject, snapshot, policy, exemption)
    held_at_warn = namespace is not None and namespace.mode == Mode.WARN
    return _Judgement(stage, subject, snapshot, policy, held_at_warn).of(rules)


UNMANAGED = "its namespace is not managed"


def _unmanaged_confirm(reason: str) -> frozenset[str]:
    # A namespace that was labelled a moment ago may not have reached the watch: ask before letting anything through.
    return frozenset({"Namespace"}) if reason == UNMANAGED else frozenset()


def _namespace(subject: Subject, snapshot: Snapshot) -> NamespaceFact | None:
    if subject.kind.cluster_scoped:
        return None
    if subject.kind is NAMESPACE:
        fact = PROJECTIONS["Namespace"](subject.value)
        return fact if isinstance(fact, NamespaceFact) else None
    return snapshot.namespace(subject.namespace)


def _passed_over(subject: Subject, namespace: NamespaceFact | None, policy: Policy) -> str:
    """Why the object is none of our business, '' if it is."""
    if subject.kind.cluster_scoped:
        return "it is being deleted" if subject.deleting else ""
    if namespace is None or not policy.managed_namespaces.matches(namespace.labels):
        return UNMANAGED
    if namespace.name in SYSTEM_NAMESPACES:
        return "its namespace is the system's"
    if subject.deleting:
        return "it is being deleted"
    if namespace.terminating:
        return "its namespace is terminating"
    for one in (subject, subject.before):
        # An object that its owner lets go is judged from its next write on.
        owner = one.owner if one is not None else None
        if owner is not None and owner.is_parent and subject.kind.is_workload:
            return f"its {owner.kind} was judged"
    return ""


def _exempt(
    rules: Sequence[Rule], stage: Stage, subject: Subject, snapshot: Snapshot, policy: Policy, exemption: Exemption
) -> Verdict:
    """An exemption is used only where a rule would have spoken, and once for both calls: /validate sees every rule."""
    passed_over = f"it is exempt: {exemption.reason}"
    if stage is Stage.MUTATE:
        return Verdict(subject.value, passed_over=passed_over)
    verdict = _Judgement(stage, subject, snapshot, policy, held_at_warn=False).of(rules)
    rules_used = tuple(sorted({finding.rule for finding in verdict.findings}))
    used = exemption if rules_used else None
    return Verdict(subject.value, exemption=used, exempted=rules_used, passed_over=passed_over)


class _Judgement:
    """One pass over the rules, gathering what they say."""

    def __init__(self, stage: Stage, subject: Subject, snapshot: Snapshot, policy: Policy, held_at_warn: bool) -> None:
        self.stage = stage
        self.subject = subject
        self.snapshot = snapshot
        self.policy = policy
        self.held_at_warn = held_at_warn
        self.findings: list[Finding] = []
        self.not_evaluated: list[NotEvaluated] = []
        self.edits: list[Edit] = []
        self.confirm: set[str] = set()

    def of(self, rules: Iterable[Rule]) -> Verdict:
        for rule in rules:
            mode = self._mode(rule)
            if mode is not Mode.OFF and self.subject.kind in rule.kinds and self._speaks(rule):
                self._ask(rule, mode)
        if any(finding.severity is Severity.DENY for finding in self.findings):
            # A denied object is not patched as well, and nobody is told that it was.
            self.edits.clear()
            self.findings = [finding for finding in self.findings if finding.severity is not Severity.PATCH]
        value = edited(self.subject.value, self.edits)
        return Verdict(
            value,
            tuple(sorted(self.findings, key=lambda found: (show_path(found.path), found.rule))),
            tuple(diff(self.subject.value, value)),
            tuple(self.not_evaluated),
            advice=self._owner_advice(),
            confirm=frozenset(self.confirm),
        )

    def _mode(self, rule: Rule) -> Mode:
        mode = self.policy.rules.get(rule.id, rule.mode)
        return Mode.WARN if self.held_at_warn and mode is Mode.DENY else mode

    def _speaks(self, rule: Rule) -> bool:
        """/mutate asks only the rules that can say something there; /validate asks all."""
        if rule.removal is not self.subject.removal:
            return False
        return self.stage is Stage.VALIDATE or rule.fixes or rule.stage is Stage.MUTATE

    def _ask(self, rule: Rule, mode: Mode) -> None:
        violations, missing = self._checked(rule, self.subject)
        if missing is not None and rule.stage is self.stage:
            self.not_evaluated.append(NotEvaluated(rule.id, str(missing)))
        old = self._old_weights(rule) if violations else {}
        for violation in violations:
            if not violation.edits:
                self.confirm |= rule.needs
            weight = old.get(violation.key)
            self._find(rule, mode, violation, is_old=weight is not None and violation.weight <= weight)

    def _old_weights(self, rule: Rule) -> dict[object, int]:
        """What was wrong with the object before this write, by identity, and how much."""
        before = self.subject.before
        if before is None or rule.judges_change:
            return {}
        return {found.key: found.weight for found in self._checked(rule, before)[0]}

    def _checked(self, rule: Rule, subject: Subject) -> tuple[list[Violation], FactsMissing | None]:
        """What a rule found, and why it found no more: what comes before its facts ran out stands."""
        violations: list[Violation] = []
        try:
            for violation in rule.check(subject, self.snapshot, self.policy):
                violations.append(violation)  # noqa: PERF402
        except FactsMissing as missing:
            return violations, missing
        return violations, None

    def _find(self, rule: Rule, mode: Mode, violation: Violation, is_old: bool) -> None:
        if self._mends(violation):
            self._find_mendable(rule, mode, violation, is_old)
        elif violation.advice or mode is Mode.WARN:
            # Warnings of a rule that speaks in /mutate were given there.
            if rule.stage is self.stage:
                self._add(rule, Severity.WARN, violation)
        elif is_old:
            if rule.stage is self.stage:
                self._add(rule, Severity.WARN, violation, Note.OLD)
        elif self.stage is Stage.VALIDATE or rule.stage is Stage.MUTATE:
            self._add(rule, Severity.DENY, violation)

    def _mends(self, violation: Violation) -> bool:
        if not violation.edits:
            return False
        try:
            edited(self.subject.value, violation.edits)
        except CannotEdit:
            return False
        return True

    def _find_mendable(self, rule: Rule, mode: Mode, violation: Violation, is_old: bool) -> None:
        if self.stage is Stage.MUTATE:
            if mode is Mode.DENY:
                self.edits.extend(violation.edits)
                self._add(rule, Severity.PATCH, violation, Note.PATCHED)
            else:
                self._add(rule, Severity.WARN, violation, Note.WOULD_PATCH)
        elif mode is Mode.DENY:
            # What /mutate set is gone again: somebody after us took it out, or /mutate was never called.
            self._add(rule, Severity.WARN if is_old else Severity.DENY, violation, Note.OLD if is_old else Note.NONE)

    def _add(self, rule: Rule, severity: Severity, violation: Violation, note: Note = Note.NONE) -> None:
        subject = self.subject
        self.findings.append(
            Finding(rule.id, severity, subject.kind.kind, subject.namespace, subject.name, violation, note)
        )

    def _owner_advice(self) -> tuple[str, ...]:
        """An owner that is no workload may write its own values back, so the person has to look there."""
        owner = self.subject.owner
        if owner is None or self.stage is not Stage.MUTATE or not self.subject.kind.is_workload:
            return ()
        if not self.subject.is_gpu_workload and not self.findings:
            return ()
        return (
            f'{self.subject.kind.kind} "{self.subject.name}": is controlled by {owner.kind} "{owner.name}", which '
            f"Floorkeeper does not know: it is judged on its own; change values there if they come back",
        )
