"""Rows of the kinds table for what an integration of Kueue admits as a whole, and for what makes such."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from webhook.kube.objects import Path
from webhook.kube.paths import parse
from webhook.kube.row import Count, Doubling, Kind, Relabel, Surge, Template
from webhook.kube.shapes import SPEC, Alone, Shape

_OBJECT: Path = ()

_admitted = partial(Kind, label=_OBJECT, relabel=Relabel.NOTHING, suspend=parse("spec.suspend"), gang=True)
"""A kind that an integration of Kueue admits as a whole, refusing a label that comes when it runs."""


def count(path: str, *caps: str, absent: int = 1, least: str = "") -> Count:
    return Count(parse(path), absent, tuple(map(parse, caps)), parse(least))


def _job(at: str) -> tuple[Template, ...]:
    """A Job's template; `at` is where the Job is, '' or ending in a full stop."""
    pods = count(f"{at}spec.parallelism", f"{at}spec.completions")
    minimum = parse(f"{at}metadata.annotations[kueue.x-k8s.io/job-min-parallelism]")
    return (Template(parse(f"{at}spec.template"), pods=(pods,), minimum=minimum),)


JOB = _admitted(
    "batch", "Job", "jobs", templates=_job(""), framework="batch/job", selector=parse("spec.selector"), entry="jobs"
)
CRON_JOB = Kind(
    "batch",
    "CronJob",
    "cronjobs",
    templates=_job("spec.jobTemplate."),
    label=parse("spec.jobTemplate"),
    relabel=Relabel.NEW_JOBS,
    framework="batch/job",
    gang=True,
    entry="jobs",
)

JOB_SET = _admitted(
    "jobset.x-k8s.io",
    "JobSet",
    "jobsets",
    ("v1alpha2",),
    templates=(
        Template(
            parse("spec.replicatedJobs[*].template.spec.template"),
            pods=(
                count("spec.replicatedJobs[*].replicas"),
                count(
                    "spec.replicatedJobs[*].template.spec.parallelism",
                    "spec.replicatedJobs[*].template.spec.completions",
                ),
            ),
        ),
    ),
    framework="jobset.x-k8s.io/jobset",
    entry="jobs",
)
LEADER_WORKER_SET = _admitted(
    "leaderworkerset.x-k8s.io",
    "LeaderWorkerSet",
    "leaderworkersets",
    templates=(
        Template(parse("spec.leaderWorkerTemplate.leaderTemplate")),
        Template(
            parse("spec.leaderWorkerTemplate.workerTemplate"),
            pods=(count("spec.leaderWorkerTemplate.size"),),
            less=parse("spec.leaderWorkerTemplate.leaderTemplate"),
        ),
    ),
    replicas=parse("spec.replicas"),
    pods_now=parse("status.replicas"),
    framework="leaderworkerset.x-k8s.io/leaderworkerset",
    serves=True,
    surge=Surge(parse("spec.rolloutStrategy.rollingUpdateConfiguration"), surge=0, unavailable=1),
    shuns_template_label=True,
    entry="serving",
)


def _ray_cluster(at: str) -> tuple[Template, ...]:
    """The groups of a Ray cluster whose spec is at `at`."""
    group = f"{at}.workerGroupSpecs[*]"
    hosts = count(f"{group}.numOfHosts")
    return (
        Template(parse(f"{at}.headGroupSpec.template")),
        # A container of the head, if it scales.
        Template(parse(f"{at}.autoscalerOptions"), Shape((), (), (Alone(()),))),
        Template(
            parse(f"{group}.template"),
            pods=(count(f"{group}.replicas", absent=0, least=f"{group}.minReplicas"), hosts),
            maximum=count(f"{group}.maxReplicas", absent=0),
            scales=parse(f"{at}.enableInTreeAutoscaling"),
        ),
    )


RAY_CLUSTER = _admitted(
    "ray.io",
    "RayCluster",
    "rayclusters",
    ("v1", "v1alpha1"),
    templates=_ray_cluster("spec"),
    framework="ray.io/raycluster",
    entry="ray",
)
_SUBMITTER = {
    "spec": {
        "containers": [{"name": "ray-job-submitter", "resources": {"requests": {"cpu": "500m", "memory": "200Mi"}}}]
    }
}
"""What KubeRay submits with, and Kueue counts, where nothing else is said."""

