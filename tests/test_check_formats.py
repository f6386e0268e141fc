"""Every output of `floorkeeper check`, from one result that holds a bit of everything."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sarif import sarif_problems
from webhook.check.formats import FORMATS, render
from webhook.check.formats.schema import SCHEMA
from webhook.check.formats.text import change_lines
from webhook.check.result import FAIL_ON, Fault, Found, NotJudged, Place, Result, Skipped
from webhook.engine.patch import Operation
from webhook.engine.verdict import Severity
from webhook.rules import RULES
from webhook.sources.documents import parse_documents, position

MODEL = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: model-a, namespace: team-a}
spec:
  strategy:
    rollingUpdate:
      maxSurge: 25%
  template:
    metadata:
      labels:
        app: model-a
"""
CHANGE = (
    {"op": "replace", "path": "/spec/strategy/rollingUpdate/maxSurge", "value": 0},
    {"op": "add", "path": "/spec/template/metadata/labels/kueue.x-k8s.io~1queue-name", "value": "model-a-lq"},
)
SURGE = Found(
    Place("team-a/model.yaml", 7, 7),
    "surge-without-quota",
    Severity.PATCH,
    "apps/v1",
    "Deployment",
    "team-a",
    "model-a",
    "spec.strategy.rollingUpdate.maxSurge",
    'Deployment "model-a": spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%; patched: set to 0 '
    "[surge-without-quota]",
    CHANGE,
)
QUEUE = replace(
    SURGE,
    place=Place("team-a/model.yaml", 10, 7),
    rule="missing-queue-name",
    path="spec.template.metadata.labels[kueue.x-k8s.io/queue-name]",
    message='Deployment "model-a": no queue; patched: set to model-a-lq [missing-queue-name]',
)
QUOTA = Found(
    Place("quota,50%.yaml", 5, 3),
    "gpu-resource-quota",
    Severity.DENY,
    "v1",
    "ResourceQuota",
    "team-a",
    "gpus",
    "spec.hard[requests.nvidia.com/gpu]",
    'ResourceQuota "gpus": spec.hard: must be absent, is {a: 1}; fix: remove it [gpu-resource-quota]',
)
GRACE = replace(QUOTA, place=Place("z.yaml", 2, 1), rule="short-grace-period", severity=Severity.WARN, message="Grace.")
SERVICES = tuple(
    Skipped(Place("team-b.yaml", line, 1), "v1", "Service", "team-b", f"s{line}", "its namespace is not managed")
    for line in (1, 9, 17, 25, 33)
)
CONFIG = Skipped(Place("team-b.yaml", 41, 1), "v1", "ConfigMap", "", "c", "Floorkeeper knows no rule for it", True)
RESULT = Result(
    findings=(QUOTA, SURGE, QUEUE, GRACE),
    notes=(Fault(Place("team-a/model.yaml", 3, 1), "is here twice, first at x.yaml:1"),),
    skipped=(*SERVICES, CONFIG),
    not_evaluated=(NotJudged("floors-exceed-capacity", "Node: none known", 2),),
    errors=(Fault(Place("bad.yaml"), "is not UTF-8; save the file as UTF-8"),),
    objects=10,
    checked=4,
)
TEXTS = {"team-a/model.yaml": MODEL.encode()}
CLEAN = Result(objects=2, checked=2)


# Text


