"""The arithmetic of a cut, in words."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from webhook.capacity.assessment import Cut, Part
from webhook.capacity.floors import Contribution
from webhook.kube.quantity import show


def describe(cut: Cut, most: int = 8) -> str:
    """Each floor, the sum, and the nodes, for a message.

    'floors of nvidia.com/gpu in flavor a: ClusterQueue "x" 6 + ClusterQueue "y" 6 = 12; hardware: 10 on 2 nodes'. With
    several flavors each floor and each node names its own. `most` bounds the floors that are listed, the largest first.
    """
    several = len(cut.flavors) > 1
    return (
        f"floors of {cut.resource} in {_flavors(cut.flavors)}: {_floors(cut, most, several)}; "
        f"{'usable' if cut.usable else 'hardware'}: {_supply(cut, several)}"
    )


def _flavors(names: Sequence[str]) -> str:
    return f"flavor {names[0]}" if len(names) == 1 else f"flavors {_listed(names)}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _floors(cut: Cut, most: int, several: bool) -> str:
    largest = sorted(sorted(cut.contributions, key=attrgetter("kind", "name")), key=attrgetter("amount"), reverse=True)
    shown, rest = largest[:most], largest[most:]
    terms = [_floor(floor, several) for floor in shown]
    if rest:
        terms.append(f"{len(rest)} more {show(cut.floors - sum(floor.amount for floor in shown))}")
    total = show(cut.floors)
    return terms[0] if len(terms) == 1 else f"{' + '.join(terms)} = {total}"


def _floor(floor: Contribution, several: bool) -> str:
    where = f" in {floor.flavor}" if several else ""
    if floor.reserved_until:
        where += f" (reserved until {floor.reserved_until} for a write that is not stored yet)"
    return f'{floor.kind} "{floor.name}" {show(floor.amount)}{where}'


def _supply(cut: Cut, several: bool) -> str:
    if not cut.parts:
        return "0, for what offers it is away" if cut.usable else "0, for no matching node offers it"
    terms = [_part(part, several) for part in cut.parts]
    return terms[0] if len(terms) == 1 else f"{' + '.join(terms)} = {show(cut.supply)}"


def _part(part: Part, several: bool) -> str:
    if part.declared:
        where = f" for {part.flavors[0]}" if several else ""
        return f"{show(part.amount)} declared{where}"
    where = f" of {_listed(part.flavors)}" if several or len(part.flavors) > 1 else ""
    return f"{show(part.amount)} on {part.nodes} node{'' if part.nodes == 1 else 's'}{where}"
