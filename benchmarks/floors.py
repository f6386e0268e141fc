"""What the arithmetic of floors costs: `python -m benchmarks.floors`.

1,000 ClusterQueues, 50 Cohorts on three levels and 40 flavors, ten of which share nodes, on 500 nodes and on 5,000.
Prints the median and p99 of time on the processor and on the clock; it is no test, and fails on nothing.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import orjson

from webhook.capacity.balance import Balance, balance_of
from webhook.capacity.comparison import Comparison, compare
from webhook.engine.policy import Capacity, Policy
from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.quota_facts import ClusterQueueFact, project_cluster_queue
from webhook.kube.snapshot import Snapshot

Object = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
FLAVORS, SHARING, COHORTS, QUEUES, LABELS = 40, 10, 50, 1000, 45
"""The first SHARING flavors name a zone or a model that others name too; each of the rest has a pool of its own."""


def node(number: int) -> Object:
    pool = number % (FLAVORS - SHARING + 5)
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.F{index}": "true" for index in range(LABELS - 5)}
    labels |= {
        "kubernetes.io/hostname": f"node-{number}",
        "kubernetes.io/os": "linux",
        "pool": f"pool-{pool}",
        "model": f"model-{pool % 5}" if pool < 5 else "none",
        "zone": f"zone-{number % 3}" if pool < 5 else "none",
    }
    amounts = {"cpu": "96", "memory": "1056270436Ki", "pods": "110", "ephemeral-storage": "937Gi", GPU: "8"}
    conditions = [{"type": each, "status": "False"} for each in ("MemoryPressure", "DiskPressure", "PIDPressure")]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {"taints": [{"key": GPU, "value": "true", "effect": "NoSchedule"}]},
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [
                *conditions,
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-29T10:00:00Z"},
            ],
            "images": [{"names": [f"registry.example/image-{index}"], "sizeBytes": 1 << 30} for index in range(50)],
        },
    }


def flavor(number: int) -> Object:
    """Models 0 to 4, zones 0 to 2, both together, and then one pool each."""
    if number < 5:
        labels = {"model": f"model-{number}"}
    elif number < 8:
        labels = {"zone": f"zone-{number - 5}"}
    elif number < SHARING:
        labels = {"model": "model-0", "zone": f"zone-{number - 8}"}
    else:
        labels = {"pool": f"pool-{number - SHARING + 5}"}
    return {
        "apiVersion": KUEUE,
        "kind": "ResourceFlavor",
        "metadata": {"name": f"flavor-{number}"},
        "spec": {"nodeLabels": labels},
    }


def quotas(amounts: dict[str, int]) -> list[Object]:
    return [
        {
            "coveredResources": ["cpu", "memory", GPU],
            "flavors": [
                {
                    "name": name,
                    "resources": [
                        {"name": "cpu", "nominalQuota": "100"},
                        {"name": "memory", "nominalQuota": "100Gi"},
                        {"name": GPU, "nominalQuota": amount},
                    ],
                }
                for name, amount in amounts.items()
            ],
        }
    ]


def cohort(number: int) -> Object:
    """One root, seven below it, the others below those."""
    parent = "" if number == 0 else "cohort-0" if number < 8 else f"cohort-{1 + number % 7}"
    return {
        "apiVersion": KUEUE,
        "kind": "Cohort",
        "metadata": {"name": f"cohort-{number}"},
        "spec": {"parentName": parent, "resourceGroups": quotas({f"flavor-{number % FLAVORS}": 1})},
    }


def queue(number: int, amount: int) -> Object:
    names = (f"flavor-{number % FLAVORS}", f"flavor-{(number * 7 + 3) % FLAVORS}")
    return {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": f"queue-{number}"},
        "spec": {"cohortName": f"cohort-{8 + number % 42}", "resourceGroups": quotas(dict.fromkeys(names, amount))},
    }


def guaranteed(nodes: int) -> int:
    """A floor of each queue, so that the flavors which share nodes claim all but a few of their GPUs."""
    pools = FLAVORS - SHARING + 5
    return nodes * 8 * 5 * 98 // 100 // pools // (2 * QUEUES * SHARING // FLAVORS)


def filled(nodes: int) -> tuple[Snapshot, Balance]:
    snapshot = Snapshot()
    objects: dict[str, Iterator[Object]] = {
        "Node": map(node, range(nodes)),
        "ResourceFlavor": map(flavor, range(FLAVORS)),
        "Cohort": map(cohort, range(COHORTS)),
        "ClusterQueue": (queue(number, guaranteed(nodes)) for number in range(QUEUES)),
        "AdmissionCheck": iter(()),
    }
    for kind, values in objects.items():
        snapshot.replace(kind, [fact for fact in map(as_fact, values) if fact is not None])
    return snapshot, balance_of(snapshot, Capacity(), Policy().accelerators)


def as_fact(value: Object) -> Fact | None:
    return PROJECTIONS[value["kind"]](orjson.loads(orjson.dumps(value)))


def cluster_queue(number: int, amount: int) -> ClusterQueueFact:
    return project_cluster_queue(orjson.loads(orjson.dumps(queue(number, amount))))


def report(what: str, nodes: int, calls: Iterable[Callable[[], object]], unit: str) -> None:
    """Time on the processor and on the clock, without what it takes to come by the next call."""
    cpu, wall = [], []
    gc.collect()
    for call in calls:
        began, ran = time.perf_counter(), time.thread_time()
        call()
        cpu.append(time.thread_time() - ran)
        wall.append(time.perf_counter() - began)
    print(f"{nodes:6,d} nodes  {what:56s} {_quantiles(cpu, unit)}   clock: {_quantiles(wall, unit)}")


def _quantiles(taken: list[float], unit: str) -> str:
    ordered = sorted(each * {"ms": 1e3, "µs": 1e6}[unit] for each in taken)
    return f"p50 {ordered[len(ordered) // 2]:8.2f} {unit} p99 {ordered[len(ordered) * 99 // 100]:8.2f} {unit}"


def measure(nodes: int, rounds: int) -> None:
    tracemalloc.start()
    snapshot, balance = filled(nodes)
    held = tracemalloc.get_traced_memory()[0] / 2**20
    tracemalloc.stop()
    print(f"{nodes:6,d} nodes  all facts and sums: {held:.1f} MiB")
    rng = random.Random(0)  # the same order in every run
    numbers = [rng.randrange(QUEUES) for _ in range(rounds)]
    floor = guaranteed(nodes)
    raises = (1, 2, 50, 500, 5000)
    pairs = [(cluster_queue(n, floor), cluster_queue(n, floor + rng.choice(raises))) for n in numbers]

    def verdict(before: ClusterQueueFact, after: ClusterQueueFact) -> Callable[[], tuple[Comparison, ...]]:
        def judge() -> tuple[Comparison, ...]:
            old = balance.with_change("ClusterQueue", before.name, before)
            return compare(old, balance.with_change("ClusterQueue", after.name, after))

        return judge

    calls = [verdict(before, after) for before, after in pairs]
    sharing = {f"flavor-{number}" for number in range(SHARING)}
    report("verdict on a ClusterQueue, any flavors", nodes, calls, "ms")
    shared = [call for call, (_, fact) in zip(calls, pairs, strict=True) if {key[0] for key in fact.nominal} & sharing]
    report("  of these, those in flavors that share nodes", nodes, shared, "ms")
    worse = [call for call in shared if any(found.worse for found in call())]
    report("  of these, those that are denied", nodes, worse, "ms")

    def relabel(number: int) -> Callable[[], object]:
        fact = as_fact({**flavor(number), "spec": flavor((number + 1) % FLAVORS)["spec"]})
        return lambda: compare(balance.now, balance.with_change("ResourceFlavor", f"flavor-{number}", fact))  # type: ignore[arg-type]

    report("verdict on a ResourceFlavor", nodes, [relabel(n % FLAVORS) for n in range(rounds)], "ms")

    project = PROJECTIONS["Node"]

    def heartbeats(*ready: str) -> Iterator[Callable[[], object]]:
        """Events as a watch brings them: just parsed, about nodes that nothing has touched for a while."""
        for _ in range(rounds):
            value = node(rng.randrange(nodes))
            for each in ready:
                value["status"]["conditions"][-1]["status"] = each
                parsed = orjson.loads(orjson.dumps(value))
                yield lambda parsed=parsed: snapshot.put("Node", project(parsed))  # type: ignore[arg-type, misc]

    report("heartbeat that changes nothing (projection, comparison)", nodes, heartbeats("True"), "µs")
    report("heartbeat that makes a node not Ready, and Ready again", nodes, heartbeats("False", "True"), "µs")
    asked = [(f"queue-{n}", f"flavor-{n % FLAVORS}") for n in numbers]
    potentials = [partial(balance.potential, *each, GPU) for each in asked]
    report("what a queue can ever get", nodes, potentials, "µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2000)
    rounds = parser.parse_args().rounds
    for nodes in (500, 5000):
        measure(nodes, rounds)


if __name__ == "__main__":
    main()
