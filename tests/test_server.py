"""The admission door: what it answers, counts and logs, and how its process starts and ends."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import platform
import shutil
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from tests.cases import BASE, FIXTURES, policy_of, read_documents, snapshot_of
from tests.door import NOW, UID, Door, FixedCertificate, Object, StillSource, review_of
from tests.serving import PATIENCE, Serving, run, serving, until
from webhook import __version__
from webhook.engine.policy import Exemption, Policy
from webhook.engine.rule import Rule
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.snapshot import Snapshot
from webhook.rules import RULES
from webhook.server.address import listen_on
from webhook.server.body import MAX_BODY
from webhook.server.certificates import OwnCertificate
from webhook.server.connection import Connection
from webhook.server.endpoint import AdmissionEndpoint
from webhook.server.http import KEEP_ALIVE_SECONDS, server_config
from webhook.server.log import json_line
from webhook.server.reload import RENDER_AGAIN, UNNAMED
from webhook.sources.source import KindState

NAMESPACE = "llm-d-optimized-baseline"
UNLABELLED: Object = read_documents(FIXTURES / "kinds" / "deployment" / "fail-missing-queue-name.yaml")[-1]
SURGING: Object = read_documents(FIXTURES / "surge-without-quota" / "fail-default.yaml")[-1]
QUOTA: Object = read_documents(FIXTURES / "gpu-resource-quota" / "fail-requests.yaml")[-1]
NO_REQUEST: Object = read_documents(FIXTURES / "implicit-gpu-request" / "fail-limit-only.yaml")[-1]
LABEL_LINE = (
    f'Deployment "model-a": spec.template.metadata.labels[{QUEUE_LABEL}]: must name a LocalQueue, is absent; '
    "patched: set to model-a-lq, from the policy's queues [missing-queue-name]"
)
LIMIT_PLACE = "spec.template.spec.containers[0].resources.requests[nvidia.com/gpu]"
LIMIT_LINE = (
    f'Deployment "model-a": {LIMIT_PLACE}: must equal the limit, 1, is absent; fix: set it to 1 [implicit-gpu-request]'
)
PATCHED = {
    "uid": UID,
    "allowed": True,
    "patchType": "JSONPatch",
    "patch": base64.b64encode(
        b'[{"op":"add","path":"/spec/template/metadata/labels/kueue.x-k8s.io~1queue-name","value":"model-a-lq"}]'
    ).decode(),
    "warnings": [LABEL_LINE],
    "auditAnnotations": {"patched": "missing-queue-name"},
}
DENIED = {
    "uid": UID,
    "allowed": False,
    "status": {
        "status": "Failure",
        "message": LIMIT_LINE,
        "reason": "Forbidden",
        "code": 403,
        "details": {
            "name": "model-a",
            "group": "apps",
            "kind": "Deployment",
            "causes": [{"reason": "FieldValueInvalid", "message": LIMIT_LINE, "field": LIMIT_PLACE}],
        },
    },
    "auditAnnotations": {"denied": "implicit-gpu-request"},
}


@contextmanager
def door_of(
    snapshot: Snapshot | None = None,
    policy: Policy | None = None,
    rules: tuple[Rule, ...] = RULES,
    states: Mapping[str, KindState] | None = None,
    after: Snapshot | None = None,
    certificate: FixedCertificate | None = None,
) -> Iterator[Door]:
    source = StillSource(snapshot or snapshot_of(BASE), states, after)
    door = Door(source, policy or policy_of(), rules, certificate)
    try:
        yield door
    finally:
        door.close()


@pytest.fixture
def door() -> Iterator[Door]:
    with door_of() as made:
        yield made


class TestReviews:
    def test_patched(self, door: Door) -> None:
        assert door.ask("/mutate", review_of(UNLABELLED)) == PATCHED

    def test_denied(self, door: Door) -> None:
        assert door.ask("/validate", review_of(NO_REQUEST)) == DENIED

    def test_dry_run_is_no_different(self, door: Door) -> None:
        assert door.ask("/mutate", review_of(UNLABELLED, dryRun=True)) == PATCHED
        assert door.ask("/validate", review_of(NO_REQUEST, dryRun=True)) == DENIED

    def test_byte_for_byte_the_same(self, door: Door) -> None:
        body = json.dumps(review_of(SURGING)).encode()
        assert len({door.send("/mutate", body)[2] for _ in range(10)}) == 1

    @pytest.mark.parametrize("path", ["/mutate", "/validate"])
    @pytest.mark.parametrize(
        "review",
        [
            review_of(None, UNLABELLED, "DELETE"),
            review_of(None, None, "DELETE", kind={"group": "apps", "version": "v1", "kind": "Deployment"}),
            review_of({"kind": "PodExecOptions", "apiVersion": "v1"}, operation="CONNECT", subResource="exec"),
            review_of(None, operation="CONNECT", kind={"group": "", "version": "v1", "kind": "Pod"}),
            review_of({**UNLABELLED, "status": {}}, UNLABELLED, subResource="status"),
            review_of(
                {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 4}},
                subResource="scale",
                namespace=NAMESPACE,
            ),
            review_of({"apiVersion": "example.org/v1", "kind": "Deployment", "metadata": {"name": "x"}}),
            review_of({**UNLABELLED, "metadata": {"name": "model-a", "namespace": "elsewhere"}}),
            {**review_of(None, UNLABELLED, "DELETE"), "extra": [1], "response": None},
        ],
    )
    def test_let_through_without_a_word(self, door: Door, path: str, review: Object) -> None:
        review["request"]["later"] = {"fields": [None]}
        assert door.ask(path, review) == {"uid": UID, "allowed": True}

    def test_generate_name(self, door: Door) -> None:
        value = {**NO_REQUEST, "metadata": {"generateName": "model-a-", "namespace": NAMESPACE}}
        status = door.ask("/validate", review_of(value))["status"]
        assert status["message"].startswith(f'Deployment "model-a-*": {LIMIT_PLACE}: must equal the limit')
        assert status["details"]["name"] == "model-a-*"

    def test_a_namespaced_kind_without_namespace(self, door: Door) -> None:
        body = json.dumps(review_of({**UNLABELLED, "metadata": {"name": "model-a"}})).encode()
        assert door.refused("/mutate", body, 400) == "request.namespace: must be a non-empty string for a Deployment"

    def test_nesting_that_python_cannot_compare(self, door: Door) -> None:
        value, old = json.loads(json.dumps(UNLABELLED)), json.loads(json.dumps(UNLABELLED))
        value["spec"]["template"]["x"] = old["spec"]["template"]["x"] = 0
        value["status"] = {"replicas": 1}
        deep = "[" * 1000 + "]" * 1000
        body = json.dumps(review_of(value, old)).replace('"x": 0', f'"x": {deep}').encode()
        assert door.refused("/mutate", body, 400) == "request.object: is nested too deeply"

    def test_exempt(self) -> None:
        exemption = Exemption("test rig, INC-412", namespace=NAMESPACE, workload="model-*")
        with door_of(policy=replace(policy_of(), exemptions=(exemption,))) as door:
            assert door.ask("/mutate", review_of(NO_REQUEST)) == {"uid": UID, "allowed": True}
            assert door.ask("/validate", review_of(NO_REQUEST)) == {
                "uid": UID,
                "allowed": True,
                "auditAnnotations": {"exempted": "test rig, INC-412", "exempted-rules": "implicit-gpu-request"},
            }
            metrics = door.metrics()
        assert 'floorkeeper_exemptions_total{reason="test rig, INC-412"} 1.0' in metrics
        assert requests(metrics) == {
            ("mutate", "CREATE", "Deployment", "passed_over"): 1,
            ("validate", "CREATE", "Deployment", "exempt"): 1,
        }


def requests(metrics: str) -> dict[tuple[str, ...], int]:
    """floorkeeper_requests_total by its labels webhook, operation, kind and verdict."""
    found = {}
    for line in metrics.splitlines():
        if line.startswith("floorkeeper_requests_total{"):
            labels = dict(pair.split("=") for pair in line[line.index("{") + 1 : line.index("}")].split(","))
            names = ("webhook", "operation", "kind", "verdict")
            found[tuple(json.loads(labels[name]) for name in names)] = int(float(line.rpartition(" ")[2]))
    return found


class TestFacts:
    def test_unmanaged_is_asked_again(self) -> None:
        unmanaged = [{**BASE[0], "metadata": {"name": NAMESPACE}}, *BASE[1:]]
        with door_of(snapshot_of(unmanaged), after=snapshot_of(BASE)) as door:
            assert door.ask("/mutate", review_of(UNLABELLED)) == PATCHED
            assert door.source.confirmed == [(frozenset({"Namespace"}), NAMESPACE)]

    def test_what_has_not_changed_is_judged_once(self) -> None:
        with door_of(snapshot_of([value for value in BASE if value["kind"] != "LocalQueue"])) as door:
            found = door.ask("/validate", review_of(UNLABELLED))
            assert (found["allowed"], found["auditAnnotations"]) == (False, {"denied": "missing-queue-name"})
            assert len(door.source.confirmed) == 1

    def test_old_facts_are_said_to_be_old(self) -> None:
        needs = next(rule for rule in RULES if rule.id == "missing-queue-name").needs
        states = {kind: KindState(True, 301.4 if kind == "LocalQueue" else 17.0) for kind in needs}
        with door_of(states=states) as door:
            assert door.ask("/mutate", review_of(UNLABELLED))["warnings"] == [LABEL_LINE], "once for both calls"
            clean = read_documents(FIXTURES / "missing-queue-name" / "pass-labelled.yaml")[-1]
            warnings = door.ask("/validate", review_of(clean))["warnings"]
            assert warnings == ["Floorkeeper's facts are 301 s old: LocalQueue"]
            assert "warnings" not in door.ask("/validate", review_of(QUOTA))

    def test_not_evaluated(self) -> None:
        snapshot = snapshot_of(BASE)
        snapshot.forget("LocalQueue", "may not be listed")
        with door_of(snapshot, policy_of({"queues": []})) as door:
            found = door.ask("/validate", review_of(UNLABELLED))
            metrics = door.metrics()
        assert found["allowed"]
        assert "missing-queue-name" in found["auditAnnotations"]["not-evaluated"].split(",")
        assert "not evaluated: LocalQueue: may not be listed [missing-queue-name]" in found["warnings"]
        assert 'floorkeeper_rule_hits_total{rule="missing-queue-name",severity="not-evaluated"} 1.0' in metrics
        assert 'floorkeeper_facts_known{kind="LocalQueue"} 0.0' in metrics


def _broken(*_: Any) -> Any:
    raise ZeroDivisionError("a secret value")


class TestOwnFault:
    def test_namespaces_unknown(self) -> None:
        with door_of(Snapshot()) as door:
            status, _, body = door.send("/mutate", json.dumps(review_of(UNLABELLED)).encode())
        assert (status, json.loads(body)) == (500, {"error": "facts missing: Namespace: not read yet", "uid": UID})

    def test_a_rule_that_fails(self, caplog: pytest.LogCaptureFixture) -> None:
        rules = (replace(RULES[0], check=_broken),)
        with door_of(rules=rules) as door:
            status, _, body = door.send("/validate", json.dumps(review_of(UNLABELLED)).encode())
            metrics = door.metrics()
        assert (status, json.loads(body)) == (500, {"error": "internal error", "uid": UID})
        (record,) = caplog.records
        line = json.loads(json_line(record))
        assert line["uid"] == UID
        assert "ZeroDivisionError" in line["traceback"]
        assert requests(metrics) == {("validate", "CREATE", "Deployment", "error"): 1}
        assert 'floorkeeper_request_errors_total{webhook="validate"} 1.0' in metrics
        assert 'floorkeeper_request_errors_total{webhook="mutate"} 0.0' in metrics


class TestRefusals:
    @pytest.mark.parametrize("path", ["/mutate", "/validate"])
    @pytest.mark.parametrize(
        ("body", "error"),
        [
            (b"[]", "body: must be a mapping, is a list"),
            (
                json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}).encode(),
                "request.uid: must be a non-empty string",
            ),
        ],
    )
    def test_malformed(self, door: Door, path: str, body: bytes, error: str) -> None:
        assert door.refused(path, body, 400) == error
        assert requests(door.metrics()) == {(path[1:], "unknown", "other", "malformed"): 1}

    @pytest.mark.parametrize(
        ("content_type", "status"),
        [
            ("application/json", 200),
            ("application/json; charset=utf-8", 200),
            ("Application/JSON ;charset=utf-8", 200),
            ("application/yaml", 415),
            ("application/jsonx", 415),
            ("", 415),
        ],
    )
    def test_content_type(self, door: Door, content_type: str, status: int) -> None:
        body = json.dumps(review_of(UNLABELLED)).encode()
        found, _, answer = door.send("/mutate", body, headers={"Content-Type": content_type})
        assert found == status
        if status == 415:
            assert json.loads(answer) == {"error": "header Content-Type: must be application/json"}

    def test_as_much_as_there_may_be(self, door: Door) -> None:
        body = json.dumps(review_of(UNLABELLED)).encode().ljust(MAX_BODY)
        assert door.send("/mutate", body, headers={"Content-Length": str(MAX_BODY)})[0] == 200
        assert door.send("/mutate", [body[:1], body[1:-1], body[-1:]])[0] == 200

    @pytest.mark.parametrize("headers", [{"Content-Length": str(MAX_BODY + 1)}, {"Content-Length": "9" * 5000}])
    def test_too_long_by_its_own_account(self, door: Door, headers: dict[str, str]) -> None:
        status, _, body = door.send("/mutate", [], headers=headers)
        assert (status, json.loads(body)) == (413, {"error": "body: must have at most 8388608 bytes"})

    @pytest.mark.parametrize("chunks", [[b" " * (MAX_BODY + 1)], [b" " * MAX_BODY, b" ", b" "]])
    def test_too_long_by_count(self, door: Door, chunks: list[bytes]) -> None:
        status, _, body = door.send("/mutate", chunks)
        assert (status, json.loads(body)) == (413, {"error": "body: must have at most 8388608 bytes"})

    def test_too_slow(self, door: Door) -> None:
        endpoint = next(route for route in door.app.routes if getattr(route, "path", "") == "/mutate").app  # type: ignore[attr-defined]
        assert isinstance(endpoint, AdmissionEndpoint)
        endpoint.body_seconds = 0.02
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0.015)
            return {"type": "http.request", "body": b" ", "more_body": True}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(endpoint({"type": "http", "headers": []}, receive, send))
        assert (sent[0]["status"], dict(sent[0]["headers"])[b"connection"]) == (408, b"close")
        assert json.loads(sent[1]["body"]) == {"error": "body: did not arrive within 0.02 s"}

    def test_gone_before_the_end(self, door: Door) -> None:
        messages: Iterator[dict[str, Any]] = iter(
            [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
        )

        async def receive() -> dict[str, Any]:
            return next(messages)

        async def send(message: Any) -> None:
            raise AssertionError(message)

        asyncio.run(door.app({"type": "http", "method": "POST", "path": "/mutate", "headers": []}, receive, send))

    @pytest.mark.parametrize(
        ("method", "path", "status", "error"),
        [
            ("GET", "/mutate", 405, "Method Not Allowed"),
            ("PUT", "/validate", 405, "Method Not Allowed"),
            ("POST", "/healthz", 405, "Method Not Allowed"),
            ("GET", "/", 404, "Not Found"),
            ("POST", "/mutate/", 404, "Not Found"),
            ("GET", "/docs", 404, "Not Found"),
            ("GET", "/openapi.json", 404, "Not Found"),
        ],
    )
    def test_elsewhere(self, door: Door, method: str, path: str, status: int, error: str) -> None:
        found, _, body = door.send(path, method=method)
        assert (found, json.loads(body)) == (status, {"error": error})


class TestReports:
    def test_healthz_and_version(self, door: Door) -> None:
        assert door.get("/healthz") == (200, {"status": "ok"})
        assert door.send("/healthz", method="GET")[2] == b'{"status":"ok"}\n', "for curl in a terminal"
        assert door.get("/version") == (200, {"version": __version__, "python": platform.python_version()})

    def test_ready(self, door: Door) -> None:
        assert door.get("/readyz") == (
            200,
            {
                "ready": True,
                "reasons": [],
                "policy": {"generation": 1, "error": "", "note": ""},
                "facts": {
                    "LocalQueue": {"known": True, "ageSeconds": 1.2, "detail": ""},
                    "Namespace": {"known": True, "ageSeconds": 1.2, "detail": ""},
                },
                "ledger": {"error": ""},
                "certificate": {
                    "source": "a test",
                    "expires": "2027-11-29T00:00:00+00:00",
                    "fingerprint": "ab" * 32,
                    "authorityExpires": None,
                    "caBundlePublished": None,
                    "error": "",
                    "note": "",
                },
                "clients": {"certificate": "not asked for", "error": ""},
            },
        )

    def test_not_ready(self) -> None:
        states = {
            "LocalQueue": KindState(False, float("inf")),
            "Namespace": KindState(False, 0.0, "may not be listed"),
            "Pod": KindState(False, 0.0, "not served", required=False),
        }
        with door_of(states=states, certificate=FixedCertificate(NOW)) as door:
            door.readiness.draining = True
            status, report = door.get("/readyz")
        assert (status, report["ready"]) == (503, False)
        assert report["reasons"] == [
            "LocalQueue: not known yet",
            "Namespace: may not be listed",
            "certificate: has expired",
            "shutting down",
        ]
        assert report["facts"] == {
            "LocalQueue": {"known": False, "ageSeconds": None, "detail": ""},
            "Namespace": {"known": False, "ageSeconds": 0.0, "detail": "may not be listed"},
            "Pod": {"known": False, "ageSeconds": 0.0, "detail": "not served"},
        }

    def test_broken_files_leave_the_last_good_ones_in_force(self) -> None:
        with door_of(certificate=FixedCertificate(error="the key is none")) as door:
            door.policies.error = "policy.yaml:3: rules: no such rule"
            status, report = door.get("/readyz")
            metrics = door.metrics()
        assert (status, report["reasons"]) == (200, [])
        assert report["policy"] == {"generation": 1, "error": "policy.yaml:3: rules: no such rule", "note": ""}
        assert report["certificate"]["error"] == "the key is none"
        assert "floorkeeper_policy_load_failed 1.0" in metrics
        assert "floorkeeper_certificate_reload_failed 1.0" in metrics

    def test_broken_certificate_in_its_last_hour(self) -> None:
        soon = datetime(2026, 11, 29, 0, 59, tzinfo=UTC)
        with door_of(certificate=FixedCertificate(soon)) as door:
            assert door.get("/readyz")[0] == 200
        with door_of(certificate=FixedCertificate(soon, "the key is none")) as door:
            assert door.get("/readyz")[1]["reasons"] == ["certificate: expires within the hour and cannot be renewed"]

    def test_while_draining_clients_are_sent_away(self, door: Door) -> None:
        body = json.dumps(review_of(UNLABELLED)).encode()
        assert "connection" not in door.send("/mutate", body)[1]
        door.readiness.draining = True
        status, headers, _ = door.send("/mutate", body)
        assert (status, headers["connection"]) == (200, "close")

    def test_metrics(self, door: Door) -> None:
        for path, review in [
            ("/mutate", review_of(UNLABELLED)),
            ("/mutate", review_of(UNLABELLED)),
            ("/validate", review_of(NO_REQUEST)),
            ("/validate", review_of(None, NO_REQUEST, "DELETE")),
            ("/validate", review_of({"apiVersion": "v1", "kind": "x" * 999, "metadata": {"name": "x"}})),
        ]:
            door.ask(path, review)
        metrics = door.metrics()
        assert requests(metrics) == {
            ("mutate", "CREATE", "Deployment", "patched"): 2,
            ("validate", "CREATE", "Deployment", "denied"): 1,
            ("validate", "DELETE", "Deployment", "passed_over"): 1,
            ("validate", "CREATE", "other", "passed_over"): 1,
        }
        for line in [
            'floorkeeper_rule_hits_total{rule="missing-queue-name",severity="patch"} 2.0',
            'floorkeeper_rule_hits_total{rule="implicit-gpu-request",severity="deny"} 1.0',
            'floorkeeper_request_duration_seconds_count{webhook="mutate"} 2.0',
            'floorkeeper_request_duration_seconds_count{webhook="validate"} 3.0',
            'floorkeeper_request_duration_seconds_bucket{le="0.00025",webhook="mutate"}',
            "floorkeeper_policy_generation 1.0",
            "floorkeeper_policy_load_failed 0.0",
            "floorkeeper_certificate_expiry_timestamp_seconds 1.8274464e+09",
            "floorkeeper_certificate_reload_failed 0.0",
            "floorkeeper_ready 1.0",
            'floorkeeper_facts_age_seconds{kind="Namespace"} 1.25',
            'floorkeeper_facts_known{kind="Namespace"} 1.0',
            f'floorkeeper_build_info{{version="{__version__}"}} 1.0',
            "process_resident_memory_bytes",
        ]:
            assert line in metrics
        assert "_created" not in metrics

    def test_metrics_in_open_metrics_format(self, door: Door) -> None:
        accept = {"Accept": "application/openmetrics-text; version=1.0.0,text/plain;q=0.5"}
        status, headers, body = door.send("/metrics", method="GET", headers=accept)
        assert (status, headers["content-type"].partition(";")[0]) == (200, "application/openmetrics-text")
        assert body.endswith(b"# EOF\n")


class TestLogs:
    def test_one_line_for_each_denied_or_patched_request(self, door: Door, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        door.ask("/mutate", review_of(UNLABELLED, dryRun=True))
        door.ask("/validate", review_of(NO_REQUEST, userInfo={"username": "eve\n" + "x" * 999}))
        door.ask("/validate", review_of(None, NO_REQUEST, "DELETE"))
        patched, denied = (json.loads(json_line(record)) for record in caplog.records)
        assert patched.pop("time")[:4] == str(datetime.now(UTC).year)
        assert patched == {
            "level": "info",
            "logger": "floorkeeper.admission",
            "message": "request patched",
            "webhook": "mutate",
            "uid": UID,
            "operation": "CREATE",
            "kind": "Deployment",
            "namespace": NAMESPACE,
            "name": "model-a",
            "user": "jane",
            "dryRun": True,
            "verdict": "patched",
            "rules": ["missing-queue-name"],
            "messages": [LABEL_LINE],
        }
        assert (denied["verdict"], denied["messages"], denied["dryRun"]) == ("denied", [LIMIT_LINE], False)
        assert (denied["user"][:6], len(denied["user"])) == ("eve xx", 256)

    def test_one_line_for_each_exempt_request(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        exemption = Exemption("test rig, INC-412", namespace=NAMESPACE, workload="model-*")
        clean = read_documents(FIXTURES / "missing-queue-name" / "pass-labelled.yaml")[-1]
        with door_of(policy=replace(policy_of(), exemptions=(exemption,))) as door:
            for value in (NO_REQUEST, clean):
                door.ask("/mutate", review_of(value))
                door.ask("/validate", review_of(value))
        (line,) = (json.loads(json_line(record)) for record in caplog.records)
        del line["time"]
        assert line == {
            "level": "info",
            "logger": "floorkeeper.admission",
            "message": "request exempt",
            "webhook": "validate",
            "uid": UID,
            "operation": "CREATE",
            "kind": "Deployment",
            "namespace": NAMESPACE,
            "name": "model-a",
            "user": "jane",
            "dryRun": False,
            "verdict": "exempt",
            "rules": ["implicit-gpu-request"],
            "reason": "test rig, INC-412",
        }

    def test_nothing_of_the_object(self, door: Door, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "floorkeeper")
        value = json.loads(json.dumps(NO_REQUEST))
        value["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "hunter2"}]
        door.ask("/validate", review_of(value))
        door.send("/validate", b"hunter2")
        assert len(caplog.records) == 2
        assert b"hunter2" not in b"".join(json_line(record) for record in caplog.records)

    def test_any_stderr_can_take_it(self) -> None:
        record = logging.LogRecord("x", logging.INFO, "", 0, "\ud800 \x1b é\nb", None, None)
        stream = io.BytesIO()
        stream.write(json_line(record))
        assert json.loads(stream.getvalue())["message"] == "\ud800 \x1b é\nb"
        assert stream.getvalue().count(b"\n") == 1


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    shutil.copy(FIXTURES / "base" / "cluster.yaml", folder)
    return folder


@pytest.fixture(scope="module")
def server(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One process for the tests that leave it as it was, but for its policy."""
    policy = tmp_path_factory.mktemp("policy") / "policy.yaml"
    shutil.copy(FIXTURES / "base" / "policy.yaml", policy)
    with serving("--state", str(state), "--policy", str(policy)) as started:
        yield started


