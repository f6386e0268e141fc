"""The defaults that kube-apiserver fills in before it asks a webhook: those that a rule reads, and no more. Pure.

Read in k8s.io/kubernetes 1.36, pkg/apis/{apps,batch,core}/v1/defaults.go and pkg/registry/core/namespace/strategy.go.
The custom resources that are judged need none here: the facts of Kueue's kinds and of KEDA's, and the kinds table, read
an absent field as its default. What Kueue's definitions would make of an absent nominalQuota, 0, is left out, so that
whoever forgot it is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.engine.patch import Edit, edited
from webhook.kube.kinds import BUILT_IN, DEPLOYMENT, JOB, NAMESPACE, POD, REPLICATION_CONTROLLER, Kind
from webhook.kube.objects import Object, at, mapping, metadata, sequence, string

_QUARTER = "25%"
_GRACE_SECONDS = 30
_NAME_LABEL = "kubernetes.io/metadata.name"
_LABELLED_BY_TEMPLATE = (JOB, REPLICATION_CONTROLLER)
"""Without labels of its own, the object has its template's."""

_CONTAINERS = ("initContainers", "containers")


def filled_in(kind: Kind, value: Object) -> dict[str, Any]:
    """The object with the defaults of its kind, in the order of its fields; it shares what is not changed.

    A field that is there keeps its value, null and a damaged value being none. The object itself stays as it is.
    """
    filled = dict(value)
    if kind is NAMESPACE:
        filled["metadata"] = _named(metadata(value))
    elif kind is POD:
        if isinstance(value.get("spec"), dict):
            filled["spec"] = _pod(value["spec"])
    elif kind.is_workload and kind.group in BUILT_IN and isinstance(value.get("spec"), dict):
        filled = dict(edited(value, _workload(kind, value)))
    return filled


def _named(metadata: Object) -> dict[str, Any]:
    """Whatever the label says: it is always the namespace's name."""
    labels = {**mapping(metadata.get("labels")), _NAME_LABEL: string(metadata.get("name"))}
    return {**metadata, "labels": labels}


def _workload(kind: Kind, value: Object) -> Iterator[Edit]:
    if kind.replicas and at(value, kind.replicas) is None:
        yield Edit(kind.replicas, 1)
    if kind is DEPLOYMENT:
        yield Edit(("spec", "strategy"), _strategy(at(value, ("spec", "strategy"))))
    for template in kind.templates:
        labels = at(value, (*template.path, "metadata", "labels"))
        own = value.get("metadata")
        if kind in _LABELLED_BY_TEMPLATE and labels and isinstance(own, dict) and not own.get("labels"):
            yield Edit(("metadata", "labels"), labels)
        if kind is REPLICATION_CONTROLLER and labels and not at(value, kind.selector):
            yield Edit(kind.selector, labels)
        spec = at(value, (*template.path, "spec"))
        if isinstance(spec, dict) and spec.get("terminationGracePeriodSeconds") is None:
            yield Edit((*template.path, "spec", "terminationGracePeriodSeconds"), _GRACE_SECONDS)


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
