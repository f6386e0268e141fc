"""Who waits before whom: a StrictFIFO ClusterQueue lets nobody pass the one at its head."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from webhook.kube.objects import Object, at, metadata, string
from webhook.live.pods import holds
from webhook.live.verify.world import World


class Line:
    def __init__(self, world: World) -> None:
        self._world = world

    def before(self, workload: str, cluster_queue: str) -> bool:
        """Whether an older Workload, or one of a higher priority, waits before this one. Those of one second count as
        older by their names, since Kueue takes them in any order."""
        waiting = self._waiting.get(cluster_queue, []) if self._is_strict(cluster_queue) else []
        return bool(waiting) and waiting[0][2] != workload

    def others(self, cluster_queue: str) -> bool:
        """Whether Workloads wait there, in order, that are not seen from this namespace."""
        if not self._is_strict(cluster_queue):
            return False
        pending = at(self._world.cluster_queues.get(cluster_queue), ("status", "pendingWorkloads"))
        return isinstance(pending, int) and pending > len(self._waiting.get(cluster_queue, []))

    def _is_strict(self, cluster_queue: str) -> bool:
        value = self._world.cluster_queues.get(cluster_queue)
        return bool(at(value, ("spec", "queueingStrategy")) == "StrictFIFO")

    @cached_property
    def _waiting(self) -> dict[str, list[tuple[int, str, str]]]:
        """By ClusterQueue: priority (negative), time and name of each, the first one first."""
        found: dict[str, list[tuple[int, str, str]]] = {}
        for queue, workload in self._pending():
            priority, own = at(workload, ("spec", "priority")), metadata(workload)
            order = -priority if isinstance(priority, int) else 0
            found.setdefault(queue, []).append((order, string(own.get("creationTimestamp")), string(own.get("name"))))
        return {queue: sorted(each) for queue, each in found.items()}

    def _pending(self) -> Iterator[tuple[str, Object]]:
        world = self._world
        for workload in world.workloads:
            off = at(workload, ("spec", "active")) is False
            if not off and not holds(workload, "Finished") and not holds(workload, "QuotaReserved"):
                local = world.local_queue(string(at(workload, ("spec", "queueName"))))
                if at(local, ("spec", "stopPolicy")) not in (None, "None"):
                    continue
                yield string(at(local, ("spec", "clusterQueue"))), workload
