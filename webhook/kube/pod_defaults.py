"""What the API server adds to a pod's requests: facts of LimitRanges and RuntimeClasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.kube.objects import Object, at, mapping, metadata, sequence, string
from webhook.kube.quota_facts import amounts


@dataclass(frozen=True, slots=True)
class LimitRangeFact:
    """What a container requests that names neither request nor limit, in billionths by resource.

    It is defaultRequest of the spec.limits entries of type Container and, where that is silent, default, max or min, as
    the API server fills them in (Kubernetes v1.36, SetDefaults_LimitRangeItem): a manifest is judged before it has.
    """

    namespace: str
    name: str
    default_requests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuntimeClassFact:
    """`overhead` (overhead.podFixed) is added to each pod, in billionths by resource."""

    name: str
    overhead: Mapping[str, int] = field(default_factory=dict)


def project_limit_range(value: Object) -> LimitRangeFact:
    requests: dict[str, int] = {}
    for entry in map(mapping, sequence(at(value, ("spec", "limits")))):
        if entry.get("type") == "Container":
            for part in ("min", "max", "default", "defaultRequest"):
                requests |= amounts(entry.get(part))
    named = metadata(value)
    return LimitRangeFact(string(named.get("namespace")), string(named.get("name")), requests)


def project_runtime_class(value: Object) -> RuntimeClassFact:
    return RuntimeClassFact(string(metadata(value).get("name")), amounts(at(value, ("overhead", "podFixed"))))
