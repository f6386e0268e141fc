"""The verdicts of admission on every object of the input, as if all of them were written at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from webhook.check.inputs import Inputs
from webhook.check.options import Options
from webhook.check.result import Fault, Found, NotJudged, Place, Result, Skipped
from webhook.check.state import (
    Item,
    Key,
    Unusable,
    fault_at,
    item_of,
    manage_undeclared,
    policy_of,
    snapshot_of,
)
from webhook.check.unread import misspelt, of_other_versions
from webhook.engine.evaluate import UNMANAGED, judge
from webhook.engine.patch import Operation
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Stage, Survey
from webhook.engine.shared import told_once
from webhook.engine.subject import Subject
from webhook.engine.verdict import Finding, Note, Severity, Verdict
from webhook.kube.facts import PROJECTIONS
from webhook.kube.kinds import KINDS, NAMESPACE, Kinds
from webhook.kube.objects import Object, show_path
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.rules import RULES
from webhook.sources.documents import position

_NOT_THERE = "its namespace is not in the input; --managed treats it as managed"
_NOT_MANAGED = "it is not managed"
_STATE_ALONE = "it is read as state, and no rule judges its kind"
_NO_RULE = "no rule judges its kind"


def check(inputs: Inputs, options: Options) -> Result:
    """What all of the input comes to. Raises BadOption for what only the files show to be wrong."""
    faults, notes = list(inputs.faults), list(inputs.notes)
    try:
        policy = policy_of(options)
        kinds, unusable = policy.kinds, None
    except Unusable as error:
        kinds, unusable = KINDS, error
    items: list[Item] = []
    for document in inputs.documents:
        item = item_of(document, options.namespace, kinds)
        items.append(item)
        faults += misspelt(item)
        notes += of_other_versions(item)
    try:
        if unusable is not None:
            raise unusable
        snapshot, unread = snapshot_of(items, options, policy)
        old, not_compared = _old_objects(options, kinds)
    except Unusable as error:
        faults += error.faults
        return Result(notes=in_order(notes), errors=in_order(faults), objects=len(inputs.documents))
    if options.managed:
        homes = {item.namespace for item in items if item.kind is not None and item.kind is not NAMESPACE}
        manage_undeclared(sorted(homes - {""}), snapshot, policy.managed_namespaces)
    run = _Run(items, snapshot, policy, options.today, old)
    run.judge()
    return Result(
        findings=tuple(sorted(run.found(), key=lambda found: (found.place, found.rule, found.path))),
        notes=in_order([*notes, *not_compared, *run.notes]),
        skipped=tuple(sorted(run.skipped, key=lambda skipped: skipped.place)),
        not_evaluated=tuple(run.not_evaluated()),
        errors=in_order([*faults, *unread]),
        objects=len(inputs.documents),
        checked=len(run.subjects),
    )


def _old_objects(options: Options, kinds: Kinds) -> tuple[Mapping[Key, Object], list[Fault]]:
    if not options.diff_against:
        return {}, []
    from webhook.check.comparison import old_objects

    return old_objects(options, kinds)


def in_order(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Sorted by place."""
    return tuple(sorted(faults, key=lambda fault: (fault.place, fault.message)))


