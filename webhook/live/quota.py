"""How many replicas a ClusterQueue admits as things stand: from its own floor, or by borrowing what is idle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from webhook.kube.cohorts import root_of
from webhook.kube.counted_pod import counted_pod
from webhook.kube.flavor_fit import label_keys, ruled_out
from webhook.kube.objects import Object, at, metadata, string
from webhook.kube.pods import PodTemplate
from webhook.kube.quota_facts import ClusterQueueFact, FlavorResource, ResourceGroup, counted
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.live.api import Api
from webhook.live.available import Available
from webhook.live.facts import listed, resource_of


@dataclass(frozen=True, slots=True)
class Ways:
    """How a ClusterQueue takes what comes, beside its quota."""

    strict: bool = False
    """StrictFIFO: whatever comes stands behind what waits already."""

    pending: int = 0
    """Workloads that wait in it."""

    borrows_first: bool = True
    """It borrows in a flavor before it tries the next one."""

    preempts_first: bool = False


@dataclass(frozen=True, slots=True)
class Short:
    """Of what there is too little, in billionths: `left` of the own nominalQuota, `free` to be had at all."""

    left: int
    nominal: int
    free: int


@dataclass(slots=True)
class Room:
    """Of so many replicas: `floor` fit the own nominalQuota that nobody holds; of these, `reclaimed` only once Kueue
    has preempted what peers borrowed of it. `borrowed` fit what is idle in the cohort. `waiting` stay gated."""

    floor: int = 0
    reclaimed: int = 0
    borrowed: int = 0
    waiting: int = 0
    behind: int = field(default=0, compare=False)
    """How many Workloads a StrictFIFO queue lets go first."""

    short: dict[FlavorResource, Short] = field(default_factory=dict, compare=False)
    """Why the first one waits, as things stood before any of them came."""

    @property
    def admitted(self) -> int:
        return self.floor + self.borrowed


class Quota:
    """The quota that is left, less what was given to the replicas that were asked about before. Who has which priority
    is not looked at: nothing is counted that Kueue would have to preempt for it, but borrowed floor (Any)."""

    def __init__(self, snapshot: Snapshot, ways: Mapping[str, Ways] | None = None) -> None:
        """`ways` by ClusterQueue; else Kueue's defaults, and nothing waits."""
        self._snapshot = snapshot
        self._ways = ways or {}
        self._available: Available | None = None
        self._taken: dict[str, dict[FlavorResource, int]] = {}
        """Billionths, by ClusterQueue."""

    def room(self, template: PodTemplate, queue: ClusterQueueFact, requests: Mapping[str, int], replicas: int) -> Room:
        """What becomes of so many more replicas, each of `requests` (billionths by resource). Kueue lets each into
        the first flavor of a group that takes it. Raises FactsMissing without Cohorts and flavors."""
        ways = self._ways.get(queue.name, Ways())
        if ways.strict and ways.pending and replicas:
            return Room(waiting=replicas, behind=ways.pending)
        before = {
            (flavor, name): Short(
                max(self.free(queue, flavor, name), 0),
                counted(name, queue.nominal.get((flavor, name), 0)),
                self._free_of_tree(queue, (flavor, name)) or 0,
            )
            for group in queue.groups
            for flavor in self._flavors(template, group)
            for name, amount in requests.items()
            if amount and name in group.covered
        }
        found = Room()
        for _ in range(replicas):
            lacking = self._admit(template, queue, requests, ways, found)
            if lacking is not None:
                found.waiting += 1
                found.short = found.short or {key: before[key] for key in lacking}
        return found

    def _admit(
        self, template: PodTemplate, queue: ClusterQueueFact, requests: Mapping[str, int], ways: Ways, found: Room
    ) -> list[FlavorResource] | None:
        """Counts one replica, or says of what there is too little."""
        given: dict[FlavorResource, int] = {}
        borrows = reclaims = False
        for group in queue.groups:
            asked = {name: amount for name, amount in requests.items() if amount and name in group.covered}
            if not asked:
                continue
            flavors = self._flavors(template, group)
            choices = []
            for flavor in flavors:
                fit = self._fit(queue, flavor, asked)
                if fit is None:
                    continue
                choices.append((fit, flavor))
                if fit == _FITS or (ways.borrows_first if fit == _BORROWS else ways.preempts_first):
                    break
            if not choices:
                return [
                    (flavor, name)
                    for flavor in flavors
                    for name, amount in asked.items()
                    if self._fit(queue, flavor, {name: amount}) is None
                ]
            # Of equals the first one, as Kueue goes through them.
            fit, flavor = min(choices, key=itemgetter(0))
            reclaims, borrows = reclaims or fit == _RECLAIMS, borrows or fit == _BORROWS
            given |= {(flavor, name): amount for name, amount in asked.items()}
        taken = self._taken.setdefault(queue.name, {})
        for key, amount in given.items():
            taken[key] = taken.get(key, 0) + amount
        if borrows:
            found.borrowed += 1
        else:
            found.floor += 1
            found.reclaimed += reclaims
        return None

    def _flavors(self, template: PodTemplate, group: ResourceGroup) -> list[str]:
        """Those of a group that Kueue may give to the pod."""
        facts = {name: self._snapshot.flavor(name) for name in group.flavors}
        keys = label_keys(fact for fact in facts.values() if fact is not None)
        return [
            name for name, fact in facts.items() if fact is not None and not ruled_out(template.spec, fact, keys, ())
        ]

    def _fit(self, queue: ClusterQueueFact, flavor: str, asked: Mapping[str, int]) -> int | None:
        """How a flavor takes one replica, the best way first; None if it does not as things stand."""
        own = all(amount <= self.free(queue, flavor, name) for name, amount in asked.items())
        there = {name: self._free_of_tree(queue, (flavor, name)) for name in asked}
        if None in there.values():
            return None
        if all(amount <= (there[name] or 0) for name, amount in asked.items()):
            return _FITS if own else _BORROWS
        # What is missing of an own floor, peers have borrowed.
        return _RECLAIMS if own and queue.reclaim_within_cohort == "Any" else None

    def free(self, queue: ClusterQueueFact, flavor: str, resource: str) -> int:
        """nominalQuota that the queue itself does not hold, in billionths."""
        key = (flavor, resource)
        return counted(resource, queue.nominal.get(key, 0)) - self._held(queue, key)

    def _held(self, queue: ClusterQueueFact, key: FlavorResource) -> int:
        return queue.reserved.get(key, 0) + self._taken.get(queue.name, {}).get(key, 0)

    def _free_of_tree(self, queue: ClusterQueueFact, key: FlavorResource) -> int | None:
        if self._available is None:
            self._available = Available(self._snapshot, self._held)
        return self._available.of(queue, key)