class TestOverHttps:
    def test_ready_at_once_and_reviews(self, server: Serving) -> None:
        with server.client() as client:
            ready = client.get("/readyz")
            assert (ready.status_code, ready.json()["reasons"]) == (200, [])
            assert ready.json()["certificate"]["fingerprint"] == server.started["fingerprint"]
            assert [line["level"] for line in until(lambda: server.logged("ready"))] == ["info"]
            patched = client.post("/mutate", json=review_of(UNLABELLED), params={"timeout": "10s"})
            denied = client.post("/validate", json=review_of(NO_REQUEST))
        assert patched.http_version == "HTTP/1.1"
        assert (patched.status_code, patched.json()["response"]) == (200, PATCHED)
        assert (denied.status_code, denied.json()["response"]) == (200, DENIED)
        (first,) = until(lambda: server.logged("request patched"))
        (second,) = until(lambda: server.logged("request denied"))
        assert (first["uid"], second["uid"]) == (UID, UID)

    def test_no_other_certificate_is_trusted(self, server: Serving) -> None:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(server.url + "/healthz", trust_env=False)

    def test_plain_http_gets_nothing(self, server: Serving) -> None:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"HTTP" not in plain.recv(100)

    @pytest.mark.parametrize("chunked", [False, True])
    def test_too_large_and_then_another_on_the_same_connection(self, server: Serving, chunked: bool) -> None:
        large = b" " * (12 * 1024 * 1024)
        content = (large[start : start + 65536] for start in range(0, len(large), 65536)) if chunked else large
        with server.client() as client:
            refused = client.post("/validate", content=content, headers={"Content-Type": "application/json"})
            assert refused.status_code == 413
            assert refused.json() == {"error": "body: must have at most 8388608 bytes"}
            assert client.post("/validate", json=review_of(NO_REQUEST)).json()["response"] == DENIED

    def test_three_mebibytes_twice(self, server: Serving) -> None:
        value = {**NO_REQUEST, "metadata": {**NO_REQUEST["metadata"], "annotations": {"x": "é" * (3 * 2**19)}}}
        with server.client() as client:
            found = client.post("/validate", json=review_of(value, value)).json()["response"]
        assert (found["allowed"], found["auditAnnotations"]) == (True, {"warned": "implicit-gpu-request"})

    def test_a_head_without_end(self, server: Serving) -> None:
        with server.connection() as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
            end = time.monotonic() + 10
            with pytest.raises(OSError):  # noqa: PT011, PT012  (closed or reset, at one of many sends)
                while time.monotonic() < end:
                    connection.send(b"x" * 8192)

    def test_what_is_no_http(self, server: Serving) -> None:
        with server.connection() as connection:
            connection.sendall(b"\x00\x01\x02 what\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")

    def test_a_new_policy_and_a_broken_one(self, server: Serving) -> None:
        path = Path(server.started["policy"])
        good = path.read_text()
        with server.client() as client:
            path.write_text(good + "rules: {missing-queue-name: 'off'}\n")
            until(lambda: client.get("/readyz").json()["policy"] == {"generation": 2, "error": "", "note": ""})
            assert client.post("/mutate", json=review_of(UNLABELLED)).json()["response"] == {
                "uid": UID,
                "allowed": True,
            }
            path.write_text(good + "rules: {missing-queue-name: perhaps}\n")
            policy = until(lambda: [found for found in [client.get("/readyz").json()["policy"]] if found["error"]])[0]
            assert policy["generation"] == 2
            assert "perhaps" in policy["error"]
            assert client.get("/readyz").status_code == 200
            assert "floorkeeper_policy_load_failed 1.0" in client.get("/metrics").text
            assert "patch" not in client.post("/mutate", json=review_of(UNLABELLED)).json()["response"]
            path.write_text(good)
            until(lambda: client.get("/readyz").json()["policy"] == {"generation": 3, "error": "", "note": ""})
            assert client.post("/mutate", json=review_of(UNLABELLED)).json()["response"] == PATCHED
        (broken,) = until(lambda: server.logged("policy file is broken, the last good policy is in force"))
        assert (broken["level"], broken["error"]) == ("error", policy["error"])
        until(lambda: [line["generation"] for line in server.logged("policy reloaded")] == [2, 3])
        assert server.logged(RENDER_AGAIN) == []

    @pytest.mark.parametrize("change", ["managedNamespaces: {}", "accelerators: {resources: [amd.com/gpu]}"])
    def test_a_policy_that_changes_what_is_registered(self, state: Path, tmp_path: Path, change: str) -> None:
        path = tmp_path / "policy.yaml"
        head = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
        path.write_text(head)
        with serving("--state", str(state), "--policy", str(path)) as server, server.client() as client:
            path.write_text(head + change)
            (told,) = until(lambda: server.logged(RENDER_AGAIN))
            assert told["level"] == "warning"
            assert client.get("/readyz").json()["policy"] == {"generation": 2, "error": "", "note": RENDER_AGAIN}
            path.write_text(head + "inject: always")
            until(lambda: client.get("/readyz").json()["policy"] == {"generation": 3, "error": "", "note": ""})

    def test_policy_notes_are_logged(self, state: Path, tmp_path: Path) -> None:
        path = tmp_path / "policy.yaml"
        ended = "exemptions: [{users: [a], reason: INC-1, until: 2020-01-31}]"
        path.write_text(f"apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n{ended}\n")
        with serving("--state", str(state), "--policy", str(path)) as server:
            note = f"{path}: exemptions[0]: ended on 2020-01-31 (INC-1); remove it, or set until anew"
            (told,) = until(lambda: server.logged(note))
            assert told["level"] == "warning"

    def test_a_resource_that_the_api_server_does_not_ask_about(self, tmp_path: Path) -> None:
        shutil.copy(FIXTURES / "base" / "cluster.yaml", tmp_path)
        (tmp_path / "class.yaml").write_text(
            "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu.nvidia.com}\n"
            "spec: {extendedResourceName: example.com/gpu}\n"
        )
        with serving("--state", str(tmp_path)) as server, server.client() as client:
            note = UNNAMED.format("example.com/gpu")
            until(lambda: client.get("/readyz").json()["policy"]["note"] == note)
            assert until(lambda: server.logged(note))[0]["level"] == "warning"


