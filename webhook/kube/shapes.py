"""How a pod is read out of what a kind keeps for it: a pod template, a bare pod spec, or less than that."""

from __future__ import annotations

from dataclasses import dataclass

from webhook.kube.objects import Path


@dataclass(frozen=True, slots=True)
class Alone:
    """A container that stands alone beside the list of containers, as KServe's `model` does.

    Both paths begin where the pod's spec is. With `gpu` it is no container but a name and a quantity, as in a
    SparkApplication, of which the operator makes the limit of its container.
    """

    path: Path
    resources: Path = ("resources",)
    """Where its requests and limits are, from `path` on."""

    gpu: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """Where the parts of a pod are, from the template's path on."""

    spec: Path = ("spec",)
    metadata: Path = ("metadata",)
    alone: tuple[Alone, ...] = ()
    lists: tuple[str, ...] = ("containers",)
    """Fields of the spec with lists of main containers."""


POD = Shape()
"""A pod template or a Pod: {metadata, spec}."""

SPEC = Shape((), ())
"""A pod spec, with labels and annotations (if any) among its fields."""
