"""The page in one browser for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import Tab, browser
from tests.live.page_shown import Shown, full


@pytest.fixture(scope="session")
def tab() -> Iterator[Tab]:
    with browser() as tab:
        yield tab


@pytest.fixture
def shown(tab: Tab) -> Iterator[Shown]:
    shown = Shown(tab, full())
    yield shown
    shown.end()
