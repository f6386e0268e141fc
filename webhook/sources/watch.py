"""Keeping one kind current: list it, then watch it, for ever.

Everything here runs in a thread of its own and writes nothing: what it finds leaves as reports, which the loop's thread
applies in the order in which they were made.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import urllib3.exceptions

from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.names import KUEUE_NAMESPACES
from webhook.kube.objects import mapping, sequence, string
from webhook.sources.access import Access
from webhook.sources.connection import Connection, StatusError
from webhook.sources.kueue_configuration import with_configuration
from webhook.sources.listing import list_pages, resource_version
from webhook.sources.outage import Outage
from webhook.sources.timing import Timing

_PATIENCE = 3
"""Failures in a row before more is doubted: the version that a watch goes on from, so that the kind is listed again, or
that a kind which was known is still there. An API server that has just started denies for a moment what it serves: RBAC
and CustomResourceDefinitions are answered from caches that fill after the start (read)."""

_CONNECTION = re.compile(r"^\w+\(host=[^)]*\): ")
"""How urllib3 begins its messages."""

Change = tuple[str, str, Fact | None]
"""Namespace ('' if the kind has none), name, and the fact; None if the object is gone, or holds nothing to compare."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one kind's watcher found."""

    kind: str
    current_at: float | None = None
    """When the API server last showed that the facts are current, by the watcher's clock; None if it did not."""

    facts: list[Fact] | None = None
    """After a list: all facts of the kind."""

    changes: tuple[Change, ...] = ()
    problem: str = ""
    """What is wrong now; the facts stay."""

    unknown: str = ""
    """Why the kind cannot be known for the time being; nobody waits for it."""


class Unavailable(Exception):
    """The kind cannot be had. The message says why, and what to do."""


class Absent(Unavailable):
    """The cluster does not serve the kind."""


def _kueue_configuration(value: dict[str, Any]) -> Fact | None:
    # Anybody may write a ConfigMap of that name elsewhere: it is not believed, and not even parsed.
    if mapping(value.get("metadata")).get("namespace") not in KUEUE_NAMESPACES:
        return None
    return PROJECTIONS["ConfigMap"](with_configuration(value))


