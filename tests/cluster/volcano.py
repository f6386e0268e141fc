"""Volcano's Queue, as far as Floorkeeper reads it: no Go module brings its CustomResourceDefinition."""

from __future__ import annotations

from typing import Any

from tests.cluster.controlplane import Cluster

CRD = "customresourcedefinition/queues.scheduling.volcano.sh"

_AMOUNTS = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
}
_SPEC = {
    "type": "object",
    "properties": {
        "parent": {"type": "string"},
        "weight": {"type": "integer"},
        "reclaimable": {"type": "boolean"},
        "capability": _AMOUNTS,
        "deserved": _AMOUNTS,
        "guarantee": {"type": "object", "properties": {"resource": _AMOUNTS}},
        "affinity": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_STATUS = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "queues.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "names": {"kind": "Queue", "plural": "queues", "singular": "queue", "shortNames": ["q"]},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}},
            }
        ],
    },
}


def install_volcano(cluster: Cluster) -> None:
    cluster.apply(_DEFINITION)
    cluster("wait", "--for=condition=Established", CRD, "--timeout=30s")