RAY_JOB = _admitted(
    "ray.io",
    "RayJob",
    "rayjobs",
    ("v1", "v1alpha1"),
    templates=(
        *_ray_cluster("spec.rayClusterSpec"),
        Template(
            parse("spec.submitterPodTemplate"),
            assumed=_SUBMITTER,
            unless=(parse("spec.submissionMode"), ("HTTPMode", "SidecarMode", "InteractiveMode")),
        ),
    ),
    framework="ray.io/rayjob",
    entry="ray",
)
RAY_SERVICE = _admitted(
    "ray.io",
    "RayService",
    "rayservices",
    ("v1", "v1alpha1"),
    templates=_ray_cluster("spec.rayClusterConfig"),
    suspend=parse("spec.rayClusterConfig.suspend"),
    framework="ray.io/rayservice",
    serves=True,
    doubles=(
        Doubling(
            parse("spec.upgradeStrategy.type"),
            absent="NewCluster",
            unless=("None",),
            fix="set it to None and replace the RayService to upgrade it",
        ),
    ),
    entry="ray",
)


def _kubeflow(kind: str, specs: str, versions: tuple[str, ...] = ("v1",)) -> Kind:
    """A training job of Kubeflow with a mapping of replica specs."""
    return _admitted(
        "kubeflow.org",
        kind,
        f"{kind.lower()}s",
        versions,
        templates=(Template(parse(f"spec.{specs}{{*}}.template"), pods=(count(f"spec.{specs}{{*}}.replicas"),)),),
        suspend=parse("spec.runPolicy.suspend"),
        framework=f"kubeflow.org/{kind.lower()}",
        entry="training",
    )


PYTORCH_JOB = _kubeflow("PyTorchJob", "pytorchReplicaSpecs")
TF_JOB = _kubeflow("TFJob", "tfReplicaSpecs")
XGBOOST_JOB = _kubeflow("XGBoostJob", "xgbReplicaSpecs")
JAX_JOB = _kubeflow("JAXJob", "jaxReplicaSpecs")
PADDLE_JOB = _kubeflow("PaddleJob", "paddleReplicaSpecs")
MPI_JOB = _kubeflow("MPIJob", "mpiReplicaSpecs", ("v2beta1", "v1"))

TRAIN_JOB = _admitted(
    "trainer.kubeflow.org",
    "TrainJob",
    "trainjobs",
    ("v1alpha1",),
    # Its pods come from a runtime, of which this is what it may change.
    templates=(
        Template(
            parse("spec.trainer"),
            Shape((), (), (Alone((), parse("resourcesPerNode")),)),
            pods=(count("spec.trainer.numNodes"),),
        ),
        *(
            Template(parse(f"spec.initializer.{part}"), Shape((), (), (Alone(()),)), common=True)
            for part in ("dataset", "model")
        ),
        Template(parse("spec.podTemplateOverrides[*]"), common=True),
        Template(
            parse(
                "spec.runtimePatches[*].trainingRuntimeSpec.template.spec.replicatedJobs[*].template.spec.template",
            ),
            common=True,
        ),
    ),
    framework="trainer.kubeflow.org/trainjob",
    entry="training",
    opaque=True,
)
APP_WRAPPER = _admitted(
    "workload.codeflare.dev",
    "AppWrapper",
    "appwrappers",
    ("v1beta2",),
    holds=parse("spec.components[*].template"),
    framework="workload.codeflare.dev/appwrapper",
    entry="training",
)
# The driver and each executor are a container themselves, whose GPUs are apart.
_SPARK = replace(SPEC, alone=(Alone(()), Alone(("gpu",), gpu=True)), lists=("sidecars",))
_DRIVER = Template(parse("spec.driver"), _SPARK)
_EXECUTOR = Template(
    parse("spec.executor"),
    _SPARK,
    pods=(count("spec.executor.instances"),),
    maximum=count("spec.dynamicAllocation.maxExecutors", absent=0),
    scales=parse("spec.dynamicAllocation.enabled"),
)
SPARK_APPLICATION = _admitted(
    "sparkoperator.k8s.io",
    "SparkApplication",
    "sparkapplications",
    ("v1beta2",),
    templates=(
        _DRIVER,
        Template(parse("spec.driver.template"), twin=_DRIVER),
        _EXECUTOR,
        Template(parse("spec.executor.template"), pods=_EXECUTOR.pods, twin=_EXECUTOR),
        Template(parse("spec"), SPEC, common=True),
    ),
    uncounted=tuple(parse(f"spec.sparkConf[spark.{part}.resource.gpu.amount]") for part in ("driver", "executor")),
    framework="sparkoperator.k8s.io/sparkapplication",
    entry="training",
)
