"""What a decision costs, and a heartbeat: `python -m benchmarks.floors`.

1,000 ClusterQueues, 50 Cohorts on three levels, 40 flavors of which ten share nodes, and 20,000 GPU workloads, on 500
nodes and on 5,000. No network: objects come decoded, as from a review or a watch.
Times are on the processor, since the clock also counts what other processes take: p50 and mean are the median of the
runs, p99 is the best run's. It is no test, and fails on nothing.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, cast

import orjson

from benchmarks.figures import MICRO, MILLI, UNITS, Figure, Run, machine, show_table, timed
from benchmarks.fleet import (
    FLAVORS,
    GPU,
    SHARING,
    Fleet,
    Object,
    cluster_queue,
    deployment,
    flavor,
    flavors_of,
    node,
    ready,
)
from webhook.capacity.balance import Balance, balance_of
from webhook.capacity.comparison import compare
from webhook.capacity.view import Change
from webhook.engine.evaluate import judge
from webhook.engine.policy import Policy
from webhook.engine.rule import Rule, Stage
from webhook.engine.subject import Subject
from webhook.engine.verdict import Verdict
from webhook.kube.facts import PROJECTIONS, SEEN_AS, Fact
from webhook.kube.kinds import CLUSTER_QUEUE, DEPLOYMENT, RESOURCE_FLAVOR, Kind
from webhook.kube.snapshot import Snapshot
from webhook.rules import RULES, floors_exceed_capacity
from webhook.sources.kueue_configuration import with_configuration

Calls = Iterable[Callable[[], object]]
TODAY = date(2026, 11, 29)
POLICY = Policy()
RAISES = (1, 2, 50, 500, 5000)
"""By how many GPUs a floor is raised: from what always fits to what never does."""


def decoded(value: Object) -> Any:
    """As it comes from the network: no two objects share a string."""
    return orjson.loads(orjson.dumps(value))


def fact(kind: str, value: Object) -> Fact | None:
    return PROJECTIONS[kind](with_configuration(decoded(value)))


def filled(fleet: Fleet) -> Snapshot:
    """All kinds are known; those that the fleet has nothing of are empty."""
    facts: dict[str, list[Fact]] = {kind: [] for kind in PROJECTIONS}
    for kind, values in fleet.objects().items():
        for value in values if kind in PROJECTIONS else ():
            for seen_as in SEEN_AS.get(kind, (kind,)):
                found = fact(seen_as, value)
                if found is not None:
                    facts[seen_as].append(found)
    snapshot = Snapshot()
    for kind, all_facts in facts.items():
        snapshot.replace(kind, all_facts)
    return snapshot


@dataclass(frozen=True)
class State:
    """One cluster, and what is asked of it."""

    fleet: Fleet
    snapshot: Snapshot
    balance: Balance
    queues: tuple[int, ...]
    """The number of a ClusterQueue for each round, the same ones in every run."""

    memory: float
    """Bytes of all facts and sums."""

    collection: float
    """Seconds of a full garbage collection."""

    @classmethod
    def of(cls, fleet: Fleet, rounds: int) -> State:
        gc.freeze()
        tracemalloc.start()
        snapshot = filled(fleet)
        balance = balance_of(snapshot, POLICY.capacity, POLICY.accelerators)
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        began = time.perf_counter()
        gc.collect()
        collection = time.perf_counter() - began
        rng = random.Random(0)
        queues = tuple(rng.randrange(fleet.queues) for _ in range(rounds))
        return cls(fleet, snapshot, balance, queues, memory, collection)

    def review(self, kind: Kind, value: Object, old: Object | None = None) -> Callable[..., Verdict]:
        """A call that judges one review, as the server does."""
        namespace, fresh = value["metadata"].get("namespace", ""), decoded(value)
        before = None if old is None else decoded(old)

        def judged(
            rules: Sequence[Rule] = RULES, snapshot: Snapshot = self.snapshot, stage: Stage = Stage.VALIDATE
        ) -> Verdict:
            subject = Subject(kind, namespace, fresh, POLICY.accelerators, before)
            return judge(rules, stage, subject, snapshot, POLICY, TODAY)

        return judged

    def writes(self) -> Iterator[tuple[int, Object, Object]]:
        """The number of a ClusterQueue, the queue, and the queue with higher floors."""
        floor = self.fleet.floor
        for index, number in enumerate(self.queues):
            yield number, cluster_queue(number, floor), cluster_queue(number, floor + RAISES[index % len(RAISES)])

    # What is measured

    def raises(self) -> Iterator[Callable[..., Verdict]]:
        return (self.review(CLUSTER_QUEUE, after, before) for _, before, after in self.writes())

    def raises_by_one_rule(self) -> Iterator[Callable[..., Verdict]]:
        return (partial(call, (floors_exceed_capacity.RULE,)) for call in self.raises())

    def shared_raises(self) -> Calls:
        sharing = {f"flavor-{number}" for number in range(SHARING)}
        for number, call in zip(self.queues, self.raises_by_one_rule(), strict=True):
            if sharing.intersection(flavors_of(number)):
                yield call

    def denied_raises(self) -> Calls:
        return (call for call in self.raises_by_one_rule() if call().denials)

    def live_raises(self) -> Calls:
        """Against all queues as they were just read again, of which one differs from what is watched."""
        objects = [cluster_queue(number, self.fleet.floor) for number in range(self.fleet.queues - 1)]
        objects.append(cluster_queue(self.fleet.queues - 1, 1))
        live = {"ClusterQueue": [cast(Fact, fact("ClusterQueue", value)) for value in objects]}
        for call in self.raises_by_one_rule():
            yield lambda call=call: call(snapshot=self.snapshot.overlaid(live, ()))  # type: ignore[misc]

    def live_reads(self) -> Calls:
        """A list of all queues, from its bytes to facts."""
        page = orjson.dumps([cluster_queue(number, self.fleet.floor) for number in range(self.fleet.queues)])
        for _ in range(max(1, len(self.queues) // 50)):
            yield lambda: list(map(PROJECTIONS["ClusterQueue"], orjson.loads(page)))

    def comparisons(self) -> Calls:
        for number, *objects in self.writes():
            before, after = (cast(Change, fact("ClusterQueue", value)) for value in objects)
            yield partial(self._compared, f"queue-{number}", before, after)

    def _compared(self, name: str, before: Change, after: Change) -> object:
        old = self.balance.with_change("ClusterQueue", name, before)
        return compare(old, self.balance.with_change("ClusterQueue", name, after))

    def relabelled(self) -> Calls:
        for index in range(len(self.queues)):
            before = flavor(index % FLAVORS)
            yield self.review(RESOURCE_FLAVOR, {**before, "spec": flavor((index + 1) % FLAVORS)["spec"]}, before)

    def workloads(self, stage: Stage) -> Calls:
        for number in self.queues:
            yield partial(self.review(DEPLOYMENT, deployment(number, self.fleet.queues)), stage=stage)

    def potentials(self) -> Calls:
        for number in self.queues:
            yield partial(self.balance.potential, f"queue-{number}", flavors_of(number)[0], GPU)

    def potentials_after_writes(self) -> Calls:
        for number, before, after in self.writes():
            self.snapshot.put("ClusterQueue", cast(Fact, fact("ClusterQueue", after)))
            yield partial(self.balance.potential, f"queue-{number}", flavors_of(number)[0], GPU)
            self.snapshot.put("ClusterQueue", cast(Fact, fact("ClusterQueue", before)))

    def heartbeats(self, conditions: Sequence[bool]) -> Calls:
        """Events as a watch brings them: just decoded, about nodes that nothing has touched for a while."""
        rng = random.Random(0)
        for _ in self.queues:
            value = node(rng.randrange(self.fleet.nodes))
            for holds in conditions:
                value["status"]["conditions"][-1] = ready(holds, "2026-11-29T10:05:00Z")
                yield partial(self._event, decoded(value))

    def _event(self, value: Object) -> bool:
        return self.snapshot.put("Node", cast(Fact, PROJECTIONS["Node"](value)))


MEASURED: tuple[tuple[str, float, Callable[[State], Calls]], ...] = (
    ("ClusterQueue, floor raised: all rules", MILLI, State.raises),
    ("  floors-exceed-capacity alone", MILLI, State.raises_by_one_rule),
    ("    in flavors that share nodes", MILLI, State.shared_raises),
    ("    denied", MILLI, State.denied_raises),
    ("    the arithmetic of it", MILLI, State.comparisons),
    ("    against a live read of all queues", MILLI, State.live_raises),
    ("  that live read: JSON to facts", MILLI, State.live_reads),
    ("ResourceFlavor, other nodes: all rules", MILLI, State.relabelled),
    ("Deployment, created: /mutate", MILLI, partial(State.workloads, stage=Stage.MUTATE)),
    ("Deployment, created: /validate", MILLI, partial(State.workloads, stage=Stage.VALIDATE)),
    ("what a queue can ever get", MICRO, State.potentials),
    ("  after a write of its quota", MICRO, State.potentials_after_writes),
    ("heartbeat that changes nothing", MICRO, partial(State.heartbeats, conditions=(True,))),
    ("node not Ready, and Ready again", MICRO, partial(State.heartbeats, conditions=(False, True))),
)


def measure(fleets: Sequence[Fleet], rounds: int, runs: int) -> None:
    states = [State.of(fleet, rounds) for fleet in fleets]
    for state in states:
        denied = sum(bool(call().denials) for call in state.raises())
        print(
            f"{state.fleet.nodes:,} nodes: facts and sums take {state.memory / 2**20:.1f} MiB, a full garbage "
            f"collection {state.collection * MILLI:.0f} ms; {denied:,} of {rounds:,} raises are denied"
        )
    rows = []
    for what, unit, calls in MEASURED:
        taken: list[list[Run]] = [[] for _ in states]
        for _ in range(runs):
            # In turn, so that a busy minute of the machine falls on both.
            for state, found in zip(states, taken, strict=True):
                found.append(timed(calls(state)))
        rows.append(_row(what, unit, [Figure.of(found) for found in taken]))
    sizes = [f"{fleet.nodes:,}:" for fleet in fleets]
    head = [cell for size in sizes for cell in (f"{size} p50", "mean", "p99", "p99 by clock")]
    show_table(["nodes", "", *head, "ratio: p50", "p99"], rows)


def _row(what: str, unit: float, figures: Sequence[Figure]) -> list[str]:
    """The ratio is of the last size to the first."""
    cells = [f"{each * unit:.2f}" for of in figures for each in (of.p50, of.mean, of.p99, of.clock_p99)]
    first, last = figures[0], figures[-1]
    return [what, UNITS[unit], *cells, f"{last.p50 / first.p50:.2f}", f"{last.p99 / first.p99:.2f}"]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floors", description=(__doc__ or "").partition("\n")[0])
    size = Fleet()
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, size.nodes], help="default: 500 5000")
    parser.add_argument("--queues", type=int, default=size.queues, help="ClusterQueues; default: %(default)s")
    parser.add_argument("--workloads", type=int, default=size.workloads, help="Deployments; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=1000, help="calls of one run; default: %(default)s")
    parser.add_argument("--runs", type=int, default=5, help="default: %(default)s")
    given = parser.parse_args(words)
    print(machine())
    measure([Fleet(nodes, given.queues, given.workloads) for nodes in given.nodes], given.rounds, given.runs)


if __name__ == "__main__":
    main()
