"""What benchmarks/run sends, registers and reckons. How fast anything is, is not tested."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from benchmarks.speed import __main__ as speed
from benchmarks.speed.hooks import ALL, deployment
from benchmarks.speed.load import Load
from benchmarks.speed.review import MARKER, cases, large, post
from benchmarks.speed.scale import write_state
from benchmarks.speed.series import MANY, ONE, Goal, Runs, Series
from webhook.sources.manifests import read_facts


def test_reviews_are_those_of_the_issue() -> None:
    mutating, validating, left_alone = cases()
    assert [6_400 < len(case.body) < 6_800 for case in (mutating, validating)] == [True, True]
    assert [case.path for case in (mutating, validating, left_alone)] == ["/mutate", "/validate", "/mutate"]
    for case in cases():
        request = case.review["request"]
        assert MARKER in request["uid"]
        assert MARKER in request["name"]
        assert request["dryRun"] is False


def test_the_length_of_a_request_is_its_body_s() -> None:
    head, _, body = post("/mutate", b'{"a":1}', "127.0.0.1:1", X_Y="z").partition(b"\r\n\r\n")
    assert body == b'{"a":1}'
    assert head.split(b"\r\n")[3:] == [b"Content-Length: 7", b"X-Y: z"]


@pytest.mark.parametrize("shape", ["arguments", "variables"])
def test_large_objects_have_a_mebibyte(shape: str) -> None:
    assert 1.0 < len(large(shape).body) / 2**20 < 1.1


def test_each_contender_has_its_own_deployments() -> None:
    assert [deployment(name)["metadata"]["labels"]["speed"] for name in ALL] == list(ALL)
    assert "managedFields" not in deployment("none")["metadata"]


def test_ratios_are_of_the_same_rounds() -> None:
    mine, theirs = Series((2.0, 8.0, 3.0)), Series((1.0, 4.0, 1.0))
    assert (mine.over(theirs), mine.beyond(theirs).middle, mine.middle, mine.spread) == (2.0, 2.0, 3.0, 2.0)
    runs = Runs()
    for connections in (MANY, ONE):
        runs.add(connections, Load(100, 2.0, 1, 0.001, 0.002), 0.5)
    assert (runs.cost().middle, runs.rate.middle, runs.p50.middle, runs.failed) == (0.005, 50.0, 0.001, 2)


def test_goals_are_met_at_their_limit() -> None:
    assert [Goal("a", value, 1.7).met for value in (1.7, 1.71)] == [True, False]
    assert [Goal("a", value, 1.5, at_least=True).met for value in (1.5, 1.49)] == [True, False]


def test_a_state_has_as_many_of_each(tmp_path: Path) -> None:
    write_state(tmp_path / "cluster.yaml", 12)
    facts, notes = read_facts(tmp_path)
    assert {kind: len(facts[kind]) for kind in ("Node", "ClusterQueue", "LocalQueue", "Namespace")} == {
        "Node": 12,
        "ClusterQueue": 12,
        "LocalQueue": 12,
        "Namespace": 11,
    }
    assert notes == []
    assert orjson.loads((tmp_path / "cluster.yaml").read_bytes().split(b"---\n")[1])["kind"] == "Namespace"


def test_an_unknown_section_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        speed.main(["direkt"])
    assert "unknown: direkt; sections are direct, through, large, memory, scale" in capsys.readouterr().err
