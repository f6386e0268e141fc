"""Fields that nobody reads: a name that is misspelt, or of another version. The API server drops them, kubectl refuses.

Known are the fields of Kubernetes 1.36, Kueue 0.17 and KEDA 2.21 on the way to what rules read. What is not known and
looks like nothing that is known may be newer than this table, and is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Union

from webhook.check.result import Fault
from webhook.check.state import Item, fault_at
from webhook.kube.objects import Path, show_path

_ALIKE = 0.8  # of difflib's ratio

Shape = Mapping[str, Union["Shape", None]]
"""The fields of a mapping, or of each mapping in a list; None: what is below is not looked at."""


def _shape(names: str, **below: Shape) -> Shape:
    return {**dict.fromkeys(names.split()), **below}


_METADATA = _shape(
    "name generateName namespace labels annotations ownerReferences finalizers uid resourceVersion generation selfLink "
    "creationTimestamp deletionTimestamp deletionGracePeriodSeconds managedFields"
)
_CONTAINER = _shape(
    "name image command args workingDir ports envFrom env resizePolicy restartPolicy restartPolicyRules volumeMounts "
    "volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath terminationMessagePolicy "
    "imagePullPolicy securityContext stdin stdinOnce tty",
    resources=_shape("requests limits claims"),
)
_POD = _shape(
    "volumes ephemeralContainers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy "
    "nodeSelector serviceAccountName serviceAccount automountServiceAccountToken nodeName hostNetwork hostPID hostIPC "
    "shareProcessNamespace securityContext imagePullSecrets hostname subdomain affinity schedulerName tolerations "
    "hostAliases priorityClassName priority dnsConfig readinessGates runtimeClassName enableServiceLinks "
    "preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os hostUsers schedulingGates resourceClaims "
    "hostnameOverride workloadRef schedulingGroup evictionResponders",
    containers=_CONTAINER,
    initContainers=_CONTAINER,
    resources=_shape("requests limits claims"),
)
_TEMPLATE = _shape("", metadata=_METADATA, spec=_POD)
_JOB = _shape(
    "parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit backoffLimitPerIndex "
    "maxFailedIndexes selector manualSelector ttlSecondsAfterFinished completionMode suspend podReplacementPolicy "
    "managedBy scheduling",
    template=_TEMPLATE,
)
_QUOTAS = _shape(
    "coveredResources",
    flavors=_shape("name", resources=_shape("name nominalQuota borrowingLimit lendingLimit")),
)
_SPECS: Mapping[str, Shape] = {
    "Deployment": _shape(
        "replicas selector minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds",
        strategy=_shape("type", rollingUpdate=_shape("maxSurge maxUnavailable")),
        template=_TEMPLATE,
    ),
    "StatefulSet": _shape(
        "replicas selector volumeClaimTemplates serviceName podManagementPolicy updateStrategy revisionHistoryLimit "
        "minReadySeconds persistentVolumeClaimRetentionPolicy ordinals",
        template=_TEMPLATE,
    ),
    "ReplicaSet": _shape("replicas selector minReadySeconds", template=_TEMPLATE),
    "ReplicationController": _shape("replicas selector minReadySeconds", template=_TEMPLATE),
    "DaemonSet": _shape("selector updateStrategy minReadySeconds revisionHistoryLimit", template=_TEMPLATE),
    "CronJob": _shape(
        "schedule timeZone startingDeadlineSeconds concurrencyPolicy suspend successfulJobsHistoryLimit "
        "failedJobsHistoryLimit",
        jobTemplate=_shape("", metadata=_METADATA, spec=_JOB),
    ),
    "Pod": _POD,
    "ResourceQuota": _shape("hard scopes scopeSelector"),
    "LocalQueue": _shape("clusterQueue stopPolicy fairSharing"),
    "ClusterQueue": _shape(
        "cohort cohortName queueingStrategy namespaceSelector flavorFungibility admissionChecks "
        "admissionChecksStrategy stopPolicy fairSharing admissionScope",
        resourceGroups=_QUOTAS,
        preemption=_shape("reclaimWithinCohort borrowWithinCohort withinClusterQueue"),
    ),
    "Cohort": _shape("parent parentName fairSharing", resourceGroups=_QUOTAS),
    "ResourceFlavor": _shape("nodeLabels nodeTaints tolerations topologyName"),
    "HorizontalPodAutoscaler": _shape(
        "scaleTargetRef minReplicas maxReplicas metrics behavior targetCPUUtilizationPercentage"
    ),
    "ScaledObject": _shape(
        "scaleTargetRef pollingInterval initialCooldownPeriod cooldownPeriod idleReplicaCount minReplicaCount "
        "maxReplicaCount advanced triggers fallback"
    ),
}
_OBJECTS: Mapping[str, Shape] = {
    kind: _shape("apiVersion kind status", metadata=_METADATA, spec=spec) for kind, spec in _SPECS.items()
}

_OF_OTHER_VERSIONS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("ClusterQueue", "v1beta1"): {"cohortName": "cohort"},
    ("ClusterQueue", "v1beta2"): {
        "cohort": "cohortName",
        "admissionChecks": "admissionChecksStrategy.admissionChecks",
    },
    ("Cohort", "v1beta2"): {"parent": "parentName"},
}
"""Fields of a spec that another version of the kind has, each with what it is called in this one."""


def misspelt(item: Item) -> Iterator[Fault]:
    """Fields whose names are nearly right: the object is not what its author thinks it is."""
    shape = _OBJECTS.get(item.key[1]) if item.kind is not None else None
    if shape is not None:
        for path, meant in _misspelt(item.document.value, shape, ()):
            text = f"{show_path(path)} is no field of a {item.key[1]}; did you mean {meant}?"
            yield fault_at(item.document, path, text)


def of_other_versions(item: Item) -> Iterator[Fault]:
    """Fields that the API server drops because they belong to another version."""
    version = item.document.value["apiVersion"]
    names = _OF_OTHER_VERSIONS.get((item.key[1], version.rpartition("/")[2]), {}) if item.kind is not None else {}
    spec = item.document.value.get("spec")
    for name, instead in names.items():
        if isinstance(spec, dict) and spec.get(name) is not None:
            text = f"spec.{name} is no field of {version}, so the API server drops it; write spec.{instead}"
            yield fault_at(item.document, ("spec", name), text)


def _misspelt(value: Any, shape: Shape, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _misspelt(entry, shape, (*path, index))
    elif isinstance(value, dict):
        for name, below in value.items():
            if name not in shape:
                meant = _meant(name, shape)
                if meant and meant not in value:
                    yield (*path, name), meant
            elif shape[name] is not None:
                yield from _misspelt(below, shape[name] or {}, (*path, name))


def _meant(name: str, shape: Shape) -> str:
    folded = {known.lower(): known for known in shape}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=_ALIKE)
    return folded[close[0]] if close else ""
