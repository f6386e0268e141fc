"""Whether requests should be sent here, and what stands behind the answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from webhook.server.admission import PolicyInForce
from webhook.server.certificates import CertificateState
from webhook.server.clients import ClientAuthority
from webhook.sources.source import Source


class CertificateInForce(Protocol):
    """The certificate that new connections get. Implemented by every CertificateSource."""

    def state(self) -> CertificateState: ...


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
        clients: ClientAuthority | None = None,
    ) -> None:
        """`clients` are those that may send reviews, None for all."""
        self.policies = policies
        self.source = source
        self.certificate = certificate
        self.clients = clients
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
        certificate = self.certificate.state()
        found = [
            f"{kind}: {state.detail or 'not known yet'}"
            for kind, state in self.source.states().items()
            if state.required and not state.known
        ]
        left = certificate.expires - self._now()
        if left <= timedelta(0):
            found.append("certificate: has expired")
        elif certificate.error and left < certificate.last:
            found.append("certificate: expires within the hour and cannot be renewed")
        if certificate.pending:
            found.append(f"certificate: {certificate.pending}")
        if self.draining:
            found.append("shutting down")
        return sorted(found)

    def report(self) -> dict[str, Any]:
        """The body of /readyz."""
        reasons, certificate = self.reasons(), self.certificate.state()
        authority_expires = certificate.authority_expires
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
                "source": certificate.source,
                "expires": certificate.expires.isoformat(),
                "fingerprint": certificate.fingerprint,
                "authorityExpires": authority_expires.isoformat() if authority_expires is not None else None,
                "caBundlePublished": certificate.published,
                "error": certificate.error,
                "note": certificate.note,
            },
            "clients": {
                "certificate": "required" if self.clients is not None else "not asked for",
                "error": self.clients.error if self.clients is not None else "",
            },
        }
