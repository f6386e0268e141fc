"""How long the cluster source waits for what."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds; tests shorten them."""

    connect: float = 5.0
    silence: float = 75.0
    """The longest time without a byte. A watch that is silent for longer than it may last at all has lost its packets
    without an error (kubernetes-client/python#2145)."""

    watch: float = 60.0
    """The longest that the API server lets one watch go on. It sends bookmarks once a minute, but none for a kind that
    had no event since the watch began (Kubernetes 1.36, tried: 90 s of silence on an idle cluster). So what shows that
    a quiet kind is current is the end of its watch, and the next one."""

    brief: float = 1.0
    """A watch that ends sooner than this, with nothing said, counts as a failure."""

    retry: float = 0.5
    """The first wait after a failure. It doubles with each, up to `retry_most`, and is cut by up to a half at random so
    that replicas do not come all at once."""

    retry_most: float = 10.0
    asked_most: float = 30.0
    """The longest wait that an API server may ask for."""

    rush: float = 2.0
    """How long the watches take, all in all, to come back once the API server has answered one of them."""

    refused: float = 10.0
    """How long a kind that was read must be refused, or not served, before its facts are given up. An API server that
    has just started refuses everybody for a moment, until it knows its roles and its CRDs."""

    renewal: float = 10.0
    """Between two looks at the configuration, while the API server takes our credentials for invalid."""

    settle: float = 1.0
    """How long a watch may take to bring what was written, on a busy day."""

    confirm: float = 2.0
    """The longest that `confirm` takes."""

    def watch_seconds(self) -> int:
        """For timeoutSeconds, up to a quarter shorter at random so that not all watches end together."""
        return max(1, round(self.watch * random.uniform(0.75, 1.0)))  # noqa: S311  (spreads load, keeps no secret)

    def delay(self, failures: int, asked: float = 0.0) -> float:
        """The wait after this many failures in a row; `asked` is what the API server asks for (Retry-After)."""
        longest = min(self.retry * 2.0 ** min(failures - 1, 16), self.retry_most)
        return max(longest * random.uniform(0.5, 1.0), min(asked, self.asked_most))  # noqa: S311
