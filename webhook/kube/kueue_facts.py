"""How the running Kueue is set up: facts of its ConfigMap and of WorkloadPriorityClasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.kube.names import KUEUE_CONFIG_KEY, KUEUE_CONFIG_MAP, KUEUE_NAMESPACES, NAME_LABEL
from webhook.kube.objects import Object, at, group, mapping, metadata, sequence, string
from webhook.kube.quota_facts import amount
from webhook.kube.selector import LabelSelector, Requirement, label_selector

_GROUP = "config.kueue.x-k8s.io"
_VERSIONS = ("v1beta1", "v1beta2")
"""The label that the API server gives to every namespace: its name."""


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
    """managedJobsNamespaceSelector: where pods are gated at all."""

    gates_pods: bool = True
    """integrations.frameworks has `pod`, without which the queue label does nothing."""

    def leaves_out(self, namespace: str, labels: Mapping[str, str]) -> str:
        """The setting by which Kueue gates no pod of a namespace, '' if it gates those with a queue label."""
        if not self.gates_pods:
            return "integrations.frameworks"
        # Manifests of a namespace seldom write the label that the API server adds.
        return "" if self.managed.matches({NAME_LABEL: namespace, **labels}) else "managedJobsNamespaceSelector"


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
    selector = configuration.get("managedJobsNamespaceSelector")
    return KueueConfigurationFact(
        namespace,
        name,
        excluded_prefixes=_texts(resources.get("excludeResourcePrefixes")),
        transformations=tuple(map(_transformation, map(mapping, sequence(resources.get("transformations"))))),
        checks_undeclared=resources.get("quotaCheckStrategy") != "IgnoreUndeclared",
        managed=_all_but("kube-system", string(configuration.get("namespace")) or namespace)
        if selector is None
        else label_selector(mapping(selector)),
        gates_pods="pod" in sequence(at(configuration, ("integrations", "frameworks"))),
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
