"""The JSON Schema of `floorkeeper audit -o json`, which is also its documentation. Pure."""

from __future__ import annotations

from typing import Any

from webhook.engine.verdict import Severity

API_VERSION, KIND = "floorkeeper.io/v1alpha1", "AuditReport"

_TEXT = {"type": "string"}
_NUMBER = {"type": "number", "minimum": 0}
_COUNT = {"type": "integer", "minimum": 0}


def _described(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}


def _list(description: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": item}


def _mapping(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


_REFERENCE = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "namespace": _described(_TEXT, "Empty for kinds that are in no namespace."),
    "name": _TEXT,
}
_FINDING = _mapping(
    {
        "rule": _described(_TEXT, "The rule's id, or setup/ and that of a check of the set-up."),
        "severity": _described(
            {"enum": [severity.value for severity in Severity]},
            "How wrong the object is as it stands; deny fails the audit. A write of it may be mended on its way.",
        ),
        "path": _described(_TEXT, "The field, as the API server spells it."),
        "message": _described(_TEXT, "The whole sentence, with the first object's name and how many more there are."),
        "count": _described({"type": "integer", "minimum": 1}, "How many objects it is said of."),
        "objects": _list("All of them, of one namespace and kind, sorted by name.", _mapping(_REFERENCE)),
    }
)

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Floorkeeper audit report",
    "description": "What `floorkeeper audit -o json` prints. Later releases may add keys; none changes its meaning.",
    **_mapping(
        {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "at": _described(_NUMBER, "When it began, in seconds since the epoch."),
            "seconds": _described(_NUMBER, "How long it took."),
            "namespaces": _list("The managed namespaces that were looked at.", _TEXT),
            "findings": _list("The set-up first, then what is in no namespace, then by namespace.", _FINDING),
            "notEvaluated": _list(
                "What could not be looked at: neither pass nor fail.",
                _mapping(
                    {
                        "rule": _described(_TEXT, "A rule, a check, or a kind that could not be listed."),
                        "reason": _TEXT,
                        "objects": _described(_COUNT, "How many objects that was so for, 0 where nobody knows."),
                    }
                ),
            ),
            "exempt": _list(
                "Objects that the policy exempts.",
                _mapping(
                    {
                        **_REFERENCE,
                        "reason": _TEXT,
                        "rules": _list("The rules that would have spoken.", _TEXT),
                    }
                ),
            ),
            "summary": _mapping(
                {
                    "namespaces": _COUNT,
                    "objects": _described(_COUNT, "Objects of the kinds that are judged."),
                    "checked": _described(_COUNT, "Of them, how many were; another answers for each of the others."),
                    "exempt": _COUNT,
                    "denials": _described(_COUNT, "Objects of findings of severity deny."),
                    "warnings": _described(_COUNT, "Objects of findings of severity warn."),
                }
            ),
        }
    ),
}
