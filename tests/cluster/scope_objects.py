"""Objects that the webhook is asked about, and objects that it is not."""

from __future__ import annotations

from typing import Any

from webhook.kube.names import QUEUE_LABEL

Object = dict[str, Any]

RESOURCES = {
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "ReplicaSet": "replicasets",
    "Pod": "pods",
    "ConfigMap": "configmaps",
    "CronJob": "cronjobs",
    "DaemonSet": "daemonsets",
    "Job": "jobs",
    "ReplicationController": "replicationcontrollers",
    "ResourceQuota": "resourcequotas",
    "LocalQueue": "localqueues",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "ScaledObject": "scaledobjects",
    "Widget": "widgets",
}


def amounts(**sides: Any) -> Object:
    return {"resources": sides}


GPU: Object = amounts(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "1"})


def container(name: str = "main", **fields: Any) -> Object:
    return {"name": name, "image": "registry.example/main", **fields}


def variable(**fields: Any) -> Object:
    return container(env=[fields])


def pod_spec(*containers: Object, **fields: Any) -> Object:
    return {"containers": list(containers) or [container()], **fields}


def host_path(path: str) -> Object:
    return pod_spec(volumes=[{"name": "host", "hostPath": {"path": path}}])


def owned(api_version: str, kind: str, controller: bool | None = True) -> list[Object]:
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "name": "owner",
        "uid": "11111111-2222-3333-4444-555555555555",
    }
    return [reference | ({} if controller is None else {"controller": controller})]


def pod(name: str, *containers: Object, metadata: Object | None = None, **fields: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": pod_spec(*containers, **fields),
    }


def workload(
    kind: str,
    spec: Object | None = None,
    metadata: Object | None = None,
    labels: Object | None = None,
    **fields: Any,
) -> Object:
    """A Deployment, StatefulSet or ReplicaSet of no replicas; `spec` and `labels` are its template's."""
    template = {"metadata": {"labels": {"app": "x", **(labels or {})}}, "spec": spec or pod_spec()}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "x", **(metadata or {})},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template, **fields},
    }


def job(spec: Object | None = None, metadata: Object | None = None) -> Object:
    template = {"spec": {"restartPolicy": "Never", **(spec or pod_spec())}}
    named = {"name": "x", **(metadata or {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": named, "spec": {"template": template}}


def cron_job(spec: Object | None = None, labels: Object | None = None) -> Object:
    made = {"metadata": {"labels": labels or {}}, "spec": job(spec)["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "x"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": made},
    }


def daemon_set(spec: Object | None = None) -> Object:
    value = workload("DaemonSet", spec)
    del value["spec"]["replicas"]
    return value


def replication_controller(spec: Object | None = None, selector: Object | None = None) -> Object:
    value = workload("ReplicationController", spec, labels=selector, selector={"app": "x", **(selector or {})})
    return {**value, "apiVersion": "v1"}


def deployment(spec: Object | None = None, **fields: Any) -> Object:
    return workload("Deployment", spec, **fields)


def big(*last: Object) -> Object:
    """The most that 3 MiB of request hold: 20 containers of 100 variables of 1,400 bytes each."""
    variables = [{"name": f"VARIABLE_{number}", "value": "v" * 1400} for number in range(100)]
    return pod_spec(*(container(f"c{number}", env=variables) for number in range(20)), *last)


QUEUE = {QUEUE_LABEL: "lq"}
WITH_GPU = pod_spec(container(**GPU))


def horizontal_pod_autoscaler(version: str, maximum: int = 4) -> Object:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}, "maxReplicas": maximum}
    kind = {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler"}
    return {**kind, "metadata": {"name": "x"}, "spec": spec}


SCALED_OBJECT: Object = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "x"},
    "spec": {"scaleTargetRef": {"name": "x"}, "maxReplicaCount": 4, "triggers": [{"type": "cpu", "metadata": {}}]},
}

