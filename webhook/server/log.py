"""Logs as JSON lines on stderr: one object a line, with at least time, level, logger and message.

A thread of its own writes them: a pipe that nobody reads, or a full disk, must not hold up a decision. Behind it wait
a bounded number of lines; what is more is lost, counted, and told once the lines go out again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import select
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from logging.handlers import QueueHandler
from typing import Any

import orjson
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

MOST_LINES = 1000
"""That wait to be written, beside those that are being written. A line has 1 kB, and 20 kB at the most."""

_GATHER_SECONDS, _LOOKS = 0.02, 4
STOP_SECONDS = 2.0
"""The longest wait at the end for lines to be written."""

# uvicorn tells of every start and stop in several lines; `serve` says the same in one.
_QUIET = ("uvicorn.error", "uvicorn.access", "asyncio")


_TRACEBACK = logging.Formatter()


def json_line(record: logging.LogRecord) -> bytes:
    """A record as one line. `extra={"fields": {...}}` adds fields of one's own."""
    line: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
        **getattr(record, "fields", {}),
    }
    if record.exc_info:
        line["traceback"] = _TRACEBACK.formatException(record.exc_info)
    try:
        text = orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE)
        if text.isascii():
            return text
    except TypeError:  # for what orjson does not write, such as lone surrogates
        pass
    # ASCII alone, so that any stderr can take it.
    return f"{json.dumps(line, default=str, separators=(',', ':'))}\n".encode("ascii")


class Log(QueueHandler):
    """Takes records, and has a thread write them to a file descriptor in the order in which they came."""

    queue: queue.SimpleQueue[bytes | threading.Event]

    def __init__(self, descriptor: int, most_lines: int = MOST_LINES) -> None:
        super().__init__(queue.SimpleQueue())
        self._most_lines = most_lines
        self._refused = 0
        self._writer = _Writer(self, descriptor)
        self._ended = False
        # No more than a daemon: at the end it may be stuck in a write that never returns.
        threading.Thread(target=self._writer.run, name="log", daemon=True).start()

    @property
    def dropped(self) -> int:
        """Lines that were lost so far: there was no room for them, or nobody takes them any more."""
        return self._refused + self._writer.failed

    def prepare(self, record: logging.LogRecord) -> bytes:
        # Not left to the thread: what a record refers to may change.
        return json_line(record)

    def enqueue(self, line: bytes) -> None:  # type: ignore[override]
        if self.queue.qsize() < self._most_lines:
            self.queue.put(line)
        else:
            self._refused += 1

    def close(self) -> None:
        """Waits until every line is written, for STOP_SECONDS at the most. At exit, `logging` calls it again."""
        if not self._ended:
            self._ended = True
            written = threading.Event()
            self.queue.put(written)
            written.wait(STOP_SECONDS)
        super().close()


class _Writer:
    """The thread's part. It writes past sys.stderr, whose lock it would otherwise hold when the interpreter ends."""

    def __init__(self, log: Log, descriptor: int) -> None:
        self.failed = 0
        self._log = log
        self._descriptor = descriptor
        self._told = 0

    def run(self) -> None:
        while True:
            first = self._log.queue.get()
            if isinstance(first, bytes):
                # To be woken for each line would cost the thread that decides more than the line does.
                for _ in range(_LOOKS):
                    time.sleep(_GATHER_SECONDS / _LOOKS)
                    if self._log.queue.qsize() > MOST_LINES // 4:
                        break
            ended = self._write_with(first)
            dropped = self._log.dropped
            if dropped > self._told and self._log.queue.empty() and not self._write(self._notice(dropped - self._told)):
                self._told = dropped
            # Not before: who closes the log may close the descriptor, and its number be given to another file.
            for each in ended:
                each.set()

    def _write_with(self, first: bytes | threading.Event) -> list[threading.Event]:
        """Writes what is waiting, at once. Returns what those wait for who close the log."""
        waiting = [first, *(self._log.queue.get() for _ in range(self._log.queue.qsize()))]
        lines = [each for each in waiting if isinstance(each, bytes)]
        self.failed += self._write(b"".join(lines)).count(b"\n")
        return [each for each in waiting if isinstance(each, threading.Event)]

    def _write(self, lines: bytes) -> bytes:
        """What could not be written of it."""
        with contextlib.suppress(OSError):
            while lines:
                try:
                    lines = lines[os.write(self._descriptor, lines) :]
                except BlockingIOError:
                    # Somebody who shares it has set it so.
                    select.select([], [self._descriptor], [])
        return lines

    def _notice(self, lines: int) -> bytes:
        text = "log lines were lost, since they were not read as fast as they came"
        record = logging.LogRecord("floorkeeper.log", logging.WARNING, __file__, 0, text, None, None)
        record.fields = {"lines": lines}
        return json_line(record)


def log_to(descriptor: int) -> Log:
    """Sends every log of this process, warnings and uvicorn's included, to a file descriptor."""
    log = Log(descriptor)
    # A line has nothing of these, and to look them up costs as much as the line.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers = [log]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    return log


class LogCollector(Collector):
    """The metric of this process's log."""

    def collect(self) -> Iterator[Metric]:
        dropped = sum(handler.dropped for handler in logging.getLogger().handlers if isinstance(handler, Log))
        text = "Lines of the log that were lost, since nobody read them as fast as they came."
        yield CounterMetricFamily("floorkeeper_log_lines_dropped", text, dropped)