_FITS, _BORROWS, _RECLAIMS = range(3)


def ways_of(api: Api) -> dict[str, Ways]:
    """Of all ClusterQueues. Raises ApiError."""
    resource = resource_of(api, "ClusterQueue")
    values = [] if resource is None else listed(api, resource)
    return {string(metadata(value).get("name")): _ways(value) for value in values}


def _ways(value: Object) -> Ways:
    pending = at(value, ("status", "pendingWorkloads"))
    fungibility = ("spec", "flavorFungibility")
    return Ways(
        at(value, ("spec", "queueingStrategy")) == "StrictFIFO",
        pending if isinstance(pending, int) else 0,
        at(value, (*fungibility, "whenCanBorrow")) != "TryNextFlavor",
        # v1beta1 has another word for it.
        at(value, (*fungibility, "whenCanPreempt")) in ("MayStopSearch", "Preempt"),
    )


def members(snapshot: Snapshot, queue: ClusterQueueFact) -> list[ClusterQueueFact]:
    """The ClusterQueues of the whole tree of Cohorts that a queue is in, itself among them."""
    if not queue.cohort:
        return [queue]
    root = root_of(snapshot, queue.cohort)
    return [each for each in snapshot.cluster_queues() if each.cohort and root_of(snapshot, each.cohort) == root]


def nominal_of_cohort(snapshot: Snapshot, queue: ClusterQueueFact, key: FlavorResource) -> int:
    """The nominalQuota of that tree, that of Cohort objects included, in billionths."""
    total = sum(counted(key[1], each.nominal.get(key, 0)) for each in members(snapshot, queue))
    if queue.cohort:
        root = root_of(snapshot, queue.cohort)
        own = (each for each in snapshot.cohorts() if root_of(snapshot, each.name) == root)
        total += sum(counted(key[1], each.nominal.get(key, 0)) for each in own)
    return total


def requests_of(
    template: PodTemplate, local_queue: str, queue: ClusterQueueFact, namespace: str, snapshot: Snapshot
) -> Mapping[str, int]:
    """What Kueue counts for one pod, in billionths; where nothing says how it is set up, all that the pod requests of
    what the queue covers."""
    try:
        pod = counted_pod(template, local_queue, namespace, snapshot)
    except FactsMissing:
        pod = None
    if pod is not None:
        return pod.requests
    return {name: amount for name, amount in template.totals().items() if queue.covers(name)}
