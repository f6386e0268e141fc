"""The table of kinds that make pods: one row each, as their newest API versions have it.

Read were Kubernetes 1.36, Kueue 0.17, LeaderWorkerSet 0.8, JobSet 0.11, KubeRay 1.6, Kubeflow Training Operator 1.9 and
Trainer 2.2, MPI Operator 0.8, AppWrapper 1.2, Spark Operator 2.5, Volcano 1.10, KServe 0.19, Argo Rollouts 1.8,
OpenKruise 1.8, Knative Serving 1.18 and Kubeflow Notebooks 1.10. What Kueue admits as a whole is in webhook.kube.gangs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from webhook.kube.gangs import (
    APP_WRAPPER,
    CRON_JOB,
    JAX_JOB,
    JOB,
    JOB_SET,
    LEADER_WORKER_SET,
    MPI_JOB,
    PADDLE_JOB,
    PYTORCH_JOB,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
    SPARK_APPLICATION,
    TF_JOB,
    TRAIN_JOB,
    XGBOOST_JOB,
    count,
)
from webhook.kube.objects import Path
from webhook.kube.paths import parse
from webhook.kube.row import Doubling, Kind, Place, Relabel, Surge, Template
from webhook.kube.shapes import SPEC, Alone

_SELECTOR = parse("spec.selector")
_REPLICAS = parse("spec.replicas")
_PODS_NOW = parse("status.replicas")
_TEMPLATE = (Template(parse("spec.template")),)
_OBJECT: Path = ()

_replicated = partial(
    Kind, templates=_TEMPLATE, replicas=_REPLICAS, pods_now=_PODS_NOW, serves=True, selector=_SELECTOR
)


# Of Kubernetes, beside Job and CronJob

DEPLOYMENT = _replicated(
    "apps",
    "Deployment",
    "deployments",
    surge=Surge(parse("spec.strategy.rollingUpdate"), parse("spec.strategy.type")),
    kueue_defaults=True,
    entry="workloads",
)
STATEFUL_SET = _replicated(
    "apps", "StatefulSet", "statefulsets", kueue_defaults=True, shuns_object_label=True, entry="workloads"
)
REPLICA_SET = _replicated("apps", "ReplicaSet", "replicasets", relabel=Relabel.NEW_PODS, entry="workloads")
DAEMON_SET = _replicated("apps", "DaemonSet", "daemonsets", replicas=(), label=Place.NOWHERE, entry="workloads")
REPLICATION_CONTROLLER = _replicated(
    "", "ReplicationController", "replicationcontrollers", relabel=Relabel.NEW_PODS, entry="workloads"
)
POD = Kind(
    "", "Pod", "pods", templates=(Template((), filled=True),), relabel=Relabel.NOTHING, serves=True, entry="pods"
)

# Of operators: Kueue sees nothing but their pods

ROLLOUT = _replicated(
    "argoproj.io",
    "Rollout",
    "rollouts",
    ("v1alpha1",),
    surge=Surge(parse("spec.strategy.canary"), optional=True),
    doubles=(
        Doubling(parse("spec.strategy.blueGreen"), fix="use canary with maxSurge 0"),
        Doubling(parse("spec.strategy.canary.trafficRouting"), fix="use canary with maxSurge 0 and without it"),
    ),
    entry="serving",
)
CLONE_SET = _replicated(
    "apps.kruise.io",
    "CloneSet",
    "clonesets",
    ("v1alpha1",),
    surge=Surge(parse("spec.updateStrategy"), surge=0, unavailable="20%"),
    entry="serving",
)
VOLCANO_JOB = Kind(
    "batch.volcano.sh",
    "Job",
    "jobs",
    ("v1alpha1",),
    templates=(Template(parse("spec.tasks[*].template"), pods=(count("spec.tasks[*].replicas"),)),),
    # Volcano refuses to change a template.
    relabel=Relabel.NOTHING,
    gang=True,
    entry="jobs",
)
_knative = partial(
    Kind,
    "serving.knative.dev",
    templates=(
        Template(
            parse("spec.template"),
            maximum=count("spec.template.metadata.annotations[autoscaling.knative.dev/max-scale]", absent=0),
        ),
    ),
    serves=True,
    # Knative gives a pod as long to end as a request may take.
    grace=("timeoutSeconds", 300),
    # A Service makes a Configuration, which makes Revisions, which make Deployments.
    between=("Revision",),
    doubles=(
        Doubling(
            parse("spec.template"),
            actual="a new revision at each change",
            fix="keep quota for twice the pods free",
        ),
    ),
    entry="serving",
)
KNATIVE_SERVICE = _knative("Service", "services")
KNATIVE_CONFIGURATION = _knative("Configuration", "configurations")
NOTEBOOK = Kind(
    "kubeflow.org",
    "Notebook",
    "notebooks",
    ("v1", "v1beta1"),
    templates=_TEMPLATE,
    label=_OBJECT,
    entry="serving",
)
_RUNTIMES = "model sklearn xgboost tensorflow pytorch triton onnx huggingface pmml lightgbm paddle"
INFERENCE_SERVICE = Kind(
    "serving.kserve.io",
    "InferenceService",
    "inferenceservices",
    ("v1beta1",),
    templates=(
        Template(
            parse("spec.predictor"),
            replace(SPEC, alone=tuple(Alone((name,)) for name in _RUNTIMES.split())),
            maximum=count("spec.predictor.maxReplicas", absent=0),
        ),
        Template(parse("spec.predictor.workerSpec"), SPEC),
        Template(parse("spec.transformer"), SPEC),
        Template(parse("spec.explainer"), replace(SPEC, alone=(Alone(("art",)),))),
    ),
    label=_OBJECT,
    serves=True,
    surge=Surge(
        parse("spec.predictor.deploymentStrategy.rollingUpdate"),
        parse("spec.predictor.deploymentStrategy.type"),
        fixed=False,
    ),
    entry="serving",
    opaque=True,
)


def _surging(at: str) -> Doubling:
    """Of what an LLMInferenceService makes from the template there."""
    return Doubling(
        parse(f"spec.{at}template"),
        actual="a Deployment with a surge of 25%",
        fix="scale it to 0 before a change",
        without=parse(f"spec.{at}worker"),
    )


LLM_INFERENCE_SERVICE = Kind(
    "serving.kserve.io",
    "LLMInferenceService",
    "llminferenceservices",
    ("v1alpha1", "v1alpha2"),
    templates=(
        Template(parse("spec.template"), SPEC, maximum=count("spec.scaling.maxReplicas", absent=0)),
        Template(parse("spec.worker"), SPEC),
        Template(parse("spec.prefill.template"), SPEC, maximum=count("spec.prefill.scaling.maxReplicas", absent=0)),
        Template(parse("spec.prefill.worker"), SPEC),
        Template(parse("spec.router.scheduler.template"), SPEC),
        Template(parse("spec"), SPEC, common=True),
    ),
    replicas=_REPLICAS,
    label=_OBJECT,
    serves=True,
    # Its Deployments have the API server's default strategy, and the object has no say in it. LeaderWorkerSets do not
    # surge.
    doubles=(_surging(""), _surging("prefill.")),
    entry="serving",
    opaque=True,
)

WORKLOADS: tuple[Kind, ...] = (
    DEPLOYMENT,
    STATEFUL_SET,
    REPLICA_SET,
    DAEMON_SET,
    REPLICATION_CONTROLLER,
    POD,
    JOB,
    CRON_JOB,
    JOB_SET,
    VOLCANO_JOB,
    LEADER_WORKER_SET,
    ROLLOUT,
    CLONE_SET,
    KNATIVE_SERVICE,
    KNATIVE_CONFIGURATION,
    INFERENCE_SERVICE,
    LLM_INFERENCE_SERVICE,
    NOTEBOOK,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
    PYTORCH_JOB,
    TF_JOB,
    XGBOOST_JOB,
    JAX_JOB,
    PADDLE_JOB,
    MPI_JOB,
    TRAIN_JOB,
    APP_WRAPPER,
    SPARK_APPLICATION,
)
