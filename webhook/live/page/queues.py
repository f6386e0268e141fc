"""What Kueue says in the status of its queues: how much is used and borrowed, and how many Workloads wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from webhook.kube.names import KUEUE_GROUP
from webhook.kube.objects import Object, at, mapping, metadata, sequence, string
from webhook.kube.quota_facts import FlavorResource, amount
from webhook.live.api import Api, ApiError, Resource
from webhook.sources.access import ACCESS
from webhook.sources.connection import Connection
from webhook.sources.source import SourceError
from webhook.sources.timing import Timing

EVERY_SECONDS = 10.0
LONGEST_SECONDS = 20.0
"""That reading all queues may take."""

_LONGEST_REASON = 300

log = logging.getLogger("floorkeeper.page")


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Of a ClusterQueue. Amounts are in billionths by (flavor, resource), as status.flavorsReservation has them."""

    name: str
    used: Mapping[FlavorResource, int] = field(default_factory=dict)
    borrowed: Mapping[FlavorResource, int] = field(default_factory=dict)
    pending: int | None = None
    """Workloads that wait for quota, one for each gated replica; None where Kueue does not say."""

    inactive: str = ""
    """Why it admits nothing, '' if it does. A queue that no controller has looked at yet says so."""


@dataclass(frozen=True, slots=True)
class LocalQueueStatus:
    namespace: str
    name: str
    cluster_queue: str
    pending: int | None = None


@dataclass(frozen=True, slots=True)
class QueueReading:
    """All queues at one moment: seconds since the epoch, None for never. `reason` says why it is not newer, '' if it is
    as new as can be; what was read before then stands beside it."""

    at: float | None = None
    queues: Mapping[str, QueueStatus] = field(default_factory=dict)
    local: Mapping[str, tuple[LocalQueueStatus, ...]] = field(default_factory=dict)
    """By ClusterQueue, sorted."""

    reason: str = "not read yet"


class QueueSource(Protocol):
    """Implemented by QueueReader, called by the page."""

    @property
    def reading(self) -> QueueReading: ...

    async def run(self) -> None:
        """Reads for ever."""


class NoQueues:
    """Where there is no cluster to ask."""

    def __init__(self, reason: str) -> None:
        self.reading = QueueReading(reason=reason)

    async def run(self) -> None:
        """There is nothing to do."""


class QueueReader:
    """Lists all queues every ten seconds, in a thread."""

    def __init__(
        self, kubeconfig: Path | None, clock: Callable[[], float] = time.time, every: float = EVERY_SECONDS
    ) -> None:
        """`kubeconfig`: None for the cluster around us."""
        self.reading = QueueReading()
        self._kubeconfig = kubeconfig
        self._clock = clock
        self._every = every

    async def run(self) -> None:
        """For ever, until it is cancelled; a request under way is then broken off."""
        connection: Connection | None = None
        try:
            while True:
                try:
                    connection = connection or await self._connected()
                    self.reading = await asyncio.to_thread(self._read, Api(connection))
                except (ApiError, SourceError) as error:
                    self._failed(str(error))
                except Exception as error:
                    log.exception("reading the queues failed")
                    self._failed(f"reading them failed: {type(error).__name__}; see the log")
                await asyncio.sleep(self._every)
        finally:
            if connection is not None:
                connection.close()

    def _failed(self, reason: str) -> None:
        """What was read before stays, with its time."""
        self.reading = replace(self.reading, reason=" ".join(reason.split())[:_LONGEST_REASON])

    async def _connected(self) -> Connection:
        connection = Connection(self._kubeconfig, Timing())
        await asyncio.to_thread(connection.load)
        return connection

    def _read(self, api: Api) -> QueueReading:
        now, until = self._clock(), time.monotonic() + LONGEST_SECONDS
        served = api.versions(KUEUE_GROUP)
        queues = {queue.name: queue for queue in map(queue_status, _all(api, "ClusterQueue", served, until))}
        local: dict[str, list[LocalQueueStatus]] = {}
        for each in map(local_queue_status, _all(api, "LocalQueue", served, until)):
            local.setdefault(each.cluster_queue, []).append(each)
        by_queue = {name: tuple(sorted(found, key=_place)) for name, found in local.items()}
        return QueueReading(now, queues, by_queue, reason="")


def _place(queue: LocalQueueStatus) -> tuple[str, str]:
    return queue.namespace, queue.name


def _all(api: Api, kind: str, served: tuple[str, ...], until: float) -> Iterator[Object]:
    access = ACCESS[kind]
    version = next((version for version in access.versions if version in served), "")
    if not version:
        raise ApiError(f"{access.product} is not installed")
    for value in api.items(Resource(access.group, version, access.resource)):
        if time.monotonic() > until:
            raise ApiError(f"list {access.name}: took longer than {LONGEST_SECONDS:.0f} s; the API server is slow")
        yield value


def queue_status(value: Object) -> QueueStatus:
    """What a ClusterQueue says of itself."""
    used: dict[FlavorResource, int] = {}
    borrowed: dict[FlavorResource, int] = {}
    for flavor in map(mapping, sequence(at(value, ("status", "flavorsReservation")))):
        for resource in map(mapping, sequence(flavor.get("resources"))):
            key = string(flavor.get("name")), string(resource.get("name"))
            used[key] = amount(resource.get("total"))
            borrowed[key] = amount(resource.get("borrowed", 0))
    name = string(metadata(value).get("name"))
    return QueueStatus(name, used, borrowed, _pending(value), _inactive(value))


def local_queue_status(value: Object) -> LocalQueueStatus:
    own = metadata(value)
    target = string(at(value, ("spec", "clusterQueue")))
    return LocalQueueStatus(string(own.get("namespace")), string(own.get("name")), target, _pending(value))


def _pending(value: Object) -> int | None:
    found = at(value, ("status", "pendingWorkloads"))
    return found if isinstance(found, int) else None


def _inactive(value: Object) -> str:
    for entry in map(mapping, sequence(at(value, ("status", "conditions")))):
        if entry.get("type") == "Active":
            why = string(entry.get("message")) or string(entry.get("reason")) or "it is not Active"
            return "" if entry.get("status") == "True" else why
    return "no Kueue controller has looked at it"
