"""What the page shows of a state of the cluster: dicts in, one JSON value out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from tests.live.page_world import NOW, World, base, reading, status
from tests.quota_objects import GPU, check, checked, flavor, known, node, queue
from webhook.kube.quota_facts import MULTIKUEUE_CONTROLLER
from webhook.kube.snapshot import Snapshot
from webhook.live.page.board import OLD_FACTS, OLD_QUEUES
from webhook.live.page.findings import Audited, Violated
from webhook.live.page.queues import QueueReading
from webhook.live.page.state import MOST_FINDINGS, MOST_FLAVORS, MOST_QUEUES

Json = dict[str, Any]


def shown(world: World) -> Json:
    """All of it, read by the page a moment later."""
    world.passes(3)
    value: Json = orjson.loads(world.board.data().body)
    return value


def row(world: World, name: str = "a100") -> Json:
    (found,) = (each for each in shown(world)["flavors"]["rows"] if each["flavor"] == name)
    found_row: Json = found
    return found_row


FITS = {
    "flavor": "a100",
    "resource": GPU,
    "floors": 10,
    "parts": [
        {"kind": "ClusterQueue", "name": "model-a-cq", "amount": 5},
        {"kind": "ClusterQueue", "name": "model-b-cq", "amount": 5},
    ],
    "otherParts": 0,
    "uncounted": [],
    "hardware": 10,
    "usable": 10,
    "verdict": "fit",
    "text": "every floor can be had at the same time",
}


def test_floors_that_fit() -> None:
    assert shown(World())["flavors"] == {"reason": "", "trouble": [], "rows": [FITS], "more": 0}


def test_a_node_is_away() -> None:
    world = World()
    world.change(node("n2", 5, {"pool": "a"}, cordoned=True))
    text = (
        f"5 more guaranteed than usable now: floors of {GPU} in flavor a100: "
        'ClusterQueue "model-a-cq" 5 + ClusterQueue "model-b-cq" 5 = 10; usable: 5 on 1 node; fix: bring nodes back'
    )
    assert row(world) == FITS | {"usable": 5, "verdict": "away", "text": text}


def test_floors_exceed_the_hardware() -> None:
    world = World()
    world.change(queue("model-a-cq", {"a100": 7}, cohortName="llm"))
    found = row(world)
    assert (found["verdict"], found["floors"], found["hardware"]) == ("exceed", 12, 10)
    assert found["text"] == (
        f"2 more guaranteed than there is: floors of {GPU} in flavor a100: "
        'ClusterQueue "model-a-cq" 7 + ClusterQueue "model-b-cq" 5 = 12; hardware: 10 on 2 nodes; '
        "fix: add nodes or lower floors"
    )


def test_hardware_that_no_floor_claims() -> None:
    world = World()
    world.change(node("n3", 4, {"pool": "a"}))
    found = row(world)
    assert (found["verdict"], found["text"]) == (
        "spare",
        "4 that no floor claims: quota that nobody has stays idle",
    )


def test_a_flavor_that_shares_all_its_nodes_has_nothing_to_spare() -> None:
    world = World(*base(), flavor("other", pool="a"))
    assert row(world, "other") | {"floors": 0, "hardware": 10, "verdict": "fit"} == row(world, "other")


def test_a_flavor_that_does_not_exist_is_not_evaluated() -> None:
    found = row(World(*base(), queue("c", {"typo": 2})), "typo")
    reason = 'ResourceFlavor "typo" does not exist yet'
    assert found["floors"] == 2
    assert [found[key] for key in ("hardware", "usable", "verdict", "text")] == [None, None, "not evaluated", reason]


def test_floors_of_hardware_elsewhere_are_named() -> None:
    away = queue("far", {"a100": 3}, admissionChecksStrategy=checked("multi"))
    found = row(World(*base(), check("multi", MULTIKUEUE_CONTROLLER), away))
    assert (found["floors"], len(found["uncounted"])) == (10, 1)
    assert found["uncounted"][0].startswith('ClusterQueue "far" 3: ')


def test_nothing_is_known_yet() -> None:
    world = World(snapshot=Snapshot())
    world.queues.reading = QueueReading()
    world.age = None
    found = shown(world)
    reason = "AdmissionCheck, ClusterQueue, Cohort, Node, ResourceFlavor: not read yet"
    assert found["flavors"] == {"reason": reason, "trouble": [], "rows": [], "more": 0}
    queues = {"reason": "ClusterQueue: not read yet", "statusReason": "not read yet", "rows": [], "more": 0}
    assert found["queues"] == queues | {"waiting": None, "silent": 0}
    assert found["violations"] == {
        "reason": "no audit has been done yet", "at": None, "count": 0, "gatedPods": None, "exempt": 0, "rules": [],
        "notEvaluated": [],
    }  # fmt: skip
    assert found["history"] == {"start": 0, "step": 60, "more": 0, "series": []}
    assert world.board.clock() == {"now": NOW + 3, "facts": None, "queues": None, "audit": None}


def test_one_kind_that_may_not_be_read_is_named() -> None:
    world = World()
    world.snapshot.forget("Node", "cannot be listed: 403")
    world.trouble = {"ClusterQueue": "the watch broke off", "Deployment": "which nobody here shows"}
    found = shown(world)
    assert found["flavors"]["reason"] == "Node: cannot be listed: 403"
    assert found["flavors"]["trouble"] == ["ClusterQueue: the watch broke off"]
    assert [each["queue"] for each in found["queues"]["rows"]] == ["model-a-cq", "model-b-cq"]


def test_queues_with_their_use() -> None:
    key = {"flavor": "a100", "resource": GPU, "floor": 5}
    local = [{"namespace": "serving", "name": "model-a-lq", "gated": 0}]
    assert shown(World())["queues"] == {
        "reason": "",
        "statusReason": "",
        "waiting": 1,
        "silent": 0,
        "more": 0,
        "rows": [
            {
                "queue": "model-a-cq",
                "cohort": "llm",
                "inactive": "",
                "gated": 0,
                "localQueues": local,
                "otherLocalQueues": 0,
                "quotas": [{**key, "used": 7, "borrowed": 2}],
            },
            {
                "queue": "model-b-cq",
                "cohort": "llm",
                "inactive": "",
                "gated": 1,
                "localQueues": [{**local[0], "name": "model-b-lq"}],
                "otherLocalQueues": 0,
                "quotas": [{**key, "used": 3, "borrowed": 0}],
            },
        ],
    }


def test_a_queue_without_status_has_a_floor_and_nothing_made_up() -> None:
    world = World()
    world.queues.reading = QueueReading(reason="the API server does not answer")
    found = shown(world)["queues"]
    assert found["statusReason"] == "the API server does not answer"
    for each in found["rows"]:
        assert (each["gated"], each["localQueues"]) == (None, None)
        assert [(quota["floor"], quota["used"], quota["borrowed"]) for quota in each["quotas"]] == [(5, None, None)]


def test_an_inactive_queue_says_why() -> None:
    world = World()
    world.queues.reading = reading({"model-a-cq": status("model-a-cq", 0, pending=None, inactive="no such flavor")})
    first, second = shown(world)["queues"]["rows"]
    assert (first["inactive"], first["gated"]) == ("no such flavor", None)
    assert (second["inactive"], second["quotas"][0]["used"]) == ("", None)


def test_queues_without_accelerators_are_not_shown() -> None:
    world = World(*base(), queue("batch", {"cpus": 64}, resource="cpu"))
    assert [each["queue"] for each in shown(world)["queues"]["rows"]] == ["model-a-cq", "model-b-cq"]


def test_large_clusters_are_cut_and_it_is_said() -> None:
    many = range(MOST_QUEUES + 40)
    objects = [node("n", 8), *(flavor(f"f{index:03}", of=str(index)) for index in many)]
    world = World(*objects, *(queue(f"q{index:03}", {f"f{index:03}": 1}) for index in many))
    world.queues.reading = reading({"q339": status("q339", 0, pending=9)})
    found = shown(world)
    assert (len(found["flavors"]["rows"]), found["flavors"]["more"]) == (MOST_FLAVORS, len(many) - MOST_FLAVORS)
    assert (len(found["queues"]["rows"]), found["queues"]["more"]) == (MOST_QUEUES, 40)
    assert found["queues"]["rows"][-1]["queue"] == "q339"
    assert (found["queues"]["waiting"], found["queues"]["silent"]) == (9, len(many) - 1)
    assert world.board.history.past().left_out == 0
    world.board.look()
    # Flavors without hardware are known to have none: they are part of the past as well, as far as it is kept.
    assert world.board.history.past().left_out == len(many) - 32


def wrong(rule: str, severity: str, name: str = "m", count: int = 1) -> Violated:
    return Violated(rule, severity, "Deployment", "serving", (name,), "spec: must be so, is not", "make it so", count)


def test_violations_by_rule_the_denied_ones_first() -> None:
    world = World()
    world.board.audit = Audited(
        NOW - 60,
        300,
        (
            wrong("b-rule", "warn"),
            wrong("z-rule", "deny"),
            wrong("a-rule", "patch", count=3),
            wrong("z-rule", "deny", "a"),
        ),
        (("Node", "not allowed to list nodes"),),
        2,
        "",
    )
    found = shown(world)["violations"]
    assert [(rule["rule"], rule["severity"], rule["count"]) for rule in found["rules"]] == [
        ("z-rule", "deny", 2),
        ("a-rule", "patch", 3),
        ("b-rule", "warn", 1),
    ]
    assert (found["count"], found["exempt"], found["at"], found["reason"]) == (6, 2, NOW - 60, "")
    assert found["notEvaluated"] == [{"what": "Node", "why": "not allowed to list nodes"}]
    assert found["rules"][0]["findings"][0] == {
        "kind": "Deployment",
        "namespace": "serving",
        "names": ["a"],
        "what": "spec: must be so, is not",
        "fix": "make it so",
        "count": 1,
    }


def test_many_findings_of_a_rule_are_counted() -> None:
    world = World()
    world.board.audit = Audited(NOW, 300, tuple(wrong("r", "deny", f"m{index:03}") for index in range(50)), reason="")
    (rule,) = shown(world)["violations"]["rules"]
    assert (rule["count"], len(rule["findings"]), rule["more"]) == (50, MOST_FINDINGS, 50 - MOST_FINDINGS)


def test_where_nothing_is_denied_the_page_cannot_know() -> None:
    world = World()
    world.board.denials = None
    found = shown(world)
    assert (found["denials"], found["denialsKnown"]) == ([], False)


def test_the_content_is_the_same_until_something_happens() -> None:
    world = World()
    first = world.board.data()
    world.passes(1)
    assert world.board.data() is first
    world.passes(600)
    assert world.board.data().tag == first.tag
    world.change(node("n2", 5, {"pool": "a"}, cordoned=True))
    world.passes(3)
    assert world.board.data().tag != first.tag


def test_the_clock_says_how_old_each_part_is() -> None:
    world = World()
    world.board.audit = Audited(NOW - 100, 300, reason="")
    world.passes(5)
    world.age = 40.04
    assert world.board.clock() == {"now": NOW + 5, "facts": 40.0, "queues": 5.0, "audit": 105.0}
    assert shown(world)["limits"] == {"facts": OLD_FACTS, "queues": OLD_QUEUES, "audit": 750.0}
    world.board.audit = replace(world.board.audit, every=0)
    assert shown(world)["limits"]["audit"] is None


def test_facts_of_an_unbounded_age_are_not_known() -> None:
    world = World()
    world.age = float("inf")
    assert world.board.clock()["facts"] is None


def test_no_objects_at_all() -> None:
    found = shown(World(snapshot=known()))
    assert (found["flavors"]["rows"], found["flavors"]["reason"], found["queues"]["rows"]) == ([], "", [])
