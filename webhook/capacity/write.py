"""A write of a quota object, seen as what it does to floors and nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from webhook.capacity.balance import KINDS, Balance, balance_of
from webhook.capacity.comparison import Comparison, compare
from webhook.capacity.pending import views_of
from webhook.capacity.settings import Settings
from webhook.capacity.view import NO_NODE, Change, View
from webhook.kube.accelerators import Accelerators
from webhook.kube.cached import cached
from webhook.kube.facts import Fact
from webhook.kube.objects import Object, Path, mapping, sequence
from webhook.kube.quota_facts import FlavorResource
from webhook.kube.snapshot import FactsMissing, Snapshot


@dataclass(frozen=True)
class QuotaWrite:
    """One ClusterQueue, Cohort or ResourceFlavor before and after; `before` is None at CREATE."""

    kind: str
    name: str
    before: Change
    after: Change
    balance: Balance
    snapshot: Snapshot

    @cached
    def raised(self) -> dict[FlavorResource, int]:
        """The floors that it raises, with their amounts after it."""
        return self.balance.raised(self.kind, self.before, self.after)

    def was(self, key: FlavorResource) -> int:
        """The floor of a flavor and resource before it, 0 for none."""
        return self.balance.raised(self.kind, None, self.before).get(key, 0)

    @cached
    def lowered(self) -> bool:
        """Whether some floor is less after it."""
        return bool(self.balance.raised(self.kind, self.after, self.before))

    @cached
    def comparisons(self) -> tuple[tuple[Comparison, ...], ...]:
        """What it changes, in each state that it may meet."""
        return tuple(self._compared(view, self.after) for view in self.views)

    @cached
    def views(self) -> tuple[View, ...]:
        return views_of(self.balance, self.snapshot, self.kind, self.name)

    def _compared(self, view: View, after: Change) -> tuple[Comparison, ...]:
        return compare(
            view.with_change(self.kind, self.name, self.before), view.with_change(self.kind, self.name, after)
        )

    def passes(self, after: Change, first: Iterable[tuple[str, str, Change]] = ()) -> bool:
        """Whether the object could be written so, once others (kind, name and fact) were."""
        changes = tuple(first)
        return not any(
            comparison.worse for view in self.views for comparison in self._compared(view.with_changes(changes), after)
        )

    def missing(self) -> FactsMissing | None:
        """What keeps the floors that it raises from being compared with the nodes, None if nothing does."""
        flavors: set[str] = set()
        nodes = False
        for comparison in self.comparisons[0]:
            for flavor, reason in comparison.after.unknown.items():
                if self.kind == "ResourceFlavor" or (flavor, comparison.resource) in self.raised:
                    nodes = nodes or reason == NO_NODE
                    if reason != NO_NODE:
                        flavors.add(flavor)
        found = [("Node", "none known")] if nodes else []
        if flavors:
            names = ", ".join(sorted(flavors))
            found.append(("ResourceFlavor", f"{names} not there yet; floors of {self.name} in it are judged then"))
        checked = sorted({floor.uncounted for floor in self.balance.uncounted(self.kind, self.before, self.after)})
        if checked:
            declare = "declare capacity in the policy to have its floors judged"
            found.append((self.kind, f"{'; '.join(checked)}; {declare}"))
        if not found:
            return None
        (kind, reason), *others = found
        return FactsMissing(kind, "; ".join([reason, *(f"{other}: {text}" for other, text in others)]))


def quota_write(
    kind: str,
    name: str,
    before: Fact | None,
    after: Fact | None,
    snapshot: Snapshot,
    settings: Settings,
    accelerators: Accelerators,
) -> QuotaWrite:
    """The write that makes one fact of another. Raises FactsMissing if a kind that decides is not known."""
    snapshot.require(KINDS)
    balance = balance_of(snapshot, settings, accelerators)
    return QuotaWrite(kind, name, cast(Change, before), cast(Change, after), balance, snapshot)


def quota_path(value: Object, flavor: str, resource: str) -> Path:
    """Where a ClusterQueue or Cohort says its nominalQuota; spec.resourceGroups if it does nowhere."""
    for number, group in enumerate(map(mapping, sequence(mapping(value.get("spec")).get("resourceGroups")))):
        for at, entry in enumerate(map(mapping, sequence(group.get("flavors")))):
            for index, quota in enumerate(map(mapping, sequence(entry.get("resources")))):
                if (entry.get("name"), quota.get("name")) == (flavor, resource):
                    return ("spec", "resourceGroups", number, "flavors", at, "resources", index, "nominalQuota")
    return ("spec", "resourceGroups")
