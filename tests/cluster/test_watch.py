"""The watch cache against a real API server: its facts, and the rights that it needs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controlplane import Cluster
from tests.cluster.server import shipped_account
from tests.cluster.team import GPU, Team
from tests.cluster.volcano import CRD, install_volcano
from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.kueue_facts import KueueConfigurationFact
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.unqueued_pods import UnqueuedPodFact
from webhook.sources.access import ACCESS
from webhook.sources.cluster import ClusterSource
from webhook.sources.timing import Timing

QUICK = Timing(retry_most=2, refused=1)


@asynccontextmanager
async def following(kubeconfig: Path) -> AsyncIterator[ClusterSource]:
    source = ClusterSource(kubeconfig, timing=QUICK)
    await source.start()
    try:
        yield source
    finally:
        began = time.monotonic()
        await source.stop()
        assert time.monotonic() - began < 1


async def until(what: str, happened: Callable[[], Any], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"{what}: not so after {seconds} s"
        await asyncio.sleep(0.02)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 120))


def watched(source: ClusterSource, team: Team) -> list[Fact]:
    """Everything that the snapshot holds of a team."""
    snapshot = source.snapshot
    found: list[Fact | None] = [snapshot.namespace(team.namespace)]
    found += [snapshot.local_queue(team.namespace, name) for name in snapshot.local_queues(team.namespace)]
    found += [snapshot.cluster_queue(f"{team.namespace}-{name}") for name in ("model-a", "model-b")]
    found += snapshot.resource_quotas(team.namespace)
    found += snapshot.workloads(team.namespace, "Deployment", "StatefulSet", "Pod")
    return [fact for fact in found if fact is not None]


def listed(team: Team) -> list[Fact]:
    """The same, from what kubectl lists at this moment."""
    objects = [team.cluster.get("namespace", team.namespace)]
    objects += sorted(team.cluster.items("localqueues", "-n", team.namespace), key=_name)
    objects += [team.cluster.get("clusterqueue", f"{team.namespace}-{name}") for name in ("model-a", "model-b")]
    for kind in ("resourcequotas", "deployments", "statefulsets"):
        objects += sorted(team.cluster.items(kind, "-n", team.namespace), key=_name)
    objects += sorted(team.cluster.items("pods", "-n", team.namespace, "-l", QUEUE_LABEL), key=_name)
    facts = (PROJECTIONS[value["kind"]](value) for value in objects if value is not None)
    return [fact for fact in facts if fact is not None]


def _name(value: dict[str, Any]) -> str:
    name: str = value["metadata"]["name"]
    return name


def pod(team: Team, name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": team.namespace, "labels": {QUEUE_LABEL: "model-a-lq"}}
    spec = {"containers": [{"name": "main", "image": "example.com/x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def quota(team: Team, key: str) -> dict[str, Any]:
    metadata = {"name": "q", "namespace": team.namespace}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {key: "10"}}}


@pytest.fixture(scope="module")
def shipped(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an account with the shipped rights, and no others."""
    with shipped_account(cluster, "watch") as kubeconfig:
        path = tmp_path_factory.mktemp("watch") / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig))
        yield path


def test_events_keep_the_facts_equal_to_a_list(team: Team, shipped: Path) -> None:
    def write(*objects: dict[str, Any]) -> Callable[[], Any]:
        return lambda: team.cluster.apply(*objects)

    def kubectl(*words: str) -> Callable[[], Any]:
        return lambda: team.kubectl(*words)

    steps: dict[str, Callable[[], Any]] = {
        "workloads come": write(team.deployment("model-a", 2, "model-a-lq"), team.gateway(), pod(team, "bare")),
        "a quota comes": write(quota(team, "pods")),
        "a quota changes": write(quota(team, "count/configmaps")),
        "a queue comes": write(team.local_queue("late-lq", "model-b")),
        "the namespace is labelled": team.manage,
        "a floor changes": lambda: team.set_floors(7, 3),
        "a Deployment is scaled to nothing": kubectl("scale", "deployment/gateway", "--replicas=0"),
        "a bare Pod loses its label": kubectl("delete", "pod", "bare", "--wait=false"),
        "a queue goes": kubectl("delete", "localqueue", "late-lq"),
        "a Deployment goes": kubectl("delete", "deployment", "model-a"),
    }

    async def test() -> None:
        async with following(shipped) as source:
            await until("all known", lambda: all(state.known for state in source.states().values()))
            for step, act in steps.items():
                await asyncio.to_thread(act)
                end = time.monotonic() + 30
                # Controllers go on writing for a while; what counts is that both come to say the same.
                while (there := await asyncio.to_thread(listed, team)) != (here := watched(source, team)):
                    assert time.monotonic() < end, f"{step}: {here} is not {there}"
            assert not any(state.detail for state in source.states().values())

    run(test())


