"""What the API server asks us about: the webhook configurations, as plain dicts.

Kubernetes decides in three steps whether it calls us, and each is as narrow as the rules allow: the resources and
operations of an entry, its namespaceSelector, and its matchConditions, which are CEL and see the object. Whatever they
leave out goes on working while we are down.

A match condition that fails to evaluate refuses the request (failurePolicy Fail), and mutating webhooks see objects
before they are validated. So the CEL here reads every field as optional: `.?` finds nothing in an absent field, in null
and in a scalar, and a list or a map is entered only after a look at its type. Only a list in the place of an object is
an error, and only a custom resource without a schema can hold that. Needs Kubernetes 1.30.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from textwrap import indent
from typing import Any

from webhook.engine.policy import Policy
from webhook.kube.accelerators import Accelerators
from webhook.kube.kinds import LOCAL_QUEUE, NAMESPACE, OWNERS, RESOURCE_QUOTA, WORKLOADS, Kind
from webhook.kube.names import DEFAULT_LOCAL_QUEUE, QUEUE_LABEL, SYSTEM_NAMESPACES
from webhook.kube.objects import Path
from webhook.kube.selector import LabelSelector, Requirement

NAME = "floorkeeper"
"""Of both configurations. Mutating webhooks run in order of this name, and it must sort before Kueue's."""

_HOME = "floorkeeper-system"

_CREATE, _UPDATE = "CREATE", "UPDATE"

Condition = tuple[str, str]
"""One matchCondition: its name and its CEL expression."""


def webhook_configurations(policy: Policy, workloads: Sequence[Kind] = WORKLOADS) -> list[dict[str, Any]]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration for a policy.

    `workloads` are rows of the kinds table. Every field that the API server would fill in is spelled out, so that what
    it stores is what is here and GitOps tools see no drift. caBundle is absent: it is not known before there is a
    certificate.
    """
    managed = policy.managed_namespaces
    # Pods are apart from the objects that make them, so that an admin can relax the one without the other.
    concerns = {
        "workloads": [row for row in workloads if () not in row.templates],
        "pods": [row for row in workloads if () in row.templates],
    }

    def judged(door: str) -> list[dict[str, Any]]:
        return [
            _webhook(concern, door, managed, _rules(rows), [_ALIVE, _TOP, _gpu_or_queue(rows, policy.accelerators)])
            for concern, rows in concerns.items()
            if rows
        ]

    quotas = _rule([RESOURCE_QUOTA], [_CREATE, _UPDATE])
    # Advice, since nothing that these two let slip makes a queue admit too much.
    default_queues = _rule([LOCAL_QUEUE], [_CREATE])
    namespaces = _rule([NAMESPACE], [_CREATE, _UPDATE], scope="Cluster")
    validating = [
        *judged("validate"),
        _webhook("resourcequotas", "validate", managed, [quotas], [_ALIVE, _SPEC_CHANGES]),
        _advisory(_webhook("localqueues", "validate", managed, [default_queues], [_IS_DEFAULT])),
        _advisory(_webhook("namespaces", "validate", managed, [namespaces], [_ALIVE, _becomes_managed(managed)])),
    ]
    return [
        _configuration("Mutating", [{**webhook, "reinvocationPolicy": "Never"} for webhook in judged("mutate")]),
        _configuration("Validating", validating),
    ]


def _configuration(door: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{door}WebhookConfiguration",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": NAME}},
        "webhooks": webhooks,
    }


def _webhook(
    concern: str, door: str, managed: LabelSelector, rules: list[dict[str, Any]], conditions: Sequence[Condition]
) -> dict[str, Any]:
    service = {"name": NAME, "namespace": _HOME, "path": f"/{door}", "port": 8443}
    return {
        "name": f"{concern}.{door}.floorkeeper.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "rules": rules,
        "namespaceSelector": _namespace_selector(managed),
        "objectSelector": {},
        "matchConditions": [{"name": name, "expression": expression} for name, expression in conditions],
    }


def _advisory(webhook: dict[str, Any]) -> dict[str, Any]:
    """The same entry for advice: nobody waits long for it, and nothing stops without it."""
    return {**webhook, "failurePolicy": "Ignore", "timeoutSeconds": 2}


def _rules(rows: Sequence[Kind]) -> list[dict[str, Any]]:
    """One rule for each group of rows that differ by nothing but the resource, in the order of the table."""
    groups: dict[tuple[str, tuple[str, ...], bool], list[Kind]] = {}
    for row in rows:
        groups.setdefault((row.group, row.versions, row.label_on_update), []).append(row)
    # Where a later label changes nothing there is nothing to say at UPDATE, and Kueue ungates a Pod by UPDATE.
    return [
        _rule(members, [_CREATE, _UPDATE] if label_on_update else [_CREATE])
        for (_, _, label_on_update), members in groups.items()
    ]


def _rule(rows: Sequence[Kind], operations: list[str], scope: str = "Namespaced") -> dict[str, Any]:
    """`rows` share their group and versions. A resource without a slash is the main resource, never scale or status."""
    return {
        "apiGroups": [rows[0].group],
        "apiVersions": list(rows[0].versions),
        "operations": operations,
        "resources": [row.resource for row in rows],
        "scope": scope,
    }


def _namespace_selector(managed: LabelSelector) -> dict[str, Any]:
    """The policy's selector without the system's namespaces. For a Namespace, the API server holds it to its labels."""
    system = Requirement("kubernetes.io/metadata.name", "NotIn", frozenset(SYSTEM_NAMESPACES))
    expressions = []
    for requirement in (*managed.match_expressions, system):
        expression: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
        if requirement.values:
            expression["values"] = sorted(requirement.values)
        expressions.append(expression)
    labels = {"matchLabels": dict(managed.match_labels)} if managed.match_labels else {}
    return {**labels, "matchExpressions": expressions}


def _literal(value: str | Iterable[str]) -> str:
    """A string, or a list of them, in CEL, which takes JSON's escapes (but not its surrogate pairs)."""
    return json.dumps(value if isinstance(value, str) else list(value), ensure_ascii=False)


