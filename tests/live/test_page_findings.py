"""What an audit found as the page has it: also of the set-up, and of pods that no queue counts; in text that shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.live.page_world import NOW, World, base, reading, status
from tests.quota_objects import flavor, queue
from webhook.engine.verdict import Severity
from webhook.live.audit.report import SETUP, Audit, AuditFinding, Exempted, NotEvaluated, Reference
from webhook.live.audit.setup import CHECKS
from webhook.live.page.findings import GATED_PODS, MOST_NAMES, Audited, Violated, audited
from webhook.live.page.queues import EVERY_SECONDS

TURNED = "a\u202egpj.exe\u2066b\x1b[31m\x00\r\n\ud800"
SHOWN = "a\\u202egpj.exe\\u2066b\\x1b[31m\\x00\\r\\n\\ud800"


def shown(world: World) -> Any:
    world.passes(3)
    return orjson.loads(world.board.data().body)


def wrong(rule: str, severity: str = "warn", count: int = 1) -> Violated:
    return Violated(rule, severity, "Pod", "serving", ("m",), "spec: must be so, is not", "make it so", count)


def test_an_audit_in_its_own_words() -> None:
    objects = tuple(Reference("serving", "Deployment", f"m{index:02}", "apps/v1") for index in range(12))
    what = "spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%"
    finding = AuditFinding(
        "surge-without-quota", Severity.WARN, "spec", f"Deployment ...: {what}", what, "set it to 0", objects
    )
    audit = Audit(
        NOW, 2.5, ("serving",), 13, 12, (finding,),
        (Exempted(objects[0], "a test rig", ()),), (NotEvaluated("nodes", "not allowed to list nodes"),),
    )  # fmt: skip
    names = tuple(each.name for each in objects[:MOST_NAMES])
    violated = Violated("surge-without-quota", "warn", "Deployment", "serving", names, what, "set it to 0", 12)
    assert audited(audit, 300) == Audited(NOW, 300, (violated,), (("nodes", "not allowed to list nodes"),), 1, "", 2.5)


def test_the_set_up_is_told_from_what_somebody_wrote() -> None:
    world = World()
    found = (
        wrong("missing-queue-name", "deny"),
        wrong(f"{SETUP}ca-bundle", "deny"),
        wrong("a-rule"),
        wrong(GATED_PODS),
    )
    world.board.audit = Audited(NOW, 300, found, reason="")
    rules = [(rule["rule"], rule["setup"]) for rule in shown(world)["violations"]["rules"]]
    assert rules == [
        (f"{SETUP}ca-bundle", True),
        ("missing-queue-name", False),
        (GATED_PODS, True),
        ("a-rule", False),
    ]


def test_pods_at_the_gate_are_known_if_somebody_looked() -> None:
    assert GATED_PODS in {f"{SETUP}{check.id}" for check in CHECKS}
    world = World()
    assert shown(world)["violations"]["gatedPods"] is None
    world.board.audit = Audited(NOW, 300, (wrong("other", count=9),), reason="")
    assert shown(world)["violations"]["gatedPods"] == 0
    world.board.audit = replace(world.board.audit, findings=(wrong(GATED_PODS, count=3), wrong(GATED_PODS)))
    assert shown(world)["violations"]["gatedPods"] == 4
    world.board.audit = replace(world.board.audit, not_evaluated=((GATED_PODS, "not allowed to list pods"),))
    assert shown(world)["violations"]["gatedPods"] is None


def test_queues_that_do_not_say_how_many_wait_are_counted() -> None:
    world = World()
    world.queues.reading = reading({"model-a-cq": status("model-a-cq", 0, pending=3)})
    found = shown(world)["queues"]
    assert (found["waiting"], found["silent"]) == (3, 1)
    world.queues.reading = reading({"model-a-cq": status("model-a-cq", 0, pending=None)})
    found = shown(world)["queues"]
    assert (found["waiting"], found["silent"]) == (None, 2)


def test_what_would_turn_a_line_round_is_shown() -> None:
    world = World(*base(), queue("x", {TURNED: 1}, cohortName=TURNED), flavor(TURNED, pool="a"))
    world.trouble = {"Node": TURNED}
    world.queues.reading = reading({"x": status("x", 0, inactive=TURNED)}, reason=TURNED)
    world.denials.record(
        operation=TURNED, kind=TURNED, namespace=TURNED, name=TURNED, user=TURNED, dry_run=False, rules=[TURNED],
        messages=[TURNED],
    )  # fmt: skip
    found = Violated(TURNED, "deny", TURNED, TURNED, (TURNED,), TURNED, TURNED)
    world.board.audit = Audited(NOW, 300, (found,), ((TURNED, TURNED),), 0, TURNED)
    world.board.look()
    value = shown(world)
    texts = list(texts_of(value))
    assert all(text.isprintable() for text in texts)
    assert value["violations"]["rules"][0]["findings"][0]["what"] == SHOWN
    assert sum(SHOWN in text for text in texts) >= 15


def texts_of(value: Any) -> Any:
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield key
                yield from texts_of(each)
        case list():
            for each in value:
                yield from texts_of(each)


@pytest.mark.parametrize(("every", "seconds"), [(60.0, 2.0), (60.0, 100.0), (1.0, 5.0), (600.0, 30.0)])
def test_an_audit_is_old_within_three_of_its_intervals_and_not_before_the_next_is_due(
    every: float, seconds: float
) -> None:
    world = World()
    world.board.audit = Audited(NOW, every, reason="", seconds=seconds)
    limit = shown(world)["limits"]["audit"]
    # As the server does them: it rests for three times as long as one took, or its interval; then one is shown when it
    # is done.
    interval = max(every, 3 * seconds) + seconds
    assert interval + seconds < limit <= 3 * interval


def test_the_queues_are_old_after_three_of_their_intervals() -> None:
    assert shown(World())["limits"]["queues"] == 3 * EVERY_SECONDS
