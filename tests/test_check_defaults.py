"""The API server's defaults, for objects that never were at one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from webhook.check.defaults import filled_in
from webhook.kube.kinds import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    LEADER_WORKER_SET,
    LOCAL_QUEUE,
    NAMESPACE,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)

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


def test_labels_of_a_template_where_the_object_has_none() -> None:
    """Of its kinds, these two alone take them, and a ReplicationController also its selector."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}}
    filled = {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC}
    value = {"metadata": {"name": "x"}, "spec": {"template": template}}
    named = {"name": "x", "labels": {"app": "x"}}
    assert filled_in(JOB, value) == {"metadata": named, "spec": {"template": filled}}
    spec = {"replicas": 1, "selector": {"app": "x"}, "template": filled}
    assert filled_in(REPLICATION_CONTROLLER, value) == {"metadata": named, "spec": spec}
    assert filled_in(DAEMON_SET, value) == {"metadata": {"name": "x"}, "spec": {"template": filled}}
    own = {"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"selector": {"c": "d"}, "template": template}}
    spec = {"replicas": 1, "selector": {"c": "d"}, "template": filled}
    assert filled_in(REPLICATION_CONTROLLER, own) == {"metadata": own["metadata"], "spec": spec}


def test_the_template_of_a_cron_job() -> None:
    value: Object = {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}}
    assert filled_in(CRON_JOB, value) == {"spec": {"jobTemplate": {"spec": {"template": {"spec": POD_SPEC}}}}}


def test_a_custom_resource_has_no_defaults_that_we_know() -> None:
    value = {"metadata": {"name": "x"}, "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {}}}}}
    assert filled_in(LEADER_WORKER_SET, value) == value


@pytest.mark.parametrize("labels", [None, {}, {"kubernetes.io/metadata.name": "other"}])
def test_a_namespace_is_labelled_with_its_name(labels: Any) -> None:
    filled = filled_in(NAMESPACE, {"kind": "Namespace", "metadata": {"name": "team", "labels": labels}})
    assert filled["metadata"] == {"name": "team", "labels": {"kubernetes.io/metadata.name": "team"}}


@pytest.mark.parametrize("value", [{}, {"spec": None}, {"spec": 3}, {"spec": [], "metadata": "x"}])
@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET, POD, JOB, CRON_JOB, REPLICATION_CONTROLLER])
def test_what_is_damaged_stays(kind: Kind, value: Object) -> None:
    assert filled_in(kind, value) == value
