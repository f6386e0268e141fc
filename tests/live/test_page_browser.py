"""The page in headless Chromium: what it shows, with data and without, and what becomes of it."""

from __future__ import annotations

import time

from tests.browser import Tab
from tests.live.page_shown import Shown, deny, texts
from tests.live.page_world import NOW, World, reading, status
from tests.quota_objects import GPU, flavor, node, queue
from tests.serving import until
from webhook.kube.snapshot import Snapshot
from webhook.live.page.findings import Audited, Violated
from webhook.live.page.queues import QueueReading
from webhook.live.page.server import listen, served

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"

# What is there


def test_everything_is_shown_and_nothing_complains(shown: Shown) -> None:
    shown.open()
    assert texts(shown.tab, "#glance div") == [
        "Floors2 shortof 4 flavors",
        "Gated4Workloads that wait in ClusterQueues",
        "Violations5and 1 thing not evaluated",
        "Denied1in the last hour",
    ]
    assert texts(shown.tab, "#floors-body .badge") == ["away", "exceeds", "not evaluated", "unclaimed"]
    assert texts(shown.tab, "#floors-body tbody tr") == [
        f"a100{GPU}; away10105",
        f"h100-sxm-of-a-name-that-is-long{GPU}; exceeds988",
        f"nowhere{GPU}; not evaluated3not known–not known–",
        f"spare{GPU}; unclaimed044",
    ]
    assert texts(shown.tab, "#queues-body tbody") == [
        "lostin no cohort; no LocalQueue leads herenot active: references missing ResourceFlavor(s): nowhere"
        f"nowhere, {GPU}3000",
        "team-of-a-rather-long-name-for-embeddingscohort h; no LocalQueue leads here"
        f"h100-sxm-of-a-name-that-is-long, {GPU}9not known–not known–not known–",
        f"model-a-cqcohort llm; for serving/model-a-lqa100, {GPU}5720",
        f"model-b-cqcohort llm; for serving/model-b-lqa100, {GPU}5304",
    ]  # fmt: skip
    assert texts(shown.tab, "#violations-body .row") == [
        "missing-queue-name1 · denial",
        "surge-without-quota3 · patch",
        "short-grace-period1 · warning",
    ]
    assert texts(shown.tab, "#violations-body .fix") == ["Fix: say 1"] * 3
    assert "Deployment model-a and 2 more in serving" in shown.tab.text("#violations-body")
    assert "Not evaluated: Node: not allowed to list nodes" in shown.tab.text("#violations-body")
    denials = shown.tab.text("#denials-body")
    for part in ("argocd-application-controller", "CREATE Deployment serving/model-c", "must name a LocalQueue"):
        assert part in denials
    assert len(texts(shown.tab, "#history-body figure")) == 3
    shown.tab.run("document.querySelector('#changes').open = true")
    assert texts(shown.tab, "#changes-body tbody tr")[0].endswith(f"a100, {GPU}10105")
    assert shown.tab.run("document.title") == "Floors 2 short · Floorkeeper"
    assert shown.tab.complaints == []


def test_names_and_messages_are_text(shown: Shown) -> None:
    world = shown.world
    world.change(queue(MARKUP, {"a100": 1}, cohortName=MARKUP), queue("x", {MARKUP: 1}), flavor(MARKUP, pool="a"))
    deny(world, MARKUP, MARKUP, MARKUP)
    world.board.audit = Audited(
        world.now,
        300,
        (Violated(MARKUP, "deny", MARKUP, MARKUP, (MARKUP,), MARKUP, MARKUP),),
        ((MARKUP, MARKUP),),
        0,
        MARKUP,
    )
    world.queues.reading = reading({MARKUP: status(MARKUP, 1, inactive=MARKUP)}, reason=MARKUP)
    world.board.look()
    shown.open()
    for section in ("floors", "queues", "violations", "denials", "history"):
        assert MARKUP in shown.tab.text(f"#{section}"), section
    assert shown.tab.run("document.querySelectorAll('img, main script').length") == 0
    assert shown.tab.complaints == []


def test_under_a_foreign_name_there_is_nothing_to_read(shown: Shown) -> None:
    """A browser takes every name below localhost for this machine, without asking anybody."""
    shown.open()
    shown.tab.open(shown.url.replace("127.0.0.1", "evil.localhost"))
    told = shown.tab.text("body")
    assert told.startswith('the page is not taken under the name "evil.localhost:')
    asked = shown.tab.run("fetch('/data.json').then((answer) => answer.text()).catch((error) => String(error))")
    assert "a100" not in asked
    shown.tab.open(shown.url.replace("127.0.0.1", "localhost"))
    until(lambda: "ago" in shown.tab.text("#answered"))


