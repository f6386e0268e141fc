"""What a person sees on stderr while an audit goes on."""

from __future__ import annotations

import logging
import sys
from collections import defaultdict

from webhook.check.formats.characters import visible


def say(text: str) -> None:
    print(f"floorkeeper: {text}", file=sys.stderr, flush=True)


class LogLines(logging.Handler):
    """What is logged for those who keep logs, in lines for whoever looks at the page: each reason once until it ends,
    whichever kinds it is about."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, set[str]] = defaultdict(set)

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        error = record.exc_info[1] if record.exc_info else None
        why = [str(error) or type(error).__name__] if error is not None else []
        texts = [visible(text) for text in (record.getMessage(), *map(str, fields.values()), *why)]
        told = self._told[record.name]
        if record.levelno >= logging.WARNING:
            # What was tried, as in 'list nodes: ', is another thing each time.
            reason = texts[-1].partition(": ")[2] if "problem" in fields else ": ".join(texts)
            if reason in told:
                return
            told.add(reason)
        elif told:
            told.clear()
        else:
            return
        say(": ".join(texts))


class WaitingLine:
    """Says on a terminal what takes its time, and takes it away again."""

    def __init__(self) -> None:
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> WaitingLine:
        return self

    def say(self, what: str) -> None:
        if self._shown:
            print(f"\r\x1b[K{what} …", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
