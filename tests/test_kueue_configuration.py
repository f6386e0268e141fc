"""The running Kueue's Configuration: read from its ConfigMap's text, whatever state that is in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from webhook.kube.kueue_facts import KueueConfigurationFact, Transformation, project_kueue_configuration
from webhook.kube.quantity import NANO
from webhook.kube.selector import LabelSelector, Requirement
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.sources.kueue_configuration import with_configuration

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nintegrations: {frameworks: [pod]}\n"
_POD = frozenset({"pod"})
_JOB = frozenset({"batch/job"})

# Kueue 0.17: config/components/manager/controller_manager_config.yaml, without what is commented out there.
SHIPPED = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: ":8081"}
webhook: {port: 9443}
integrations:
  frameworks:
  - "batch/job"
  - "kubeflow.org/mpijob"
  - "ray.io/rayjob"
  - "ray.io/raycluster"
  - "ray.io/rayservice"
  - "jobset.x-k8s.io/jobset"
  - "kubeflow.org/paddlejob"
  - "kubeflow.org/pytorchjob"
  - "kubeflow.org/tfjob"
  - "kubeflow.org/xgboostjob"
  - "kubeflow.org/jaxjob"
  - "workload.codeflare.dev/appwrapper"
  - "trainer.kubeflow.org/trainjob"
  - "pod"
  - "deployment"
  - "statefulset"
  - "leaderworkerset.x-k8s.io/leaderworkerset"
"""


def config_map(text: Any, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": namespace},
        "data": {"controller_manager_config.yaml": text},
    }


def configuration(text: Any, namespace: str = "kueue-system") -> KueueConfigurationFact | None:
    return project_kueue_configuration(with_configuration(config_map(text, namespace)))


def but(*namespaces: str) -> LabelSelector:
    return LabelSelector((), (Requirement("kubernetes.io/metadata.name", "NotIn", frozenset(namespaces)),))


def test_kueue_as_it_is_shipped() -> None:
    assert configuration(SHIPPED) == KueueConfigurationFact()
    assert configuration(SHIPPED.replace("v1beta2", "v1beta1")) == KueueConfigurationFact()


