"""The decision on one review, against the policy and the facts of this moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from math import inf
from time import monotonic
from typing import NamedTuple, Protocol, cast

from webhook.capacity.balance import balance_of
from webhook.capacity.pending import Written, reservation
from webhook.engine.evaluate import judge
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Rules, Stage
from webhook.engine.subject import Subject
from webhook.engine.verdict import Verdict
from webhook.kube.facts import PROJECTIONS
from webhook.kube.kinds import FLOORS, NAMESPACE, Kind
from webhook.kube.objects import metadata, string
from webhook.kube.snapshot import Snapshot
from webhook.server.review import MalformedReview, Review
from webhook.sources.source import PendingWrite, Source

STALE_SECONDS = 300.0
"""The age of facts from which on an answer that rests on them says so."""

_CONFIRM_SECONDS = 3.0  # a source promises 2
_LOOK_SECONDS = 1.0
"""Between two looks at how old the facts are: it concerns all kinds at once, and changes by the minute."""

log = logging.getLogger("floorkeeper.admission")


class PolicyInForce(Protocol):
    """The policy of this moment, which a reload may replace. Implemented by webhook.policy.PolicyFile."""

    @property
    def policy(self) -> Policy: ...

    @property
    def generation(self) -> int:
        """Counts the policies that were in force, from 1."""

    @property
    def error(self) -> str:
        """Why the file's present content is not in force, '' if it is."""


class Decision(NamedTuple):
    """A verdict, and the warning that the facts behind it are old, '' if they are not."""

    verdict: Verdict
    stale: str = ""

    @property
    def outcome(self) -> str:
        """The verdict in one word, for logs and metrics."""
        verdict = self.verdict
        if verdict.denials:
            return "denied"
        if verdict.patch:
            return "patched"
        if verdict.exemption is not None:
            return "exempt"
        if verdict.passed_over:
            return "passed_over"
        return "warned" if verdict.warnings else "allowed"

    @property
    def hits(self) -> list[tuple[str, str]]:
        """(rule id, severity) of each finding; a rule that had no facts to judge by counts as 'not-evaluated'."""
        found: list[tuple[str, str]] = [(finding.rule, finding.severity.value) for finding in self.verdict.findings]
        found.extend((entry.rule, "not-evaluated") for entry in self.verdict.not_evaluated)
        return found


def _today() -> date:
    return datetime.now(UTC).date()


_NOT_JUDGED = Decision(Verdict({}, passed_over="no rule judges such a request"))


