"""No GPU is reached behind Kueue's back.

A pod template that requests no accelerator can still get at every GPU of its node: by the environment variable
NVIDIA_VISIBLE_DEVICES, by an nvidia runtime class, or by a host path to the devices. No queue counts such a use, and no
scheduler knows of it.

An NVIDIA_VISIBLE_DEVICES that is empty, `none` or `void` is no use; one from valueFrom is a warning, since its value is
not known here.

Guide: prerequisite 4, a pod without GPU requests 'is admitted for free'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.objects import mapping, sequence, string
from webhook.kube.pods import Container, PodTemplate
from webhook.kube.snapshot import Snapshot

_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
_NO_USE = ("", "none", "void")
_FIX = "request an accelerator"


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    for template in subject.templates:
        if template.asks:
            continue
        for container in template.containers:
            yield from _variables(container)
        yield from _runtime_class(template)
        yield from _host_paths(template)


def _variables(container: Container) -> Iterator[Violation]:
    for index, entry in enumerate(map(mapping, sequence(container.spec.get("env")))):
        if entry.get("name") != _VARIABLE:
            continue
        path = (*container.path, "env", index, "value")
        identity = (_VARIABLE, container.init, container.name)
        must = "must be none without an accelerator request"
        value = string(entry.get("value"))
        if entry.get("valueFrom"):
            yield Violation(
                (*path[:-1], "valueFrom"),
                must,
                actual="not known here",
                fix=f"{_FIX}, or see to it that it is none",
                advice=True,
                identity=identity,
            )
        elif value.strip() not in _NO_USE:
            yield Violation(path, must, actual=value, fix=f"{_FIX}, or set it to none", identity=identity)


def _runtime_class(template: PodTemplate) -> Iterator[Violation]:
    name = string(template.spec.get("runtimeClassName"))
    if name == "nvidia" or name.startswith("nvidia-"):
        yield Violation(
            (*template.path, "spec", "runtimeClassName"),
            must="must not be an nvidia class without an accelerator request",
            actual=name,
            fix=f"{_FIX}, or leave it out",
            # A claim may be for a GPU, and some drivers want their runtime class for it.
            advice=bool(sequence(template.spec.get("resourceClaims"))),
        )


def _host_paths(template: PodTemplate) -> Iterator[Violation]:
    for index, volume in enumerate(map(mapping, sequence(template.spec.get("volumes")))):
        path = string(mapping(volume.get("hostPath")).get("path"))
        plain = _plain(path)
        if plain == "/dev" or plain.startswith("/dev/nvidia"):
            yield Violation(
                (*template.path, "spec", "volumes", index, "hostPath", "path"),
                must="must not lead to GPU devices without an accelerator request",
                actual=path,
                fix=f"{_FIX}, or leave it out",
                identity=("hostPath", plain),
            )


def _plain(path: str) -> str:
    """The path without empty, '.' and '..' steps, for //dev and /dev/./nvidia0 lead there as well."""
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    return "/" + "/".join(steps)


RULE = Rule(id="hidden-gpu-use", mode=Mode.DENY, kinds=WORKLOADS, check=check, page=__doc__)
