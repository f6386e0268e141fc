"""The shipped alerts and dashboard on real data: Prometheus scrapes Floorkeeper, the API server and Kueue."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.cluster.auditing import AuditingServer, auditing
from tests.cluster.controlplane import Cluster, until
from tests.cluster.prometheus import Prometheus, scraping
from tests.cluster.server import Floorkeeper, shipped_account
from tests.cluster.team import Team, cluster_queue
from tests.monitoring import Object, choices, manifest, metrics_of, panels, queries, rule_groups

VARIABLES = {"flavor": ".*", "queue": ".*", "__rate_interval": "4s", "__range": "1m"}
ELSEWHERE = {
    "kube_deployment_spec_replicas": "kube-state-metrics has it",
    "floorkeeper_exemptions_total": "only once an exemption was used",
    "floorkeeper_flavor_not_evaluated": "only where a floor cannot be compared with hardware",
}
"""Metrics that are named and may not be there, and why."""


def jobs(cluster: Cluster, server: Floorkeeper, audits: AuditingServer, directory: Path) -> list[Object]:
    """Scrape configurations: ours as the operator would make it of the shipped ServiceMonitor.

    Of the server that audits, which is no replica of the other, there are only the numbers of audits.
    """
    kubeconfig = yaml.safe_load(cluster.kubeconfig.read_text())
    (directory / "token").write_text(kubeconfig["users"][0]["user"]["token"])
    authorization = {"credentials_file": str(directory / "token")}
    (endpoint,) = manifest("scraping.yaml")["spec"]["endpoints"]
    configuration = cluster.get("configmap", "kueue-manager-config", "-n", "kueue-system")["data"]
    kueue = yaml.safe_load(configuration["controller_manager_config.yaml"])["metrics"]["bindAddress"]

    def job(name: str, address: str, **more: object) -> Object:
        return {"job_name": name, "scheme": "https", "static_configs": [{"targets": [address]}], **more}

    trusted = endpoint["tlsConfig"]["ca"]["secret"]
    secret = cluster.get("secret", trusted["name"], "-n", "floorkeeper-system")["data"]
    (directory / "ca.crt").write_bytes(base64.b64decode(secret[trusted["key"]]))
    # Without a client certificate or token: the server asks nobody for one who only reads metrics.
    ours = {"ca_file": str(directory / "ca.crt"), "server_name": endpoint["tlsConfig"]["serverName"]}
    unchecked: Object = {"authorization": authorization, "tls_config": {"insecure_skip_verify": True}}
    return [
        job("floorkeeper", f"{server.address}:{server.port}", metrics_path=endpoint["path"], tls_config=ours),
        job("apiserver", kubeconfig["clusters"][0]["cluster"]["server"].removeprefix("https://"), **unchecked),
        job("kueue", kueue, **unchecked),
        job(
            "audits",
            audits.url.removeprefix("https://"),
            tls_config=unchecked["tls_config"],
            metric_relabel_configs=[{"source_labels": ["__name__"], "regex": "floorkeeper_audit_.+", "action": "keep"}],
        ),
    ]


@pytest.fixture
def audits(cluster: Cluster, floorkeeper: Floorkeeper, tmp_path: Path) -> Iterator[AuditingServer]:
    """With the rights that serve reviews alone, which do not allow it to look at everything."""
    folder = tmp_path / "audits"
    folder.mkdir()
    with shipped_account(cluster, "floorkeeper-monitored") as kubeconfig, auditing(folder, kubeconfig, "10s") as server:
        yield server


@pytest.fixture
def prometheus(
    cluster: Cluster, floorkeeper: Floorkeeper, audits: AuditingServer, tmp_path: Path
) -> Iterator[Prometheus]:
    with scraping(tmp_path, jobs(cluster, floorkeeper, audits, tmp_path), rule_groups()) as prometheus:
        yield prometheus


def test_alerts_and_dashboard(team: Team, floorkeeper: Floorkeeper, prometheus: Prometheus) -> None:
    a, b = (f"{team.namespace}-model-{name}" for name in "ab")

    def alerts_become(*expected: str) -> None:
        def agree() -> bool:
            found = raised(prometheus, team)
            print(sorted(found.symmetric_difference(expected)))
            return found == set(expected)

        until(f"no other alerts than {expected}", agree, 30)

    # Something stands there that would be denied today.
    assert team.api.create(team.deployment("surging", 0, "model-a-lq")).stored
    team.manage()
    # There is one replica, where there should be two, and audits may not look at everything.
    names = ("ReplicasMissing", "AuditFindings", "AuditNotEvaluated")
    healthy = [f"pending Floorkeeper{name} warning" for name in names]
    alerts_become(*healthy)

    # Model A borrows two, and model B does not get them back.
    reclaim(team, b, "Never")
    team.cluster.apply(team.deployment("model-a", 7))
    until("an idle peer lends", lambda: team.ready("model-a") == 7)
    team.cluster.apply(team.deployment("model-b", 5))
    alerts_become(*healthy, f"pending FloorkeeperFloorNotHonoured warning {b}")
    until("two are borrowed", lambda: shown(prometheus, "Borrowed", a) == 2, 30)
    until("two are lent", lambda: shown(prometheus, "Lent or idle", b) == 2, 30)

    # It gets them back, and what model A asks for beyond its floor waits, as it should.
    reclaim(team, b, "Any")
    until("the floor is honoured", lambda: team.ready("model-b") == 5)
    alerts_become(*healthy, f"pending FloorkeeperPodsGated info {a}")
    until("two are gated", lambda: shown(prometheus, "Gated workloads", a) == 2, 30)

    reclaim(team, a, "Any", stopPolicy="Hold")
    alerts_become(*healthy, f"pending FloorkeeperQueueInactive warning {a}")

    deny(team, b)
    fail(team, prometheus)
    check_choices(prometheus, team, {"flavor": {team.namespace}, "queue": {a, b}})
    check_panels(prometheus)
    check_rules(prometheus)


def reclaim(team: Team, queue: str, policy: str, **spec: object) -> None:
    changes = yaml.safe_dump({"spec": {"preemption": {"reclaimWithinCohort": policy}, **spec}})
    team.cluster("patch", "clusterqueue", queue, "--type=merge", "--patch", changes)


def deny(team: Team, queue: str) -> None:
    """Something denied at either webhook that denies most, and something that warns; nothing of it is stored."""
    limit_only = copy.deepcopy(team.deployment("model-b-canary", queue="model-b-lq"))
    del limit_only["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    limit_only["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    result = team.cluster.create(limit_only, "--dry-run=server", check=False)
    assert "[implicit-gpu-request]" in result.stderr
    raised_floor = cluster_queue(queue, team.namespace, team.namespace, 6)
    assert "[floors-exceed-capacity]" in team.cluster.apply(raised_floor, check=False).stderr


def raised(prometheus: Prometheus, team: Team) -> set[str]:
    """State, name, severity and queue of the alerts that are pending or firing.

    Without those about other tests' queues, and about how fast this machine is.
    """
    found, own = set(), team.namespace
    for alert in prometheus.ask("alerts")["alerts"]:
        labels = alert["labels"]
        about = (labels.get("flavor", own), labels.get("queue", own))
        if all(name.startswith(own) for name in about) and not labels["alertname"].endswith("Slow"):
            found.add(f"{alert['state']} {labels['alertname']} {labels['severity']} {labels.get('queue', '')}".strip())
    return found


def shown(prometheus: Prometheus, title: str, queue: str) -> float:
    """The sum of what a panel shows of one queue now."""
    (panel,) = [panel for panel in panels() if panel["title"] == title]
    return sum(prometheus.total(query) for query in queries(panel, **VARIABLES | {"queue": queue}))


@contextmanager
def unanswered(team: Team) -> Iterator[None]:
    """Webhooks for ConfigMaps of the team's namespace, with names like ours, that nobody answers."""
    metadata = {"name": f"floorkeeper-test-{team.namespace}"}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    webhooks = [
        {
            "name": f"{policy.lower()}.test.floorkeeper.io",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "failurePolicy": policy,
            "sideEffects": "None",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team.namespace}},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
        }
        for policy in ("Fail", "Ignore")
    ]
    team.cluster.apply({**kind, "metadata": metadata, "webhooks": webhooks})
    try:
        yield
    finally:
        team.cluster("delete", "validatingwebhookconfiguration", metadata["name"], "--wait=false")