class QuickConnection(Connection):
    """A connection that gives a head a tenth of a second."""

    head_seconds = 0.1


@contextmanager
def listening(door: Door, keep_alive: int = KEEP_ALIVE_SECONDS) -> Iterator[int]:
    """The app behind uvicorn in a thread, with short patience: the port."""
    config = server_config(door.app, OwnCertificate("127.0.0.1"))
    config.http, config.timeout_keep_alive = QuickConnection, keep_alive
    sockets = listen_on("127.0.0.1", 0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=(sockets,))
    thread.start()
    try:
        yield sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def connected(port: int) -> Iterator[ssl.SSLSocket]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    with plain, context.wrap_socket(plain) as secure:
        yield secure


class TestConnections:
    def test_idle_ones_outlive_the_api_servers(self, door: Door) -> None:
        config = server_config(door.app, OwnCertificate("127.0.0.1"))
        assert config.timeout_keep_alive == KEEP_ALIVE_SECONDS > 90
        assert config.ws == "none"
        assert not config.access_log

    def test_a_head_that_never_ends_is_not_waited_for(self, door: Door) -> None:
        with listening(door) as port, connected(port) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            first = b""
            while not first.endswith(b"}\n"):
                first += connection.recv(4096)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
            assert (answer[:13], answer[-10:]) == (b"HTTP/1.1 400 ", b" too slow.")

    @pytest.mark.parametrize("begun", [b"", b"\r\n"])
    def test_silence_from_the_start_ends(self, door: Door, begun: bytes) -> None:
        with listening(door, keep_alive=1) as port, connected(port) as connection:
            connection.sendall(begun)
            started = time.monotonic()
            assert connection.recv(4096) == b""
            assert 0.9 < time.monotonic() - started < PATIENCE

    def test_of_two_requests_at_once_the_first_is_answered(self, door: Door) -> None:
        with listening(door) as port, connected(port) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /nope HTTP/1.1\r\nHost: x\r\n\r\n")
            received = b"".join(iter(lambda: connection.recv(4096), b""))
            assert received.startswith(b"HTTP/1.1 200 ")
            assert received.count(b"HTTP/1.1") == received.count(b"\r\nconnection: close\r\n") == 1


