"""Which queue, modes, exemptions, and facts that are not there."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from tests.cases import BASE, FIXTURES, TODAY, Object, outcome_of, policy_of, read_documents, snapshot_of, subject_of
from tests.test_updates import LABELLED, PLACE, SURGE, UNLABELLED, changed, queue, resources
from webhook.engine.evaluate import judge
from webhook.engine.rule import Stage
from webhook.kube.facts import PROJECTIONS
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.rules import RULES

NAMESPACE = "llm-d-optimized-baseline"
SURGING = changed(UNLABELLED, "spec", "strategy", None)
DEFAULT_QUEUE = read_documents(FIXTURES / "default-local-queue" / "pass-empty-namespace.yaml")[-1]


def annotated(**annotations: str) -> list[Object]:
    of = {f"floorkeeper.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return [changed(BASE[0], "metadata", "annotations", of), *BASE[1:]]


class TestWhichQueue:
    @pytest.mark.parametrize(
        ("template", "own", "policy", "namespace", "expected"),
        [
            ("model-b-lq", "model-b-lq", "model-a-lq", "model-a-lq", "model-b-lq"),
            (None, "model-b-lq", "model-a-lq", "model-a-lq", "model-b-lq"),
            (None, None, "model-a-lq", "model-b-lq", "model-a-lq"),
            (None, None, None, "model-b-lq", "model-b-lq"),
            (None, None, None, None, None),
        ],
    )
    def test_first_that_applies(
        self, template: str | None, own: str | None, policy: str | None, namespace: str | None, expected: str | None
    ) -> None:
        value = changed(UNLABELLED, "spec", "template", "metadata", "labels", QUEUE_LABEL, template)
        value = changed(value, "metadata", "labels", QUEUE_LABEL, own)
        queues = [{"namespace": "*", "workload": "model-*", "localQueue": policy}] if policy else []
        state = annotated(default_queue=namespace) if namespace else list(BASE)
        rules = policy_of({"queues": queues})
        outcome = outcome_of(subject_of(value, rules), snapshot_of(state), rules)
        assert queue(outcome.value) == expected
        assert [line[:4] for line in outcome.lines] == ([] if template else ["patc" if expected else "deny"])

    def test_by_selector(self) -> None:
        entry = {"namespace": "llm-d-*", "selector": {"matchLabels": {"model": "b"}}, "localQueue": "model-b-lq"}
        policy = policy_of({"queues": [entry]})
        value = changed(UNLABELLED, "metadata", "labels", {"model": "b"})
        assert queue(outcome_of(subject_of(value, policy), snapshot_of(BASE), policy).value) == "model-b-lq"
        assert queue(outcome_of(subject_of(UNLABELLED, policy), snapshot_of(BASE), policy).value) is None

    def test_local_queue_default_is_left_to_kueue(self) -> None:
        policy = policy_of({"queues": []})
        outcome = outcome_of(subject_of(UNLABELLED, policy), snapshot_of([*BASE, DEFAULT_QUEUE]), policy)
        assert (outcome.lines, outcome.patch) == ((), ())

    def test_mapped_queue_beside_default_is_a_conflict(self) -> None:
        policy = policy_of()
        outcome = outcome_of(subject_of(UNLABELLED, policy), snapshot_of([*BASE, DEFAULT_QUEUE]), policy)
        assert outcome.lines[0] == (
            f'deny: Deployment "model-a": metadata.labels[{QUEUE_LABEL}]: must be model-a-lq, like the pod '
            "template's, is absent; fix: set it, or delete LocalQueue default: Kueue writes that one over both "
            "[conflicting-queue-name]"
        )

    def test_no_local_queue_at_all(self) -> None:
        policy = policy_of({"queues": []})
        state = [value for value in BASE if value["kind"] != "LocalQueue"]
        assert outcome_of(subject_of(UNLABELLED, policy), snapshot_of(state), policy).lines == (
            f'deny: Deployment "model-a": {PLACE}: must name a LocalQueue, is absent; fix: set it to one of the '
            f"LocalQueues of namespace {NAMESPACE}: none, create one first [missing-queue-name]",
        )


class TestModes:
    def test_namespace_held_at_warn(self) -> None:
        policy = policy_of()
        outcome = outcome_of(subject_of(SURGING, policy), snapshot_of(annotated(mode="warn")), policy)
        assert outcome.patch == ()
        assert outcome.lines == tuple(
            line.replace("patch: ", "warn: ").replace("patched:", "would be patched:") for line in (SURGE, LABELLED)
        )

    def test_namespace_cannot_switch_off(self) -> None:
        policy = policy_of()
        outcome = outcome_of(subject_of(SURGING, policy), snapshot_of(annotated(mode="off")), policy)
        assert outcome.lines == (SURGE, LABELLED)

    @pytest.mark.parametrize(("mode", "severities"), [("deny", ["deny"]), ("warn", ["warn"]), ("off", [])])
    def test_rule_without_a_fix(self, mode: str, severities: list[str]) -> None:
        policy = policy_of({"rules": {"implicit-gpu-request": mode}})
        value = read_documents(FIXTURES / "implicit-gpu-request" / "fail-different.yaml")[-1]
        outcome = outcome_of(subject_of(value, policy), snapshot_of(BASE), policy)
        assert [line.partition(":")[0] for line in outcome.lines] == severities

    def test_warning_rule_made_to_deny(self) -> None:
        policy = policy_of({"rules": {"short-grace-period": "deny"}})
        value = read_documents(FIXTURES / "short-grace-period" / "fail-short.yaml")[-1]
        outcome = outcome_of(subject_of(value, policy), snapshot_of(BASE), policy)
        assert [line.partition(":")[0] for line in outcome.lines] == ["deny"]

    def test_everything_wrong_is_said_at_once(self) -> None:
        policy = policy_of({"queues": []})
        bad = resources(SURGING, "6", "8")
        verdict = judge(RULES, Stage.VALIDATE, subject_of(bad, policy), snapshot_of(BASE), policy, TODAY)
        assert [(found.severity, found.rule) for found in verdict.findings] == [
            ("deny", "surge-without-quota"),
            ("deny", "missing-queue-name"),
            ("deny", "implicit-gpu-request"),
        ]


class TestExemptions:
    USER = "system:serviceaccount:ci:deployer"

    @pytest.mark.parametrize(
        ("exemption", "exempt"),
        [
            ({"namespace": NAMESPACE, "workload": "model-*"}, True),
            ({"namespace": NAMESPACE, "workload": "canary-*"}, False),
            ({"namespace": "other", "workload": "model-*"}, False),
            ({"users": [USER]}, True),
            ({"users": [USER], "namespace": "other"}, False),
            ({"users": ["somebody"]}, False),
            ({"groups": ["ops"]}, True),
            ({"groups": ["dev"]}, False),
            ({"workload": "model-a", "until": "2026-11-29"}, True),
            ({"workload": "model-a", "until": "2026-11-28"}, False),
        ],
    )
    def test_who_is_let_through(self, exemption: dict[str, Any], exempt: bool) -> None:
        policy = policy_of({"exemptions": [{**exemption, "reason": "test rig, INC-412"}]})
        subject = replace(subject_of(SURGING, policy), user=self.USER, groups=frozenset({"ops"}))
        mutation, validation = (judge(RULES, stage, subject, snapshot_of(BASE), policy, TODAY) for stage in Stage)
        assert (mutation.patch == (), mutation.findings == (), validation.findings == ()) == (exempt,) * 3
        assert (mutation.exemption, validation.exemption) == (None, policy.exemptions[0] if exempt else None)
        assert validation.exempted == (("missing-queue-name", "surge-without-quota") if exempt else ())

    def test_unused_on_a_clean_object(self) -> None:
        policy = policy_of({"exemptions": [{"workload": "model-a", "reason": "test rig, INC-412"}]})
        clean = read_documents(FIXTURES / "missing-queue-name" / "pass-labelled.yaml")[-1]
        verdict = judge(RULES, Stage.VALIDATE, subject_of(clean, policy), snapshot_of(BASE), policy, date(2026, 1, 1))
        assert verdict.exemption is None

    def test_a_workload_cannot_exempt_itself(self) -> None:
        value = changed(SURGING, "metadata", "annotations", {"floorkeeper.io/mode": "warn"})
        policy = policy_of()
        assert outcome_of(subject_of(value, policy), snapshot_of(BASE), policy).lines == (SURGE, LABELLED)


class TestNotEvaluated:
    def without(self, *kinds: str) -> Snapshot:
        snapshot = snapshot_of(BASE)
        for kind in kinds:
            snapshot.forget(kind, "not allowed")
        return snapshot

    def test_said_once_and_neither_patched_nor_denied(self) -> None:
        policy = policy_of()
        outcome = outcome_of(subject_of(SURGING, policy), self.without("LocalQueue"), policy)
        assert outcome.lines == (
            SURGE,
            "warn: not evaluated: LocalQueue: not allowed [conflicting-queue-name]",
            "warn: not evaluated: LocalQueue: not allowed [missing-queue-name]",
        )

    def test_facts_that_are_not_needed_are_not_missed(self) -> None:
        policy = policy_of()
        clean = read_documents(FIXTURES / "missing-queue-name" / "pass-labelled.yaml")[-1]
        outcome = outcome_of(subject_of(clean, policy), self.without("ResourceQuota"), policy)
        assert outcome.lines == ()

    def test_what_was_found_before_stands(self) -> None:
        policy = policy_of()
        bad = resources(UNLABELLED, None, "1")
        verdict = judge(RULES, Stage.VALIDATE, subject_of(bad, policy), self.without("Pod"), policy, TODAY)
        assert [found.rule for found in verdict.denials] == ["missing-queue-name", "implicit-gpu-request"]

    def test_without_namespaces_nothing_can_be_said(self) -> None:
        policy = policy_of()
        with pytest.raises(FactsMissing):
            outcome_of(subject_of(SURGING, policy), Snapshot(), policy)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_needs_are_what_is_asked_for(rule: Any) -> None:
    """Every kind that a rule turned out to miss is declared, for that is what is watched."""
    from tests.cases import all_cases

    for case in all_cases():
        if case.rule != rule.id:
            continue
        for kind in PROJECTIONS.keys() - {"Namespace"}:
            snapshot = snapshot_of([*BASE, *case.state])
            snapshot.forget(kind, "away")
            for stage in Stage:
                subject = subject_of(case.subject, case.policy, case.old, case.removal)
                verdict = judge((rule,), stage, subject, snapshot, case.policy, TODAY)
                if any(entry.missing.startswith(f"{kind}: away") for entry in verdict.not_evaluated):
                    assert kind in rule.needs
