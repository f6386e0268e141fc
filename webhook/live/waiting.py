"""Waiting for a cluster: how long, how often it is looked at, and which failures are waited out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from webhook.live.api import ApiError

_T = TypeVar("_T")
_OUTAGE = 60.0  # seconds for one question; longer ones are an outage that nobody waits for


@dataclass(frozen=True, slots=True)
class Waiting:
    """`timeout` is how many seconds may pass without progress, `pause` how many between two looks."""

    timeout: float
    pause: float = 1.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def patiently(self, ask: Callable[[], _T], say: Callable[[str], None]) -> _T:
        """The answer to a question that may be asked again. An API server that does not answer, or is overloaded, is
        waited for. Raises ApiError when that takes too long, or for any other refusal."""
        end = self.clock() + min(self.timeout, _OUTAGE)
        told = False
        while True:
            try:
                return ask()
            except ApiError as error:
                if not passes(error) or self.clock() >= end:
                    raise
                if not told:
                    say(f"{error}; trying again")
                    told = True
            self.sleep(self.pause)


def passes(error: ApiError) -> bool:
    """Whether it may be over in a moment: no answer, too many requests, or a fault of the API server."""
    return error.code in (0, 429) or error.code >= 500


def seconds_of(text: str) -> float:
    """A duration as kubectl takes it: 90, 90s, 10m, 1h30m. Raises ValueError."""
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    total, number = 0.0, ""
    for letter in text if not text.isdigit() else f"{text}s":
        if letter in units and number:
            total += float(number) * units[letter]
            number = ""
        elif letter.isdigit() and letter.isascii():
            number += letter
        else:
            raise ValueError(text)
    if number or total <= 0:
        raise ValueError(text)
    return total


def shown(seconds: float) -> str:
    """600.0 -> '10m'."""
    whole = round(seconds)
    if whole >= 60 and whole % 60 == 0:
        return f"{whole // 60}m"
    return f"{whole}s"
