"""No GPU is reached behind Kueue's back.

A pod template that requests no accelerator can still get at every GPU of its node, and no queue counts such a use, nor
does any scheduler know of it. The ways are:

- an environment variable such as NVIDIA_VISIBLE_DEVICES. Empty, `none` or `void` it is no use; one from valueFrom is a
  warning, since its value is not known here;
- a RuntimeClass that hands out GPUs (policy: `accelerators.runtimeClasses`), by default those of NVIDIA, Kata, Habana
  and Ascend. Of a kind whose runtime may request (InferenceService, LLMInferenceService, TrainJob) it is a warning;
- a CDI annotation, cdi.k8s.io/*, on the template. One of a kind that is not known to be an accelerator is a warning;
- a host path to the devices: /dev, /dev/nvidia*, /dev/dri, /dev/kfd, /dev/accel* and those of other vendors, or a
  volume that NVIDIA's runtime takes for a device;
- a privileged container on nodes that are chosen for their GPUs, by a label that only such nodes have (nvidia.com/*,
  cloud.google.com/gke-accelerator …) or by the nodeLabels of a ResourceFlavor with accelerators.

Each template is judged by itself: one that requests an accelerator is in order, whatever else it does. What all pods of
an object get (a SparkApplication's volumes, a TrainJob's runtimePatches) is, if any of them requests one.

Guide: prerequisite 4, a pod without GPU requests 'is admitted for free'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.hidden_use import (
    CDI_PREFIX,
    DEVICES,
    MOUNTED,
    NO_DEVICES,
    VARIABLES,
    Selected,
    accelerator_label,
    instead,
    names_accelerators,
    selected,
)
from webhook.kube.kinds import WORKLOADS
from webhook.kube.objects import at, mapping, sequence, string
from webhook.kube.pods import Container, PodTemplate
from webhook.kube.snapshot import Snapshot

_WITHOUT = "without an accelerator request"


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    for path in subject.kind.uncounted:
        value = at(subject.value, path)
        if value is not None and not subject.is_gpu_workload:
            yield Violation(
                path,
                must=f"must not ask for GPUs {_WITHOUT}",
                actual=str(value),
                fix="request them by the field gpu of driver or executor, which is counted",
            )
    # What all pods get may be for those that request.
    common = () if subject.is_gpu_workload else subject.common
    for pods in (*subject.pod_sets, *common):
        if not pods.template.asks:
            for found in _hidden(pods.template, snapshot):
                # The runtime that an object names may request, and some want a class for it.
                advice = found.advice or (subject.kind.opaque and found.path[-1] == "runtimeClassName")
                yield replace(found, actual=found.actual + pods.where(found.path), advice=advice)


def _hidden(template: PodTemplate, snapshot: Snapshot) -> Iterator[Violation]:
    for container in template.containers:
        yield from _variables(container, template)
        yield from _mounts(container, template)
    yield from _runtime_class(template)
    yield from _annotations(template)
    yield from _host_paths(template)
    yield from _privileged(template, snapshot)


def _variables(container: Container, template: PodTemplate) -> Iterator[Violation]:
    for index, entry in enumerate(map(mapping, sequence(container.spec.get("env")))):
        name = string(entry.get("name"))
        if name not in VARIABLES:
            continue
        path = (*container.path, "env", index)
        must = f"must be none {_WITHOUT}"
        rather = instead(VARIABLES[name], template.names)
        identity = (container.path, name)
        value = string(entry.get("value"))
        if entry.get("valueFrom"):
            yield Violation(
                (*path, "valueFrom"),
                must,
                actual=f"{name} from elsewhere",
                fix=f"{rather}, or see to it that it is none",
                advice=True,
                identity=identity,
            )
        elif value.strip() not in NO_DEVICES:
            fix = f"{rather}, or set it to none"
            yield Violation((*path, "value"), must, actual=f"{name}={value}", fix=fix, identity=identity)


def _mounts(container: Container, template: PodTemplate) -> Iterator[Violation]:
    for index, mount in enumerate(map(mapping, sequence(container.spec.get("volumeMounts")))):
        path = _plain(string(mount.get("mountPath")))
        if path.startswith(f"{MOUNTED}/"):
            yield Violation(
                (*container.path, "volumeMounts", index, "mountPath"),
                must=f"must not stand for a GPU {_WITHOUT}",
                actual=path,
                fix=f"{instead('nvidia.com/gpu', template.names)}, or leave it out",
                identity=(container.path, path),
            )


def _runtime_class(template: PodTemplate) -> Iterator[Violation]:
    name = string(template.spec.get("runtimeClassName"))
    if any(_fits(name, pattern) for pattern in template.names.runtime_classes):
        yield Violation(
            (*template.spec_path, "runtimeClassName"),
            must=f"must not be a class that hands out GPUs {_WITHOUT}",
            actual=name,
            fix=f"{instead('nvidia.com/gpu', template.names)}, or leave it out",
            # A claim may be for a GPU, and some drivers want their runtime class for it.
            advice=bool(template.claims),
        )


def _fits(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _annotations(template: PodTemplate) -> Iterator[Violation]:
    for key, value in mapping(template.metadata.get("annotations")).items():
        if not key.startswith(CDI_PREFIX):
            continue
        known = names_accelerators(string(value), template.names)
        rather = instead(string(value).partition("=")[0], template.names)
        yield Violation(
            (*template.path, *template.shape.metadata, "annotations", key),
            must=f"must not name GPUs {_WITHOUT}",
            actual=string(value),
            fix=f"{rather}, or leave it out" if known else f"{rather}, if it is one",
            advice=not known,
        )


def _host_paths(template: PodTemplate) -> Iterator[Violation]:
    for index, volume in enumerate(map(mapping, sequence(template.spec.get("volumes")))):
        path = string(mapping(volume.get("hostPath")).get("path"))
        plain = _plain(path)
        device = next((name for name in DEVICES if _is_device(plain, name)), "")
        if device or plain == "/dev":
            yield Violation(
                (*template.spec_path, "volumes", index, "hostPath", "path"),
                must=f"must not lead to GPU devices {_WITHOUT}",
                actual=path,
                fix=f"{instead(DEVICES.get(device, ''), template.names)}, or leave it out",
                identity=(template.path, "hostPath", plain),
            )


def _is_device(path: str, name: str) -> bool:
    """Whether a path is that of such a device, of one of them by number or part, or what is below."""
    rest = path.removeprefix(f"/dev/{name}")
    return rest != path and (not rest or rest[0] in "0123456789/_-" or name == "nvidia")


def _plain(path: str) -> str:
    """The path without empty, '.' and '..' steps, for //dev and /dev/./nvidia0 lead there as well."""
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    return "/" + "/".join(steps)