def fail(team: Team, prometheus: Prometheus) -> None:
    """Calls to webhooks that nobody answers, until both alerts about that fire."""
    metadata = {"name": "asked", "namespace": team.namespace}
    asked = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    told = {"firing FloorkeeperCallsFailing warning", "firing FloorkeeperCallsSkipped warning"}

    def fire() -> bool:
        team.cluster.create(asked, "--dry-run=server", check=False)
        return told <= raised(prometheus, team)

    with unanswered(team):
        until("failed calls are told", fire, 30)


def check_choices(prometheus: Prometheus, team: Team, expected: dict[str, set[str]]) -> None:
    """The dashboard lets one choose what there is of the team, and panels show what is chosen."""
    found = {name: prometheus.label_values(*choice) for name, choice in choices().items()}
    assert found.keys() == expected.keys() == VARIABLES.keys() - {"__rate_interval", "__range"}
    for name, values in expected.items():
        assert {each for each in found[name] if each.startswith(team.namespace)} == values
        for value in values:
            chosen = [query for panel in panels() for query in queries(panel, **VARIABLES | {name: value})]
            narrowed = [query for query in chosen if f'"{value}"' in query]
            assert narrowed, f"no panel asks for ${name}"
            assert any(prometheus.values(query) for query in narrowed), value


def check_panels(prometheus: Prometheus) -> None:
    """Every query of every panel gives numbers."""
    asked = [(panel["title"], query) for panel in panels() for query in queries(panel, **VARIABLES)]

    def all_answered() -> bool:
        empty = [each for each in asked if not prometheus.values(each[1])]
        print(empty)
        return not empty

    until("every panel has data", all_answered, 30)


def check_rules(prometheus: Prometheus) -> None:
    """Every rule is evaluated without error, and every metric that a rule or panel names is there."""
    rules = prometheus.rules()
    assert len(rules) == sum(len(group["rules"]) for group in rule_groups())
    assert [(rule["health"], rule.get("lastError")) for rule in rules] == [("ok", None)] * len(rules)
    expressions = [rule["expr"] for group in rule_groups() for rule in group["rules"]]
    expressions += [query for panel in panels() for query in queries(panel, **VARIABLES)]
    named = set().union(*map(metrics_of, expressions))
    assert named - set(prometheus.ask("label/__name__/values")) <= ELSEWHERE.keys()
