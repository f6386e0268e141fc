"""The benchmarks run at a small size and print all their figures. How large these are is not tested."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import check, floors, start
from benchmarks.fleet import COHORTS, FLAVORS, GPU, Fleet, cohort, flavor, node
from benchmarks.floors import MEASURED, POLICY, filled
from webhook.capacity.balance import balance_of

SMALL = Fleet(nodes=70, queues=100, workloads=40, unqueued=3)


def test_every_figure_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--nodes 10 70 --queues 100 --workloads 40 --rounds 10 --runs 1"
    floors.main(words.split())
    machine, first, second, head, *rows = capsys.readouterr().out.splitlines()
    assert "cores" in machine
    assert (first.partition(":")[0], second.partition(":")[0]) == ("10 nodes", "70 nodes")
    assert head.split()[:2] == ["nodes", "10:"]
    assert [row.partition("  ")[0].strip() or row.strip().partition("  ")[0] for row in rows] == [
        what.strip() for what, _, _ in MEASURED
    ]
    for row in rows:
        assert all(float(cell) > 0 for cell in row.split()[-10:]), row


def test_the_sizes_are_those_that_were_asked_for() -> None:
    size = Fleet()
    assert (size.nodes, size.queues, size.workloads) == (5000, 1000, 20000)
    parents = {f"cohort-{number}": cohort(number)["spec"].get("parentName", "") for number in range(COHORTS)}
    levels = Counter(1 + bool(parent) + bool(parents.get(parent)) for parent in parents.values())
    assert (levels, COHORTS, FLAVORS) == ({1: 1, 2: 7, 3: 42}, 50, 40)
    labels = [flavor(number)["spec"]["nodeLabels"].items() for number in range(FLAVORS)]
    nodes = [node(number)["metadata"]["labels"].items() for number in range(300)]
    matched = [[index for index, wanted in enumerate(labels) if wanted <= found] for found in nodes]
    assert {index for found in matched if len(found) > 1 for index in found} == set(range(10))
    assert {index for found in matched for index in found} == set(range(FLAVORS))


def test_floors_fit_the_hardware_before_one_is_raised() -> None:
    for fleet in (Fleet(nodes=500, workloads=0), Fleet(workloads=0)):
        balance = balance_of(filled(fleet), POLICY.capacity, POLICY.accelerators)
        unmet = [balance.assess(GPU, [f"flavor-{number}"]).unmet_hardware for number in range(FLAVORS)]
        assert unmet == [0] * FLAVORS


def test_what_is_created_is_what_the_fleet_counts() -> None:
    counts = {kind: len(list(values)) for kind, values in SMALL.objects().items()}
    assert counts == {
        "Namespace": 21,
        "ConfigMap": 1,
        "ServiceAccount": 20,
        "ResourceFlavor": 40,
        "Cohort": 50,
        "ClusterQueue": 100,
        "LocalQueue": 100,
        "Node": 70,
        "Deployment": 40,
        "Pod": 43,
    }


def test_help_tells_the_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        start.main(["--help"])
    said = capsys.readouterr().out
    for word in ("--nodes", "default: 5000", "--queues", "default: 1000", "--workloads", "default: 20000"):
        assert word in said


def test_check_prints_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    check.main(["--files", "3", "--objects", "92", "--runs", "1", "--cold-runs", "1"])
    _, _, *cold, _, head, first, second, third, ratio = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[0] for row in cold] == ["python -c pass", "one manifest"]
    assert head.split()[:4] == ["folder", "objects", "patches", "denials"]
    sizes = ("3 files, 30 Deployments", "71", "30", "0"), ("1 files, 10 Deployments", "25", "10", "0")
    for row, size in zip((first, second), sizes, strict=True):
        assert row.split("  ")[0].strip() == size[0]
        assert row[30:].split()[:3] == list(size[1:])
    assert third.startswith("4 files, 40 Deployments ")
    assert ratio.startswith("3.8 times the objects take ")
