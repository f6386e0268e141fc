"""Whether requests should be sent here, and what stands behind the answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from webhook.server.admission import PolicyInForce
from webhook.sources.source import Source

_LAST_HOUR = timedelta(hours=1)


class CertificateInForce(Protocol):
    """The certificate that new connections get. Implemented by webhook.server.certificates.Certificates."""

    @property
    def expires(self) -> datetime: ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the DER form, in hexadecimal."""

    @property
    def error(self) -> str:
        """Why the files' present content is not served, '' if it is."""


def _now() -> datetime:
    return datetime.now(UTC)


class Readiness:
    """What /readyz reports and /metrics counts."""

    def __init__(
        self,
        policies: PolicyInForce,
        source: Source,
        certificate: CertificateInForce,
        now: Callable[[], datetime] = _now,
    ) -> None:
        self.policies = policies
        self.source = source
        self.certificate = certificate
        self.draining = False
        """Set once this process is about to end: not ready any more, and still answering."""

        self.policy_note = ""
        """What an admin has to do about the policy in force, '' for nothing."""

        self._now = now

    def reasons(self) -> list[str]:
        """Why we are not ready, sorted; empty if we are.

        A broken policy file or certificate is none: the last good one is in force. But nobody can replace a certificate
        that is about to expire, if its files are broken.
        """
        found = [
            f"{kind}: {state.detail or 'not known yet'}"
            for kind, state in self.source.states().items()
            if state.required and not state.known
        ]
        left = self.certificate.expires - self._now()
        if left <= timedelta(0):
            found.append("certificate: has expired")
        elif self.certificate.error and left < _LAST_HOUR:
            found.append("certificate: expires within the hour and cannot be reloaded")
        if self.draining:
            found.append("shutting down")
        return sorted(found)

    def report(self) -> dict[str, Any]:
        """The body of /readyz."""
        reasons = self.reasons()
        return {
            "ready": not reasons,
            "reasons": reasons,
            "policy": {
                "generation": self.policies.generation,
                "error": self.policies.error,
                "note": self.policy_note,
            },
            "facts": {
                kind: {
                    "known": state.known,
                    "ageSeconds": round(state.age_seconds, 1) if math.isfinite(state.age_seconds) else None,
                    "detail": state.detail,
                }
                for kind, state in sorted(self.source.states().items())
            },
            "ledger": {"error": self.source.ledger.error if self.source.ledger is not None else ""},
            "certificate": {
                "expires": self.certificate.expires.isoformat(),
                "fingerprint": self.certificate.fingerprint,
                "error": self.certificate.error,
            },
        }
