"""Ctrl-C, SIGTERM and SIGHUP, noted and not raised: nothing is ever left half done."""

from __future__ import annotations

import signal
from types import FrameType


class Signals:
    """`received` is the last signal that asked us to end, None so far."""

    def __init__(self) -> None:
        self.received: int | None = None

    def watch(self) -> None:
        """From here on. SIGHUP stays ignored under nohup; the others count even where a script's `&` ignores them."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.received = number