def test_text() -> None:
    assert render("text", RESULT, TEXTS) == (
        'quota,50%.yaml:5:3: deny: ResourceQuota "gpus": spec.hard: must be absent, is {a: 1}; fix: remove it '
        "[gpu-resource-quota]\n"
        'team-a/model.yaml:7:7: patch: Deployment "model-a": spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%; '
        "patched: set to 0 [surge-without-quota]\n"
        "    7 |       maxSurge: 25%\n"
        "      |       ^\n"
        'team-a/model.yaml:10:7: patch: Deployment "model-a": no queue; patched: set to model-a-lq '
        "[missing-queue-name]\n"
        "   10 |       labels:\n"
        "      |       ^\n"
        "      = set spec.strategy.rollingUpdate.maxSurge: 0\n"
        '      = add spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: "model-a-lq"\n'
        "z.yaml:2:1: warn: Grace.\n"
        "\n"
        "team-a/model.yaml:3:1: note: is here twice, first at x.yaml:1\n"
        "    3 | metadata: {name: model-a, namespace: team-a}\n"
        "      | ^\n"
        "\n"
        "skipped: its namespace is not managed (5 objects): Service team-b/s1, Service team-b/s9, Service team-b/s17 "
        "and 2 more\n"
        "unknown kinds: v1 ConfigMap (1)\n"
        "\n"
        "not evaluated: Node: none known [floors-exceed-capacity] (2 objects)\n"
        "\n"
        "bad.yaml: error: is not UTF-8; save the file as UTF-8\n"
        "\n"
        "10 objects: 4 checked, 6 skipped; 1 denial, 1 warning, 2 patches; 1 rule not evaluated; 1 error\n"
    )


def test_equal_findings_and_places_are_shown_once() -> None:
    other = replace(SURGE, message="Another.")
    assert render("text", replace(CLEAN, findings=(SURGE, SURGE, other)), TEXTS).splitlines()[:-2] == [
        f"team-a/model.yaml:7:7: patch: {SURGE.message}",
        "team-a/model.yaml:7:7: patch: Another.",
        "    7 |       maxSurge: 25%",
        "      |       ^",
        "      = set spec.strategy.rollingUpdate.maxSurge: 0",
        '      = add spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: "model-a-lq"',
    ]


def test_colour_adds_nothing_else() -> None:
    colourful = render("text", RESULT, TEXTS, colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", colourful) == render("text", RESULT, TEXTS)
    assert "\x1b[1;31mdeny:\x1b[0m" in colourful
    assert "\x1b[1;33mwarn:\x1b[0m" in colourful


def test_a_clean_result() -> None:
    assert render("text", CLEAN, {}) == "2 objects: 2 checked, 0 skipped; 0 denials, 0 warnings, 0 patches\n"


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (Result(), "there is no object in the input"),
        (Result(errors=RESULT.errors), "no object could be read"),
        (replace(RESULT, skipped=(), checked=0), "the errors come first"),
        (Result(skipped=SERVICES, objects=5), "all 5 objects were skipped"),
        (Result(skipped=SERVICES[:1], objects=1), "the only object was skipped"),
    ],
)
def test_nothing_checked_is_said_plainly(result: Result, why: str) -> None:
    sentence = f"nothing was checked: {why}"
    assert render("text", result, {}).splitlines()[-1] == sentence
    assert f"::warning title=floorkeeper check::{sentence}" in render("github", result, {}).splitlines()
    (invocation,) = json.loads(render("sarif", result, {}))["runs"][0]["invocations"]
    assert {"level": "warning", "message": {"text": sentence}} in invocation["toolExecutionNotifications"]
    run = ElementTree.fromstring(render("junit", result, {})).find(".//testcase[@classname='run']/skipped")
    assert run is not None
    assert run.get("message") == sentence


