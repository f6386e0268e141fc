"""`floorkeeper explain` and `floorkeeper rules`, of rules and of checks of the set-up."""

from __future__ import annotations

import json
import textwrap

import pytest

from webhook.check import pages
from webhook.check.pages import UnknownRule
from webhook.cli import main
from webhook.kube.kinds import WORKLOADS
from webhook.live.audit.pages import check_pages, check_table, listed, setup_pages
from webhook.live.audit.setup import CHECKS, Check
from webhook.report import rule_pages, rule_table
from webhook.rules import RULES

SHORT_GRACE_PERIOD = next(rule for rule in RULES if rule.id == "short-grace-period")


def page(name: str, width: int) -> str:
    return pages.page(name, [*pages.rule_pages(), *setup_pages()]).fitted(width)


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert isinstance(end.value.code, int)
    return (end.value.code, *capsys.readouterr())


def test_explain(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    code, out, err = ran(capsys, "explain", "surge-without-quota")
    assert (code, err) == (0, "")
    assert out == page("surge-without-quota", 70) + "\n"
    kinds = [row.kind for row in WORKLOADS if row.surge or row.doubles or row.holds]
    kinds[kinds.index("Service")] = "Service of serving.knative.dev"
    assert out.startswith(
        "surge-without-quota\n"
        "\n"
        "A GPU workload rolls with maxSurge 0 and maxUnavailable of at least 1.\n"
        "\n"
        "Under the default strategy"
    )
    assert out.endswith(
        "\n"
        "Default: deny, and what can be patched is. The policy changes it:\n"
        "`rules: {surge-without-quota: deny | warn | off}`.\n"
        "\n" + textwrap.fill(f"Judged: {', '.join(kinds)}.", 70) + "\n"
    )


@pytest.mark.parametrize("rule", [rule.id for rule in RULES])
@pytest.mark.parametrize("width", [40, 100, 400])
def test_every_page_is_whole_and_fits(rule: str, width: int) -> None:
    shown = page(rule, width)
    written = next(each.page for each in RULES if each.id == rule)
    assert " ".join(written.split()) in " ".join(shown.split())
    assert all(len(line) <= min(width, 100) or " " not in line for line in shown.splitlines())


def test_explain_a_check_of_the_set_up(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = (
        "setup/gated-pods\n"
        "\n"
        "No pod waits at Kueue's gate.\n"
        "\n"
        "Some may by design: a pod beyond the budget waits until there is quota for it.\n"
        "Its Workload says what is lacking.\n"
        "\n"
        "Told by audits alone, as warn. It judges no write, and no mode of the policy\n"
        "changes it.\n"
    )
    assert ran(capsys, "explain", "setup/gated-pods") == (0, shown, "")
    assert ran(capsys, "explain", "[setup/gated-pods]") == (0, shown, "")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_every_check_has_a_page_of_its_own(check: Check) -> None:
    shown = " ".join(page(f"setup/{check.id}", 100).split())
    assert shown.startswith(f"setup/{check.id} {check.summary}. ")
    assert " ".join(check.page.split()) in shown
    assert f"Told by audits alone, as {check.severity}" in shown


def test_facts_that_are_no_prose() -> None:
    assert page("queue-in-use", 100).endswith(
        "Judged when deleted: LocalQueue, ClusterQueue.\n"
        "\n"
        "Compared with: AppWrapper, Deployment, JAXJob, Job, JobSet, LeaderWorkerSet, LocalQueue, MPIJob,\n"
        "Namespace, PaddleJob, Pod, PyTorchJob, RayCluster, RayJob, RayService, SparkApplication,\n"
        "StatefulSet, TFJob, TrainJob, XGBoostJob."
    )


def test_the_id_may_be_copied_out_of_a_message() -> None:
    assert page("[short-grace-period]", 80) == page("short-grace-period", 80)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("surge", "did you mean surge-without-quota?"),
        ("short-grace-periods", "did you mean short-grace-period?"),
        ("setup/gated-pod", "did you mean setup/gated-pods?"),
        ("setup/cabundle", "did you mean setup/ca-bundle?"),
        ("uncounted-pods", "did you mean setup/uncounted-pods?"),
        ("gated-pods", "did you mean setup/gated-pods?"),
        ("gated-pods-over", "did you mean gated-pods-over-quota?"),
        ("xyz", "floorkeeper rules lists them"),
        ("", "floorkeeper rules lists them"),
    ],
)
def test_unknown_rules(capsys: pytest.CaptureFixture[str], word: str, hint: str) -> None:
    message = f"no rule and no check of the set-up is named {word!r}; {hint}"
    with pytest.raises(UnknownRule, match=f"^{message}".replace("?", r"\?")):
        page(word, 80)
    assert ran(capsys, "explain", word) == (2, "", f"floorkeeper: {message}\n")


def test_rules_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "rules")
    assert (code, out, err) == (0, listed("table") + "\n", "")
    of_rules, of_checks = out.split("\n\n")
    head, *rows = of_rules.splitlines()
    assert head == "RULE                    DEFAULT  PATCHED  WHAT HOLDS"
    assert len(rows) == len(RULES)
    head, *checks = of_checks.splitlines()
    assert head == "CHECK OF THE SET-UP           SEVERITY  WHAT HOLDS"
    assert "setup/gated-pods              warn      No pod waits at Kueue's gate" in checks
    assert len(checks) == len(CHECKS)
    assert f"short-grace-period      warn              {SHORT_GRACE_PERIOD.summary}" in rows


def test_rules_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    expected = f"{rule_table(RULES)}\n\n{rule_pages(RULES)}\n\n{check_table()}\n\n{check_pages()}\n"
    assert "### setup/gated-pods\n\nNo pod waits at Kueue's gate.\n" in expected
    assert ran(capsys, "rules", "-o", "markdown") == (0, expected, "")


def test_rules_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "rules", "--output", "json")
    assert (code, err) == (0, "")
    rules = json.loads(out)
    ids = [*(rule.id for rule in RULES), *(f"setup/{check.id}" for check in CHECKS)]
    assert [rule["rule"] for rule in rules] == ids
    assert all(rule.keys() == rules[0].keys() for rule in rules)
    assert rules[0]["patched"] is True
    assert next(rule for rule in rules if rule["rule"] == "short-grace-period") == {
        "rule": "short-grace-period",
        "mode": "warn",
        "patched": False,
        "kinds": [{"group": row.group, "kind": row.kind} for row in SHORT_GRACE_PERIOD.kinds],
        "comparedWith": [],
        "summary": SHORT_GRACE_PERIOD.summary,
        "page": SHORT_GRACE_PERIOD.page.strip(),
    }
    assert next(rule for rule in rules if rule["rule"] == "setup/gated-pods") == {
        "rule": "setup/gated-pods",
        "mode": "warn",
        "patched": False,
        "kinds": [],
        "comparedWith": [],
        "summary": "No pod waits at Kueue's gate",
        "page": next(check.page for check in CHECKS if check.id == "gated-pods"),
    }


def test_other_outputs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "rules", "-o", "yaml")
    assert (code, out) == (2, "")
    assert "'yaml' is not one of 'table', 'markdown', 'json'" in err
