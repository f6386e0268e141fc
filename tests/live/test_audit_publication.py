"""PolicyReports are written where they differ, and taken away where there is nothing more to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.api_server import REPORTS, ApiServer
from tests.checking import TEAM, deployment, namespace
from tests.live.audit_world import SOUND, cluster
from webhook.engine.verdict import Severity
from webhook.live.api import Api, ApiError
from webhook.live.audit.command import audit as audit_command
from webhook.live.audit.publication import Publication, publish
from webhook.live.audit.report import Audit, AuditFinding, Reference

APP = typer.Typer()
APP.command()(audit_command)
WRONG = AuditFinding(
    "surge-without-quota",
    Severity.DENY,
    "spec.strategy",
    'Deployment "d" must not surge',
    "must not surge",
    "maxSurge: 0",
    (Reference("a", "Deployment", "d", "apps/v1"),),
)
FOUND = Audit(at=0.0, seconds=1.0, namespaces=("a", "b"), objects=2, checked=2, findings=(WRONG,))


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    server.served[REPORTS] = ("v1beta1", "v1alpha2")
    with server.running():
        yield server


def written(api: ApiServer, folder: Path, audit: Audit) -> Publication:
    api.requests.clear()
    with Api.opened(api.kubeconfig(folder)) as client:
        return publish(client, audit)


def places(api: ApiServer) -> list[str]:
    return sorted(f"{namespace}/{name}" for namespace, name in api.objects["policyreports"])


def test_what_differs_is_written_and_nothing_else(api: ApiServer, tmp_path: Path) -> None:
    assert written(api, tmp_path, FOUND) == Publication(served=True, written=3)
    assert places(api) == ["a/floorkeeper", "b/floorkeeper"]
    (first,) = api.asked("apply", "clusterpolicyreports")
    assert first.path == "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports/floorkeeper"
    assert first.query == {"fieldManager": "floorkeeper", "force": "true"}
    assert written(api, tmp_path, replace(FOUND, at=9.0)) == Publication(served=True, kept=3)
    assert {each.verb for each in api.requests} == {"discover", "list"}
    assert written(api, tmp_path, replace(FOUND, findings=())) == Publication(served=True, written=1, kept=2)
    assert api.objects["policyreports"]["a", "floorkeeper"]["results"] == []


def test_no_more_than_ours_is_asked_for(api: ApiServer, tmp_path: Path) -> None:
    written(api, tmp_path, FOUND)
    for resource in ("policyreports", "clusterpolicyreports"):
        (asked,) = api.asked("list", resource)
        assert asked.query["fieldSelector"] == "metadata.name=floorkeeper"


def test_what_an_earlier_one_wrote_elsewhere_goes(api: ApiServer, tmp_path: Path) -> None:
    written(api, tmp_path, FOUND)
    others: list[Any] = [
        {"kind": "PolicyReport", "metadata": {"name": "floorkeeper", "namespace": "theirs"}},
        {"kind": "PolicyReport", "metadata": {"name": "kyverno", "namespace": "b"}},
    ]
    for value in others:
        api.put(value)
    assert written(api, tmp_path, replace(FOUND, namespaces=("a",))) == Publication(served=True, deleted=1, kept=2)
    assert places(api) == ["a/floorkeeper", "b/kyverno", "theirs/floorkeeper"]


def test_what_others_changed_is_put_right(api: ApiServer, tmp_path: Path) -> None:
    written(api, tmp_path, FOUND)
    report = api.objects["policyreports"]["a", "floorkeeper"]
    api.put({**report, "metadata": {**report["metadata"], "annotations": {"theirs": "x"}}})
    assert written(api, tmp_path, FOUND).written == 0
    api.put({**report, "results": []})
    assert written(api, tmp_path, FOUND).written == 1


@pytest.mark.parametrize("versions", [(), ("v1beta1",)])
def test_where_they_are_not_served_nothing_is_done(api: ApiServer, tmp_path: Path, versions: tuple[str, ...]) -> None:
    api.served[REPORTS] = versions
    assert written(api, tmp_path, FOUND) == Publication()
    assert [each.verb for each in api.requests] == ["discover"]


def test_without_the_right_it_is_tried_once(api: ApiServer, tmp_path: Path) -> None:
    api.forbidden |= {("apply", "policyreports"), ("delete", "policyreports")}
    found = written(api, tmp_path, FOUND)
    (reason,) = found.failures
    assert reason.startswith('not allowed to create or patch policyreports.wgpolicyk8s.io "floorkeeper" in namespace a')
    assert len(api.asked("apply", "policyreports")) == 1
    api.forbidden.add(("list", "policyreports"))
    with pytest.raises(ApiError, match=r"not allowed to list policyreports\.wgpolicyk8s\.io"):
        written(api, tmp_path, FOUND)


def test_a_namespace_that_goes_away_meanwhile(api: ApiServer, tmp_path: Path) -> None:
    api.faults["apply", "policyreports"].extend(
        [
            lambda to: to.status(403, "Forbidden", "unable to create: namespace a is being terminated"),
            lambda to: to.status(404, "NotFound", 'namespaces "b" not found'),
        ]
    )
    assert written(api, tmp_path, FOUND) == Publication(served=True, written=1)


@pytest.mark.parametrize(("kind", "written_all_the_same"), [("clusterpolicyreports", 2), ("policyreports", 1)])
def test_one_kind_that_is_not_installed_is_a_failure(
    api: ApiServer, tmp_path: Path, kind: str, written_all_the_same: int
) -> None:
    api.absent.add(kind)
    for name in FOUND.namespaces:
        api.put(namespace(name))
    found = written(api, tmp_path, FOUND)
    assert found.written == written_all_the_same
    (reason,) = found.failures
    assert reason.startswith(f'create or patch {kind}.wgpolicyk8s.io "floorkeeper"')
    assert reason.endswith("; see whether its CRD is installed")


def test_one_of_another_tool_is_left_alone(api: ApiServer, tmp_path: Path) -> None:
    theirs = {"kind": "PolicyReport", "metadata": {"name": "floorkeeper", "namespace": "a"}, "summary": {"pass": 7}}
    api.put(theirs)
    found = written(api, tmp_path, FOUND)
    assert (found.written, found.failures) == (
        2,
        ('policyreports.wgpolicyk8s.io "floorkeeper" in namespace a is not ours: delete it, or do without ours',),
    )
    assert written(api, tmp_path, replace(FOUND, namespaces=("b",))).deleted == 0
    assert api.objects["policyreports"]["a", "floorkeeper"]["summary"] == {"pass": 7}


def test_one_that_is_refused_holds_up_no_other(api: ApiServer, tmp_path: Path) -> None:
    api.faults["apply", "policyreports"].append(lambda to: to.status(422, "Invalid", "summary: too large"))
    found = written(api, tmp_path, FOUND)
    assert (found.written, len(found.failures)) == (2, 1)
    assert "summary: too large" in found.failures[0]
    assert places(api) == ["b/floorkeeper"]


def test_an_api_server_that_goes_away(api: ApiServer, tmp_path: Path) -> None:
    api.faults["apply", "clusterpolicyreports"].append(lambda to: to.cut())
    with pytest.raises(ApiError, match="does not answer"):
        written(api, tmp_path, FOUND)


# floorkeeper audit --policy-reports


def run(api: ApiServer, folder: Path, *words: str) -> Result:
    return CliRunner().invoke(APP, ["--kubeconfig", str(api.kubeconfig(folder)), "--policy-reports", *words])


def test_the_command_writes_them(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        api.served[REPORTS] = ("v1alpha2",)
        api.put(deployment("x", "a-lq", strategy={"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}))
        result = run(api, tmp_path)
        assert result.exit_code == 1
        assert result.stderr.endswith("floorkeeper: PolicyReports: 2 written, 0 deleted, 0 as is\n")
        (found,) = api.objects["policyreports"][TEAM, "floorkeeper"]["results"]
        assert (found["rule"], found["result"]) == ("surge-without-quota", "fail")
        api.delete("Deployment", TEAM, "x")
        assert run(api, tmp_path).exit_code == 0
        assert api.objects["policyreports"][TEAM, "floorkeeper"]["summary"]["fail"] == 0
        api.forbidden.add(("list", "policyreports"))
        result = run(api, tmp_path)
        assert result.exit_code == 3
        assert "PolicyReports: not allowed to list policyreports" in result.stderr


def test_the_command_says_where_they_are_not_served(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        result = run(api, tmp_path)
    assert result.exit_code == 0
    assert result.stderr.endswith("PolicyReports: none, for wgpolicyk8s.io/v1alpha2 is not served\n")


def test_the_command_wants_all_namespaces(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        assert run(api, tmp_path, "-n", TEAM).exit_code == 2
        assert api.requests == []
