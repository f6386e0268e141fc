"""One look at a cluster: every kind listed once, in pages, and of each object no more kept than is needed later."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from webhook.engine.policy import Policy
from webhook.kube.facts import PROJECTIONS, Fact, NamespaceFact
from webhook.kube.kinds import CLUSTER_QUEUE, DEPLOYMENT, NAMESPACE, Kind, controller
from webhook.kube.names import KUEUE_GROUP, KUEUE_NAMESPACES, QUEUE_LABEL, SYSTEM_NAMESPACES
from webhook.kube.objects import Object, label, metadata, string
from webhook.kube.snapshot import Snapshot
from webhook.live.api import Api, ApiError, Resource
from webhook.live.audit.pods import GatedPod, Made, Mark, PlacedPod, gated_pod, made, placed_pod
from webhook.live.audit.quota import used_quota
from webhook.live.audit.wanted import Wanted, wanted_kinds
from webhook.live.audit.workloads import Workloads
from webhook.sources.access import Access
from webhook.sources.kueue_configuration import with_configuration

WORKLOADS = "workloads"
"""Of Kueue: one for each pod or group that it admits."""

CONTROLLER = "kueue-controller-manager"
"""How the name of the Deployment of Kueue's controller ends, as it is shipped; a Helm release may come before it."""

_EXPIRED = 410
_ATTEMPTS = 3
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"

Progress = Callable[[str], None]
"""Is told what is being done: 'reading deployments.apps'."""


class CannotAudit(Exception):
    """Nothing can be said about the cluster. The message says why, and what to do.

    `usage`: what was asked cannot be; else it may be otherwise the next time.
    """

    def __init__(self, message: str, *, usage: bool = False) -> None:
        super().__init__(message)
        self.usage = usage


@dataclass
class Reading:
    """What was found. `unread` has the names of kinds that could not be listed, each with the reason."""

    snapshot: Snapshot = field(default_factory=lambda: Snapshot(unknown="is not read"))
    judged: list[tuple[Kind, Object]] = field(default_factory=list)
    """Objects of managed namespaces, and quota objects, without those that another one answers for."""

    passed_over: int = 0
    """How many of these others there were."""

    managed: tuple[str, ...] = ()
    """The namespaces that are looked at, sorted."""

    queues: list[Object] = field(default_factory=list)
    """The ClusterQueues, whole."""

    controllers: list[Object] = field(default_factory=list)
    """The Deployments of Kueue's own controller, whole."""

    gated: list[GatedPod] = field(default_factory=list)
    placed: list[PlacedPod] = field(default_factory=list)
    """Of all namespaces, or of those that were asked for."""

    made: dict[str, Made] = field(default_factory=dict)
    """By uid, what made the objects of managed namespaces that another one answers for."""

    workloads: Workloads = field(default_factory=Workloads)
    """Of namespaces with gated pods, or with labelled ones among those on nodes."""

    unread: dict[str, str] = field(default_factory=dict)
    kueue_versions: tuple[str, ...] = ()
    """The versions of Kueue's own API that are served, () without Kueue."""

    def has_workload(self, pod: PlacedPod) -> bool:
        """Whether Kueue counts the pod, as far as Workloads were read."""
        return self.workloads.count(pod, self.made)


def read(api: Api, policy: Policy, namespaces: Collection[str] = (), progress: Progress = lambda _: None) -> Reading:
    """`namespaces` are the ones to look at, all managed ones if empty.

    Raises CannotAudit where the namespaces cannot be read, where one of those asked for is not managed, and where the
    API server does not answer.
    """
    return _Reader(api, policy, frozenset(namespaces), progress).read()


@dataclass
class _Part:
    """What the pages of one kind came to."""

    facts: dict[str, list[Fact]]
    judged: list[tuple[Kind, Object]] = field(default_factory=list)
    queues: list[Object] = field(default_factory=list)
    controllers: list[Object] = field(default_factory=list)
    gated: list[GatedPod] = field(default_factory=list)
    placed: list[PlacedPod] = field(default_factory=list)
    made: dict[str, Made] = field(default_factory=dict)
    passed_over: int = 0


