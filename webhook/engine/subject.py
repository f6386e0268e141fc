"""The object under judgement, with what the request says about it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from webhook.kube.accelerators import Accelerators
from webhook.kube.cached import cached
from webhook.kube.claims import ClaimSource
from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.kinds import KINDS, Kind, Kinds, Owner, controller
from webhook.kube.names import FIELD_QUEUE, QUEUE_LABEL
from webhook.kube.objects import Object, Path, at, deleting, label, mapping, metadata, string
from webhook.kube.pod_sets import PodSet, Reading, held_objects, pod_sets_of, units_of
from webhook.kube.pods import PodTemplate
from webhook.kube.snapshot import FactsMissing, Snapshot

_T = TypeVar("_T")


@dataclass(frozen=True)
class Subject:
    """One object and, on UPDATE, what it was before.

    `old` is None at CREATE. At DELETE `removal` is set, `value` is what goes and `old` is None. `accelerators` are the
    policy's. `value` is never changed: a fix makes a new subject with `with_value`.
    """

    kind: Kind
    namespace: str
    value: Object
    accelerators: Accelerators
    old: Object | None = None
    user: str = ""
    groups: frozenset[str] = field(default_factory=frozenset)
    removal: bool = False
    kinds: Kinds = KINDS
    """The rows in force, for an object that holds others."""

    claims: ClaimSource | None = field(default=None, compare=False, repr=False)
    """Where resource claims are looked up; without it nothing is known of them."""

    @cached
    def name(self) -> str:
        """metadata.name, or 'prefix*' for an object that the API server will name."""
        own = string(metadata(self.value).get("name"))
        prefix = string(metadata(self.value).get("generateName"))
        return own or (f"{prefix}*" if prefix else "*")

    @property
    def names(self) -> tuple[str, ...]:
        """By which a policy may speak of it: its own and, of what a workload made, the workload's."""
        owner = self.owner
        return (self.name, *([owner.name] if owner is not None and self.kinds.parent(owner) is not None else []))

    @cached
    def fact(self) -> Fact | None:
        """The object as a source would keep it, for kinds of PROJECTIONS."""
        return PROJECTIONS[self.kind.kind](self.value)

    @cached
    def _all_pod_sets(self) -> tuple[PodSet, ...]:
        return pod_sets_of(self.kind, self.value, Reading(self.accelerators, self.claims, self.kinds))

    @cached
    def pod_sets(self) -> tuple[PodSet, ...]:
        """What one unit of it is made of."""
        found = self._all_pod_sets
        return tuple([each for each in found if not each.common]) if any(each.common for each in found) else found

    @property
    def common(self) -> tuple[PodSet, ...]:
        """What its pods get beside what their own templates say."""
        return tuple(each for each in self._all_pod_sets if each.common)

    @cached
    def templates(self) -> tuple[PodTemplate, ...]:
        return tuple([pods.template for pods in self.pod_sets])

    @property
    def units(self) -> int:
        """How many of what Kueue admits as a whole it asks for."""
        return units_of(self.kind, self.value)

    @cached
    def queue(self) -> str:
        """The object's own queue label; of a Pod it is also its template's."""
        return label(self.value, QUEUE_LABEL)

    @cached
    def label_path(self) -> Path | None:
        """Where the one label for all templates goes; None for a kind whose templates have one each, or none."""
        return (*self.kind.label, *FIELD_QUEUE) if isinstance(self.kind.label, tuple) else None

    @cached
    def whole_queue(self) -> str:
        """The one label for all templates, '' without it."""
        holder = at(self.value, self.kind.label) if isinstance(self.kind.label, tuple) else None
        return label(mapping(holder), QUEUE_LABEL)

    @cached
    def held(self) -> tuple[tuple[Kind | None, Object, Path], ...]:
        """The objects in it (AppWrapper), with their rows and where they are."""
        return tuple(held_objects(self.kind, self.value, self.kinds))

    @property
    def held_labels(self) -> list[tuple[Path, str]]:
        """The queue labels of these."""
        return [((*place, *FIELD_QUEUE), label(value, QUEUE_LABEL)) for _, value, place in self.held]

    def queue_for(self, template: PodTemplate) -> str:
        """The queue that the labels lead a template's pods to as they stand, '' for none."""
        return self.whole_queue or template.queue or self.queue

    @cached
    def is_gpu_workload(self) -> bool:
        """Whether a pod of it asks for an accelerator above 0."""
        return any(template.asks for template in self.templates)

    @cached
    def owner(self) -> Owner | None:
        return controller(self.value)

    @property
    def deleting(self) -> bool:
        return deleting(self.value)

    @cached
    def _found(self) -> dict[Hashable, Any]:
        return {}

    def once(self, key: Hashable, find: Callable[[], _T]) -> _T:
        """What `find` finds: it is kept under `key`, for the other rules of the same judgement."""
        if key not in self._found:
            self._found[key] = find()
        return self._found[key]  # type: ignore[no-any-return]

    @cached
    def before(self) -> Subject | None:
        """What the object was, as a subject of its own; None at CREATE."""
        return None if self.old is None else replace(self, value=self.old, old=None)

    def within(self, snapshot: Snapshot) -> Subject:
        """The same subject with what the cluster says of resource claims."""
        try:
            backed = self.accelerators.backed_by(snapshot.extended_resources())
        except FactsMissing:
            backed = self.accelerators
        return replace(self, accelerators=backed, claims=ClaimSource(snapshot, self.namespace))

    def with_value(self, value: Object) -> Subject:
        """The same subject after /mutate."""
        return replace(self, value=value)
