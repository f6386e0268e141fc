"""The conditions under which the API server asks us, in CEL.

A match condition that fails to evaluate refuses the request (failurePolicy Fail), and mutating webhooks see objects
before they are validated. So the CEL here reads every field as optional: `.?` finds nothing in an absent field, in null
and in a scalar, and a list or a map is entered only after a look at its type. Only a list in the place of an object is
an error, and only a custom resource without a schema can hold that. Needs Kubernetes 1.30.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from textwrap import indent

from webhook.kube.accelerators import Accelerators
from webhook.kube.kinds import OWNERS, Kind
from webhook.kube.names import DEFAULT_LOCAL_QUEUE, QUEUE_LABEL
from webhook.kube.objects import Path
from webhook.kube.selector import LabelSelector, Requirement

Condition = tuple[str, str]
"""One matchCondition: its name and its CEL expression."""


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

ALIVE = ("not-being-deleted", "!has(object.metadata.deletionTimestamp)")

SPEC_CHANGES = ("spec-changes", 'request.operation != "UPDATE" || object.?spec != oldObject.?spec')

NOT_YET_DELETED = ("not-yet-deleted", "!has(oldObject.metadata.deletionTimestamp)")

_CONTROLLERS = (
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    # Both of them, where controllers have no accounts of their own.
    "system:kube-controller-manager",
)
BY_NO_CONTROLLER = ("by-no-controller", f"!(request.userInfo.username in {_literal(_CONTROLLERS)})")

IS_DEFAULT = ("is-default", f'object.metadata.?name.orValue("") == {_literal(DEFAULT_LOCAL_QUEUE)}')

_OWNER_IS_WORKLOAD = f"""\
owner.?controller.orValue(false) &&
(owner.apiVersion.contains("/") ? owner.apiVersion.split("/")[0] : "") + "/" + owner.kind in
  {_literal(f"{group}/{kind}" for group, kind in sorted(OWNERS))}"""

TOP = (
    "no-workload-owns-it",
    # The old object too: orphaning takes the reference away, and must go on while we are down.
    "!"
    + _any_entry(
        ["object.metadata.?ownerReferences", "oldObject.?metadata.?ownerReferences"], "owner", _OWNER_IS_WORKLOAD
    ),
)


def becomes_managed(managed: LabelSelector) -> Condition:
    """An UPDATE that turns the selector's answer from no to yes; that it is yes now, the namespaceSelector has seen."""
    terms = [f"{_old_label(key)} == optional.of({_literal(value)})" for key, value in managed.match_labels]
    terms += [_requirement(requirement) for requirement in managed.match_expressions]
    return "becomes-managed", f'request.operation != "UPDATE" || !({" && ".join(terms) or "true"})'


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


def gpu_or_queue(rows: Sequence[Kind], accelerators: Accelerators) -> Condition:
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
