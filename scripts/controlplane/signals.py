"""Ctrl-C, SIGTERM and SIGHUP as one exception, which never strikes between starting a process and noting its pid."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_shields = 0
_pending: int | None = None


class Interrupted(BaseException):
    """A signal asked us to stop. Not an Exception, so that no `except Exception` on the way swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def install() -> None:
    """Raise Interrupted on the first signal; what the caller chose to ignore (nohup) stays ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def ignore() -> None:
    """From here on the work, which takes a bounded time, runs to its end: half a clean-up helps nobody."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Hold a signal back until the block is done. Blocking it instead would be inherited by what we start."""
    global _shields
    _shields += 1
    try:
        yield
    finally:
        _shields -= 1
    if _pending is not None and _shields == 0:
        raise Interrupted(_pending)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    global _pending
    # An impatient second Ctrl-C must not break off the clean-up that the first one began.
    ignore()
    if _shields:
        _pending = number
    else:
        raise Interrupted(number)
