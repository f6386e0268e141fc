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
from pathlib import Path
from typing import TYPE_CHECKING

from webhook import __version__
from webhook.engine.policy import Policy
from webhook.policy import PolicyError, PolicyFile
from webhook.rules import RULES
from webhook.server.address import CannotListen, UnknownHost, listen_on, shown
from webhook.server.app import app
from webhook.server.certificates import CertificateError, CertificateSource, OwnCertificate
from webhook.server.clients import ClientAuthority
from webhook.server.connection import MOST_CONNECTIONS
from webhook.server.drift import DriftWatch
from webhook.server.files import FileCertificate
from webhook.server.http import Server, server_config
from webhook.server.log import log_to
from webhook.server.readiness import Readiness
from webhook.server.reload import PolicyReload, prime
from webhook.sources.source import Source, SourceError

if TYPE_CHECKING:  # they bring the live door with them, which takes time and memory, and few ask for it
    from webhook.live.page.server import PageServer
    from webhook.server.audits import Audits, AuditSettings
    from webhook.server.page import PageSettings

DRAIN_SECONDS = 3.0
"""From not ready to no new connections: time for the endpoints to be withdrawn."""

_LOOK_SECONDS = 1.0
_SOURCE_STOP_SECONDS = 1.0
_FILES = 2 * MOST_CONNECTIONS  # with those at their handshake, and some in reserve
_GARBAGE = 100_000  # new objects between two rounds of garbage collection

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
    """None, as is `certificate`: a self-signed pair is made, unless `managed` makes another."""

    managed: Callable[[], CertificateSource] | None = None
    client_ca: Path | None = None
    """None: every client may send reviews."""

    client_names: frozenset[str] = frozenset()
    """Of the certificates that may, empty for all that `client_ca` vouches for."""

    drain_seconds: float = DRAIN_SECONDS
    page: PageSettings | None = None
    """None: no page is served."""

    audits: AuditSettings | None = None
    """None: no audits are done."""


def serve(settings: Settings) -> None:
    """Serves until a signal. Raises CannotServe."""
    # Facts are thousands of small objects that stay: at the default of 700, a start would be half garbage collection.
    gc.set_threshold(_GARBAGE)
    _allow_files()
    # What was logged is written before Python, or the caller, says why it ended.
    with contextlib.closing(log_to(sys.stderr.fileno())), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings))


