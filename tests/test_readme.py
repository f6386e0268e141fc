"""The README says what is so: its generated parts are what is generated, and the rest can be checked too."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace

import pytest

from scripts.controlplane.pins import read_pin
from scripts.quickstart.readme import README, ROOT, parts, parts_of, run_quickstart, with_parts
from webhook.engine.policy import Capacity, Policy
from webhook.engine.verdict import Severity
from webhook.kube.kinds import KINDS
from webhook.kube.names import SYSTEM_NAMESPACES
from webhook.live.audit.setup import CHECKS
from webhook.policy import parse_policy, policy_schema, read_policy
from webhook.rules import RULES

TEXT = README.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return parts(run_quickstart())


def test_every_part_is_there(made: dict[str, str]) -> None:
    assert sorted(parts_of(TEXT)) == sorted(made)
    assert TEXT.count("<!-- generated: ") == TEXT.count("<!-- end: ") == len(made)


@pytest.mark.parametrize("name", sorted(parts_of(TEXT)))
def test_part_is_what_is_generated(made: dict[str, str], name: str) -> None:
    assert parts_of(TEXT)[name] == made[name], "run ./scripts/readme"


def test_writing_anew_changes_nothing_else() -> None:
    text = "a\n<!-- generated: x -->\nold\n<!-- end: x -->\nb\n"
    assert with_parts(text, {"x": "new\n"}) == "a\n<!-- generated: x -->\nnew\n<!-- end: x -->\nb\n"
    with pytest.raises(KeyError):
        with_parts(text, {})


def test_policy_shows_the_defaults() -> None:
    match = re.search(r"```yaml\n(apiVersion: floorkeeper.*?)```", TEXT, re.DOTALL)
    assert match is not None
    shown = parse_policy(match[1], "README.md")
    assert shown.queues
    assert shown.rules
    assert shown.exemptions
    assert len(shown.kinds.rows) > len(KINDS.rows)
    assert replace(shown, kinds=KINDS, queues=(), rules={}, exemptions=(), capacity=Capacity()) == Policy()
    assert shown.capacity.grace_seconds == Capacity().grace_seconds
    assert shown.capacity.discount_unqueued is Capacity().discount_unqueued
    assert set(shown.rules) <= {rule.id for rule in RULES}
    assert shown.queues == read_policy(ROOT / "examples" / "policy.yaml").queues, "whoever copies them has examples"
    keys = re.findall(r"^# (Default|Example; empty by default)\. .*\n(?:#.*\n)*(\w+):", match[1], re.MULTILINE)
    assert {key for _, key in keys} == set(policy_schema()["properties"]) - {"apiVersion", "kind"}
    assert {key for word, key in keys if word != "Default"} == {"kinds", "queues", "rules", "exemptions", "capacity"}


def test_links_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    }
    targets = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert {target[1:] for target in targets if target.startswith("#")} <= anchors
    assert {rule.id for rule in RULES} <= anchors
    for target in targets:
        if not target.startswith(("#", "https://")):
            assert (ROOT / target).exists(), target


def test_files_exist() -> None:
    for name in re.findall(r"(?:\./)?((?:scripts|webhook|tests|manifests)/[\w./-]*\w)", TEXT):
        assert (ROOT / name).exists(), name


def test_the_log_and_the_metrics_are_described() -> None:
    (severities,) = re.findall(r"^\| `severity` \| (.*) \|$", TEXT, re.MULTILINE)
    assert severities == ", ".join(f"`{word}`" for word in (*Severity, "not-evaluated"))
    (verdicts,) = re.findall(r"^\| `verdict` \| (.*) \|$", TEXT, re.MULTILINE)
    source = (ROOT / "webhook" / "server" / "admission.py").read_text()
    outcomes = re.findall(r'"(\w+)"', source.partition("def outcome")[2].partition("def hits")[0])
    assert set(re.findall(r"`(\w+)`", verdicts)) == {*outcomes, "malformed", "unauthenticated", "error"}


def test_the_namespaces_that_nobody_is_asked_about_are_named() -> None:
    (names,) = re.findall(r"The\s+namespaces ([^.]*?)\s+are never asked about", TEXT)
    assert tuple(sorted(re.split(r",\s+|\s+and\s+", names))) == SYSTEM_NAMESPACES


def test_the_versions_that_are_tested_and_installed_are_told() -> None:
    """In the same words where somebody reads about scripts/kind-up, and where it is asked for help."""
    script = (ROOT / "scripts" / "kind-up").read_text()
    installed = [re.findall(rf"(?m)^{name}=(v\S+)$", script) for name in ("kueue", "cert_manager")]
    tested = [
        read_pin("kueue", "sigs.k8s.io/kueue"),
        read_pin("cert-manager", "github.com/cert-manager/cert-manager"),
    ]
    (kueue,), (cert_manager,) = installed
    told = f"installs Kueue {kueue} and cert-manager {cert_manager}; the tests run Kueue {tested[0]} and cert-manager "
    told += f"{tested[1]}."
    assert told in " ".join(TEXT.split())
    done = subprocess.run([ROOT / "scripts" / "kind-up", "--help"], capture_output=True, text=True, check=True)
    assert told in " ".join(done.stdout.split())


def test_pages_hold_no_accidental_markdown() -> None:
    for rule in (*RULES, *CHECKS):
        prose = re.sub(r"`[^`]*`", "", rule.page)
        # A list begins after an empty line, and its items end where the next begins.
        prose = re.sub(r"(?<=\n\n)(- .+\n(  .+\n)*)+(?=\n)", "", prose)
        assert not re.search(r"[*<>|]|^#|^ {4}|^[-+] ", prose, re.MULTILINE), rule.id
