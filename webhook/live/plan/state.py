"""What a plan is made from: facts of the cluster, by one list of each kind, and the objects that may be patched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from webhook.capacity.balance import KINDS
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule
from webhook.kube.facts import PROJECTIONS, Fact, LocalQueueFact
from webhook.kube.kinds import CLUSTER_QUEUE, COHORT, Kind
from webhook.kube.names import KUEUE_GROUP
from webhook.kube.objects import Object, at, mapping, metadata, sequence, string
from webhook.kube.quota_facts import FlavorResource, amount
from webhook.kube.snapshot import Snapshot
from webhook.live.api import Api, ApiError, Resource
from webhook.live.facts import resource_of
from webhook.rules import RULES
from webhook.sources.access import ACCESS
from webhook.sources.kueue_configuration import with_configuration

QUOTA_KINDS: Mapping[str, Kind] = {kind.kind: kind for kind in (CLUSTER_QUEUE, COHORT)}
"""What has floors."""

Target = tuple[str, str]
"""Kind and name of a ClusterQueue or Cohort."""


class NoKueue(Exception):
    """The cluster has no ClusterQueues to plan."""


@dataclass(frozen=True, slots=True)
class Held:
    """A Workload that has quota reserved in a ClusterQueue: billionths by (flavor, resource)."""

    queue: str
    amounts: Mapping[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class State:
    """`held` and `waiting` are None where Workloads cannot be listed, which `unread` then says."""

    snapshot: Snapshot
    objects: Mapping[Target, Object]
    """As the API server has them."""

    resources: Mapping[str, Resource]
    """How the API server names the QUOTA_KINDS, by kind."""

    held: tuple[Held, ...] | None
    waiting: Mapping[str, Mapping[str, int]] | None
    """What Workloads without quota ask for: billionths by ClusterQueue and resource. Kueue says so once it has looked
    at a Workload, so one that came just now is missing."""

    unread: Mapping[str, str]
    """Kinds that could not be read, each with the reason."""


def rules_of(kind: Kind, policy: Policy) -> tuple[Rule, ...]:
    """Those that admission asks about a write of this kind."""
    return tuple(
        rule
        for rule in RULES
        if rule.judges(kind) and not rule.removal and policy.rules.get(rule.id, rule.mode) is not Mode.OFF
    )


def read_state(api: Api, policy: Policy) -> State:
    """Raises NoKueue, and ApiError for an API server that does not answer; a kind that it refuses is `unread`."""
    kinds = {"LocalQueue"} | KINDS
    for row in QUOTA_KINDS.values():
        kinds |= frozenset[str]().union(*(rule.needs for rule in rules_of(row, policy)))
    if policy.capacity.discount_unqueued:
        kinds |= {"UnqueuedPod"}
    resources = {kind: resource for kind in kinds if (resource := resource_of(api, kind)) is not None}
    if "ClusterQueue" not in resources:
        raise NoKueue("the cluster does not serve ClusterQueues: Kueue is not installed, so there are no floors")
    snapshot = Snapshot()
    objects: dict[Target, Object] = {}
    unread: dict[str, str] = {}
    for kind in sorted(kinds):
        try:
            _read(api, kind, resources.get(kind), snapshot, objects)
        except ApiError as error:
            if error.code != 403:
                raise
            unread[kind] = str(error)
            snapshot.forget(kind, str(error))
    held, waiting = _workloads(api, resources["ClusterQueue"].version, snapshot, unread)
    return State(snapshot, objects, resources, held, waiting, unread)


def with_quota(api: Api, state: State) -> State:
    """The state with its ClusterQueues and Cohorts as they are by now. Raises ApiError."""
    objects: dict[Target, Object] = {}
    for kind in sorted(QUOTA_KINDS.keys() - state.unread.keys()):
        _read(api, kind, state.resources.get(kind), state.snapshot, objects)
    return replace(state, objects=objects)


def _read(api: Api, kind: str, resource: Resource | None, snapshot: Snapshot, objects: dict[Target, Object]) -> None:
    facts: list[Fact] = []
    for value in _listed(api, kind, resource):
        if kind in QUOTA_KINDS:
            objects[kind, string(metadata(value).get("name"))] = value
        fact = PROJECTIONS[kind](value)
        if fact is not None:
            facts.append(fact)
    snapshot.replace(kind, facts)


def _listed(api: Api, kind: str, resource: Resource | None) -> Iterator[Object]:
    if resource is None:
        return iter(())
    access = ACCESS[kind]
    fields = access.selectors.get("fieldSelector", "")
    return (with_configuration(value) for value in api.items(resource, labels=access.label_selector, fields=fields))


_Waiting = dict[str, dict[str, int]]


def _workloads(
    api: Api, version: str, snapshot: Snapshot, unread: dict[str, str]
) -> tuple[tuple[Held, ...] | None, _Waiting | None]:
    if "LocalQueue" in unread:
        return None, None
    queues = {
        (fact.namespace, fact.name): fact.cluster_queue
        for fact in snapshot.facts("LocalQueue")
        if isinstance(fact, LocalQueueFact)
    }
    held: list[Held] = []
    waiting: _Waiting = {}
    try:
        for value in api.items(Resource(KUEUE_GROUP, version, "workloads")):
            conditions = {
                entry.get("type")
                for entry in map(mapping, sequence(at(value, ("status", "conditions"))))
                if entry.get("status") == "True"
            }
            if "Finished" in conditions or at(value, ("spec", "active")) is False:
                continue
            admission = mapping(at(value, ("status", "admission")))
            if admission and "QuotaReserved" in conditions:
                held.append(Held(string(admission.get("clusterQueue")), dict(_assigned(admission))))
                continue
            name = string(at(value, ("spec", "queueName")))
            queue = queues.get((string(metadata(value).get("namespace")), name))
            if queue:
                _add(waiting.setdefault(queue, {}), _requested(value))
    except ApiError as error:
        if error.code != 403:
            raise
        unread["Workload"] = str(error)
        return None, None
    return tuple(held), waiting


def _assigned(admission: Object) -> Iterator[tuple[FlavorResource, int]]:
    sums: dict[FlavorResource, int] = {}
    for pods in map(mapping, sequence(admission.get("podSetAssignments"))):
        usage = mapping(pods.get("resourceUsage"))
        for resource, flavor in mapping(pods.get("flavors")).items():
            key = string(flavor), resource
            sums[key] = sums.get(key, 0) + amount(usage.get(resource))
    return iter(sums.items())


def _requested(value: Object) -> Iterator[tuple[str, int]]:
    for pods in map(mapping, sequence(at(value, ("status", "resourceRequests")))):
        for resource, text in mapping(pods.get("resources")).items():
            yield resource, amount(text)


def _add(sums: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for resource, number in more:
        sums[resource] = sums.get(resource, 0) + number
