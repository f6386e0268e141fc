"""The defaults that kube-apiserver fills in before it asks a webhook: those that a rule reads, and no more.

Read in k8s.io/kubernetes 1.36, pkg/apis/apps/v1/defaults.go and pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

import copy
from typing import Any

from scripts.quickstart.example import Object

_QUARTER = "25%"
_GRACE_SECONDS = 30


def filled_in(value: Object) -> dict[str, Any]:
    """A copy of the object with the defaults of its kind. Fields that are there keep their values."""
    filled: dict[str, Any] = copy.deepcopy(dict(value))
    if (filled["apiVersion"], filled["kind"]) == ("apps/v1", "Deployment"):
        _fill_in_deployment(filled["spec"])
    return filled


def _fill_in_deployment(spec: dict[str, Any]) -> None:
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", _QUARTER)
        rolling.setdefault("maxUnavailable", _QUARTER)
    spec["template"]["spec"].setdefault("terminationGracePeriodSeconds", _GRACE_SECONDS)
