"""Nodes that go away after the fact: what is said, when, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api_server import ApiServer
from tests.door import FixedPolicy, StillSource
from tests.quota_objects import GPU, apply, check, checked, cohort, declared, flavor, known, node, queue
from tests.serving import serving, until
from webhook.capacity.balance import balance_of
from webhook.capacity.drift import CAPACITY_AWAY, FLOORS_EXCEED_HARDWARE, FLOORS_FIT, LONGEST, Drift, News
from webhook.engine.policy import Capacity, Policy
from webhook.kube.quantity import NANO
from webhook.kube.snapshot import Snapshot
from webhook.server.drift import DriftWatch
from webhook.server.reload import NOT_DISCOUNTED, START_AGAIN
from webhook.sources.source import Event

Object = dict[str, Any]
GRACE = 100
NODES = [node("n1", 5), node("n2", 5)]
TEN = [flavor("f"), *NODES, queue("a", {"f": 5}), queue("b", {"f": 5})]
GONE, BACK = node("n2", 5, ready="False"), node("n2", 5)

FLOORS = 'floors of nvidia.com/gpu in flavor f: ClusterQueue "a" 5 + ClusterQueue "b" 5 = 10'
AWAY = (
    f"capacity is away, 5 more guaranteed than usable: {FLOORS}; usable: 5 on 1 node; "
    "fix: bring nodes back, else admitted pods stay unscheduled"
)
EXCEED = (
    f"5 more guaranteed than there is hardware: {FLOORS}; hardware: 5 on 1 node; "
    "fix: add nodes or lower floors, else admitted pods stay unscheduled"
)
FIT = "floors of nvidia.com/gpu in flavor f fit again: 10 guaranteed, 10 usable"
BOTH = (("ClusterQueue", "a"), ("ClusterQueue", "b"))


class Story:
    """A cluster that is looked at time and again."""

    def __init__(self, *objects: Object, capacity: Capacity | None = None) -> None:
        self.capacity = replace(capacity or Capacity(), grace_seconds=GRACE)
        self.snapshot = known(*objects)
        self.drift = Drift()

    def put(self, *objects: Object) -> Story:
        apply(self.snapshot, *objects)
        return self

    def remove(self, kind: str, name: str) -> Story:
        self.snapshot.remove(kind, "", name)
        return self

    def look(self, now: float) -> list[News]:
        balance = balance_of(self.snapshot, self.capacity, Policy().accelerators)
        return self.drift.look(balance.now, balance.keys(), now, GRACE)

    def said(self, now: float) -> list[tuple[str, float]]:
        """Reason and beginning of what is said now."""
        return [(news.reason, news.since) for news in self.look(now)]


def test_a_node_leaves_comes_back_and_leaves_again() -> None:
    story = Story(*TEN)
    assert story.look(0) == []
    story.put(GONE)
    assert (story.look(10), story.drift.due) == ([], 110)
    assert story.look(109) == []
    assert story.look(110) == [News(CAPACITY_AWAY, GPU, ("f",), AWAY, 10, False, BOTH)]
    assert [story.look(now) for now in (111, 500)] == [[], []]
    story.put(BACK)
    assert (story.look(600), story.drift.due) == ([], 700)
    assert story.look(700) == [News(FLOORS_FIT, GPU, ("f",), FIT, 600, False, BOTH)]
    assert story.look(701) == []
    story.put(GONE)
    assert [story.said(now) for now in (4300, 4400, 4500)] == [[], [(CAPACITY_AWAY, 4300)], []]


WAYS: dict[str, tuple[Callable[[Story], Any], str, str]] = {
    "not Ready": (lambda story: story.put(GONE), CAPACITY_AWAY, AWAY),
    "Ready is unknown": (lambda story: story.put(node("n2", 5, ready="Unknown")), CAPACITY_AWAY, AWAY),
    "cordoned": (lambda story: story.put(node("n2", 5, cordoned=True)), CAPACITY_AWAY, AWAY),
    "its device plugin falls over": (
        lambda story: story.put(node("n2", capacity={GPU: "5"}, allocatable={GPU: "0"})),
        CAPACITY_AWAY,
        AWAY,
    ),
    "it offers no accelerator any more": (
        lambda story: story.put(node("n2", capacity={GPU: "0"}, allocatable={})),
        FLOORS_EXCEED_HARDWARE,
        EXCEED,
    ),
    "it is deleted": (lambda story: story.remove("Node", "n2"), FLOORS_EXCEED_HARDWARE, EXCEED),
    "it is another flavor's": (
        lambda story: story.put(flavor("f", gpu="h100"), node("n1", 5, {"gpu": "h100"})),
        FLOORS_EXCEED_HARDWARE,
        EXCEED,
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_go(way: str) -> None:
    act, reason, text = WAYS[way]
    story = Story(*TEN)
    assert story.look(0) == []
    act(story)
    assert story.look(1) == []
    assert story.look(101) == [News(reason, GPU, ("f",), text, 1, False, BOTH)]
    assert story.look(102) == []


def test_a_dip_and_a_recovery_that_are_short_raise_nothing() -> None:
    story = Story(*TEN)
    story.look(0)
    story.put(GONE)
    assert story.look(10) == []
    story.put(BACK)
    assert story.look(109) == []
    story.put(GONE)
    assert story.look(110) == [], "the first dip is over"
    assert story.said(210) == [(CAPACITY_AWAY, 110)]
    story.put(BACK)
    assert story.look(300) == []
    story.put(GONE)
    assert [story.look(now) for now in (399, 401, 900)] == [[], [], []]


def test_a_node_that_fails_and_is_then_deleted_is_one_shortage() -> None:
    story = Story(*TEN)
    story.look(0)
    story.put(GONE)
    assert story.look(10) == []
    story.remove("Node", "n2")
    assert story.look(100) == []
    assert story.said(110) == [(FLOORS_EXCEED_HARDWARE, 10)]
    assert story.look(300) == []
    story.put(GONE)
    assert story.look(301) == []
    assert story.said(401) == [(CAPACITY_AWAY, 301)], "it is another one now"


def test_a_shortage_that_grows_is_said_again() -> None:
    story = Story(*TEN)
    story.look(0)
    story.put(node("n2", 5, cordoned=True))
    story.look(1)
    assert story.said(101) == [(CAPACITY_AWAY, 1)]
    story.put(node("n1", capacity={GPU: 5}, allocatable={GPU: 3}))
    assert story.look(200) == []
    (news,) = story.look(300)
    assert news.text == AWAY.replace("5 more", "7 more").replace("usable: 5", "usable: 3")


def test_what_is_there_at_the_first_look_was_found() -> None:
    story = Story(*TEN, GONE)
    assert story.look(50) == []
    assert story.look(150) == [News(CAPACITY_AWAY, GPU, ("f",), AWAY, 50, True, BOTH)]
    story.put(BACK)
    story.look(200)
    assert story.look(300) == [News(FLOORS_FIT, GPU, ("f",), FIT, 200, False, BOTH)]


def test_what_is_not_evaluated_changes_nothing() -> None:
    story = Story(*TEN)
    story.look(0)
    story.put(GONE)
    story.look(1)
    assert story.said(101) == [(CAPACITY_AWAY, 1)]
    story.remove("Node", "n1").remove("Node", "n2")
    assert [story.look(now) for now in (200, 400)] == [[], []], "no Node is known"
    story.put(*NODES).remove("ResourceFlavor", "f")
    assert [story.look(now) for now in (500, 700)] == [[], []], "the flavor is not known"
    story.put(GONE, flavor("f"))
    assert [story.look(now) for now in (800, 1000)] == [[], []], "it has been said"


QUIET: dict[str, tuple[list[Object], Capacity]] = {
    "the flavor is ignored": ([], Capacity(ignore_flavors=frozenset({"f"}))),
    "as much more is declared": ([], Capacity(declared(f=15))),
    "the queues' hardware is elsewhere": (
        [
            check("remote", "kueue.x-k8s.io/multikueue"),
            *(queue(name, {"f": 5}, admissionChecksStrategy=checked("remote")) for name in "ab"),
        ],
        Capacity(),
    ),
    "what is left is enough": ([queue("a", {"f": 0})], Capacity()),
    "no floor is of an accelerator": ([queue(name, {"f": 500}, "cpu") for name in "ab"], Capacity()),
}


@pytest.mark.parametrize("case", QUIET)
def test_nothing_is_amiss(case: str) -> None:
    objects, capacity = QUIET[case]
    story = Story(*TEN, *objects, capacity=capacity)
    assert story.look(0) == []
    story.put(GONE)
    assert [story.look(now) for now in (1, 500)] == [[], []]


def test_who_was_told_hears_of_the_end() -> None:
    """Also a queue whose floor was lowered to nothing for it."""
    story = Story(*TEN, GONE)
    story.look(0)
    assert len(story.look(100)) == 1
    story.put(queue("a", {"f": 0}))
    story.look(200)
    text = "floors of nvidia.com/gpu in flavor f fit again: 5 guaranteed, 5 usable"
    assert story.look(300) == [News(FLOORS_FIT, GPU, ("f",), text, 200, False, BOTH)]


def test_flavors_apart_and_flavors_that_share_nodes() -> None:
    story = Story(
        *(flavor(name, **labels) for name, labels in (("x", {"x": "1"}), ("y", {"y": "1"}), ("z", {"z": "1"}))),
        node("n1", 4, {"x": "1"}),
        node("n2", 4, {"x": "1", "y": "1"}),
        node("n3", 4, {"z": "1"}),
        queue("a", {"x": 5, "y": 3}),
        cohort("c", {"z": 4}),
        queue("d", {"z": 0}),
    )
    assert story.look(0) == []
    story.put(node("n1", 4, {"x": "1"}, ready="False"), node("n3", 4, {"z": "1"}, cordoned=True))
    story.look(1)
    assert [(news.flavors, news.text.partition("; fix")[0], news.sources) for news in story.look(101)] == [
        (
            ("x", "y"),
            "capacity is away, 4 more guaranteed than usable: floors of nvidia.com/gpu in flavors x and y: "
            'ClusterQueue "a" 5 in x + ClusterQueue "a" 3 in y = 8; usable: 4 on 1 node of x and y',
            (("ClusterQueue", "a"),),
        ),
        (
            ("z",),
            'capacity is away, 4 more guaranteed than usable: floors of nvidia.com/gpu in flavor z: Cohort "c" 4; '
            "usable: 0, for what offers it is away",
            (("Cohort", "c"),),
        ),
    ]
    assert story.look(102) == []


def test_a_text_has_room_in_a_note() -> None:
    names = [f"{number:02}" + "é" * 100 for number in range(20)]
    story = Story(flavor("f" * 253), node("n1", 1), *(queue(name, {"f" * 253: 5}) for name in names))
    story.look(0)
    (news,) = story.look(100)
    assert 500 < len(news.text.encode()) <= LONGEST
    end = "; fix: add nodes or lower floors, else admitted pods stay unscheduled"
    assert news.text.endswith(f"18 more 90 = 100; hardware: 1 on 1 node{end}")
    assert len(news.sources) == 20
    worse = Story(flavor("f"), node("n1", 1), queue("é" * 1000, {"f": 5}))
    worse.look(0)
    (news,) = worse.look(100)
    assert len(news.text.encode()) <= LONGEST
    assert "é...; fix: add nodes" in news.text


# Against a recount from all that was seen

CHANGES = st.lists(st.tuples(st.integers(1, 150), st.sampled_from([3, 4, 5, 6])), max_size=25)


@settings(deadline=None, max_examples=300)
@given(CHANGES)
def test_it_says_what_has_lasted(changes: list[tuple[int, int]]) -> None:
    story = Story(flavor("f"), node("n", 5), queue("a", {"f": 5}))
    now, said = 0, 0
    seen: list[tuple[int, int]] = []
    for wait, gpus in [(0, 5), *changes]:
        now += wait
        story.put(node("n", capacity={GPU: 6}, allocatable={GPU: gpus}))
        seen.append((now, max(0, 5 - gpus)))
        other = [at for at, short in seen if all(later != said for when, later in seen if when >= at)]
        expected = []
        if other and now - other[0] >= GRACE:
            said = seen[-1][1]
            expected = [(CAPACITY_AWAY if said else FLOORS_FIT, other[0])]
        assert [(news.reason, news.since) for news in story.look(now)] == expected


# What looks, every second


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def watched(*objects: Object) -> tuple[StillSource, Clock, Callable[[float], list[Event]]]:
    """A source, the clock, and a look at some time that answers what was told by it."""
    snapshot = known(*objects)
    source, clock = StillSource(snapshot), Clock()
    watch = DriftWatch(FixedPolicy(Policy(capacity=Capacity(grace_seconds=GRACE))), source, clock)

    def look(now: float) -> list[Event]:
        clock.now = now
        source.told.clear()
        watch.look()
        return list(source.told)

    return source, clock, look


def with_uid(value: Object) -> Object:
    return {**value, "metadata": {**value["metadata"], "uid": f"uid-{value['metadata']['name']}"}}


def test_an_event_for_each_queue() -> None:
    objects = [flavor("f"), *NODES, queue("a", {"f": 6}), cohort("c", {"f": 2}), queue("b", {"f": 2}), queue("x", {})]
    source, _, look = watched(*map(with_uid, objects))
    assert look(0) == []
    apply(source.snapshot, GONE)
    assert [look(now) for now in (1, 60)] == [[], []]
    source.snapshot.remove("ClusterQueue", "", "b")
    text = (
        "capacity is away, 3 more guaranteed than usable: floors of nvidia.com/gpu in flavor f: "
        'ClusterQueue "a" 6 + Cohort "c" 2 = 8; usable: 5 on 1 node; '
        "fix: bring nodes back, else admitted pods stay unscheduled"
    )
    assert look(101) == [
        Event("ClusterQueue", "a", "uid-a", True, CAPACITY_AWAY, text, 1, False),
        Event("Cohort", "c", "uid-c", True, CAPACITY_AWAY, text, 1, False),
    ]
    source.snapshot.remove("ClusterQueue", "", "a")
    assert [look(now) for now in (102, 201)] == [[], []]
    text = "floors of nvidia.com/gpu in flavor f fit again: 2 guaranteed, 5 usable"
    assert look(202) == [Event("Cohort", "c", "uid-c", False, FLOORS_FIT, text, 102, False)]


@pytest.mark.parametrize("kind", ["Node", "ResourceFlavor", "ClusterQueue", "Cohort", "AdmissionCheck"])
def test_while_a_kind_is_not_known_nothing_is_said(kind: str) -> None:
    source, _, look = watched(*TEN)
    look(0)
    apply(source.snapshot, GONE)
    look(1)
    assert len(look(101)) == 2
    kept = list(source.snapshot.facts(kind))
    source.snapshot.forget(kind, "not allowed")
    assert [look(now) for now in (200, 400)] == [[], []]
    source.snapshot.replace(kind, kept)
    assert [look(now) for now in (500, 700)] == [[], []]


def test_a_change_that_changes_nothing_is_not_told_again() -> None:
    """A resync, a status, a heartbeat."""
    source, _, look = watched(*TEN, GONE)
    look(0)
    assert [event.found for event in look(100)] == [True, True]
    before: Snapshot = source.snapshot
    for kind in ("Node", "ClusterQueue", "ResourceFlavor"):
        before.replace(kind, list(before.facts(kind)))
    status = {"flavorsReservation": [{"name": "f", "resources": [{"name": GPU, "total": "3"}]}]}
    apply(before, {**queue("a", {"f": 5}), "status": status})
    assert [look(now) for now in (101, 300)] == [[], []]
    assert NANO * 3 in before.cluster_queues()[0].reserved.values()


# The server


def test_the_log_tells_of_what_is_found(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "cluster.yaml").write_text(yaml.safe_dump_all([*TEN, GONE]))
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\ncapacity: {graceSeconds: 0}\n")
    with serving("--state", str(tmp_path / "state"), "--policy", str(policy)) as server, server.client() as client:
        (line,) = until(lambda: server.logged("capacity is away"))
        assert line["since"].startswith("20")
        assert {key: line[key] for key in ("level", "logger", "resource", "flavors", "note", "queues")} == {
            "level": "warning",
            "logger": "floorkeeper.drift",
            "resource": GPU,
            "flavors": ["f"],
            "note": AWAY,
            "queues": ["ClusterQueue/a", "ClusterQueue/b"],
        }
        assert (
            'floorkeeper_flavor_unmet_usable{flavor="f",resource="nvidia.com/gpu"} 5.0' in client.get("/metrics").text
        )
        policy.write_text(policy.read_text().replace("0}", "0, declared: {f: {nvidia.com/gpu: 15}}}"))
        (line,) = until(lambda: server.logged("floors fit again"))
        assert (line["level"], line["note"]) == ("info", FIT)
    assert len(server.logged("capacity is away")) == 1


def test_pods_that_are_to_be_discounted_are_watched_from_the_start(tmp_path: Path) -> None:
    """And where they cannot be, or were not, that is said."""
    policy = tmp_path / "policy.yaml"
    head = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
    discount = f"{head}capacity: {{discountUnqueued: true}}\n"
    with ApiServer().running() as api:
        config = str(api.kubeconfig(tmp_path))

        def note(client: Any) -> str:
            return str(client.get("/readyz").json()["policy"]["note"])

        policy.write_text(head)
        with serving("--kubeconfig", config, "--policy", str(policy)) as server, server.client() as client:
            until(lambda: client.get("/readyz").status_code == 200)
            assert "UnqueuedPod" not in client.get("/readyz").json()["facts"]
            policy.write_text(discount)
            until(lambda: note(client) == START_AGAIN)
            policy.write_text(head)
            until(lambda: note(client) == "")
            assert len(until(lambda: server.logged(START_AGAIN))) == 1
        policy.write_text(discount)
        with serving("--kubeconfig", config, "--policy", str(policy)) as server, server.client() as client:
            until(lambda: client.get("/readyz").status_code == 200)
            assert client.get("/readyz").json()["facts"]["UnqueuedPod"]["known"] is True
            assert note(client) == ""
        api.forbidden.add(("list", "pods"))
        with serving("--kubeconfig", config, "--policy", str(policy)) as server, server.client() as client:
            until(lambda: note(client) == NOT_DISCOUNTED)
            assert len(until(lambda: server.logged(NOT_DISCOUNTED))) == 1
