"""The policy, read again when its file changes, and what an admin has to do about it."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from webhook.capacity.balance import balance_of
from webhook.capacity.volcano import volcano_of
from webhook.engine.policy import Policy
from webhook.kube.snapshot import FactsMissing
from webhook.policy import PolicyFile
from webhook.scope import agree, webhook_configurations
from webhook.server.readiness import Readiness
from webhook.server.reading import Reader
from webhook.sources.source import Source

RENDER_AGAIN = "policy changes what the API server must send: render and apply the webhook configurations again"
START_AGAIN = "policy asks to discount pods outside of any queue, which are watched from the start only: start it again"
NOT_DISCOUNTED = "policy asks to discount pods outside of any queue, which are not known, so nothing is discounted"
UNNAMED = "DeviceClasses give accelerators by names that policy does not have: add {} to its accelerators.resources"

_SECONDS = 1.0
"""Between two looks at the file."""

log = logging.getLogger("floorkeeper.serve")


class PolicyReload:
    """Looks at the file for as long as the process lives."""

    def __init__(self, policies: PolicyFile, readiness: Readiness) -> None:
        self._policies = policies
        self._readiness = readiness
        self._reader = Reader(policies.refresh, str(policies.path))
        self._unread = ""
        """Why the file cannot even be read, '' if it can."""

        self._rendered = self._wanted = webhook_configurations(policies.policy)
        """What is registered, as far as is known where it cannot be read: rendered from the policy at the start. And
        what should be."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(_SECONDS)
            try:
                await self._look()
                self.tell_note()
            except Exception:
                log.exception("reloading the policy failed")

    async def _look(self) -> None:
        error = self._policies.error
        try:
            changed, self._unread = await self._reader.read(), ""
        except TimeoutError as hangs:
            self._unread = str(hangs)
            return
        if changed:
            log.info("policy reloaded", extra={"fields": {"generation": self._policies.generation}})
            prime(self._readiness.source, self._policies.policy)
            self.tell_oddities()
            self._wanted = webhook_configurations(self._policies.policy)
        elif self._policies.error != error:
            self._tell_error()

    def _tell_error(self) -> None:
        fields = {"generation": self._policies.generation, "error": self._policies.error}
        if self._policies.error:
            log.error("policy file is broken, the last good policy is in force", extra={"fields": fields})
        else:
            log.info("policy file is whole again, and as before", extra={"fields": fields})

    def tell_note(self) -> None:
        """What an admin has to do about the policy, said once in the log and for as long as it lasts in /readyz."""
        before, notes = self._readiness.policy_note, [self._unread] if self._unread else []
        registered = self._readiness.certificate.state().registered
        if not agree(self._rendered if registered is None else registered, self._wanted):
            notes.append(RENDER_AGAIN)
        if self._policies.policy.capacity.discount_unqueued:
            state = self._readiness.source.states().get("UnqueuedPod")
            if state is None:
                notes.append(START_AGAIN)
            elif not state.known and not state.required:
                notes.append(NOT_DISCOUNTED)
        notes += self._unnamed()
        self._readiness.policy_note = "; ".join(notes)
        for note in notes:
            if note not in before:
                log.warning(note)

    def _unnamed(self) -> list[str]:
        """Resources that stand for accelerators of the policy, and that the API server does not know to ask about."""
        named = self._policies.policy.accelerators
        try:
            backed = named.backed_by(self._readiness.source.snapshot.extended_resources())
        except FactsMissing:
            return []
        names = ", ".join(sorted(backed.exact - named.exact))
        return [UNNAMED.format(names)] if names else []

    def tell_oddities(self) -> None:
        """What of the policy has no effect."""
        for note in self._policies.notes(datetime.now(UTC).date()):
            log.warning(note)


def prime(source: Source, policy: Policy) -> None:
    """Has the sums of floors and hardware follow the facts, so that no decision waits until they are made."""
    balance_of(source.snapshot, policy.capacity, policy.accelerators)
    volcano_of(source.snapshot, policy.capacity, policy.accelerators)