class Admission:
    """Judges reviews, one at a time: a judgement reads one state of policy and facts from start to end."""

    def __init__(
        self, rules: Sequence[Rule], policies: PolicyInForce, source: Source, today: Callable[[], date] = _today
    ) -> None:
        self._rules = rules if isinstance(rules, Rules) else Rules(rules)
        self._removals = frozenset(kind for rule in rules if rule.removal for kind in rule.kinds)
        self._policies = policies
        self._source = source
        self._today = today
        self._looked = -inf
        self._old: Mapping[str, float] = {}
        """The kinds whose facts are old, and their ages in seconds, as of then."""

    async def decide(self, stage: Stage, review: Review, verdict: Verdict | None = None) -> Decision:
        """The decision; `verdict` is that of `decide_at_once`, if it had one.

        Raises MalformedReview, FactsMissing if the namespaces are not known, and LedgerError.
        """
        kind = self._kind(stage, review)
        if kind is None:
            return _NOT_JUDGED
        try:
            verdict = verdict or self._judge(stage, review, kind)
            if kind.cluster_scoped:
                verdict = await self._held(stage, review, kind, verdict)
            elif verdict.confirm and await self._confirm(verdict, review):
                verdict = self._judge(stage, review, kind)
            if review.operation == "DELETE" and not verdict.allowed:
                # Who opts workloads out and deletes the queue at once is not told that they are still in it.
                await self._source.settle()
                verdict = self._judge(stage, review, kind)
        except RecursionError:
            raise MalformedReview("request.object: is nested too deeply") from None
        return Decision(verdict, self._stale(stage, kind, review, verdict))

    def decide_at_once(self, stage: Stage, review: Review) -> Decision | None:
        """The decision, None if something may have to be read or written for it. Where its verdict has kinds to
        `confirm`, it is not the last word. Raises what `decide` does, and RecursionError."""
        kind = self._kind(stage, review)
        if kind is None:
            return _NOT_JUDGED
        if kind.cluster_scoped or review.operation == "DELETE":
            return None
        verdict = self._judge(stage, review, kind)
        return Decision(verdict, "" if verdict.confirm else self._stale(stage, kind, review, verdict))

    def _kind(self, stage: Stage, review: Review) -> Kind | None:
        """The kind, None for a review that no rule judges. Raises MalformedReview."""
        kind = self._policies.policy.kinds.of(review.group, review.kind)
        if kind is None or review.sub_resource or not self._judges(stage, review, kind):
            return None
        if not review.namespace and kind is not NAMESPACE and not kind.cluster_scoped:
            raise MalformedReview(f"request.namespace: must be a non-empty string for a {kind.kind}")
        return kind

    def _judges(self, stage: Stage, review: Review, kind: Kind) -> bool:
        if review.operation == "DELETE":
            return stage is Stage.VALIDATE and kind in self._removals and review.old is not None
        return review.operation in ("CREATE", "UPDATE") and review.value is not None

    def _judge(self, stage: Stage, review: Review, kind: Kind, snapshot: Snapshot | None = None) -> Verdict:
        policy = self._policies.policy
        removal = review.operation == "DELETE"
        subject = Subject(
            kind=kind,
            namespace="" if kind is NAMESPACE or kind.cluster_scoped else review.namespace,
            value=(review.old if removal else review.value) or {},
            accelerators=policy.accelerators,
            old=review.old if review.operation == "UPDATE" else None,
            user=review.user,
            groups=review.groups,
            removal=removal,
            kinds=policy.kinds,
        )
        return judge(self._rules, stage, subject, snapshot or self._source.snapshot, policy, self._today())

    async def _held(self, stage: Stage, review: Review, kind: Kind, verdict: Verdict) -> Verdict:
        """The verdict by way of the ledger if the write has to be promised something, else as it is."""
        ledger = self._source.ledger
        if ledger is None or stage is Stage.MUTATE or verdict.passed_over or not self._may_deny_change(kind):
            return verdict
        write = self._pending(review, kind)
        if write is None:
            return verdict
        return await ledger.hold(write, lambda snapshot: self._judge(stage, review, kind, snapshot))

    def _may_deny_change(self, kind: Kind) -> bool:
        """Whether some rule may deny a write for what it changes. Else nobody would be kept from anything."""
        modes = self._policies.policy.rules
        return any(
            rule.judges_change and rule.judges(kind) and modes.get(rule.id, rule.mode) is Mode.DENY
            for rule in self._rules
        )

    def _pending(self, review: Review, kind: Kind) -> PendingWrite | None:
        """What a write has to be promised, None if it raises nothing."""
        if review.operation == "DELETE" or review.value is None or kind not in FLOORS:
            return None
        policy, project = self._policies.policy, PROJECTIONS[kind.kind]
        balance = balance_of(self._source.snapshot, policy.capacity, policy.accelerators)
        before = None if review.old is None else cast(Written, project(review.old))
        own = metadata(review.value)
        wanted = reservation(
            balance, kind.kind, string(own.get("name")), before, cast(Written, project(review.value)), review.uid, ""
        )
        if wanted is None:
            return None
        if review.old is None:
            return PendingWrite(wanted, "", string(own.get("uid")), review.dry_run)
        return PendingWrite(wanted, string(metadata(review.old).get("resourceVersion")), "", review.dry_run)

    async def _confirm(self, verdict: Verdict, review: Review) -> bool:
        """Whether reading the facts behind the verdict again has changed them."""
        try:
            async with asyncio.timeout(_CONFIRM_SECONDS):
                return await self._source.confirm(verdict.confirm, review.namespace or review.name)
        except TimeoutError:
            log.warning("facts could not be confirmed in time", extra={"fields": {"kinds": sorted(verdict.confirm)}})
            return False

    def _stale(self, stage: Stage, kind: Kind, review: Review, verdict: Verdict) -> str:
        """Said in /validate, of every answer that rests on old facts, a clean one too."""
        if stage is Stage.MUTATE or verdict.passed_over:
            return ""
        now = monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            states = self._source.states()
            self._looked = now
            self._old = {name: each.age_seconds for name, each in states.items() if each.age_seconds > STALE_SECONDS}
        if not self._old:
            return ""
        needs = frozenset[str]().union(
            *(rule.needs for rule in self._rules.asked(kind, stage, review.operation == "DELETE"))
        )
        old = {name: age for name, age in self._old.items() if name in needs}
        if not old:
            return ""
        return f"Floorkeeper's facts are {max(old.values()):.0f} s old: {', '.join(sorted(old))}"