CARETS: dict[str, tuple[bytes, int, int, str, int]] = {
    # the input, line, column, what is shown, columns before the caret
    "a tab": (b"a:\t1\nb:\t{c: 1}\n", 2, 5, "b:    {c: 1}", 7),
    "wide characters": ("模型: {a: 1}\n".encode(), 1, 6, "模型: {a: 1}", 7),
    "combining characters": ("e\u0301: {a: 1}\n".encode(), 1, 6, "e\u0301: {a: 1}", 4),
    "a byte order mark": (b"\xef\xbb\xbfa: 1\n", 1, 1, "a: 1", 0),
    "UTF-16": ("a: 1\nb: 2\n".encode("utf-16"), 2, 1, "b: 2", 0),
    "Windows line endings": (b"a: 1\r\nb: 2\r\n", 2, 1, "b: 2", 0),
    "line endings of YAML 1.1": ("a: 1\rb: 2\x85c: 3\u2028d: 4\n".encode(), 4, 1, "d: 4", 0),
    "no line ending": (b"a: 1\nb: 2", 2, 4, "b: 2", 3),
    "a long line": (
        b'{"a": "' + b"x" * 100 + b'", "b": 1, "c": "' + b"y" * 100 + b'"}',
        1,
        111,
        "…" + "x" * 37 + '", "b": 1, "c": "' + "y" * 66 + "…",
        41,
    ),
    "a column behind the end": (b"a: 1\n", 1, 99, "a: 1", 4),
    "what would move the cursor": (b"a: \x1b[31m\nb: \xe2\x80\xae1\n", 2, 4, "b: \\u202e1", 3),
}


@pytest.mark.parametrize("case", CARETS)
def test_carets(case: str) -> None:
    data, line, column, shown, before = CARETS[case]
    found = replace(GRACE, place=Place("f", line, column))
    assert render("text", replace(CLEAN, findings=(found,)), {"f": data}).splitlines()[1:-2] == [
        f"{line:5} | {shown}",
        f"      | {' ' * before}^",
    ]


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"a: 1\n", Place("f", 3, 1)),
        (b"a: 1\n", Place("f")),
        (b"\xff", Place("f", 1, 1)),
        (b"a: 1\n", Place("g", 1, 1)),
    ],
    ids=["behind the end", "the whole file", "not to be decoded", "not there"],
)
def test_without_a_line_there_is_no_excerpt(data: bytes, place: Place) -> None:
    text = render("text", replace(CLEAN, findings=(replace(GRACE, place=place),)), {"f": data})
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("break_", ["\n", "\r\n", "\r", "\x85", "\u2028"])
def test_positions_of_documents_are_those_of_the_lines(encoding: str, break_: str) -> None:
    data = "# 模型 😀\nkind: A\napiVersion: v1\n'😀': {é: 1, path: 2}\n".replace("\n", break_).encode(encoding)
    (document,) = parse_documents(data, "f")
    found = replace(GRACE, place=Place("f", *position(document, ("😀", "path"))))
    shown, caret = render("text", replace(CLEAN, findings=(found,)), {"f": data}).splitlines()[1:3]
    assert shown == "    4 | '😀': {é: 1, path: 2}"
    # The emoji takes two columns, and is one character.
    assert len(caret) == shown.index("path") + 2


def test_changes_in_words() -> None:
    change: list[Operation] = [
        {"op": "add", "path": "/metadata/annotations", "value": {"a.b/c": "1", "d": {}}},
        {"op": "replace", "path": "/spec/containers/10/resources/limits/m~0n~1o", "value": None},
        {"op": "replace", "path": "/spec/tolerations", "value": [{"key": "k\n"}]},
    ]
    assert list(change_lines(change)) == [
        'add metadata.annotations[a.b/c]: "1"',
        "add metadata.annotations.d: {}",
        "set spec.containers[10].resources.limits[m~n/o]: null",
        'set spec.tolerations: [{"key": "k\\n"}]',
    ]


# JSON


