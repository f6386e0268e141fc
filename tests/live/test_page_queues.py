"""Reading the status of queues: what is taken from an object, and what is said when it cannot be read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api_server import KUEUE, Answering, ApiServer
from tests.quota_objects import GPU, Object, queue
from tests.serving import until
from webhook.kube.quantity import NANO
from webhook.live.page.queues import (
    LocalQueueStatus,
    NoQueues,
    QueueReader,
    QueueReading,
    QueueStatus,
    local_queue_status,
    queue_status,
)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer().running() as server:
        yield server


def used(name: str, total: object, borrowed: object, pending: object = 0, active: Object | None = None) -> Object:
    amounts = {"name": GPU, "total": total, "borrowed": borrowed}
    return {
        **queue(name, {"a100": 5}),
        "status": {
            "flavorsReservation": [{"name": "a100", "resources": [amounts]}],
            "pendingWorkloads": pending,
            "conditions": [{"type": "Active", "status": "True"} if active is None else {"type": "Active", **active}],
        },
    }


def local(name: str, to: str, pending: int = 0) -> Object:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": "serving"},
        "spec": {"clusterQueue": to},
        "status": {"pendingWorkloads": pending},
    }


def test_what_a_queue_says() -> None:
    key = ("a100", GPU)
    assert queue_status(used("q", "7", "2", 3)) == QueueStatus("q", {key: 7 * NANO}, {key: 2 * NANO}, 3, "")


def test_a_queue_that_no_controller_has_seen() -> None:
    assert queue_status(queue("q", {"a100": 5})) == QueueStatus(
        "q", {}, {}, None, "no Kueue controller has looked at it"
    )


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ({"status": "False", "message": "no such flavor", "reason": "FlavorNotFound"}, "no such flavor"),
        ({"status": "False", "reason": "FlavorNotFound"}, "FlavorNotFound"),
        ({"status": "Unknown"}, "it is not Active"),
    ],
)
def test_why_a_queue_admits_nothing(condition: Object, why: str) -> None:
    assert queue_status(used("q", 0, 0, active=condition)).inactive == why


@pytest.mark.parametrize("status", [None, [], {"flavorsReservation": [None, {"resources": 7}]}, {"conditions": [[]]}])
def test_a_damaged_status_says_nothing(status: object) -> None:
    found = queue_status({**queue("q", {"a100": 5}), "status": status})
    assert (found.used.get(("a100", GPU)), found.pending) == (None, None)


def test_what_a_local_queue_says() -> None:
    assert local_queue_status(local("lq", "q", 2)) == LocalQueueStatus("serving", "lq", "q", 2)


def read(reader: QueueReader, done: Callable[[QueueReading], bool]) -> QueueReading:
    """What it has read once that is enough; it runs until then."""
    run_until(reader, lambda: done(reader.reading))
    return reader.reading


def run_until(reader: QueueReader, happened: Callable[[], bool]) -> None:
    async def run() -> None:
        task = asyncio.create_task(reader.run())
        await asyncio.to_thread(until, happened)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(run())


def test_all_queues_in_pages(server: ApiServer, tmp_path: Path) -> None:
    for index in range(1100):
        server.put(used(f"q{index:04}", "1", "0"))
    server.put(local("b", "q0000"))
    server.put(local("a", "q0000", 4))
    reader = QueueReader(server.kubeconfig(tmp_path), clock=lambda: 77.0)
    assert reader.reading == QueueReading(None, {}, {}, "not read yet")
    found = read(reader, lambda reading: reading.at is not None)
    assert (found.at, len(found.queues), found.reason) == (77.0, 1100, "")
    assert [(each.name, each.pending) for each in found.local["q0000"]] == [("a", 4), ("b", 0)]
    assert len(server.asked("list", "clusterqueues")) > 2


def test_kueue_is_not_there(server: ApiServer, tmp_path: Path) -> None:
    server.served[KUEUE] = ()
    found = read(QueueReader(server.kubeconfig(tmp_path)), lambda reading: reading.reason != "not read yet")
    assert found == QueueReading(None, {}, {}, "Kueue is not installed")


def test_an_older_kueue(server: ApiServer, tmp_path: Path) -> None:
    server.served[KUEUE] = ("v1beta1",)
    server.put(used("q", "1", "0"))
    found = read(QueueReader(server.kubeconfig(tmp_path)), lambda reading: reading.at is not None)
    assert list(found.queues) == ["q"]


def test_what_was_read_stays_with_its_time_and_the_reason(server: ApiServer, tmp_path: Path) -> None:
    server.put(used("q", "1", "0"))
    reader = QueueReader(server.kubeconfig(tmp_path), clock=lambda: 5.0, every=0.05)
    read(reader, lambda reading: reading.at is not None)
    server.forbidden.add(("list", "localqueues"))
    found = read(reader, lambda reading: bool(reading.reason))
    assert (found.at, list(found.queues)) == (5.0, ["q"])
    assert found.reason == "not allowed to list localqueues.kueue.x-k8s.io; ask for that right"
    server.forbidden.clear()
    assert read(reader, lambda reading: not reading.reason).at == 5.0


def test_no_api_server(tmp_path: Path) -> None:
    with ApiServer().running() as server:
        config = server.kubeconfig(tmp_path)
    found = read(QueueReader(config), lambda reading: reading.reason != "not read yet")
    assert found.at is None
    assert "the API server does not answer" in found.reason
    assert len(found.reason) <= 300


def test_no_kubeconfig(tmp_path: Path) -> None:
    found = read(QueueReader(tmp_path / "none"), lambda reading: reading.reason != "not read yet")
    assert "none" in found.reason


def test_the_end_waits_for_no_api_server(server: ApiServer, tmp_path: Path) -> None:
    server.faults["discover", KUEUE].append(Answering.hang)
    reader = QueueReader(server.kubeconfig(tmp_path))
    began = time.monotonic()
    run_until(reader, lambda: bool(server.asked("discover", KUEUE)))
    assert time.monotonic() - began < 5


def test_where_there_is_no_cluster() -> None:
    none = NoQueues("facts come from a folder of manifests, which has no status")
    asyncio.run(none.run())
    assert none.reading.at is None
    assert none.reading.reason.startswith("facts come from")
