"""`floorkeeper serve`: one process from its settings to its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from webhook import __version__
from webhook.capacity.balance import balance_of
from webhook.capacity.volcano import volcano_of
from webhook.engine.policy import Policy
from webhook.policy import PolicyError, PolicyFile
from webhook.rules import RULES
from webhook.scope import webhook_configurations
from webhook.server.address import CannotListen, UnknownHost, listen_on, shown
from webhook.server.app import app
from webhook.server.certificates import CertificateError, Certificates
from webhook.server.drift import DriftWatch
from webhook.server.http import Server, server_config
from webhook.server.log import log_to
from webhook.server.readiness import Readiness
from webhook.sources.source import Source, SourceError

DRAIN_SECONDS = 3.0
"""From not ready to no new connections: time for the endpoints to be withdrawn."""

_RELOAD_SECONDS = 1.0
_SOURCE_STOP_SECONDS = 1.0
_GARBAGE = 100_000  # new objects between two rounds of garbage collection

RENDER_AGAIN = "policy changes what the API server must send: render and apply the webhook configurations again"
START_AGAIN = "policy asks to discount pods outside of any queue, which are watched from the start only: start it again"
NOT_DISCOUNTED = "policy asks to discount pods outside of any queue, which are not known, so nothing is discounted"

log = logging.getLogger("floorkeeper.serve")


class CannotServe(Exception):
    """Serving cannot begin. `code` is 2 for what the command line or a file that it names says, else 1."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line says.

    `source` makes the source of facts, and may raise SourceError. It is given the kinds that the policy needs and the
    rules do not.
    """

    host: str
    port: int
    source: Callable[[frozenset[str]], Source]
    source_name: str
    policy: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    """None, as is `certificate`: a self-signed pair is made."""

    drain_seconds: float = DRAIN_SECONDS


def serve(settings: Settings) -> None:
    """Serves until a signal. Raises CannotServe."""
    log_to(sys.stderr)
    # Facts are thousands of small objects that stay: at the default of 700, a start would be half garbage collection.
    gc.set_threshold(_GARBAGE)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # on Windows
        return None
    return uvloop.new_event_loop


async def _serve(settings: Settings) -> None:
    policies = PolicyFile(settings.policy)
    with _start(PolicyError, 2):
        policies.load()
    with _start(CertificateError, 2):
        certificates = _certificates(settings)
    with _start(CannotListen, 1), _start(UnknownHost, 2):
        sockets = listen_on(settings.host, settings.port)
    with _start(SourceError, 1):
        source = settings.source(_kinds_beyond_rules(policies.policy))
        await source.start()
        if source.ledger is not None:
            source.ledger.start()
    _prime(source, policies.policy)
    readiness = Readiness(policies, source, certificates)
    try:
        await _Process(settings, readiness, policies, certificates, sockets).run()
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SOURCE_STOP_SECONDS):
                await source.stop()
        log.info("stopped")


def _kinds_beyond_rules(policy: Policy) -> frozenset[str]:
    return frozenset({"UnqueuedPod"}) if policy.capacity.discount_unqueued else frozenset()


def _prime(source: Source, policy: Policy) -> None:
    """Has the sums of floors and hardware follow the facts, so that no decision waits until they are made."""
    balance_of(source.snapshot, policy.capacity, policy.accelerators)
    volcano_of(source.snapshot, policy.capacity, policy.accelerators)


@contextlib.contextmanager
def _start(error: type[Exception], code: int) -> Iterator[None]:
    try:
        yield
    except error as found:
        raise CannotServe(str(found), code) from None


def _certificates(settings: Settings) -> Certificates:
    if settings.certificate is None or settings.key is None:
        return Certificates.self_signed(settings.host)
    return Certificates.from_files(settings.certificate, settings.key)


class _Process:
    """A server and what runs beside it, until a signal."""

    def __init__(
        self,
        settings: Settings,
        readiness: Readiness,
        policies: PolicyFile,
        certificates: Certificates,
        sockets: Sequence[socket.socket],
    ) -> None:
        self._settings = settings
        self._readiness = readiness
        self._policies = policies
        self._certificates = certificates
        self._sockets = list(sockets)
        self._signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
        self._rendered = webhook_configurations(policies.policy)
        """What is registered, as far as we know: rendered from the policy at the start."""

        self._render_again = False
        self._was_ready: bool | None = None
        self._frozen = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled, number)
        server = Server(server_config(app(RULES, self._readiness), self._certificates), self._tell_start)
        serving = asyncio.create_task(server.serve(self._sockets))
        watch = DriftWatch(self._policies, self._readiness.source)
        background = [asyncio.create_task(self._reload()), asyncio.create_task(watch.run())]
        signalled = asyncio.create_task(self._signals.get())
        await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
        if signalled.done():
            await self._drain(signalled.result(), serving)
        server.should_exit = True
        for task in (*background, signalled):
            task.cancel()
        await serving

    def _signalled(self, number: signal.Signals) -> None:
        if self._readiness.draining:
            # Once is a request, twice is an order. As a container's first process we cannot die of a signal.
            os._exit(128 + number)
        self._readiness.draining = True
        self._signals.put_nowait(number)

    async def _drain(self, number: signal.Signals, serving: asyncio.Task[None]) -> None:
        """Not ready any more, and still answering, until nobody sends requests here. A person at a terminal need not
        wait for that."""
        seconds = self._settings.drain_seconds if number is not signal.SIGINT else 0.0
        log.info("shutting down", extra={"fields": {"signal": number.name, "drainSeconds": seconds}})
        await asyncio.wait({serving}, timeout=seconds)

    def _tell_start(self) -> None:
        host, policies = self._settings.host, self._policies
        port = self._sockets[0].getsockname()[1]
        fields = {
            "address": f"https://{shown(host, port)}",
            "source": self._settings.source_name,
            "policy": str(policies.path or "defaults"),
            "certificate": str(self._settings.certificate or "self-signed"),
            "fingerprint": self._certificates.fingerprint,
            "expires": self._certificates.expires.isoformat(),
            "version": __version__,
        }
        log.info("serving", extra={"fields": fields})
        self._tell_notes()
        self._tell_readiness()

    async def _reload(self) -> None:
        while True:
            await asyncio.sleep(_RELOAD_SECONDS)
            try:
                if await self._certificates.refresh():
                    self._tell_certificate()
                error = self._policies.error
                if await asyncio.to_thread(self._policies.refresh):
                    log.info("policy reloaded", extra={"fields": {"generation": self._policies.generation}})
                    _prime(self._readiness.source, self._policies.policy)
                    self._tell_notes()
                    self._render_again = webhook_configurations(self._policies.policy) != self._rendered
                elif self._policies.error != error:
                    self._tell_policy_error()
                self._tell_policy_note()
                self._tell_readiness()
            except Exception:
                log.exception("reloading failed")

    def _tell_certificate(self) -> None:
        fields = {
            "fingerprint": self._certificates.fingerprint,
            "expires": self._certificates.expires.isoformat(),
            "error": self._certificates.error,
        }
        if self._certificates.error:
            log.error("certificate files are broken, the last good pair is served", extra={"fields": fields})
        else:
            log.info("certificate reloaded", extra={"fields": fields})

    def _tell_policy_error(self) -> None:
        fields = {"generation": self._policies.generation, "error": self._policies.error}
        if self._policies.error:
            log.error("policy file is broken, the last good policy is in force", extra={"fields": fields})
        else:
            log.info("policy file is whole again, and as before", extra={"fields": fields})

    def _tell_policy_note(self) -> None:
        """What an admin has to do about the policy, said once in the log and for as long as it lasts in /readyz."""
        before, notes = self._readiness.policy_note, []
        if self._render_again:
            notes.append(RENDER_AGAIN)
        if self._policies.policy.capacity.discount_unqueued:
            state = self._readiness.source.states().get("UnqueuedPod")
            if state is None:
                notes.append(START_AGAIN)
            elif not state.known and not state.required:
                notes.append(NOT_DISCOUNTED)
        self._readiness.policy_note = "; ".join(notes)
        for note in notes:
            if note not in before:
                log.warning(note)

    def _tell_readiness(self) -> None:
        reasons = self._readiness.reasons()
        was_ready, self._was_ready = self._was_ready, not reasons
        if was_ready is not self._was_ready:
            # At the start, to wait for facts is as it should be.
            level = logging.WARNING if was_ready and reasons else logging.INFO
            log.log(level, "not ready" if reasons else "ready", extra={"fields": {"reasons": reasons}})
        if not reasons and not self._frozen:
            # The facts of a large cluster are millions of objects that stay. Left to the collector, each of its full
            # rounds would look at all of them, and the event or decision that happens to set it off would wait.
            gc.collect()
            gc.freeze()
            self._frozen = True

    def _tell_notes(self) -> None:
        for note in self._policies.notes(datetime.now(UTC).date()):
            log.warning(note)
