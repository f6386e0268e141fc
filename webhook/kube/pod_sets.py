"""What an object comes to in pods: its templates, and how many pods of one unit are made from each.

A unit is what Kueue admits as a whole: one pod of a Deployment, one group of a LeaderWorkerSet, all of a Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.kube.accelerators import Accelerators
from webhook.kube.claims import ClaimSource
from webhook.kube.kinds import KINDS, Kind, Kinds
from webhook.kube.objects import Object, Path, at, group, mapping, sequence, string
from webhook.kube.paths import STARS, beside, entry_name, parse, places
from webhook.kube.pods import PodTemplate, pod_template
from webhook.kube.row import Count, Template
from webhook.kube.shapes import POD

_MOST = 2**31 - 1  # such counts are of 32 bits
_DEEPEST = 4  # objects in objects


@dataclass(frozen=True, slots=True)
class Scaling:
    """Autoscaling that the object itself asks for: up to `maximum`, which is at `path`, of so many pods `each`."""

    path: Path
    maximum: int
    each: int


class PodSet(NamedTuple):
    """The pods of one unit that are made from one template.

    `minimum` is with how many of them Kueue may admit the unit, the same as `pods` unless it says so.
    """

    template: PodTemplate
    pods: int = 1
    minimum: int = 1
    scaling: Scaling | None = None
    name: str = ""
    """What its kind calls it, such as the name of a worker group; '' where an object has one template."""

    is_group: bool = False
    """Whether its pods are admitted together with others."""

    understated: tuple[Path, int, int] | None = None
    """Where a number of pods is that its controller raises, what it is, and what it is raised to."""

    common: bool = False
    """Whether it is no pod's own, but what pods of other templates get too."""

    def where(self, path: Path) -> str:
        """What a path in the template is in: ' in container "x" of "workers"'. '' where a person sees it at once, in
        the one template of an object that makes one pod after the other.
        """
        if not self.name and not self.is_group:
            return ""
        container = self.container(path)
        parts = [f'container "{container}"'] if container else []
        parts += [f'"{self.name}"'] if self.name else []
        return f" in {' of '.join(parts)}" if parts else ""

    def container(self, path: Path) -> str:
        """The name of the container that a path is in, '' for none."""
        within = [each for each in self.template.containers if path[: len(each.path)] == each.path]
        return max(within, key=lambda each: len(each.path)).name if within else ""


class Reading(NamedTuple):
    """With what the templates of an object are read."""

    names: Accelerators
    claims_from: ClaimSource | None = None
    kinds: Kinds = KINDS


def pod_sets_of(kind: Kind, value: Object, reading: Reading) -> tuple[PodSet, ...]:
    """In the order of the row's templates and, within each, of the object."""
    return tuple(_pod_sets(kind, value, reading, value, (), 1, _DEEPEST))


def _pod_sets(
    kind: Kind, value: Object, reading: Reading, whole: Object, prefix: Path, times: int, depth: int
) -> Iterator[PodSet]:
    """`value` is at `prefix` of `whole`, once for each of `times` units."""
    several = sum(not template.common for template in kind.templates) > 1
    for template in kind.templates:
        assumed = _assumed(template, value)
        if assumed is not None:
            pod = PodTemplate(assumed, (*prefix, *template.path), reading.names)
            yield PodSet(pod, times, times, name=_name(value, template, template.path), is_group=kind.gang)
        for place in places(value, template.path):
            # The API server fills in a Pod, and none that is in another object.
            filled = template.filled and not prefix
            found = pod_template(whole, (*prefix, *place), reading.names, filled, reading.claims_from, template.shape)
            if found is not None:
                pods, minimum = (count * times for count in _pods(template, value, place))
                told = not template.common and (several or template.path != place)
                name = _name(value, template, place) if told else ""
                if prefix:
                    name = string(at(value, ("metadata", "name"))) + (f" {name}" if name else "")
                # What holds others is never admitted in part, and scales nothing.
                scaling = None if prefix else _scaling(template, value, place)
                yield PodSet(
                    found,
                    pods,
                    pods if prefix else minimum,
                    scaling,
                    name,
                    is_group=kind.gang or bool(prefix),
                    understated=_understated(template, value, place),
                    common=template.common or _is_told_by_twin(template, value, reading.names),
                )
    if kind.holds and depth:
        for place in places(value, kind.holds):
            yield from _held(mapping(at(value, place)), reading, whole, (*prefix, *place), times, depth)


