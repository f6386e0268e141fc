"""Whether the set-up itself can hold the rules: a table of checks, each a function of what was read. Pure.

A check yields findings under its own id, or raises NotLookedAt where something that it needs could not be read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from webhook.engine.rule import Violation
from webhook.engine.verdict import Finding, Severity
from webhook.kube.snapshot import FactsMissing
from webhook.live.audit.kueue import (
    absent,
    controllers_down,
    integrations,
    local_queues_nowhere,
    namespaces_left_out,
    nothing_managed,
    queues_inactive,
    unguarded_namespaces,
)
from webhook.live.audit.report import SETUP, NotEvaluated, Reference
from webhook.live.audit.standing import Defect, NotLookedAt, Standing
from webhook.live.audit.unqueued import gated_pods, uncounted_pods
from webhook.live.audit.webhooks import ca_bundles, order, registered, same_as_shipped


@dataclass(frozen=True, slots=True)
class Check:
    """`id` follows setup/ in a message. `page` is its published page: the first line is the summary."""

    id: str
    severity: Severity
    look: Callable[[Standing], Iterable[Defect]]

    @property
    def page(self) -> str:
        return inspect.cleandoc(self.look.__doc__ or "")

    @property
    def summary(self) -> str:
        return self.page.partition("\n")[0].rstrip(".")


CHECKS: tuple[Check, ...] = (
    Check("kueue-absent", Severity.DENY, absent),
    Check("kueue-down", Severity.DENY, controllers_down),
    Check("integration-off", Severity.DENY, integrations),
    Check("nothing-managed", Severity.DENY, nothing_managed),
    Check("namespace-left-out", Severity.DENY, namespaces_left_out),
    Check("namespace-unguarded", Severity.WARN, unguarded_namespaces),
    Check("webhook-absent", Severity.DENY, registered),
    Check("webhook-differs", Severity.DENY, same_as_shipped),
    Check("webhook-order", Severity.DENY, order),
    Check("ca-bundle", Severity.DENY, ca_bundles),
    Check("cluster-queue-inactive", Severity.WARN, queues_inactive),
    Check("local-queue-nowhere", Severity.WARN, local_queues_nowhere),
    Check("gated-pods", Severity.WARN, gated_pods),
    Check("uncounted-pods", Severity.WARN, uncounted_pods),
)


@dataclass(frozen=True, slots=True)
class SetupResult:
    findings: Sequence[tuple[Reference, Finding]]
    not_evaluated: Sequence[NotEvaluated]


def look(standing: Standing, checks: Sequence[Check] = CHECKS) -> SetupResult:
    """Every check on what was read."""
    findings: list[tuple[Reference, Finding]] = []
    missing: list[NotEvaluated] = []
    for check in checks:
        try:
            for defect in check.look(standing):
                # What comes before something that is lacking stands.
                findings.append(_told(check, defect))  # noqa: PERF401
        except (NotLookedAt, FactsMissing) as error:
            missing.append(NotEvaluated(f"{SETUP}{check.id}", str(error)))
    return SetupResult(findings, missing)


def _told(check: Check, defect: Defect) -> tuple[Reference, Finding]:
    about = defect.about
    violation = Violation(defect.path, defect.must, defect.actual, defect.fix)
    severity = Severity.WARN if defect.advice else check.severity
    return about, Finding(f"{SETUP}{check.id}", severity, about.kind, about.namespace, about.name, violation)