def test_json() -> None:
    result = replace(RESULT, findings=(QUOTA, SURGE, replace(GRACE, old=True)), skipped=(CONFIG,))
    place = {"file": "team-a/model.yaml", "line": 7, "column": 7}
    quota = {
        "rule": "gpu-resource-quota",
        "severity": "deny",
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "namespace": "team-a",
        "name": "gpus",
        "path": "spec.hard[requests.nvidia.com/gpu]",
        "message": QUOTA.message,
        "file": "quota,50%.yaml",
        "line": 5,
        "column": 3,
    }
    surge = {
        "rule": "surge-without-quota",
        "severity": "patch",
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "team-a",
        "name": "model-a",
        "path": "spec.strategy.rollingUpdate.maxSurge",
        "message": SURGE.message,
        **place,
        "change": list(CHANGE),
    }
    grace = {"rule": "short-grace-period", "severity": "warn", "message": "Grace."}
    assert json.loads(render("json", result, TEXTS)) == {
        "apiVersion": "floorkeeper.io/v1alpha1",
        "kind": "CheckReport",
        "findings": [quota, surge, {**quota, **grace, "file": "z.yaml", "line": 2, "column": 1, "old": True}],
        "notEvaluated": [{"rule": "floors-exceed-capacity", "reason": "Node: none known", "objects": 2}],
        "summary": {"objects": 10, "checked": 4, "skipped": 1, "denials": 1, "warnings": 1, "patches": 1},
        "errors": [
            {"file": "bad.yaml", "line": 0, "column": 0, "message": "is not UTF-8; save the file as UTF-8"},
        ],
        "notes": [{**place, "line": 3, "column": 1, "message": "is here twice, first at x.yaml:1"}],
        "skipped": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "namespace": "",
                "name": "c",
                "reason": "Floorkeeper knows no rule for it",
                "unknownKind": True,
                "file": "team-b.yaml",
                "line": 41,
                "column": 1,
            }
        ],
    }


