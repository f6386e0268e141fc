"""Whatever the order in which several writers, replicas and the API server take their steps, the floors fit.

Every call to the API server is a step before it and a step after it. Whose step is next is drawn, and rather often that
of the writer who took the last one: then one gets far while another stands still. Between the steps time passes now and
then, or a replica is killed in the middle of its decisions. No watch ever brings anything.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.ledger_world import Replica, World
from tests.quota_objects import Object, flavor, node, queue
from webhook.engine.verdict import Verdict

GPUS = 10
NAMES = ("a", "b", "c", "d")
REQUEST_SECONDS = 60.0
"""After which the API server gives up on a request."""

SKEW = 10.0
"""Seconds by which clocks differ."""


@dataclass(frozen=True)
class Write:
    """UPDATE, CREATE or DELETE of a queue; `floor` is what it has then."""

    verb: str
    name: str
    floor: int


def random_write(random: Random) -> Write:
    verb = random.choice(["UPDATE", "UPDATE", "UPDATE", "CREATE", "DELETE"])
    return Write(verb, random.choice(NAMES), random.randint(0, 6))


_WRITER: ContextVar[int] = ContextVar("writer")


def gpus(value: Object) -> int:
    amount = value["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]
    assert isinstance(amount, int)
    return amount


@dataclass
class Race:
    """The writers, each with an API server of its own, and two replicas that they ask in turn."""

    world: World
    random: Random
    waiting: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)
    """Whose step it is, and what lets it be taken."""

    deciding: list[list[asyncio.Task[Verdict]]] = field(default_factory=lambda: [[], []])
    replicas: list[Replica] = field(default_factory=list)
    last: int = 0
    stored: int = 0
    uids: int = 0

    def __post_init__(self) -> None:
        self.world.pause = self.step
        self.replicas = [self.started(0), self.started(1)]

    def started(self, number: int) -> Replica:
        return Replica(self.world, skew=SKEW * number)

    async def step(self, call: str = "") -> None:
        if call.endswith(("Cohort", "ResourceFlavor")):
            return  # of which there are none to write
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((_WRITER.get(), turn))
        await turn

    async def run(self, writes: list[Write]) -> None:
        writers = [asyncio.create_task(self.write(number, each)) for number, each in enumerate(writes)]
        while not all(writer.done() for writer in writers):
            for _ in range(8):  # whoever can go on without a turn does
                await asyncio.sleep(0)
            self.waiting = [(writer, turn) for writer, turn in self.waiting if not turn.done()]
            if self.waiting:
                self.take_a_step()
        for writer in writers:
            writer.result()

    def take_a_step(self) -> None:
        chance = self.random.random()
        if chance < 0.05:
            self.world.now += 25
        elif chance < 0.07:
            self.kill(self.random.randrange(2))
        else:
            same = [each for each in self.waiting if each[0] == self.last]
            each = same[0] if same and chance < 0.75 else self.random.choice(self.waiting)
            self.waiting.remove(each)
            self.last = each[0]
            each[1].set_result(None)

    def kill(self, number: int) -> None:
        for task in self.deciding[number]:
            task.cancel()
        self.deciding[number] = []
        self.replicas[number] = self.started(number)

    async def write(self, number: int, write: Write) -> None:
        """As kube-apiserver does it: admission within the update loop, and again after a conflict."""
        _WRITER.set(number)
        key = "ClusterQueue", write.name
        began = self.world.now
        for _ in range(4):
            await self.step()
            old = self.world.objects.get(key)
            if write.verb == "DELETE":
                self.world.delete(*key)
                return
            if write.verb == "UPDATE" and old is None:
                return
            self.uids += 1
            value = queue(write.name, {"f": write.floor})
            if write.verb == "CREATE":
                old = None
                value["metadata"]["uid"] = f"object-{self.uids}"
            elif old is not None:
                value["metadata"] = dict(old["metadata"])
            verdict = await self.ask(number % 2, value, old, f"request-{self.uids}")
            if verdict is None or not verdict.allowed:
                return
            await self.step()
            if self.world.now - began >= REQUEST_SECONDS:
                return
            now = self.world.objects.get(key)
            if _version(now) == _version(old):
                self.store(value)
                return
            if write.verb == "CREATE":
                return

    async def ask(self, replica: int, value: Object, old: Object | None, uid: str) -> Verdict | None:
        """The verdict, None if nobody answered."""
        deciding = asyncio.create_task(self.replicas[replica].validate(value, old, uid))
        self.deciding[replica].append(deciding)
        with contextlib.suppress(asyncio.CancelledError):
            return await deciding
        return None

    def store(self, value: Object) -> None:
        self.world.store(value)
        self.stored += 1
        floors = {name: gpus(found) for (kind, name), found in self.world.objects.items() if kind == "ClusterQueue"}
        assert sum(floors.values()) <= GPUS, floors


def _version(value: Object | None) -> str:
    """'' for what is not there, on which a CREATE is conditional."""
    return str(value["metadata"]["resourceVersion"]) if value else ""


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_never_more_than_fits(seed: int) -> None:
    random = Random(seed)  # all of it from one seed: hypothesis itself would rather draw small and equal numbers
    floors = {name: random.randint(0, 3) for name in NAMES[:3]}
    writes = [random_write(random) for _ in range(random.randint(3, 7))]
    note(f"{floors} {writes}")
    world = World()
    for value in (node("n", GPUS), flavor("f"), *(queue(name, {"f": floor}) for name, floor in floors.items())):
        world.store(value)
    asyncio.run(Race(world, random).run(writes))


def test_a_race_stores_what_fits() -> None:
    """Else the test above could pass because nothing is ever stored."""
    world = World()
    for value in (node("n", GPUS), flavor("f"), queue("a", {"f": 3}), queue("b", {"f": 3})):
        world.store(value)
    race = Race(world, Random(0))
    writes = [Write("UPDATE", "a", 5), Write("UPDATE", "b", 5), Write("CREATE", "c", 1), Write("CREATE", "d", 0)]
    asyncio.run(race.run(writes))
    assert race.stored == 3
