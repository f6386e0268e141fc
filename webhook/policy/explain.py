"""Pydantic's errors as problems: the line, the path, what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from pydantic_core import ErrorDetails

from webhook.kube.objects import Path
from webhook.policy.document import Node, Plain, line_of, place_of
from webhook.policy.fields import shown
from webhook.policy.known_rules import KNOWN_RULES
from webhook.policy.problem import Problem
from webhook.policy.section import Wrong

_KEY = "[key]"
"""What pydantic appends to the path where the key of a mapping is wrong, and not its value."""

_MOST = 1000  # errors that are put into words: far more than a PolicyError lists, and still at once
_LONGEST_GUESS = 64  # characters of a key that is compared with the known ones


def explain(errors: Iterable[ErrorDetails], root: Node, schema: Mapping[str, Any]) -> Iterator[Problem]:
    """One problem or more for each error. `schema` is the JSON Schema of the model that found them."""
    for error in islice(errors, _MOST):
        path = error["loc"][:-1] if _is_of_key(error) else error["loc"]
        reason = error.get("ctx", {}).get("error")
        found = reason.problems if isinstance(reason, Wrong) else [((), _words(error, path, schema))]
        for below, text in found:
            place = (*path, *below)
            yield Problem(line_of(root, place), place_of(place), text)


def _is_of_key(error: ErrorDetails) -> bool:
    # No other type is ever found in a key: a key that is itself spelt [key] must not be taken for the mark.
    return error["loc"][-1:] == (_KEY,) and error["type"] in ("value_error", "literal_error")


def _words(error: ErrorDetails, path: Path, schema: Mapping[str, Any]) -> str:
    value = error["input"]
    expected = _schema_at(schema, path)
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "extra_forbidden":
            return _unknown("key", str(path[-1]), list(_schema_at(schema, path[:-1]).get("properties", ())))
        case "literal_error" if _is_of_key(error):
            return _unknown("rule", str(path[-1]), list(KNOWN_RULES))
        case "missing":
            return f"is missing; add {path[-1]}: {expected['const']}" if "const" in expected else "is missing; add it"
        case "literal_error" if "const" in expected:
            return f"must be {expected['const']}, is {shown(value)}; write {path[-1]}: {expected['const']}"
        case "literal_error" | "enum":
            *others, last = expected["enum"]
            return f"must be {', '.join(others)} or {last}, is {shown(value)}; write one of these"
        case "string_type":
            return f"must be a string, is {shown(value)}; {_string_advice(value)}"
        case "int_type" | "greater_than_equal" | "less_than_equal":
            least, most = expected["minimum"], expected["maximum"]
            return f"must be a whole number from {least} to {most}, is {shown(value)}; write digits without quotes"
        case "list_type":
            return f"must be a list, is {shown(value)}; begin each entry with -, or write [] for none"
        case "dict_type" | "model_type":
            return f"must be a mapping, is {shown(value)}; write key: value pairs, or leave the key out"
        case _:
            return f"{error['msg'].lower()}, is {shown(value)}; correct it"


def _string_advice(value: Any) -> str:
    return "put it in quotes" if isinstance(value, Plain | int) else "write a text, in quotes if need be"


def _unknown(what: str, name: str, known: list[str]) -> str:
    near = get_close_matches(name[:_LONGEST_GUESS], known, 1)
    return f"unknown {what}; did you mean {near[0]}?" if near else f"unknown {what}; known are {', '.join(known)}"


def _schema_at(schema: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The part of the schema that describes the value at `path`, empty where it describes none."""
    here: Any = schema
    for step in path:
        here = _resolved(schema, here)
        below = here.get("items") if isinstance(step, int) else here.get("properties", {}).get(step)
        here = below or here.get("additionalProperties") or {}
    return _resolved(schema, here)


def _resolved(schema: Mapping[str, Any], part: Any) -> Mapping[str, Any]:
    if not isinstance(part, dict):
        return {}
    name = str(part.get("$ref", "")).rpartition("/")[2]
    target = schema["$defs"][name] if name else part
    return target if isinstance(target, dict) else {}