def _any(values: str, variable: str, holds: str) -> str:
    """CEL: whether `holds`, which speaks of `variable`, is true of one of the values."""
    return f"{values}.exists({variable},\n{indent(holds, '  ')})"


def _any_entry(lists: Sequence[str], variable: str, holds: str) -> str:
    """CEL: the same of the entries of these optional values, as far as they are there and are lists."""
    values = ", ".join(f"{optional}.orValue(null)" for optional in lists)
    return f"[{values}].exists(entries, type(entries) == list && {_any('entries', variable, holds)})"


def _or(terms: Iterable[str]) -> str:
    return " ||\n".join(terms)


_LABEL = _literal(QUEUE_LABEL)

_ALIVE = ("not-being-deleted", "!has(object.metadata.deletionTimestamp)")

_SPEC_CHANGES = ("spec-changes", f'request.operation != "{_UPDATE}" || object.?spec != oldObject.?spec')

_IS_DEFAULT = ("is-default", f'object.metadata.?name.orValue("") == {_literal(DEFAULT_LOCAL_QUEUE)}')

_OWNER_IS_WORKLOAD = f"""\
owner.?controller.orValue(false) &&
(owner.apiVersion.contains("/") ? owner.apiVersion.split("/")[0] : "") + "/" + owner.kind in
  {_literal(f"{group}/{kind}" for group, kind in sorted(OWNERS))}"""

_TOP = (
    "no-workload-owns-it",
    # The old object too: orphaning takes the reference away, and must go on while we are down.
    "!"
    + _any_entry(
        ["object.metadata.?ownerReferences", "oldObject.?metadata.?ownerReferences"], "owner", _OWNER_IS_WORKLOAD
    ),
)


def _becomes_managed(managed: LabelSelector) -> Condition:
    """An UPDATE that turns the selector's answer from no to yes; that it is yes now, the namespaceSelector has seen."""
    terms = [f"{_old_label(key)} == optional.of({_literal(value)})" for key, value in managed.match_labels]
    terms += [_requirement(requirement) for requirement in managed.match_expressions]
    return "becomes-managed", f'request.operation != "{_UPDATE}" || !({" && ".join(terms) or "true"})'


