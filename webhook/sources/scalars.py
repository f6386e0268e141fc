"""YAML scalars, as Kubernetes reads them.

kubectl and the API server read YAML through sigs.k8s.io/yaml, which is go-yaml v2 and then JSON (compared value by
value with sigs.k8s.io/yaml v1.6.0 on go.yaml.in/yaml/v2 v2.4.3). That is neither YAML 1.2 nor what PyYAML reads: 1e3 is
a number, 1:30 is a string, 08 is 8, y is true, and a timestamp stays the text that it is.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from decimal import Decimal

Scalar = str | int | float | bool | None

PLAIN = "?"
"""The tag of a scalar without quotes and without a tag of its own, whose text alone decides its type."""

_PREFIX = "tag:yaml.org,2002:"
STRING, MAPPING, SEQUENCE = _PREFIX + "str", _PREFIX + "map", _PREFIX + "seq"

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INT = re.compile(
    r"[-+]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_EXPONENT_FROM = 1e21
"""Go writes floats from here on with an exponent (encoding/json)."""

_LONGEST_INT = 68
"""More characters than an integer of 64 bits needs in any base; a longer run of digits is a float, or a string."""


_REMEMBERED = 8192
"""Scalars and names: a manifest repeats few, and those that are one string take no memory of their own."""


class ScalarError(ValueError):
    """A scalar that Kubernetes cannot read either; the message says what it is, and after a semicolon what to do."""


@functools.lru_cache(_REMEMBERED)
def scalar(tag: str, text: str) -> Scalar:
    """The value of a scalar node. `tag` is PLAIN, or the node's own.

    A number is what JSON makes of it on the way to the API server: 3.0 is written as 3, and is an int from there on.
    """
    value = _resolve(tag, text)
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXPONENT_FROM:
        return int(Decimal(repr(value)))
    return value


@functools.lru_cache(_REMEMBERED)
def name(tag: str, text: str) -> str:
    """The field name that a scalar key becomes in JSON: 1 is '1', on is 'true', 1.10 is '1.1'."""
    value = _resolve(tag, text)
    if value is None:
        raise ScalarError("a field has no name; write one, or quote it")
    if isinstance(value, bool):
        return "true" if value else "false"
    return _shortest(value) if isinstance(value, float) else str(value)


def unread_tag(tag: str) -> str:
    """What to say of a tag such as !!binary or !custom."""
    return f"the tag {tag.replace(_PREFIX, '!!')} is not read in manifests; leave it out"


def _resolve(tag: str, text: str) -> Scalar:
    if tag == PLAIN:
        return _plain(text)
    if tag == STRING:
        return text
    wanted = tag.removeprefix(_PREFIX)
    if wanted == "timestamp":
        return text
    if wanted not in ("int", "float", "bool", "null"):
        raise ScalarError(unread_tag(tag))
    value = _plain(text)
    if type(value).__name__ != {"null": "NoneType"}.get(wanted, wanted):
        if wanted == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        raise ScalarError(f"{text[:40]!r} is no {wanted}; correct the value, or leave the tag out")
    return value


def _plain(text: str) -> Scalar:
    first = text[:1]
    if first and first not in "+-.0123456789yYnNtTfFoO~":
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_JSON.fullmatch(text):
        raise ScalarError(f"{text} is no number in JSON; write a finite one, or quote it")
    if first == ".":
        return _float(text)
    if first not in "+-0123456789":
        return text
    digits = text.replace("_", "")
    value = _int(digits)
    if value is not None:
        return value
    number = _float(digits)
    return text if isinstance(number, str) else number


def _int(digits: str) -> int | None:
    """Go's strconv.ParseInt(digits, 0, 64), then ParseUint; None where both fail."""
    match = _INT.fullmatch(digits) if len(digits) <= _LONGEST_INT else None
    if match is None or match.lastgroup is None:
        return None
    value = int(match[match.lastgroup], _BASES[match.lastgroup])
    if digits[0] == "-":
        return -value if value <= 2**63 else None
    # Above 63 bits go-yaml tries an unsigned number, which may not even have a plus sign.
    return value if value < (2**63 if digits[0] == "+" else 2**64) else None


def _float(text: str) -> str | float:
    """The number, or the text itself if it is none."""
    if not _FLOAT.fullmatch(text):
        return text
    value = float(text)
    return text if math.isinf(value) else value


def _shortest(value: float) -> str:
    """A float key as Go's strconv.FormatFloat(value, 'g', -1, 32) spells it, which is what sigs.k8s.io/yaml calls."""
    try:
        wanted = struct.pack("f", value)
    except OverflowError:
        return "-.inf" if value < 0 else ".inf"
    for decimals in range(9):
        spelling = f"{value:.{decimals}e}"
        if struct.pack("f", float(spelling)) == wanted:
            break
    exponent = int(spelling.partition("e")[2])
    return spelling if exponent < -4 or exponent >= 6 else f"{float(spelling):.{max(decimals - exponent, 0)}f}"
