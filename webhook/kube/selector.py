"""Label selectors (meta/v1 LabelSelector) and name patterns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.kube.objects import Object, mapping, sequence, string


@dataclass(frozen=True, slots=True)
class Requirement:
    """One matchExpressions entry; `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case _:
                return value is None

    def __str__(self) -> str:
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case _:
                return f"{self.key} {self.operator.lower()} ({','.join(sorted(self.values))})"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Matches when every label and every requirement does; an empty selector matches everything."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        for key, value in self.match_labels:
            if labels.get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self.match_expressions)

    def __str__(self) -> str:
        """As kubectl's -l takes it, and the same text in whatever order it was written; '' for an empty one."""
        labels = [f"{key}={value}" for key, value in self.match_labels]
        return ",".join(sorted([*labels, *map(str, self.match_expressions)]))


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def label_selector(value: Object) -> LabelSelector:
    """The selector that an object holds. What cannot be read of it narrows nothing: nobody stores such a thing."""
    expressions = map(mapping, sequence(value.get("matchExpressions")))
    return LabelSelector(
        tuple((key, text) for key, text in mapping(value.get("matchLabels")).items() if isinstance(text, str)),
        tuple(
            Requirement(
                string(entry.get("key")),
                string(entry.get("operator")),
                frozenset(text for text in sequence(entry.get("values")) if isinstance(text, str)),
            )
            for entry in expressions
            if entry.get("operator") in _OPERATORS
        ),
    )


def is_selector(value: object) -> bool:
    """Whether the API server, or a program that decodes strictly, takes it for a LabelSelector."""
    if not isinstance(value, dict) or not value.keys() <= {"matchLabels", "matchExpressions"}:
        return False
    labels, expressions = value.get("matchLabels") or {}, value.get("matchExpressions") or []
    return (
        isinstance(labels, dict)
        and all(isinstance(text, str) for text in (*labels, *labels.values()))
        and isinstance(expressions, list)
        and all(map(_is_requirement, expressions))
    )


def _is_requirement(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("key"), str) or value.get("operator") not in _OPERATORS:
        return False
    values = value.get("values") or []
    texts = isinstance(values, list) and all(isinstance(text, str) for text in values)
    return texts and bool(values) is (value["operator"] in ("In", "NotIn"))


def mentions(selector: Object, key: str) -> bool:
    """Whether a LabelSelector of an object selects by this label, however it does."""
    return key in mapping(selector.get("matchLabels")) or any(
        mapping(requirement).get("key") == key for requirement in sequence(selector.get("matchExpressions"))
    )


def name_matches(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern, in which * stands for any run of characters."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if not (name.startswith(first) and name.endswith(last) and len(name) >= len(first) + len(last)):
        return False
    # The leftmost place for each part is always a right one, so no step is ever taken back.
    position, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
