"""The defaults that kube-apiserver fills in before it asks a webhook: those that a rule reads, and no more. Pure.

Read in k8s.io/kubernetes 1.36, pkg/apis/apps/v1/defaults.go, pkg/apis/core/v1/defaults.go and
pkg/registry/core/namespace/strategy.go. The custom resources that are judged need none here: the facts of Kueue's kinds
and of KEDA's read an absent field as its default. What Kueue's definitions would make of an absent nominalQuota, 0, is
left out, so that whoever forgot it is told.
"""

from __future__ import annotations

from typing import Any

from webhook.kube.kinds import DEPLOYMENT, NAMESPACE, POD, WORKLOADS, Kind
from webhook.kube.objects import Object, mapping, metadata, sequence, string

_QUARTER = "25%"
_GRACE_SECONDS = 30
_NAME_LABEL = "kubernetes.io/metadata.name"
_CONTAINERS = ("initContainers", "containers")


def filled_in(kind: Kind, value: Object) -> dict[str, Any]:
    """The object with the defaults of its kind, in the order of its fields; it shares what is not changed.

    A field that is there keeps its value, null and a damaged value being none. The object itself stays as it is.
    """
    filled = dict(value)
    if kind is NAMESPACE:
        filled["metadata"] = _named(metadata(value))
    elif kind in WORKLOADS and isinstance(value.get("spec"), dict):
        filled["spec"] = _pod(value["spec"]) if kind is POD else _workload(kind, value["spec"])
    return filled


def _named(metadata: Object) -> dict[str, Any]:
    """Whatever the label says: it is always the namespace's name."""
    labels = {**mapping(metadata.get("labels")), _NAME_LABEL: string(metadata.get("name"))}
    return {**metadata, "labels": labels}


def _workload(kind: Kind, spec: Object) -> dict[str, Any]:
    filled = _with(spec, replicas=1)
    if kind is DEPLOYMENT:
        filled["strategy"] = _strategy(spec.get("strategy"))
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        filled["template"] = {**template, "spec": _with(template["spec"], terminationGracePeriodSeconds=_GRACE_SECONDS)}
    return filled


def _strategy(strategy: Any) -> Any:
    if strategy is not None and not isinstance(strategy, dict):
        return strategy
    filled = dict(strategy or {})
    filled["type"] = filled.get("type") or "RollingUpdate"
    if filled["type"] == "RollingUpdate":
        rolling = filled.get("rollingUpdate")
        if rolling is None or isinstance(rolling, dict):
            filled["rollingUpdate"] = _with(rolling or {}, maxSurge=_QUARTER, maxUnavailable=_QUARTER)
    return filled


def _pod(spec: Object) -> dict[str, Any]:
    """A Pod's limits are its requests where it names none; in a pod template that is left to the Pods."""
    filled = _with(spec, terminationGracePeriodSeconds=_GRACE_SECONDS)
    for field in _CONTAINERS:
        if sequence(spec.get(field)):
            filled[field] = [_container(entry) for entry in spec[field]]
    return filled


def _container(container: Any) -> Any:
    resources = mapping(mapping(container).get("resources"))
    limits, requests = mapping(resources.get("limits")), resources.get("requests")
    if not limits or (requests is not None and not isinstance(requests, dict)):
        return container
    missing = {name: amount for name, amount in limits.items() if name not in (requests or {})}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**(requests or {}), **missing}}}


def _with(value: Object, **defaults: Any) -> dict[str, Any]:
    return {**value, **{field: default for field, default in defaults.items() if value.get(field) is None}}