CALLED: dict[str, Object] = {
    "gpu": deployment(WITH_GPU),
    "gpu-statefulset": workload("StatefulSet", WITH_GPU, serviceName="x"),
    "gpu-replicaset": workload("ReplicaSet", WITH_GPU),
    "gpu-daemonset": daemon_set(WITH_GPU),
    "gpu-replicationcontroller": replication_controller(WITH_GPU),
    "label-in-plain-selector": replication_controller(selector=QUEUE),
    "gpu-job": job(WITH_GPU),
    "label-on-job": job(metadata={"labels": QUEUE}),
    "job-of-a-cronjob-without-label": job(WITH_GPU, {"ownerReferences": owned("batch/v1", "CronJob")}),
    "gpu-cronjob": cron_job(WITH_GPU),
    "label-on-jobs-of-a-cronjob": cron_job(labels=QUEUE),
    "gpu-pod": pod("x", container(**GPU)),
    "gpu-limits-only-pod": pod("x", container(**amounts(limits={"nvidia.com/gpu": 1}))),
    "gpu-in-init-container": deployment(pod_spec(initContainers=[container("init", **GPU)])),
    "gpu-in-sidecar": deployment(pod_spec(initContainers=[container("side", restartPolicy="Always", **GPU)])),
    "gpu-in-last-of-many": deployment(pod_spec(*(container(f"c{n}") for n in range(9)), container("last", **GPU))),
    "mig-limits-only": deployment(pod_spec(container(**amounts(limits={"nvidia.com/mig-3g.40gb": 1})))),
    "amd": deployment(pod_spec(container(**amounts(limits={"amd.com/gpu": 1})))),
    "intel": pod("x", container(**amounts(limits={"gpu.intel.com/i915": 1}))),
    "neuron": deployment(pod_spec(container(**amounts(limits={"aws.amazon.com/neuroncore": 1})))),
    "claim": deployment(pod_spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])),
    "label-on-object": deployment(metadata={"labels": QUEUE}),
    "label-on-template": deployment(labels=QUEUE),
    "label-on-pod": pod("x", metadata={"labels": QUEUE}),
    "label-in-match-labels": deployment(labels=QUEUE, selector={"matchLabels": QUEUE}),
    "label-in-match-expressions-only": deployment(
        selector={"matchExpressions": [{"key": QUEUE_LABEL, "operator": "DoesNotExist"}], "matchLabels": {"app": "x"}}
    ),
    "runtime-class": deployment(pod_spec(runtimeClassName="nvidia")),
    "runtime-class-variant": deployment(pod_spec(runtimeClassName="nvidia-legacy")),
    "visible-devices": deployment(pod_spec(variable(name="NVIDIA_VISIBLE_DEVICES", value="all"))),
    "visible-devices-without-value": deployment(pod_spec(variable(name="NVIDIA_VISIBLE_DEVICES"))),
    "visible-devices-from-elsewhere": deployment(
        pod_spec(variable(name="NVIDIA_VISIBLE_DEVICES", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}}))
    ),
    "visible-devices-in-init": pod("x", initContainers=[variable(name="NVIDIA_VISIBLE_DEVICES") | {"name": "init"}]),
    "host-dev": deployment(host_path("/dev")),
    "host-dev-slash": deployment(host_path("/dev/")),
    "host-dev-nvidia": deployment(host_path("/dev/nvidia0")),
    "host-dev-doubled": deployment(host_path("//dev")),
    "host-dev-dotted": deployment(host_path("/./dev/./nvidia0")),
    "host-dev-relative": deployment(host_path("dev/nvidia0")),
    "controller-is-a-configmap": pod("x", container(**GPU), metadata={"ownerReferences": owned("v1", "ConfigMap")}),
    "controller-of-unknown-group": pod(
        "x", container(**GPU), metadata={"ownerReferences": owned("jobs.example.com/v1", "Job")}
    ),
    "controller-without-group": pod("x", container(**GPU), metadata={"ownerReferences": owned("v1", "Job")}),
    "owner-is-no-controller": pod("x", container(**GPU), metadata={"ownerReferences": owned("batch/v1", "Job", False)}),
    "owner-says-nothing": pod("x", container(**GPU), metadata={"ownerReferences": owned("batch/v1", "Job", None)}),
    # The API server wipes what only it may write, before admission; else this would be a way past us.
    "forged-deletion": deployment(WITH_GPU, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    "big-with-gpu": deployment(big(container("last", **GPU))),
}

ASKED_BUT_REFUSED: dict[str, Object] = {
    "mig-requests-only": deployment(pod_spec(container(**amounts(requests={"nvidia.com/mig-1g.5gb": 1})))),
    "label-on-object-empty": deployment(metadata={"labels": {QUEUE_LABEL: ""}}),
    "label-in-match-labels-only": deployment(selector={"matchLabels": QUEUE}),
}
"""Refused after mutation by the API server or by Kueue."""

