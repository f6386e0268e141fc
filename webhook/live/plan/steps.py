"""The order in which floors can be changed: one write at a time, each judged as admission will judge it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from typing import Any

from webhook.capacity.balance import balance_of
from webhook.capacity.write import quota_path
from webhook.engine.evaluate import judge
from webhook.engine.policy import Policy
from webhook.engine.rule import Stage
from webhook.engine.subject import Subject
from webhook.engine.verdict import Severity, Verdict
from webhook.kube.facts import PROJECTIONS
from webhook.kube.objects import Object, at
from webhook.kube.quantity import show
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorResource
from webhook.kube.snapshot import Snapshot
from webhook.live.plan.numbers import verdict
from webhook.live.plan.state import QUOTA_KINDS, State, Target, rules_of
from webhook.live.plan.targets import Wanted

_TOLD_FOR_ALL = "floors-below-capacity"
"""What a lowering leaves idle is what the next step raises: the verdict on the end says what stays idle."""


@dataclass(frozen=True, slots=True)
class Move:
    """One floor, in billionths as written."""

    flavor: str
    resource: str
    before: int
    after: int

    @property
    def key(self) -> FlavorResource:
        return self.flavor, self.resource

    def __str__(self) -> str:
        return f"{self.resource} in {self.flavor} {show(self.before)} -> {show(self.after)}"


@dataclass(frozen=True, slots=True)
class Step:
    """One write of one object: its moves are all down, or all up."""

    kind: str
    name: str
    moves: tuple[Move, ...]

    @property
    def target(self) -> Target:
        return self.kind, self.name

    @property
    def lowers(self) -> bool:
        return self.moves[0].after < self.moves[0].before

    def __str__(self) -> str:
        moves = ", ".join(map(str, self.moves))
        return f'{"lower" if self.lowers else "raise"} {self.kind} "{self.name}": {moves}'

    def applied_to(self, value: Object) -> dict[str, Any]:
        """The object after it."""
        changed: dict[str, Any] = deepcopy(dict(value))
        for move in self.moves:
            *above, last = quota_path(changed, move.flavor, move.resource)
            at(changed, above)[last] = show(move.after)
        return changed


@dataclass(frozen=True, slots=True)
class Planned:
    """A step that admission lets pass once those before it are done."""

    step: Step
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """`denials` are the reasons, and what would help."""

    step: Step
    denials: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """`refused` is empty where there is an order; else it has every step for which there is none."""

    steps: tuple[Planned, ...]
    refused: tuple[Refused, ...]
    not_evaluated: tuple[str, ...]
    fits: bool
    """Whether the hardware can carry all floors of what is touched, once everything is as wanted."""

    arithmetic: tuple[str, ...]
    """In words, of what is touched, as it will be."""

    rejected: tuple[Refused, ...] = ()
    """Steps that Floorkeeper's rules let in, and the API server does not, for others have a say too."""

    untried: tuple[str, ...] = ()
    """Why it is not known whether the API server takes the steps."""

    @property
    def possible(self) -> bool:
        return not self.refused and not self.rejected and not self.not_evaluated


def steps_of(state: State, wanted: Wanted) -> list[Step]:
    """What is not yet as wanted: what lowers first. An object that lowers one floor and raises another has two steps.

    No other order does what this one cannot: the fewer floors there are, the less of a raise is unmet.
    """
    lower: list[Step] = []
    raised: list[Step] = []
    for (kind, name), floors in wanted.items():
        fact = PROJECTIONS[kind](state.objects[kind, name])
        assert isinstance(fact, ClusterQueueFact | CohortFact)
        moves = [Move(*key, fact.nominal[key], amount) for key, amount in floors.items() if fact.nominal[key] != amount]
        for steps, some in (
            (lower, [move for move in moves if move.after < move.before]),
            (raised, [move for move in moves if move.after > move.before]),
        ):
            if some:
                steps.append(Step(kind, name, tuple(some)))
    return [*lower, *raised]


def judged(step: Step, value: Object, snapshot: Snapshot, policy: Policy, today: date) -> Verdict:
    """What admission says of the step, of an object that is `value` now."""
    kind = QUOTA_KINDS[step.kind]
    subject = Subject(kind, "", step.applied_to(value), policy.accelerators, value, kinds=policy.kinds)
    return judge(rules_of(kind, policy), Stage.VALIDATE, subject, snapshot, policy, today)


def make_plan(state: State, wanted: Wanted, policy: Policy, today: date) -> Plan:
    """Each step is judged on the snapshot after the steps before it; the snapshot is left as it will be then."""
    objects = dict(state.objects)
    remaining = steps_of(state, wanted)
    touched = sorted({move.key for step in remaining for move in step.moves})
    planned: list[Planned] = []
    missing: dict[str, None] = {}
    while remaining:
        refused = []
        for step in remaining:
            answer = judged(step, objects[step.target], state.snapshot, policy, today)
            if answer.allowed:
                break
            refused.append(Refused(step, tuple(finding.message for finding in answer.denials)))
        else:
            break
        missing |= dict.fromkeys(f"{step.kind} {step.name}: {each.message}" for each in answer.not_evaluated)
        planned.append(Planned(step, _warnings(answer)))
        remaining.remove(step)
        _write(step, objects, state.snapshot)
    else:
        refused = []
    for step in remaining:
        _write(step, objects, state.snapshot)
    fits, arithmetic = _end(state.snapshot, touched, policy)
    return Plan(tuple(planned), tuple(refused), tuple(missing), fits, arithmetic)


def _write(step: Step, objects: dict[Target, Object], snapshot: Snapshot) -> None:
    value = step.applied_to(objects[step.target])
    objects[step.target] = value
    fact = PROJECTIONS[step.kind](value)
    assert fact is not None
    snapshot.put(step.kind, fact)


def _warnings(answer: Verdict) -> tuple[str, ...]:
    return tuple(
        finding.message
        for finding in answer.findings
        if finding.severity is Severity.WARN and finding.rule != _TOLD_FOR_ALL
    )


def _end(snapshot: Snapshot, touched: Iterable[FlavorResource], policy: Policy) -> tuple[bool, tuple[str, ...]]:
    balance = balance_of(snapshot, policy.capacity, policy.accelerators)
    fits, said = True, {}
    for flavor, resource in touched:
        found = balance.assess(resource, [flavor])
        fits = fits and found.evaluated and not found.unmet_hardware
        said[resource, found.flavors or (flavor,)] = verdict(balance.now, found)
    return fits, tuple(said.values())


def floors(value: Object) -> Mapping[FlavorResource, int]:
    """In billionths as written, of a ClusterQueue or Cohort."""
    fact = PROJECTIONS[str(value.get("kind"))](value)
    assert isinstance(fact, ClusterQueueFact | CohortFact)
    return fact.nominal
