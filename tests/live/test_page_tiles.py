"""What the page's tiles and badges say at a glance, in headless Chromium: never fine by what cannot be known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.browser import Tab
from tests.live.page_shown import Shown, texts, violation
from tests.live.page_world import World, reading, status
from tests.serving import until
from webhook.live.page.findings import GATED_PODS, Audited

QUIET = {"model-a-cq": status("model-a-cq", 5), "model-b-cq": status("model-b-cq", 5)}


@pytest.fixture
def calm(tab: Tab) -> Iterator[Shown]:
    """A world where all is well, and known to be."""
    world = World()
    world.queues.reading = reading(QUIET)
    world.board.audit = Audited(world.now, 300, reason="")
    shown = Shown(tab, world)
    shown.open()
    yield shown
    shown.end()


def tiles(shown: Shown) -> list[tuple[str, str]]:
    """Level and text of each, as they are once the page has asked."""
    shown.again()
    until(lambda: _asked(shown))
    levels = shown.tab.run("[...document.querySelectorAll('#glance > div')].map((tile) => tile.className)")
    return list(zip(levels, texts(shown.tab, "#glance > div"), strict=True))


def _asked(shown: Shown) -> bool:
    """Whether what the page has is of this moment. It may have been asking already, of the one before."""
    if shown.tab.run("known.clock.now") == shown.world.now:
        return True
    shown.tab.run("ask()")
    return False


FINE = [
    ("fine", "Floorsfitevery flavor"),
    ("fine", "Gated0Workloads that wait in ClusterQueues; no gated pod at the last audit"),
    ("fine", "Violations0every rule holds"),
    ("fine", "Denied0in the last hour"),
]


def test_all_is_well(calm: Shown) -> None:
    assert tiles(calm) == FINE


def test_pods_that_are_in_no_queue_are_not_left_out(calm: Shown) -> None:
    audit = calm.world.board.audit
    calm.world.board.audit = replace(audit, findings=(violation(GATED_PODS, "warn", count=4),))
    assert tiles(calm)[1] == ("warn", "Gated4 podsat the last audit; 0 Workloads wait in ClusterQueues")
    calm.world.queues.reading = reading(QUIET | {"model-a-cq": status("model-a-cq", 5, pending=1)})
    assert tiles(calm)[1] == ("warn", "Gated4 podsat the last audit; 1 Workload waits in ClusterQueues")
    calm.world.queues.reading = reading(QUIET | {"model-a-cq": status("model-a-cq", 5, pending=4)})
    assert tiles(calm)[1] == ("warn", "Gated4Workloads that wait in ClusterQueues")


def test_none_is_fine_only_where_somebody_looked_at_pods(calm: Shown) -> None:
    outside = "Workloads that wait in ClusterQueues; no audit looked for pods outside of them"
    calm.world.board.audit = Audited(calm.world.now, 300, (), ((GATED_PODS, "not allowed to list pods"),), reason="")
    assert tiles(calm)[1] == ("unknown", f"Gated0{outside}")
    calm.world.board.audit = Audited(reason="no audits are done")
    assert tiles(calm)[1] == ("unknown", f"Gated0{outside}")


def test_none_is_fine_only_if_every_queue_says_so(calm: Shown) -> None:
    calm.world.queues.reading = reading(QUIET | {"model-a-cq": status("model-a-cq", 0, pending=None)})
    assert tiles(calm)[1] == ("unknown", "Gated0Workloads that wait in ClusterQueues; 1 queue not known")


def test_what_cannot_be_read_any_more_does_not_look_fine(calm: Shown) -> None:
    """At once, long before it is old."""
    calm.world.trouble = {"Node": "the API server does not answer"}
    calm.world.queues.reading = replace(calm.world.queues.reading, reason="the API server does not answer")
    calm.world.board.audit = replace(calm.world.board.audit, reason="the API server does not answer")
    doubtful = [("unknown", text) for _, text in FINE[:3]]
    for index, (level, text) in enumerate(tiles(calm)[:3]):
        name = text.partition("not current: ")
        assert (level, name[0] + name[2]) == doubtful[index]
        assert name[1]
    assert calm.tab.text("#banner") == ""
    for section in ("floors", "queues", "violations"):
        assert calm.tab.run(f"document.querySelector('#{section}').className") == "stale"
    fits, unknown = (
        calm.tab.run(f"getComputedStyle(document.querySelector('{which}')).color")
        for which in ("#floors-body .badge.fine", "#glance .unknown")
    )
    assert fits == unknown


@pytest.mark.parametrize(
    ("seconds", "levels"),
    [
        (25, ["fine", "fine", "fine", "fine"]),
        (31, ["fine", "unknown", "fine", "fine"]),
        (121, ["unknown", "unknown", "fine", "fine"]),
        (751, ["unknown", "unknown", "unknown", "fine"]),
    ],
)
def test_what_was_read_more_than_three_times_its_interval_ago_is_old(
    calm: Shown, seconds: float, levels: list[str]
) -> None:
    calm.world.passes(seconds - 3)
    calm.world.age = seconds
    found = tiles(calm)
    assert [level for level, _ in found] == levels
    for level, text in found:
        assert ("old: " in text) == (level == "unknown")


def test_what_is_known_to_wait_is_not_hidden_by_an_old_audit(calm: Shown) -> None:
    calm.world.queues.reading = reading(QUIET | {"model-a-cq": status("model-a-cq", 5, pending=2)})
    calm.world.board.audit = replace(calm.world.board.audit, at=calm.world.now - 5000)
    assert tiles(calm)[1] == ("warn", "Gated2Workloads that wait in ClusterQueues")


def test_tiles_grow_old_though_nothing_is_answered(calm: Shown) -> None:
    """As on a machine that slept: what was drawn before does not stand until the next answer."""
    assert tiles(calm) == FINE
    calm.tab.run("known.busy = true")
    calm.tab.run("known.date -= 3600000")
    until(lambda: texts(calm.tab, "#glance .unknown"))
    assert len(texts(calm.tab, "#glance .unknown")) == 4
    assert calm.tab.run("document.title") == "Old · Floorkeeper"


def test_the_set_up_is_not_called_written(calm: Shown) -> None:
    found = tuple(violation(f"setup/{name}", level) for name, level in (("ca-bundle", "deny"), ("gated-pods", "warn")))
    calm.world.board.audit = replace(calm.world.board.audit, findings=(*found, violation("z-rule", "warn")))
    tiles(calm)
    assert texts(calm.tab, "#violations-body .row") == [
        "setup/ca-bundle1 · set-up: wrong",
        "setup/gated-pods1 · set-up: look",
        "z-rule1 · warning",
    ]


def test_without_scripts_it_says_what_to_do(calm: Shown) -> None:
    tab = calm.tab
    try:
        tab("Emulation.setScriptExecutionDisabled", value=True)
        tab.open(calm.url)
        lines = [line for line in tab.text("body").splitlines() if line.strip()]
    finally:
        tab("Emulation.setScriptExecutionDisabled", value=False)
    told = (
        "Scripts are off, and this page draws itself with its own: allow scripts for this address and load it again, "
        "or read the data as JSON."
    )
    assert lines == ["Skip to the content", "Floorkeeper", told, "Read-only. The data as JSON"]