def closed(schema: Any) -> Any:
    """The schema that also refuses keys it does not describe."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    more = {"additionalProperties": False} if "properties" in schema and schema.get("type") == "object" else {}
    return {**{key: closed(value) for key, value in schema.items()}, **more}


CLOSED = jsonschema.Draft202012Validator(closed(SCHEMA))


@pytest.mark.parametrize("result", [RESULT, CLEAN, Result(), replace(RESULT, findings=(replace(GRACE, old=True),))])
def test_json_keeps_to_its_schema(result: Result) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    CLOSED.validate(json.loads(render("json", result, TEXTS)))


def test_the_schema_refuses_something_else() -> None:
    report = json.loads(render("json", RESULT, TEXTS))
    report["findings"][0]["severity"] = "error"
    del report["errors"][0]["message"]
    report["more"] = 1
    assert sorted(problem.message for problem in CLOSED.iter_errors(report)) == [
        "'error' is not one of ['deny', 'patch', 'warn']",
        "'message' is a required property",
        "Additional properties are not allowed ('more' was unexpected)",
    ]


# SARIF


def sarif_run(result: Result, root: str = "") -> dict[str, Any]:
    log = json.loads(render("sarif", result, {}, root=root))
    assert sarif_problems(log) == []
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_sarif_results() -> None:
    run = sarif_run(RESULT)
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == [rule.id for rule in RULES]
    prints = [result.pop("partialFingerprints")["finding/v1"] for result in run["results"]]
    assert len(set(prints)) == 4
    assert run["results"][:2] == [
        {
            "ruleId": "gpu-resource-quota",
            "ruleIndex": rules.index("gpu-resource-quota"),
            "level": "error",
            "message": {"text": QUOTA.message.replace("{a: 1}", "{{a: 1}}")},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "quota%2C50%25.yaml"},
                        "region": {"startLine": 5, "startColumn": 3},
                    },
                    "logicalLocations": [{"name": "gpus", "fullyQualifiedName": "v1 ResourceQuota team-a/gpus"}],
                }
            ],
        },
        {
            "ruleId": "surge-without-quota",
            "ruleIndex": rules.index("surge-without-quota"),
            "level": "note",
            "message": {"text": SURGE.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "team-a/model.yaml"},
                        "region": {"startLine": 7, "startColumn": 7},
                    },
                    "logicalLocations": [
                        {"name": "model-a", "fullyQualifiedName": "apps/v1 Deployment team-a/model-a"}
                    ],
                }
            ],
            "properties": {"change": list(CHANGE)},
        },
    ]
    assert [result["level"] for result in run["results"]] == ["error", "note", "note", "warning"]


def test_sarif_tells_what_was_not_judged() -> None:
    run = sarif_run(replace(RESULT, errors=(*RESULT.errors, Fault(Place(""), "--nodes: no such file"))))
    bad = {"physicalLocation": {"artifactLocation": {"uri": "bad.yaml"}}}
    assert run["invocations"] == [
        {
            "executionSuccessful": False,
            "toolExecutionNotifications": [
                {
                    "level": "error",
                    "message": {"text": "is not UTF-8; save the file as UTF-8"},
                    "locations": [bad],
                },
                {"level": "error", "message": {"text": "--nodes: no such file"}},
                {
                    "level": "warning",
                    "message": {"text": "is here twice, first at x.yaml:1"},
                    "locations": [
                        {
                            "physicalLocation": {
                                "artifactLocation": {"uri": "team-a/model.yaml"},
                                "region": {"startLine": 3, "startColumn": 1},
                            }
                        }
                    ],
                },
            ],
            "toolConfigurationNotifications": [
                {
                    "level": "warning",
                    "message": {"text": "not evaluated: Node: none known [floors-exceed-capacity] (2 objects)"},
                    "associatedRule": {"id": "floors-exceed-capacity"},
                }
            ],
        }
    ]
    assert sarif_run(CLEAN)["invocations"] == [
        {"executionSuccessful": True, "toolExecutionNotifications": [], "toolConfigurationNotifications": []}
    ]


def test_sarif_has_each_rule_with_its_page() -> None:
    run = sarif_run(replace(CLEAN, findings=(replace(GRACE, rule="of-tomorrow"),)))
    *built, unknown = run["tool"]["driver"]["rules"]
    assert unknown == {"id": "of-tomorrow"}
    for rule, written in zip(RULES, built, strict=True):
        assert written["shortDescription"]["text"] == rule.summary
        assert written["help"]["text"].replace("{{", "{").replace("}}", "}").replace("] (", "](") == rule.page.strip()
        assert written["defaultConfiguration"] == {"level": "error" if rule.mode == "deny" else "warning"}


@pytest.mark.parametrize(
    ("file", "root", "uri"),
    [
        ("./a/../b c.yaml", "", "b%20c.yaml"),
        ("../a:b#c?.yaml", "", "../a%3Ab%23c%3F.yaml"),
        ("/src/repo/a.yaml", "/src/repo", "a.yaml"),
        ("/src/repo/a.yaml", "/src/repo/", "a.yaml"),
        ("/src/repository/a.yaml", "/src/repo", "file:///src/repository/a.yaml"),
        ("<stdin>", "", "%3Cstdin%3E"),
        (b"\xff\xc3\xa4.yaml".decode(errors="surrogateescape"), "", "%FF%C3%A4.yaml"),
    ],
)
def test_sarif_uris(file: str, root: str, uri: str) -> None:
    run = sarif_run(replace(CLEAN, findings=(replace(GRACE, place=Place(file, 1, 1)),)), root)
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": uri}


def fingerprints(*findings: Found) -> list[str]:
    result = replace(CLEAN, findings=findings)
    code_quality = [issue["fingerprint"] for issue in json.loads(render("gitlab", result, {}))]
    assert [found["partialFingerprints"]["finding/v1"] for found in sarif_run(result)["results"]] == code_quality
    return code_quality


def test_fingerprints_last_while_lines_move_and_amounts_change() -> None:
    (before,) = fingerprints(SURGE)
    moved = replace(SURGE, place=Place("./team-a/model.yaml", 70, 9), api_version="apps/v2", message="is 30%")
    assert fingerprints(moved) == [before]
    twice = fingerprints(SURGE, moved)
    assert twice[0] == before != twice[1]
    for other in ({"name": "b"}, {"namespace": "b"}, {"rule": "b"}, {"path": "b"}, {"place": Place("b", 7, 7)}):
        assert fingerprints(replace(SURGE, **other)) != [before]


def test_the_check_of_sarif_finds_what_is_wrong() -> None:
    log = json.loads(render("sarif", RESULT, {}))
    run = log["runs"][0]
    del run["results"][0]["message"]["text"]
    run["results"][1]["ruleIndex"] = 0
    run["results"][2]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    run["results"][3]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] = "a b"
    run["results"][3]["column"] = 1
    del run["invocations"][0]["executionSuccessful"]
    assert sarif_problems(log) == [
        "runs[0].invocations[0]: 'executionSuccessful' is a required property",
        "runs[0].results[0].message: 'text' is a required property",
        "runs[0].results[2].locations[0].physicalLocation.region.startLine: 0 is less than the minimum of 1",
        "runs[0].results[3].locations[0].physicalLocation.artifactLocation.uri: 'a b' is no URI reference",
        "runs[0].results[3]: Additional properties are not allowed ('column' was unexpected)",
        "runs[0].results[1].ruleIndex: is that of missing-queue-name",
    ]


# JUnit


def test_junit() -> None:
    result = replace(RESULT, findings=(QUOTA, replace(QUOTA, message="Also."), SURGE), skipped=(CONFIG,))
    assert render("junit", result, {}) == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<testsuites name="floorkeeper check" tests="6" failures="1" errors="1" skipped="2" time="0">\n'
        '  <testsuite name="bad.yaml" tests="1" failures="0" errors="1" skipped="0" time="0">\n'
        '    <testcase classname="input" name="bad.yaml is usable" time="0" file="bad.yaml">\n'
        '      <error message="is not UTF-8; save the file as UTF-8" type="error">'
        "bad.yaml: error: is not UTF-8; save the file as UTF-8</error>\n"
        "    </testcase>\n"
        "  </testsuite>\n"
        '  <testsuite name="quota,50%.yaml" tests="1" failures="1" errors="0" skipped="0" time="0">\n'
        '    <testcase classname="gpu-resource-quota" name="ResourceQuota team-a/gpus" time="0" line="5" '
        'file="quota,50%.yaml">\n'
        '      <failure message="ResourceQuota &quot;gpus&quot;: spec.hard: must be absent, is {a: 1}; fix: remove it '
        '[gpu-resource-quota]" type="deny">'
        'quota,50%.yaml:5:3: deny: ResourceQuota "gpus": spec.hard: must be absent, is {a: 1}; fix: remove it '
        "[gpu-resource-quota]\n"
        "quota,50%.yaml:5:3: deny: Also.</failure>\n"
        "    </testcase>\n"
        "  </testsuite>\n"
        '  <testsuite name="team-a/model.yaml" tests="1" failures="0" errors="0" skipped="0" time="0">\n'
        '    <testcase classname="surge-without-quota" name="Deployment team-a/model-a" time="0" line="7" '
        'file="team-a/model.yaml">\n'
        f"      <system-out>team-a/model.yaml:7:7: patch: {SURGE.message}</system-out>\n"
        "    </testcase>\n"
        "  </testsuite>\n"
        '  <testsuite name="team-b.yaml" tests="1" failures="0" errors="0" skipped="1" time="0">\n'
        '    <testcase classname="skipped" name="ConfigMap c" time="0" line="41" file="team-b.yaml">\n'
        '      <skipped message="Floorkeeper knows no rule for it" />\n'
        "    </testcase>\n"
        "  </testsuite>\n"
        '  <testsuite name="floorkeeper check" tests="2" failures="0" errors="0" skipped="1" time="0">\n'
        "    <properties>\n"
        '      <property name="objects" value="10" />\n'
        '      <property name="checked" value="4" />\n'
        '      <property name="skipped" value="1" />\n'
        '      <property name="denials" value="2" />\n'
        '      <property name="warnings" value="0" />\n'
        '      <property name="patches" value="1" />\n'
        "    </properties>\n"
        '    <testcase classname="run" name="objects are checked" time="0">\n'
        "      <system-out>10 objects: 4 checked, 1 skipped; 2 denials, 0 warnings, 1 patch; 1 rule not evaluated; "
        "1 error</system-out>\n"
        "    </testcase>\n"
        '    <testcase classname="not-evaluated" name="floors-exceed-capacity" time="0">\n'
        '      <skipped message="Node: none known" />\n'
        "    </testcase>\n"
        "    <system-out>team-a/model.yaml:3:1: note: is here twice, first at x.yaml:1</system-out>\n"
        "  </testsuite>\n"
        "</testsuites>\n"
    )


OUTCOMES = {"failure", "error", "skipped"}


def as_ci_reads_it(text: str) -> dict[str, int]:
    """The totals of a report. Fails where a CI system would not take it: wrong totals, no name, two outcomes."""
    suites = ElementTree.fromstring(text)
    assert suites.tag == "testsuites"
    assert {suite.tag for suite in suites} == {"testsuite"}
    for holder in (suites, *suites):
        cases = list(holder.iter("testcase"))
        assert cases, "a suite without a case is an error to Jenkins"
        assert all(case.get("name") and case.get("classname") and float(case.get("time", "")) == 0 for case in cases)
        outcomes = [[child.tag for child in case if child.tag in OUTCOMES] for case in cases]
        assert all(len(each) <= 1 for each in outcomes)
        for total, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert holder.get(total) == str(outcomes.count([tag]))
        assert holder.get("tests") == str(len(cases))
    return {name: int(suites.get(name, "")) for name in ("tests", "failures", "errors", "skipped")}


@pytest.mark.parametrize(
    ("fail_on", "failures", "skipped"),
    [((), 1, 7), (("warn",), 2, 7), (("patch",), 3, 7), (("not-evaluated",), 2, 6), (FAIL_ON, 5, 6)],
)
def test_junit_fails_what_the_command_fails(fail_on: tuple[str, ...], failures: int, skipped: int) -> None:
    text = render("junit", RESULT, {}, fail_on=fail_on)
    assert as_ci_reads_it(text) == {"tests": 13, "failures": failures, "errors": 1, "skipped": skipped}


def test_junit_of_a_clean_run_has_a_case_that_passes() -> None:
    assert as_ci_reads_it(render("junit", CLEAN, {})) == {"tests": 1, "failures": 0, "errors": 0, "skipped": 0}


# GitHub and GitLab


def test_github() -> None:
    result = replace(RESULT, findings=(QUOTA, SURGE, replace(GRACE, message="a\r\nb")))
    assert render("github", result, {}) == (
        "::error file=bad.yaml,title=unusable input::is not UTF-8; save the file as UTF-8\n"
        "::error file=quota%2C50%25.yaml,line=5,col=3,title=gpu-resource-quota::"
        'ResourceQuota "gpus": spec.hard: must be absent, is {a: 1}; fix: remove it [gpu-resource-quota]\n'
        "::notice file=team-a/model.yaml,line=7,col=7,title=surge-without-quota::"
        'Deployment "model-a": spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%25; patched: set to 0 '
        "[surge-without-quota]\n"
        "::warning file=z.yaml,line=2,col=1,title=short-grace-period::a%0D%0Ab\n"
        "::warning file=team-a/model.yaml,line=3,col=1,title=input::is here twice, first at x.yaml:1\n"
        "::notice title=floors-exceed-capacity::"
        "not evaluated: Node: none known [floors-exceed-capacity] (2 objects)\n"
        "10 objects: 4 checked, 6 skipped; 1 denial, 1 warning, 1 patch; 1 rule not evaluated; 1 error\n"
    )


def test_gitlab() -> None:
    issues = json.loads(render("gitlab", RESULT, {}, root="/src"))
    prints = [issue.pop("fingerprint") for issue in issues]
    assert len(set(prints)) == len(prints) == 6
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in prints)
    assert [(issue["check_name"], issue["severity"]) for issue in issues] == [
        ("unusable-input", "blocker"),
        ("input", "minor"),
        ("gpu-resource-quota", "critical"),
        ("surge-without-quota", "info"),
        ("missing-queue-name", "info"),
        ("short-grace-period", "minor"),
    ]
    assert issues[0]["location"] == {"path": "bad.yaml", "lines": {"begin": 1}}
    assert issues[2] == {
        "description": QUOTA.message,
        "check_name": "gpu-resource-quota",
        "severity": "critical",
        "location": {"path": "quota,50%.yaml", "lines": {"begin": 5}},
    }
    assert json.loads(render("gitlab", CLEAN, {})) == []


# Whatever the input holds


HARD = ["\n", "\r\n", "\x00", "\x1b[2J", "::", "%0A", "%", ",", "]]>", "<!--", "&", '"', "'", "\\", "{0}", "[a](1)"]
HARD += ["\u2028", "\u202e", "\ud800", "\udcff", "\ufffe", "模", "😀", "\x85", "::error::", "##[error]", "`", "|"]
ANY = st.lists(st.sampled_from(HARD) | st.text(max_size=5), max_size=8).map("".join)
FILE = st.binary(min_size=1, max_size=20).map(lambda data: data.replace(b"\0", b"").decode(errors="surrogateescape"))
CONTROLS = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]")


def whole(text: str) -> str:
    """The text without halves of surrogate pairs, which UTF-8 has no bytes for."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


