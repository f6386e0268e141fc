"""The API server's defaults, for objects that never were at one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from webhook.check.defaults import filled_in
from webhook.kube.kinds import DEPLOYMENT, LOCAL_QUEUE, NAMESPACE, POD, REPLICA_SET, STATEFUL_SET, Kind

Object = dict[str, Any]
ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
POD_SPEC = {"containers": [], "terminationGracePeriodSeconds": 30}
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("kind", "spec", "filled"),
    [
        (
            DEPLOYMENT,
            {"template": {"spec": {"containers": []}}},
            {"template": {"spec": POD_SPEC}, "replicas": 1, "strategy": ROLLING},
        ),
        (
            DEPLOYMENT,
            {"replicas": None, "strategy": None, "template": {"spec": {"containers": []}}},
            {"template": {"spec": POD_SPEC}, "replicas": 1, "strategy": ROLLING},
        ),
        (DEPLOYMENT, {"strategy": {"type": ""}, "replicas": 2}, {"strategy": ROLLING, "replicas": 2}),
        (
            DEPLOYMENT,
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": None}}},
            {
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
                "replicas": 1,
            },
        ),
        (
            DEPLOYMENT,
            {
                "replicas": 0,
                "strategy": {"type": "Recreate"},
                "template": {"spec": {"terminationGracePeriodSeconds": 0}},
            },
            {
                "replicas": 0,
                "strategy": {"type": "Recreate"},
                "template": {"spec": {"terminationGracePeriodSeconds": 0}},
            },
        ),
        (STATEFUL_SET, {"template": {"spec": {"containers": []}}}, {"template": {"spec": POD_SPEC}, "replicas": 1}),
        (REPLICA_SET, {"template": {"metadata": {}}}, {"template": {"metadata": {}}, "replicas": 1}),
        (
            DEPLOYMENT,
            {"strategy": "fast", "template": {"spec": []}},
            {"strategy": "fast", "template": {"spec": []}, "replicas": 1},
        ),
        (LOCAL_QUEUE, {"clusterQueue": "a"}, {"clusterQueue": "a"}),
    ],
)
def test_spec(kind: Kind, spec: Object, filled: Object) -> None:
    value = {"apiVersion": "apps/v1", "kind": kind.kind, "spec": spec}
    before = copy.deepcopy(value)
    assert filled_in(kind, value) == {**value, "spec": filled}
    assert value == before


@pytest.mark.parametrize(
    ("resources", "filled"),
    [
        ({"limits": {GPU: "1"}}, {"limits": {GPU: "1"}, "requests": {GPU: "1"}}),
        ({"limits": {GPU: 2}, "requests": None}, {"limits": {GPU: 2}, "requests": {GPU: 2}}),
        ({"limits": {GPU: "1"}, "requests": {"cpu": 1}}, {"limits": {GPU: "1"}, "requests": {"cpu": 1, GPU: "1"}}),
        ({"limits": {GPU: "2"}, "requests": {GPU: "1"}}, {"limits": {GPU: "2"}, "requests": {GPU: "1"}}),
        ({"limits": {GPU: "2"}, "requests": 1}, {"limits": {GPU: "2"}, "requests": 1}),
        ({"limits": "2"}, {"limits": "2"}),
        (None, None),
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_limits_of_a_pod_are_its_requests(field: str, resources: Any, filled: Any) -> None:
    value = {"spec": {field: [{"name": "a", "resources": resources}, "damaged"]}}
    expected = {field: [{"name": "a", "resources": filled}, "damaged"], "terminationGracePeriodSeconds": 30}
    assert filled_in(POD, value)["spec"] == expected


def test_limits_of_a_pod_template_are_none() -> None:
    container = {"name": "a", "resources": {"limits": {GPU: "1"}}}
    filled = filled_in(DEPLOYMENT, {"spec": {"template": {"spec": {"containers": [container]}}}})
    assert filled["spec"]["template"]["spec"]["containers"] == [container]


@pytest.mark.parametrize("labels", [None, {}, {"kubernetes.io/metadata.name": "other"}])
def test_a_namespace_is_labelled_with_its_name(labels: Any) -> None:
    filled = filled_in(NAMESPACE, {"kind": "Namespace", "metadata": {"name": "team", "labels": labels}})
    assert filled["metadata"] == {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}}


@pytest.mark.parametrize("value", [{}, {"spec": None}, {"spec": 3}, {"spec": [], "metadata": "x"}])
@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET, POD])
def test_what_is_damaged_stays(kind: Kind, value: Object) -> None:
    assert filled_in(kind, value) == value
