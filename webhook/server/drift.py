"""Looking for drift while nothing is asked: nodes that go away after the floors on them were allowed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from webhook.capacity.balance import Balance
from webhook.capacity.drift import CAPACITY_AWAY, FLOORS_EXCEED_HARDWARE, FLOORS_FIT, Drift, News
from webhook.kube.snapshot import Snapshot
from webhook.server.admission import PolicyInForce
from webhook.server.floors import balance_in_force
from webhook.sources.source import Event, Source

LOOK_SECONDS = 1.0

_MESSAGES = {
    FLOORS_EXCEED_HARDWARE: "floors exceed the hardware",
    CAPACITY_AWAY: "capacity is away",
    FLOORS_FIT: "floors fit again",
}
_MOST_QUEUES = 20  # in a log line

log = logging.getLogger("floorkeeper.drift")


class DriftWatch:
    """Looks every second, if anything has changed, and tells the log and the source what is to be said."""

    def __init__(self, policies: PolicyInForce, source: Source, clock: Callable[[], float] = time.time) -> None:
        """`clock` is the wall clock: what it says is told."""
        self._policies = policies
        self._source = source
        self._clock = clock
        self._drift = Drift()
        self._seen: tuple[Balance | None, int] = (None, 0)

    async def run(self) -> None:
        """For ever; between two decisions, for some milliseconds at the most."""
        while True:
            try:
                self.look()
            except Exception:
                log.exception("looking for drift failed")
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        balance = balance_in_force(self._policies, self._source)
        if balance is None:
            return
        now, seen = self._clock(), (balance, balance.changes)
        if seen == self._seen and now < self._drift.due:
            return
        self._seen = seen
        for news in self._drift.look(balance.now, balance.keys(), now, self._policies.policy.capacity.grace_seconds):
            self._tell(news)

    def _tell(self, news: News) -> None:
        fields = {
            "resource": news.resource,
            "flavors": list(news.flavors),
            "note": news.text,
            "since": datetime.fromtimestamp(news.since, UTC).isoformat(timespec="seconds"),
            "queues": [f"{kind}/{name}" for kind, name in news.sources[:_MOST_QUEUES]],
        }
        level = logging.INFO if news.reason == FLOORS_FIT else logging.WARNING
        log.log(level, _MESSAGES[news.reason], extra={"fields": fields})
        self._source.tell(list(_events(news, self._source.snapshot)))


def _events(news: News, snapshot: Snapshot) -> Iterator[Event]:
    """One for each queue that is still there."""
    for kind, name in news.sources:
        fact = snapshot.cohort(name) if kind == "Cohort" else snapshot.cluster_queue(name)
        if fact is not None:
            warning = news.reason != FLOORS_FIT
            yield Event(kind, name, fact.uid, warning, news.reason, news.text, news.since, news.found)