class TestEnd:
    def test_sigterm(self, state: Path) -> None:
        """Not ready first, still answering, then nothing new, then gone; idle connections hold up nothing."""
        with serving("--state", str(state)) as server, server.connection() as idle, server.connection() as slow:
            body = json.dumps(review_of(UNLABELLED)).encode()
            head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            slow.sendall(head + body[:10])
            with server.client() as client:
                assert client.get("/readyz").status_code == 200
                server.process.send_signal(signal.SIGTERM)
                started = time.monotonic()
                until(lambda: client.get("/readyz").status_code == 503, 2)
                assert client.get("/readyz").json()["reasons"] == ["shutting down"]
                answer = client.post("/mutate", content=body)
                assert (answer.status_code, answer.headers["connection"]) == (200, "close")
                assert client.get("/healthz").status_code == 200
            goodbye = b"".join(iter(lambda: idle.recv(4096), b""))
            assert goodbye.startswith(b"HTTP/1.1 503 "), "for a request that crosses it"
            assert b"\r\nretry-after: 1\r\nconnection: close\r\n" in goodbye
            slow.sendall(body[10:])
            assert slow.recv(4096).startswith(b"HTTP/1.1 200 ")
            assert server.process.wait(10) == 0
            assert time.monotonic() - started < 8
            server.end()
            stopping, stopped = server.logged("shutting down"), server.logged("stopped")
            assert (len(stopping), stopping[0]["signal"], len(stopped)) == (1, "SIGTERM", 1)
            assert [line["reasons"] for line in server.logged("not ready")] == [["shutting down"]]

    def test_sigint_does_not_drain(self, state: Path) -> None:
        with serving("--state", str(state)) as server, server.connection():
            started = time.monotonic()
            assert server.end() == 0
            assert time.monotonic() - started < 3

    def test_twice_is_at_once(self, state: Path) -> None:
        with serving("--state", str(state)) as server:
            server.process.send_signal(signal.SIGTERM)
            until(lambda: server.logged("shutting down"))
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(1) == 128 + signal.SIGTERM


