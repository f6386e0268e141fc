"""Alerts and dashboard: what promtool says of them, and that they hold together. See tests/cluster for real data."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from contextlib import closing
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from tests.door import Door, StillSource, review_of
from tests.monitoring import (
    FOLDER,
    ROOT,
    RULE_TESTS,
    alerts,
    dashboard,
    manifest,
    metrics_of,
    panels,
    program,
    queries,
    rule_groups,
)
from tests.quota_objects import flavor, known, node, queue
from webhook.engine.policy import Policy
from webhook.live.audit.metrics import AuditMetrics
from webhook.live.audit.report import Audit
from webhook.server.authority import SERVICE

MANAGED = {"floorkeeper.io/managed": "true"}
VARIABLES = {"flavor": ".*", "queue": ".*", "__rate_interval": "1m", "__range": "6h"}


def promtool(*words: str | Path, input: str = "") -> None:
    command = [program("promtool"), *words]
    result = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "FAILED" not in result.stdout


def write_rules(folder: Path, *, whole: bool) -> list[Path]:
    """A file for each group; unless `whole`, of an alert's annotations only the summary is in it."""
    files = []
    for group in rule_groups():
        for rule in group["rules"]:
            if "alert" in rule and not whole:
                del rule["annotations"]["description"]
        files.append(folder / f"{group['name'].removeprefix('floorkeeper.')}.yaml")
        files[-1].write_text(yaml.safe_dump({"groups": [group]}, sort_keys=False))
    return files


@pytest.fixture(scope="module")
def page() -> str:
    """The metrics of a server that knows a queue with workloads, has judged nothing yet and found nothing wrong."""
    used = {"flavorsReservation": [{"name": "f", "resources": [{"name": "nvidia.com/gpu", "total": "3"}]}]}
    snapshot = known(flavor("f"), node("n"), {**queue("q", {"f": 8}), "status": used})
    audits = AuditMetrics(every=600)
    audits.done(Audit(at=0.0, seconds=1.0, namespaces=(), objects=0, checked=0))
    with closing(Door(StillSource(snapshot), Policy(), audit=audits)) as door:
        return door.metrics()


class TestRules:
    def test_promtool_takes_them(self, tmp_path: Path) -> None:
        promtool("check", "rules", *write_rules(tmp_path, whole=True))

    def test_they_fire_and_are_silent(self, tmp_path: Path) -> None:
        (tmp_path / "rules").mkdir()
        write_rules(tmp_path / "rules", whole=False)
        promtool("test", "rules", *(shutil.copy(file, tmp_path) for file in sorted(RULE_TESTS.iterdir())))

    def test_each_is_tried_both_ways(self) -> None:
        tried: dict[str, set[bool]] = defaultdict(set)
        severities: dict[str, set[str]] = defaultdict(set)
        for file in RULE_TESTS.iterdir():
            for test in yaml.safe_load(file.read_text())["tests"]:
                for case in test["alert_rule_test"]:
                    tried[case["alertname"]].add(bool(case["exp_alerts"]))
                    severities[case["alertname"]] |= {each["exp_labels"]["severity"] for each in case["exp_alerts"]}
        assert tried == {alert["alert"]: {True, False} for alert in alerts()}
        for alert in alerts():
            assert alert["labels"]["severity"] in severities[alert["alert"]]

    def test_each_says_what_it_means_and_what_to_do(self) -> None:
        for alert in alerts():
            assert set(alert["annotations"]) == {"summary", "description"}
            assert alert["labels"].keys() == {"severity"}
            assert alert["labels"]["severity"] in ("critical", "warning", "info")
            assert alert["alert"].startswith("Floorkeeper")
            assert re.fullmatch(r"[^\n]{20,150}\.", alert["annotations"]["summary"])
            assert re.fullmatch(r"[^\n]{100,600}\.", alert["annotations"]["description"])

    def test_what_audits_find_is_told_as_a_write_of_it_would_be(self) -> None:
        """Judged are a new object, one that stood and is as it was, and one that has become worse."""
        spec = {"hard": {"requests.nvidia.com/gpu": "8"}}
        metadata = {"name": "gpus", "namespace": "team"}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}
        worse = {**quota, "spec": {"hard": {**spec["hard"], "limits.nvidia.com/gpu": "8"}}}
        team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": MANAGED}}
        with closing(Door(StillSource(known(team)), Policy())) as door:
            answers = [door.ask("/validate", review_of(*each)) for each in ((quota,), (quota, quota), (worse, quota))]
        assert [(each["allowed"], bool(each.get("warnings"))) for each in answers] == [
            (False, False), (True, True), (False, True)
        ]  # fmt: skip
        (text,) = (each["annotations"]["description"] for each in alerts() if each["alert"].endswith("AuditFindings"))
        assert "A write of such an object passes with a warning unless it makes that worse; what is created" in text
        assert "refused" not in text

    def test_what_is_recorded_is_used(self) -> None:
        rules = [rule for group in rule_groups() for rule in group["rules"]]
        for rule in rules:
            assert "record" not in rule or sum(rule["record"] in other["expr"] for other in rules) > 0, rule

    def test_they_ask_for_metrics_that_are_there(self, page: str) -> None:
        expressions = [rule["expr"] for group in rule_groups() for rule in group["rules"]]
        assert ours(expressions) <= exposed(page)


