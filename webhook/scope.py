"""What the API server asks us about: the webhook configurations, as plain dicts.

Kubernetes decides in three steps whether it calls us, and each is as narrow as the rules allow: the resources and
operations of an entry, its namespaceSelector, and its matchConditions, which are CEL and see the object. Whatever they
leave out goes on working while we are down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.conditions import (
    ALIVE,
    BY_NO_CONTROLLER,
    IS_DEFAULT,
    NOT_BY_KUEUE,
    NOT_YET_DELETED,
    SPEC_CHANGES,
    Condition,
    becomes_managed,
    gpu_or_queue,
    top,
)
from webhook.engine.policy import Policy
from webhook.kube.kinds import (
    AUTOSCALERS,
    CLUSTER_QUEUE,
    FLOORS,
    LOCAL_QUEUE,
    NAMESPACE,
    POD,
    RESOURCE_QUOTA,
    Kind,
)
from webhook.kube.names import NAME_LABEL, SYSTEM_NAMESPACES
from webhook.kube.objects import mapping, sequence
from webhook.kube.selector import LabelSelector, Requirement, label_selector

NAME = "floorkeeper"
"""Of both configurations. Mutating webhooks run in order of this name, and it must sort before Kueue's."""

OF_POLICY = ("rules", "namespaceSelector", "matchConditions")
"""The fields of a webhook that follow from the policy. An admin may change the others, such as failurePolicy."""

_COMPONENT = {"app.kubernetes.io/component": "webhook"}
"""By which an admin applies all else first."""

_HOME = "floorkeeper-system"

_CREATE, _UPDATE, _DELETE = "CREATE", "UPDATE", "DELETE"

_ADVISORY = {"failurePolicy": "Ignore", "timeoutSeconds": 2}
"""For advice: nobody waits long for it, and nothing stops without it."""


def webhook_configurations(policy: Policy) -> list[dict[str, Any]]:
    """The MutatingWebhookConfiguration and the ValidatingWebhookConfiguration for a policy.

    Every field that the API server would fill in is spelled out, so that what
    it stores is what is here and GitOps tools see no drift. caBundle is absent: it is not known before there is a
    certificate.
    """
    managed = policy.managed_namespaces
    # Kinds are in several entries, so that an admin can relax one without the others.
    entries: dict[str, list[Kind]] = {}
    for row in policy.kinds.workloads:
        entries.setdefault(row.entry, []).append(row)
    owned = top(policy.kinds)

    def judged(door: str) -> list[dict[str, Any]]:
        return [
            _webhook(
                entry, door, managed, _rules(rows), [*_about(rows), owned, gpu_or_queue(rows, policy.accelerators)]
            )
            for entry, rows in entries.items()
        ]

    def validated(
        concern: str, rules: list[dict[str, Any]], conditions: Sequence[Condition], **fields: Any
    ) -> dict[str, Any]:
        return {**_webhook(concern, "validate", managed, rules, conditions), **fields}

    changed = [ALIVE, SPEC_CHANGES]
    quotas = [_rule([RESOURCE_QUOTA], [_CREATE, _UPDATE])]
    default_queues = [_rule([LOCAL_QUEUE], [_CREATE])]
    namespaces = [_rule([NAMESPACE], [_CREATE, _UPDATE], scope="Cluster")]
    deletions = [_rule([LOCAL_QUEUE, CLUSTER_QUEUE], [_DELETE], scope="*")]
    validating = [
        *judged("validate"),
        validated("resourcequotas", quotas, changed),
        # Advice, since nothing that these two let slip makes a queue admit too much.
        validated("localqueues", default_queues, [IS_DEFAULT], **_ADVISORY),
        validated("namespaces", namespaces, [ALIVE, becomes_managed(managed)], **_ADVISORY),
        validated(
            "floors",
            _rules(FLOORS),
            changed,
            # What is in no namespace is asked about whatever stands here.
            namespaceSelector={},
            # What is let in is promised its capacity until it is stored.
            sideEffects="NoneOnDryRun",
            # The cluster is read past the watch, and the promise is written.
            timeoutSeconds=10,
        ),
        # Clean-up must not wait for us.
        validated("queue-deletions", deletions, [NOT_YET_DELETED, BY_NO_CONTROLLER], failurePolicy="Ignore"),
        validated("autoscalers", _rules(AUTOSCALERS), changed, **_ADVISORY),
    ]
    return [
        _configuration("Mutating", [{**webhook, "reinvocationPolicy": "Never"} for webhook in judged("mutate")]),
        _configuration("Validating", validating),
    ]


def _about(rows: Sequence[Kind]) -> list[Condition]:
    return [ALIVE, NOT_BY_KUEUE] if any(row.gang for row in rows) else [ALIVE]


def agree(registered: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the API server asks what these configurations want it to ask, as far as they are registered at all."""
    of_kind = {configuration["kind"]: _scope(configuration) for configuration in wanted}
    return all(_scope(configuration) == of_kind.get(configuration.get("kind")) for configuration in registered)


def guarded(webhook: Mapping[str, Any]) -> LabelSelector | None:
    """The selector that a policy had for this webhook to be made of it; None for one that no policy narrows."""
    selector = label_selector(mapping(webhook.get("namespaceSelector")))
    expressions = tuple(each for each in selector.match_expressions if each != _NOT_OF_THE_SYSTEM)
    return None if selector == LabelSelector() else LabelSelector(selector.match_labels, expressions)


def _scope(configuration: Mapping[str, Any]) -> dict[Any, list[Any]]:
    """Of each webhook by its name."""
    webhooks = map(mapping, sequence(configuration.get("webhooks")))
    return {webhook.get("name"): [webhook.get(field) for field in OF_POLICY] for webhook in webhooks}


def _configuration(door: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{door}WebhookConfiguration",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/name": NAME, **_COMPONENT}},
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


def _rules(rows: Sequence[Kind]) -> list[dict[str, Any]]:
    """One rule for each group of rows that differ by nothing but the resource, in the order of the table.

    The rows of one group are all cluster-scoped, or none is.
    """
    groups: dict[tuple[str, tuple[str, ...], bool], list[Kind]] = {}
    for row in rows:
        groups.setdefault((row.group, row.versions, row is POD), []).append(row)
    # A Pod that exists cannot be mended, and Kueue ungates it by UPDATE.
    return [
        _rule(
            members,
            [_CREATE] if is_pod else [_CREATE, _UPDATE],
            scope="Cluster" if members[0].cluster_scoped else "Namespaced",
        )
        for (_, _, is_pod), members in groups.items()
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


_NOT_OF_THE_SYSTEM = Requirement(NAME_LABEL, "NotIn", frozenset(SYSTEM_NAMESPACES))


def _namespace_selector(managed: LabelSelector) -> dict[str, Any]:
    """The policy's selector without the system's namespaces. For a Namespace, the API server holds it to its labels."""
    expressions = []
    for requirement in (*managed.match_expressions, _NOT_OF_THE_SYSTEM):
        expression: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
        if requirement.values:
            expression["values"] = sorted(requirement.values)
        expressions.append(expression)
    labels = {"matchLabels": dict(managed.match_labels)} if managed.match_labels else {}
    return {**labels, "matchExpressions": expressions}
