"""Which ResourceFlavors Kueue may give a pod, by its nodeSelector, required node affinity and tolerations.

Follows Kueue 0.17, pkg/scheduler/flavorassigner (flavorSelector, checkFlavorForPodSets).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from typing import Any

from webhook.kube.node_facts import ResourceFlavorFact
from webhook.kube.objects import Object, at, mapping, sequence, string
from webhook.kube.selector import Requirement

_TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)

Toleration = Mapping[str, Any]


def label_keys(flavors: Iterable[ResourceFlavorFact]) -> Set[str]:
    """The label keys that flavors of one resource group name: a pod's other node labels are left to the scheduler."""
    return {key for flavor in flavors for key in flavor.labels}


def ruled_out(spec: Object, flavor: ResourceFlavorFact, keys: Set[str], tolerations: Iterable[Toleration] = ()) -> str:
    """What keeps a pod of this spec from ever getting the flavor, '' if nothing does.

    `keys` are the label keys of the flavor's group. `tolerations` are such as the pod has beside its own.
    """
    if flavor.taints:
        all_tolerations = [*map(mapping, sequence(spec.get("tolerations"))), *flavor.tolerations, *tolerations]
        for taint in flavor.taints:
            if taint.get("effect") in ("NoSchedule", "NoExecute") and not any(
                _tolerates(each, taint) for each in all_tolerations
            ):
                value = f"={taint['value']}" if taint.get("value") else ""
                return f"taint {taint.get('key', '')}{value}:{taint['effect']}"
    for key, value in mapping(spec.get("nodeSelector")).items():
        if key in keys and flavor.labels.get(key) != value:
            return f"nodeSelector {key}={value}"
    terms = sequence(at(spec, _TERMS))
    # Terms are alternatives. One that says nothing about the keys is met by every flavor.
    if terms and not any(_meets(mapping(term), flavor.labels, keys) for term in terms):
        return "required node affinity"
    return ""


def _meets(term: Object, labels: Mapping[str, str], keys: Set[str]) -> bool:
    expressions = map(mapping, sequence(term.get("matchExpressions")))
    return all(_matches(entry, labels) for entry in expressions if string(entry.get("key")) in keys)


def _matches(expression: Object, labels: Mapping[str, str]) -> bool:
    key, operator = string(expression.get("key")), expression.get("operator")
    values = [text for text in sequence(expression.get("values")) if isinstance(text, str)]
    if operator in ("In", "NotIn", "Exists", "DoesNotExist"):
        return Requirement(key, operator, frozenset(values)).matches(labels)
    return len(values) == 1 and _compares(operator, labels.get(key, ""), values[0])


def _tolerates(toleration: Toleration, taint: Mapping[str, str]) -> bool:
    """As Kubernetes v1.35 has it, its operators Lt and Gt included."""
    if toleration.get("effect") and toleration.get("effect") != taint.get("effect"):
        return False
    if toleration.get("key") and toleration.get("key") != taint.get("key"):
        return False
    operator, value = toleration.get("operator") or "Equal", string(toleration.get("value"))
    if operator == "Exists":
        return True
    if operator == "Equal":
        return value == taint.get("value", "")
    return _compares(operator, taint.get("value", ""), value)


def _compares(operator: Any, left: str, right: str) -> bool:
    """Gt and Lt of whole numbers; anything else is not met."""
    if not (_INTEGER.fullmatch(left) and _INTEGER.fullmatch(right)):
        return False
    match operator:
        case "Gt":
            return int(left) > int(right)
        case "Lt":
            return int(left) < int(right)
    return False
