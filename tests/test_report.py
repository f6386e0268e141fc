"""The text that people read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from webhook.report import (
    Denial,
    Outcome,
    Style,
    Word,
    denial_text,
    outcome_lines,
    rule_pages,
    rule_table,
    summary,
    wrapped,
)
from webhook.rules import RULES, short_grace_period, surge_without_quota

BEFORE = """\
spec:
  replicas: 1
  strategy:
    rollingUpdate:
      maxSurge: 25%
      maxUnavailable: 25%
"""
PATCHED = Outcome(
    source="examples/model.yaml",
    kind="Deployment",
    name="model-a",
    before=BEFORE,
    after=BEFORE.replace("maxSurge: 25%", "maxSurge: 0"),
    warnings=('Deployment "model-a": maxSurge: must be 0, is 25%; patched: set to 0 [surge-without-quota]',),
    about="Model A.",
)
ALLOWED = replace(PATCHED, after=BEFORE, warnings=())
DENIED = replace(
    PATCHED,
    denial=Denial(
        "workloads.validate.floorkeeper.io",
        'Deployment "model-a": spec.a: must be 1, is 2; fix: set it to 1 [first]\n'
        'Deployment "model-a": spec.b: must be 1, is 3; fix: set it to 1 [second]',
    ),
)


def lines(outcome: Outcome, width: int = 60) -> list[str]:
    return list(outcome_lines(outcome, width))


def test_patched() -> None:
    assert lines(PATCHED) == [
        "patched ── examples/model.yaml ─────────────────────────────",
        "Deployment/model-a",
        "Model A.",
        "",
        "@@ -2,5 +2,5 @@",
        "   replicas: 1",
        "   strategy:",
        "     rollingUpdate:",
        "-      maxSurge: 25%",
        "+      maxSurge: 0",
        "       maxUnavailable: 25%",
        "",
        'Warning: Deployment "model-a": maxSurge: must be 0, is 25%;',
        "  patched: set to 0 [surge-without-quota]",
    ]


def test_allowed() -> None:
    assert lines(ALLOWED) == [
        "allowed ── examples/model.yaml ─────────────────────────────",
        "Deployment/model-a",
        "Model A.",
    ]


def test_denied_shows_no_diff_since_nothing_is_stored() -> None:
    assert lines(replace(DENIED, about="", warnings=("All is well.",))) == [
        "denied ── examples/model.yaml ──────────────────────────────",
        "Deployment/model-a",
        "",
        "Warning: All is well.",
        "Error from server (Forbidden): error when creating",
        '  "examples/model.yaml":',
        '  admission webhook "workloads.validate.floorkeeper.io"',
        "  denied the request:",
        '  Deployment "model-a": spec.a: must be 1, is 2;',
        "  fix: set it to 1 [first]",
        '  Deployment "model-a": spec.b: must be 1, is 3;',
        "  fix: set it to 1 [second]",
    ]


@pytest.mark.parametrize("width", [40, 80, 100, 1000])
def test_wrapping_changes_white_space_alone(width: int) -> None:
    assert DENIED.denial is not None
    text = denial_text(DENIED.source, DENIED.denial)
    shown = list(wrapped(text, width))
    assert " ".join(shown).split() == text.split()
    assert all(len(line) <= width or len(line.split()) == 1 for line in shown)


def test_short_text_stays_on_its_line() -> None:
    text = "a: must be 0, is 1; fix: set it to 0 [surge-without-quota]"
    assert list(wrapped(text, 100)) == [text]


def test_styles() -> None:
    def tagged(text: str, style: Style) -> str:
        return f"<{style}>{text}</>"

    shown = list(outcome_lines(PATCHED, 60, tagged))
    assert shown[:5] == [
        "<patched>patched</> <aside>──</> examples/model.yaml <aside>─────────────────────────────</>",
        "<name>Deployment/model-a</>",
        "<aside>Model A.</>",
        "",
        "<hunk>@@ -2,5 +2,5 @@</>",
    ]
    assert shown[8:10] == ["<removed>-      maxSurge: 25%</>", "<added>+      maxSurge: 0</>"]
    assert shown[12].startswith("<warning>Warning:</> Deployment")
    assert list(outcome_lines(DENIED, 100, tagged))[-5].startswith("<denied>Error from server (Forbidden):</> error")


def test_words_and_summary() -> None:
    outcomes = [PATCHED, ALLOWED, DENIED, DENIED]
    assert [outcome.word for outcome in outcomes] == [Word.PATCHED, Word.ALLOWED, Word.DENIED, Word.DENIED]
    assert summary(outcomes) == "4 examples: 1 patched, 1 allowed, 2 denied"
    assert summary([ALLOWED]) == "1 example: 0 patched, 1 allowed, 0 denied"


def test_rule_table() -> None:
    assert rule_table([surge_without_quota.RULE, short_grace_period.RULE]).splitlines() == [
        "| rule | default | patched | what holds |",
        "| --- | --- | --- | --- |",
        "| [surge-without-quota](#surge-without-quota) | deny | yes "
        "| A GPU workload rolls with maxSurge 0 and maxUnavailable of at least 1 |",
        "| [short-grace-period](#short-grace-period) | warn |  | A replica has time to drain when it is preempted |",
    ]


def test_rule_pages() -> None:
    pages = rule_pages(RULES)
    assert [line[4:] for line in pages.splitlines() if line.startswith("### ")] == [rule.id for rule in RULES]
    for rule in RULES:
        assert rule.page.strip() in pages
        assert "|" not in rule.summary, "it would end the cell"
