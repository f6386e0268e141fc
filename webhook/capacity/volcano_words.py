"""What is told about the write of a Volcano Queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from webhook.capacity.guarantees import Share
from webhook.capacity.settings import Settings
from webhook.capacity.volcano import GuaranteeComparison, volcano_of
from webhook.kube import quantity
from webhook.kube.accelerators import Accelerators
from webhook.kube.objects import Object, Path, at, mapping
from webhook.kube.quantity import show
from webhook.kube.snapshot import Snapshot
from webhook.kube.volcano_facts import project_volcano_queue

_GUARANTEE = ("spec", "guarantee", "resource")
_CAPABILITY = ("spec", "capability")


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that is wrong with a write; `advice` is never more than a warning."""

    path: Path
    must: str
    actual: str
    fix: str
    advice: bool = False
    resource: str = ""
    """What all guarantees together are too many of, '' for what is wrong with this Queue by itself."""


def tell(
    name: str, old: Object | None, value: Object, snapshot: Snapshot, settings: Settings, accelerators: Accelerators
) -> Iterator[Told]:
    """What is wrong with the write that makes the Queue `value` of `old` (None at CREATE).

    Raises FactsMissing, after what the Queue says by itself, if other Queues or nodes are not known.
    """
    after = project_volcano_queue(value)
    if after is None:
        return
    yield from _within_itself(value, accelerators)
    volcano = volcano_of(snapshot, settings, accelerators)
    for comparison in volcano.compare(name, None if old is None else project_volcano_queue(old), after):
        path = ("spec", "parent") if comparison.moved else (*_GUARANTEE, comparison.resource)
        own = (after.parent or "none") if comparison.moved else show(comparison.own)
        if comparison.worse:
            arithmetic = describe(comparison, settings) + volcano.beside_volcano(comparison.resource)
            must, fix = "must keep the guarantees within the hardware", _fix(comparison)
            yield Told(path, must, f"{own}: {arithmetic}", fix, resource=comparison.resource)
        elif comparison.away:
            away = f"{show(comparison.after)} guaranteed, {show(comparison.usable)} of {show(comparison.hardware)}"
            yield Told(
                path,
                "must fit what is usable now",
                f"{own}: capacity is away, {away} {comparison.resource} usable",
                "bring nodes back",
                advice=True,
                resource=comparison.resource,
            )


def describe(comparison: GuaranteeComparison, settings: Settings, most: int = 8) -> str:
    """Each guarantee, the sum, and the nodes, as `webhook.capacity.words.describe` does it for Kueue's floors.

    'guarantees of nvidia.com/gpu: Queue "a" 6 + Queue "b" 6 = 12; hardware: 10 on 2 nodes'.
    """
    shares = comparison.shares
    terms = [_term(share) for share in shares[:most]]
    if len(shares) > most:
        terms.append(f"{len(shares) - most} more {show(sum(share.amount for share in shares[most:]))}")
    total = terms[0] if len(terms) == 1 else f"{' + '.join(terms)} = {show(comparison.after)}"
    nodes = f"{comparison.nodes} node{'' if comparison.nodes == 1 else 's'}"
    whose = "" if settings.volcano_nodes is None else " of capacity.volcanoNodes"
    supply = f"{show(comparison.hardware)} on {nodes}" if comparison.nodes else "0, for no node offers it"
    return f"guarantees of {comparison.resource}: {total}; hardware{whose}: {supply}"


def _term(share: Share) -> str:
    less = show(share.guarantee - share.amount)
    text = f'Queue "{share.name}" {show(share.amount)}'
    if share.amount < share.guarantee:
        text += f" ({show(share.guarantee)} less its children's {less})"
    if share.reserved_until:
        text += f" (reserved until {share.reserved_until} for a write that is not stored yet)"
    return text


def _fix(comparison: GuaranteeComparison) -> str:
    """The ways out: less of this, or less of the others before this."""
    resource, queues, unmet = comparison.resource, comparison.queues, comparison.unmet
    # Less below the written Queue is no way out: what its children do not guarantee, it does itself.
    others = [share for share in comparison.shares if comparison.name not in queues.upwards(share.name)]
    less = comparison.own - comparison.excess
    ways = ["keep its parent"] if comparison.moved else [f"lower it to {show(less)}"]
    reserved = sorted(share.reserved_until for share in others if share.reserved_until)
    if reserved:
        ways.append(f"try again after {reserved[-1]}")
    # Once others are lower, an excess that was there before excuses nothing: all that is unmet has to go.
    if len(others) == 1:
        name, lower = others[0].name, others[0].guarantee - unmet
        # It may be under a Queue that then guarantees as much itself.
        if lower >= 0 and queues.with_amount(name, resource, lower).sums().get(resource, 0) <= comparison.hardware:
            ways.append(f'first lower Queue "{name}" to {show(lower)}, then repeat this write')
    elif sum(share.amount for share in others) >= unmet:
        ways.append(f"first lower other guarantees by {show(unmet)} in all, then repeat this write")
    return ", or ".join(ways)


def _within_itself(value: Object, accelerators: Accelerators) -> Iterator[Told]:
    """Amounts that are none, and a capability below the guarantee."""
    guarantee, capability = mapping(at(value, _GUARANTEE)), mapping(at(value, _CAPABILITY))
    for resource in sorted(filter(accelerators.covers, guarantee)):
        amounts = {}
        for path, amount in ((_GUARANTEE, guarantee[resource]), (_CAPABILITY, capability.get(resource))):
            try:
                amounts[path] = quantity.parse(amount)
            except quantity.QuantityError as error:
                problem, fix = str(error).removeprefix("is "), "write a whole number, such as 1: this counts as 0"
                yield Told((*path, resource), "must be a quantity", problem, fix, advice=True)
                continue
            if amounts[path] < 0:
                fix = "write 0 or more: this counts as 0"
                yield Told((*path, resource), "must not be negative", show(amounts[path]), fix, advice=True)
        if resource in capability and len(amounts) == 2 and amounts[_CAPABILITY] < amounts[_GUARANTEE]:
            yield Told(
                (*_CAPABILITY, resource),
                f"must not be below the guarantee, {show(amounts[_GUARANTEE])}",
                show(amounts[_CAPABILITY]),
                "raise it, or lower spec.guarantee.resource: the queue never gets what it is guaranteed",
                advice=True,
            )
