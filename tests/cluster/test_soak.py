"""The soak in a minute: `python -m benchmarks.soak` at a low rate, with each event once.

It has a control plane of its own, for it restarts the API server.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.soak.calls import Outcome
from benchmarks.soak.events import EVENTS
from benchmarks.soak.pace import QUICK
from benchmarks.soak.run import soak
from benchmarks.soak.service import control_plane
from benchmarks.soak.writes import writes

RATE = 25.0


def test_no_call_fails_whatever_happens(tmp_path: Path) -> None:
    with control_plane(tmp_path / "cluster") as cluster:
        report = soak(cluster, tmp_path, QUICK, RATE, 0.0, print)
    assert report.bad == []
    assert report.unseen == []
    assert [each.name for each in report.events] == ["nothing", *EVENTS]
    assert all(each.outcomes[Outcome.RIGHT] for each in (*report.events, *report.writes))
    assert [each.name for each in report.writes] == list(dict.fromkeys(write.name for write in writes()))
    killed, away = report.whole.outcomes[Outcome.KILLED], report.whole.outcomes[Outcome.AWAY]
    assert report.whole.sent - killed - away == report.whole.outcomes[Outcome.RIGHT]
    assert killed < RATE
    assert away < 10 * RATE, report.away
    assert report.whole.sent / report.whole.seconds > 0.9 * RATE
    assert report.metrics["floorkeeper_requests_shed_total"] == 0
    assert report.metrics["floorkeeper_log_lines_dropped_total"] == 0
