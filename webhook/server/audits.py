"""Audits on a schedule, each in a process of its own: thousands of objects are read and judged beside the reviews."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import random
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from webhook.engine.verdict import Severity
from webhook.live.audit.child import Order, Outcome, command
from webhook.live.audit.metrics import AuditMetrics
from webhook.live.page.board import Board
from webhook.live.page.findings import audited
from webhook.policy import PolicyFile
from webhook.server.text import printable

LIMIT = 600.0
"""Seconds after which an audit is broken off."""

FIRST = 30.0
"""The most seconds from ready to the first audit. Replicas that start together look at different times."""

_SHARE = 3
"""How many times as long as it looks it rests at the least, so that a large cluster is not listed all the time."""

_LOOK_SECONDS = 1.0
_MOST_BYTES = 256 * 2**20  # of an answer; that of 2,000 workloads with a finding each is one MiB
_TAIL = 4096
_CHUNK = 2**16
_LONGEST_REASON = 500

log = logging.getLogger("floorkeeper.audit")


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """How often, in seconds, and of which cluster: `kubeconfig` is None inside of it."""

    every: float
    kubeconfig: Path | None
    tls_secret: str


class AuditFailed(Exception):
    """There is no audit. The message says why, in one line."""


class Audits:
    """What they find goes to the metrics and, if there is one, to the page's board. A failure is logged and counted."""

    def __init__(
        self,
        settings: AuditSettings,
        policies: PolicyFile,
        metrics: AuditMetrics,
        is_ready: Callable[[], bool],
        board: Board | None = None,
        *,
        child: Sequence[str] | None = None,
        limit: float = LIMIT,
    ) -> None:
        """`child` is the command that does one audit, as webhook.live.audit.child.command."""
        self._settings = settings
        self._policies = policies
        self.metrics = metrics
        self._is_ready = is_ready
        self._board = board
        self._child = child
        self._limit = limit

    async def run(self) -> None:
        """For ever, one after the other. Cancelled, it ends the one under way before it returns."""
        every = self._settings.every
        while not self._is_ready():  # noqa: ASYNC110  (readiness is what several others come to)
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.sleep(_spread(FIRST, 0.2))
        while True:
            began = perf_counter()
            await self.look()
            await asyncio.sleep(max(_spread(every, 0.9), _SHARE * (perf_counter() - began)))

    async def look(self) -> None:
        """Does one, and tells what it found, or that it failed."""
        try:
            self._tell(await self._outcome())
        except AuditFailed as error:
            self._fail(str(error))
        except Exception as error:
            log.exception("auditing failed")
            self._fail(str(error) or type(error).__name__)

    # What came of it

    def _tell(self, outcome: Outcome) -> None:
        found = outcome.audit
        if found is None:
            raise AuditFailed(outcome.reason)
        self.metrics.done(found, published=not outcome.unpublished)
        if self._board is not None:
            self._board.audit = audited(found, self._settings.every)
        fields = {
            "seconds": round(found.seconds, 1),
            "objects": found.checked,
            "denials": found.count(Severity.DENY),
            "warnings": found.count(Severity.WARN) + found.count(Severity.PATCH),
            "notEvaluated": [entry.what for entry in found.not_evaluated],
            "policyReportsWritten": outcome.written,
        }
        log.info("audited", extra={"fields": fields})
        if outcome.unpublished:
            reason = printable(outcome.unpublished, _LONGEST_REASON)
            log.warning("policy reports not written", extra={"fields": {"error": reason}})

    def _fail(self, reason: str) -> None:
        reason = printable(reason, _LONGEST_REASON)
        log.warning("audit failed", extra={"fields": {"error": reason}})
        self.metrics.failed()
        if self._board is not None:
            self._board.audit = replace(self._board.audit, every=self._settings.every, reason=reason)

    # The process

    async def _outcome(self) -> Outcome:
        """Raises AuditFailed."""
        try:
            # In a session of its own, where Ctrl-C at our terminal does not reach it: it ends when we say so.
            process = await asyncio.create_subprocess_exec(
                *(self._child or command()), stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except OSError as error:
            raise AuditFailed(f"no process for it could be started: {error.strerror or error}") from error
        try:
            async with asyncio.timeout(self._limit):
                answer, said = await self._talk(process)
        except TimeoutError:
            raise AuditFailed(f"it was not done after {self._limit:g} s, and was ended") from None
        finally:
            await _ended(process)
        if process.returncode:
            raise AuditFailed(_why(process.returncode, said))
        try:
            outcome = pickle.loads(answer)  # noqa: S301  (from our own code, over a pipe that only we have)
        except Exception as error:  # whatever is no pickle, or one of something else
            raise AuditFailed(f"its answer cannot be read: {type(error).__name__}") from error
        if not isinstance(outcome, Outcome):
            raise AuditFailed(f"its answer is none: {type(outcome).__name__}")
        return outcome

    async def _talk(self, process: Process) -> tuple[bytes, str]:
        """What it wrote to stdout, and the end of what it wrote to stderr, once it has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        settings, policy = self._settings, self._policies.text
        kubeconfig = None if settings.kubeconfig is None else str(settings.kubeconfig)
        with contextlib.suppress(ConnectionError):  # then it has ended, and its exit code says more
            process.stdin.write(Order(kubeconfig, policy, settings.tls_secret).line())
            await process.stdin.drain()
        # Its stdin stays open as long as it lives, for by that it sees whether we do.
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(_read(process.stdout, _MOST_BYTES))
            said = group.create_task(_tail(process.stderr))
        await process.wait()
        if answer.result() is None:
            raise AuditFailed(f"its answer is larger than {_MOST_BYTES:,} bytes")
        return bytes(answer.result() or b""), said.result()


def _spread(seconds: float, least: float) -> float:
    """At random, at the least this part of it."""
    return seconds * random.uniform(least, 1.0)  # noqa: S311  (spreads load, keeps no secret)


async def _read(stream: asyncio.StreamReader, most: int) -> bytearray | None:
    """All of it, None if it is more than that."""
    found = bytearray()
    while chunk := await stream.read(_CHUNK):
        if len(found) <= most:
            found += chunk
    return found if len(found) <= most else None


async def _tail(stream: asyncio.StreamReader) -> str:
    found = b""
    while chunk := await stream.read(_CHUNK):
        found = (found + chunk)[-_TAIL:]
    return found.decode(errors="replace")


def _why(code: int, said: str) -> str:
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
    how = f"it was killed by signal {-code}" if code < 0 else f"it ended with code {code}"
    return f"{how}: {last.strip()}" if last else how


async def _ended(process: Process) -> None:
    """Ends it, if it has not ended, and what it started."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        await process.wait()
    if process.stdin is not None:
        process.stdin.close()
