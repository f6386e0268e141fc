"""An audit as metrics, for a server that runs one on a schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from webhook.live.audit.report import Audit

_PREFIX = "floorkeeper_audit"


class AuditMetrics(Collector):
    """The last audit that came to an end; nothing of it before the first. `done` and `failed` may be called from any
    thread."""

    def __init__(self, every: float = 0.0) -> None:
        """`every` is how many seconds are between two audits, 0 where there is no telling."""
        self._every = every
        self._last: Audit | None = None
        self._failures = 0
        self._unpublished = 0

    def done(self, audit: Audit, *, published: bool = True) -> None:
        """`published`: its PolicyReports are as they should be, or there are no such objects."""
        self._last = audit
        self._unpublished += not published

    def failed(self) -> None:
        """One could not be done. What the last one found stands, with its time."""
        self._failures += 1

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        yield CounterMetricFamily(
            f"{_PREFIX}_failures", "Audits that could not be done, since the process began.", value=self._failures
        )
        yield CounterMetricFamily(
            f"{_PREFIX}_unpublished",
            "Audits whose PolicyReports could not all be written, since the process began.",
            value=self._unpublished,
        )
        if self._every:
            yield GaugeMetricFamily(f"{_PREFIX}_interval_seconds", "How often an audit is done.", value=self._every)
        if self._last is not None:
            yield from samples(self._last)


def samples(audit: Audit) -> Iterator[GaugeMetricFamily]:
    """The metrics of one audit. Numbers of findings count objects, so that collapsing changes none."""
    findings = GaugeMetricFamily(
        f"{_PREFIX}_findings",
        "Objects that the last audit found something wrong with.",
        labels=("rule", "severity"),
    )
    by_rule: Counter[tuple[str, str]] = Counter()
    for found in audit.findings:
        by_rule[found.rule, found.severity.value] += found.count
    for key, number in sorted(by_rule.items()):
        findings.add_metric(key, number)
    yield findings
    missing = GaugeMetricFamily(
        f"{_PREFIX}_not_evaluated",
        "1 for each rule, check or kind that the last audit could not look at.",
        labels=("what",),
    )
    for what in sorted({entry.what for entry in audit.not_evaluated}):
        missing.add_metric((what,), 1)
    yield missing
    for name, text, value in (
        ("objects", "Objects that the last audit judged.", audit.checked),
        ("exempt_objects", "Objects that the policy exempts from judgement.", len(audit.exempted)),
        ("namespaces", "Managed namespaces that the last audit looked at.", len(audit.namespaces)),
        ("duration_seconds", "How long the last audit took.", audit.seconds),
        ("last_success_timestamp_seconds", "When the last audit that was done began.", audit.at),
    ):
        yield GaugeMetricFamily(f"{_PREFIX}_{name}", text, value=value)