def _held(value: Object, reading: Reading, whole: Object, prefix: Path, times: int, depth: int) -> Iterator[PodSet]:
    """The pods of an object in an object: by its own row or, if it has none, by the podSets beside it (AppWrapper)."""
    row = reading.kinds.of(group(string(value.get("apiVersion"))), string(value.get("kind")))
    if row is not None and row.is_workload:
        yield from _pod_sets(row, value, reading, whole, prefix, times * units_of(row, value), depth - 1)
        return
    for entry in map(mapping, sequence(at(whole, (*prefix[:-1], "podSets")))):
        try:
            path = tuple(int(step) if step.isdigit() else step for step in map(str, parse(string(entry.get("path")))))
        except ValueError:
            continue
        found = pod_template(whole, (*prefix[:-1], *path), reading.names, False, reading.claims_from, POD)
        if found is not None:
            count = _whole(entry.get("replicas"), 1) * times
            yield PodSet(found, count, count, name=string(at(value, ("metadata", "name"))), is_group=True)


def held_objects(kind: Kind, value: Object, kinds: Kinds) -> Iterator[tuple[Kind | None, Object, Path]]:
    """The objects that it holds, with their rows (None for what makes no pods) and where they are."""
    for place in places(value, kind.holds) if kind.holds else ():
        held = mapping(at(value, place))
        row = kinds.of(group(string(held.get("apiVersion"))), string(held.get("kind")))
        yield row if row is not None and row.is_workload else None, held, place


def _assumed(template: Template, value: Object) -> Object | None:
    """What the pod is that a controller makes without a template, None if there is one or it makes none."""
    field, values = template.unless
    if template.assumed is None or at(value, template.path) is not None or at(value, field) in values:
        return None
    return template.assumed


def _is_told_by_twin(template: Template, value: Object, names: Accelerators) -> bool:
    if template.twin is None:
        return False
    found = pod_template(value, template.twin.path, names, shape=template.twin.shape)
    return found is not None and found.asks


def _understated(template: Template, value: Object, place: Path) -> tuple[Path, int, int] | None:
    for count in template.pods:
        if count.least:
            path = beside(count.path, place)
            stated, least = _whole(at(value, path), count.absent), _whole(at(value, beside(count.least, place)), 0)
            if stated < least:
                return path, stated, least
    return None


def units_of(kind: Kind, value: Object) -> int:
    """How many units an object asks for."""
    return _whole(at(value, kind.replicas), 1) if kind.replicas else 1


def is_suspended(kind: Kind, value: Object) -> bool:
    """Whether it waits, and has no pods."""
    return bool(kind.suspend) and at(value, kind.suspend) is True


def pods_now(kind: Kind, value: Object) -> int | None:
    """What runs of an object by its status, in pods or units; None where its kind's status does not say."""
    return _whole(at(value, kind.pods_now), 0) if kind.pods_now else None


def _pods(template: Template, value: Object, place: Path) -> tuple[int, int]:
    """How many pods come from the template at `place`, and how few may."""
    pods = _product(_count(count, value, place) for count in template.pods)
    if template.less and at(value, template.less) is not None:
        pods = max(pods - 1, 0)
    minimum = _whole(at(value, template.minimum), pods) if template.minimum else pods
    return pods, min(minimum, pods)


def _scaling(template: Template, value: Object, place: Path) -> Scaling | None:
    if template.maximum is None or (template.scales and at(value, template.scales) is not True):
        return None
    maximum = _count(template.maximum, value, place)
    each = _product(_count(count, value, place) for count in template.pods[1:])
    return Scaling(beside(template.maximum.path, place), maximum, each) if maximum else None


def _count(count: Count, value: Object, place: Path) -> int:
    found = _whole(at(value, beside(count.path, place)), count.absent)
    found = max(found, _whole(at(value, beside(count.least, place)), 0)) if count.least else found
    return min(found, *(_whole(at(value, beside(cap, place)), found) for cap in count.caps)) if count.caps else found


def _product(counts: Iterable[int]) -> int:
    product = 1
    for count in counts:
        product = min(product * count, _MOST)
    return product


def _whole(value: Any, absent: int) -> int:
    """A count, which an annotation holds as text; `absent` for what is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 11:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return absent
    return min(max(value, 0), _MOST)


def _name(value: Object, template: Template, place: Path) -> str:
    """What tells the template apart: the name of the entry that it is in, its key, or its field."""
    star = next((index for index, step in enumerate(template.path) if step in STARS), None)
    if star is None:
        return next((str(step) for step in reversed(place) if step not in ("spec", "template")), "template")
    return entry_name(at(value, place[: star + 1])) or str(place[star])
