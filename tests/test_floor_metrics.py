"""Metrics of floors and hardware: whole samples, for a table of clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as classic

from tests.door import Door, StillSource
from tests.quota_objects import GPU, apply, check, checked, cohort, declared, flavor, known, node, queue
from webhook.engine.policy import Capacity, Policy
from webhook.kube.snapshot import Snapshot

Object = dict[str, Any]
Samples = dict[str, dict[str, float]]
FLAVOR = ("hardware", "usable", "floors", "unmet_hardware", "unmet_usable", "unclaimed")
"""The metrics of a flavor that is evaluated, in the order of the tables below."""

TEN = [flavor("f"), node("n1", 5), node("n2", 5), queue("a", {"f": 6}), queue("b", {"f": 4})]
OVERLAP = [
    flavor("all"),
    flavor("x", x="1"),
    flavor("y", y="1"),
    node("n1", 4, {"x": "1"}),
    node("n2", 4, {"x": "1", "y": "1"}),
    node("n3", 4),
]


def page(snapshot: Snapshot, capacity: Capacity, accept: str = "") -> str:
    door = Door(StillSource(snapshot), Policy(capacity=capacity))
    with closing(door):
        return door.send("/metrics", method="GET", headers={"accept": accept})[2].decode()


def samples(text: str, parser: Any = classic) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Name without its beginning, label values in the order of the labels' names, and value."""
    for family in parser(text):
        for sample in family.samples:
            if sample.name.startswith(("floorkeeper_flavor_", "floorkeeper_queue_")):
                values = tuple(value for _, value in sorted(sample.labels.items()))
                yield sample.name.removeprefix("floorkeeper_"), values, sample.value


def of_flavors(snapshot: Snapshot, capacity: Capacity) -> dict[tuple[str, ...], Any]:
    """By flavor: what FLAVOR lists, None for what there is no sample of. Flavor and reason: floors not evaluated."""
    found: dict[tuple[str, ...], Any] = {}
    for name, labels, value in samples(page(snapshot, capacity)):
        if name == "flavor_not_evaluated":
            flavor, reason, resource = labels
            found[flavor, reason] = value
        elif name.startswith("flavor_"):
            flavor, resource = labels
            row = found.setdefault((flavor,), [None] * len(FLAVOR))
            row[FLAVOR.index(name.removeprefix("flavor_"))] = value
        else:
            continue
        assert resource == GPU
    return found


