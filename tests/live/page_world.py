"""A board over a cluster of dictionaries, under clocks that are arguments."""

from __future__ import annotations

from collections.abc import Mapping

from tests.quota_objects import GPU, Object, apply, flavor, known, node, queue
from webhook.engine.policy import Policy
from webhook.kube.quantity import NANO
from webhook.kube.snapshot import Snapshot
from webhook.live.page.board import Board
from webhook.live.page.denials import Denials
from webhook.live.page.queues import LocalQueueStatus, QueueReading, QueueStatus
from webhook.live.page.state import Facts

NOW = 1_764_500_000.0


class Kept:
    """Queues as they were read."""

    def __init__(self, reading: QueueReading) -> None:
        self.reading = reading

    async def run(self) -> None:
        """Nothing is read again."""


class World:
    """Two floors of 5 in one flavor, and 10 GPUs on two nodes, at NOW."""

    def __init__(self, *objects: Object, snapshot: Snapshot | None = None) -> None:
        self.now = NOW
        self.ticks = 0.0
        self.age: float | None = 1.0
        self.trouble: dict[str, str] = {}
        self.snapshot = snapshot or known(*(objects or base()))
        self.queues = Kept(reading())
        self.denials = Denials(clock=lambda: self.now)
        self.board = Board(self.facts, self.queues, self.denials, lambda: self.now, lambda: self.ticks)

    def facts(self) -> Facts:
        return Facts(self.snapshot, Policy(), self.age, self.trouble)

    def passes(self, seconds: float) -> None:
        self.now += seconds
        self.ticks += seconds

    def change(self, *objects: Object) -> None:
        apply(self.snapshot, *objects)


def base() -> list[Object]:
    return [
        node("n1", 5, {"pool": "a"}),
        node("n2", 5, {"pool": "a"}),
        flavor("a100", pool="a"),
        queue("model-a-cq", {"a100": 5}, cohortName="llm"),
        queue("model-b-cq", {"a100": 5}, cohortName="llm"),
    ]


def status(name: str, used: int, borrowed: int = 0, pending: int | None = 0, inactive: str = "") -> QueueStatus:
    key = ("a100", GPU)
    return QueueStatus(name, {key: used * NANO}, {key: borrowed * NANO}, pending, inactive)


def reading(
    statuses: Mapping[str, QueueStatus] | None = None, at: float | None = NOW, reason: str = ""
) -> QueueReading:
    found = statuses or {
        "model-a-cq": status("model-a-cq", 7, 2),
        "model-b-cq": status("model-b-cq", 3, pending=1),
    }
    local = {
        f"model-{name}-cq": (LocalQueueStatus("serving", f"model-{name}-lq", f"model-{name}-cq", 0),) for name in "ab"
    }
    return QueueReading(at, found, local, reason)