def test_a_list_finds_what_events_brought(team: Team, shipped: Path) -> None:
    async def test() -> None:
        await asyncio.to_thread(team.cluster.apply, team.deployment("model-a", 1, "model-a-lq"), quota(team, "pods"))
        async with following(shipped) as source:
            await until("all known", lambda: all(state.known for state in source.states().values()))
            end = time.monotonic() + 30
            while (there := await asyncio.to_thread(listed, team)) != (here := watched(source, team)):
                assert time.monotonic() < end, f"{here} is not {there}"

    run(test())


def test_confirm_reads_what_was_written_a_moment_ago(team: Team, shipped: Path) -> None:
    """It is never later than the write that it follows, however far behind the watch is."""

    async def test() -> None:
        async with following(shipped) as source:
            await until("all known", lambda: all(state.known for state in source.states().values()))
            for number in range(5):
                await asyncio.to_thread(team.cluster.apply, team.local_queue(f"lq-{number}"))
                await source.confirm(frozenset({"LocalQueue", "Namespace"}), team.namespace)
                assert source.snapshot.local_queue(team.namespace, f"lq-{number}") is not None
            assert not await source.confirm(frozenset({"Namespace"}), "no-such-namespace")

    run(test())


@pytest.fixture
def account(team: Team, tmp_path: Path) -> Iterator[Account]:
    """A ServiceAccount with the rights of the table of access."""
    account = Account(team.cluster, team.namespace, tmp_path / "kubeconfig")
    account.grant(*ACCESS)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": team.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": team.namespace},
        "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": team.namespace}],
    }
    team.kubectl("create", "serviceaccount", "watcher")
    team.cluster.apply(binding)
    config = yaml.safe_load(team.cluster.kubeconfig.read_text())
    token = team.kubectl("create", "token", "watcher").stdout.strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    account.kubeconfig.write_text(yaml.safe_dump(config))
    yield account
    team.cluster("delete", "clusterrole,clusterrolebinding", team.namespace)


class Account:
    def __init__(self, cluster: Cluster, name: str, kubeconfig: Path) -> None:
        self.cluster, self.name, self.kubeconfig = cluster, name, kubeconfig

    def grant(self, *kinds: str) -> None:
        """These kinds, and no others."""
        rows = [ACCESS[kind] for kind in kinds]
        rules = [
            {
                "apiGroups": [row.group],
                "resources": [row.resource],
                "verbs": sorted(row.verbs),
                **({"resourceNames": [row.object_name]} if row.object_name else {}),
            }
            for row in rows
        ]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": self.name}}
        self.cluster.apply({**role, "rules": rules})


def test_the_table_of_access_is_all_that_is_needed(team: Team, account: Account) -> None:
    async def test() -> None:
        async with following(account.kubeconfig) as source:
            await until("all known", lambda: all(state.known for state in source.states().values()))
            await asyncio.to_thread(team.cluster.apply, team.local_queue("late"))
            await source.confirm(frozenset({"LocalQueue", "Namespace"}), team.namespace)
            assert source.snapshot.local_queue(team.namespace, "late") is not None
            # Kueue's ConfigMap is granted by its name, and comes as Kueue reads it.
            assert source.snapshot.kueue_configuration() == KueueConfigurationFact()
            assert not any(state.detail for state in source.states().values())

    run(test())


def test_a_kind_that_is_not_granted_is_unknown_until_it_is(team: Team, account: Account) -> None:
    async def test() -> None:
        rest = [kind for kind in ACCESS if kind not in ("ResourceQuota", "ClusterQueue", "Node")]
        await asyncio.to_thread(account.grant, *rest)
        # The API server's authorizer follows roles by a watch of its own.
        await asyncio.sleep(1)
        async with following(account.kubeconfig) as source:
            await until("the rest is known", lambda: all(source.states()[kind].known for kind in rest))
            await until("refused", lambda: len(denied(source)) == 3)
            assert denied(source) == {
                "Node": "not allowed: list nodes; grant it in the ClusterRole",
                "ResourceQuota": "not allowed: list resourcequotas; grant it in the ClusterRole",
                "ClusterQueue": "not allowed: list clusterqueues.kueue.x-k8s.io; grant it in the ClusterRole",
            }
            await asyncio.to_thread(account.grant, *ACCESS)
            await until("all known", lambda: all(state.known for state in source.states().values()))

    run(test())


