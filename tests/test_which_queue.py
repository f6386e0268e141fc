"""Which queue a workload gets, by Kueue's own configuration and defaulting, for kinds that Kueue treats differently."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import BASE, Object, outcome_of, policy_of, snapshot_of, subject_of
from tests.test_counted import config_map
from tests.test_kueue_configuration import SHIPPED
from webhook.kube.names import PRIORITY_CLASS_LABEL, QUEUE_LABEL

NAMESPACE = "llm-d-optimized-baseline"
GPU = "nvidia.com/gpu"
QUEUE_PATH = f"metadata.labels[{QUEUE_LABEL}]"
POD_SPEC: Object = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 120,
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}],
}


def workload(api_version: str, kind: str, spec: Object, **labels: str) -> Object:
    metadata = {"name": "model-a", "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def template(**labels: str) -> Object:
    return {"metadata": {"labels": {"app": "model-a", **labels}}, "spec": POD_SPEC}


def deployment(**labels: str) -> Object:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    selector = {"matchLabels": {"app": "model-a"}}
    spec = {"replicas": 1, "selector": selector, "strategy": strategy, "template": template(**labels)}
    return workload("apps/v1", "Deployment", spec)


def job(**labels: str) -> Object:
    return workload("batch/v1", "Job", {"template": template()}, **labels)


def job_set(**labels: str) -> Object:
    spec = {"replicatedJobs": [{"name": "r", "template": {"spec": {"template": template()}}}]}
    return workload("jobset.x-k8s.io/v1alpha2", "JobSet", spec, **labels)


def spark(**labels: str) -> Object:
    spec = {"executor": {"instances": 1, "gpu": {"name": GPU, "quantity": 1}}}
    return workload("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec, **labels)


def said(value: Object, *objects: Object, text: str = SHIPPED) -> list[str]:
    """What comes out: 'severity path: actual; what to do' of the rules about queue names."""
    policy = policy_of()
    found = outcome_of(subject_of(value, policy), snapshot_of([*BASE, config_map(text), *objects]), policy).lines
    return [
        f"{line.split(':')[0]} {line.split(': ', 2)[2].rpartition(' [')[0]}"
        for line in found
        if line.endswith(("[missing-queue-name]", "[unknown-queue]", "[conflicting-queue-name]"))
    ]


LEFT_OUT = SHIPPED + "managedJobsNamespaceSelector: {matchLabels: {team: other}}"
SET = "must name a LocalQueue, is absent; patched: set to model-a-lq, from the policy's queues"
ADVICE = "must name a LocalQueue, is absent; fix: Kueue "
HEED = "must be where Kueue heeds it, is model-a-lq, which does nothing here; fix: "


def off(framework: str) -> str:
    assert f'  - "{framework}"\n' in SHIPPED
    return SHIPPED.replace(f'  - "{framework}"\n', "")


@pytest.mark.parametrize(
    ("text", "kind", "unlabelled", "labelled"),
    [
        (SHIPPED, deployment, [f"patch spec.template.{QUEUE_PATH}: {SET}"], []),
        (SHIPPED, job, [f"patch {QUEUE_PATH}: {SET}"], []),
        (SHIPPED, job_set, [f"patch {QUEUE_PATH}: {SET}"], []),
        # Pods are gated by their namespace as well, the others by their label alone.
        (
            LEFT_OUT,
            deployment,
            [
                f"warn spec.template.{QUEUE_PATH}: {ADVICE}leaves this namespace out: add it to its "
                "managedJobsNamespaceSelector"
            ],
            [f"warn spec.template.{QUEUE_PATH}: {HEED}see managedJobsNamespaceSelector in Kueue's configuration"],
        ),
        *(
            (
                LEFT_OUT,
                kind,
                [
                    f"warn {QUEUE_PATH}: {ADVICE}leaves this namespace out: add it to its "
                    "managedJobsNamespaceSelector, or set the label yourself"
                ],
                [],
            )
            for kind in (job, job_set)
        ),
        (
            off("jobset.x-k8s.io/jobset"),
            job_set,
            [
                f"warn {QUEUE_PATH}: {ADVICE}takes no notice of a JobSet: add jobset.x-k8s.io/jobset to its "
                "integrations.frameworks"
            ],
            [
                f"warn {QUEUE_PATH}: {HEED}add jobset.x-k8s.io/jobset to integrations.frameworks in Kueue's "
                "configuration"
            ],
        ),
        (off("jobset.x-k8s.io/jobset"), job, [f"patch {QUEUE_PATH}: {SET}"], []),
        (off("jobset.x-k8s.io/jobset"), deployment, [f"patch spec.template.{QUEUE_PATH}: {SET}"], []),
        # Off as Kueue comes: the label waits for it to be turned on.
        (
            SHIPPED,
            spark,
            [
                f"patch {QUEUE_PATH}: {SET}",
                f"warn {QUEUE_PATH}: {HEED}add sparkoperator.k8s.io/sparkapplication to integrations.frameworks in "
                "Kueue's configuration",
            ],
            [
                f"warn {QUEUE_PATH}: {HEED}add sparkoperator.k8s.io/sparkapplication to integrations.frameworks in "
                "Kueue's configuration"
            ],
        ),
    ],
)
def test_where_kueue_does_not_heed_the_label(text: str, kind: Any, unlabelled: list[str], labelled: list[str]) -> None:
    assert said(kind(), text=text) == unlabelled
    assert said(kind(**{QUEUE_LABEL: "model-a-lq"}), text=text) == labelled


@pytest.mark.parametrize("kind", [deployment, job, job_set])
def test_what_has_no_queue_at_all(kind: Any) -> None:
    """Kueue starts it unseen or, told to manage what has no label, never."""
    value = kind()
    value["metadata"]["name"] = "stranger"
    fix = "fix: set it to one of the LocalQueues of namespace llm-d-optimized-baseline: model-a-lq, model-b-lq"
    place = f"spec.template.{QUEUE_PATH}" if kind is deployment else QUEUE_PATH
    assert said(value) == [f"deny {place}: must name a LocalQueue, is absent; {fix}"]
    held = SHIPPED + "manageJobsWithoutQueueName: true"
    assert said(value, text=held) == [
        f"deny {place}: must name a LocalQueue, is absent, and Kueue starts nothing without it; {fix}"
    ]


@pytest.mark.parametrize("kind", [job, job_set])
def test_kueues_own_default(kind: Any) -> None:
    """Kueue labels the object itself, after us; who is mapped elsewhere gets that label before."""
    default = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "default", "namespace": NAMESPACE},
        "spec": {"clusterQueue": "llm-d-model-a-cq"},
    }
    stranger = kind()
    stranger["metadata"]["name"] = "stranger"
    assert said(stranger, default) == []
    assert said(kind(), default) == [f"patch {QUEUE_PATH}: {SET}"]


PRIORITY = f"metadata.labels[{PRIORITY_CLASS_LABEL}]"
UNKNOWN = "must name a WorkloadPriorityClass that exists, is prod; fix: create it, or use one that exists: "


@pytest.mark.parametrize("kind", [deployment, job, job_set])
def test_priority_classes(kind: Any) -> None:
    value = kind(**{QUEUE_LABEL: "model-a-lq", PRIORITY_CLASS_LABEL: "prod"})
    place = f"spec.template.{PRIORITY}" if kind is deployment else PRIORITY
    classes = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": 1,
        }
        for name in ("dev", "prod")
    ]
    assert said(value) == [f"warn {place}: {UNKNOWN}none"]
    assert said(value, classes[0]) == [f"warn {place}: {UNKNOWN}dev"]
    assert said(value, *classes) == []


def test_the_priority_class_of_a_cron_jobs_jobs() -> None:
    labels = {QUEUE_LABEL: "model-a-lq", PRIORITY_CLASS_LABEL: "prod"}
    spec = {"schedule": "@daily", "jobTemplate": {"metadata": {"labels": labels}, "spec": {"template": template()}}}
    assert said(workload("batch/v1", "CronJob", spec)) == [f"warn spec.jobTemplate.{PRIORITY}: {UNKNOWN}none"]
