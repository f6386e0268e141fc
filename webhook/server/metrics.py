"""Prometheus metrics: what was asked and answered, and how well the policy, the facts and the certificate are known."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from webhook import __version__
from webhook.engine.rule import Stage
from webhook.server.floors import FlavorCollector, QueuePage
from webhook.server.readiness import Readiness
from webhook.server.tally import Durations, Tally
from webhook.server.text import printable

# A decision takes some 0.1 ms and the API server gives up after 10 s.
_BUCKETS = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

_LONGEST_REASON = 128
_END = b"# EOF\n"  # of a page in the OpenMetrics format


class Metrics:
    """The metrics of one app, in a registry of its own."""

    def __init__(self, readiness: Readiness) -> None:
        self.registry = CollectorRegistry()
        self._requests = Tally(
            "floorkeeper_requests",
            "Admission requests, by the webhook called, operation, kind of object and verdict.",
            ("webhook", "operation", "kind", "verdict"),
        )
        self._errors = Tally(
            "floorkeeper_request_errors",
            "Admission requests without a verdict, for a fault of our own: what also counts as verdict error.",
            ("webhook",),
        )
        self._hits = Tally("floorkeeper_rule_hits", "Findings, by rule and by what came of them.", ("rule", "severity"))
        self._exemptions = Tally(
            "floorkeeper_exemptions",
            "Objects with findings that an exemption of the policy let through, by its reason.",
            ("reason",),
        )
        self._durations = Durations(
            "floorkeeper_request_duration_seconds",
            "Time from the first byte of a request to its answer.",
            "webhook",
            [stage.value for stage in Stage],
            _BUCKETS,
        )
        for stage in Stage:
            # There from the start, so that the first error is an increase.
            self._errors.count(stage.value, times=0)
        for collector in (self._requests, self._errors, self._hits, self._exemptions, self._durations):
            self.registry.register(collector)
        self.registry.register(_StateCollector(readiness))
        self.registry.register(FlavorCollector(readiness.policies, readiness.source))
        self._queues = QueuePage(readiness.policies, readiness.source)
        ProcessCollector(registry=self.registry)

    def request(self, stage: Stage, operation: str, kind: str, verdict: str, seconds: float) -> None:
        """Counts one request. `operation` and `kind` come from short lists: a label's values must not grow."""
        self._requests.count(stage.value, operation, kind, verdict)
        if verdict == "error":
            self._errors.count(stage.value)
        self._durations.observe(stage.value, seconds)

    def hit(self, rule: str, severity: str) -> None:
        self._hits.count(rule, severity)

    def exemption(self, reason: str) -> None:
        self._exemptions.count(printable(reason, _LONGEST_REASON))

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics and their content type, in the format that an Accept header asks for."""
        encode, content_type = choose_encoder(accept)
        page = encode(self.registry)
        end = _END if page.endswith(_END) else b""
        return page.removesuffix(end) + self._queues.text() + end, content_type


class _StateCollector(Collector):
    """Reads the state of policy, facts and certificate at the moment of a scrape."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    def describe(self) -> list[Metric]:
        # Without it, registering would collect, and the facts may not be there yet.
        return []

    def collect(self) -> Iterator[Metric]:
        policies = self._readiness.policies
        yield _gauge("floorkeeper_policy_generation", "Policies that were in force so far.", policies.generation)
        yield _gauge(
            "floorkeeper_policy_load_failed",
            "1 while the policy file's content is broken and the last good one is in force.",
            bool(policies.error),
        )
        yield _gauge(
            "floorkeeper_policy_incomplete",
            "1 while part of the policy has no effect until something is done, which /readyz tells.",
            bool(self._readiness.policy_note),
        )
        yield from self._certificate()
        yield _gauge("floorkeeper_ready", "1 while /readyz answers 200.", not self._readiness.reasons())
        yield InfoMetricFamily("floorkeeper_build", "The version of Floorkeeper.", {"version": __version__})
        yield from self._facts()

    def _certificate(self) -> Iterator[Metric]:
        certificate, clients = self._readiness.certificate.state(), self._readiness.clients
        yield _gauge(
            "floorkeeper_certificate_expiry_timestamp_seconds",
            "When the served certificate expires.",
            certificate.expires.timestamp(),
        )
        yield _gauge(
            "floorkeeper_certificate_reload_failed",
            "1 while no new certificate or client CA can take the place of the last good one; /readyz says why.",
            bool(certificate.error or (clients is not None and clients.error)),
        )
        # Without a value where the CA is not ours: what must be alerted on is not 0 there.
        authority = GaugeMetricFamily(
            "floorkeeper_certificate_authority_expiry_timestamp_seconds",
            "When the CA of the served certificate expires; only with --tls-secret.",
        )
        if certificate.authority_expires is not None:
            authority.add_metric((), certificate.authority_expires.timestamp())
        yield authority
        published = GaugeMetricFamily(
            "floorkeeper_ca_bundle_published",
            "1 while both webhook configurations trust the CA of the served certificate; only with --tls-secret.",
        )
        if certificate.published is not None:
            published.add_metric((), float(certificate.published))
        yield published

    def _facts(self) -> Iterator[Metric]:
        age = GaugeMetricFamily(
            "floorkeeper_facts_age_seconds",
            "Time since a kind's facts were last known to be current.",
            labels=("kind",),
        )
        known = GaugeMetricFamily("floorkeeper_facts_known", "1 for a kind whose facts are known.", labels=("kind",))
        for kind, state in sorted(self._readiness.source.states().items()):
            age.add_metric((kind,), state.age_seconds)
            known.add_metric((kind,), float(state.known))
        yield age
        yield known


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))
