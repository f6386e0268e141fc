"""What an audit found, as the page shows it."""

from __future__ import annotations

from dataclasses import dataclass

from webhook.live.audit.report import SETUP, Audit, AuditFinding

MOST_NAMES = 10

GATED_PODS = f"{SETUP}gated-pods"
"""The check that finds the pods at Kueue's gate."""


@dataclass(frozen=True, slots=True)
class Violated:
    """One thing that is wrong with one or more objects of one kind and namespace.

    `what` says where it is, what must hold and what is there. `names` are at most ten of the `count` objects'.
    """

    rule: str
    severity: str
    """'deny', 'patch' or 'warn'."""

    kind: str
    namespace: str
    names: tuple[str, ...]
    what: str
    fix: str
    count: int = 1

    @property
    def about_setup(self) -> bool:
        """Nothing was written there, so there is nothing that a webhook would say of it."""
        return self.rule.startswith(SETUP)


@dataclass(frozen=True, slots=True)
class Audited:
    """The last audit that came to an end. `at` is when it began, in seconds since the epoch; None: there was none.

    `reason` says why there was none, or why the last one failed, '' if all is well; `every` is how many seconds are
    between two, 0 if there will be no other.
    """

    at: float | None = None
    every: float = 0.0
    findings: tuple[Violated, ...] = ()
    not_evaluated: tuple[tuple[str, str], ...] = ()
    """What was not looked at (a rule, a check or a kind), and why."""

    exempt: int = 0
    """Objects that the policy exempts."""

    reason: str = "no audit has been done yet"
    seconds: float = 0.0
    """How long it took."""

    @property
    def gated_pods(self) -> int | None:
        """Pods at Kueue's gate, in a ClusterQueue or in none; None if nobody looked."""
        if self.at is None or any(what == GATED_PODS for what, _ in self.not_evaluated):
            return None
        return sum(each.count for each in self.findings if each.rule == GATED_PODS)


def audited(audit: Audit, every: float = 0.0) -> Audited:
    """An audit as the page shows it."""
    return Audited(
        audit.at,
        every,
        tuple(map(_violated, audit.findings)),
        tuple((entry.what, entry.reason) for entry in audit.not_evaluated),
        len(audit.exempted),
        reason="",
        seconds=audit.seconds,
    )


def _violated(found: AuditFinding) -> Violated:
    names = tuple(each.name for each in found.objects[:MOST_NAMES])
    kind = found.objects[0].kind
    return Violated(found.rule, found.severity.value, kind, found.namespace, names, found.what, found.fix, found.count)
