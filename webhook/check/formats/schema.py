"""The JSON schema of `floorkeeper check -o json`, which is also its documentation. Pure."""

from __future__ import annotations

from typing import Any

from webhook.check.formats.json_report import API_VERSION, KIND
from webhook.engine.verdict import Severity

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}


def _described(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}


def _list(description: str, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": item}


def _mapping(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "properties": properties}


_PLACE = {
    "file": _described(_TEXT, "The file as it was named on the command line; <stdin> for standard input."),
    "line": _described(_COUNT, "The line, from 1; 0 for the file as a whole."),
    "column": _described(_COUNT, "The column in characters, from 1; 0 where line is 0."),
}
_OBJECT = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "namespace": _described(_TEXT, "Empty for kinds that are in no namespace."),
    "name": _described(_TEXT, "metadata.name, or metadata.generateName with a *."),
}
_OPERATION = _mapping(
    {
        "op": {"enum": ["add", "replace"]},
        "path": _described(_TEXT, "A JSON pointer (RFC 6901) into the object with the API server's defaults."),
        "value": {},
    }
)
_FINDING = _mapping(
    {
        "rule": _described(_TEXT, "The rule's id; floorkeeper explain prints its page."),
        "severity": _described(
            {"enum": [severity.value for severity in Severity]},
            "What admission would do: refuse the object, patch it, or warn.",
        ),
        **_OBJECT,
        "path": _described(_TEXT, "The field, as the API server spells it."),
        "message": _described(_TEXT, "The whole sentence that admission says."),
        **_PLACE,
        "change": _list(
            "Only with severity patch: the object's patch (RFC 6902), the same one for all its findings.", _OPERATION
        ),
        "old": _described({"const": True}, "Only if the state that was compared with had it too."),
    },
    optional=("change", "old"),
)
_FAULT = _mapping({**_PLACE, "message": _TEXT})

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Floorkeeper check report",
    "description": "What `floorkeeper check -o json` prints. Later releases may add keys; none changes its meaning.",
    **_mapping(
        {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": KIND},
            "findings": _list("In the order of file, line and column; file and position are those of path.", _FINDING),
            "notEvaluated": _list(
                "Rules that had no facts to judge by: neither pass nor fail.",
                _mapping(
                    {
                        "rule": _TEXT,
                        "reason": _described(_TEXT, "The facts that are missing."),
                        "objects": _described(_COUNT, "How many objects that was so for."),
                    }
                ),
            ),
            "summary": _mapping(
                {
                    "objects": _described(_COUNT, "Objects in the input."),
                    "checked": _described(_COUNT, "Of them, how many were judged. If none was, the exit code is 2."),
                    "skipped": _described(_COUNT, "Of them, how many were not; each is in `skipped`."),
                    "denials": _described(_COUNT, "Findings of severity deny."),
                    "warnings": _described(_COUNT, "Findings of severity warn."),
                    "patches": _described(_COUNT, "Findings of severity patch."),
                }
            ),
            "errors": _list("What could not be used. If there is any, the exit code is 2.", _FAULT),
            "notes": _list("Warnings about the input itself, such as an object that is there twice.", _FAULT),
            "skipped": _list(
                "Objects that were not judged.",
                _mapping(
                    {
                        **_OBJECT,
                        "reason": _TEXT,
                        "unknownKind": _described({"type": "boolean"}, "Whether no rule knows the kind."),
                        **_PLACE,
                    }
                ),
            ),
        }
    ),
}
