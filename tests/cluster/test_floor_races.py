"""Two raises at once, of which one fits, never both pass; and never neither for longer than a promise holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster, until
from tests.cluster.floor_race import BASE, RAISED, SLACK, run_rounds
from tests.cluster.replicas import ACCELERATOR, EXPIRY, FLAVOR, Replicas, race_queue, two_replicas

ROUNDS, KILLS = 20, 2


@pytest.fixture(scope="module")
def replicas(cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    with two_replicas(cluster, api, tmp_path_factory.mktemp("races")) as replicas:
        yield replicas


def test_never_both_and_never_neither_for_long(replicas: Replicas) -> None:
    tally = run_rounds(replicas, ROUNDS, KILLS)
    assert (tally.rounds, tally.both) == (ROUNDS, 0)
    assert tally.one >= ROUNDS - KILLS, "where nobody was killed, one passed"
    assert tally.killed == KILLS
    assert tally.longest_neither < EXPIRY + SLACK
    assert all(each.reserved() for each in replicas.both), "both replicas were asked"
    reserved = re.compile(r"6 \(reserved until \d\d:\d\d:\d\d UTC for a write that is not stored yet\)")
    assert any(reserved.search(message) for message in tally.denials)


def test_a_dry_run_is_judged_and_reserves_nothing(replicas: Replicas) -> None:
    for name in "ab":
        assert replicas.api.update(race_queue(name, BASE)).code == 200
    until("the ledger is empty", lambda: replicas.promises() == [])
    for name in "abab":
        assert replicas.api.update(race_queue(name, RAISED), dry_run=True).code == 200
    assert replicas.promises() == []
    answer = replicas.api.update(race_queue("a", RAISED + 1), dry_run=True)
    assert answer.code == 403
    assert f"floors of {ACCELERATOR} in flavor {FLAVOR}" in answer.message


def test_a_new_queue_is_promised_its_floor_by_the_uid_that_it_will_have(replicas: Replicas, api: Api) -> None:
    new = race_queue("new", 2)
    try:
        answer = api.create(new)
        assert answer.code == 201, answer.message
        (promise,) = replicas.promises()
        assert (promise["created"], promise["version"]) == (answer.value["metadata"]["uid"], "")
        until("the ledger is empty", lambda: replicas.promises() == [], EXPIRY - 1)
    finally:
        api.delete(new)
