"""The page in headless Chromium as people read it: by eye, by keyboard alone, and by a screen reader."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.browser import Tab
from tests.live.page_shown import Shown, deny
from tests.live.page_world import World, reading, status
from tests.quota_objects import GPU, Object, flavor, node, queue
from tests.serving import until

WIDTHS = (360, 1280)

# How it looks


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_readable(shown: Shown, width: int, dark: bool, tmp_path: Path) -> None:
    shown.open(width, dark=dark)
    shown.tab.run("document.querySelector('#changes').open = true")
    assert shown.tab.run("document.documentElement.scrollWidth") <= width
    assert shown.tab.run(_CUT_OFF) == []
    ground = shown.tab.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(18, 21, 26)" if dark else "rgb(244, 245, 247)")
    measured = shown.tab.run(_CONTRAST)
    assert len(measured) > 100
    assert [each for each in measured if each[0] < 4.5] == []
    shown.tab.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 50_000


_CUT_OFF = """[...document.querySelectorAll('main *')]
  .filter((each) => !each.closest('.unseen, svg') && each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.textContent.slice(0, 60))"""

_CONTRAST = """(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => parts(colour).slice(0, 3).map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, index) => sum + each * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    const clear = parts(colour).length === 4 && parts(colour)[3] === 0;
    return clear && element.parentElement ? ground(element.parentElement) : colour;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || element.closest('script, noscript, .unseen')) continue;
    const style = getComputedStyle(element);
    const own = light(element.closest('svg') ? style.fill : style.color);
    const [low, high] = [own, light(ground(element))].sort((a, b) => a - b);
    found.push([(high + 0.05) / (low + 0.05), walker.currentNode.data.trim().slice(0, 40)]);
  }
  return found;
})()"""


_BARS = """[...document.querySelectorAll('#floors-body svg')].map((svg) =>
  [...svg.querySelectorAll('rect')].map((rect) => [rect.getAttribute('class'), rect.width.baseVal.value]))"""


def test_bars_are_as_long_as_what_they_stand_for(shown: Shown) -> None:
    shown.open()
    away, exceeds, nowhere, _ = shown.tab.run(_BARS)
    unit = (away[0][1] + 2) / 10
    assert [name for name, _ in away] == ["hardware-bar", "usable-bar", "floor-bar", "floor-bar"]
    assert [round(width / unit, 1) for _, width in away[1:2]] == [5.0]
    assert [name for name, _ in exceeds] == ["hardware-bar", "usable-bar", "floor-bar", "over-bar"]
    assert exceeds[-1][1] == pytest.approx(unit - 2)
    assert [name for name, _ in nowhere] == ["floor-bar"]


def test_motion_only_for_those_who_like_it(shown: Shown) -> None:
    behaviour = "getComputedStyle(document.documentElement).scrollBehavior"
    shown.open(calm=True)
    assert shown.tab.run(behaviour) == "auto"
    shown.open(calm=False)
    assert shown.tab.run(behaviour) == "smooth"


# Without eyes, and without a mouse


def test_what_a_screen_reader_meets(shown: Shown) -> None:
    shown.open()
    shown.tab.run("document.querySelector('#changes').open = true")
    tree = shown.tab.tree()
    named = {role: [name for each, name in tree if each == role] for role, _ in tree}
    for landmark in ("banner", "main", "contentinfo"):
        assert len(named[landmark]) == 1, landmark
    assert named["navigation"] == ["Sections"]
    regions = ["At a glance", "Floors and hardware", "Queues", "Violations", "Recent denials", "The last hours"]
    assert named["region"] == regions
    headings = named["heading"]
    assert headings[0] == "Floorkeeper"
    assert [name for name in headings if name in regions] == regions
    assert f"a100{GPU}" in [name.replace(" ", "") for name in headings]
    assert "missing-queue-name" in headings
    captions = named["table"]
    assert [caption.partition(",")[0] for caption in captions] == [
        "What is promised",
        "Floor",
        "The latest first",
        "Changes of the last hours",
    ]
    charts = named.get("image", []) + named.get("img", [])
    table_below = f"a100, {GPU}: hardware 10, usable 5, floors 10. The table below says the same."
    assert table_below in charts
    assert sum("The table of changes says the same." in chart for chart in charts) == 3
    assert {"columnheader", "rowheader"} <= named.keys()
    assert "Floors" in named["columnheader"]
    assert len(named["status"]) == 2
    levels = shown.tab.run("[...document.querySelectorAll('h1, h2, h3')].map((each) => Number(each.tagName[1]))")
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    scopes = shown.tab.run("[...document.querySelectorAll('th')].filter((each) => !each.scope).length")
    assert scopes == 0
    assert shown.tab.run("document.documentElement.lang") == "en"


def test_by_keyboard_alone(shown: Shown) -> None:
    shown.open()
    reached = []
    for _ in range(8):
        shown.tab.press("Tab")
        focused = shown.tab.run(
            "[document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle,"
            " document.activeElement.getBoundingClientRect().top >= 0]"
        )
        assert focused[1:] == ["solid", True], focused
        reached.append(focused[0])
    links = ["Skip to the content", "Floors", "Queues", "Violations", "Denials", "History"]
    assert reached == [*links, "The same as a table", "The data as JSON"]


def test_focus_stays_where_it_is_while_the_page_goes_on(shown: Shown) -> None:
    shown.open()
    shown.tab.run("document.querySelector('summary').focus()")
    deny(shown.world, "bob", "model-d")
    shown.again()
    until(lambda: "bob" in shown.tab.text("#denials-body"))
    assert shown.tab.run("document.activeElement.tagName") == "SUMMARY"


def objects_of(count: int) -> list[Object]:
    many = range(count)
    return [
        *(node(f"n{index}", 8, {"pool": str(index % 20)}) for index in many),
        *(flavor(f"f{index}", pool=str(index)) for index in range(20)),
        *(queue(f"q{index}", {f"f{index % 20}": 8}, cohortName=f"c{index % 20}") for index in many),
    ]


def test_a_large_cluster_is_drawn_in_time(tab: Tab) -> None:
    world = World(*objects_of(1000))
    world.queues.reading = reading({f"q{index}": status(f"q{index}", 1, pending=1) for index in range(1000)})
    began = time.perf_counter()
    world.board.data()
    assert time.perf_counter() - began < 1
    shown = Shown(tab, world)
    try:
        shown.open(360)
        assert "700 more queues are not shown" in tab.text("#queues-body")
        assert tab.run("document.documentElement.scrollWidth") <= 360
    finally:
        shown.end()
