"""What Volcano's Queues guarantee: the sums, kept up to date by event.

Queues form trees by spec.parent, and a parent's guarantee includes its children's (Volcano's capacity plugin). So a
Queue comes to the larger of its own guarantee and what its children come to, and adds to the sum what it guarantees
beyond its children. A parent that does not exist guarantees nothing of its own. Queues whose parents go round in a
circle, which Volcano schedules nothing for, count as Queues without a parent.

Volcano adds every guarantee up where hierarchy is not enabled, and nothing in the API says whether it is. This is the
smaller sum, the same one for Queues without a parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

ROOT = "root"
"""The Queue above all that name no parent. Volcano's scheduler writes the sum of theirs as its guarantee, so its own
says nothing and it is never put."""

Amounts = Mapping[str, int]
"""Billionths by resource; what would be 0 is absent."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One Queue's spec.guarantee.resource, and the Queue that it is under."""

    parent: str = ROOT
    amounts: Amounts = field(default_factory=dict)
    reserved_until: str = ""
    """Some of it is promised to a write that is not stored yet, and for how long; '' for what is stored."""


_NOTHING = Guarantee()


@dataclass(frozen=True, slots=True)
class Share:
    """What one Queue adds to the sum of a resource: `amount` (above 0) of its own `guarantee`."""

    name: str
    amount: int
    guarantee: int
    reserved_until: str = ""


class Guarantees:
    """All Queues. A write costs what the Queues above it cost, however many others there are."""

    def __init__(self) -> None:
        self._queues: dict[str, Guarantee] = {}
        self._above: dict[str, str] = {}
        """Whose children a Queue counts among: its parent or, in a circle, the root."""

        self._below: dict[str, Amounts] = {}
        """What the children of a Queue come to."""

    def copy(self) -> Guarantees:
        other = Guarantees()
        other._queues, other._above, other._below = dict(self._queues), dict(self._above), dict(self._below)
        return other

    # Reading

    def queue(self, name: str) -> Guarantee | None:
        return self._queues.get(name)

    def sums(self) -> Amounts:
        """What all Queues come to."""
        return self._below.get(ROOT, {})

    def shares(self, resource: str) -> list[Share]:
        """What the sum is made of, the largest first. Looks at every Queue."""
        found = []
        for name, queue in self._queues.items():
            own = queue.amounts.get(resource, 0)
            amount = own - self._below.get(name, {}).get(resource, 0)
            if amount > 0:
                found.append(Share(name, amount, own, queue.reserved_until))
        return sorted(found, key=lambda share: (-share.amount, share.name))

    def upwards(self, name: str) -> Iterator[str]:
        """The Queue and those above it, each once, without the root."""
        seen = set()
        while name != ROOT and name not in seen:
            seen.add(name)
            yield name
            name = self._parent(name)

    def with_amount(self, name: str, resource: str, amount: int) -> Guarantees:
        """As if one Queue that is there guaranteed so much of a resource; what is kept stays as it is."""
        other, queue = self.copy(), self._queues[name]
        other.put(name, replace(queue, amounts={**queue.amounts, resource: amount}))
        return other

    # Writing

    def put(self, name: str, queue: Guarantee | None) -> None:
        """The Queue as it is from here on; None if it is gone."""
        circle = self._circle(name)
        self._hang(name, ROOT)
        before = self._total(name)
        self._queues[name] = queue or _NOTHING
        self._add(ROOT, _minus(self._total(name), before))
        for member in circle[1:]:
            self._hang(member, self._parent(member))
        circle = self._circle(name)
        for member in circle[1:]:
            self._hang(member, ROOT)
        if not circle:
            self._hang(name, self._parent(name))
        if queue is None:
            del self._queues[name], self._above[name]

    def _parent(self, name: str) -> str:
        return self._queues.get(name, _NOTHING).parent

    def _circle(self, name: str) -> list[str]:
        """The circle of parents that the Queue is in, itself first; empty if it is in none."""
        found = list(self.upwards(name))
        return found if self._parent(found[-1]) == name else []

    def _total(self, name: str) -> Amounts:
        own, below = self._queues.get(name, _NOTHING).amounts, self._below.get(name, {})
        return {each: max(own.get(each, 0), below.get(each, 0)) for each in own.keys() | below.keys()}

    def _hang(self, name: str, parent: str) -> None:
        """The Queue, with all below it, counts under another one. That one is not below it."""
        total = self._total(name)
        self._add(self._above.get(name, ROOT), _minus({}, total))
        self._above[name] = parent
        self._add(parent, total)

    def _add(self, name: str, more: Amounts) -> None:
        """The children of a Queue come to so much more, or less, and so may all above it."""
        while more:
            before = self._total(name)
            below = _minus(self._below.get(name, {}), _minus({}, more))
            if below:
                self._below[name] = below
            else:
                self._below.pop(name, None)
            if name == ROOT:
                return
            more = _minus(self._total(name), before)
            name = self._above.get(name, ROOT)


def _minus(first: Amounts, second: Amounts) -> Amounts:
    differences = {each: first.get(each, 0) - second.get(each, 0) for each in first.keys() | second.keys()}
    return {resource: amount for resource, amount in differences.items() if amount}
