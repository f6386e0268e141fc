"""Every row of the kinds table with a real manifest, and who is left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cases import (
    BASE,
    FIXTURES,
    Object,
    all_cases,
    outcome_of,
    policy_of,
    read_documents,
    snapshot_of,
    subject_of,
)
from tests.kinds import POLICY, QUEUE, labelled, manifest, short, version
from webhook.engine.patch import Edit, edited
from webhook.engine.policy import Policy
from webhook.kube.kinds import KINDS, WORKLOADS, Kind
from webhook.kube.names import FIELD_QUEUE, QUEUE_LABEL
from webhook.kube.objects import Path, group, show_path
from webhook.kube.pod_sets import PodSet
from webhook.kube.pods import AcceleratorUse, PodTemplate
from webhook.kube.row import Place, Relabel

BYSTANDERS = FIXTURES.parent / "bystanders"
EACH = [pytest.param(row, id=short(row)) for row in WORKLOADS]


@pytest.mark.parametrize("row", EACH)
def test_the_label_goes_where_the_row_says_and_nowhere_else(row: Kind) -> None:
    value = manifest(row)
    subject = subject_of(value, POLICY)
    outcome = outcome_of(subject, snapshot_of(BASE), POLICY)
    asking = [template.label_path for template in subject.templates if template.asks]
    assert asking, "a GPU workload"
    where: list[Path] = asking if row.label is Place.TEMPLATES else []
    if isinstance(row.label, tuple):
        where = [(*row.label, *FIELD_QUEUE)]
    assert outcome.value == edited(value, [Edit(path, QUEUE) for path in where])
    verdicts = [line.partition(":")[0] for line in outcome.lines if "[missing-queue-name]" in line]
    assert verdicts == (["patch"] * len(where) or ["warn"])


@pytest.mark.parametrize("row", EACH)
def test_without_a_queue_it_is_denied_with_those_that_there_are(row: Kind) -> None:
    policy = policy_of({"queues": []})
    outcome = outcome_of(subject_of(manifest(row), policy), snapshot_of(BASE), policy)
    (line,) = (line for line in outcome.lines if "[missing-queue-name]" in line)
    if row.label is Place.NOWHERE:
        assert line.startswith("warn: ")
    else:
        assert line.startswith("deny: ")
        assert line.endswith(
            "must name a LocalQueue, is absent; fix: set it to one of the LocalQueues of namespace "
            "llm-d-optimized-baseline: model-a-lq, model-b-lq [missing-queue-name]"
        )


@pytest.mark.parametrize("row", EACH)
def test_a_label_that_comes_later(row: Kind) -> None:
    """An update elsewhere of what runs without one, and one that takes the label off."""
    old = manifest(row)
    if row.pods_now:
        old = dict(edited(old, [Edit(row.pods_now, 1)]))
    new = dict(edited(old, [Edit(("metadata", "annotations"), {"example.com/note": "1"})]))
    outcome = outcome_of(subject_of(new, POLICY, old), snapshot_of(BASE), POLICY)
    (line,) = (line for line in outcome.lines if "[missing-queue-name]" in line)
    expected = "patch" if row.relabel is Relabel.NEW_JOBS else "warn"
    assert line.partition(":")[0] == expected
    assert outcome.patch == () or expected == "patch"
    if row.label is not Place.NOWHERE:
        before = outcome_of(subject_of(old, POLICY), snapshot_of(BASE), POLICY).value
        again = outcome_of(subject_of(new, POLICY, before), snapshot_of(BASE), POLICY)
        annotated = edited(before, [Edit(("metadata", "annotations"), {"example.com/note": "1"})])
        assert again.value == annotated, "what was labelled stays labelled"


@pytest.mark.parametrize("row", EACH)
def test_what_it_makes_is_not_judged_again(row: Kind) -> None:
    owner = {"apiVersion": version(row), "kind": row.kind, "name": "model-a", "uid": "u", "controller": True}
    snapshot = snapshot_of(BASE)
    for child in WORKLOADS:
        value = dict(edited(manifest(child), [Edit(("metadata", "ownerReferences"), [owner])]))
        outcome = outcome_of(subject_of(value, POLICY), snapshot, POLICY)
        late = row.relabel is Relabel.NEW_JOBS
        assert (outcome.lines == ()) is not late
        assert (outcome.value == value) is not (late and child.label is not Place.NOWHERE)


def test_jobs_of_a_cron_job_that_has_a_label_are_not_judged_again() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "model-a", "uid": "u", "controller": True}
    job = read_documents(FIXTURES / "kinds" / "job" / "fixed-missing-queue-name.yaml")[-1]
    job["metadata"]["ownerReferences"] = [owner]
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "99"}
    assert outcome_of(subject_of(job, POLICY), snapshot_of(BASE), POLICY).lines == ()
    del job["metadata"]["labels"][QUEUE_LABEL]
    assert outcome_of(subject_of(job, POLICY, job), snapshot_of(BASE), POLICY).lines == ()
    exempt = policy_of({"exemptions": [{"workload": "model-a", "reason": "test rig"}]})
    assert outcome_of(subject_of(job, exempt), snapshot_of(BASE), exempt).lines == ()
    # It gets its label, and nothing else is said of it: its parent was judged.
    assert [line[:4] for line in outcome_of(subject_of(job, POLICY), snapshot_of(BASE), POLICY).lines] == ["patc"]


def bystanders() -> Iterator[Any]:
    for path in sorted(BYSTANDERS.glob("*.yaml")):
        for value in read_documents(path):
            yield pytest.param(value, id=f"{path.stem}/{value['kind']}/{value['metadata']['name']}")


@pytest.mark.parametrize("value", list(bystanders()))
def test_bystanders_are_left_byte_for_byte(value: Object) -> None:
    for old in (None, {**value, "metadata": {**value["metadata"], "annotations": {"a": "b"}}}):
        outcome = outcome_of(subject_of(value, POLICY, old), snapshot_of(BASE), POLICY)
        assert (outcome.lines, outcome.patch) == ((), ())
        assert outcome.value is value


def damaged(row: Kind, change: Callable[[AcceleratorUse], list[Edit]]) -> Iterator[tuple[PodSet, AcceleratorUse, str]]:
    """What is said of the labelled manifest with one use of an accelerator changed, for each of them."""
    snapshot, value = snapshot_of(BASE), labelled(row)
    for pods in subject_of(value, POLICY).pod_sets:
        for use in pods.template.accelerators:
            subject = subject_of(dict(edited(value, change(use))), POLICY)
            yield pods, use, "\n".join(outcome_of(subject, snapshot, POLICY).lines)


@pytest.mark.parametrize("row", EACH)
def test_unequal_requests_are_denied_by_template_and_container(row: Kind) -> None:
    uses = 0
    for pods, use, said in damaged(row, lambda use: [Edit(use.limit_path, "7")]):
        uses += 1
        if use.container.gpu or row.kind == "Pod":
            # One number is both, or a limit that was defaulted.
            continue
        where = pods.where(use.container.path)
        assert f"{show_path(use.request_path)}: must equal the limit, 7, is {use.request}{where}; fix: " in said
        if row.gang or len(row.templates) > 1:
            assert f'in container "{use.container.name}"' in where
            assert pods.name in where
    assert uses >= 1


@pytest.mark.parametrize("row", EACH)
def test_what_no_queue_can_ever_give_is_denied_by_template_and_container(row: Kind) -> None:
    for pods, use, said in damaged(row, lambda use: [Edit(use.request_path, "99"), Edit(use.limit_path, "99")]):
        if row.label is Place.NOWHERE or row.kind == "SparkApplication":
            # In no queue, and of no integration that Kueue has on as it comes.
            assert "[replica-over-budget]" not in said
            continue
        what = f"for {pods.pods} pods" if pods.pods > 1 else "for 1 pod" if row.gang else "per replica"
        what = what if row.labelled_whole or not row.gang else "per replica"
        of = f' of "{pods.name}"' if pods.name and what != "per replica" else ""
        count = 99 * (pods.pods if what != "per replica" else 1)
        assert f"{show_path(use.request_path)}: must fit what" in said
        container = f', container "{use.container.name}"' if pods.name or pods.is_group else ""
        assert f"is {count} nvidia.com/gpu {what}{of}{container}: llm-d-gpu-default gives at most 10" in said


@pytest.mark.parametrize("row", EACH)
def test_memory_that_the_queue_does_not_cover_is_denied_by_template_and_container(row: Kind) -> None:
    def with_memory(use: AcceleratorUse) -> list[Edit]:
        return [] if use.container.gpu else [Edit((*use.request_path[:-1], "memory"), "64Gi")]

    for _, use, said in damaged(row, with_memory):
        path = show_path((*use.request_path[:-1], "memory"))
        covered = row.label is not Place.NOWHERE and not use.container.gpu
        assert (f"{path}: must be among what" in said) is covered


def test_there_are_bystanders() -> None:
    assert {path.stem for path in BYSTANDERS.glob("*.yaml")} == {
        "endpoint-picker",
        "gateway",
        "litellm",
        "postgres",
        "prometheus",
    }


@pytest.mark.parametrize("kind", ["InferenceService", "LLMInferenceService", "Notebook"])
def test_a_label_for_all_templates_waits_until_all_of_them_roll(kind: str) -> None:
    """Its operator replaces every pod for it, and says nothing of the pods that there are."""
    row = next(row for row in WORKLOADS if row.kind == kind)
    old, subject = manifest(row), subject_of(manifest(row), POLICY)
    asking = [pods.template for pods in subject.pod_sets if pods.template.asks]

    def patched(templates: list[PodTemplate], policy: Policy = POLICY) -> bool:
        changes = [Edit((*template.spec_path, "priorityClassName"), "high") for template in templates]
        new = dict(edited(old, changes))
        return bool(outcome_of(subject_of(new, policy, old), snapshot_of(BASE), policy).patch)

    assert patched(asking)
    assert not patched([])
    assert len(asking) == 1 or not patched(asking[:1])
    assert patched([], policy_of({"inject": "always"}))


def test_fixtures_cover_every_kind() -> None:
    subjects = {(group(case.subject["apiVersion"]), case.subject["kind"]) for case in all_cases()}
    assert {(row.group, row.kind) for row in WORKLOADS} <= subjects
    assert {row for row in KINDS.workloads if not row.entry} == set()


@pytest.mark.parametrize("row", [pytest.param(row, id=short(row)) for row in WORKLOADS if row.suspend])
def test_what_is_suspended_gets_its_label_and_is_not_resumed_without(row: Kind) -> None:
    def written(suspended: bool, note: str = "") -> Object:
        edits = [Edit(row.suspend, suspended), Edit(("metadata", "annotations", "example.com/note"), note)]
        return dict(edited(manifest(row), edits))

    def verdicts(old: Object, new: Object) -> list[str]:
        lines = outcome_of(subject_of(new, POLICY, old), snapshot_of(BASE), POLICY).lines
        return [line.partition(":")[0] for line in lines if line.endswith("[missing-queue-name]")]

    assert verdicts(written(True), written(True, "x")) == ["patch"]
    assert verdicts(written(True), written(False)) == ["deny"]
    assert verdicts(written(False), written(False, "x")) == ["warn"]
    assert verdicts(written(False), written(True)) == ["warn"]
