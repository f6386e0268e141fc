"""Every fixture through the engine: whole messages, whole objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import BASE, FIXTURES, Case, all_cases, fixtures, outcome_of, read_documents, snapshot_of, subject_of
from webhook.kube.kinds import kind_of
from webhook.kube.objects import group
from webhook.rules import RULES

CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_engine(case: Case) -> None:
    snapshot = snapshot_of([*BASE, *case.state])
    subject = subject_of(case.subject, case.policy, case.old, case.removal)
    outcome = outcome_of(subject, snapshot, case.policy)
    assert outcome.lines == case.expected
    assert outcome.value == (case.fixed if case.patched else case.subject)


@pytest.mark.parametrize("case", [case for case in CASES if case.patched], ids=lambda case: case.id)
def test_patched_twice_is_patched_once(case: Case) -> None:
    snapshot = snapshot_of([*BASE, *case.state])
    once = outcome_of(subject_of(case.subject, case.policy, case.old), snapshot, case.policy).value
    again = outcome_of(subject_of(once, case.policy, case.old), snapshot, case.policy)
    warned = tuple(line for line in case.expected if line.startswith("warn: "))
    assert (again.patch, again.lines, again.value) == ((), warned, once)


def test_base_cluster_is_silent() -> None:
    snapshot = snapshot_of(BASE)
    policy = CASES[0].policy
    judged = [value for value in BASE if kind_of(group(value["apiVersion"]), value["kind"]) is not None]
    assert len(judged) >= 3
    assert [outcome_of(subject_of(value, policy), snapshot, policy).lines for value in judged] == [()] * len(judged)


def test_every_rule_has_fixtures_and_every_folder_a_rule() -> None:
    folders = {path.name for path in FIXTURES.iterdir()} - {"base", "kinds"}
    assert folders == {rule.id for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_outcomes_of_a_rule(rule: object) -> None:
    name = rule.id  # type: ignore[attr-defined]
    outcomes = {case.outcome for case in CASES if case.rule == name}
    patches = any(case.patched for case in CASES if case.rule == name)
    assert outcomes == {"pass", "fail", "fixed"}
    assert patches == rule.fixes  # type: ignore[attr-defined]


def test_no_orphan() -> None:
    fails = {path.with_name(path.name.replace("fail-", "fixed-", 1)) for path in fixtures("fail-*.yaml")}
    assert set(fixtures("fixed-*.yaml")) <= fails
    assert [path for path in fixtures() if not _named(path)] == []


def _named(path: Path) -> bool:
    return path.suffix == ".yaml" and path.stem.partition("-")[0] in {"pass", "fail", "fixed"} and "-" in path.stem


def test_documents_are_whole_objects() -> None:
    for path in fixtures():
        for value in read_documents(path):
            assert {"apiVersion", "kind", "metadata"} <= set(value), path
