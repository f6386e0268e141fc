"""A write, judged by what it changes: the unmet amount before it and after it."""

from __future__ import annotations

from dataclasses import dataclass

from webhook.capacity.assessment import Assessment
from webhook.capacity.view import View


@dataclass(frozen=True, slots=True)
class Comparison:
    """One resource in flavors that share nodes, the same ones before and after. `before` comes without its cut."""

    before: Assessment
    after: Assessment

    @property
    def resource(self) -> str:
        return self.after.resource

    @property
    def worse(self) -> bool:
        """More is unmet than before, whatever may be done about the nodes: the write is to be denied."""
        return self.after.unmet_hardware > self.before.unmet_hardware

    @property
    def away(self) -> bool:
        """More is unmet than before while capacity is away: the hardware is there, and cannot be used now."""
        return not self.worse and self.after.unmet_usable > self.before.unmet_usable

    @property
    def lowered(self) -> bool:
        return self.after.floors < self.before.floors


def compare(before: View, after: View) -> tuple[Comparison, ...]:
    """What two views of the same state differ in, sorted by resource, one entry for flavors that share nodes.

    Flavors that share none are judged apart: an excess that goes down in one does not pay for one that goes up in
    another. With nothing to compare (no accelerator's floor and no flavor's nodes differ) there is no entry.
    """
    touched = sorted((resource, flavor) for flavor, resource in before.touched | after.touched)
    found = []
    seen: set[tuple[str, str]] = set()
    for resource, flavor in touched:
        if (resource, flavor) in seen:
            continue
        scope = _scope(before, after, resource, flavor)
        written = {each for of, each in touched if of == resource and each in scope}
        seen |= {(resource, each) for each in written}
        found.append(
            Comparison(before.assess_together(resource, scope), after.assess_together(resource, scope, written))
        )
    return tuple(found)


def _scope(before: View, after: View, resource: str, flavor: str) -> frozenset[str]:
    """Everything that either view puts together with the flavor, so that both are summed over the same."""
    scope = frozenset({flavor})
    while True:
        wider = before.component(resource, scope, after)
        scope = after.component(resource, wider, before)
        if scope == wider:
            return scope
