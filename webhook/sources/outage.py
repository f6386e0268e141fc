"""The end of an outage of the API server: the first watcher that is answered again tells the others, which wait."""

from __future__ import annotations

import random
import threading


class Outage:
    """What the watchers of one API server share. Any thread may call it.

    Each watcher backs off by itself, so after a long outage the last one would come back much later than the first.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._changed = threading.Condition()
        self._ends = 0

    def wait(self, seconds: float, rush: float) -> None:
        """Waits for so long at the most; less if the outage ends: then for `rush` seconds at the most, at random, for
        all who wait here would else come at once."""
        with self._changed:
            ends = self._ends
            ended = self._changed.wait_for(lambda: self._ends > ends or self._stopping.is_set(), seconds)
        if ended:
            self._stopping.wait(random.uniform(0.0, min(rush, seconds)))  # noqa: S311  (spreads load, keeps no secret)

    def end(self) -> None:
        """It is over, or nobody is to wait any more."""
        with self._changed:
            self._ends += 1
            self._changed.notify_all()
