"""The object under judgement, with what the request says about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from webhook.kube.accelerators import Accelerators
from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.kinds import Kind, Owner, controller
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, deleting, label, metadata, string
from webhook.kube.pods import PodTemplate, pod_template


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

    @cached_property
    def name(self) -> str:
        """metadata.name, or 'prefix*' for an object that the API server will name."""
        own = string(metadata(self.value).get("name"))
        prefix = string(metadata(self.value).get("generateName"))
        return own or (f"{prefix}*" if prefix else "*")

    @cached_property
    def fact(self) -> Fact | None:
        """The object as a source would keep it, for kinds of PROJECTIONS."""
        return PROJECTIONS[self.kind.kind](self.value)

    @cached_property
    def templates(self) -> tuple[PodTemplate, ...]:
        found = (pod_template(self.value, path, self.accelerators, filled=not path) for path in self.kind.templates)
        return tuple(template for template in found if template is not None)

    @cached_property
    def queue(self) -> str:
        """The object's own queue label; of a Pod it is also its template's."""
        return label(self.value, QUEUE_LABEL)

    @cached_property
    def is_gpu_workload(self) -> bool:
        """Whether a pod of it asks for an accelerator above 0."""
        return any(template.asks for template in self.templates)

    @cached_property
    def owner(self) -> Owner | None:
        return controller(self.value)

    @property
    def deleting(self) -> bool:
        return deleting(self.value)

    @cached_property
    def before(self) -> Subject | None:
        """What the object was, as a subject of its own; None at CREATE."""
        return None if self.old is None else replace(self, value=self.old, old=None)

    def with_value(self, value: Object) -> Subject:
        """The same subject after /mutate."""
        return replace(self, value=value)