def _requirement(requirement: Requirement) -> str:
    """CEL: what Requirement.matches says of the labels of oldObject."""
    label = _old_label(requirement.key)
    among = f"{label}.hasValue() && {label}.value() in {_literal(sorted(requirement.values))}"
    match requirement.operator:
        case "In":
            return f"({among})"
        case "NotIn":
            return f"!({among})"
        case "Exists":
            return f"{label}.hasValue()"
        case _:
            return f"!{label}.hasValue()"


def _old_label(key: str) -> str:
    return f"oldObject.metadata.?labels[?{_literal(key)}]"


def _gpu_or_queue(rows: Sequence[Kind], accelerators: Accelerators) -> Condition:
    """Whether the object or, on UPDATE, what it was before has anything to do with GPUs or with a queue.

    What it was counts because a label can also be taken away. The fields of all rows are looked for in each object: one
    that its kind does not have is absent.
    """
    templates = dict.fromkeys(path for row in rows for path in row.templates)
    selectors = dict.fromkeys(row.selector for row in rows if row.selector)
    queues = [
        _any(_values(dict.fromkeys([(), *templates])), "labelled", f"labelled.?metadata.?labels[?{_LABEL}].hasValue()"),
        *(f"it{_steps(path)}.?matchLabels[?{_LABEL}].hasValue()" for path in selectors),
    ]
    if selectors:
        expressions = [f"it{_steps(path)}.?matchExpressions" for path in selectors]
        queues.append(_any_entry(expressions, "entry", f'entry.?key.orValue("") == {_LABEL}'))
    either = _or([*queues, _any(_values(templates), "pod", _uses_gpus(accelerators))])
    return "gpu-or-queue", _any("[object, oldObject]", "it", f"it != null && (\n{indent(either, '  ')})")


def _uses_gpus(accelerators: Accelerators) -> str:
    """CEL: whether `pod` names an accelerator, openly or, generously read, behind Kueue's back (hidden-gpu-use)."""
    runtime_class = 'type(name) == string && (name == "nvidia" || name.startsWith("nvidia-"))'
    # Odd spellings (//dev, /dev/./nvidia0, dev) lead there too; '..' in a host path is refused by the API server.
    device_path = r'type(path) == string && path.matches("^[/.]*dev([/.]*|[/.]+nvidia.*)$")'
    amounts = "[container.?resources.?requests.orValue(null), container.?resources.?limits.orValue(null)]"
    asked = f'({_covers(accelerators)}) && named[resource] != "0" && named[resource] != 0'
    in_container = [
        _any(amounts, "named", f"type(named) == map && {_any('named', 'resource', asked)}"),
        _any_entry(["container.?env"], "variable", 'variable.?name.orValue("") == "NVIDIA_VISIBLE_DEVICES"'),
    ]
    terms = [
        _any('[pod.?spec.?runtimeClassName.orValue("")]', "name", runtime_class),
        _any_entry(["pod.?spec.?volumes"], "volume", _any('[volume.?hostPath.?path.orValue("")]', "path", device_path)),
        _any_entry(["pod.?spec.?initContainers", "pod.?spec.?containers"], "container", _or(in_container)),
    ]
    return _or(terms)


def _covers(accelerators: Accelerators) -> str:
    """CEL: what Accelerators.covers says of `resource`."""
    terms = [f"resource in {_literal(sorted(accelerators.exact))}"] if accelerators.exact else []
    terms += [f"resource.startsWith({_literal(prefix)})" for prefix in accelerators.prefixes]
    return _or(terms) or "false"


def _values(paths: Iterable[Path]) -> str:
    """CEL: a list of what is at these paths of `it`, null where there is nothing."""
    # dyn, for else an item of a list that is not known would be taken to be of null's type.
    return f"[{', '.join(f'it{_steps(path)}.orValue(dyn(null))' if path else 'it' for path in paths)}]"


def _steps(path: Path) -> str:
    return "".join(f".?{step}" if isinstance(step, str) else f"[?{step}]" for step in path)