def _allow_files() -> None:
    """Lets this process have as many files open as it may take connections; shells and containerd allow 1024."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # on Windows, or where it is forbidden
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 <= soft < _FILES:
            most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


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
        certificate = _certificate(settings)
        clients = _clients(settings, certificate)
    with _start(CannotListen, 1), _start(UnknownHost, 2):
        sockets = listen_on(settings.host, settings.port)
        pages = [] if settings.page is None else listen_on(settings.page.host, settings.page.port)
    with _start(SourceError, 1):
        source = settings.source(_kinds_beyond_rules(policies.policy))
        await source.start()
        if source.ledger is not None:
            source.ledger.start()
    prime(source, policies.policy)
    readiness = Readiness(policies, source, certificate, clients=clients)
    try:
        await _Process(settings, readiness, policies, certificate, sockets, pages).run()
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SOURCE_STOP_SECONDS):
                await source.stop()
        log.info("stopped")


def _kinds_beyond_rules(policy: Policy) -> frozenset[str]:
    return frozenset({"UnqueuedPod"}) if policy.capacity.discount_unqueued else frozenset()


@contextlib.contextmanager
def _start(error: type[Exception], code: int) -> Iterator[None]:
    try:
        yield
    except error as found:
        raise CannotServe(str(found), code) from None


def _certificate(settings: Settings) -> CertificateSource:
    """Raises CertificateError."""
    if settings.managed is not None:
        return settings.managed()
    if settings.certificate is None or settings.key is None:
        return OwnCertificate(settings.host)
    return FileCertificate(settings.certificate, settings.key)


def _clients(settings: Settings, certificate: CertificateSource) -> ClientAuthority | None:
    """Raises CertificateError."""
    if settings.client_ca is None:
        return None
    return ClientAuthority(settings.client_ca, settings.client_names, certificate.context())


class _Process:
    """A server and what runs beside it, until a signal."""

    def __init__(
        self,
        settings: Settings,
        readiness: Readiness,
        policies: PolicyFile,
        certificate: CertificateSource,
        sockets: Sequence[socket.socket],
        pages: Sequence[socket.socket],
    ) -> None:
        self._settings = settings
        self._readiness = readiness
        self._policies = policies
        self._certificate = certificate
        self._sockets = list(sockets)
        self._page = None if settings.page is None else self._page_server(settings.page, pages)
        self._signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
        self._reload = PolicyReload(policies, readiness)
        self._was_ready: bool | None = None
        self._frozen = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._signalled, number)
        denials = self._page.board.denials if self._page is not None else None
        audits = None if self._settings.audits is None else self._audits(self._settings.audits)
        built = app(RULES, self._readiness, denials=denials, audit=audits.metrics if audits is not None else None)
        server = Server(server_config(built, self._certificate), self._tell_start)
        serving = asyncio.create_task(server.serve(self._sockets))
        watch = DriftWatch(self._policies, self._readiness.source)
        clients = self._readiness.clients
        # Each for itself: files that cannot be read, or a cluster that does not answer, hold up nothing else.
        tasks = [self._reload.run(), self._report(), watch.run(), self._certificate.run()]
        background = [asyncio.create_task(task) for task in (*tasks, *([clients.run()] if clients is not None else []))]
        page = asyncio.create_task(self._page.run()) if self._page is not None else None
        auditing = asyncio.create_task(audits.run()) if audits is not None else None
        signalled = asyncio.create_task(self._signals.get())
        await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
        if auditing is not None:
            # Not at the end: what is left of its time, a replica that leaves has for reviews.
            auditing.cancel()
        if signalled.done():
            await self._drain(signalled.result(), serving)
        server.should_exit = True
        if self._page is not None:
            self._page.stop()
        for task in (*background, signalled):
            task.cancel()
        await serving
        if page is not None:
            await page
        if auditing is not None:
            await asyncio.wait({auditing})

    def _page_server(self, settings: PageSettings, sockets: Sequence[socket.socket]) -> PageServer:
        from webhook.server.page import page_server

        audits = self._settings.audits is not None
        return page_server(settings, sockets, self._policies, self._readiness.source, audits=audits)

    def _audits(self, settings: AuditSettings) -> Audits:
        from webhook.live.audit.metrics import AuditMetrics
        from webhook.server.audits import Audits

        board = self._page.board if self._page is not None else None
        metrics = AuditMetrics(settings.every)
        return Audits(settings, self._policies, metrics, lambda: not self._readiness.reasons(), board)

    def _signalled(self, number: signal.Signals) -> None:
        if self._readiness.draining:
            # Once is a request, twice is an order. As a container's first process we cannot die of a signal.
            logging.shutdown()
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
        host, policies, certificate = self._settings.host, self._policies, self._certificate.state()
        port = self._sockets[0].getsockname()[1]
        fields = {
            "address": f"https://{shown(host, port)}",
            "source": self._settings.source_name,
            "policy": str(policies.path or "defaults"),
            "certificate": certificate.source,
            "fingerprint": certificate.fingerprint,
            "expires": certificate.expires.isoformat(),
            "version": __version__,
        }
        log.info("serving", extra={"fields": fields})
        self._reload.tell_oddities()
        self._tell_readiness()

    async def _report(self) -> None:
        """What changes by itself, to the log."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                self._reload.tell_note()
                self._tell_readiness()
            except Exception:
                log.exception("telling what has changed failed")

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