class _Run:
    """One pass over the input. Objects are named by their index in it."""

    def __init__(
        self,
        items: Sequence[Item],
        snapshot: Snapshot,
        policy: Policy,
        today: date,
        old: Mapping[Key, Object],
    ) -> None:
        self.subjects: dict[int, Subject] = {}
        """Those that were judged, as /validate sees them."""

        self.skipped: list[Skipped] = []
        self.notes: list[Fault] = []
        self._items = items
        self._snapshot = snapshot
        self._policy = policy
        self._today = today
        self._old = old
        self._findings: list[tuple[int, Finding]] = []
        self._changes: dict[int, tuple[Operation, ...]] = {}
        self._missing: dict[tuple[str, str], set[int]] = {}

    def judge(self) -> None:
        """All of /mutate comes first: what it changes is what the others then see."""
        mutated = [each for index, item in enumerate(self._items) for each in self._mutated(index, item)]
        for index, subject in mutated:
            self._add(
                index,
                judge(RULES, Stage.VALIDATE, subject, self._snapshot, self._policy, self._today),
            )
        for rule in RULES:
            if rule.survey is not None and self._policy.rules.get(rule.id, rule.mode) is not Mode.OFF:
                self._survey(rule, rule.survey)

    def _mutated(self, index: int, item: Item) -> Iterator[tuple[int, Subject]]:
        """The object as /validate sees it; nothing if it is not judged, or is denied by then."""
        if item.kind is None:
            known = bool(item.fact_kinds)
            self._skip(item, _STATE_ALONE if known else _NO_RULE, unknown=not known)
            return
        namespace = "" if item.kind is NAMESPACE else item.namespace
        subject = Subject(
            item.kind,
            namespace,
            item.value,
            self._policy.accelerators,
            self._old.get(item.key),
            kinds=self._policy.kinds,
        )
        verdict = judge(RULES, Stage.MUTATE, subject, self._snapshot, self._policy, self._today)
        if verdict.passed_over:
            self._skip(item, self._reason(subject, verdict.passed_over))
            return
        self._add(index, verdict)
        if verdict.patch:
            subject = subject.with_value(verdict.value)
            self._changes[index] = verdict.patch
            for kind in item.fact_kinds:
                fact = PROJECTIONS[kind](verdict.value)
                if fact is not None and item.key[3]:
                    self._snapshot.put(kind, fact)
        self.subjects[index] = subject
        if verdict.allowed:
            yield index, subject

    def _reason(self, subject: Subject, passed_over: str) -> str:
        if passed_over != UNMANAGED:
            return passed_over
        if subject.kind is NAMESPACE:
            return _NOT_MANAGED
        return _NOT_THERE if self._snapshot.namespace(subject.namespace) is None else passed_over

    def _skip(self, item: Item, reason: str, unknown: bool = False) -> None:
        document, (_, kind, namespace, name) = item.document, item.key
        place = Place(document.file, document.line, 1)
        version = document.value["apiVersion"]
        self.skipped.append(Skipped(place, version, kind, namespace, name, reason, unknown))

    def _add(self, index: int, verdict: Verdict) -> None:
        self._findings += ((index, finding) for finding in verdict.findings)
        for entry in verdict.not_evaluated:
            self._missing.setdefault((entry.rule, entry.missing), set()).add(index)
        if verdict.advice:
            self.notes += (fault_at(self._items[index].document, (), text) for text in verdict.advice)

    def _survey(self, rule: Rule, survey: Survey) -> None:
        indexes = {id(subject): index for index, subject in self.subjects.items() if rule.judges(subject.kind)}
        subjects = [self.subjects[index] for index in indexes.values()]
        if not subjects:
            return
        try:
            for subject, violation in survey(subjects, self._snapshot, self._policy):
                finding = Finding(rule.id, Severity.WARN, subject.kind.kind, subject.namespace, subject.name, violation)
                self._findings.append((indexes[id(subject)], finding))
        except FactsMissing as missing:
            self._missing.setdefault((rule.id, str(missing)), set()).update(indexes.values())

    # What it comes to

    def found(self) -> Iterator[Found]:
        """The findings, object by object in the order of the input, for so are places found soonest."""
        for index, finding in sorted(told_once(self._findings), key=lambda each: each[0]):
            document = self._items[index].document
            patched = finding.severity is Severity.PATCH
            yield Found(
                Place(document.file, *position(document, finding.path)),
                finding.rule,
                finding.severity,
                document.value["apiVersion"],
                finding.kind,
                finding.namespace,
                finding.name,
                show_path(finding.path),
                finding.message,
                self._changes.get(index, ()) if patched else (),
                finding.note is Note.OLD,
            )

    def not_evaluated(self) -> Iterator[NotJudged]:
        for (rule, reason), indexes in sorted(self._missing.items()):
            yield NotJudged(rule, reason, len(indexes))
