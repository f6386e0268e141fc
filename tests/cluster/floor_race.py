"""Rounds of two raises at once of which one fits, through the real API server and two replicas of ours."""

from __future__ import annotations

import random
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.cluster.api import Answer
from tests.cluster.controlplane import until
from tests.cluster.replicas import EXPIRY, Replica, Replicas, race_queue

BASE, RAISED = 4, 6
"""Both floors before the round, and what each wants to be: 6 + 4 is what there is."""

SLACK = 2.0
"""Seconds: a promise ends with a whole second, and somebody has to ask again."""


@dataclass
class Tally:
    """What came of some rounds."""

    rounds: int = 0
    both: int = 0
    one: int = 0
    neither: int = 0
    """Nobody's raise was stored at once; after the promise had ended, one was."""

    killed: int = 0
    retries: int = 0
    """How often a replica judged again because another one had written the ledger."""

    longest_neither: float = 0.0
    """Seconds from the kill to the next raise that was stored."""

    seconds: list[float] = field(default_factory=list)
    """Of each raise that was stored, in rounds that nothing held up and nobody was killed in."""

    lowering: list[float] = field(default_factory=list)
    """Of each write that raises nothing."""

    denials: list[str] = field(default_factory=list)


def run_rounds(replicas: Replicas, rounds: int, kills: int) -> Tally:
    """Every second round is held up somewhere; `kills` of them lose a replica between promise and storing."""
    tally = Tally()
    step = max(1, rounds // kills) if kills else rounds + 1
    for number in range(rounds):
        _round(replicas, tally, delay=0.3 * (number % 2), kill=number % step == step - 1)
    tally.retries = sum(len(each.logged("judging again")) for each in replicas.both)
    return tally


def _round(replicas: Replicas, tally: Tally, delay: float, kill: bool) -> None:
    for name in "ab":
        _lower(replicas, tally, name)
    until("the ledger is empty", lambda: replicas.promises() == [])
    replicas.balancer.longest_delay = 1.0 if kill else delay
    known = [len(each.reserved()) for each in replicas.both]
    with ThreadPoolExecutor(2) as pool:
        asked = {name: pool.submit(_write, replicas, name, RAISED, 0.0 if kill else delay) for name in "ab"}
        dead = _kill_who_promises(replicas, known, list(asked.values())) if kill else None
        answers = {name: future.result() for name, future in asked.items()}
    replicas.balancer.longest_delay = 0.0
    stored = _stored(replicas)
    tally.rounds += 1
    tally.killed += dead is not None
    tally.both += len(stored) == 2
    tally.one += len(stored) == 1
    tally.neither += not stored
    for name, (answer, seconds) in answers.items():
        if answer.code == 200 and not delay and not kill:
            tally.seconds.append(seconds)
        elif answer.code != 200 and name not in stored:
            tally.denials.append(answer.message)
    if dead is not None:
        if not stored:
            tally.longest_neither = max(tally.longest_neither, _wait_for_the_other(replicas, tally))
        dead.wait_until_ready()
        replicas.balancer.hang_up()


def _write(replicas: Replicas, name: str, floor: int, delay: float = 0.0) -> tuple[Answer, float]:
    """The answer, and how long it took."""
    time.sleep(random.uniform(0.0, delay))
    began = time.perf_counter()
    answer = replicas.api.update(race_queue(name, floor))
    return answer, time.perf_counter() - began


def _lower(replicas: Replicas, tally: Tally, name: str) -> None:
    def is_stored() -> bool:
        answer, seconds = _write(replicas, name, BASE)
        if answer.code == 200:
            tally.lowering.append(seconds)
        return answer.code == 200

    # Where all connections were just ended, the API server may find out by a write that fails.
    until("the floor is low", is_stored, 5)


def _stored(replicas: Replicas) -> list[str]:
    found: list[str] = []
    for name in "ab":
        value: Any = replicas.api.read(race_queue(name, 0))
        amount = int(value["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])
        if amount == RAISED:
            found.append(name)
    return found


def _kill_who_promises(
    replicas: Replicas, known: list[int], asked: list[Future[tuple[Answer, float]]]
) -> Replica | None:
    """Kills the replica that made a promise, before its answer can be with the API server; and starts it again."""
    while not all(future.done() for future in asked):
        for each, before in zip(replicas.both, known, strict=True):
            with suppress(ValueError):  # a line that is half written
                if len(each.reserved()) > before:
                    each.kill()
                    each.start()
                    return each
        time.sleep(0.005)
    return None


def _wait_for_the_other(replicas: Replicas, tally: Tally) -> float:
    """How long it takes until the one that was not promised anything can be raised."""
    began = time.perf_counter()
    promised = {each["name"] for each in replicas.promises()}
    name = next((name for name in "ab" if race_queue(name, 0)["metadata"]["name"] not in promised), "a")
    while True:
        with suppress(httpx.TransportError):
            answer = replicas.api.update(race_queue(name, RAISED))
            if answer.code == 200:
                return time.perf_counter() - began
            tally.denials.append(answer.message)
        assert time.perf_counter() - began < EXPIRY + SLACK, f"still not: {answer.message}"
        time.sleep(0.2)