class TestDashboard:
    def test_it_is_one_that_grafana_can_read(self) -> None:
        value = dashboard()
        # Grafana 10.3 and 11 write 39. A later one brings older ones up to date, an earlier one may misread it.
        assert value["schemaVersion"] == 39
        assert (value["uid"], value["title"]) == ("floorkeeper", "Floorkeeper")
        identifiers = [panel["id"] for panel in value["panels"]]
        assert len(set(identifiers)) == len(identifiers)
        variables = value["templating"]["list"]
        assert [variable["name"] for variable in variables] == ["datasource", "flavor", "queue"]
        assert variables[0]["query"] == "prometheus"
        for variable in variables[1:]:
            assert variable["query"]["query"] == variable["definition"]
            assert (variable["includeAll"], variable["allValue"]) == (True, ".*")
        for part in (*variables[1:], *panels(), *(target for panel in panels() for target in panel["targets"])):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}

    def test_panels_fill_the_grid_and_lie_beside_one_another(self) -> None:
        places = [panel["gridPos"] for panel in dashboard()["panels"]]
        cells = [
            {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])} for place in places
        ]
        for one, other in combinations(cells, 2):
            assert one.isdisjoint(other)
        covered = set().union(*cells)
        assert covered == {(x, y) for x in range(24) for y in range(max(y for _, y in covered) + 1)}

    def test_panels_say_what_they_show(self) -> None:
        titles = [panel["title"] for panel in panels()]
        assert len(set(titles)) == len(titles)
        for panel in panels():
            assert panel["type"] in ("stat", "table", "timeseries")
            assert panel["description"].endswith(".")
            assert panel["fieldConfig"]["defaults"]["unit"] in ("none", "s", "bytes", "reqps", "cps")
            references = [target["refId"] for target in panel["targets"]]
            assert references == [chr(ord("A") + number) for number in range(len(references))]
            for target in panel["targets"]:
                assert target["instant"] != target["range"]
                if panel["type"] == "table":
                    assert (target["format"], target["instant"]) == ("table", True)
                if panel["type"] == "timeseries":
                    assert "{{" in target["legendFormat"] or len(panel["targets"]) > 1

    def test_a_table_names_each_of_its_values(self) -> None:
        for panel in panels():
            if panel["type"] == "table":
                merge, organize = panel["transformations"]
                assert merge["id"] == "merge"
                names = organize["options"]["renameByName"]
                assert list(names) == [f"Value #{target['refId']}" for target in panel["targets"]]
                coloured = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
                assert coloured <= set(names.values())

    def test_it_shows_what_audits_tell(self) -> None:
        asked = set().union(*(metrics_of(query) for panel in panels() for query in queries(panel, **VARIABLES)))
        told = {"findings", "not_evaluated", "last_success_timestamp_seconds", "interval_seconds"}
        assert {f"floorkeeper_audit_{name}" for name in told} <= asked

    def test_it_asks_for_metrics_that_are_there(self, page: str) -> None:
        expressions = [query for panel in panels() for query in queries(panel, **VARIABLES)]
        assert ours(expressions) <= exposed(page)


