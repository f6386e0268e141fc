"""Events about ClusterQueues and Cohorts, written to the cluster one after the other, off the loop's thread."""

from __future__ import annotations

import hashlib
import logging
import platform
import queue
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import orjson

from webhook.kube.names import KUEUE_GROUP
from webhook.kube.objects import mapping, string
from webhook.sources.connection import Connection, StatusError
from webhook.sources.source import Event
from webhook.sources.timing import Timing

_log = logging.getLogger("floorkeeper.events")

PATH = "/apis/events.k8s.io/v1/namespaces/default/events"
"""Events about objects that are in no namespace are kept in default."""

CONTROLLER = "floorkeeper.io/floorkeeper"
ACTION = "CompareFloors"

_SILENCE = 5.0
_MOST = 10_000
"""Events that wait for a server which does not answer; what comes then is dropped."""

_MOST_TIMES = 100
"""How often the same may be said while the API server keeps Events, which is for an hour by default."""

_CLOCKS_DIFFER = 5.0
"""Seconds between the moments at which two replicas see the same thing begin."""

_LONGEST_NAME = 253
_LONGEST_NOTE = 1024  # bytes


class EventWriter:
    """Writes Events until it is stopped. What is refused is logged and dropped; what fails is tried again, ever later.

    The name of an Event follows from what it says, and from how often that has been said: so a replica that finds one
    there knows that another one was faster, and a process that has just started that it was told before.
    """

    def __init__(
        self,
        connection: Connection,
        timing: Timing,
        stopping: threading.Event,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` is the wall clock, for eventTime."""
        self._connection = connection
        self._timing = timing
        self._stopping = stopping
        self._clock = clock
        self._instance = platform.node()[:128] or "unknown"
        self._waiting: queue.Queue[Event | None] = queue.Queue(_MOST)
        self._logged: set[str] = set()
        """Why Events could not be written since the last one that could."""

    def tell(self, events: Iterable[Event]) -> None:
        """Takes Events to be written; from any thread, and at once."""
        for event in events:
            try:
                self._waiting.put_nowait(event)
            except queue.Full:
                self._complain(event, "too many are waiting")

    def stop(self) -> None:
        """Wakes `run`; `stopping` must be set."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:  # then it is not asleep
            return

    def run(self) -> None:
        while not self._stopping.is_set():
            event = self._waiting.get()
            if event is not None:
                self._deliver(event)

    def _deliver(self, event: Event) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                self._write(event)
                self._logged.clear()
                return
            except Exception as error:  # whatever it is, an Event must not end the thread
                if self._stopping.is_set():
                    return
                self._complain(event, str(error))
                lasting = isinstance(error, StatusError) and error.code < 500 and error.code not in (401, 408, 429)
                if lasting or isinstance(error, (TypeError, ValueError)):
                    return
                failures += 1
                asked = error.retry_after if isinstance(error, StatusError) else 0.0
                self._stopping.wait(self._timing.delay(failures, asked))

    def _write(self, event: Event) -> None:
        """Creates the Event, unless it has been."""
        for number in range(_MOST_TIMES):
            name = name_of(event, number)
            try:
                value = manifest(event, name, self._clock(), self._instance)
                with self._connection.request("POST", PATH, {}, value, silence=_SILENCE) as answer:
                    answer.read()
                return
            except StatusError as error:
                if error.code != 409:
                    raise
            if event.found or not self._is_older(name, event.since):
                return

    def _is_older(self, name: str, since: float) -> bool:
        """Whether the Event of this name was about another time."""
        try:
            with self._connection.request("GET", f"{PATH}/{name}", {}, silence=_SILENCE) as answer:
                written = string(mapping(orjson.loads(answer.read())).get("eventTime"))
            return datetime.fromisoformat(written).timestamp() < since - _CLOCKS_DIFFER
        except StatusError as error:
            # It expired a moment ago.
            if error.code == 404:
                return True
            raise

    def _complain(self, event: Event, problem: str) -> None:
        """Once for each reason."""
        problem = " ".join(problem.split())[:200]
        if problem not in self._logged:
            self._logged.add(problem)
            fields = {"kind": event.kind, "name": event.name, "reason": event.reason, "problem": problem}
            _log.warning("an Event could not be written", extra={"fields": fields})


def name_of(event: Event, number: int) -> str:
    """The Event's name when the same is said for the first time (number 0), the second time …"""
    said = "\0".join((event.uid, event.reason, event.text, str(number)))
    digest = hashlib.sha256(said.encode(errors="replace")).hexdigest()[:16]
    return f"{event.name[: _LONGEST_NAME - 17].rstrip('.-')}.{digest}"


def manifest(event: Event, name: str, now: float, instance: str) -> dict[str, Any]:
    """As events.k8s.io/v1 has it. The note says what, and since when."""
    when = f"; since {datetime.fromtimestamp(event.since, UTC):%Y-%m-%dT%H:%M:%SZ}"
    if event.found:
        when += " or earlier"
    text = event.text.encode()[: _LONGEST_NOTE - len(when)].decode(errors="ignore")
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "action": ACTION,
        "note": f"{text}{when}",
        "regarding": {
            "apiVersion": f"{KUEUE_GROUP}/v1beta2",
            "kind": event.kind,
            "name": event.name,
            "uid": event.uid,
        },
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
    }
