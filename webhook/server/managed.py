"""Certificates that Floorkeeper makes and renews itself, in a cluster, with no help from cert-manager."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from pathlib import Path

from webhook.server.authority import self_signed_pair, service_names
from webhook.server.bundle import CONFIGURATION, KINDS
from webhook.server.certificates import CertificateState, ListeningContext
from webhook.server.keeper import Keeper, KeeperTiming
from webhook.sources.connection import Connection
from webhook.sources.ledger import StoreError
from webhook.sources.named import NamedObject, Place
from webhook.sources.source import SourceError
from webhook.sources.store import own_namespace
from webhook.sources.timing import Timing

RIGHTS = "manifests/overlays/self-signed/rbac.yaml"
_SERVICE = "floorkeeper"
_CONNECTION, _FAULT = "connection", "fault"
_PAUSE = 0.1
"""Seconds between two looks at the least, however often it rings."""

log = logging.getLogger("floorkeeper.certificate")


class ManagedCertificate:
    """Kept in one Secret of our own namespace by all replicas.

    One thread looks, every few seconds and whenever a webhook configuration changes; one for each of the two
    configurations waits for that. Until the first look, a pair that nobody trusts answers /healthz.
    """

    def __init__(
        self,
        kubeconfig: Path | None,
        secret: str,
        namespace: str = "",
        configuration: str = CONFIGURATION,
        timing: KeeperTiming | None = None,
    ) -> None:
        """`namespace` is the Secret's and the Service's, '' for our own. Both configurations have the same name."""
        self._timing = Timing()
        self._connection = Connection(kubeconfig, self._timing)
        namespace = namespace or own_namespace()
        place = Place("v1", "Secret", "secrets", secret, namespace)
        group = "admissionregistration.k8s.io/v1"
        self._configurations = [
            NamedObject(self._connection, Place(group, kind, plural, configuration), RIGHTS)
            for kind, plural in KINDS.items()
        ]
        self._context = ListeningContext(self_signed_pair("localhost"))
        self._keeper = Keeper(
            NamedObject(self._connection, place, RIGHTS),
            self._configurations,
            service_names(_SERVICE, namespace),
            self._context,
            timing or KeeperTiming(),
        )
        self._stopping = threading.Event()
        self._bell = threading.Event()
        self._troubles: dict[str, str] = {}
        """Beside the keeper's: by the kind of a configuration why it cannot be watched, and what else goes wrong."""

        self._told = self.state()

    def context(self) -> ListeningContext:
        return self._context

    async def run(self) -> None:
        threading.Thread(target=self._keep, name="certificate", daemon=True).start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._stopping.set()
            self._bell.set()
            self._connection.close()

    def state(self) -> CertificateState:
        state = self._keeper.state
        if not self._troubles:
            return state
        error = "; ".join(text for text in (state.error, *self._troubles.values()) if text)
        return replace(state, error=error, pending=error if self._keeper.mine is None else state.pending)

    # In threads of our own

    def _keep(self) -> None:
        while not self._load():
            if self._stopping.wait(self._timing.renewal):
                return
        for each in self._configurations:
            name = f"watch-{each.place.plural}"
            threading.Thread(target=self._listen, args=(each,), name=name, daemon=True).start()
        while not self._stopping.is_set():
            self._bell.clear()
            try:
                seconds = self._keeper.look()
                self._troubles.pop(_FAULT, None)
            except Exception:
                seconds, self._troubles[_FAULT] = self._timing.renewal, "internal error; the log has it"
                log.exception("looking after the certificate failed")
            self._tell()
            self._stopping.wait(_PAUSE)
            self._bell.wait(seconds)

    def _tell(self) -> None:
        """Says in the log, once, what has changed in what /readyz shows."""
        if self._stopping.is_set():
            return
        before, self._told = self._told, self.state()
        if self._told.error and self._told.error != before.error:
            log.error("certificate cannot be kept", extra={"fields": {"error": self._told.error}})
        elif before.error and not self._told.error:
            log.info("certificate is kept again")
        if self._told.note and self._told.note != before.note:
            log.info(self._told.note)

    def _load(self) -> bool:
        """Reads the kubeconfig, which may run a plugin."""
        try:
            self._connection.load()
        except SourceError as error:
            self._troubles[_CONNECTION] = str(error)
            self._tell()
            return False
        self._troubles.pop(_CONNECTION, None)
        return True

    def _listen(self, configuration: NamedObject) -> None:
        """Rings whenever the configuration changes, and when a watch begins, for what may have been missed."""
        kind, failures = configuration.place.kind, 0

        def changed() -> None:
            self._troubles.pop(kind, None)
            self._bell.set()

        while not self._stopping.is_set():
            try:
                configuration.watch(changed, self._timing.watch_seconds(), self._timing.silence)
                failures = 0
            except StoreError as error:
                failures += 1
                if error.lasting:
                    self._troubles[kind] = str(error)
            self._stopping.wait(self._timing.delay(max(failures, 1)))
