"""Which accelerators a pod holds, by its containers' requests and by its resource claims. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.kube.accelerators import Accelerators
from webhook.kube.claims import CLAIM, ClaimSource, pod_claims
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.live.audit.pods import PlacedPod


@dataclass(slots=True)
class Taken:
    """Accelerators in billionths, by resource. It is false for a pod that holds none, as far as is known."""

    own: dict[str, int] = field(default_factory=dict)
    shared: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """By the name of the ResourceClaim."""

    uncounted: set[str] = field(default_factory=set)
    """Resources of which a claim asks for more than can be counted, such as all devices of a node."""

    unknown: list[str] = field(default_factory=list)
    """Why claims are not known."""

    def __bool__(self) -> bool:
        return bool(self.own or self.shared or self.uncounted)


class Taking:
    def __init__(self, snapshot: Snapshot, accelerators: Accelerators) -> None:
        self._snapshot = snapshot
        try:
            self._accelerators = accelerators.backed_by(snapshot.extended_resources())
        except FactsMissing:
            # That they could not be listed is told of the kind.
            self._accelerators = accelerators

    def of(self, pod: PlacedPod) -> Taken:
        classes = self._accelerators.device_classes
        taken = Taken({name: amount for name, amount in pod.requests.items() if self._accelerators.covers(name)})
        for claim in pod_claims(pod.spec, (), ClaimSource(self._snapshot, pod.namespace)):
            if claim.unknown is not None:
                taken.unknown.append(str(claim.unknown))
            elif claim.fact is None:
                taken.unknown.append(f"{claim.kind} {pod.namespace}/{claim.name}, which pods claim by, is gone")
            elif claim.asks(classes):
                amounts = claim.amounts(classes)
                asked = {
                    classes[each.device_class]
                    for one in claim.fact.requests
                    for each in one
                    if each.device_class in classes
                }
                taken.uncounted |= asked - amounts.keys()
                if claim.kind == CLAIM and amounts:
                    taken.shared[claim.name] = amounts
                elif claim.kind != CLAIM:
                    for resource, amount in amounts.items():
                        taken.own[resource] = taken.own.get(resource, 0) + amount
        return taken
