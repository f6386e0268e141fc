"""Fake nodes, kept Ready by kwok, and pods on them that run without containers."""

from pathlib import Path
from typing import Any

from .components import Component

# A node with this label is left alone by kwok, so that a test can make it NotReady and it stays so.
UNMANAGED = "floorkeeper.io/unmanaged"


def kwok(kubeconfig: Path, stages: Path) -> Component:
    return Component("kwok", (
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        f"--manage-nodes-with-label-selector=!{UNMANAGED}",
        # Without leases the node lifecycle controller calls the nodes dead after less than a minute.
        "--node-lease-duration-seconds=40",
        # Port 0: nothing to listen on, since nobody asks these nodes for logs.
        "--node-port=0",
    ))  # fmt: skip


def node(number: int, gpus: int, ready: bool) -> dict[str, Any]:
    """A Node manifest; `ready` when there is no kwok that will make it so."""
    name = f"gpu-{number}"
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    if gpus:
        resources["nvidia.com/gpu"] = str(gpus)
    status: dict[str, Any] = {"allocatable": resources, "capacity": resources}
    if ready:
        status["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.present": "true",
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def is_ready(obj: dict[str, Any]) -> bool:
    """Ready, and no longer tainted by the node lifecycle controller, so that pods can land on it."""
    conditions = obj.get("status", {}).get("conditions", [])
    taints = [taint["key"] for taint in obj["spec"].get("taints", [])]
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) and (
        "node.kubernetes.io/not-ready" not in taints
    )