TABLE: dict[str, tuple[list[Object], Capacity, dict[tuple[str, ...], Any]]] = {
    "floors fit": (TEN, Capacity(), {("f",): [10, 10, 10, 0, 0, 0]}),
    "floors exceed": ([*TEN, queue("a", {"f": 8})], Capacity(), {("f",): [10, 10, 12, 2, 2, 0]}),
    "floors leave some": ([*TEN, queue("a", {"f": 3})], Capacity(), {("f",): [10, 10, 7, 0, 0, 3]}),
    "a node is not Ready": ([*TEN, node("n2", 5, ready="False")], Capacity(), {("f",): [10, 5, 10, 0, 5, 0]}),
    "a node is cordoned": ([*TEN, node("n2", 5, cordoned=True)], Capacity(), {("f",): [10, 5, 10, 0, 5, 0]}),
    "a device plugin fell over": (
        [*TEN, node("n2", capacity={GPU: "5"}, allocatable={GPU: "0"})],
        Capacity(),
        {("f",): [10, 5, 10, 0, 5, 0]},
    ),
    "GPUs are added": ([*TEN, node("n2", 8)], Capacity(), {("f",): [13, 13, 10, 0, 0, 3]}),
    "a node offers none": ([*TEN, node("n2", None)], Capacity(), {("f",): [5, 5, 10, 5, 5, 0]}),
    "a flavor matches no node": (
        [*TEN, flavor("g", gpu="h100"), queue("c", {"g": 2})],
        Capacity(),
        {("f",): [10, 10, 10, 0, 0, 0], ("g",): [0, 0, 2, 2, 2, 0]},
    ),
    "capacity is declared": (
        TEN,
        Capacity(declared(f=16, cloud=8)),
        {("f",): [16, 16, 10, 0, 0, 6], ("cloud",): [8, 8, 0, 0, 0, 8]},
    ),
    "a flavor is ignored": (TEN, Capacity(ignore_flavors=frozenset({"f"})), {}),
    "other resources are no accelerators": ([*TEN, queue("c", {"f": 5}, "cpu")], Capacity(), {
        ("f",): [10, 10, 10, 0, 0, 0]
    }),
    "no Node is known": (TEN[:1] + TEN[3:], Capacity(), {
        ("f",): [None, None, 10, None, None, None], ("f", "no-nodes"): 2
    }),
    "a flavor is not there yet": ([*TEN, queue("c", {"later": 2})], Capacity(), {
        ("f",): [10, 10, 10, 0, 0, 0],
        ("later",): [None, None, 2, None, None, None],
        ("later", "no-flavor"): 1,
    }),
    "a floor is elsewhere": (
        [
            *TEN,
            check("remote", "kueue.x-k8s.io/multikueue"),
            queue("c", {"f": 7}, admissionChecksStrategy=checked("remote")),
        ],
        Capacity(),
        {("f",): [10, 10, 10, 0, 0, 0], ("f", "admission-check"): 1},
    ),
    "flavors share nodes": (
        [*OVERLAP, queue("a", {"x": 7}), queue("b", {"y": 3})],
        Capacity(),
        # Together x and y want 10 of 8. Of the 12 that `all` matches they leave those of n3.
        {("all",): [12, 12, 0, 0, 0, 4], ("x",): [8, 8, 7, 2, 2, 0], ("y",): [4, 4, 3, 2, 2, 0]},
    ),
    "a flavor without floors claims nothing": (
        [*OVERLAP, queue("a", {"x": 7})],
        Capacity(),
        {("all",): [12, 12, 0, 0, 0, 5], ("x",): [8, 8, 7, 0, 0, 1], ("y",): [4, 4, 0, 0, 0, 1]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLE)
def test_flavors(case: str) -> None:
    objects, capacity, expected = TABLE[case]
    assert of_flavors(known(*objects), capacity) == expected


@pytest.mark.parametrize("kind", ["Node", "ResourceFlavor", "ClusterQueue", "Cohort", "AdmissionCheck"])
def test_no_number_is_invented(kind: str) -> None:
    snapshot = known(*TEN)
    snapshot.forget(kind, "not allowed")
    text = page(snapshot, Capacity())
    assert list(samples(text)) == []
    assert "# TYPE floorkeeper_flavor_usable gauge\n" in text
    assert "# TYPE floorkeeper_queue_ceiling gauge\n" in text


def of_queues(text: str) -> dict[tuple[str, ...], float]:
    """By metric, flavor, kind and queue."""
    found = {}
    for name, labels, value in samples(text):
        if name.startswith("queue_"):
            assert labels[3] == GPU
            found[name.removeprefix("queue_"), *labels[:3]] = value
    return found


def test_queues_have_a_floor_and_a_ceiling() -> None:
    snapshot = known(
        *TEN[:3],
        queue("a", {"f": {"nominalQuota": 3, "borrowingLimit": 2}}, cohortName="c"),
        queue("b", {"f": {"nominalQuota": "1500m", "lendingLimit": 1}, "g": 1}, cohortName="c"),
        queue("alone", {"f": 0}),
        queue("cpu", {"f": 4}, "cpu"),
        cohort("c", {"f": 4}, parentName="d"),
        queue("lost", {"f": 1}, cohortName="round"),
        cohort("round", parentName="round"),
    )
    assert of_queues(page(snapshot, Capacity())) == {
        ("floor", "f", "ClusterQueue", "a"): 3,
        ("ceiling", "f", "ClusterQueue", "a"): 5,
        ("floor", "f", "ClusterQueue", "b"): 2,
        ("ceiling", "f", "ClusterQueue", "b"): 9,
        ("floor", "g", "ClusterQueue", "b"): 1,
        ("ceiling", "g", "ClusterQueue", "b"): 1,
        ("floor", "f", "ClusterQueue", "alone"): 0,
        ("ceiling", "f", "ClusterQueue", "alone"): 0,
        ("floor", "f", "Cohort", "c"): 4,
        ("floor", "f", "ClusterQueue", "lost"): 1,
    }


def test_a_page_follows_quota() -> None:
    snapshot = known(*TEN[:3], queue("a", {"f": 6}, cohortName="c"))
    door = Door(StillSource(snapshot), Policy())
    with closing(door):
        both = {("floor", "f", "ClusterQueue", "a"): 6.0, ("ceiling", "f", "ClusterQueue", "a"): 6.0}
        assert of_queues(door.metrics()) == both
        apply(snapshot, cohort("c", {"f": 4}))
        more = {("floor", "f", "Cohort", "c"): 4.0, ("ceiling", "f", "ClusterQueue", "a"): 10.0}
        assert of_queues(door.metrics()) == both | more
        snapshot.remove("ClusterQueue", "", "a")
        assert of_queues(door.metrics()) == {("floor", "f", "Cohort", "c"): 4.0}
        snapshot.forget("Cohort", "not allowed")
        assert of_queues(door.metrics()) == {}
        snapshot.replace("Cohort", [])
        apply(snapshot, queue("a", {"f": 6}, cohortName="c"))
        assert of_queues(door.metrics()) == both


def test_both_formats_say_the_same() -> None:
    odd = 'a"b\\c\nd'
    snapshot = known(*TEN, queue(odd, {"f": 1}))
    text = page(snapshot, Capacity())
    strict = page(snapshot, Capacity(), "application/openmetrics-text; version=1.0.0")
    assert strict.endswith("# EOF\n")
    assert list(samples(strict, open_metrics)) == list(samples(text))
    assert of_queues(text)["floor", "f", "ClusterQueue", odd] == 1


def test_what_a_queue_holds_is_what_kueue_says() -> None:
    snapshot = known(*TEN, cohort("c", {"f": 4}))
    door = Door(StillSource(snapshot), Policy())

    def reserved() -> dict[tuple[str, ...], float]:
        return {labels: value for name, labels, value in samples(door.metrics()) if name == "queue_reserved"}

    with closing(door):
        assert reserved() == {}
        apply(snapshot, {**queue("a", {"f": 6}), "status": {"flavorsReservation": held("7", cpu="2500m")}})
        assert reserved() == {("f", "a", GPU): 7.0}
        apply(snapshot, {**queue("a", {"f": 6}), "status": {"flavorsReservation": held("0")}})
        assert reserved() == {("f", "a", GPU): 0.0}
        snapshot.forget("Node", "not allowed")
        assert reserved() == {}
        assert "# TYPE floorkeeper_queue_reserved gauge\n" in door.metrics()


def held(gpus: str, **others: str) -> list[Object]:
    """status.flavorsReservation of a ClusterQueue with one flavor."""
    totals = {GPU: gpus, **others}
    return [{"name": "f", "resources": [{"name": name, "total": total} for name, total in totals.items()]}]
