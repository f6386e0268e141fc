"""Ways to an accelerator that no request tells of: what they are called, and what could be requested instead."""

from __future__ import annotations

from collections.abc import Mapping

from webhook.kube.accelerators import Accelerators
from webhook.kube.objects import Object, at, mapping, sequence, string

_NVIDIA, _AMD, _GAUDI, _ASCEND = "nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "huawei.com/Ascend910"
_NEURON = "aws.amazon.com/neuron"

VARIABLES: Mapping[str, str] = {
    "NVIDIA_VISIBLE_DEVICES": _NVIDIA,
    "AMD_VISIBLE_DEVICES": _AMD,
    "HABANA_VISIBLE_DEVICES": _GAUDI,
    "ASCEND_VISIBLE_DEVICES": _ASCEND,
    "AWS_NEURON_VISIBLE_DEVICES": _NEURON,
}
"""Environment variables by which a vendor's container runtime hands out devices."""

NO_DEVICES = ("", "none", "void")
"""Values of them that hand out none."""

DEVICES: Mapping[str, str] = {
    "nvidia": _NVIDIA,
    "dri": "",
    "kfd": _AMD,
    "accel": "",
    "habanalabs": _GAUDI,
    "hl": _GAUDI,
    "davinci": _ASCEND,
    "devmm_svm": _ASCEND,
    "hisi_hdc": _ASCEND,
    "neuron": _NEURON,
    "nvhost": _NVIDIA,
    "nvmap": _NVIDIA,
    "dxg": "",
}
"""What names of device files in /dev begin with; '' where more than one vendor has such files."""


MOUNTED = "/var/run/nvidia-container-devices"
"""A volume mounted below this path stands for the device that the rest of the path names (NVIDIA Container Toolkit)."""

CDI_PREFIX = "cdi.k8s.io/"
"""Of annotations that name devices, vendor/class=name (Container Device Interface)."""

_CDI_CLASSES = ("gpu", "mig", "gaudi", "hpu", "npu", "tpu", "neuron", "accel")

_LABELS = (
    "nvidia.com/",
    "amd.com/gpu",
    "gpu.intel.com/",
    "intel.feature.node.kubernetes.io/gpu",
    "habana.ai/",
    "aws.amazon.com/neuron",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-gpu",
    "cloud.google.com/gke-tpu",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-accelerator-",
    "karpenter.k8s.aws/instance-gpu-",
    "kubernetes.azure.com/accelerator",
    "feature.node.kubernetes.io/pci-10de",
    "feature.node.kubernetes.io/pci-0300_10de",
    "feature.node.kubernetes.io/pci-0302_10de",
)
"""What keys of labels begin with that only nodes with accelerators have."""

_NOT_SO = frozenset({"false", "none", "no", "0", ""})
"""Values of such a label on a node without any."""

Selected = Mapping[str, frozenset[str]]
"""Labels that a node must have, each with the values that will do; none: whatever it is."""


def names_accelerators(devices: str, names: Accelerators) -> bool:
    """Whether a CDI annotation names an accelerator, as far as the kinds of its devices tell."""
    kinds = [device.strip().partition("=")[0] for device in devices.split(",")]
    return any(names.covers(kind) or kind.rpartition("/")[2] in _CDI_CLASSES for kind in kinds)


def selected(spec: Object) -> Selected:
    """What a pod spec insists on, by its nodeSelector and the terms of its required node affinity, if all agree."""
    found = {key: frozenset({string(value)}) for key, value in mapping(spec.get("nodeSelector")).items()}
    required = at(spec, ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"))
    terms = [_insists(term) for term in map(mapping, sequence(mapping(required).get("nodeSelectorTerms")))]
    for key in terms[0] if terms else ():
        values = [term.get(key) for term in terms]
        if None not in values:
            found[key] = frozenset().union(*(each for each in values if each)) if all(values) else frozenset()
    return found


def _insists(term: Object) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for entry in map(mapping, sequence(term.get("matchExpressions"))):
        if entry.get("operator") == "In":
            found[string(entry.get("key"))] = frozenset(map(string, sequence(entry.get("values"))))
        elif entry.get("operator") in ("Exists", "Gt"):
            found[string(entry.get("key"))] = frozenset()
    return found


def accelerator_label(labels: Selected, names: Accelerators) -> str:
    """The first of these labels that only nodes with accelerators have, '' if none does."""
    for key in sorted(labels):
        if (key.startswith(_LABELS) or names.covers(key)) and not (labels[key] and labels[key] <= _NOT_SO):
            return key
    return ""


def instead(wanted: str, names: Accelerators) -> str:
    """What to do rather: 'request nvidia.com/gpu in resources.limits'."""
    return f"request {wanted if names.covers(wanted) else 'an accelerator'} in resources.limits"
