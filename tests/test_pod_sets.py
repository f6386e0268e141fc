"""How many pods an object makes, from which templates, and what they come to together."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from tests.cases import (
    BASE,
    FIXTURES,
    outcome_of,
    read_documents,
    snapshot_of,
    subject_of,
)
from tests.kinds import POLICY, labelled, manifest, version
from webhook.capacity.packing import fit_together
from webhook.engine.patch import Edit, edited
from webhook.kube.facts import PROJECTIONS
from webhook.kube.kinds import JOB, WORKLOADS
from webhook.kube.objects import Path
from webhook.kube.paths import beside, parse, places, spelt
from webhook.kube.workload_facts import WorkloadFact

# Kind, spec, and the pods of one unit: name of the template, how many, and how few Kueue may admit.
COUNTS: list[tuple[str, str, list[tuple[str, int, int]]]] = [
    ("Deployment", "{replicas: 7, template: {}}", [("", 1, 1)]),
    ("Job", "{template: {}}", [("", 1, 1)]),
    ("Job", "{parallelism: 4, template: {}}", [("", 4, 4)]),
    ("Job", "{parallelism: 4, completions: 3, template: {}}", [("", 3, 3)]),
    ("Job", "{completions: 3, template: {}}", [("", 1, 1)]),
    ("Job", "{parallelism: 0, template: {}}", [("", 0, 0)]),
    ("Job", "{parallelism: true, completions: x, template: {}}", [("", 1, 1)]),
    ("Job", "{parallelism: 99999999999999, template: {}}", [("", 2**31 - 1, 2**31 - 1)]),
    ("CronJob", "{jobTemplate: {spec: {parallelism: 4, template: {}}}}", [("", 4, 4)]),
    (
        "CronJob",
        "{jobTemplate: {metadata: {annotations: {kueue.x-k8s.io/job-min-parallelism: '2'}}, "
        "spec: {parallelism: 4, template: {}}}}",
        [("", 4, 2)],
    ),
    (
        "LeaderWorkerSet",
        "{replicas: 3, leaderWorkerTemplate: {size: 4, workerTemplate: {}}}",
        [("workerTemplate", 4, 4)],
    ),
    (
        "LeaderWorkerSet",
        "{leaderWorkerTemplate: {size: 4, leaderTemplate: {}, workerTemplate: {}}}",
        [("leaderTemplate", 1, 1), ("workerTemplate", 3, 3)],
    ),
    (
        "LeaderWorkerSet",
        "{leaderWorkerTemplate: {leaderTemplate: {}, workerTemplate: {}}}",
        [("leaderTemplate", 1, 1), ("workerTemplate", 0, 0)],
    ),
    (
        "JobSet",
        "{replicatedJobs: [{name: a, replicas: 2, template: {spec: {parallelism: 3, completions: 2, template: {}}}}, "
        "{name: b, template: {spec: {template: {}}}}, {name: c}]}",
        [("a", 4, 4), ("b", 1, 1)],
    ),
    (
        "RayCluster",
        "{headGroupSpec: {template: {}}, workerGroupSpecs: [{groupName: a, replicas: 2, numOfHosts: 4, template: {}}, "
        "{groupName: b, minReplicas: 1, template: {}}, {replicas: 3, template: {}}]}",
        [("headGroupSpec", 1, 1), ("a", 8, 8), ("b", 1, 1), ("2", 3, 3)],
    ),
    (
        "RayJob",
        "{submitterPodTemplate: {}, rayClusterSpec: {headGroupSpec: {template: {}}}}",
        [("headGroupSpec", 1, 1), ("submitterPodTemplate", 1, 1)],
    ),
    (
        "PyTorchJob",
        "{elasticPolicy: {minReplicas: 1}, pytorchReplicaSpecs: "
        "{Master: {template: {}}, Worker: {replicas: 3, template: {}}}}",
        [("Master", 1, 1), ("Worker", 3, 3)],
    ),
    ("TrainJob", "{trainer: {numNodes: 4}}", [("", 4, 4)]),
    (
        "SparkApplication",
        "{driver: {}, executor: {instances: 5}}",
        [("driver", 1, 1), ("executor", 5, 5)],
    ),
    (
        "AppWrapper",
        "{components: [{template: {apiVersion: v1, kind: Service}}, "
        "{template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 3, template: {}}}}, "
        "{template: {apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: "
        "{workerGroupSpecs: [{groupName: w, replicas: 2, numOfHosts: 2, template: {}}]}}}, "
        "{template: {apiVersion: ml.example.com/v1, kind: Run, metadata: {name: u}, spec: {roles: [{}, {pod: {}}]}}, "
        "podSets: [{replicas: 5, path: 'template.spec.roles[1].pod'}, {path: template.spec.none}, {path: '['}]}, "
        "{template: {apiVersion: batch/v1, kind: Job, metadata: {name: j, annotations: "
        "{kueue.x-k8s.io/job-min-parallelism: '1'}}, spec: {parallelism: 2, template: {}}}}]}",
        [("d", 3, 3), ("r w", 4, 4), ("u", 5, 5), ("j", 2, 2)],
    ),
]


@pytest.mark.parametrize(("kind", "spec", "expected"), COUNTS)
def test_pods_of_one_unit(kind: str, spec: str, expected: list[tuple[str, int, int]]) -> None:
    row = next(row for row in WORKLOADS if row.kind == kind)
    value = {
        "apiVersion": version(row),
        "kind": kind,
        "metadata": {"name": "x", "namespace": "ns"},
        "spec": yaml.safe_load(spec),
    }
    found = [(each.name, each.pods, each.minimum) for each in subject_of(value, POLICY).pod_sets]
    assert found == expected


def test_every_row_finds_its_templates_in_the_manifest() -> None:
    """A misspelt path in the table would find nothing."""
    unseen = {
        ("RayJob", "spec.submitterPodTemplate"),
        ("SparkApplication", "spec.driver.template"),
        ("SparkApplication", "spec.executor.template"),
        ("InferenceService", "spec.predictor.workerSpec"),
        ("InferenceService", "spec.transformer"),
        ("InferenceService", "spec.explainer"),
        ("LLMInferenceService", "spec.worker"),
        ("LLMInferenceService", "spec.prefill.worker"),
        ("LLMInferenceService", "spec.router.scheduler.template"),
        ("TrainJob", "spec.podTemplateOverrides[*]"),
        ("TrainJob", "spec.initializer.dataset"),
        ("TrainJob", "spec.initializer.model"),
        (
            "TrainJob",
            "spec.runtimePatches[*].trainingRuntimeSpec.template.spec.replicatedJobs[*].template.spec.template",
        ),
        ("RayCluster", "spec.autoscalerOptions"),
        ("RayJob", "spec.rayClusterSpec.autoscalerOptions"),
        ("RayService", "spec.rayClusterConfig.autoscalerOptions"),
    }
    absent = {
        (row.kind, spelt(template.path))
        for row in WORKLOADS
        for template in row.templates
        if not list(places(manifest(row), template.path))
    }
    assert absent == unseen


# Paths with stars


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", ()),
        ("spec", ("spec",)),
        ("spec.groups[*].template", ("spec", "groups", "[*]", "template")),
        ("spec.roles{*}.template", ("spec", "roles", "{*}", "template")),
        ("metadata.annotations[a.b/c-d]", ("metadata", "annotations", "a.b/c-d")),
        ("template.spec.roles[1].pod", ("template", "spec", "roles", "1", "pod")),
    ],
)
def test_paths(text: str, path: Path) -> None:
    assert parse(text) == path
    assert parse(spelt(path)) == path


@pytest.mark.parametrize("text", [".", "a..b", "a.", "[", "a[", "a[]", "a{b}", "a*", "a[*", ".a.[b]c]"])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a[*].b", [("a", 0, "b"), ("a", 2, "b")]),
        ("m{*}.b", [("m", "x", "b")]),
        ("a{*}.b", []),
        ("m[*].b", []),
        ("s[*]", []),
        ("n.x[*]", []),
        ("a", [("a",)]),
        ("n", []),
    ],
)
def test_places(text: str, found: list[Path]) -> None:
    value = {"a": [{"b": 1}, {"b": None}, {"b": 0}, 5], "m": {"x": {"b": 1}, "y": None}, "s": "text", "n": None}
    assert list(places(value, parse(text))) == found
    for place in found:
        assert beside(parse(text), place) == place
    assert list(places(None, parse(text))) == []


@pytest.mark.parametrize(
    ("asks", "gives", "fits"),
    [
        ([4, 4], {"a": 8, "b": 0}, True),
        ([4, 5], {"a": 8, "b": 0}, False),
        ([5, 4], {"a": 8, "b": 4}, True),
        ([4, 5], {"a": 5, "b": 4}, True),  # the first flavor that holds the first is not the one for it
        ([5, 5, 5], {"a": 9, "b": 9}, False),
        ([1] * 40, {"a": 20, "b": 20}, True),
        ([], {"a": 0}, True),
    ],
)
def test_pods_that_are_admitted_together(asks: list[int], gives: dict[str, int], fits: bool) -> None:
    flavors = {flavor: {"gpu": amount} for flavor, amount in gives.items()}
    assert fit_together([{"gpu": each} for each in asks], flavors, [list(gives)] * len(asks)) is fits


def test_each_is_placed_where_it_may_go() -> None:
    gives = {"a": {"gpu": 8}, "b": {"gpu": 8}}
    asks = [{"gpu": 5}, {"gpu": 5}]
    assert fit_together(asks, gives, [["a"], ["a", "b"]])
    assert not fit_together(asks, gives, [["a"], ["a"]])
    assert not fit_together(asks, gives, [["a"], []])


# Workloads that say themselves how far they scale: what is changed in the labelled manifest, and what is said

SCALED: list[tuple[str, str, str, str]] = [
    (
        "RayCluster",
        "{enableInTreeAutoscaling: true}",
        "maxReplicas: 8",
        "at most 5, all that {queue} can ever hold, is 8",
    ),
    ("RayCluster", "{enableInTreeAutoscaling: true}", "maxReplicas: 5", ""),
    ("RayCluster", "{enableInTreeAutoscaling: false}", "maxReplicas: 8", ""),
    ("RayCluster", "{}", "maxReplicas: 8", ""),
    (
        "RayCluster",
        "{enableInTreeAutoscaling: true}",
        "{numOfHosts: 2, maxReplicas: 3}",
        "at most 2, all that {queue} can ever hold, is 3, with 2 nvidia.com/gpu a replica on each of 2 hosts; fix: "
        "lower maxReplicas to 2, or raise quota",
    ),
    (
        "RayCluster",
        "{enableInTreeAutoscaling: true}",
        "{numOfHosts: 6, maxReplicas: 1, replicas: 0}",
        "at most 0, all that {queue} can ever hold, is 1, with 2 nvidia.com/gpu a replica on each of 6 hosts; fix: "
        "raise quota, or let a replica ask for less",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "group_spec", "expected"), SCALED)
def test_what_scales_itself(kind: str, spec: str, group_spec: str, expected: str) -> None:
    row = next(row for row in WORKLOADS if row.kind == kind)
    value = copy.deepcopy(labelled(row))
    value["spec"] |= yaml.safe_load(spec)
    value["spec"]["workerGroupSpecs"][0] |= yaml.safe_load(group_spec)
    lines = outcome_of(subject_of(value, POLICY), snapshot_of(BASE), POLICY).lines
    said = [line for line in lines if "[replicas-over-ceiling]" in line]
    if expected:
        (line,) = said
        assert (
            f"spec.workerGroupSpecs[0].maxReplicas: must be {expected}".format(queue='ClusterQueue "llm-d-model-a-cq"')
            in line
        )
    else:
        assert said == []


def test_two_groups_that_scale_are_judged_beside_each_other() -> None:
    value = copy.deepcopy(labelled(next(row for row in WORKLOADS if row.kind == "RayCluster")))
    groups = value["spec"]["workerGroupSpecs"]
    groups.append({**groups[0], "groupName": "more", "maxReplicas": 2})
    value["spec"]["enableInTreeAutoscaling"] = True
    lines = outcome_of(subject_of(value, POLICY), snapshot_of(BASE), POLICY).lines
    assert [line.partition(": must be ")[2].partition(",")[0] for line in lines] == ["at most 3", "at most 1"]
    assert all("can ever hold beside the rest of it, is " in line for line in lines)


# What a watch keeps of what Kueue admits as a whole


@pytest.mark.parametrize(
    ("kind", "status", "in_use"),
    [
        ("Job", "{}", True),
        ("Job", "{active: 2}", True),
        ("Job", "{conditions: [{type: Suspended, status: 'True'}]}", True),
        ("Job", "{conditions: [{type: Complete, status: 'True'}]}", False),
        ("Job", "{conditions: [{type: Failed, status: 'False'}]}", True),
        ("JobSet", "{conditions: [{type: Completed, status: 'True'}]}", False),
        ("PyTorchJob", "{conditions: [{type: Created, status: 'True'}, {type: Succeeded, status: 'False'}]}", True),
        ("PyTorchJob", "{conditions: [{type: Failed, status: 'True'}]}", False),
        ("RayJob", "{jobStatus: RUNNING, jobDeploymentStatus: Running}", True),
        ("RayJob", "{jobStatus: SUCCEEDED, jobDeploymentStatus: Complete}", False),
        ("AppWrapper", "{phase: Succeeded}", False),
        ("AppWrapper", "{phase: Running}", True),
        ("SparkApplication", "{applicationState: {state: COMPLETED}}", False),
        ("SparkApplication", "{applicationState: {state: RUNNING}}", True),
        ("LeaderWorkerSet", "{replicas: 2}", True),
    ],
)
def test_what_has_ended_is_in_no_queue(kind: str, status: str, in_use: bool) -> None:
    row = next(row for row in WORKLOADS if row.kind == kind)
    value = {**labelled(row), "status": yaml.safe_load(status)}
    queue = read_documents(FIXTURES / "queue-in-use" / "fail-job.yaml")[-1]
    outcome = outcome_of(subject_of(queue, POLICY, removal=True), snapshot_of([*BASE, value]), POLICY)
    assert [f"used by {kind} " in line for line in outcome.lines] == ([True] if in_use else [])
    for gone in (
        edited(value, [Edit(("metadata", "deletionTimestamp"), "2026-11-29T00:00:00Z")]),
        edited(value, [Edit(("metadata", "ownerReferences"), [JOB_SET_OWNER])]),
    ):
        snapshot = snapshot_of([*BASE, dict(gone)])
        assert outcome_of(subject_of(queue, POLICY, removal=True), snapshot, POLICY).lines == ()


def test_a_job_of_a_cron_job_is_in_its_queue() -> None:
    """Nothing else stands for it: a CronJob is never admitted."""
    owner = {**JOB_SET_OWNER, "apiVersion": "batch/v1", "kind": "CronJob"}
    job = dict(edited(labelled(JOB), [Edit(("metadata", "ownerReferences"), [owner])]))
    queue = read_documents(FIXTURES / "queue-in-use" / "fail-job.yaml")[-1]
    outcome = outcome_of(subject_of(queue, POLICY, removal=True), snapshot_of([*BASE, job]), POLICY)
    assert "used by Job model-a-eval" in outcome.lines[0]


@pytest.mark.parametrize("damage", [None, 3, "x", [], [None], [{"type": [], "status": "True"}], {"type": "Complete"}])
def test_a_damaged_status_has_not_ended(damage: Any) -> None:
    for status in ({"conditions": damage}, damage, {"phase": damage, "applicationState": damage}):
        fact = PROJECTIONS["Job"]({**labelled(JOB), "status": status})
        assert isinstance(fact, WorkloadFact)
        assert fact.live


JOB_SET_OWNER = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "x",
    "uid": "u",
    "controller": True,
}


def test_what_all_pods_get_is_none_of_them() -> None:
    """Trainer 2.1 calls the patches so."""
    job = next(row for row in WORKLOADS if row.kind == "TrainJob")
    overrides = [{"targetJobs": [{"name": "node"}], "spec": {"runtimeClassName": "nvidia"}}]
    value = dict(edited(manifest(job), [Edit(("spec", "podTemplateOverrides"), overrides)]))
    subject = subject_of(value, POLICY)
    assert [each.template.path for each in subject.pod_sets] == [("spec", "trainer")]
    assert [each.template.path for each in subject.common] == [("spec", "podTemplateOverrides", 0)]
