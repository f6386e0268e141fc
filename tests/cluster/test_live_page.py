"""The page against the real control plane, with no more rights than the shipped ones, in headless Chromium."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.browser import Tab, browser
from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import Floorkeeper, account_kubeconfig
from tests.cluster.team import GPU, Team, node
from tests.live.page_watching import watching
from webhook.engine.policy import Policy
from webhook.live.audit.run import Asked, audit
from webhook.live.page.board import Board, facts_of
from webhook.live.page.denials import Denials
from webhook.live.page.queues import QueueReader
from webhook.live.page.server import PageServer, listen
from webhook.rules import NEEDS
from webhook.sources.cluster import ClusterSource

_SOON = 40  # seconds: the browser asks every five by itself


class Page:
    """The page as `serve` has it: beside the watches, on one event loop."""

    def __init__(self, kubeconfig: Path) -> None:
        self.denials = Denials()
        self.url = ""
        self._kubeconfig = kubeconfig
        self._loop = asyncio.new_event_loop()
        self._server: PageServer | None = None
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))

    async def _run(self) -> None:
        source = ClusterSource(self._kubeconfig, sorted(NEEDS))
        await source.start()
        queues = QueueReader(self._kubeconfig, every=1.0)
        board = Board(lambda: facts_of(source, Policy()), queues, self.denials)
        self._server = PageServer(board, listen("127.0.0.1", 0))
        self.url = self._server.url
        try:
            await self._server.run()
        finally:
            await source.stop()

    def start(self) -> None:
        self._thread.start()
        until("the page is served", lambda: self.url)

    def stop(self) -> None:
        if self._server is not None:
            self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join()
        self._loop.close()

    def data(self) -> Any:
        return httpx.get(f"{self.url}data.json", timeout=10, trust_env=False).json()

    def flavor(self, name: str) -> Any:
        return next((each for each in self.data()["flavors"]["rows"] if each["flavor"] == name), None)

    def queues(self, team: Team) -> dict[str, tuple[int, int | None, int | None, int | None]]:
        """Floor, used, borrowed and gated of the team's models."""
        found = {}
        for row in self.data()["queues"]["rows"]:
            if row["cohort"] == team.namespace:
                (quota,) = row["quotas"]
                name = row["queue"].removeprefix(f"{team.namespace}-")
                found[name] = quota["floor"], quota["used"], quota["borrowed"], row["gated"]
        return found


@contextmanager
def paged(kubeconfig: Path) -> Iterator[Page]:
    page = Page(kubeconfig)
    page.start()
    try:
        yield page
    finally:
        page.stop()


@pytest.fixture
def page(cluster: Cluster, floorkeeper: Floorkeeper, tmp_path: Path) -> Iterator[Page]:
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(account_kubeconfig(cluster)))
    with paged(tmp_path / "kubeconfig") as page:
        yield page


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with browser() as tab:
        yield tab


def hasten(tab: Tab) -> None:
    """Has the page ask now, as it does when somebody turns to it."""
    tab.run("document.dispatchEvent(new Event('visibilitychange'))")


def text(tab: Tab, selector: str) -> str:
    """What is there once the page has asked."""
    hasten(tab)
    return tab.text(selector)


def rows(tab: Tab, section: str, team: Team, *, at_once: bool = True) -> list[str]:
    """The rows of a section's table that are about the team, without its long name; `at_once` has the page ask."""
    if at_once:
        hasten(tab)
    found = tab.run(f"[...document.querySelectorAll('#{section}-body tbody tr')].map((row) => row.innerText)")
    return [row.replace(team.namespace, "T").replace("\t", " ") for row in found if team.namespace in row]


