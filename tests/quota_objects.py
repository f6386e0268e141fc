"""Nodes, flavors, quotas and checks as manifests would describe them, and the balance of some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from webhook.capacity.balance import Balance, balance_of
from webhook.capacity.view import Change, View
from webhook.engine.policy import Capacity, Policy
from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.quantity import NANO
from webhook.kube.snapshot import Snapshot

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
KUEUE = "kueue.x-k8s.io/v1beta2"


def node(name: str, gpus: Any = 8, labels: Mapping[str, str] | None = None, **changes: Any) -> Object:
    """`changes`: allocatable and capacity (whole maps), ready, cordoned, taints."""
    amounts = {"cpu": "96", "memory": "1056270436Ki", **({GPU: gpus} if gpus is not None else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {
            "unschedulable": changes.get("cordoned", False),
            "taints": [{"key": key, "effect": "NoSchedule"} for key in changes.get("taints", ())],
        },
        "status": {
            "capacity": changes.get("capacity", amounts),
            "allocatable": changes.get("allocatable", amounts),
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": changes.get("ready", "True")},
            ],
        },
    }


def flavor(name: str, **labels: str) -> Object:
    spec = {"nodeLabels": labels} if labels else {}
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def queue(name: str, quotas: Mapping[str, Any], resource: str = GPU, **spec: Any) -> Object:
    """`quotas`: nominalQuota by flavor, or a whole entry of resources without its name."""
    return _quota_object("ClusterQueue", name, quotas, resource, spec)


def cohort(name: str, quotas: Mapping[str, Any] | None = None, resource: str = GPU, **spec: Any) -> Object:
    return _quota_object("Cohort", name, quotas or {}, resource, spec)


def _quota_object(kind: str, name: str, quotas: Mapping[str, Any], resource: str, spec: Object) -> Object:
    flavors = [
        {
            "name": flavor,
            "resources": [{"name": resource, **(quota if isinstance(quota, dict) else {"nominalQuota": quota})}],
        }
        for flavor, quota in quotas.items()
    ]
    if kind == "ClusterQueue":
        spec = {"namespaceSelector": {}, **spec}
    groups = [{"coveredResources": [resource], "flavors": flavors}] if flavors else []
    return {
        "apiVersion": KUEUE,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"resourceGroups": groups, **spec},
    }


def checked(*names: str, on: tuple[str, ...] = ()) -> Object:
    """The admissionChecksStrategy of a ClusterQueue."""
    return {"admissionChecks": [{"name": name, **({"onFlavors": list(on)} if on else {})} for name in names]}


def check(name: str, controller: str) -> Object:
    spec = {"controllerName": controller}
    return {"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": name}, "spec": spec}


def fact_of(value: Object) -> Fact:
    fact = PROJECTIONS[value["kind"]](value)
    assert fact is not None
    return fact


def apply(snapshot: Snapshot, *objects: Object) -> None:
    for value in objects:
        snapshot.put(value["kind"], fact_of(value))


def known(*objects: Object) -> Snapshot:
    """A snapshot in which every kind is known, and these objects are all there is."""
    snapshot = Snapshot()
    for kind in PROJECTIONS:
        snapshot.replace(kind, [])
    apply(snapshot, *objects)
    return snapshot


def balance(*objects: Object, settings: Capacity | None = None) -> Balance:
    return balance_of(known(*objects), settings or Capacity(), Policy().accelerators)


def after(state: Balance | View, value: Object) -> View:
    """Things as the write of an object would make them."""
    return state.with_change(value["kind"], value["metadata"]["name"], cast(Change, fact_of(value)))


def units(amount: int) -> int:
    """A whole number of units."""
    assert amount % NANO == 0
    return amount // NANO


def declared(**flavors: int) -> dict[str, dict[str, int]]:
    """GPUs by flavor, as a policy declares them."""
    return {name: {GPU: amount * NANO} for name, amount in flavors.items()}
