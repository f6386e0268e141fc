"""Workloads of Kueue: which pods they stand for, and why those wait that do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from webhook.kube.objects import Object, at, deleting, mapping, metadata, sequence, string
from webhook.kube.unqueued_pods import FINISHED
from webhook.live.api import PODS, Api, Resource
from webhook.live.audit.pods import Made, Mark, PlacedPod
from webhook.live.pods import holds, owners, why_gated

_FEW = 5
"""Namespaces. One list of all is less to ask than one for each of many."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A Workload that has not ended. `pods` are the names of those that it stands for, as far as it names them."""

    namespace: str
    name: str
    pods: tuple[str, ...]
    reason: str
    """Why it waits, as `webhook.live.pods` has it; LET_GO for one that is admitted."""


@dataclass(slots=True)
class Workloads:
    """`owners` are the uids of what they stand for, and `names` their own namespaces and names."""

    waiting: list[Waiting] = field(default_factory=list)
    owners: set[str] = field(default_factory=set)
    names: set[tuple[str, str]] = field(default_factory=set)

    def add(self, workload: Object) -> None:
        own = metadata(workload)
        self.names.add((string(own.get("namespace")), string(own.get("name"))))
        self.owners.update(owners(workload))
        if not holds(workload, "Finished"):
            self.waiting.append(_waiting(workload))

    def count(self, pod: PlacedPod, made: Mapping[str, Made]) -> bool:
        """Whether one stands for a pod, for its group, or for what made it. `made` is as PlacedPod.chain has it."""
        return (
            pod.uid in self.owners
            or any(each.uid in self.owners for each in pod.chain(made))
            or any((pod.namespace, name) in self.names for name in pod.workloads)
        )

    def read(self, api: Api, resource: Resource, homes: Collection[str]) -> list[str]:
        """Adds those of these namespaces. Returns the namespaces that were listed, [''] for all. Raises ApiError."""
        namespaces = sorted(homes) if len(homes) < _FEW else [""]
        for namespace in namespaces:
            for value in api.items(resource, namespace):
                if metadata(value).get("namespace") in homes:
                    self.add(value)
        return namespaces

    def there(
        self, api: Api, namespaces: Sequence[str], pods: list[PlacedPod], made: Mapping[str, Made]
    ) -> list[PlacedPod]:
        """The pods without those that have a label, and no Workload since both went meanwhile. Raises ApiError."""
        doubted = {each.uid for each in pods if each.mark is not Mark.NONE and not self.count(each, made)}
        if not doubted:
            return pods
        values = (value for namespace in namespaces for value in api.items(PODS, namespace))
        gone = doubted - {string(metadata(value).get("uid")) for value in values if _is_there(value)}
        return [each for each in pods if each.uid not in gone]


def _is_there(pod: Object) -> bool:
    return not deleting(pod) and at(pod, ("status", "phase")) not in FINISHED


def _waiting(workload: Object) -> Waiting:
    own = metadata(workload)
    pods = tuple(
        string(owner.get("name"))
        for owner in map(mapping, sequence(own.get("ownerReferences")))
        if owner.get("kind") == "Pod"
    )
    return Waiting(string(own.get("namespace")), string(own.get("name")), pods, why_gated(workload))
