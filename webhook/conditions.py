"""The conditions under which the API server asks us, in CEL.

A match condition that fails to evaluate refuses the request (failurePolicy Fail), and mutating webhooks see objects
before they are validated. So the CEL here reads every field as optional: `.?` finds nothing in an absent field, in null
and in a scalar, and a list or a map is entered only after a look at its type. Only a list in the place of an object is
an error, and such an object is refused by its kind's schema too. Needs Kubernetes 1.30.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from textwrap import indent

from webhook.kube.accelerators import Accelerators
from webhook.kube.hidden_use import CDI_PREFIX, DEVICES, MOUNTED, VARIABLES
from webhook.kube.kinds import REPLICATION_CONTROLLER, Kind, Kinds
from webhook.kube.names import DEFAULT_LOCAL_QUEUE, KUEUE_NAMESPACES, QUEUE_LABEL
from webhook.kube.objects import Path
from webhook.kube.paths import EVERY_ITEM, STARS
from webhook.kube.row import Relabel, Template
from webhook.kube.selector import LabelSelector, Requirement
from webhook.kube.shapes import POD, Shape

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

_BY_KUEUE = [f"system:serviceaccount:{namespace}:" for namespace in KUEUE_NAMESPACES]
NOT_BY_KUEUE = (
    "not-by-kueue",
    # It starts and stops what it admits by writing to it, and must go on while we are down.
    'request.operation != "UPDATE" || !('
    + " || ".join(f"request.userInfo.username.startsWith({_literal(account)})" for account in _BY_KUEUE)
    + ")",
)


def top(kinds: Kinds) -> Condition:
    """Whether no workload owns the object. What a CronJob makes without a queue label is its own."""
    makers = [row for row in kinds.workloads if row.relabel is Relabel.NEW_JOBS]
    owner = '(owner.apiVersion.contains("/") ? owner.apiVersion.split("/")[0] : "") + "/" + owner.kind'
    names = (f"{row.group}/{kind}" for row in kinds.workloads for kind in (row.kind, *row.between))
    owned = f"{owner} in\n  {_literal(sorted(names))}"
    if makers:
        late = f"{owner} in {_literal(f'{row.group}/{row.kind}' for row in makers)}"
        labelled = f"object.metadata.?labels[?{_LABEL}].hasValue()"
        owned += f' &&\n!(request.operation == "CREATE" && !{labelled} &&\n  {late})'
    # The old object too: orphaning takes the reference away, and must go on while we are down.
    references = ["object.metadata.?ownerReferences", "oldObject.?metadata.?ownerReferences"]
    holds = f"owner.?controller.orValue(false) &&\n{owned}"
    return "no-workload-owns-it", "!" + _any_entry(references, "owner", holds)


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
    that its kind does not have is absent. A kind that holds others is always asked about.
    """
    templates = dict.fromkeys(template for row in rows for template in row.templates)
    selectors = dict.fromkeys(row.selector for row in rows if row.selector)
    labelled: dict[Path, None] = {(): None}
    labelled |= dict.fromkeys(row.label for row in rows if isinstance(row.label, tuple))
    terms = [
        _any(
            f"[{', '.join(_shaped(f'it{_steps(path)}', POD)[0] for path in labelled)}]",
            "labelled",
            _labelled("labelled"),
        ),
        *(f"it{_steps(path)}.?matchLabels[?{_LABEL}].hasValue()" for path in selectors),
    ]
    terms += [f"it{_steps(row.selector)}[?{_LABEL}].hasValue()" for row in rows if row is REPLICATION_CONTROLLER]
    if selectors:
        expressions = [f"it{_steps(path)}.?matchExpressions" for path in selectors]
        terms.append(_any_entry(expressions, "entry", f'entry.?key.orValue("") == {_LABEL}'))
    uncounted = dict.fromkeys(path for row in rows for path in row.uncounted)
    terms += [f"it{_steps(path)}.hasValue()" for path in uncounted]
    # Of lists in lists, that there are any.
    deep = dict.fromkeys(_star(template.path)[0] for template in templates if _is_deep(template.path))
    terms += [f"it{_steps(holder)}.hasValue()" for holder in deep]
    templates = dict.fromkeys(template for template in templates if not _is_deep(template.path))
    holders = [row.kind for row in rows if row.holds]
    if holders:
        terms.append(f'it.?kind.orValue("") in {_literal(holders)}')
    pod = _or([_labelled("pod"), _uses_gpus(accelerators)])
    terms.append(_any(_pods(templates), "pod", pod))
    return "gpu-or-queue", _any("[object, oldObject]", "it", f"it != null && (\n{indent(_or(terms), '  ')})")


def _labelled(variable: str) -> str:
    return f"{variable}.?metadata.?labels[?{_LABEL}].hasValue()"


def _pods(templates: Iterable[Template]) -> str:
    """CEL: a list of the pods of `it`, each {metadata, spec}, null where there is none."""
    plain: list[str] = []
    lists: list[str] = []
    for template in templates:
        before, star, after = _star(template.path)
        if not star:
            plain += _shaped(f"it{_steps(template.path)}", template.shape)
            continue
        holder = f"it{_steps(before)}.orValue(dyn([]))"
        is_list = star == EVERY_ITEM
        entry = ("entry" if is_list else f"{holder}[key]") + _steps(after)
        for pod in _shaped(entry, template.shape):
            made = f"{holder}.map({'entry' if is_list else 'key'}, {pod})"
            lists.append(f"(type({holder}) == {'list' if is_list else 'map'} ? {made} : [])")
    parts = [f"[{', '.join(plain)}]", *lists]
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"


