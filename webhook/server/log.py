"""Logs as JSON lines on stderr: one object a line, with at least time, level, logger and message."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

# uvicorn tells of every start and stop in several lines; `serve` says the same in one.
_QUIET = ("uvicorn.error", "uvicorn.access", "asyncio")


class JsonFormatter(logging.Formatter):
    """A record as one line. `extra={"fields": {...}}` adds fields of one's own."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # ASCII alone, so that any stderr can take it, lone surrogates included.
        return json.dumps(line, default=str)


def log_to(stream: TextIO | None = None) -> None:
    """Sends every log of this process, warnings and uvicorn's included, to a stream (stderr)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    logging.captureWarnings(True)
