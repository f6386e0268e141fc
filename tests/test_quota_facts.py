"""Facts of quota and hardware: each field by the object's own apiVersion, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.quota_objects import GPU, KUEUE, apply, check, cohort, fact_of, flavor, known, node, queue
from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.node_facts import NodeFact, ResourceFlavorFact
from webhook.kube.quantity import NANO
from webhook.kube.quota_facts import (
    AdmissionCheckFact,
    ClusterQueueFact,
    CohortFact,
    FlavorCheck,
    ResourceGroup,
    counted,
)
from webhook.kube.snapshot import FactsMissing, Snapshot

Object = dict[str, Any]
OLD = "kueue.x-k8s.io/v1beta1"


def written(kind: str, spec: Object, version: str = KUEUE) -> Fact:
    return fact_of({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec})


def a_queue(cohort: str = "", *checks: FlavorCheck) -> ClusterQueueFact:
    return ClusterQueueFact("x", cohort, (), {}, {}, checks=checks, namespaces=None)


LISTED = {"admissionChecks": ["a"]}
STRATEGY = {"admissionChecksStrategy": {"admissionChecks": [{"name": "b", "onFlavors": ["f"]}, {"name": "c"}]}}
FROM_STRATEGY = (FlavorCheck("b", frozenset({"f"})), FlavorCheck("c"))
VERSIONS: dict[str, tuple[Fact, Fact]] = {
    "cohort of v1beta1": (written("ClusterQueue", {"cohort": "c", "cohortName": "d"}, OLD), a_queue("c")),
    "cohort of v1beta2": (written("ClusterQueue", {"cohort": "c", "cohortName": "d"}), a_queue("d")),
    "cohort of v1beta2 in the old spelling": (written("ClusterQueue", {"cohort": "c"}), a_queue()),
    "parent of v1alpha1": (
        written("Cohort", {"parent": "p", "parentName": "q"}, "kueue.x-k8s.io/v1alpha1"),
        CohortFact("x", "p"),
    ),
    "parent of v1beta1": (written("Cohort", {"parent": "p", "parentName": "q"}, OLD), CohortFact("x", "q")),
    "parent of v1beta2": (written("Cohort", {"parent": "p", "parentName": "q"}), CohortFact("x", "q")),
    "checks of v1beta1": (
        written("ClusterQueue", {**LISTED, **STRATEGY}, OLD),
        a_queue("", FlavorCheck("a"), *FROM_STRATEGY),
    ),
    "checks of v1beta2": (written("ClusterQueue", {**LISTED, **STRATEGY}), a_queue("", *FROM_STRATEGY)),
}


@pytest.mark.parametrize("case", VERSIONS)
def test_fields_go_by_the_objects_own_version(case: str) -> None:
    found, expected = VERSIONS[case]
    assert found == expected


def test_everything_of_a_cluster_queue() -> None:
    value = queue(
        "a-cq",
        {
            "f": {"nominalQuota": "4", "borrowingLimit": 0, "lendingLimit": None},
            "g": {"nominalQuota": "0.5", "lendingLimit": 1},
        },
        cohortName="c",
        preemption={
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority"},
            "withinClusterQueue": "LowerOrNewerEqualPriority",
        },
    )
    value["status"] = {"flavorsReservation": [{"name": "f", "resources": [{"name": GPU, "total": "3"}]}]}
    assert fact_of(value) == ClusterQueueFact(
        "a-cq",
        "c",
        (ResourceGroup(frozenset({GPU}), ("f", "g")),),
        nominal={("f", GPU): 4 * NANO, ("g", GPU): NANO // 2},
        reserved={("f", GPU): 3 * NANO},
        borrowing={("f", GPU): 0},
        lending={("g", GPU): NANO},
        checks=(),
        reclaim_within_cohort="Any",
        borrow_within_cohort="LowerPriority",
        within_cluster_queue="LowerOrNewerEqualPriority",
    )


def test_of_a_quota_that_is_listed_twice_the_last_counts() -> None:
    twice = cohort("x", {"f": {"nominalQuota": 1, "lendingLimit": 1}})
    twice["spec"]["resourceGroups"] += cohort("x", {"f": 2})["spec"]["resourceGroups"]
    assert fact_of(twice) == CohortFact("x", "", {("f", GPU): 2 * NANO})


def test_a_check_and_a_flavor() -> None:
    assert fact_of(check("c", "example.com/x")) == AdmissionCheckFact("c", "example.com/x")
    assert fact_of(flavor("f", pool="x")) == ResourceFlavorFact("f", {"pool": "x"})
    assert fact_of(flavor("f")) == ResourceFlavorFact("f")


def test_everything_of_a_node() -> None:
    value = node("n", labels={"pool": "x"}, cordoned=True, taints=("a", "b"), ready="Unknown", allocatable={GPU: "7"})
    assert fact_of(value) == NodeFact(
        "n",
        {"kubernetes.io/hostname": "n", "pool": "x"},
        capacity={GPU: 8 * NANO},
        allocatable={GPU: 7 * NANO},
        ready=False,
        cordoned=True,
        taints=("a", "b"),
    )


def test_a_heartbeat_changes_no_fact() -> None:
    before, later = node("n"), node("n")
    later["metadata"] |= {"resourceVersion": "2", "annotations": {"x": "y"}}
    later["status"]["conditions"][1] |= {"lastHeartbeatTime": "2026-11-29T10:00:00Z"}
    later["status"]["allocatable"] = {**later["status"]["allocatable"], "memory": "1Ki"}
    later["status"]["images"] = [{"names": ["x"]}]
    assert not known(before).put("Node", fact_of(later))


def test_a_node_written_by_hand_may_have_no_conditions() -> None:
    value = node("n")
    del value["status"]["conditions"]
    fact = fact_of(value)
    assert isinstance(fact, NodeFact)
    assert fact.ready


DAMAGED: list[Any] = [None, 1, "x", [], {}, [None], {"x": None}, [{"name": 1}], {"nvidia.com/gpu": []}]


@pytest.mark.parametrize("kind", ["Node", "ResourceFlavor", "ClusterQueue", "Cohort", "AdmissionCheck"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_objects_raise_nothing(kind: str, damage: Any) -> None:
    fields = ("taints", "nodeLabels", "resourceGroups", "admissionChecks", "admissionChecksStrategy", "preemption")
    for part in (damage, dict.fromkeys(fields, damage)):
        status = {"capacity": damage, "allocatable": damage, "conditions": damage, "flavorsReservation": damage}
        for about in (damage, status):
            for labels in (damage, {"a": damage}):
                metadata = {"name": "x", "labels": labels}
                value = {"apiVersion": OLD, "kind": kind, "metadata": metadata, "spec": part, "status": about}
                assert PROJECTIONS[kind](value) is not None


COUNTED: dict[tuple[str, int], int] = {
    (GPU, 0): 0,
    (GPU, 1): NANO,
    (GPU, NANO): NANO,
    (GPU, NANO + 1): 2 * NANO,
    ("memory", 1): NANO,
    ("cpu", 1): NANO // 1000,
    ("cpu", NANO // 2): NANO // 2,
    ("cpu", NANO // 2 + 1): NANO // 2 + NANO // 1000,
}


@pytest.mark.parametrize("case", COUNTED)
def test_what_kueue_makes_of_an_amount(case: tuple[str, int]) -> None:
    assert counted(*case) == COUNTED[case]


# The snapshot


def test_a_snapshot_lists_them_by_name() -> None:
    objects = [
        *(queue(name, {"f": 1}) for name in "ba"),
        *map(cohort, "dc"),
        *map(flavor, "gf"),
        *(node(name) for name in ("n2", "n1")),
        check("c", "x"),
    ]
    snapshot = known(*objects)
    assert [fact.name for fact in snapshot.cluster_queues()] == ["a", "b"]
    assert [fact.name for fact in snapshot.cohorts()] == ["c", "d"]
    assert [fact.name for fact in snapshot.flavors()] == ["f", "g"]
    assert snapshot.node_names() == ["n1", "n2"]
    assert snapshot.cohort("c") == CohortFact("c")
    assert snapshot.cohort("only-named") is None
    assert snapshot.flavor("f") == ResourceFlavorFact("f")
    assert snapshot.admission_check("c") == AdmissionCheckFact("c", "x")


def test_kinds_that_nobody_read_are_missing_and_not_empty() -> None:
    snapshot = Snapshot("not read yet")
    for read in (snapshot.cluster_queues, snapshot.cohorts, snapshot.flavors, snapshot.node_names):
        with pytest.raises(FactsMissing):
            read()


class Recorder:
    kinds = frozenset({"Node", "LocalQueue"})

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, bool, bool]] = []

    def changed(self, kind: str, before: Fact | None, after: Fact | None) -> None:
        fact = after if after is not None else before
        assert fact is not None
        self.heard.append((kind, fact.name, before is not None, after is not None))


def test_an_observer_hears_of_each_change_once() -> None:
    snapshot = known(node("n1"), node("n2"), queue("q", {"f": 1}))
    observer = Recorder()
    snapshot.observe(observer)
    assert sorted(observer.heard) == [("Node", "n1", False, True), ("Node", "n2", False, True)]
    observer.heard.clear()

    apply(snapshot, node("n1"), node("n2", 4), node("n3"), queue("q", {"f": 2}))
    snapshot.remove("Node", "", "n1")
    snapshot.remove("Node", "", "n1")
    snapshot.replace("Node", [fact_of(node("n3")), fact_of(node("n4"))])
    snapshot.replace_namespace("LocalQueue", "team", [fact_of(local_queue("a"))])
    snapshot.forget("Node", "not allowed")
    snapshot.replace("Node", [fact_of(node("n4"))])
    assert observer.heard == [
        ("Node", "n2", True, True),
        ("Node", "n3", False, True),
        ("Node", "n1", True, False),
        ("Node", "n2", True, False),
        ("Node", "n4", False, True),
        ("LocalQueue", "a", False, True),
        ("Node", "n3", True, False),
        ("Node", "n4", True, False),
        ("Node", "n4", False, True),
    ]
    observer.heard.clear()
    snapshot.leave(observer)
    apply(snapshot, node("n5"))
    assert observer.heard == []


def local_queue(name: str) -> Object:
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": name, "namespace": "team"}, "spec": {}}