class Watcher:
    """Follows one kind. `post` takes the reports, in this thread. No failure ends `run`; `stopping` does."""

    def __init__(
        self,
        access: Access,
        connection: Connection,
        post: Callable[[Report], None],
        stopping: threading.Event,
        outage: Outage,
        timing: Timing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.version = "" if access.optional else access.versions[0]
        """The API version in use, '' until it is discovered. Other threads may read it."""

        self._access = access
        self._connection = connection
        self._post = post
        self._stopping = stopping
        self._outage = outage
        self._timing = timing
        self._clock = clock
        self._project = _kueue_configuration if access.kind == "ConfigMap" else PROJECTIONS[access.kind]
        self._resource_version = ""
        """Where the next watch goes on from; '' if the kind must be listed first, and never sent as such."""

        self._failures = 0
        self._refusals = 0
        """Failures in a row of which each said that the kind cannot be had."""

        self._refused_at = 0.0
        """In a row, since an event came or a watch ended as it should."""

        self._opened: float | None = None
        """When the watch that is open began."""

        self._known = False
        self._action = ""

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except Exception as error:  # whatever it is, the remedy is the next attempt
                if not self._stopping.is_set():
                    self._fail(error)
                    self._wait(error)

    def _wait(self, error: Exception) -> None:
        asked = error.retry_after if isinstance(error, StatusError) else 0.0
        seconds = self._timing.delay(self._failures, asked)
        answered = isinstance(error, Unavailable) or (isinstance(error, StatusError) and error.code < 500)
        if answered or asked:
            # It is about this kind, or it is what the API server wants.
            self._stopping.wait(seconds)
        else:
            self._outage.wait(seconds, self._timing.rush)

    def _fail(self, error: Exception) -> None:
        if self._opened is not None and self._clock() - self._opened >= self._timing.retry_most:
            # A watch that stood for longer than the longest wait made up for what was before it.
            self._failures = 0
        self._opened = None
        gone = isinstance(error, Unavailable)
        if gone and not self._refusals:
            # It answers: what failed before says nothing about this, nor about how soon to try again.
            self._failures, self._refused_at = 0, self._clock()
        self._refusals = self._refusals + 1 if gone else 0
        self._failures += 1
        lost = self._refusals >= _PATIENCE and self._clock() - self._refused_at >= self._timing.refused
        doubtful = lost if gone else self._failures >= _PATIENCE
        if gone or doubtful or (isinstance(error, StatusError) and error.code == 410):
            self._resource_version = ""
        if gone and self._access.optional:
            self.version = ""
        if gone and (doubtful or not self._known):
            self._known = False
            if isinstance(error, Absent) and self._access.absent_is_none:
                self._post(Report(self._access.kind, self._clock(), facts=[]))
            else:
                self._post(Report(self._access.kind, unknown=str(error)))
        else:
            problem = str(error) if gone else f"{self._action}: {self._reason(error)}"
            self._post(Report(self._access.kind, problem=problem))

    def _reason(self, error: Exception) -> str:
        if isinstance(error, urllib3.exceptions.ReadTimeoutError):
            return f"silent for {self._timing.silence:g} s"
        if isinstance(error, StatusError) and error.code == 401:
            return "the API server does not know us (401); renew the credentials"
        text = _CONNECTION.sub("", " ".join(str(error).split()))
        return text[:200] or type(error).__name__

    @contextmanager
    def _doing(self, verb: str, name: str) -> Iterator[None]:
        """Says what a failure was about, and which failures mean that the kind cannot be had."""
        self._action = f"{verb} {name}"
        try:
            yield
        except StatusError as error:
            if error.code == 403:
                raise Unavailable(f"not allowed: {self._action}; grant it in the ClusterRole") from error
            if error.code == 404 and self._access.optional:
                product = self._access.product
                whole = f"{name} is not served; install {product} whole"
                raise Absent(f"{product} is not installed" if verb == "get" else whole) from error
            raise

    def _follow(self) -> None:
        """One watch to its end, and before it whatever it needs."""
        if not self.version:
            self.version = self._discover()
        if not self._resource_version:
            self._list()
        self._watch()

    def _discover(self) -> str:
        """The best version served. A better one that comes later is noticed when the one in use fails."""
        path = self._access.group_path
        with (
            self._doing("get", path),
            self._connection.get(path, {}, accept="application/json", silence=self._timing.silence) as answer,
        ):
            found = mapping(orjson.loads(answer.read()))
        served = {string(mapping(row).get("version")) for row in sequence(found.get("versions"))}
        for version in self._access.versions:
            if version in served:
                return version
        product, versions = self._access.product, self._access.versions
        if len(versions) == 1:
            raise Unavailable(f"{product} does not serve {versions[0]}")
        raise Unavailable(f"{product} serves neither {' nor '.join(versions)}")

    def _list(self) -> None:
        facts: list[Fact] = []
        version = ""
        with self._doing("list", self._access.name):
            pages = list_pages(self._connection, self._access, self.version, self._timing.silence)
            for objects, version_of_page in pages:
                version = version or version_of_page
                facts += [fact for fact in map(self._project, objects) if fact is not None]
                # The next page comes before the loop lets go of this one.
                objects.clear()
        self._resource_version = version
        self._known = True
        self._post(Report(self._access.kind, self._clock(), facts))

    def _watch(self) -> None:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._resource_version,
            "timeoutSeconds": str(self._timing.watch_seconds()),
            **self._access.selectors,
        }
        path, accept = self._access.path(self.version), self._access.accept(watch=True)
        heard = False
        with (
            self._doing("watch", self._access.name),
            self._connection.get(path, query, accept=accept, silence=self._timing.silence) as answer,
        ):
            began = self._opened = self._clock()
            self._refusals = 0
            if self._failures:
                self._outage.end()
            self._post(Report(self._access.kind, began))
            for lines in answer.read_lines():
                heard = self._take(lines) or heard
        if not heard and self._clock() - began < self._timing.brief:
            raise ConnectionError("it ended at once, with nothing said")
        self._failures, self._opened = 0, None

    def _take(self, lines: list[bytes]) -> bool:
        """Reports what the events say, up to the first that cannot be read; whether there were any."""
        changes: list[Change] = []
        heard = False
        try:
            for line in lines:
                self._event(orjson.loads(line), changes)
                heard, self._failures = True, 0
        finally:
            # The watch goes on from the last good event, so what came before a broken one is not sent again.
            if heard:
                self._post(Report(self._access.kind, self._clock(), changes=tuple(changes)))
        return heard

    def _event(self, event: Any, changes: list[Change]) -> None:
        kind, value = mapping(event).get("type"), mapping(event).get("object")
        if kind == "ERROR":
            raise StatusError.of(value)
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not isinstance(value, dict):
            raise ValueError(f"an event of the type {kind!r}")
        metadata = mapping(value.get("metadata"))
        version = resource_version(metadata)
        if kind != "BOOKMARK":
            name = string(metadata.get("name"))
            if not name:
                raise ValueError("an event about an object without a name")
            changes.append(
                (string(metadata.get("namespace")), name, None if kind == "DELETED" else self._project(value))
            )
        self._resource_version = version
