"""The codec: bytes to Review, Verdict to bytes, and the limits of the API server in between."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from tests.door import UID, Object, review_of
from webhook.engine.patch import diff
from webhook.engine.policy import Exemption
from webhook.engine.rule import Violation
from webhook.engine.verdict import Finding, Note, NotEvaluated, Severity, Verdict
from webhook.server.response import response, warnings
from webhook.server.review import MalformedReview, Review, review
from webhook.server.text import cut, printable

DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "model-a", "namespace": "team"},
    "spec": {"strategy": {"rollingUpdate": {"maxSurge": "25%"}}},
}


def decoded(document: Any) -> Review:
    return review(json.dumps(document).encode())


def damaged(*path: str, value: Any) -> Object:
    """A good review with one field set, or taken out."""
    document = review_of(DEPLOYMENT)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


class TestReview:
    def test_every_field(self) -> None:
        assert decoded(review_of(DEPLOYMENT, DEPLOYMENT, dryRun=True)) == Review(
            uid=UID,
            operation="UPDATE",
            group="apps",
            kind="Deployment",
            sub_resource="",
            namespace="team",
            name="model-a",
            user="jane",
            groups=frozenset({"system:authenticated"}),
            dry_run=True,
            value=DEPLOYMENT,
            old=DEPLOYMENT,
        )

    def test_as_little_as_there_can_be(self) -> None:
        request = {"uid": "1", "operation": "DELETE", "kind": {"kind": "Pod"}}
        document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        assert decoded(document) == Review(
            "1", "DELETE", "", "Pod", "", "", "", "", frozenset(), dry_run=False, value=None, old=None
        )

    def test_namespace_of_the_request_comes_first(self) -> None:
        assert decoded(review_of(DEPLOYMENT, namespace="other")).namespace == "other"
        assert decoded(damaged("request", "namespace", value=None)).namespace == "team"

    @pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b'{"a": NaN}', b'{"a": "\\ud800"}', b"[" * 100_000])
    def test_bodies_that_are_no_json(self, body: bytes) -> None:
        with pytest.raises(MalformedReview, match=r"^body: is not JSON: .+ line 1 column \d+ \(char \d+\)$"):
            review(body)

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            (b"[]", "body: must be a mapping, is a list"),
            (b"null", "body: must be a mapping, is null"),
            (b"17", "body: must be a mapping, is 17"),
        ],
    )
    def test_bodies_that_are_no_mapping(self, body: bytes, error: str) -> None:
        with pytest.raises(MalformedReview) as raised:
            review(body)
        assert str(raised.value) == error

    @pytest.mark.parametrize(
        ("path", "value", "error"),
        [
            (
                "apiVersion",
                "admission.k8s.io/v1beta1",
                'apiVersion: must be admission.k8s.io/v1, is "admission.k8s.io/v1beta1"',
            ),
            ("apiVersion", None, "apiVersion: must be admission.k8s.io/v1, is null"),
            ("kind", "Pod", 'kind: must be AdmissionReview, is "Pod"'),
            ("kind", {}, "kind: must be AdmissionReview, is a mapping"),
            ("kind", "\u202eP" + "o" * 99, f'kind: must be AdmissionReview, is "\\u202eP{"o" * 56}…"'),
            ("request", None, "request: must be a mapping, is null"),
            ("request", [], "request: must be a mapping, is a list"),
            ("request.uid", None, "request.uid: must be a non-empty string"),
            ("request.uid", "", "request.uid: must be a non-empty string"),
            ("request.uid", 17, "request.uid: must be a non-empty string"),
            ("request.uid", "x" * 513, "request.uid: must have at most 512 characters, has 513"),
            ("request.operation", None, "request.operation: must be one of CREATE, UPDATE, DELETE, CONNECT, is null"),
            ("request.operation", "PUT", 'request.operation: must be one of CREATE, UPDATE, DELETE, CONNECT, is "PUT"'),
            (
                "request.operation",
                ["CREATE"],
                "request.operation: must be one of CREATE, UPDATE, DELETE, CONNECT, is a list",
            ),
            ("request.kind", None, "request.kind: must be a mapping, is null"),
            ("request.kind", "Deployment", 'request.kind: must be a mapping, is "Deployment"'),
            ("request.kind.kind", None, "request.kind.kind: must be a non-empty string"),
            ("request.kind.kind", 1.5, "request.kind.kind: must be a string, is 1.5"),
            ("request.kind.group", True, "request.kind.group: must be a string, is true"),
            ("request.kind.version", {}, "request.kind.version: must be a string, is a mapping"),
            ("request.object", None, "request.object: must be a mapping at CREATE, is null"),
            ("request.object", "{}", 'request.object: must be a mapping, is "{}"'),
            ("request.oldObject", 1, "request.oldObject: must be a mapping, is 1"),
            ("request.namespace", ["team"], "request.namespace: must be a string, is a list"),
            ("request.name", 5, "request.name: must be a string, is 5"),
            ("request.subResource", 5, "request.subResource: must be a string, is 5"),
            ("request.dryRun", "yes", 'request.dryRun: must be true or false, is "yes"'),
            ("request.userInfo", "jane", 'request.userInfo: must be a mapping, is "jane"'),
            ("request.userInfo.username", 7, "request.userInfo.username: must be a string, is 7"),
            ("request.userInfo.groups", "admins", "request.userInfo.groups: must be a list of strings"),
            ("request.userInfo.groups", ["a", 1], "request.userInfo.groups: must be a list of strings"),
        ],
    )
    def test_malformed(self, path: str, value: Any, error: str) -> None:
        with pytest.raises(MalformedReview) as raised:
            decoded(damaged(*path.split("."), value=value))
        assert str(raised.value) == error


def finding(message: str = "must be 0", severity: Severity = Severity.DENY, **more: Any) -> Finding:
    violation = Violation(("spec", "strategy"), message, "25%", "set it to 0", done="set to 0")
    note = Note.PATCHED if severity is Severity.PATCH else Note.NONE
    fields = {"rule": "surge-without-quota", "name": "model-a", **more}
    return Finding(severity=severity, kind="Deployment", namespace="team", violation=violation, note=note, **fields)


def answered(verdict: Verdict, stale: str = "") -> Any:
    document = json.loads(response(decoded(review_of(DEPLOYMENT)), verdict, stale))
    assert (document.pop("apiVersion"), document.pop("kind")) == ("admission.k8s.io/v1", "AdmissionReview")
    assert list(document) == ["response"]
    return document["response"]


class TestResponse:
    def test_nothing_to_say(self) -> None:
        assert answered(Verdict(DEPLOYMENT)) == {"uid": UID, "allowed": True}

    def test_patched(self) -> None:
        after = {**DEPLOYMENT, "spec": {"strategy": {"rollingUpdate": {"maxSurge": 0}}}}
        verdict = Verdict(after, (finding(severity=Severity.PATCH),), tuple(diff(DEPLOYMENT, after)))
        found = answered(verdict)
        assert json.loads(base64.b64decode(found.pop("patch"))) == [
            {"op": "replace", "path": "/spec/strategy/rollingUpdate/maxSurge", "value": 0}
        ]
        assert found == {
            "uid": UID,
            "allowed": True,
            "patchType": "JSONPatch",
            "warnings": [
                'Deployment "model-a": spec.strategy: must be 0, is 25%; patched: set to 0 [surge-without-quota]'
            ],
            "auditAnnotations": {"patched": "surge-without-quota"},
        }

    def test_denied_with_everything(self) -> None:
        verdict = Verdict(
            DEPLOYMENT,
            (
                finding(),
                finding(severity=Severity.WARN, rule="short-grace-period"),
                finding("must be 1", rule="b-rule"),
            ),
            not_evaluated=(NotEvaluated("unknown-queue", "LocalQueue: not read yet"),),
        )
        lines = [
            'Deployment "model-a": spec.strategy: must be 0, is 25%; fix: set it to 0 [surge-without-quota]',
            'Deployment "model-a": spec.strategy: must be 1, is 25%; fix: set it to 0 [b-rule]',
        ]
        assert answered(verdict, "Floorkeeper's facts are 301 s old: LocalQueue") == {
            "uid": UID,
            "allowed": False,
            "status": {
                "status": "Failure",
                "message": "\n".join(lines),
                "reason": "Forbidden",
                "code": 403,
                "details": {
                    "name": "model-a",
                    "group": "apps",
                    "kind": "Deployment",
                    "causes": [
                        {"reason": "FieldValueInvalid", "message": line, "field": "spec.strategy"} for line in lines
                    ],
                },
            },
            "warnings": [
                'Deployment "model-a": spec.strategy: must be 0, is 25%; fix: set it to 0 [short-grace-period]',
                "not evaluated: LocalQueue: not read yet [unknown-queue]",
                "Floorkeeper's facts are 301 s old: LocalQueue",
            ],
            "auditAnnotations": {
                "denied": "b-rule,surge-without-quota",
                "warned": "short-grace-period",
                "not-evaluated": "unknown-queue",
            },
        }

    def test_exempt(self) -> None:
        exemption = Exemption("bare-metal test rig, INC-412", until=date(2027, 1, 31))
        found = answered(Verdict(DEPLOYMENT, exemption=exemption, passed_over="it is exempt"))
        assert found == {
            "uid": UID,
            "allowed": True,
            "auditAnnotations": {"exempted": "bare-metal test rig, INC-412"},
        }

    def test_a_flood_of_denials_is_bounded(self) -> None:
        verdict = Verdict(DEPLOYMENT, tuple(finding(f"must be {index} {'é' * 2000}") for index in range(5000)))
        status = answered(verdict)["status"]
        lines = status["message"].split("\n")
        assert len(status["message"].encode()) <= 8192
        assert lines[-1] == "… and 4996 more"
        assert {len(line) for line in lines[:-1]} == {1024}
        # The middle goes, and not what there is to do.
        end = "é, is 25%; fix: set it to 0 [surge-without-quota]"
        assert all("é…é" in line and line.endswith(end) for line in lines[:-1])
        assert [cause["message"] for cause in status["details"]["causes"]] == lines[:-1]

    def test_a_hostile_name_is_one_printable_line(self) -> None:
        verdict = Verdict(DEPLOYMENT, (finding(name="a\nb\x1b[2J\u202e\ud800" + "x" * 9999),))
        status = answered(verdict)["status"]
        assert status["details"]["name"].startswith("a b\\x1b[2J\\u202e\\ud800xxx")
        assert len(status["details"]["name"]) == 253
        assert status["message"].startswith('Deployment "a b\\x1b[2J\\u202e\\ud800xxx')
        assert status["message"].endswith("; fix: set it to 0 [surge-without-quota]")
        assert status["message"].isprintable()


class TestWarnings:
    def test_long_ones_keep_their_rule(self) -> None:
        (line,) = warnings([f'Deployment "a": must be {"0" * 300} [surge-without-quota]'])
        assert (len(line), line[-24:]) == (255, "00… [surge-without-quota]"[-24:])

    def test_long_ones_keep_what_there_is_to_do_as_far_as_it_fits(self) -> None:
        told = (
            'ClusterQueue "a": path: must fit, is 7: ' + " + ".join(f'"queue-{n}" 2' for n in range(20)) + " = 40 of 10"
        )
        (line,) = warnings([f"{told}; fix: leave it at 5 [floors-exceed-capacity]"])
        assert len(line) == 255
        assert line.startswith('ClusterQueue "a": path: must fit, is 7: "queue-0" 2 + ')
        assert line.endswith(' "queue-19" 2 = 40 of 10; fix: leave it at 5 [floors-exceed-capacity]')
        (line,) = warnings([f"{told}; fix: {'do this, ' * 40}[floors-exceed-capacity]"])
        assert len(line) == 255
        assert "= 40 of 10; fix: do this, do this, " in line
        assert line.endswith("… [floors-exceed-capacity]")

    def test_long_ones_lose_the_name_first(self) -> None:
        (line,) = warnings([f'Deployment "{"a" * 100}": must be {"0" * 230} [rule]'])
        assert (len(line), line[:32], line[-9:]) == (255, f'Deployment "{"a" * 16}…": ', "00… [rule]"[-9:])
        (line,) = warnings([f'Deployment "{"a" * 240}": must be 0 [rule]'])
        assert (len(line), line) == (255, f'Deployment "{"a" * 223}…": must be 0 [rule]')

    def test_each_once(self) -> None:
        assert warnings(["a", "b", "a"]) == ["a", "b"]

    def test_together_below_what_the_api_server_keeps(self) -> None:
        lines = warnings(f"{index} {'x' * 300} [rule]" for index in range(100))
        assert lines[-1] == "… and 93 more warnings"
        assert (len(lines), sum(map(len, lines)) < 2048) == (8, True)

    def test_as_many_as_fit(self) -> None:
        lines = [f"{index:03d}{'x' * 197}" for index in range(10)]
        assert warnings(lines) == lines


@pytest.mark.parametrize("make", [cut, printable])
@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short [rule]", 12, "short [rule]"),
        ("rather long [rule]", 14, "rather… [rule]"),
        ("no rule here", 6, "no ru…"),
        ("a list [0] and so on", 12, "a list [0] …"),
        ("x" * 40 + " [" + "y" * 90 + "]", 12, "x" * 11 + "…"),
    ],
)
def test_cut(make: Callable[[str, int], str], text: str, limit: int, expected: str) -> None:
    assert make(text, limit) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("naïve — „ok“ 模型", "naïve — „ok“ 模型"),
        ("a\r\n\tb\xa0c\u2028d", "a   b c d"),
        ("\x00\x1b\x7f", "\\x00\\x1b\\x7f"),
        ("\u202e\u200b\ud800", "\\u202e\\u200b\\ud800"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert printable(text, 99) == expected