def test_before_anything_is_known(tab: Tab) -> None:
    world = World(snapshot=Snapshot())
    world.queues.reading, world.age = QueueReading(), None
    shown = Shown(tab, world)
    try:
        shown.open(360)
        kinds = "AdmissionCheck, ClusterQueue, Cohort, Node, ResourceFlavor: not read yet"
        for section, told in (
            ("floors", ["Floors and hardware", f"Not evaluated: {kinds}."]),
            ("queues", ["Queues", "Not evaluated: ClusterQueue: not read yet."]),
            ("violations", ["Violations", "Not evaluated: no audit has been done yet."]),
            ("denials", ["Recent denials", "None since this process began."]),
            ("history", ["The last hours", "Nothing was seen yet."]),
        ):
            assert [line for line in tab.text(f"#{section}").splitlines() if line] == told
        levels = tab.run("[...document.querySelectorAll('#glance > div')].map((each) => each.className)")
        assert levels == ["unknown", "unknown", "unknown", "fine"]
        assert tab.complaints == []
    finally:
        shown.end()


# What becomes of it


def test_it_goes_on_by_itself(shown: Shown) -> None:
    shown.open()
    shown.world.queues.reading = reading({"model-a-cq": status("model-a-cq", 10, 5)}, at=shown.world.now)
    shown.world.passes(3)
    until(lambda: texts(shown.tab, "#queues-body tbody")[2].endswith("51050"))


def test_what_changes_is_announced_once_and_in_words(shown: Shown) -> None:
    shown.open()
    assert shown.tab.text("#news") == ""
    shown.world.change(node("n2", 5, {"pool": "a"}))
    deny(shown.world, "bob", "model-d")
    shown.again()
    until(lambda: shown.tab.text("#news"))
    news = "Floors: 1 short, of 4 flavors. Denied: 2, in the last hour. Flavor a100: fits."
    assert shown.tab.text("#news") == news
    assert shown.tab.run("document.querySelector('#news').getAttribute('role')") == "status"
    shown.again()
    time.sleep(0.5)
    assert shown.tab.text("#news") == news


def test_what_has_not_changed_is_left_alone(shown: Shown) -> None:
    shown.open()
    shown.tab.run("window.mark = document.querySelector('#queues-body table')")
    shown.tab.run("window.rule = document.querySelector('#violations-body .rule')")
    shown.world.queues.reading = reading({"model-a-cq": status("model-a-cq", 9, 4)}, at=shown.world.now)
    shown.again()
    until(lambda: shown.tab.run("window.mark.isConnected") is False)
    assert shown.tab.run("window.rule.isConnected") is True


def test_a_server_that_is_gone_is_told_and_nothing_counts_as_current(shown: Shown) -> None:
    shown.open()
    shown.end()
    shown.tab.run("document.dispatchEvent(new Event('visibilitychange'))")
    until(lambda: shown.tab.text("#banner"))
    told = shown.tab.text("#banner")
    assert told.startswith("Floorkeeper is not there: no connection. What follows is as it was at ")
    assert shown.tab.run("document.body.classList.contains('gone')")
    for part in ("facts", "queues", "audit"):
        assert shown.tab.text(f"[data-part={part}]").startswith("Old: ")
    # What is known stays, and is marked.
    assert texts(shown.tab, "#queues-body tbody")
    assert texts(shown.tab, "#glance .unknown")[0] == "Floors2 shortold: of 4 flavors"
    assert len(texts(shown.tab, "#glance .unknown")) == 4
    assert shown.tab.run("document.title") == "Old · Floorkeeper"
    # It comes back on the same port, and so does the page.
    shown.sockets = listen("127.0.0.1", int(shown.url.rstrip("/").rpartition(":")[2]))
    with served(shown.world.board, shown.sockets):
        shown.again()
        until(lambda: not shown.tab.text("#banner"))
        assert not shown.tab.run("document.body.classList.contains('gone')")


def test_old_data_are_called_old_while_the_server_answers(shown: Shown) -> None:
    shown.open()
    assert shown.tab.text("[data-part=facts]").startswith("Read ")
    shown.world.age = 600.0
    shown.world.trouble = {"Node": "the API server does not answer"}
    shown.world.queues.reading = reading(at=shown.world.now - 100, reason="the API server does not answer")
    shown.again()
    until(lambda: shown.tab.text("#banner"))
    assert shown.tab.text("#banner") == (
        "Floorkeeper answers, and part of this is old: Floors and hardware, Use of the queues."
    )
    facts, queues = shown.tab.text("[data-part=facts]"), shown.tab.text("[data-part=queues]")
    assert facts == "Old: read 10 min ago; not current: Node: the API server does not answer."
    assert queues == "Old: read 2 min ago; not current: the API server does not answer."


def test_a_wrong_clock_of_the_reader_makes_nothing_old(shown: Shown) -> None:
    # The world is at NOW, more than a year from the browser's clock.
    assert abs(time.time() - NOW) > 86400
    shown.open()
    assert shown.tab.text("#banner") == ""
    assert shown.tab.text("[data-part=queues]") in {f"Read {seconds} s ago." for seconds in range(4)}
