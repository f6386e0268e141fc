"""Kinds that a policy adds to the table."""

from __future__ import annotations

import copy
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases import (
    BASE,
    FIXTURES,
    Object,
    Outcome,
    outcome_of,
    policy_of,
    read_documents,
    snapshot_of,
    subject_of,
)
from tests.checking import checked, lines, skips, written
from tests.door import UID, Door, StillSource, review_of
from tests.kinds import POLICY, QUEUE, manifest
from webhook.engine.patch import Edit, edited
from webhook.kube.kinds import WORKLOADS, kind_of
from webhook.kube.names import FIELD_QUEUE, QUEUE_LABEL

ROWS = [
    {
        "group": "ml.example.com",
        "kind": "TrainingRun",
        "templates": ["spec.roles{*}.template"],
        "label": "object",
        "surge": "spec.rollout",
    },
    {"group": "ml.example.com", "kind": "Pool", "templates": ["spec.template"]},
]
TRAINING_RUN = policy_of({"kinds": ROWS})
LINES = (
    'patch: TrainingRun "model-a-run": metadata.labels[kueue.x-k8s.io/queue-name]: must name a LocalQueue, is '
    "absent; patched: set to model-a-lq, from the policy's queues [missing-queue-name]",
    'patch: TrainingRun "model-a-run": spec.rollout.maxSurge: must be 0, is 1; patched: set to 0 [surge-without-quota]',
)


def training_run(**fields: Any) -> Object:
    pod = read_documents(FIXTURES / "kinds" / "pod" / "fail-missing-queue-name.yaml")[-1]["spec"]
    return {
        "apiVersion": "ml.example.com/v1",
        "kind": "TrainingRun",
        "metadata": {"name": "model-a-run", "namespace": "llm-d-optimized-baseline"},
        "spec": {"rollout": {"maxSurge": 1}, "roles": {"worker": {"template": {"spec": pod}}}, **fields},
    }


def judged(value: Object, old: Object | None = None) -> Outcome:
    return outcome_of(subject_of(value, TRAINING_RUN, old), snapshot_of(BASE), TRAINING_RUN)


def test_a_row_of_the_policy() -> None:
    value = training_run()
    assert kind_of("ml.example.com", "TrainingRun") is None
    outcome = judged(value)
    assert outcome.lines == LINES
    assert outcome.value == edited(value, [Edit(FIELD_QUEUE, QUEUE), Edit(("spec", "rollout", "maxSurge"), 0)])
    later = judged(value, value)
    assert [line.partition(":")[0] for line in later.lines] == ["patch", "warn"], "it may run, and would restart"
    changed = training_run(roles={"worker": {"template": {"spec": {"containers": []}}}})
    assert len(judged(value, changed).patch) == 2


def test_what_a_row_of_the_policy_makes_is_not_judged_again() -> None:
    pod = read_documents(FIXTURES / "kinds" / "pod" / "fail-missing-queue-name.yaml")[-1]
    owner = {"apiVersion": "ml.example.com/v1", "kind": "Pool", "name": "x", "uid": "u", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    assert outcome_of(subject_of(pod, TRAINING_RUN), snapshot_of(BASE), TRAINING_RUN).lines == ()
    assert len(outcome_of(subject_of(pod, POLICY), snapshot_of(BASE), POLICY).lines) == 2


def test_an_app_wrapper_holds_what_the_policy_adds() -> None:
    wrapper = copy.deepcopy(manifest(next(row for row in WORKLOADS if row.kind == "AppWrapper")))
    wrapper["spec"]["components"] = [{"template": training_run()}]
    assert subject_of(wrapper, POLICY).pod_sets == ()
    (found,) = subject_of(wrapper, TRAINING_RUN).pod_sets
    assert (found.name, found.pods) == ("model-a-run worker", 1)


def test_check_reads_the_rows_too(tmp_path: Path) -> None:
    policy = yaml.safe_load((FIXTURES / "base" / "policy.yaml").read_text())
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({**policy, "kinds": ROWS}))
    state = (written(tmp_path / "state", *BASE),)
    result = checked(training_run(), state=state, policy=str(tmp_path / "policy.yaml"))
    assert (sorted(lines(result)), result.checked) == (sorted(LINES), 1)
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy))
    result = checked(training_run(), state=state, policy=str(tmp_path / "policy.yaml"))
    assert (lines(result), skips(result)[0].partition(": ")[2]) == ([], "no rule judges its kind")


def test_the_server_reads_the_rows_too() -> None:
    with closing(Door(StillSource(snapshot_of(BASE)), TRAINING_RUN)) as door:
        answer = door.ask("/mutate", review_of(training_run()))
        assert [text.partition(":")[0] for text in answer["warnings"]] == ['TrainingRun "model-a-run"'] * 2
        door.policies.policy = POLICY
        assert door.ask("/mutate", review_of(training_run())) == {"uid": UID, "allowed": True}


@pytest.mark.parametrize("label", ["spec.jobTemplate", "spec.jobTemplate.metadata"])
def test_the_label_goes_into_the_metadata_that_a_row_names(label: str) -> None:
    row = {"group": "ml.example.com", "kind": "Nightly", "templates": ["spec.jobTemplate.spec"], "label": label}
    policy = policy_of({"kinds": [row]})
    value = training_run()
    value |= {"kind": "Nightly", "spec": {"jobTemplate": {"spec": value["spec"]["roles"]["worker"]["template"]}}}
    outcome = outcome_of(subject_of(value, policy), snapshot_of(BASE), policy)
    assert outcome.value == edited(value, [Edit(("spec", "jobTemplate", *FIELD_QUEUE), QUEUE)])


@pytest.mark.parametrize(("type_", "patched"), [(None, True), ("RollingUpdate", True), ("Recreate", False)])
def test_a_strategy_like_that_of_a_deployment_is_one(type_: str | None, patched: bool) -> None:
    row = {"group": "ml.example.com", "kind": "Fleet", "templates": ["spec.template"]}
    policy = policy_of({"kinds": [{**row, "surge": "spec.strategy.rollingUpdate"}]})
    pod = training_run()["spec"]["roles"]["worker"]["template"]
    labelled_pod = {**pod, "metadata": {"labels": {QUEUE_LABEL: QUEUE}}}
    strategy = {"type": type_} if type_ else {}
    value = {**training_run(), "kind": "Fleet", "spec": {"template": labelled_pod, "strategy": strategy}}
    outcome = outcome_of(subject_of(value, policy), snapshot_of(BASE), policy)
    assert bool(outcome.patch) is patched
