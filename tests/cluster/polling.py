"""A client that never stops asking how many replicas are ready."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.cluster.team import Team


@dataclass
class Poll:
    """The fewest ready replicas that the client saw, by Deployment."""

    lowest: dict[str, int] = field(default_factory=dict)
    looks: int = 0


@contextmanager
def polled(team: Team, *names: str) -> Iterator[Poll]:
    poll, stop = Poll(), threading.Event()

    def look() -> None:
        while not stop.is_set():
            for name in names:
                ready = team.ready(name)
                poll.lowest[name] = min(poll.lowest.get(name, ready), ready)
            poll.looks += 1
            time.sleep(0.02)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield poll
    finally:
        stop.set()
        thread.join()
