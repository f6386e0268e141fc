"""ClusterSource against an API server on loopback that shows every fault of the network and of a real one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api_server import DRA, KEDA, KUEUE, VOLCANO, Answering, ApiServer, Fault, Object, status
from tests.cases import TODAY, subject_of
from webhook.engine.evaluate import judge
from webhook.engine.policy import Policy
from webhook.engine.rule import Stage
from webhook.kube.facts import GROUPS, PROJECTIONS, LocalQueueFact, NamespaceFact
from webhook.kube.kueue_facts import KueueConfigurationFact
from webhook.kube.names import KUEUE_CONFIG_KEY, KUEUE_CONFIG_MAP, QUEUE_LABEL
from webhook.kube.snapshot import FactsMissing
from webhook.kube.unqueued_pods import UnqueuedPodFact
from webhook.kube.workload_facts import ADMITTED
from webhook.rules import NEEDS, RULES
from webhook.sources.access import ACCESS
from webhook.sources.cluster import ClusterSource
from webhook.sources.source import SourceError
from webhook.sources.timing import Timing

QUICK = Timing(
    connect=0.5,
    silence=0.5,
    watch=20,
    brief=0.05,
    retry=0.02,
    retry_most=0.2,
    refused=0.0,
    renewal=0.2,
    confirm=0.5,
)
"""As in production, some two hundred times faster; bookmarks come every 0.2 s here."""

PATIENCE = 20.0
KUEUE_KINDS = tuple(kind for kind, row in ACCESS.items() if row.group == KUEUE)
DISCOVERED = tuple(kind for kind, row in ACCESS.items() if row.optional)


def namespace(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def local_queue(name: str, cluster_queue: str = "a-cq") -> Object:
    return {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"clusterQueue": cluster_queue},
    }


def deployment(name: str, replicas: int = 1, padding: str = "") -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team", "annotations": {"padding": padding}},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": {QUEUE_LABEL: "a-lq"}}, "spec": {}}},
    }


OF_DEPLOYMENT: Object = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "controller": True}


def pod(name: str, *owners: Object) -> Object:
    """In a queue. One with an owner carries what the ReplicaSet of a Deployment puts on its pods."""
    labels = {QUEUE_LABEL: "a-lq", **({"pod-template-hash": "x"} if owners else {})}
    metadata = {"name": name, "namespace": "team", "labels": labels, "ownerReferences": list(owners)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def gpu_pod(name: str, phase: str = "Running", **labels: str) -> Object:
    limits = {"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "labels": labels},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main", "resources": limits}]},
        "status": {"phase": phase},
    }


CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


NO_OBJECT = "cannot be read: line 1: is a list, not an object; a manifest begins with apiVersion and kind"


def kueue_configuration(text: str, namespace: str = "kueue-system") -> Object:
    metadata = {"name": KUEUE_CONFIG_MAP, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KUEUE_CONFIG_KEY: text}}


def volcano_queue(name: str) -> Object:
    spec = {"guarantee": {"resource": {"nvidia.com/gpu": "4"}}}
    return {"apiVersion": f"{VOLCANO}/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def scaled_object(name: str) -> Object:
    spec = {"scaleTargetRef": {"name": "model-a"}, "maxReplicaCount": 4}
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": f"{KEDA}/v1alpha1", "kind": "ScaledObject", "metadata": metadata, "spec": spec}


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer().running() as server:
        server.put(namespace("team", team="a"))
        server.put(local_queue("a-lq"))
        yield server


@asynccontextmanager
async def following(
    kubeconfig: Path, timing: Timing = QUICK, kinds: Collection[str] = tuple(PROJECTIONS)
) -> AsyncIterator[ClusterSource]:
    source = ClusterSource(kubeconfig, kinds, timing=timing)
    await source.start()
    try:
        yield source
    finally:
        began = time.monotonic()
        await source.stop()
        assert time.monotonic() - began < PATIENCE / 4
        assert not [each.name for each in threading.enumerate() if each.name.startswith("watch-")]


async def until(what: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """What is not known for a moment has not happened yet."""
    end = time.monotonic() + seconds
    while True:
        with suppress(FactsMissing):
            if what():
                return
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.01)


def all_known(source: ClusterSource) -> bool:
    return all(state.known for state in source.states().values())


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 3 * PATIENCE))


def present(source: ClusterSource, *namespaces: str) -> list[str]:
    """Which of these namespaces are in the snapshot."""
    return [name for name in namespaces if source.snapshot.namespace(name) is not None]


# What is kept


def test_every_kind_is_listed_and_then_watched_from_there(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        api.put(deployment("model-a"))
        api.put(pod("bare"))
        api.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "unlabelled", "namespace": "team"}})
        api.put(pod("child", OF_DEPLOYMENT))
        async with following(api.kubeconfig(tmp_path)) as source:
            assert source.snapshot.unknown() == dict.fromkeys(PROJECTIONS, "not read yet")
            await until(lambda: all_known(source))
            await until(lambda: len(api.requests) >= 2 * len(PROJECTIONS) + len(DISCOVERED))
            await asyncio.sleep(0.3)
            states = source.states()
            assert [state for state in states.values() if state.detail or not state.required] == []
            assert max(state.age_seconds for state in states.values()) < 0.3
            assert source.snapshot.namespace("team") == NamespaceFact("team", {"team": "a"})
            assert source.snapshot.local_queue("team", "a-lq") == LocalQueueFact("team", "a-lq", "a-cq")
            assert source.snapshot.workloads("team", "Deployment", "StatefulSet", "Pod") == [
                PROJECTIONS["Deployment"](deployment("model-a")),
                PROJECTIONS["Pod"](pod("bare")),
            ]
        version = str(api.version)
        asked = {
            (each.verb, each.path, each.headers["Accept"]): {
                key: text for key, text in each.query.items() if key != "timeoutSeconds"
            }
            for each in api.requests
        }
        kueue = (
            "localqueues",
            "clusterqueues",
            "cohorts",
            "resourceflavors",
            "admissionchecks",
            "workloadpriorityclasses",
        )
        core = ("namespaces", "nodes", "resourcequotas", "limitranges")
        unfinished = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
        whole: dict[str, dict[str, str]] = {
            **{f"/api/v1/{name}": {} for name in core},
            **{f"/apis/{KUEUE}/v1beta2/{name}": {} for name in kueue},
            "/apis/apps/v1/deployments": {},
            "/apis/apps/v1/statefulsets": {},
            "/apis/autoscaling/v2/horizontalpodautoscalers": {},
            "/apis/node.k8s.io/v1/runtimeclasses": {},
            f"/apis/{KEDA}/v1alpha1/scaledobjects": {},
            f"/apis/{VOLCANO}/v1beta1/queues": {},
            **{f"/apis/{DRA}/v1/{name}": {} for name in ("resourceclaimtemplates", "resourceclaims", "deviceclasses")},
            **{
                f"/apis/{row.group}/{row.versions[0]}/{row.resource}": {"labelSelector": QUEUE_LABEL}
                for row in ADMITTED
            },
            "/api/v1/configmaps": {"fieldSelector": f"metadata.name={KUEUE_CONFIG_MAP}"},
            "/api/v1/pods": {"labelSelector": f"!{QUEUE_LABEL}", **unfinished},
        }
        groups = {KUEUE, KEDA, VOLCANO, DRA} | {row.group for row in ADMITTED} - {"batch"}
        page = {"limit": "500"}
        watch = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        queued = {"labelSelector": QUEUE_LABEL, **unfinished}
        metadata = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
        assert asked == {
            **{("discover", f"/apis/{group}", "application/json"): {} for group in groups},
            **{("list", path, "application/json"): page | selectors for path, selectors in whole.items()},
            **{("watch", path, "application/json"): watch | selectors for path, selectors in whole.items()},
            ("list", "/api/v1/pods", metadata.format("List")): page | queued,
            ("watch", "/api/v1/pods", metadata.format("")): watch | queued,
        }
        assert all(15 <= int(each.query["timeoutSeconds"]) <= 20 for each in api.requests if each.verb == "watch")

    run(test())


def test_events_become_facts(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            api.put(local_queue("b-lq", "b-cq"))
            await until(lambda: source.snapshot.local_queues("team") == ["a-lq", "b-lq"])
            api.put(local_queue("a-lq", "c-cq"))
            await until(lambda: source.snapshot.local_queue("team", "a-lq") == LocalQueueFact("team", "a-lq", "c-cq"))
            api.delete("LocalQueue", "team", "a-lq")
            await until(lambda: source.snapshot.local_queues("team") == ["b-lq"])
            api.put(pod("adopted"))
            await until(lambda: source.snapshot.workloads("team", "Pod"))
            api.put(pod("adopted", OF_DEPLOYMENT))
            await until(lambda: not source.snapshot.workloads("team", "Pod"))
            assert [len(api.asked("list", resource)) for resource in ("pods", "localqueues")] == [2, 1]

    run(test())


def test_pods_come_and_go_by_their_label_and_their_phase(api: ApiServer, tmp_path: Path) -> None:
    """A watch by selectors calls what it no longer selects deleted."""

    async def test() -> None:
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))

            def seen() -> tuple[list[str], list[object]]:
                queued = [fact.name for fact in source.snapshot.workloads("team", "Pod")]
                return queued, list(source.snapshot.facts("UnqueuedPod"))

            unqueued = [UnqueuedPodFact("team", "bare", "gpu-1", {"nvidia.com/gpu": 2 * 10**9})]
            api.put(gpu_pod("bare", **{QUEUE_LABEL: "a-lq"}))
            await until(lambda: seen() == (["bare"], []))
            api.put(gpu_pod("bare"))
            await until(lambda: seen() == ([], unqueued))
            api.put(gpu_pod("bare", **{QUEUE_LABEL: "a-lq"}))
            await until(lambda: seen() == (["bare"], []))
            api.put(gpu_pod("bare", "Succeeded", **{QUEUE_LABEL: "a-lq"}))
            await until(lambda: seen() == ([], []))
            api.put(gpu_pod("batch"))
            await until(lambda: len(seen()[1]) == 1)
            api.put(gpu_pod("batch", "Failed"))
            await until(lambda: seen() == ([], []))

    run(test())


def test_the_configuration_of_kueue_is_parsed(api: ApiServer, tmp_path: Path) -> None:
    """A ConfigMap of that name elsewhere, or a broken one, does not stop the watch."""

    async def test() -> None:
        api.put(kueue_configuration("[a]", "team"))
        api.put(kueue_configuration(CONFIGURATION))
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            assert has_problem(source, "")
            for text, problem in (("[a]", NO_OBJECT), (CONFIGURATION, ""), ("[b]", NO_OBJECT)):
                api.put(kueue_configuration(text, "team"))
                api.put(kueue_configuration(text))
                await until(partial(has_problem, source, problem))
            api.delete("ConfigMap", "kueue-system", KUEUE_CONFIG_MAP)
            await until(lambda: configurations(source) == [])
            with pytest.raises(FactsMissing, match="kueue-manager-config not found"):
                source.snapshot.kueue_configuration()
            assert len(api.asked("list", "configmaps")) == 1

    run(test())


def has_problem(source: ClusterSource, problem: str) -> bool:
    return [fact.problem for fact in configurations(source)] == [problem]


def configurations(source: ClusterSource) -> list[KueueConfigurationFact]:
    return [fact for fact in source.snapshot.facts("ConfigMap") if isinstance(fact, KueueConfigurationFact)]


def test_a_heartbeat_changes_no_fact(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            before = source.snapshot.local_queue("team", "a-lq")
            api.put({**local_queue("a-lq"), "status": {"pendingWorkloads": 3}})
            api.put(local_queue("z-lq"))
            await until(lambda: source.snapshot.local_queue("team", "z-lq"))
            assert source.snapshot.local_queue("team", "a-lq") is before

    run(test())


def test_long_lists_come_in_pages(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        for number in range(1200):
            api.put(namespace(f"n{number:04}"))
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            numbered = [f"n{number:04}" for number in range(1200)]
            assert present(source, *numbered, "team") == [*numbered, "team"]
            tokens = [each.query.get("continue") for each in api.asked("list", "namespaces")]
            assert tokens == [None, f"500 {api.version}", f"1000 {api.version}"]

    run(test())


def test_memory_does_not_grow_with_the_objects(api: ApiServer, tmp_path: Path) -> None:
    """3,000 Deployments in 6 pages, each of 2 MB as text and some 40 MB as Python objects."""
    value = deployment("NAME")
    value["spec"]["template"]["spec"] = {"env": [{"name": str(number), "value": "x" * 30} for number in range(60)]}
    page = b",".join(json.dumps(value).encode().replace(b"NAME", b"d%d" % number) for number in range(500))
    head = f'"metadata":{{"resourceVersion":"{api.version}","continue":"CONTINUE"}}'.encode()

    def nth(number: int) -> Fault:
        def fault(to: Answering) -> None:
            items = page.replace(b'"name": "d', b'"name": "p%d-' % number)
            more = b"" if number == 5 else b"more"
            to.send(200, b"{" + head.replace(b"CONTINUE", more) + b',"items":[' + items + b"]}")

        return fault

    async def test() -> None:
        api.faults["list", "deployments"].extend(nth(number) for number in range(6))
        tracemalloc.start()
        try:
            async with following(api.kubeconfig(tmp_path), Timing()) as source:
                await until(lambda: source.states()["Deployment"].known, 15)
                kept, peak = tracemalloc.get_traced_memory()
                assert len(source.snapshot.workloads("team", "Deployment")) == 3000
        finally:
            tracemalloc.stop()
        assert peak < 100e6
        assert kept < 5e6

    run(test())


# What goes wrong


def error_event(code: int) -> Fault:
    def fault(to: Answering) -> None:
        to.begin()
        to.event("ERROR", status(code, "Expired", "too old resource version"))
        to.end()

    return fault


def error_status(code: int, **headers: str) -> Fault:
    return lambda to: to.status(code, "SomeReason", "no more of this", **headers)


def silent(to: Answering) -> None:
    to.begin()
    to.hang()


def never_answered(to: Answering) -> None:
    to.hang()


def cut_in_the_middle(to: Answering) -> None:
    to.begin()
    to.say(b'{"type":"ADDED","object":{"metadata":{"name":"ha')
    to.cut()


def ended_in_the_middle(to: Answering) -> None:
    to.begin()
    to.say(b'{"type":"ADDED","object":{"metadata":{"name":"ha')
    to.end()


def saying(line: bytes) -> Fault:
    def fault(to: Answering) -> None:
        to.begin()
        to.event("ADDED", {"metadata": {"name": "early", "resourceVersion": to.asked.query["resourceVersion"]}})
        to.say(line + b"\n")
        to.hang()

    return fault


def ended_at_once(to: Answering) -> None:
    to.begin()
    to.end()


def hung_up(to: Answering) -> None:
    to.cut()


BROKEN_WATCHES = {
    "410 as an event": error_event(410),
    "410 as a status": error_status(410),
    "500 as an event": error_event(500),
    "500 as a status": error_status(500),
    "too many requests": error_status(429, Retry_After="0"),
    "not authenticated for a moment": error_status(401),
    "not allowed for a moment": error_status(403),
    "not there for a moment": error_status(404),
    "silence for ever": silent,
    "no answer": never_answered,
    "cut in the middle of an event": cut_in_the_middle,
    "ended in the middle of an event": ended_in_the_middle,
    "a line that is no JSON": saying(b"<html>"),
    "a line that is no event": saying(b"[1]"),
    "an unknown type": saying(b'{"type":"CLOSED","object":{}}'),
    "an object without metadata": saying(b'{"type":"ADDED","object":{}}'),
    "a bookmark without a version": saying(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}'),
    "an event without a code": saying(b'{"type":"ERROR","object":null}'),
    "ended at once": ended_at_once,
    "hung up": hung_up,
    "a redirect": lambda to: to.send(302, b"", Location="/elsewhere"),
}


def assert_watches_began_somewhere(api: ApiServer, resource: str) -> None:
    versions = [each.query.get("resourceVersion", "") for each in api.asked("watch", resource)]
    assert all(version.isdecimal() and int(version) > 0 for version in versions)


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("fault", BROKEN_WATCHES.values(), ids=BROKEN_WATCHES.keys())
def test_a_broken_watch_is_mended(api: ApiServer, tmp_path: Path, fault: Fault, times: int) -> None:
    """Whatever breaks it, and however often: later changes arrive, what was deleted meanwhile vanishes."""

    async def test() -> None:
        api.put(local_queue("doomed"))
        api.faults["watch", "localqueues"].extend([fault] * times)
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: source.states()["LocalQueue"].known)
            api.delete("LocalQueue", "team", "doomed")
            api.put(local_queue("late"))
            await until(lambda: set(source.snapshot.local_queues("team")) == {"a-lq", "late"})
            await until(lambda: source.states()["LocalQueue"].detail == "")
            assert source.states()["LocalQueue"].known
        assert_watches_began_somewhere(api, "localqueues")

    run(test())


def test_expired_watches_list_again_and_replace(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        api.put(namespace("doomed"))
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            assert present(source, "doomed", "team") == ["doomed", "team"]
            # Nobody hears of the deletion: the event is gone before the watch comes back.
            with api.changed:
                del api.objects["namespaces"]["", "doomed"]
                api.compact()
            await until(lambda: present(source, "doomed", "team") == ["team"])
            await until(lambda: len(api.asked("watch", "namespaces")) == 3)
            assert len(api.asked("list", "namespaces")) == 2

    run(test())


def test_an_expired_continue_token_starts_the_list_again(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        for number in range(700):
            api.put(namespace(f"n{number}"))

        def first_page(to: Answering) -> None:
            api.faults["list", "namespaces"].append(error_status(410))
            api.list(to, "namespaces", {"limit": "500"}, "")

        api.faults["list", "namespaces"].append(first_page)
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: source.states()["Namespace"].known)
            assert len(present(source, "team", *(f"n{number}" for number in range(700)))) == 701
        tokens = [bool(each.query.get("continue")) for each in api.asked("list", "namespaces")]
        assert tokens == [False, True, False, True]

    run(test())


BROKEN_LISTS = {
    "500": error_status(500),
    "no answer": never_answered,
    "hung up": hung_up,
    "HTML": lambda to: to.send(200, b"<html>"),
    "no list": lambda to: to.send(200, {"kind": "Status"}),
    "no version": lambda to: to.send(200, {"kind": "NamespaceList", "metadata": {}, "items": []}),
    "version 0": lambda to: to.send(200, {"metadata": {"resourceVersion": "0"}, "items": []}),
    "items that are none": lambda to: to.send(200, {"metadata": {"resourceVersion": "9"}, "items": [None]}),
}


@pytest.mark.parametrize("fault", BROKEN_LISTS.values(), ids=BROKEN_LISTS.keys())
def test_a_broken_list_is_asked_for_again(api: ApiServer, tmp_path: Path, fault: Fault) -> None:
    async def test() -> None:
        api.faults["list", "namespaces"].append(fault)
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            assert present(source, "team") == ["team"]
            await until(lambda: api.asked("watch", "namespaces"))
        assert_watches_began_somewhere(api, "namespaces")

    run(test())


def test_no_items_is_an_empty_list(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        api.faults["list", "namespaces"].append(
            lambda to: to.send(200, {"metadata": {"resourceVersion": str(api.version)}, "items": None})
        )
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            assert present(source, "team") == []

    run(test())


def test_silence_is_noticed_and_said(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        api.faults["watch", "namespaces"].append(silent)
        api.faults["watch", "namespaces"].extend([never_answered] * 3)
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            await until(lambda: source.states()["Namespace"].detail)
            state = source.states()["Namespace"]
            assert state.known
            assert state.required
            assert state.detail == "watch namespaces: silent for 0.5 s"
            assert state.age_seconds > 0.4
            assert source.states()["LocalQueue"].age_seconds < 0.4
            await until(lambda: source.states()["Namespace"].detail == "")
            assert source.states()["Namespace"].age_seconds < 0.4

    run(test())


def test_a_quiet_kind_is_shown_current_by_one_watch_after_another(api: ApiServer, tmp_path: Path) -> None:
    """The API server sends no bookmarks for a kind in which nothing happens."""

    async def test() -> None:
        api.bookmark_seconds = 60
        timing = Timing(watch=1, silence=2, brief=0.05)
        async with following(api.kubeconfig(tmp_path), timing) as source:
            await until(lambda: all_known(source))
            oldest = 0.0
            for _ in range(100):
                await asyncio.sleep(0.03)
                states = source.states().values()
                oldest = max([oldest, *(state.age_seconds for state in states)])
                assert not [state for state in states if state.detail]
            assert 0.5 < oldest < 1.5
            assert len(api.asked("list", "namespaces")) == 1

    run(test())


def test_a_slow_list_is_waited_for(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        def slowly(to: Answering) -> None:
            body = json.dumps({"metadata": {"resourceVersion": str(api.version)}, "items": []}).encode()
            to.begin()
            for position in range(0, len(body), 10):
                time.sleep(0.2)
                to.say(body[position : position + 10])
            to.end()

        api.faults["list", "resourcequotas"].append(slowly)
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all_known(source))
            assert len(api.asked("list", "resourcequotas")) == 1

    run(test())


def test_an_outage_keeps_the_facts_and_shows_their_age(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        with ApiServer().running() as other:
            other.put(namespace("team"))
            kubeconfig = other.kubeconfig(tmp_path)
            source = ClusterSource(kubeconfig, timing=QUICK)
            await source.start()
            await until(lambda: all_known(source))
        await until(lambda: source.states()["Namespace"].age_seconds > 1)
        state = source.states()["Namespace"]
        assert state.known
        assert "Connection refused" in state.detail
        assert present(source, "team") == ["team"]
        other.objects["namespaces"].clear()
        other.put(namespace("new"))
        with other.running():
            await until(lambda: present(source, "new", "team") == ["new"])
            await until(lambda: not any(each.detail for each in source.states().values()))
            await source.stop()

    run(test())


def test_failures_are_spaced_out(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        api.faults["watch", "namespaces"].extend([ended_at_once] * 1000)
        timing = Timing(retry=0.1, retry_most=0.4)
        async with following(api.kubeconfig(tmp_path), timing) as source:
            began = time.monotonic()
            await until(lambda: len(api.asked("watch", "namespaces")) >= 6)
            # The shortest waits there can be: 0.05, 0.1, 0.2, 0.2 and 0.2 s.
            assert time.monotonic() - began >= 0.7
            said = "watch namespaces: it ended at once, with nothing said"
            await until(lambda: source.states()["Namespace"].detail == said)

    run(test())


# What the cluster does not have, or does not let us have


def test_a_kind_that_may_not_be_read_is_unknown_and_the_others_go_on(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        api.forbidden |= {("list", "resourcequotas"), ("watch", "statefulsets"), ("discover", KUEUE)}
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: source.states()["Deployment"].known and source.states()["Namespace"].known)
            await until(lambda: "watch" in source.states()["StatefulSet"].detail)
            refused = {
                "ResourceQuota": "not allowed: list resourcequotas; grant it in the ClusterRole",
                "StatefulSet": "not allowed: watch statefulsets.apps; grant it in the ClusterRole",
                **dict.fromkeys(KUEUE_KINDS, f"not allowed: get /apis/{KUEUE}; grant it in the ClusterRole"),
            }

            def unknown() -> dict[str, str]:
                return {kind: each.detail for kind, each in source.states().items() if not each.known}

            # What may be listed, and not watched, is known for a moment after each list.
            await until(lambda: unknown() == source.snapshot.unknown() == refused)
            state = source.states()
            assert not any(each.required for each in state.values() if not each.known)
            api.put(namespace("new"))
            await until(lambda: present(source, "new", "team") == ["new", "team"])
            api.forbidden.clear()
            await until(lambda: all_known(source))
            assert all(each.required for each in source.states().values())

    run(test())


def test_a_starting_api_server_that_refuses_everybody_costs_no_facts(api: ApiServer, tmp_path: Path) -> None:
    """For a moment it knows no roles: what was read before stays, with its age, until the refusal lasts."""

    async def test() -> None:
        timing = Timing(watch=1, retry=0.02, retry_most=0.1, refused=60, silence=0.5, connect=0.5)
        async with following(api.kubeconfig(tmp_path), timing) as source:
            await until(lambda: all_known(source))
            api.faults["watch", "namespaces"].extend([hung_up] * 10 + [error_status(403)] * 5)
            await until(lambda: not api.faults["watch", "namespaces"])
            assert all_known(source)
            await until(lambda: not source.states()["Namespace"].detail)

    run(test())


def test_without_nodes_floors_are_not_judged_and_the_rest_is(api: ApiServer, tmp_path: Path) -> None:
    raised: Object = {
        "apiVersion": f"{KUEUE}/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "a-cq"},
        "spec": {
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [
                        {"name": "gpus", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 5}]},
                    ],
                }
            ]
        },
    }
    quota: Object = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "5"}},
    }

    async def test() -> None:
        api.put(namespace("team", **{"floorkeeper.io/managed": "true"}))
        api.put({"apiVersion": f"{KUEUE}/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "gpus"}, "spec": {}})
        api.forbidden |= {("list", "nodes")}
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: source.snapshot.unknown().keys() == {"Node"} and source.states()["Node"].detail)
            assert not source.states()["Node"].required
            refused = "not allowed: list nodes; grant it in the ClusterRole"
            policy, rules = (
                Policy(),
                [rule for rule in RULES if rule.id in ("floors-exceed-capacity", "gpu-resource-quota")],
            )
            found = [
                judge(rules, Stage.VALIDATE, subject_of(value, policy), source.snapshot, policy, TODAY)
                for value in (raised, quota)
            ]
            assert [[entry.message for entry in verdict.not_evaluated] for verdict in found] == [
                [f"not evaluated: Node: {refused} [floors-exceed-capacity]"],
                [],
            ]
            assert [[finding.rule for finding in verdict.findings] for verdict in found] == [
                [],
                ["gpu-resource-quota"],
            ]

    run(test())


@pytest.mark.parametrize(
    ("group", "kind", "value"), [(KEDA, "ScaledObject", scaled_object("a")), (VOLCANO, "Queue", volcano_queue("a"))]
)
def test_what_is_not_installed_has_no_objects(
    api: ApiServer, tmp_path: Path, group: str, kind: str, value: Object
) -> None:
    """That is known, and nobody waits for it; whether it was installed meanwhile is asked again and again."""

    async def test() -> None:
        served = api.served.pop(group)
        api.served[group] = ()
        api.put(value)
        async with following(api.kubeconfig(tmp_path)) as source:

            def seen() -> tuple[int, str]:
                assert source.states()[kind].known
                return len(list(source.snapshot.facts(kind))), source.states()[kind].detail

            await until(lambda: all_known(source))
            assert seen() == (0, "")
            await until(lambda: len(api.asked("discover", group)) > 3)
            assert source.states()[kind].age_seconds < 0.5
            # Its group is there before its CustomResourceDefinition is.
            api.absent.add(ACCESS[kind].resource)
            api.served[group] = served
            await until(lambda: len(api.asked("list", ACCESS[kind].resource)) > 1)
            assert seen() == (0, "")
            api.absent.clear()
            await until(lambda: seen() == (1, ""))
            await until(lambda: api.asked("watch", ACCESS[kind].resource))

            api.served[group] = ()
            api.end_watches()
            await until(lambda: seen() == (0, ""))
            api.served[group] = served
            await until(lambda: seen() == (1, ""))

    run(test())


def test_a_version_that_we_cannot_read_is_not_nothing(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        api.served[KEDA] = ("v2",)
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: source.states()["ScaledObject"].detail == "KEDA does not serve v1alpha1")
            await until(lambda: source.snapshot.unknown() == {"ScaledObject": "KEDA does not serve v1alpha1"})
            assert not source.states()["ScaledObject"].required
            api.served[KEDA] = ("v1alpha1", "v2")
            await until(lambda: all_known(source))

    run(test())


def test_kueue_comes_and_goes(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        api.served[KUEUE] = ()
        async with following(api.kubeconfig(tmp_path)) as source:
            await until(lambda: all(source.states()[kind].detail for kind in KUEUE_KINDS))
            await until(lambda: all(each.known for kind, each in source.states().items() if kind not in KUEUE_KINDS))
            state = source.states()["LocalQueue"]
            assert (state.known, state.required, state.detail) == (False, False, "Kueue is not installed")
            assert not await source.confirm(frozenset({"LocalQueue"}), "team")

            api.served[KUEUE] = ("v1alpha1",)
            await until(lambda: source.states()["LocalQueue"].detail == "Kueue serves neither v1beta2 nor v1beta1")

            api.served[KUEUE] = ("v1beta1",)
            await until(lambda: all_known(source))
            assert api.asked("list", "localqueues")[-1].path == f"/apis/{KUEUE}/v1beta1/localqueues"
            assert source.snapshot.local_queues("team") == ["a-lq"]
            # A watch that never stood has not made up for the failures before it.
            await until(lambda: api.asked("watch", "localqueues"))

            # An upgrade drops the version in use: the next watch of it is answered with 404.
            api.served[KUEUE] = ("v1beta2",)
            api.end_watches()
            wanted = f"/apis/{KUEUE}/v1beta2/localqueues"
            await until(lambda: wanted in [each.path for each in api.asked("watch", "localqueues")])
            assert source.states()["LocalQueue"].known

            api.served[KUEUE] = ()
            api.end_watches()
            gone = dict.fromkeys(KUEUE_KINDS, "Kueue is not installed")
            await until(lambda: source.snapshot.unknown() == gone)

    run(test())


def test_credentials_are_read_again_when_they_are_refused(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        token = tmp_path / "token"
        token.write_text("old")
        kubeconfig = api.kubeconfig(tmp_path, {"tokenFile": str(token)})
        async with following(kubeconfig) as source:
            detail = "list namespaces: the API server does not know us (401); renew the credentials"
            await until(lambda: source.states()["Namespace"].detail == detail)
            assert source.states()["Namespace"].required
            token.write_text("secret")
            await until(lambda: all_known(source))

    run(test())


# Stopping


@pytest.mark.parametrize("fault", [silent, never_answered])
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_stop_breaks_off_whatever_is_waited_for(api: ApiServer, tmp_path: Path, verb: str, fault: Fault) -> None:
    async def test() -> None:
        for row in ACCESS.values():
            api.faults[verb, row.resource].append(fault)
        # `following` asserts that stop() takes less than a second and that no thread is left.
        async with following(api.kubeconfig(tmp_path), Timing(silence=60)):
            await until(lambda: len([each for each in api.requests if each.verb == verb]) == len(ACCESS))
            await asyncio.sleep(0.05)

    run(test())


def test_stop_ends_the_wait_after_a_failure(tmp_path: Path) -> None:
    async def test() -> None:
        with ApiServer().running() as api:
            kubeconfig = api.kubeconfig(tmp_path)
        async with following(kubeconfig, Timing(retry=60, retry_most=60)) as source:
            await until(lambda: all("refused" in each.detail for each in source.states().values()))
        await source.stop()

    run(test())


# Configuration


def kubeconfig(**fields: Any) -> str:
    good: Object = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    return yaml.safe_dump({**good, **fields})


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}

UNUSABLE = {
    "missing": (None, "no such file; check the path"),
    "not YAML": ("a: b: c", "is not YAML: mapping values are not allowed here"),
    "a list": ("- 1", "is no kubeconfig; pass a file that kubectl can use"),
    "empty": ("", "is no kubeconfig; pass a file that kubectl can use"),
    "no current context": (
        kubeconfig(**{"current-context": ""}),
        "current-context is not set; set it to one of its contexts, it has dev",
    ),
    "unknown context": (
        kubeconfig(**{"current-context": "prod"}),
        "no context 'prod'; set current-context to one that it has, it has dev",
    ),
    "no contexts": (
        kubeconfig(contexts=None),
        "no context 'dev'; set current-context to one that it has, it has none",
    ),
    "names that are none": (kubeconfig(**{"current-context": ["dev"]}), "current-context is not set"),
    "a cluster that is none": (
        kubeconfig(contexts=[{"name": "dev", "context": {"cluster": ["c"], "user": {}}}]),
        "cluster '' has no server; correct it",
    ),
    "no server": (kubeconfig(clusters=[]), "cluster 'c' has no server; correct it"),
    "a certificate file that is missing": (
        kubeconfig(
            clusters=[{"name": "c", "cluster": {"server": "https://x", "certificate-authority": "/nonexistent/ca.crt"}}]
        ),
        "File does not exist: /nonexistent/ca.crt; correct it",
    ),
    "a plugin that fails": (
        kubeconfig(users=[{"name": "u", "user": {"exec": EXEC}}]),
        "its exec plugin 'false' gave no credentials; run it by hand to see why",
    ),
}


@pytest.mark.parametrize(("text", "message"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_unusable_kubeconfigs_are_explained(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SourceError) as raised:
        asyncio.run(ClusterSource(path).start())
    assert str(raised.value).startswith(f"kubeconfig {path}: {message}")


def test_outside_of_a_cluster_it_says_what_to_do() -> None:
    code = "import asyncio; from webhook.sources.cluster import ClusterSource as C; asyncio.run(C(None).start())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={})
    assert result.stderr.splitlines()[-1] == (
        "webhook.sources.source.SourceError: no cluster to connect to: Service host/port is not set; run inside a "
        "cluster, pass --kubeconfig FILE, or use a folder of manifests with --state DIR"
    )


def test_an_exec_plugin_gives_the_token(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        credential = {"apiVersion": EXEC["apiVersion"], "kind": "ExecCredential", "status": {"token": "secret"}}
        plugin = {**EXEC, "command": "echo", "args": [json.dumps(credential)]}
        async with following(api.kubeconfig(tmp_path, {"exec": plugin})) as source:
            await until(lambda: all_known(source))

    run(test())


# Tables


def test_there_is_a_row_of_access_for_each_kind() -> None:
    assert {kind: row.group for kind, row in ACCESS.items()} == dict(GROUPS)
    assert ACCESS.keys() == PROJECTIONS.keys()
    assert all(row.verbs >= {"list", "watch"} for row in ACCESS.values())


def test_whatever_rules_need_can_be_watched() -> None:
    assert ACCESS.keys() >= NEEDS


def test_no_more_is_watched_than_is_asked_for(api: ApiServer, tmp_path: Path) -> None:
    async def test() -> None:
        source = ClusterSource(api.kubeconfig(tmp_path), ("Namespace", "LocalQueue"), timing=QUICK)
        await source.start()
        try:
            await until(lambda: all(state.known for state in source.states().values()))
            assert source.states().keys() == {"Namespace", "LocalQueue"}
            read = {request.resource for request in api.requests if request.verb in ("list", "watch")}
            assert read == {"namespaces", "localqueues"}
            assert source.snapshot.unknown()["Node"] == "is not watched"
        finally:
            await source.stop()

    run(test())


def test_the_table_can_be_read_without_the_kubernetes_package() -> None:
    code = "import sys, webhook.sources.access, webhook.sources.manifests; print('kubernetes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