def _privileged(template: PodTemplate, snapshot: Snapshot) -> Iterator[Violation]:
    container = next((each for each in template.containers if _is_privileged(each)), None)
    labels = selected(template.spec) if container is not None else {}
    if container is None or not labels:
        return
    key = accelerator_label(labels, template.names)
    wanted, where = ("nvidia.com/gpu" if key.startswith("nvidia.com/") else "", f"nodes with {key}")
    if not key:
        flavor, wanted = _flavor(labels, template, snapshot)
        if not flavor:
            return
        where = f"those of flavor {flavor}"
    yield Violation(
        (*container.path, "securityContext", "privileged"),
        must=f"must not be true on GPU nodes {_WITHOUT}",
        actual=f"true, on {where}",
        fix=f"{instead(wanted, template.names)}, or drop this or the node selection",
        identity=(template.path, "privileged"),
    )


def _is_privileged(container: Container) -> bool:
    return mapping(container.spec.get("securityContext")).get("privileged") is True


def _flavor(labels: Selected, template: PodTemplate, snapshot: Snapshot) -> tuple[str, str]:
    """A ResourceFlavor that a queue has accelerators of, and on whose nodes alone the labels let the pod, with the
    accelerator. Raises FactsMissing."""
    for queue in snapshot.cluster_queues():
        for (name, resource), nominal in sorted(queue.nominal.items()):
            flavor = snapshot.flavor(name) if nominal > 0 and template.names.covers(resource) else None
            if flavor is not None and flavor.labels and _within(labels, flavor.labels):
                return name, resource
    return "", ""


def _within(labels: Selected, node_labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == frozenset({value}) for key, value in node_labels.items())


RULE = Rule(
    id="hidden-gpu-use",
    mode=Mode.DENY,
    kinds=WORKLOADS,
    check=check,
    needs=frozenset({"ClusterQueue", "ResourceFlavor"}),
    page=__doc__,
)
