"""How the running Kueue is set up: facts of its ConfigMap and of WorkloadPriorityClasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.kube.names import KUEUE_CONFIG_KEY, KUEUE_CONFIG_MAP, KUEUE_NAMESPACES, NAME_LABEL
from webhook.kube.objects import Object, at, group, mapping, metadata, sequence, string
from webhook.kube.quota_facts import amount
from webhook.kube.selector import LabelSelector, Requirement, is_selector, label_selector

_GROUP = "config.kueue.x-k8s.io"
_VERSIONS = ("v1beta1", "v1beta2")

MANAGED_SELECTOR = "managedJobsNamespaceSelector"
POD_SELECTOR = "integrations.podOptions.namespaceSelector"
"""Settings that say of which namespaces Kueue takes notice."""

POD_FRAMEWORK = "pod"
SHIPPED_FRAMEWORKS = frozenset(
    {
        "batch/job",
        "deployment",
        "jobset.x-k8s.io/jobset",
        "kubeflow.org/jaxjob",
        "kubeflow.org/mpijob",
        "kubeflow.org/paddlejob",
        "kubeflow.org/pytorchjob",
        "kubeflow.org/tfjob",
        "kubeflow.org/xgboostjob",
        "leaderworkerset.x-k8s.io/leaderworkerset",
        POD_FRAMEWORK,
        "ray.io/raycluster",
        "ray.io/rayjob",
        "ray.io/rayservice",
        "statefulset",
        "trainer.kubeflow.org/trainjob",
        "workload.codeflare.dev/appwrapper",
    }
)
"""The integrations that are on in Kueue 0.17 as it is shipped."""

_WITH_PODS = frozenset({"deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset"})
"""Those that turn `pod` on for pods that they suspended themselves."""

_FRAMEWORKS = ("batch/job",)
"""Those that are on where the configuration lists none."""


@dataclass(frozen=True, slots=True)
class WorkloadPriorityClassFact:
    name: str


def project_workload_priority_class(value: Object) -> WorkloadPriorityClassFact:
    return WorkloadPriorityClassFact(string(metadata(value).get("name")))


@dataclass(frozen=True, slots=True)
class Transformation:
    """One resources.transformations entry: what Kueue counts instead of a resource (or, if `retain`, beside it).

    `outputs` are billionths of each output resource for one unit of the input. `multiply_by` is a resource whose amount
    the input is multiplied with first, '' without one.
    """

    input: str
    retain: bool
    outputs: Mapping[str, int]
    multiply_by: str = ""


def _all_but(*namespaces: str) -> LabelSelector:
    return LabelSelector(match_expressions=(Requirement(NAME_LABEL, "NotIn", frozenset(namespaces)),))


@dataclass(frozen=True, slots=True)
class KueueConfigurationFact:
    """Kueue's Configuration, as far as it decides what a pod counts for. The defaults are Kueue 0.17 as it is shipped.

    Read from v1beta1 and v1beta2 of config.kueue.x-k8s.io, which spell these fields alike.
    """

    namespace: str = KUEUE_NAMESPACES[0]
    name: str = KUEUE_CONFIG_MAP
    problem: str = ""
    """Why the ConfigMap's text says nothing, '' if it does: then nothing else here holds."""

    excluded_prefixes: tuple[str, ...] = ()
    """resources.excludeResourcePrefixes."""

    transformations: tuple[Transformation, ...] = ()
    checks_undeclared: bool = True
    """False with resources.quotaCheckStrategy IgnoreUndeclared (Kueue 0.18)."""

    managed: LabelSelector = field(default_factory=lambda: _all_but("kube-system", KUEUE_NAMESPACES[0]))
    """managedJobsNamespaceSelector: where pods are gated at all, and where objects without a queue label are held."""

    pod_namespaces: LabelSelector = LabelSelector()
    """integrations.podOptions.namespaceSelector of v1beta1, which narrows where pods are gated."""

    unreadable: tuple[str, ...] = ()
    """Which of these two selectors, by their settings' names, are none: nobody knows what such a one means."""

    manages_unlabelled: bool = False
    """manageJobsWithoutQueueName: what has no queue label is never started, instead of started unseen."""

    frameworks: frozenset[str] = SHIPPED_FRAMEWORKS
    """integrations.frameworks and externalFrameworks: the kinds of which Kueue takes notice."""

    device_classes: Mapping[str, str] = field(default_factory=dict)
    """resources.deviceClassMappings, by DeviceClass: the resource that its devices are counted as."""

    features: Mapping[str, bool] = field(default_factory=dict)
    """featureGates, as far as they are set here and not on Kueue's command line."""

    read: bool = field(default=False, compare=False)
    """Whether it was read at all, and is not what is taken for granted."""

    def leaves_out(self, framework: str, namespace: str, labels: Mapping[str, str]) -> str:
        """The setting by which Kueue takes no notice of a queue label of an integration's kind, '' if it does.

        The namespace counts for pods alone: the other kinds it takes wherever they have the label.
        """
        if framework and framework not in self.frameworks:
            return "integrations.frameworks"
        if framework != POD_FRAMEWORK:
            return ""
        if not self.manages(namespace, labels):
            return MANAGED_SELECTOR
        gated = self.pod_namespaces.matches(_whole(namespace, labels))
        return "" if gated else POD_SELECTOR

    def manages(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the managedJobsNamespaceSelector has the namespace."""
        return self.managed.matches(_whole(namespace, labels))

    @property
    def strands_pods(self) -> bool:
        """Whether pods with a label of their own are gated and never looked at again."""
        return POD_FRAMEWORK not in self.frameworks and not self.frameworks.isdisjoint(_WITH_PODS)

    def holds_unlabelled(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether Kueue never starts what has no queue label in a namespace."""
        return self.manages_unlabelled and self.manages(namespace, labels)


def _whole(namespace: str, labels: Mapping[str, str]) -> Mapping[str, str]:
    """Manifests of a namespace seldom write the label that the API server adds."""
    return labels if NAME_LABEL in labels else {NAME_LABEL: namespace, **labels}


def project_kueue_configuration(value: Object) -> KueueConfigurationFact | None:
    """None for a ConfigMap that is not Kueue's own.

    `data` holds the Configuration as a mapping, or the text of a problem: `webhook.sources` parses the YAML.
    """
    namespace, name = string(metadata(value).get("namespace")), string(metadata(value).get("name"))
    if name != KUEUE_CONFIG_MAP or namespace not in KUEUE_NAMESPACES:
        return None
    configuration = mapping(value.get("data")).get(KUEUE_CONFIG_KEY)
    if not isinstance(configuration, dict):
        problem = configuration if isinstance(configuration, str) else f"has no {KUEUE_CONFIG_KEY}"
        return KueueConfigurationFact(namespace, name, problem)
    version = string(configuration.get("apiVersion"))
    if group(version) != _GROUP or version.rpartition("/")[2] not in _VERSIONS:
        return KueueConfigurationFact(namespace, name, f"is of a version that Floorkeeper does not know: {version!r}")
    resources = mapping(configuration.get("resources"))
    integrations = mapping(configuration.get("integrations"))
    pod_namespaces = at(integrations, ("podOptions", "namespaceSelector"))
    selector = configuration.get(MANAGED_SELECTOR)
    selectors = {MANAGED_SELECTOR: selector, POD_SELECTOR: pod_namespaces}
    return KueueConfigurationFact(
        namespace,
        name,
        excluded_prefixes=_texts(resources.get("excludeResourcePrefixes")),
        transformations=tuple(map(_transformation, map(mapping, sequence(resources.get("transformations"))))),
        checks_undeclared=resources.get("quotaCheckStrategy") != "IgnoreUndeclared",
        managed=_all_but("kube-system", string(configuration.get("namespace")) or namespace)
        if selector is None
        else label_selector(mapping(selector)),
        pod_namespaces=label_selector(mapping(pod_namespaces)),
        unreadable=tuple(name for name, value in selectors.items() if value is not None and not is_selector(value)),
        manages_unlabelled=configuration.get("manageJobsWithoutQueueName") is True,
        frameworks=frozenset(
            (_texts(integrations.get("frameworks")) or _FRAMEWORKS) + _texts(integrations.get("externalFrameworks"))
        ),
        device_classes={
            device_class: string(entry.get("name"))
            for entry in map(mapping, sequence(resources.get("deviceClassMappings")))
            for device_class in _texts(entry.get("deviceClassNames"))
        },
        features={
            name: enabled
            for name, enabled in mapping(configuration.get("featureGates")).items()
            if isinstance(enabled, bool)
        },
        read=True,
    )


def _transformation(entry: Object) -> Transformation:
    return Transformation(
        string(entry.get("input")),
        entry.get("strategy") != "Replace",
        {resource: amount(text) for resource, text in mapping(entry.get("outputs")).items()},
        string(entry.get("multiplyBy")),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in sequence(value) if isinstance(text, str))