@given(message=ANY, name=ANY, file=FILE, reason=ANY, data=st.binary(max_size=40))
def test_nothing_in_the_input_breaks_a_format(message: str, name: str, file: str, reason: str, data: bytes) -> None:
    place = Place(file, 1, 3)
    found = replace(
        QUOTA, place=place, message=message, name=name, path=name, namespace=name, kind=name, rule="r" + name
    )
    change = ({"op": "add", "path": "/" + name.replace("/", ""), "value": {name: message}},)
    result = Result(
        findings=(found, replace(found, severity=Severity.PATCH, rule="patched", change=change)),
        notes=(Fault(place, message),),
        skipped=(
            replace(CONFIG, place=place, reason=reason, name=name),
            replace(SERVICES[0], reason=reason, name=name),
        ),
        not_evaluated=(NotJudged("r" + name, reason),),
        errors=(Fault(place, message),),
        objects=3,
        checked=1,
    )
    outputs = {each: render(each, result, {file: data}, colour=True, root="/src") for each in FORMATS}
    for output in outputs.values():
        assert output.encode().endswith(b"\n")

    report = json.loads(outputs["json"])
    CLOSED.validate(report)
    assert (report["findings"][0]["message"], report["findings"][0]["file"]) == (whole(message), whole(file))

    log = json.loads(outputs["sarif"])
    assert sarif_problems(log) == []
    first = log["runs"][0]["results"][0]
    assert first["message"]["text"] == whole(message).replace("{", "{{").replace("}", "}}").replace("](", "] (")

    assert as_ci_reads_it(outputs["junit"]) == {"tests": 7, "failures": 1, "errors": 1, "skipped": 3}

    lines = outputs["github"].split("\n")
    commands = [re.fullmatch("::(error|warning|notice) ([^:]*)::(.*)", line) for line in lines[:-2]]
    assert [command and command[1] for command in commands] == ["error", "error", "notice", "warning", "notice"]
    assert lines[-2].startswith("3 objects: 1 checked")
    for command in commands:
        assert command is not None
        assert {pair.partition("=")[0] for pair in command[2].split(",")} <= {"file", "line", "col", "title"}
    assert not CONTROLS.search(outputs["github"])
    if not CONTROLS.search(message) and not re.search("[\u061c\u200e\u200f\u2066-\u2069\ufeff\ufffe\uffff]", message):
        assert unquote_to_bytes(commands[1][3].encode()).decode() == message  # type: ignore[index]

    assert [issue["description"] for issue in json.loads(outputs["gitlab"])] == [whole(message)] * 4

    text = re.sub(r"\x1b\[(?:0|1|2|1;3[136])m", "", outputs["text"])
    assert not CONTROLS.search(text)
    assert [re.search(" (deny|patch|note|error): ", line) is not None for line in text.split("\n")].count(True) >= 4
