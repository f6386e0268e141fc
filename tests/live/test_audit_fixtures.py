"""Every fixture that fails at admission, as it would be found standing in a cluster: `audit` says the same of it."""

from __future__ import annotations

import re

import pytest

from tests.cases import BASE, TODAY, Case, all_cases, snapshot_of, subject_of
from webhook.live.audit.judging import judge_all

SILENT = {
    # A flavor that is not there yet is told as not evaluated.
    "floors-exceed-capacity/fail-flavor-not-there",
    # Its CronJob answers for it.
    "missing-queue-name/fail-job-of-cron-job",
}
_REMEDY = re.compile(r"; (fix|patched|would be patched|not denied): .*$|(?<=[a-z0-9\"]) \[[a-z-]+\]$")
"""What is to be done differs: a write can be mended on its way, and what stands cannot."""


def statements(lines: list[str]) -> set[str]:
    return {_REMEDY.sub("", line.partition(": ")[2]) for line in lines}


@pytest.mark.parametrize(
    "case", [case for case in all_cases() if case.outcome == "fail" and not case.removal], ids=lambda case: case.id
)
def test_it_is_found_in_the_same_words(case: Case) -> None:
    found = judge_all(
        [(subject_of(case.subject, case.policy).kind, case.subject)],
        snapshot_of([*BASE, *case.state, case.subject]),
        case.policy,
        TODAY,
    )
    own = f"[{case.rule}]"
    said = [f"{finding.severity}: {finding.message}" for _, finding in found.findings]
    told = statements([line for line in said if line.endswith(own)])
    if case.id in SILENT:
        assert told == set()
    else:
        assert told == statements([line for line in case.expected if line.endswith(own)])
        assert told