def test_a_whole_configuration() -> None:
    text = f"""
apiVersion: config.kueue.x-k8s.io/v1beta1
kind: Configuration
managedJobsNamespaceSelector:
  matchLabels: {{team: serving}}
  matchExpressions:
  - {{key: kubernetes.io/metadata.name, operator: In, values: [llm-d, other]}}
manageJobsWithoutQueueName: true
integrations:
  frameworks: [batch/job, deployment]
  externalFrameworks: [Foo.v1.example.com]
  podOptions:
    namespaceSelector: {{matchLabels: {{pods: gated}}}}
featureGates: {{DynamicResourceAllocation: true, DRAExtendedResources: false, Odd: text}}
resources:
  deviceClassMappings:
  - {{name: nvidia.com/gpu, deviceClassNames: [gpu.nvidia.com, old.nvidia.com]}}
  - {{name: foo, deviceClassNames: [foo.example.com]}}
  excludeResourcePrefixes: [cpu, 5, networking.]
  quotaCheckStrategy: IgnoreUndeclared
  transformations:
  - {{input: {GPU}, outputs: {{vram: 80Gi}}}}
  - {{input: cpu, strategy: Replace, multiplyBy: pods, outputs: {{credits: 0.5}}}}
"""
    assert configuration(text) == KueueConfigurationFact(
        excluded_prefixes=("cpu", "networking."),
        transformations=(
            Transformation(GPU, True, {"vram": 80 * 2**30 * NANO}),
            Transformation("cpu", False, {"credits": NANO // 2}, "pods"),
        ),
        checks_undeclared=False,
        managed=LabelSelector(
            (("team", "serving"),),
            (Requirement("kubernetes.io/metadata.name", "In", frozenset({"llm-d", "other"})),),
        ),
        pod_namespaces=LabelSelector((("pods", "gated"),)),
        manages_unlabelled=True,
        frameworks=frozenset({"batch/job", "deployment", "Foo.v1.example.com"}),
        device_classes={
            "gpu.nvidia.com": "nvidia.com/gpu",
            "old.nvidia.com": "nvidia.com/gpu",
            "foo.example.com": "foo",
        },
        features={"DynamicResourceAllocation": True, "DRAExtendedResources": False},
    )


@pytest.mark.parametrize(
    ("more", "namespace", "managed"),
    [
        ("", "openshift-kueue-operator", but("kube-system", "openshift-kueue-operator")),
        ("namespace: queues", "kueue-system", but("kube-system", "queues")),
        ("managedJobsNamespaceSelector: null", "kueue-system", but("kube-system", "kueue-system")),
        ("managedJobsNamespaceSelector: {}", "kueue-system", LabelSelector()),
    ],
)
def test_managed_namespaces(more: str, namespace: str, managed: LabelSelector) -> None:
    found = configuration(f"{HEAD}{more}", namespace)
    assert found == KueueConfigurationFact(namespace=namespace, managed=managed, frameworks=_POD)


@pytest.mark.parametrize(
    "selector",
    [
        "text",
        "{matchLabels: {gpu: yes}}",
        "{matchLabels: [a]}",
        "{matchExpressions: {key: a}}",
        "{matchExpressions: [{key: a, operator: Is}, 5]}",
        "{matchExpressions: [{operator: Exists}]}",
        "{matchExpressions: [{key: a, operator: In, values: [1]}]}",
        "{matchExpressions: [{key: a, operator: NotIn}]}",
        "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
        "{namespaces: [a]}",
    ],
)
def test_selectors_that_are_none(selector: str) -> None:
    found = configuration(f"{HEAD}managedJobsNamespaceSelector: {selector}", "kueue-system")
    assert found is not None
    assert found.unreadable == ("managedJobsNamespaceSelector",)
    head = HEAD.replace("frameworks: [pod]", f"podOptions: {{namespaceSelector: {selector}}}")
    pods = configuration(head, "kueue-system")
    assert pods is not None
    assert pods.unreadable == ("integrations.podOptions.namespaceSelector",)


@pytest.mark.parametrize(
    "selector",
    [
        "null",
        "{}",
        "{matchLabels: null, matchExpressions: null}",
        '{matchLabels: {gpu: "yes"}}',
        "{matchExpressions: [{key: a, operator: In, values: [b]}, {key: a, operator: Exists, values: []}]}",
        "{matchExpressions: [{key: a, operator: DoesNotExist}, {key: a, operator: NotIn, values: [b, c]}]}",
    ],
)
def test_selectors_that_are_some(selector: str) -> None:
    found = configuration(f"{HEAD}managedJobsNamespaceSelector: {selector}", "kueue-system")
    assert found is not None
    assert found.unreadable == ()


@pytest.mark.parametrize(
    ("selector", "left_out"),
    [
        (but("kube-system"), ""),
        (but("llm-d"), "managedJobsNamespaceSelector"),
        # The API server puts its name on every namespace; a manifest of one seldom does.
        (LabelSelector((("kubernetes.io/metadata.name", "llm-d"),)), ""),
        (LabelSelector((("team", "serving"),)), ""),
        (LabelSelector((("team", "other"),)), "managedJobsNamespaceSelector"),
    ],
)
def test_left_out(selector: LabelSelector, left_out: str) -> None:
    fact = KueueConfigurationFact(managed=selector)
    assert fact.leaves_out("pod", "llm-d", {"team": "serving"}) == left_out
    # A Job with the label is taken wherever it is.
    assert fact.leaves_out("batch/job", "llm-d", {"team": "serving"}) == ""


@pytest.mark.parametrize(
    ("frameworks", "framework", "left_out"),
    [
        ("[batch/job, pod]", "pod", ""),
        ("[batch/job, pod]", "batch/job", ""),
        ("[batch/job, pod]", "jobset.x-k8s.io/jobset", "integrations.frameworks"),
        # On for the pods of a Deployment that is labelled itself, and for no others.
        ("[deployment]", "pod", "integrations.frameworks"),
        ("[]", "batch/job", ""),
        ("[]", "pod", "integrations.frameworks"),
        ("null", "batch/job", ""),
        ("[batch/job]", "", ""),
    ],
)
def test_integrations(frameworks: str, framework: str, left_out: str) -> None:
    fact = configuration(HEAD.replace("[pod]", frameworks))
    assert fact is not None
    assert fact.leaves_out(framework, "llm-d", {}) == left_out


def test_pod_options() -> None:
    text = HEAD.replace("[pod]", "[pod], podOptions: {namespaceSelector: {matchLabels: {team: serving}}}")
    fact = configuration(text)
    assert fact is not None
    assert fact.leaves_out("pod", "llm-d", {"team": "serving"}) == ""
    assert fact.leaves_out("pod", "llm-d", {"team": "other"}) == "integrations.podOptions.namespaceSelector"


@pytest.mark.parametrize(
    ("more", "namespace", "held"),
    [
        ("", "llm-d", False),
        ("manageJobsWithoutQueueName: true", "llm-d", True),
        ("manageJobsWithoutQueueName: true", "kube-system", False),
        ("manageJobsWithoutQueueName: 'true'", "llm-d", False),
    ],
)
def test_whether_what_has_no_label_is_held(more: str, namespace: str, held: bool) -> None:
    fact = configuration(SHIPPED + more)
    assert fact is not None
    assert fact.holds_unlabelled(namespace, {}) is held


NOT_ONE = "not one Configuration"
PROBLEMS: dict[str, tuple[Any, str]] = {
    "empty": ("", f"holds 0 objects, {NOT_ONE}"),
    "two": (f"{HEAD}---\n{HEAD}", f"holds 2 objects, {NOT_ONE}"),
    "no text": (5, "has no controller_manager_config.yaml"),
    "absent": (None, "has no controller_manager_config.yaml"),
    "a list": (
        "[1]",
        "cannot be read: line 1: is a list, not an object; a manifest begins with apiVersion and kind",
    ),
    "no YAML": (
        f"{HEAD}a: *b",
        "cannot be read: line 4: is not YAML at column 4: found undefined alias; correct it",
    ),
    "twice": (
        f"{HEAD}a: 1\na: 2",
        'cannot be read: line 5: key "a" is there twice, first on line 4; remove one of them',
    ),
    "deep": (
        f"{HEAD}a: {'[' * 100_000}",
        "cannot be read: line 4: is nested deeper than 200 levels; no Kubernetes object is",
    ),
    "long": ("#" * 300_000, "is longer than 262,144 characters"),
    "another version": (
        "apiVersion: config.kueue.x-k8s.io/v1\nkind: Configuration",
        "is of a version that Floorkeeper does not know: 'config.kueue.x-k8s.io/v1'",
    ),
    "another group": (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Configuration",
        "is of a version that Floorkeeper does not know: 'kueue.x-k8s.io/v1beta2'",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_configuration_that_says_nothing(case: str) -> None:
    text, problem = PROBLEMS[case]
    fact = configuration(text)
    assert fact is not None
    assert fact.problem == problem
    snapshot = Snapshot()
    snapshot.replace("ConfigMap", [fact])
    with pytest.raises(FactsMissing) as missing:
        snapshot.kueue_configuration()
    assert missing.value.reason == f"kueue-system/kueue-manager-config {problem}"


_NO_PODS = KueueConfigurationFact(frameworks=_JOB)
DAMAGED: dict[str, KueueConfigurationFact] = {
    "resources: text": _NO_PODS,
    "resources: {transformations: {input: a}, excludeResourcePrefixes: text}": _NO_PODS,
    "resources: {transformations: [text, {input: [a], strategy: 5, outputs: [b]}, {outputs: {a: much}}]}": replace(
        _NO_PODS,
        transformations=(
            Transformation("", True, {}),
            Transformation("", True, {}),
            Transformation("", True, {"a": 0}),
        ),
    ),
    "integrations: text": _NO_PODS,
    "integrations: {frameworks: pod}": _NO_PODS,
    "integrations: {frameworks: [5, pod], externalFrameworks: text, podOptions: [a]}": replace(
        _NO_PODS, frameworks=_POD
    ),
    "manageJobsWithoutQueueName: {}\nfeatureGates: [a]": _NO_PODS,
    "resources: {deviceClassMappings: [text, {name: [a], deviceClassNames: [b, 5]}, {name: c, deviceClassNames: d}]}": (
        replace(_NO_PODS, device_classes={"b": ""})
    ),
    "namespace: [a]": _NO_PODS,
    "managedJobsNamespaceSelector: {matchLabels: [a], matchExpressions: {key: a}}": replace(
        _NO_PODS, managed=LabelSelector(), unreadable=("managedJobsNamespaceSelector",)
    ),
    "managedJobsNamespaceSelector: {matchExpressions: [{key: [a], operator: [In], values: {a: b}}]}": replace(
        _NO_PODS, managed=LabelSelector(), unreadable=("managedJobsNamespaceSelector",)
    ),
}


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_configuration_is_read_as_far_as_it_goes(text: str) -> None:
    head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
    assert configuration(head + text) == DAMAGED[text]


def test_only_kueues_own_config_map_is_believed() -> None:
    assert configuration(HEAD, "default") is None
    other = {**config_map(HEAD, "kueue-system"), "metadata": {"name": "other", "namespace": "kueue-system"}}
    assert project_kueue_configuration(with_configuration(other)) is None
