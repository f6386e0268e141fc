"""What verify looks at: everything of one namespace that a queue could be about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from webhook.engine.policy import Policy
from webhook.kube.claims import ClaimSource
from webhook.kube.kinds import BUILT_IN
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, at, group, label, mapping, metadata, sequence, string
from webhook.kube.pods import PodTemplate, pod_template
from webhook.kube.quota_facts import ClusterQueueFact
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.live.pods import Pod, by_owner, holds, pods_of
from webhook.live.verify.assertion import Assertion

KUEUE_LEASE = "c1f6bfd2.kueue.x-k8s.io"
"""What Kueue's controllers elect their leader by, as Kueue is shipped."""

NOTHING_QUEUED = "no pod is in a queue: there is nothing to look at"

_WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
_WORKLOAD_LABELS = ("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/prebuilt-workload-name")
_HASH_LABEL = "pod-template-hash"
_DEEPEST = 5
"""Owners of owners."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What a question to Kueue's webhook came to. `answers` is None where nobody knows, and `said` is why."""

    answers: bool | None
    said: str = ""


class Maker(NamedTuple):
    """What made a pod, or what made that."""

    group: str
    kind: str
    name: str
    uid: str = ""


@dataclass
class World:
    """`unknown` has the reason for what could not be read, by the names of the fields here."""

    namespace: str
    snapshot: Snapshot
    local_queues: list[Object] = field(default_factory=list)
    cluster_queues: dict[str, Object] = field(default_factory=dict)
    """By name; all of the cluster."""

    pods: list[Object] = field(default_factory=list)
    """That have not finished."""

    workloads: list[Object] = field(default_factory=list)
    deployments: list[Object] = field(default_factory=list)
    stateful_sets: list[Object] = field(default_factory=list)
    replica_sets: list[Object] = field(default_factory=list)
    jobs: list[Object] = field(default_factory=list)
    events: list[Object] = field(default_factory=list)
    """Of preemptions."""

    lease: Object | None = None
    probe: Probe = Probe(None, "no LocalQueue leads to a ClusterQueue by which to ask it")
    unknown: dict[str, str] = field(default_factory=dict)

    def lacks(self, found: Assertion, *kinds: str) -> bool:
        """Whether something could not be read; then that is said."""
        found.unknown += dict.fromkeys(self.unknown[kind] for kind in kinds if kind in self.unknown)
        return bool(found.unknown)

    # Queues

    def queues(self) -> list[ClusterQueueFact]:
        """The ClusterQueues that its LocalQueues lead to, sorted. Raises FactsMissing."""
        names = sorted({string(at(each, ("spec", "clusterQueue"))) for each in self.local_queues})
        return [fact for name in names if (fact := self.snapshot.cluster_queue(name)) is not None]

    def local_queue(self, name: str) -> Object:
        """Empty for one that is not there."""
        return next((each for each in self.local_queues if metadata(each).get("name") == name), {})

    # Pods

    @cached_property
    def queued(self) -> list[Pod]:
        return [pod for pod in pods_of(self.pods, self.workloads) if pod.queue and not pod.leaving]

    @property
    def empty(self) -> bool:
        """Whether nothing is there that a queue could count."""
        return not self.queued and all(holds(each, "Finished") for each in self.workloads)

    @cached_property
    def of_owner(self) -> dict[str, Object]:
        """Workloads by the uid of each object that they stand for."""
        return by_owner(self.workloads)

    def template(self, pod: Object, policy: Policy) -> PodTemplate | None:
        """What the pod asks for, its resource claims included."""
        try:
            names = policy.accelerators.backed_by(self.snapshot.extended_resources())
        except FactsMissing:
            names = policy.accelerators
        return pod_template(pod, (), names, filled=True, claims_from=ClaimSource(self.snapshot, self.namespace))

    def makers(self, pod: Object) -> list[Maker]:
        """Its controller, and the controllers above that, as far as they can be seen."""
        found: list[Maker] = []
        value = pod
        while len(found) < _DEEPEST and (maker := _maker(value)) is not None:
            found.append(maker)
            value = self._made.get(maker[:3], {})
        last = found[-1] if found else None
        suffix = f"-{label(pod, _HASH_LABEL)}"
        if last is not None and last.kind == "ReplicaSet" and last[:3] not in self._made and last.name.endswith(suffix):
            # The name of a Deployment's ReplicaSet is that of the Deployment and the hash.
            found.append(Maker(last.group, "Deployment", last.name.removesuffix(suffix)))
        return found

    @cached_property
    def _made(self) -> dict[tuple[str, str, str], Object]:
        sets = {("apps", "ReplicaSet", string(metadata(each).get("name"))): each for each in self.replica_sets}
        return sets | {("batch", "Job", string(metadata(each).get("name"))): each for each in self.jobs}

    @cached_property
    def _workload_names(self) -> set[str]:
        return {string(metadata(each).get("name")) for each in self.workloads}

    def counted(self, pod: Object) -> bool | None:
        """Whether a Workload stands behind a pod that Kueue's labels say is counted; None where nobody can see that."""
        if "workloads" in self.unknown:
            return None
        own, makers = metadata(pod), self.makers(pod)
        uids = {string(own.get("uid")), *(maker.uid for maker in makers)}
        uids |= {string(mapping(each).get("uid")) for each in sequence(own.get("ownerReferences"))}
        names = {string(mapping(own.get("annotations")).get(_WORKLOAD_ANNOTATION))}
        names |= {label(pod, each) for each in _WORKLOAD_LABELS}
        if not (uids.isdisjoint(self.of_owner) and names.isdisjoint(self._workload_names)):
            return True
        # Objects of other groups may have owners that are not read.
        unseen = any(each.group not in BUILT_IN for each in makers)
        return None if unseen or ("jobs" in self.unknown and any(each.kind == "Job" for each in makers)) else False


def asks_for_queue(value: Object) -> bool:
    """Whether a workload with a pod template has the queue label, there or on itself."""
    return bool(label(value, QUEUE_LABEL) or label(mapping(at(value, ("spec", "template"))), QUEUE_LABEL))


def workloads_with_replicas(world: World) -> Iterator[Object]:
    """What makes pods of its own accord, and has the queue label."""
    ownerless = (each for each in world.replica_sets if _maker(each) is None)
    for each in (*world.deployments, *world.stateful_sets, *ownerless):
        if asks_for_queue(each):
            yield each


def _maker(value: Object) -> Maker | None:
    for reference in map(mapping, sequence(metadata(value).get("ownerReferences"))):
        if reference.get("controller") is True:
            kind, name = string(reference.get("kind")), string(reference.get("name"))
            return Maker(group(string(reference.get("apiVersion"))), kind, name, string(reference.get("uid")))
    return None
