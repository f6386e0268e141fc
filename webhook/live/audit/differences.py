"""How a webhook configuration differs from the one that is shipped, and whether we are asked about less by it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from webhook.kube.objects import Object, mapping, sequence, string
from webhook.live.audit.judging import reference
from webhook.live.audit.standing import Defect
from webhook.scope import OF_POLICY

RENDER = "floorkeeper render prints it as the policy wants it"


def differences(configuration: Object, wanted: Mapping[str, Object]) -> Iterator[Defect]:
    """Each once, however many webhooks it is in. `wanted` are the webhooks that are shipped, by name."""
    about = reference(configuration, namespaced=False)
    found: dict[tuple[str, bool, str, str], list[tuple[int, str]]] = {}
    for index, webhook in enumerate(map(mapping, sequence(configuration.get("webhooks")))):
        name = string(webhook.get("name"))
        if name not in wanted:
            fix = f"take it out: this version does not know it; {RENDER}"
            yield Defect(about, ("webhooks", index), "must be one of ours", name, fix)
            continue
        for field in sorted(wanted[name].keys() | webhook.keys() - {"name"}):
            expected, actual = (_compared(field, each.get(field)) for each in (wanted[name], webhook))
            if expected != actual:
                less = field in _LESS and _LESS[field](expected, actual)
                found.setdefault((field, less, *_words(field, less, expected, actual)), []).append((index, name))
    for (field, less, must, text), ((first, name), *others) in found.items():
        more = f", and of {len(others)} more webhooks" if others else ""
        fix = f"apply it anew: {RENDER}" if less else f"set it back, unless that is what you want: {RENDER}"
        yield Defect(about, ("webhooks", first, field), must, f"{text}, of {name}{more}", fix, advice=not less)


def _words(field: str, less: bool, expected: Any, actual: Any) -> tuple[str, str]:
    """What must be there, and what is."""
    if field in OF_POLICY:
        return "must follow from the policy", "one that asks about less" if less else "one that asks about more"
    return f"must be {_shown(expected)}, as shipped", _shown(actual)


def _compared(field: str, value: Any) -> Any:
    if field != "clientConfig":
        return value
    return {key: part for key, part in mapping(value).items() if key != "caBundle"}


def _lacks(expected: Any, actual: Any) -> bool:
    """Whether something of ours is not there."""
    return any(each not in sequence(actual) for each in sequence(expected))


def _adds(expected: Any, actual: Any) -> bool:
    """Whether something is there that is not ours."""
    return _lacks(actual, expected)


def _selects_less(expected: Any, actual: Any) -> bool:
    """Whether it asks for a label that ours does not ask for."""
    ours, theirs = mapping(expected), mapping(actual)
    labels = mapping(ours.get("matchLabels")).items()
    return _adds(ours.get("matchExpressions"), theirs.get("matchExpressions")) or any(
        each not in labels for each in mapping(theirs.get("matchLabels")).items()
    )


def _calls_another(expected: Any, actual: Any) -> bool:
    """A Service may have any port, and of a URL nobody knows where it leads, but for its path."""
    ours, url = mapping(mapping(expected).get("service")), string(mapping(actual).get("url"))
    if url:
        return not url.partition("?")[0].endswith(string(ours.get("path")))
    theirs = mapping(mapping(actual).get("service"))
    return any(theirs.get(key) != ours.get(key) for key in ("namespace", "name", "path"))


_LESS: Mapping[str, Callable[[Any, Any], bool]] = {
    "admissionReviewVersions": _lacks,
    "clientConfig": _calls_another,
    "matchConditions": _adds,
    "matchPolicy": lambda expected, actual: expected != actual,
    "namespaceSelector": _selects_less,
    "objectSelector": _selects_less,
    "rules": _lacks,
}
"""Of a field that differs (what is shipped, what is there), whether we are asked about less, or not at all."""


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_shown(inner)}" for key, inner in sorted(value.items())) or "empty"
    return "absent" if value is None else str(value)