class _Reader:
    def __init__(self, api: Api, policy: Policy, asked: frozenset[str], progress: Progress) -> None:
        self._api = api
        self._policy = policy
        self._asked = asked
        self._progress = progress
        self._versions: dict[str, tuple[str, ...] | ApiError] = {}
        self._managed: frozenset[str] = frozenset()
        self._found = Reading()

    def read(self) -> Reading:
        found = self._found
        for wanted in wanted_kinds(self._policy):
            self._read(wanted)
            if wanted.row is NAMESPACE:
                self._choose()
        if self._asked:
            self._leave_out_unused()
        try:
            found.kueue_versions = self._served(KUEUE_GROUP)
        except ApiError as error:
            self._unread(KUEUE_GROUP, error)
        homes = {pod.namespace for pod in found.gated}
        homes |= {pod.namespace for pod in found.placed if pod.mark is not Mark.NONE}
        if homes:
            self._read_workloads(homes)
        return found

    def _served(self, group: str) -> tuple[str, ...]:
        """Raises ApiError, the same one for every kind of the group."""
        if group not in self._versions:
            try:
                self._versions[group] = self._api.versions(group)
            except ApiError as error:
                self._versions[group] = error
        found = self._versions[group]
        if isinstance(found, ApiError):
            raise found
        return found

    def _unread(self, name: str, error: ApiError) -> None:
        if not error.code:
            raise CannotAudit(f"{error}; check the network and the kubeconfig") from error
        self._found.unread[name] = str(error)

    def _read(self, wanted: Wanted) -> None:
        self._progress(f"reading {wanted.name}")
        try:
            part = self._listed(wanted)
        except ApiError as error:
            self._unread(wanted.name, error)
            self._lack(wanted, str(error))
            return
        if part is None:
            return
        found = self._found
        for kind, facts in part.facts.items():
            found.snapshot.replace(kind, facts)
        found.judged += part.judged
        found.queues += part.queues
        found.controllers += part.controllers
        found.gated += part.gated
        found.placed += part.placed
        found.made |= part.made
        found.passed_over += part.passed_over

    def _listed(self, wanted: Wanted) -> _Part | None:
        """None where there is nothing to know. Raises ApiError."""
        resource = wanted.resource(self._served)
        if resource is None:
            served = self._served(wanted.group)
            if served:
                self._lack(wanted, f"is served as {', '.join(served)} alone, which this version does not know")
            elif wanted.required:
                self._lack(wanted, f"{wanted.product} is not installed")
            else:
                return _Part({access.kind: [] for access in wanted.facts})
            return None
        for attempt in range(_ATTEMPTS):
            part = _Part({access.kind: [] for access in wanted.facts})
            try:
                for value in self._items(resource, wanted):
                    self._take(value, wanted, part)
            except ApiError as error:
                # The token of the next page can expire on a busy API server: then from the start.
                if error.code != _EXPIRED or attempt == _ATTEMPTS - 1:
                    raise
            else:
                break
        return part

    def _items(self, resource: Resource, wanted: Wanted) -> Iterator[dict[str, Any]]:
        fields = _UNFINISHED if wanted.name == "pods" else wanted.fields
        return self._api.items(resource, fields=fields, required=wanted.required)

    def _lack(self, wanted: Wanted, reason: str) -> None:
        if wanted.row is NAMESPACE:
            raise CannotAudit(f"{reason}; without namespaces nothing can be judged")
        for access in wanted.facts:
            self._found.snapshot.forget(access.kind, reason)
        self._found.unread[wanted.name] = reason

    # One object

    def _take(self, value: dict[str, Any], wanted: Wanted, part: _Part) -> None:
        for access in wanted.facts:
            if _selects(access, value):
                fact = PROJECTIONS[access.kind](with_configuration(value))
                if fact is not None:
                    part.facts[access.kind].append(fact)
        if wanted.name == "pods":
            self._take_pod(value, part)
        if wanted.row is DEPLOYMENT and _is_kueues(value):
            part.controllers.append(value)
        if wanted.row is None or not self._is_ours(value, wanted.row):
            return
        if self._has_parent(value):
            part.passed_over += 1
            part.made |= made(value)
            return
        # It is as large as all else, and no rule reads it.
        value["metadata"].pop("managedFields", None)
        part.judged.append((wanted.row, value))
        if wanted.row is CLUSTER_QUEUE:
            part.queues.append(value)

    def _take_pod(self, value: Object, part: _Part) -> None:
        gated = gated_pod(value)
        if gated is not None and gated.namespace in self._managed:
            part.gated.append(gated)
        placed = placed_pod(value)
        if placed is not None and (not self._asked or placed.namespace in self._managed):
            part.placed.append(placed)

    def _is_ours(self, value: Object, row: Kind) -> bool:
        own = metadata(value)
        # Which namespaces are managed is only known once all of them are read.
        return row.cluster_scoped or row is NAMESPACE or string(own.get("namespace")) in self._managed

    def _has_parent(self, value: Object) -> bool:
        """Whether another object answers for it, so that there is no need to keep it."""
        return self._policy.kinds.parent(controller(value)) is not None

    # Namespaces

    def _choose(self) -> None:
        """Which namespaces are looked at, and no others are judged themselves."""
        found = self._found
        facts = {fact.name: fact for fact in found.snapshot.facts("Namespace") if isinstance(fact, NamespaceFact)}
        managed = {
            name
            for name, fact in facts.items()
            if self._policy.managed_namespaces.matches(fact.labels) and name not in SYSTEM_NAMESPACES
        }
        for name in sorted(self._asked - managed):
            wanted = str(self._policy.managed_namespaces)
            if name not in facts:
                raise CannotAudit(f"there is no namespace {name}; correct the name", usage=True)
            if name in SYSTEM_NAMESPACES:
                raise CannotAudit(f"namespace {name} is the system's, which is never managed; leave it out", usage=True)
            raise CannotAudit(f"namespace {name} is not managed; label it {wanted}, or leave it out", usage=True)
        self._managed = frozenset(managed & self._asked if self._asked else managed)
        found.managed = tuple(sorted(self._managed))
        found.judged = [
            (row, value) for row, value in found.judged if string(metadata(value).get("name")) in self._managed
        ]

    def _leave_out_unused(self) -> None:
        """The quota objects that the namespaces asked for do not draw on."""
        found, snapshot = self._found, self._found.snapshot
        unknown = {"LocalQueue", "ClusterQueue", "Cohort"} & snapshot.unknown().keys()
        if unknown:
            return
        used = used_quota(snapshot, self._managed)
        found.judged = [
            (row, value)
            for row, value in found.judged
            if not row.cluster_scoped or (row.kind, string(metadata(value).get("name"))) in used
        ]
        found.queues = [value for row, value in found.judged if row is CLUSTER_QUEUE]

    # Workloads of Kueue

    def _read_workloads(self, homes: set[str]) -> None:
        self._progress(f"reading {WORKLOADS}.{KUEUE_GROUP}")
        found = self._found
        try:
            version = next((each for each in ("v1beta2", "v1beta1") if each in self._served(KUEUE_GROUP)), "")
            if version:
                listed = found.workloads.read(self._api, Resource(KUEUE_GROUP, version, WORKLOADS), homes)
                found.placed = found.workloads.there(self._api, listed, found.placed, found.made)
        except ApiError as error:
            self._unread(f"{WORKLOADS}.{KUEUE_GROUP}", error)


def _is_kueues(deployment: Object) -> bool:
    own = metadata(deployment)
    return own.get("namespace") in KUEUE_NAMESPACES and string(own.get("name")).endswith(CONTROLLER)


def _selects(access: Access, value: Object) -> bool:
    """Whether a watch of these facts would bring the object; what else it selects by, the projection looks at."""
    match access.label_selector:
        case "":
            return True
        case selector if selector.startswith("!"):
            return not label(value, QUEUE_LABEL)
        case _:
            return bool(label(value, QUEUE_LABEL))
