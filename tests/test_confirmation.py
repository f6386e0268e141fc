"""ClusterSource.confirm: what is read past a watch that is too slow, or too fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.api_server import KUEUE, Answering, ApiServer, Fault
from tests.test_cluster_source import (
    QUICK,
    all_known,
    error_status,
    following,
    hung_up,
    local_queue,
    namespace,
    never_answered,
    run,
    silent,
    until,
)
from webhook.kube.claims import ClaimFact, Devices
from webhook.kube.facts import LocalQueueFact, NamespaceFact
from webhook.sources.access import ACCESS
from webhook.sources.cluster import ClusterSource

BOTH = frozenset({"Namespace", "LocalQueue"})


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer().running() as server:
        server.put(namespace("team"))
        server.put(namespace("other"))
        server.put(local_queue("a-lq"))
        yield server


@asynccontextmanager
async def deaf(api: ApiServer, directory: Path, kinds: frozenset[str] = BOTH) -> AsyncIterator[ClusterSource]:
    """A source whose watches never say anything; of namespaces and LocalQueues unless `kinds` are given."""
    for kind in kinds:
        api.faults["watch", ACCESS[kind].resource].extend([silent] * 50)
    async with following(api.kubeconfig(directory), kinds=sorted(kinds)) as source:
        await until(lambda: all_known(source) and len([each for each in api.requests if each.verb == "watch"]) >= 2)
        api.requests.clear()
        yield source


def test_what_the_watch_did_not_bring_is_read(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with deaf(api, tmp_path) as source:
            assert not await source.confirm(BOTH, "team")
            assert [(each.verb, each.path) for each in sorted(api.requests, key=lambda each: each.path)] == [
                ("get", "/api/v1/namespaces/team"),
                ("list", "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues"),
            ]
            api.put(namespace("team", managed="yes"))
            api.put(local_queue("b-lq"))
            assert await source.confirm(BOTH, "team")
            assert source.snapshot.namespace("team") == NamespaceFact("team", {"managed": "yes"})
            assert source.snapshot.local_queues("team") == ["a-lq", "b-lq"]

            api.put(local_queue("a-lq", "z-cq"))
            api.delete("LocalQueue", "team", "b-lq")
            assert await source.confirm(frozenset({"LocalQueue"}), "team")
            assert source.snapshot.local_queues("team") == ["a-lq"]
            assert source.snapshot.local_queue("team", "a-lq") == LocalQueueFact("team", "a-lq", "z-cq")

    run(test())


@pytest.mark.parametrize("kind", ["ResourceClaimTemplate", "ResourceClaim"])
def test_claims_are_confirmed(api: ApiServer, tmp_path: Path, kind: str) -> None:
    """They are often made in the same breath as the workload that needs them."""

    async def test() -> None:
        async with deaf(api, tmp_path, frozenset({"Namespace", kind})) as source:
            requests = [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
            claim = {"devices": {"requests": requests}}
            spec = {"spec": claim} if kind == "ResourceClaimTemplate" else claim
            metadata = {"name": "one-gpu", "namespace": "team"}
            api.put({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
            assert source.snapshot.claim(kind, "team", "one-gpu") is None
            assert await source.confirm(frozenset({kind}), "team")
            fact = ClaimFact("team", "one-gpu", ((Devices("gpu.nvidia.com"),),))
            assert source.snapshot.claim(kind, "team", "one-gpu") == fact
            assert not await source.confirm(frozenset({kind}), "team")

    run(test())


def test_a_namespace_that_is_gone_is_removed(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with deaf(api, tmp_path) as source:
            api.delete("Namespace", "", "team")
            api.delete("LocalQueue", "team", "a-lq")
            assert await source.confirm(BOTH, "team")
            assert source.snapshot.namespace("team") is None
            assert source.snapshot.local_queues("team") == []
            assert source.snapshot.namespace("other") is not None
            assert not await source.confirm(BOTH, "never-was")

    run(test())


def test_nothing_is_asked_for_what_cannot_be_confirmed(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        api.served[KUEUE] = ()
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: "not installed" in source.states()["LocalQueue"].detail)
            await until(lambda: source.states()["Namespace"].known)
            assert not await source.confirm(frozenset({"LocalQueue", "Deployment", "ClusterQueue"}), "team")
            assert not await source.confirm(BOTH, "")
            assert not [each for each in api.requests if each.verb == "get" or each.namespace]
        assert not await source.confirm(BOTH, "team")

    run(test())


def test_those_who_ask_together_share_one_answer(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with deaf(api, tmp_path) as source:
            api.put(local_queue("b-lq"))
            asking = [source.confirm(frozenset({"LocalQueue"}), "team") for _ in range(20)]
            assert await asyncio.gather(*asking) == [True] * 20
            assert len(api.requests) == 1
            await source.confirm(frozenset({"LocalQueue"}), "other")
            assert len(api.requests) == 2

    run(test())


def test_an_answer_is_never_older_than_the_question(api: ApiServer, tmp_path: Path) -> None:
    """Who asks while a read is under way gets the next one, which sees what was written in between."""

    async def test() -> None:
        async with deaf(api, tmp_path) as source:
            for number in range(10):
                first = asyncio.create_task(source.confirm(frozenset({"LocalQueue"}), "team"))
                await asyncio.sleep(0.001 * number)
                api.put(local_queue(f"new-{number}"))
                await source.confirm(frozenset({"LocalQueue"}), "team")
                assert f"new-{number}" in source.snapshot.local_queues("team")
                await first

    run(test())


FAILURES: dict[str, Fault] = {
    "500": error_status(500),
    "not allowed": error_status(403),
    "a 404 of somebody else": lambda to: to.send(404, b"<html>no such page</html>"),
    "hung up": hung_up,
    "no JSON": lambda to: to.send(200, b"<html>"),
}


@pytest.mark.parametrize("fault", FAILURES.values(), ids=FAILURES.keys())
def test_a_failure_changes_nothing(api: ApiServer, tmp_path: Path, fault: Fault) -> None:
    async def test() -> None:
        async with deaf(api, tmp_path) as source:
            api.put(namespace("team", managed="yes"))
            api.faults["get", "namespaces"].append(fault)
            assert not await source.confirm(frozenset({"Namespace"}), "team")
            assert source.snapshot.namespace("team") == NamespaceFact("team", {})
            assert source.states()["Namespace"].known

    run(test())


def test_it_takes_no_longer_than_it_may(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with deaf(api, tmp_path) as source:
            api.faults["get", "namespaces"].extend([never_answered] * 12)
            began = time.monotonic()
            asking = [source.confirm(frozenset({"Namespace"}), f"n{number}") for number in range(12)]
            assert not any(await asyncio.gather(*asking))
            assert time.monotonic() - began < QUICK.confirm + 0.3

    run(test())


def test_an_answer_that_the_watch_has_overtaken_is_asked_for_again(api: ApiServer, tmp_path: Path) -> None:
    """The watch would never put right what an older answer had undone."""

    async def test() -> None:
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            begun = asyncio.Event()
            loop = asyncio.get_running_loop()

            def late(to: Answering) -> None:
                """Answers with what was there before b-lq came."""
                before = dict(api.objects["localqueues"])
                api.put(local_queue("b-lq"))
                loop.call_soon_threadsafe(begun.set)
                time.sleep(0.2)
                now, api.objects["localqueues"] = api.objects["localqueues"], before
                api.list(to, "localqueues", to.asked.query, "team")
                api.objects["localqueues"] = now

            api.faults["list", "localqueues"].append(late)
            asking = asyncio.create_task(source.confirm(frozenset({"LocalQueue"}), "team"))
            await begun.wait()
            await until(lambda: source.snapshot.local_queues("team") == ["a-lq", "b-lq"])
            assert not asking.done()
            # b-lq is news to whoever asked, though the watch brought it and not the answer.
            assert await asking
            assert source.snapshot.local_queues("team") == ["a-lq", "b-lq"]
            assert len([each for each in api.asked("list", "localqueues") if each.namespace]) == 2

    run(test())


def test_a_confirmed_answer_outlives_older_events(api: ApiServer, tmp_path: Path) -> None:
    """The events that a watch still has to bring end where the answer came from."""

    async def test() -> None:
        async with deaf(api, tmp_path) as source:
            api.delete("LocalQueue", "team", "a-lq")
            api.put(local_queue("a-lq", "new-cq"))
            assert await source.confirm(frozenset({"LocalQueue"}), "team")
            api.faults["watch", "localqueues"].clear()
            api.put(local_queue("last"))
            await until(lambda: source.snapshot.local_queues("team") == ["a-lq", "last"])
            assert source.snapshot.local_queue("team", "a-lq") == LocalQueueFact("team", "a-lq", "new-cq")

    run(test())
