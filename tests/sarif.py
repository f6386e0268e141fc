"""What SARIF 2.1.0 asks of a log, for the parts of it that Floorkeeper writes.

Written from the OASIS standard: which properties are required, what they may hold, and nothing else may be there.
"""

from __future__ import annotations

import re
from typing import Any

import jsonschema


def _mapping(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


def _list(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


_TEXT = {"type": "string"}
_POSITION = {"type": "integer", "minimum": 1}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_BAG = {"type": "object"}
_MESSAGE = _mapping({"text": _TEXT}, markdown=_TEXT)
_LOCATION = _mapping(
    {},
    physicalLocation=_mapping(
        {"artifactLocation": _mapping({"uri": _TEXT})},
        region=_mapping({"startLine": _POSITION}, startColumn=_POSITION),
    ),
    logicalLocations=_list(_mapping({}, name=_TEXT, fullyQualifiedName=_TEXT), uniqueItems=True),
)
_RULE = _mapping(
    {"id": _TEXT}, shortDescription=_MESSAGE, help=_MESSAGE, defaultConfiguration=_mapping({}, level=_LEVEL)
)
_NOTIFICATION = _mapping(
    {"message": _MESSAGE}, level=_LEVEL, locations=_list(_LOCATION), associatedRule=_mapping({"id": _TEXT})
)
_INVOCATION = _mapping(
    {"executionSuccessful": {"type": "boolean"}},
    toolExecutionNotifications=_list(_NOTIFICATION),
    toolConfigurationNotifications=_list(_NOTIFICATION),
)
_RESULT = _mapping(
    {"message": _MESSAGE},
    ruleId=_TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level=_LEVEL,
    locations=_list(_LOCATION),
    partialFingerprints={"type": "object", "additionalProperties": _TEXT},
    properties=_BAG,
)
_RUN = _mapping(
    {"tool": _mapping({"driver": _mapping({"name": _TEXT}, version=_TEXT, rules=_list(_RULE, uniqueItems=True))})},
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    invocations=_list(_INVOCATION),
    results=_list(_RESULT),
    properties=_BAG,
)
_LOG = _mapping({"version": {"const": "2.1.0"}, "runs": _list(_RUN)}, **{"$schema": _TEXT})
_VALIDATOR = jsonschema.Draft202012Validator(_LOG)

_URI = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})*")
_RELATIVE = re.compile(r"[^/:]*(?:/.*)?", re.DOTALL)
"""A relative reference has no colon in its first segment: it would be a scheme (RFC 3986, 4.2)."""


def sarif_problems(log: Any) -> list[str]:
    """What is wrong with a log, a line each that begins with the path."""
    found = [f"{_path(error.absolute_path)}: {error.message}" for error in _VALIDATOR.iter_errors(log)]
    for number, run in enumerate(log["runs"]):
        found += [f"runs[{number}].{problem}" for problem in _uri_problems(run)]
    found.sort()
    for number, run in enumerate(log["runs"]):
        found += [f"runs[{number}].{problem}" for problem in _index_problems(run)]
    return found


def _uri_problems(run: Any, path: str = "") -> list[str]:
    if isinstance(run, list):
        return [problem for index, item in enumerate(run) for problem in _uri_problems(item, f"{path}[{index}]")]
    if not isinstance(run, dict):
        return []
    found = []
    for key, value in run.items():
        inner = f"{path}.{key}" if path else key
        if key == "uri":
            fits = _URI.fullmatch(value) and (value.startswith("file:///") or _RELATIVE.fullmatch(value))
            found += [] if fits else [f"{inner}: {value!r} is no URI reference"]
        elif key != "properties":
            found += _uri_problems(value, inner)
    return found


def _index_problems(run: Any) -> list[str]:
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    found = [] if len(set(rules)) == len(rules) else ["tool.driver.rules: an id is there twice"]
    for number, result in enumerate(run["results"]):
        named = rules[result["ruleIndex"]]
        found += [] if named == result["ruleId"] else [f"results[{number}].ruleIndex: is that of {named}"]
    return found


def _path(steps: Any) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