class TestCommandLine:
    def test_version(self) -> None:
        process = run("--version")
        assert (process.communicate(timeout=PATIENCE), process.returncode) == ((f"floorkeeper {__version__}\n", ""), 0)

    def test_policy_schema(self) -> None:
        process = run("policy", "schema")
        out, err = process.communicate(timeout=PATIENCE)
        assert (json.loads(out)["type"], err, process.returncode) == ("object", "", 0)

    def test_every_address_of_the_host(self, state: Path) -> None:
        with serving("--state", str(state), "--host", "localhost") as server:
            assert server.url == f"https://localhost:{server.port}"
            with server.client() as client:
                assert client.get("/healthz").status_code == 200

    def test_which_cluster(self, tmp_path: Path) -> None:
        """In a cluster that one, else kubectl's: the first file of $KUBECONFIG that is there."""
        (tmp_path / "config").write_text("nothing: [")
        listed = run("serve", "--port", "0", KUBECONFIG=f"/nonexistent:{tmp_path}/config")
        inside = run("serve", "--port", "0", KUBECONFIG=f"{tmp_path}/config", KUBERNETES_SERVICE_HOST="192.0.2.1")
        for process, named in ((listed, f"{tmp_path}/config"), (inside, "no cluster to connect to")):
            out, err = process.communicate(timeout=60)
            assert (process.returncode, out, err.count("\n"), named in err) == (1, "", 1, True), err

    def test_what_cannot_be(self, state: Path, tmp_path: Path) -> None:
        """One sentence on stderr: exit 2 for the command line and what it names, 1 for what is not as it should be."""
        (tmp_path / "policy.yaml").write_text(
            "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\nrules: {no-such-rule: deny}\n"
        )
        (tmp_path / "broken").mkdir()
        (tmp_path / "broken" / "x.yaml").write_text("{")
        (tmp_path / "cert.pem").write_text("none")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            given = ("--state", str(state), "--port")
            pem = str(tmp_path / "cert.pem")
            cases = {
                ("serve",): (
                    2,
                    "no cluster to take facts from: give --state DIR (manifests) or --kubeconfig FILE, or run in a "
                    "cluster; try: floorkeeper serve --help",
                ),
                ("serve", "--state", str(state), "--kubeconfig", pem): (
                    2,
                    "give --state or --kubeconfig, not both: facts come from one place; try: floorkeeper serve --help",
                ),
                ("serve", "--tls-key", pem): (
                    2,
                    "--tls-cert and --tls-key belong together: give both, or neither for a self-signed pair; "
                    "try: floorkeeper serve --help",
                ),
                ("serve", "--state", "/nonexistent"): (2, "Invalid value for '--state': "),
                ("serve", "--policy", "/nonexistent"): (2, "Invalid value for '--policy': "),
                ("serve", *given, "0", "--policy", str(tmp_path / "policy.yaml")): (
                    2,
                    f"{tmp_path}/policy.yaml:3: rules.no-such-rule: ",
                ),
                ("serve", *given, "0", "--tls-cert", pem, "--tls-key", pem): (
                    2,
                    "the certificate and the key cannot be served together: ",
                ),
                ("serve", *given, "0", "--host", "not a host"): (
                    2,
                    "host 'not a host' cannot be resolved: ",
                ),
                ("serve", *given, "0", "--host", "192.0.2.1"): (1, "cannot listen on 192.0.2.1:0: "),
                ("serve", *given, port): (1, f"cannot listen on 127.0.0.1:{port}: Address already in use"),
                ("serve", "--port", "0", "--state", str(tmp_path / "broken")): (1, f"{tmp_path}/broken/x.yaml:"),
            }
            processes = [(arguments, run(*arguments)) for arguments in cases]
            for arguments, process in processes:
                out, err = process.communicate(timeout=60)
                code, start = cases[arguments]
                assert (process.returncode, out, err.count("\n")) == (code, "", 1), (arguments, err)
                assert err.startswith(f"floorkeeper: {start}"), (arguments, err)
