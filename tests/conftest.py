"""A test that is skipped has shown nothing, so it does not count as passed."""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any

import pytest

for number in (signal.SIGHUP, signal.SIGINT):
    # Under nohup, or in the background of a script. A handler that does nothing serves as well, and no process that a
    # test starts inherits it.
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: is skipped, which shows nothing: make it run, or leave it out"
    return report
