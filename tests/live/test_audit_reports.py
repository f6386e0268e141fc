"""An audit as its readers get it: text, JSON, Markdown, SARIF, JUnit, PolicyReports and metrics."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.sarif import sarif_problems
from webhook.engine.verdict import Severity
from webhook.live.audit.formats import FORMATS, render
from webhook.live.audit.metrics import AuditMetrics, samples
from webhook.live.audit.policy_report import OMITTED, policy_reports
from webhook.live.audit.report import Audit, AuditFinding, Exempted, NotEvaluated, Reference
from webhook.live.audit.schema import SCHEMA


def finding(rule: str, severity: Severity, kind: str, namespace: str, *names: str, said: str = "") -> AuditFinding:
    objects = tuple(Reference(namespace, kind, name, "v1") for name in names)
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    said = said or "spec: must be this, is that; fix: mend it"
    what, _, fix = said.partition("; fix: ")
    return AuditFinding(rule, severity, "spec", f'{kind} "{names[0]}"{more}: {said} [{rule}]', what, fix, objects)


AUDIT = Audit(
    at=1796040000.0,
    seconds=1.5,
    namespaces=("team-a", "team-b"),
    objects=12,
    checked=10,
    findings=(
        finding("setup/webhook-order", Severity.DENY, "MutatingWebhookConfiguration", "", "floorkeeper"),
        finding("setup/gated-pods", Severity.WARN, "Pod", "team-a", "x-1", "x-2"),
        finding("setup/uncounted-pods", Severity.WARN, "Pod", "elsewhere", "y"),
        finding("floors-exceed-capacity", Severity.DENY, "ClusterQueue", "", "b"),
        finding("surge-without-quota", Severity.DENY, "Deployment", "team-a", *(f"d{each}" for each in range(8))),
        finding("short-grace-period", Severity.WARN, "Deployment", "team-a", "d0"),
    ),
    exempted=(
        Exempted(Reference("team-b", "Deployment", "canary", "apps/v1"), "rig, INC-412", ("missing-queue-name",)),
        Exempted(Reference("team-b", "Deployment", "quiet", "apps/v1"), "rig, INC-412", ()),
    ),
    not_evaluated=(
        NotEvaluated("nodes", "not allowed to list nodes; ask for that right"),
        NotEvaluated("floors-below-capacity", "Node: not allowed to list nodes; ask for that right", 2),
    ),
)
NOTHING = Audit(at=0.0, seconds=0.1, namespaces=("team-a",), objects=1, checked=1)


def test_text() -> None:
    assert render("text", AUDIT) == (
        "set-up\n"
        'deny: MutatingWebhookConfiguration "floorkeeper": spec: must be this, is that; fix: mend it '
        "[setup/webhook-order]\n"
        'warn: team-a: Pod "x-1" and 1 more: spec: must be this, is that; fix: mend it [setup/gated-pods]\n'
        "  also x-2\n"
        'warn: elsewhere: Pod "y": spec: must be this, is that; fix: mend it [setup/uncounted-pods]\n'
        "\n"
        "cluster\n"
        'deny: ClusterQueue "b": spec: must be this, is that; fix: mend it [floors-exceed-capacity]\n'
        "\n"
        "namespace team-a\n"
        'deny: Deployment "d0" and 7 more: spec: must be this, is that; fix: mend it [surge-without-quota]\n'
        "  also d1, d2, d3, d4, d5 and 2 more\n"
        'warn: Deployment "d0": spec: must be this, is that; fix: mend it [short-grace-period]\n'
        "\n"
        "exempt: Deployment team-b/canary: rig, INC-412 (else: missing-queue-name)\n"
        "exempt: Deployment team-b/quiet: rig, INC-412\n"
        "\n"
        "not evaluated: not allowed to list nodes; ask for that right [nodes]\n"
        "not evaluated: Node: not allowed to list nodes; ask for that right [floors-below-capacity] (2 objects)\n"
        "\n"
        "2 namespaces, 12 objects: 10 checked; 10 denials, 4 warnings; 2 exempt; 2 not evaluated\n"
    )
    assert render("text", NOTHING) == "1 namespace, 1 object: 1 checked; 0 denials, 0 warnings\n"


def test_nothing_of_the_cluster_acts_on_the_screen() -> None:
    evil = finding("surge-without-quota", Severity.DENY, "Deployment", "team-a", "d", said="is \x1b[2J\u202e; fix: no")
    text = render("text", replace(AUDIT, findings=(evil,)), colour=True)
    assert "\\x1b[2J\\u202e" in text
    assert "\x1b[1;31mdeny:\x1b[0m" in text


def test_markdown() -> None:
    text = render("markdown", AUDIT)
    assert text.startswith(
        "# Floorkeeper audit\n\n2 namespaces, 12 objects: 10 checked; 10 denials, 4 warnings; 2 exempt; 2 not "
        "evaluated.\n\n## set-up\n\n| verdict | rule | what | objects |\n| --- | --- | --- | ---: |\n"
    )
    assert (
        '| deny | `surge-without-quota` | `Deployment "d0" and 7 more: spec: must be this, is that; fix: mend it`'
        "<br>also `d1, d2, d3, d4, d5 and 2 more` | 8 |\n" in text
    )
    assert text.endswith(
        "\n## Not evaluated\n\n- `not evaluated: not allowed to list nodes; ask for that right [nodes]`\n- `not "
        "evaluated: Node: not allowed to list nodes; ask for that right [floors-below-capacity] (2 objects)`\n"
    )


def test_markdown_has_no_markup_from_the_cluster() -> None:
    said = "is | ``x` <b> [a](b)\n# h @all #1 https://x.example www.x.example &lt;; fix: no"
    evil = finding("r", Severity.DENY, "Deployment", "team-a", "d", said=said)
    (row,) = [line for line in render("markdown", replace(AUDIT, findings=(evil,))).splitlines() if "deny" in line]
    # All of it is in one code span, where nothing but the row's own bar has a meaning.
    inside = said.replace("\n", "\\n").replace("|", "\\|")
    assert row == f'| deny | `r` | ``` Deployment "d": {inside} ``` | 1 |'
    unread = replace(AUDIT, findings=(), not_evaluated=(NotEvaluated("nodes", "a | @all"),))
    assert render("markdown", unread).endswith("\n- `not evaluated: a | @all [nodes]`\n")


@pytest.mark.parametrize("name", ["json", "sarif"])
def test_no_json_acts_on_the_screen(name: str) -> None:
    evil = finding("surge-without-quota", Severity.DENY, "Deployment", "team-a", "d", said="is \x9b2J\u202e é; fix: no")
    text = render(name, replace(AUDIT, findings=(evil,)))
    assert "is \\u009b2J\\u202e é" in text
    assert json.loads(text)


def test_json() -> None:
    found = json.loads(render("json", AUDIT))
    assert (found["apiVersion"], found["kind"]) == ("floorkeeper.io/v1alpha1", "AuditReport")
    assert found["summary"] == {
        "namespaces": 2,
        "objects": 12,
        "checked": 10,
        "exempt": 2,
        "denials": 10,
        "warnings": 4,
    }
    assert found["findings"][1] == {
        "rule": "setup/gated-pods",
        "severity": "warn",
        "path": "spec",
        "message": 'Pod "x-1" and 1 more: spec: must be this, is that; fix: mend it [setup/gated-pods]',
        "count": 2,
        "objects": [
            {"apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": name} for name in ("x-1", "x-2")
        ],
    }
    assert found["exempt"][0]["reason"] == "rig, INC-412"
    assert found["notEvaluated"][0] == {
        "rule": "nodes",
        "reason": "not allowed to list nodes; ask for that right",
        "objects": 0,
    }


def test_json_is_as_its_schema_says() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for audit in (AUDIT, NOTHING):
        found = json.loads(render("json", audit))
        assert list(validator.iter_errors(found)) == []
        assert list(found) == list(SCHEMA["properties"])
    del found["summary"]["checked"]
    assert len(list(validator.iter_errors(found))) == 1


def test_sarif() -> None:
    log = json.loads(render("sarif", AUDIT))
    assert sarif_problems(log) == []
    (run,) = log["runs"]
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [
        ("setup/webhook-order", "error"),
        ("setup/gated-pods", "warning"),
        ("setup/uncounted-pods", "warning"),
        ("floors-exceed-capacity", "error"),
        ("surge-without-quota", "error"),
        ("short-grace-period", "warning"),
    ]
    rules = {each["id"]: each for each in run["tool"]["driver"]["rules"]}
    assert rules["setup/gated-pods"]["shortDescription"] == {"text": "No pod waits at Kueue's gate"}
    places = [each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]]
    assert places == [
        "cluster", "namespaces/team-a", "namespaces/elsewhere", "cluster", "namespaces/team-a", "namespaces/team-a"
    ]  # fmt: skip


def test_junit() -> None:
    suites = ET.fromstring(render("junit", AUDIT))
    failing = {case.get("classname") for case in suites.iter("testcase") if case.find("failure") is not None}
    assert failing == {"setup/webhook-order", "floors-exceed-capacity", "surge-without-quota"}
    strict = ET.fromstring(render("junit", AUDIT, fail_on=("warn",)))
    assert int(strict.get("failures", "")) == 6


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_ends_with_a_line_break_and_can_be_written(name: str) -> None:
    for audit in (AUDIT, NOTHING):
        text = render(name, audit)
        assert text.endswith("\n")
        assert text.encode()


# PolicyReports


def test_policy_reports() -> None:
    above, a, b = policy_reports(AUDIT)
    assert (above["kind"], above["metadata"]["name"], "namespace" in above["metadata"]) == (
        "ClusterPolicyReport",
        "floorkeeper",
        False,
    )
    assert [(each["rule"], each["result"]) for each in above["results"]] == [
        ("setup/webhook-order", "fail"),
        ("floors-exceed-capacity", "fail"),
        # Nothing is written to a namespace that is not managed.
        ("setup/uncounted-pods", "warn"),
        ("nodes", "error"),
        ("floors-below-capacity", "error"),
    ]
    assert above["summary"] == {"pass": 0, "fail": 2, "warn": 1, "error": 2, "skip": 0}
    assert (a["kind"], a["metadata"]["namespace"]) == ("PolicyReport", "team-a")
    assert a["summary"] == {"pass": 0, "fail": 1, "warn": 2, "error": 0, "skip": 0}
    assert a["results"][0] == {
        "source": "floorkeeper",
        "policy": "floorkeeper",
        "rule": "surge-without-quota",
        "category": "Kueue quota",
        "severity": "high",
        "result": "fail",
        "scored": True,
        "message": 'Deployment "d0" and 7 more: spec: must be this, is that; fix: mend it [surge-without-quota]',
        "resources": [
            {"apiVersion": "v1", "kind": "Deployment", "namespace": "team-a", "name": f"d{each}"} for each in range(8)
        ],
        "properties": {"count": "8"},
    }
    assert [(each["rule"], each["result"], each["message"]) for each in b["results"]] == [
        ("exempt", "skip", "exempt: rig, INC-412; missing-queue-name would have spoken"),
        ("exempt", "skip", "exempt: rig, INC-412; no rule would have spoken"),
    ]


def test_policy_reports_of_a_namespace_in_which_all_is_well() -> None:
    above, a = policy_reports(NOTHING)
    assert (above["results"], a["results"], a["metadata"]["namespace"]) == ([], [], "team-a")


def test_policy_reports_say_nothing_of_when() -> None:
    assert policy_reports(AUDIT) == policy_reports(replace(AUDIT, at=0.0, seconds=9.0))


def test_policy_reports_fit_into_etcd() -> None:
    names = [f"deployment-{number:060}" for number in range(1000)]
    many = tuple(
        finding("r", Severity.DENY if number % 3 else Severity.WARN, "Deployment", "team-a", *names, said="é" * 9000)
        for number in range(600)
    )
    _, a, _ = policy_reports(replace(AUDIT, findings=many))
    assert len(json.dumps(a)) < 1.1 * 2**20
    assert (a["summary"]["fail"], a["summary"]["warn"]) == (400, 200)
    assert a["metadata"]["annotations"] == {OMITTED: str(600 - len(a["results"]))}
    # What fails is what there is room for first.
    assert {each["result"] for each in a["results"]} == {"fail"}
    assert (a["results"][0]["properties"], len(a["results"][0]["resources"])) == ({"count": "1000"}, 20)


# Metrics


def families(found: Iterable[Any]) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items()) or ''}": sample.value
        for family in found
        for sample in family.samples
    }


def test_metrics() -> None:
    assert families(samples(AUDIT)) == {
        "floorkeeper_audit_findings[('rule', 'floors-exceed-capacity'), ('severity', 'deny')]": 1,
        "floorkeeper_audit_findings[('rule', 'setup/gated-pods'), ('severity', 'warn')]": 2,
        "floorkeeper_audit_findings[('rule', 'setup/uncounted-pods'), ('severity', 'warn')]": 1,
        "floorkeeper_audit_findings[('rule', 'setup/webhook-order'), ('severity', 'deny')]": 1,
        "floorkeeper_audit_findings[('rule', 'short-grace-period'), ('severity', 'warn')]": 1,
        "floorkeeper_audit_findings[('rule', 'surge-without-quota'), ('severity', 'deny')]": 8,
        "floorkeeper_audit_not_evaluated[('what', 'floors-below-capacity')]": 1,
        "floorkeeper_audit_not_evaluated[('what', 'nodes')]": 1,
        "floorkeeper_audit_objects": 10,
        "floorkeeper_audit_exempt_objects": 2,
        "floorkeeper_audit_namespaces": 2,
        "floorkeeper_audit_duration_seconds": 1.5,
        "floorkeeper_audit_last_success_timestamp_seconds": 1796040000.0,
    }


def test_metrics_of_a_server() -> None:
    registry = CollectorRegistry()
    metrics = AuditMetrics()
    registry.register(metrics)
    assert "floorkeeper_audit_last_success" not in generate_latest(registry).decode()
    metrics.failed()
    metrics.done(AUDIT)
    text = generate_latest(registry).decode()
    assert "floorkeeper_audit_failures_total 1.0" in text
    assert 'floorkeeper_audit_findings{rule="surge-without-quota",severity="deny"} 8.0' in text


def test_whether_two_audits_say_the_same() -> None:
    assert AUDIT.same(replace(AUDIT, at=0.0, seconds=9.0, objects=99))
    assert not AUDIT.same(replace(AUDIT, findings=AUDIT.findings[1:]))
    assert not AUDIT.same(replace(AUDIT, not_evaluated=()))


def test_exit_codes() -> None:
    assert [AUDIT.exit_code(), NOTHING.exit_code()] == [1, 0]
    warned = replace(NOTHING, findings=AUDIT.findings[1:2])
    assert [warned.exit_code(), warned.exit_code(["warn"])] == [0, 1]
    unseen = replace(NOTHING, not_evaluated=AUDIT.not_evaluated)
    assert [unseen.exit_code(), replace(unseen, findings=warned.findings).exit_code(["warn"])] == [3, 1]
