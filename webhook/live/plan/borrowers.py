"""Who borrows what a floor lends, once floors are lowered: Kueue lets borrowers be, and does not admit them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webhook.kube.quantity import show
from webhook.kube.quota_facts import FlavorResource, counted
from webhook.live.plan.lending import Place, Trees
from webhook.live.plan.numbers import trees_of
from webhook.live.plan.state import State, Target
from webhook.live.plan.steps import Move
from webhook.live.plan.targets import Wanted

_MOST = 3  # names that are listed


@dataclass(frozen=True, slots=True)
class Lack:
    """What members of a Cohort use beyond all that they may, by what is to be done alone, in billionths."""

    amount: int
    place: Place
    """The Cohort, as it will be."""


def borrowers(state: State, queue: str, move: Move, wanted: Wanted) -> Iterator[str]:
    """In words, of a floor that is lowered: who keeps what it lent, and loses it once its replicas end; nothing where
    the rest of the Cohort covers it. `wanted` is all that is to change."""
    member = "ClusterQueue", queue
    then = trees_of(state, move.key, wanted)
    if then.place(member) is None:
        if then.above(member):
            yield "who borrows of it is not known: Kueue has not reported the use of every queue of its Cohort"
        return
    lack = _lack(state, member, move.key, then, trees_of(state, move.key))
    if lack is None:
        return
    names = {place.member[1]: place.borrowed for place in _below(lack.place) if place.borrowed}
    if not names.keys() - {queue}:
        return
    # One floor lends no more than it loses: the rest is told with the others.
    others = _others_lowered(state, lack.place, member, move.key, wanted)
    amount = lack.amount if others else min(lack.amount, counted(move.resource, move.before - move.after))
    of = f"of it and of {listed(others)}" if others else "of it"
    stay = "they stay, and are not admitted again once they end or are reclaimed"
    if len(names) == 1:
        yield f"{next(iter(names))} borrows {show(amount)} {of}: {stay}"
        return
    each = listed([f"{name} ({show(borrowed)})" for name, borrowed in sorted(names.items())])
    unknown = "; whose these are is not known" if amount < sum(names.values()) else ""
    yield f"{show(amount)} of what {each} borrow are {of}: {stay}{unknown}"


def listed(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - _MOST
    parts = [*names[:_MOST], f"{more} more"] if more > 0 else list(names)
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _lack(state: State, member: Target, key: FlavorResource, then: Trees, now: Trees) -> Lack | None:
    """That of the Cohort above it which lacks most. One without a Cohort above has no more than its own quota."""
    found: Lack | None = None
    above = then.above(member)
    while above:
        cohort = "Cohort", above
        fact = state.snapshot.cohort(above)
        limit = fact.borrowing.get(key) if fact is not None else None
        above = then.above(cohort)
        after, before = then.place(cohort), now.place(cohort)
        if after is None or before is None or (above and limit is None):
            continue
        most = counted(key[1], limit or 0) if above else 0
        amount = max(0, after.borrowed - most) - max(0, before.borrowed - most)
        if amount > (found.amount if found else 0):
            found = Lack(amount, after)
    return found


def _below(cohort: Place) -> Iterator[Place]:
    stack = list(cohort.under)
    while stack:
        place = stack.pop()
        stack += place.under
        if place.member[0] == "ClusterQueue":
            yield place


def _others_lowered(state: State, cohort: Place, member: Target, key: FlavorResource, wanted: Wanted) -> list[str]:
    found = []
    for place in _below(cohort):
        fact = state.snapshot.cluster_queue(place.member[1])
        after = wanted.get(place.member, {}).get(key)
        if fact is not None and after is not None and after < fact.nominal[key] and place.member != member:
            found.append(fact.name)
    return sorted(found)
