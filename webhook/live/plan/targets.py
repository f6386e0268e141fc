"""What --set says: cq-a=7, cq-a/flavor/resource=7, cohort:NAME=7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from webhook.kube import quantity
from webhook.kube.accelerators import Accelerators
from webhook.kube.facts import PROJECTIONS
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorResource
from webhook.live.plan.state import State, Target

Wanted = Mapping[Target, Mapping[FlavorResource, int]]
"""Floors in billionths, by object, flavor and resource."""

COHORT_PREFIX = "cohort:"


class BadTarget(Exception):
    """What --set says cannot be meant, with what can. `misuse`: in no cluster could it be."""

    def __init__(self, message: str, *, misuse: bool = False) -> None:
        super().__init__(message)
        self.misuse = misuse


def read_targets(words: Iterable[str], state: State, accelerators: Accelerators) -> Wanted:
    """What is wanted, as the cluster has it. Raises BadTarget with everything that is wrong, one line each."""
    found: dict[Target, dict[FlavorResource, int]] = {}
    problems = []
    misuse = False
    for word in words:
        try:
            target, key, amount = _read(word, state, accelerators)
            if found.get(target, {}).get(key, amount) != amount:
                raise BadTarget("is said twice, with two amounts", misuse=True)
            found.setdefault(target, {})[key] = amount
        except BadTarget as problem:
            problems.append(f"--set {word}: {problem}")
            misuse = misuse or problem.misuse
    if problems:
        raise BadTarget("\n".join(problems), misuse=misuse)
    return found


def _read(word: str, state: State, accelerators: Accelerators) -> tuple[Target, FlavorResource, int]:
    left, equals, right = word.rpartition("=")
    if not equals or not left:
        raise BadTarget("write it as NAME=AMOUNT or NAME/FLAVOR/RESOURCE=AMOUNT", misuse=True)
    try:
        amount = quantity.parse(right)
    except quantity.QuantityError as error:
        raise BadTarget(f"the amount {error}", misuse=True) from None
    if amount < 0 or not quantity.whole(amount):
        whole = "Kueue counts whole accelerators: write a whole number, such as 7"
        raise BadTarget(f"the amount is {right}; {whole}", misuse=True)
    kind = "Cohort" if left.startswith(COHORT_PREFIX) else "ClusterQueue"
    name, *rest = left.removeprefix(COHORT_PREFIX).split("/", 2)
    target = kind, name
    if target not in state.objects:
        raise BadTarget(_unknown(target, state))
    fact = PROJECTIONS[kind](state.objects[target])
    assert isinstance(fact, ClusterQueueFact | CohortFact)
    keys = sorted(key for key in fact.nominal if accelerators.covers(key[1]))
    return target, _key(target, rest, keys), amount


def _key(target: Target, rest: list[str], keys: list[FlavorResource]) -> FlavorResource:
    kind, name = target
    prefix = COHORT_PREFIX if kind == "Cohort" else ""
    choices = ", ".join(f"{prefix}{name}/{flavor}/{resource}" for flavor, resource in keys)
    if not keys:
        raise BadTarget(f'{kind} "{name}" has no quota of an accelerator; add it to its spec.resourceGroups first')
    if not rest:
        if len(keys) > 1:
            raise BadTarget(f'{kind} "{name}" has {len(keys)} accelerator quotas; say which: {choices}')
        return keys[0]
    key = (rest[0], rest[1]) if len(rest) > 1 else None
    if key not in keys:
        raise BadTarget(f'{kind} "{name}" has no such quota; it has {choices}')
    return key


def _unknown(target: Target, state: State) -> str:
    kind, name = target
    names = sorted(each for of, each in state.objects if of == kind)
    near = get_close_matches(name, names, n=1)
    known = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names[:5])}" if names else ""
    return f'there is no {kind} "{name}"{known}'
