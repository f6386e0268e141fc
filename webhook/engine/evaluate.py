"""Judging one object: every rule is asked, and every answer is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from webhook.engine.patch import CannotEdit, diff, edited
from webhook.engine.policy import Exemption, Mode, Policy
from webhook.engine.rule import Rule, Rules, Stage, Violation
from webhook.engine.subject import Subject
from webhook.engine.verdict import Finding, Note, NotEvaluated, Severity, Verdict
from webhook.kube.claims import CLAIMS
from webhook.kube.facts import PROJECTIONS, NamespaceFact
from webhook.kube.kinds import NAMESPACE, Kind
from webhook.kube.names import SYSTEM_NAMESPACES
from webhook.kube.objects import Object
from webhook.kube.paths import by_names
from webhook.kube.row import Relabel
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
    if not subject.kind.cluster_scoped:
        subject = subject.within(snapshot)
    asked = (rules if isinstance(rules, Rules) else Rules(rules)).asked(subject.kind, stage, subject.removal)
    exemption = _exemption(subject, policy, today)
    if exemption is not None:
        return _exempt(asked, stage, subject, snapshot, policy, exemption)
    held_at_warn = namespace is not None and namespace.mode == Mode.WARN
    return _Judgement(stage, subject, snapshot, policy, held_at_warn).of(asked)


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
        parent = policy.kinds.parent(one.owner) if one is not None else None
        if parent is not None and subject.kind.is_workload and not _answers_for_itself(subject, parent):
            return f"its {parent.kind} was judged"
    return ""


def _answers_for_itself(subject: Subject, parent: Kind) -> bool:
    """What a CronJob makes that had no label in its time: its Jobs are new ones, and can still get it."""
    return parent.relabel is Relabel.NEW_JOBS and subject.old is None and not subject.whole_queue


def _exemption(subject: Subject, policy: Policy, today: date) -> Exemption | None:
    """By its own name or, for what a workload made, by the workload's."""
    if not policy.exemptions:
        return None
    found = (policy.exemption(subject.user, subject.groups, subject.namespace, name, today) for name in subject.names)
    return next((each for each in found if each is not None), None)


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
        self.value = subject.value
        """The object with all edits so far."""

        self.confirm: set[str] = set()

    def of(self, rules: Iterable[Rule]) -> Verdict:
        # A claim's template that was made a moment ago decides whether this is a GPU workload at all.
        for template in self.subject.templates:
            self.confirm.update([claim.kind for claim in template.claims if claim.fact is None])
        modes, subject = self.policy.rules, self.subject
        asks = subject.is_gpu_workload
        for rule in rules:
            mode = modes.get(rule.id, rule.mode)
            if mode is not Mode.OFF and (asks or not rule.for_accelerators):
                violations, missing = self._checked(rule, subject)
                if violations or missing is not None:
                    self._hear(rule, Mode.WARN if self.held_at_warn else mode, violations, missing)
        if any(finding.severity is Severity.DENY for finding in self.findings):
            # A denied object is not patched as well, and nobody is told that it was.
            self.findings = [finding for finding in self.findings if finding.severity is not Severity.PATCH]
            self.value = self.subject.value
        return Verdict(
            self.value,
            tuple(sorted(self.findings, key=lambda found: (found.place, found.rule))),
            tuple(diff(self.subject.value, self.value)),
            tuple(self.not_evaluated),
            advice=self._owner_advice(),
            confirm=frozenset(self.confirm),
        )

    def _hear(self, rule: Rule, mode: Mode, violations: Sequence[Violation], missing: FactsMissing | None) -> None:
        """What a rule said, and why it could not say more."""
        if missing is not None and rule.stage is self.stage:
            self.not_evaluated.append(NotEvaluated(rule.id, str(missing)))
        old = self._old(rule, violations) if violations else set()
        for index, violation in enumerate(violations):
            if not violation.edits:
                self.confirm |= rule.needs - CLAIMS
            self._find(rule, mode, violation, is_old=index in old)

    def _old(self, rule: Rule, violations: Sequence[Violation]) -> set[int]:
        """Which of the violations the object had before this write, and no less. Each of then stands for one of now: by
        the names of what lists hold, for entries move, and then by their places, for names change."""
        before = self.subject.before
        if before is None or rule.judges_change:
            return set()
        then, now = (dict(enumerate(found)) for found in (self._checked(rule, before)[0], violations))
        old: set[int] = set()
        for keyed in (by_names, lambda _, key: key):
            were: dict[object, list[int]] = {}
            for number, violation in then.items():
                were.setdefault(keyed(before.value, violation.key), []).append(number)
            for number, violation in list(now.items()):
                same = were.get(keyed(self.subject.value, violation.key))
                if same:
                    del now[number]
                    if violation.weight <= then.pop(same.pop()).weight:
                        old.add(number)
        return old

    def _checked(self, rule: Rule, subject: Subject) -> tuple[list[Violation], FactsMissing | None]:
        """What a rule found, and why it found no more: what comes before its facts ran out stands."""
        violations: list[Violation] = []
        if rule.for_accelerators and not subject.is_gpu_workload:
            # What an object was before may be no such workload.
            return violations, None
        try:
            for violation in rule.check(subject, self.snapshot, self.policy):
                violations.append(violation)  # noqa: PERF402
        except FactsMissing as missing:
            return violations, missing
        return violations, None

    def _find(self, rule: Rule, mode: Mode, violation: Violation, is_old: bool) -> None:
        mended = self._mended(violation)
        if mended is not None:
            self._find_mendable(rule, mode, violation, is_old, mended)
        elif violation.advice or mode is Mode.WARN:
            # Warnings of a rule that speaks in /mutate were given there.
            if rule.stage is self.stage:
                self._add(rule, Severity.WARN, violation)
        elif is_old:
            if rule.stage is self.stage:
                self._add(rule, Severity.WARN, violation, Note.OLD)
        elif self.stage is Stage.VALIDATE or rule.stage is Stage.MUTATE:
            self._add(rule, Severity.DENY, violation)

    def _mended(self, violation: Violation) -> Object | None:
        """The object with this mended too; None if nothing mends it."""
        try:
            return edited(self.value, violation.edits) if violation.edits else None
        except CannotEdit:
            return None

    def _find_mendable(self, rule: Rule, mode: Mode, violation: Violation, is_old: bool, mended: Object) -> None:
        if self.stage is Stage.MUTATE:
            if mode is Mode.DENY:
                self.value = mended
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
        if self.policy.kinds.parent(owner) is not None:
            return ()
        if not self.subject.is_gpu_workload and not self.findings:
            return ()
        return (
            f'{self.subject.kind.kind} "{self.subject.name}": is controlled by {owner.kind} "{owner.name}", which '
            f"Floorkeeper does not know: it is judged on its own; change values there if they come back",
        )