SPARED: dict[str, Object] = {
    "gpu-zero": deployment(pod_spec(container(**amounts(limits={"nvidia.com/gpu": 0})))),
    "gpu-null": deployment(pod_spec(container(**amounts(limits={"nvidia.com/gpu": None})))),
    "host-shm": deployment(host_path("/dev/shm")),
    "host-device-plugins": deployment(host_path("/var/lib/kubelet/device-plugins")),
    "host-devtools": deployment(host_path("/opt/devtools")),
    "host-devices": deployment(host_path("/devices")),
    "gateway": deployment(),
    "gateway-statefulset": workload("StatefulSet", serviceName="x"),
    "gateway-replicaset": workload("ReplicaSet"),
    "gateway-pod": pod("x"),
    "exporter-daemonset": daemon_set(host_path("/proc")),
    "cpu-job": job(),
    "cpu-cronjob": cron_job(),
    "job-of-a-cronjob-with-label": job(WITH_GPU, {"labels": QUEUE, "ownerReferences": owned("batch/v1", "CronJob")}),
    "configmap": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": QUEUE}},
    "cpu-only": deployment(pod_spec(container(**amounts(requests={"cpu": "1"}, limits={"memory": "1Gi"})))),
    "resources-null": deployment(pod_spec(container(resources=None))),
    "requests-null": deployment(pod_spec(container(**amounts(requests=None, limits=None)))),
    "other-nvidia-resource": deployment(pod_spec(container(**amounts(limits={"nvidia.com/gpumem": 1})))),
    "env-null": deployment(pod_spec(container(env=None))),
    "env-without-value": deployment(pod_spec(variable(name="MODEL"))),
    "env-from-field": pod("x", variable(name="NODE", valueFrom={"fieldRef": {"fieldPath": "spec.nodeName"}})),
    "env-value-says-nvidia": deployment(pod_spec(variable(name="SHOW", value="NVIDIA_VISIBLE_DEVICES"))),
    "volumes-null": deployment(pod_spec(volumes=None)),
    "volume-empty-dir": deployment(pod_spec(volumes=[{"name": "cache", "emptyDir": {}}])),
    "volume-host-path": deployment(host_path("/var/log")),
    "volume-without-source": deployment(pod_spec(volumes=[{"name": "cache"}])),
    "runtime-class-other": deployment(pod_spec(runtimeClassName="gvisor")),
    "runtime-class-alike": deployment(pod_spec(runtimeClassName="nvidiafied")),
    "labels-null": deployment(metadata={"labels": None, "annotations": None, "ownerReferences": None}),
    "annotation-is-no-label": deployment(metadata={"annotations": QUEUE}),
    "selector-by-expressions": deployment(selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    "pod-of-job": pod("x", container(**GPU), metadata={"ownerReferences": owned("batch/v1", "Job")}),
    "pod-of-replicaset": pod("x", container(**GPU), metadata={"ownerReferences": owned("apps/v1", "ReplicaSet")}),
    "pod-of-rc": pod("x", container(**GPU), metadata={"ownerReferences": owned("v1", "ReplicationController")}),
    "replicaset-of-deployment": workload(
        "ReplicaSet", WITH_GPU, metadata={"ownerReferences": owned("apps/v1", "Deployment")}
    ),
    "second-owner-controls": workload(
        "ReplicaSet",
        WITH_GPU,
        metadata={"ownerReferences": [*owned("v1", "ConfigMap", None), *owned("argoproj.io/v1alpha1", "Rollout")]},
    ),
    "big": deployment(big()),
    "big-pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": big()},
}

SPARED_AND_REFUSED: dict[str, Object] = {
    "containers-null": deployment({"containers": None}),
    "containers-absent": deployment({"restartPolicy": "Always"}),
    "template-null": deployment(template=None),
    "selector-null": deployment(selector=None),
    "spec-null": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": None},
    "spec-absent": {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x"}},
    "pod-without-spec": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
    "null-in-lists": pod("x", None, volumes=[None], initContainers=[None]),  # type: ignore[arg-type]
    # Kueue's webhooks look for the owners that they know.
    "pod-of-ray": pod("x", container(**GPU), metadata={"ownerReferences": owned("ray.io/v1", "RayCluster")}),
    "statefulset-of-lws": workload(
        "StatefulSet",
        WITH_GPU,
        serviceName="x",
        metadata={"ownerReferences": owned("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")},
    ),
}
"""Refused by the API server's validation or by Kueue, and not by a condition that cannot be evaluated."""