def ours(expressions: list[str]) -> set[str]:
    """The metrics of Floorkeeper's own that they name."""
    found = {name for expression in expressions for name in metrics_of(expression) if name.startswith("floorkeeper_")}
    assert len(found) > 15
    return found


def exposed(page: str) -> set[str]:
    """The names that samples of a page can have; a family without samples counts."""
    types = dict(re.findall(r"^# TYPE (floorkeeper_\w+) (\w+)$", page, re.MULTILINE))
    return {f"{name}_bucket" if kind == "histogram" else name for name, kind in types.items()}


class TestMetrics:
    def test_promtool_finds_their_names_and_texts_right(self, page: str) -> None:
        promtool("check", "metrics", input=page)

    def test_a_policy_that_needs_something_done_is_told(self) -> None:
        with closing(Door(StillSource(known()), Policy())) as door:
            assert "floorkeeper_policy_incomplete 0.0\n" in door.metrics()
            door.readiness.policy_note = "render again"
            assert "floorkeeper_policy_incomplete 1.0\n" in door.metrics()

    def test_a_page_has_as_many_samples_however_much_is_asked(self) -> None:
        """What labels can be is bounded: by the rules, the policy and the kinds of facts, and never by who asks."""
        with closing(Door(StillSource(known(flavor("f"), node("n"), queue("q", {"f": 8}))), Policy())) as door:

            def ask(number: int) -> None:
                value = {"apiVersion": f"g{number}/v1", "kind": f"K{number}", "metadata": {"name": f"n{number}"}}
                for path in ("/mutate", "/validate"):
                    door.ask(path, review_of(value))
                    door.send(f"{path}?timeout={number}s", b"{}")

            ask(0)
            samples = door.metrics().count("\n")
            for number in range(1, 20):
                ask(number)
            assert door.metrics().count("\n") == samples


class TestScraping:
    def test_it_finds_the_service_and_checks_its_name(self) -> None:
        service = yaml.safe_load((ROOT / "manifests" / "base" / "service.yaml").read_text())
        spec = manifest("scraping.yaml")["spec"]
        assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert spec["namespaceSelector"] == {"matchNames": [service["metadata"]["namespace"]]}
        (endpoint,) = spec["endpoints"]
        assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
        assert endpoint["tlsConfig"]["serverName"] == SERVICE
        assert endpoint["tlsConfig"]["ca"] == {
            "secret": {"name": "floorkeeper-tls", "key": "ca.crt", "optional": False}
        }

    def test_the_overlay_has_all_of_it_and_grafana_finds_the_dashboard(self) -> None:
        kustomization = manifest("kustomization.yaml")
        files = {file.name for file in FOLDER.glob("*.yaml")}
        assert {*kustomization["resources"], "kustomization.yaml"} == files
        (generator,) = kustomization["configMapGenerator"]
        assert generator["files"] == ["floorkeeper.json=dashboard.json"]
        assert generator["options"]["labels"]["grafana_dashboard"] == "1"
        # kubectl apply keeps a copy in an annotation, which may have 256 KiB.
        assert (FOLDER / "dashboard.json").stat().st_size < 128 * 1024

    def test_everything_is_in_our_namespace_and_named_after_us(self) -> None:
        for file in FOLDER.glob("*.yaml"):
            for value in yaml.safe_load_all(file.read_text()):
                if value["kind"] != "Kustomization":
                    assert value["metadata"]["namespace"] == "floorkeeper-system"
                    assert value["metadata"]["labels"] == {"app.kubernetes.io/name": "floorkeeper"}