def _star(path: Path) -> tuple[Path, str, Path]:
    """What is before the first star, the star ('' without one), and what is after it."""
    index = next((index for index, step in enumerate(path) if step in STARS), len(path))
    return path[:index], str(path[index]) if index < len(path) else "", path[index + 1 :]


def _is_deep(path: Path) -> bool:
    return sum(step in STARS for step in path) > 1


def _shaped(optional: str, shape: Shape) -> list[str]:
    """CEL: the pods that are read out of an optional value by its shape."""
    if optional == "it":
        return ["it"]
    # dyn, for else an item of a list that is not known would be taken to be of null's type.
    value = f"{optional}.orValue(dyn(null))"
    if shape == POD:
        return [value]
    found = [f'dyn({{"spec": {value}, "metadata": {value}}})']
    others = (field for field in shape.lists if field not in POD.lists)
    found += [f'dyn({{"spec": {{"containers": {optional}.?{field}.orValue(dyn(null))}}}})' for field in others]
    for alone in shape.alone:
        place = f"{optional}{_steps(alone.path)}"
        if alone.gpu:
            name = f'{place}.?name.orValue(dyn(""))'
            amounts = f'{{type({name}) == string ? {name} : "": {place}.?quantity.orValue(dyn(0))}}'
            container = f'{{"resources": {{"limits": {amounts}}}}}'
        elif alone.resources == ("resources",):
            container = f"{place}.orValue(dyn(null))"
        else:
            container = (
                f'{{"resources": {place}{_steps(alone.resources)}.orValue(dyn(null)), '
                f'"env": {place}.?env.orValue(dyn(null))}}'
            )
        found.append(f'dyn({{"spec": {{"containers": [{container}]}}}})')
    return found


def _uses_gpus(accelerators: Accelerators) -> str:
    """CEL: whether `pod` names an accelerator, openly or, generously read, behind Kueue's back (hidden-gpu-use)."""
    # Odd spellings (//dev, /dev/./nvidia0, dev) lead there too; '..' in a host path is refused by the API server.
    device_path = f'type(path) == string && path.matches("^[/.]*dev([/.]*|[/.]+({"|".join(sorted(DEVICES))}).*)$")'
    amounts = "[container.?resources.?requests.orValue(null), container.?resources.?limits.orValue(null)]"
    asked = f'({_covers(accelerators)}) && named[resource] != "0" && named[resource] != 0'
    mounted = f'type(path) == string && path.matches("^{MOUNTED.replace("/", "[/.]+")}")'
    selected = "(pod.?spec.?nodeSelector.hasValue() || pod.?spec.?affinity.?nodeAffinity.hasValue())"
    in_container = [
        _any(amounts, "named", f"type(named) == map && {_any('named', 'resource', asked)}"),
        _any_entry(["container.?env"], "variable", f'variable.?name.orValue("") in {_literal(sorted(VARIABLES))}'),
        _any_entry(["container.?volumeMounts"], "mount", _any('[mount.?mountPath.orValue("")]', "path", mounted)),
        f"{selected} && container.?securityContext.?privileged.orValue(false) == true",
    ]
    annotations = "[pod.?metadata.?annotations.orValue(null)]"
    terms = [
        _any('[pod.?spec.?runtimeClassName.orValue("")]', "name", _is_runtime_class(accelerators)),
        _any(
            annotations, "notes", f"type(notes) == map && notes.exists(note, note.startsWith({_literal(CDI_PREFIX)}))"
        ),
        _any_entry(["pod.?spec.?resourceClaims"], "claim", "true"),
        _any_entry(["pod.?spec.?volumes"], "volume", _any('[volume.?hostPath.?path.orValue("")]', "path", device_path)),
        _any_entry(["pod.?spec.?initContainers", "pod.?spec.?containers"], "container", _or(in_container)),
    ]
    return _or(terms)


def _is_runtime_class(accelerators: Accelerators) -> str:
    """CEL: whether `name` is one of the RuntimeClasses that bring accelerators."""
    exact = sorted(name for name in accelerators.runtime_classes if not name.endswith("*"))
    terms = [f"name in {_literal(exact)}"] if exact else []
    prefixes = sorted(name[:-1] for name in accelerators.runtime_classes if name.endswith("*"))
    terms += [f"name.startsWith({_literal(prefix)})" for prefix in prefixes]
    return f"type(name) == string && ({' || '.join(terms) or 'false'})"


def _covers(accelerators: Accelerators) -> str:
    """CEL: what Accelerators.covers says of `resource`."""
    terms = [f"resource in {_literal(sorted(accelerators.exact))}"] if accelerators.exact else []
    terms += [f"resource.startsWith({_literal(prefix)})" for prefix in accelerators.prefixes]
    return _or(terms) or "false"


# fmt: off
_RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
    "namespace", "null", "package", "return", "true", "var", "void", "while",
})
# fmt: on
"""Words that are no field names in CEL."""


def _steps(path: Path) -> str:
    return "".join(map(_step, path))


def _step(step: str | int) -> str:
    if isinstance(step, str) and step.isidentifier() and step not in _RESERVED:
        return f".?{step}"
    return f"[?{_literal(step) if isinstance(step, str) else step}]"