def on_a_node(team: Team, name: str) -> dict[str, Any]:
    """A bare Pod that Kueue never sees, since its namespace is not Kueue's, and that runs."""
    node = team.cluster.items("nodes")[0]["metadata"]["name"]
    amounts = {"limits": {GPU: "2"}, "requests": {GPU: "2"}}
    value = pod(team, name)
    value["metadata"]["namespace"] = "kube-system"
    value["spec"] |= {
        "nodeName": node,
        "containers": [{"name": "main", "image": "example.com/x", "resources": amounts}],
    }
    return value


def test_pods_come_and_go_by_their_label_and_their_phase(team: Team, shipped: Path) -> None:
    """A watch by selectors calls what it no longer selects deleted."""
    value = on_a_node(team, team.namespace)
    name, node = value["metadata"]["name"], value["spec"]["nodeName"]
    unqueued = [UnqueuedPodFact("kube-system", name, node, {GPU: 2 * 10**9})]

    def kubectl(*words: str) -> None:
        team.cluster(*words, "-n", "kube-system")

    async def test() -> None:
        async with following(shipped) as source:
            await until("all known", lambda: all(state.known for state in source.states().values()))

            def seen() -> tuple[bool, list[Fact]]:
                queued = any(fact.name == name for fact in source.snapshot.workloads("kube-system", "Pod"))
                return queued, [fact for fact in source.snapshot.facts("UnqueuedPod") if fact.name == name]

            await asyncio.to_thread(team.cluster.create, value)
            await until("it is in a queue", lambda: seen() == (True, []))
            await asyncio.to_thread(kubectl, "label", "pod", name, f"{QUEUE_LABEL}-")
            await until("it is in none", lambda: seen() == (False, unqueued))
            await asyncio.to_thread(kubectl, "label", "pod", name, f"{QUEUE_LABEL}=x")
            await until("it is in one again", lambda: seen() == (True, []))
            await asyncio.to_thread(kubectl, "label", "pod", name, f"{QUEUE_LABEL}-")
            await until("it is in none again", lambda: seen() == (False, unqueued))
            done = '{"status": {"phase": "Succeeded"}}'
            await asyncio.to_thread(kubectl, "patch", "pod", name, "--type=merge", "--subresource=status", "-p", done)
            await until("it has finished", lambda: seen() == (False, []))

    try:
        run(test())
    finally:
        kubectl("delete", "pod", name, "--ignore-not-found", "--wait=false")


def test_volcano_comes_and_goes(team: Team, shipped: Path) -> None:
    """Without its CustomResourceDefinition there are no queues, which is known; with it they are found."""
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": team.namespace},
        "spec": {"guarantee": {"resource": {GPU: "4"}}},
    }

    async def test() -> None:
        await asyncio.to_thread(team.cluster, "delete", CRD, "--timeout=30s")
        async with following(shipped) as source:

            def seen() -> list[str]:
                assert source.states()["Queue"].known
                return [fact.name for fact in source.snapshot.facts("Queue")]

            await until("all known", lambda: all(state.known for state in source.states().values()))
            assert seen() == []
            await asyncio.to_thread(install_volcano, team.cluster)
            await asyncio.to_thread(team.cluster.apply, queue)
            await until("its queue is found", lambda: seen() == [team.namespace])
            await asyncio.to_thread(team.cluster, "delete", CRD, "--timeout=30s")
            await until("its queue is gone", lambda: seen() == [])
            # Longer than it takes until the kind is given up.
            await until("and nothing is amiss", lambda: not source.states()["Queue"].detail)
            await asyncio.to_thread(install_volcano, team.cluster)
            await asyncio.to_thread(team.cluster.apply, queue)
            await until("it is found again", lambda: seen() == [team.namespace])

    try:
        run(test())
    finally:
        install_volcano(team.cluster)
        team.cluster("delete", "queues.scheduling.volcano.sh", team.namespace, "--ignore-not-found")


def denied(source: ClusterSource) -> dict[str, str]:
    return {kind: state.detail for kind, state in source.states().items() if not state.required and not state.known}