def test_the_page_follows_a_day_of_two_models(team: Team, page: Page, tab: Tab, tmp_path: Path) -> None:
    team.manage()
    cluster, name = team.cluster, team.namespace
    until("it knows the hardware", lambda: page.flavor(name) and page.flavor(name)["verdict"] == "fit", _SOON)

    # One model borrows all that the other leaves, and more of it is wanted than there is.
    # The other comes first: to take back what was borrowed is Kueue's, and takes long.
    cluster.apply(team.deployment("model-b", 4, "model-b-lq"))
    until("one is served", lambda: team.ready("model-b") == 4, 60)
    cluster.apply(team.deployment("model-a", 8, "model-a-lq"))
    until("all is in use", lambda: team.ready("model-a") == 6 and len(team.gated("model-a")) == 2, 60)
    expected = {"model-a": (5, 6, 1, 2), "model-b": (5, 4, 0, 0)}
    until("the queues are read", lambda: page.queues(team) == expected, _SOON)
    tab.show(1280)
    tab.open(page.url)
    until("the page shows it", lambda: rows(tab, "queues", team), _SOON)
    told = rows(tab, "queues", team)
    assert any(f"T, {GPU}" in row and row.endswith("5 6 1 2") for row in told), told
    assert any(row.endswith("5 4 0 0") for row in told), told
    assert f"for {name}/model-a-lq" in tab.text("#queues-body")
    assert "Read " in tab.text("[data-part=queues]")

    # A node goes away.
    second = node(f"{name}-2", {})
    cluster("cordon", second["metadata"]["name"])
    until(
        "the page says so by itself",
        lambda: any("away" in row for row in rows(tab, "floors", team, at_once=False)),
        _SOON,
    )
    assert f"5 more guaranteed than usable now: floors of {GPU} in flavor {name}" in tab.text("#floors-body")
    until("it is announced", lambda: f"Flavor {name}: away." in tab.text("#news"), 5)
    tab.run("document.querySelector('#changes').open = true")
    until("it is part of the past", lambda: any(row.endswith("10 10 5") for row in rows(tab, "changes", team)), _SOON)

    # Somebody is denied, in the words that kubectl shows.
    denied = cluster.create(team.deployment("model-c", 1), check=False).stderr
    assert "denied the request: " in denied
    message = denied.partition("denied the request: ")[2].strip()
    page.denials.record(
        operation="CREATE", kind="Deployment", namespace=name, name="model-c", user="admin", dry_run=False,
        rules=["missing-queue-name"], messages=[message],
    )  # fmt: skip
    until("the denial is shown", lambda: message in text(tab, "#denials-body"), _SOON)

    for width in (360, 1280):
        for dark in (False, True):
            tab.show(width, dark=dark)
            until("it is drawn anew", lambda width=width: tab.run("innerWidth") == width, 5)  # type: ignore[misc]
            assert tab.run("document.documentElement.scrollWidth") <= width
            tab.picture(tmp_path / f"page-{width}-{'dark' if dark else 'light'}.png")
    named = tab.tree()
    assert ("heading", "Floors and hardware") in named
    assert [role for role, _ in named].count("table") == 4
    charts = [label for role, label in named if role in ("image", "img") and label.startswith(f"{name}, ")]
    assert f"{name}, {GPU}: hardware 10, usable 5, floors 10. The table below says the same." in charts
    assert tab.complaints == []

    # It comes back.
    cluster("uncordon", second["metadata"]["name"])
    until("the page says so", lambda: any("fits" in row for row in rows(tab, "floors", team)), _SOON)


def test_what_may_not_be_read_is_not_evaluated(team: Team, tab: Tab, tmp_path: Path) -> None:
    """An account of the cluster that nobody has given any right."""
    team.kubectl("create", "serviceaccount", "nobody")
    config = yaml.safe_load(team.cluster.kubeconfig.read_text())
    token = team.kubectl("create", "token", "nobody").stdout.strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    with paged(tmp_path / "kubeconfig") as page:
        until("it was refused", lambda: "not allowed" in page.data()["queues"]["statusReason"], _SOON)
        until("so were the watches", lambda: "not allowed: list" in page.data()["flavors"]["reason"], _SOON)
        tab.show(360)
        tab.open(page.url)
        until("the page says so", lambda: "Not evaluated: " in text(tab, "#floors-body"), _SOON)
        assert "Not evaluated: ClusterQueue: " in tab.text("#queues-body")
        tiles = tab.run("[...document.querySelectorAll('#glance > div')].map((tile) => tile.className)")
        assert tiles == ["unknown", "unknown", "unknown", "fine"]


def test_what_is_wrong_is_shown_with_its_fix(team: Team, tab: Tab) -> None:
    """As the page of `floorkeeper audit --serve`: a mistake made before the namespace was managed, and mended then."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus", "namespace": team.namespace}}
    team.cluster.apply({**quota, "spec": {"hard": {f"requests.{GPU}": "10"}}})
    team.manage()
    asked = Asked(Policy(), {team.namespace})
    with watching(team.cluster.kubeconfig, lambda api: audit(api, asked), every=0.5) as page:
        until("it was audited", lambda: page.data()["violations"]["at"], _SOON)
        tab.show(360)
        tab.open(page.url)
        until("the mistake is shown", lambda: "gpu-resource-quota" in text(tab, "#violations-body"), _SOON)
        told = tab.text("#violations-body")
        assert f"ResourceQuota gpus in {team.namespace}" in told
        assert "Fix: " in told
        assert tab.text("#denials-body").startswith("Not evaluated: ")
        team.kubectl("delete", "resourcequota", "gpus")
        until("it is mended", lambda: "gpu-resource-quota" not in text(tab, "#violations-body"), _SOON)


def test_it_outlives_a_restart_of_the_api_server(cluster: Cluster, page: Page, tab: Tab) -> None:
    if cluster.place is None:
        pytest.fail("needs a control plane of the tests' own: unset KUBECONFIG")
    until("the queues are read", lambda: page.data()["clock"]["queues"] is not None, _SOON)
    tab.show(360)
    tab.open(page.url)
    until("it is drawn", lambda: "ago" in tab.text("#answered"), 10)
    cluster.restart("kube-apiserver")
    restarted = time.time()
    until("the queues are read again", lambda: _read_at(page) > restarted, 60)
    # A server that has just started asks to be asked again.
    until("nothing is wrong with them", lambda: page.data()["queues"]["statusReason"] == "", 60)
    until("the watches go on", lambda: page.data()["flavors"]["trouble"] == [], 60)
    until("and the page says nothing of it", lambda: text(tab, "#banner") == "", 20)


def _read_at(page: Page) -> float:
    """When the queues were read, by the clock of all."""
    clock = page.data()["clock"]
    return float(clock["now"] - clock["queues"])
