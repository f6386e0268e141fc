"""Kubernetes quantities, exact and bounded.

A quantity is an int: its value in billionths (nano), the smallest step that the API server keeps. Parsing follows
apimachinery's ParseQuantity (v0.36): the same spellings are accepted, a non-zero value below a billionth is rounded
away from zero, and a value with a binary suffix is capped at 2^63-1. What is bounded here and not there is the
exponent, since computing with 2E6024865272343 would never end.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

NANO = 10**9
_CAP = (2**63 - 1) * NANO
_LONGEST = 96  # characters; the API server itself never writes more than about 30
_TOO_LARGE = 10**64  # units
_EXPONENT = 64  # largest power of ten that any real amount could need
_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# The API server trims what Unicode calls space. Tabs and line ends do not get that far: JSON escapes them, and it trims
# before it looks at escapes.
_SPACE = " \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


class QuantityError(ValueError):
    """The text is no quantity, or one too large to be meant."""


def parse(value: Any) -> int:
    """The value of a quantity in billionths.

    Takes what JSON can hold in a quantity's place: a string, a number, or null, which the API server reads as 0.
    Raises QuantityError for anything else.
    """
    if isinstance(value, str):
        return _parse_known(value) if len(value) <= _LONGEST else _parse_spelling(value)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"is {_shown(value)}, not a quantity such as 1 or 500m")
    return _bounded(value * NANO) if isinstance(value, int) else _parse_spelling(repr(value))


def _parse_spelling(value: str) -> int:
    text = value.strip(_SPACE)
    if not text or len(text) > _LONGEST:
        raise QuantityError(f"is {_shown(value)}, not a quantity such as 1 or 500m")
    if text.isascii() and text.isdigit():
        return _bounded(int(text) * NANO)
    return _bounded(_parse_text(text))


# The spellings in a cluster are few, and each is met again and again.
_parse_known = lru_cache(maxsize=1024)(_parse_spelling)


def _bounded(amount: int) -> int:
    if abs(amount) >= _TOO_LARGE * NANO:
        raise QuantityError("is a number too large for a quantity")
    return amount


def _parse_text(text: str) -> int:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise QuantityError(f"is {_shown(text)}, not a quantity such as 1 or 500m")
    sign, whole, fraction, suffix = match.groups()
    if not whole and fraction is None and not suffix and not sign:
        raise QuantityError(f"is {_shown(text)}, not a quantity such as 1 or 500m")
    fraction = fraction or ""
    digits = int(whole + fraction or "0")
    if suffix in _BINARY:
        amount = min(_scaled(digits << _BINARY[suffix], 9 - len(fraction)), _CAP)
    else:
        exponent = _DECIMAL.get(suffix)
        if exponent is None:
            exponent = _exponent(suffix, text)
        amount = _scaled(digits, exponent + 9 - len(fraction))
    return -amount if sign == "-" else amount


def _exponent(suffix: str, text: str) -> int:
    if suffix[0] not in "eE" or not _INTEGER.fullmatch(suffix[1:]):
        raise QuantityError(f"is {_shown(text)}, whose suffix {_shown(suffix)} no quantity has")
    if len(suffix) > 8 or abs(int(suffix[1:])) > _EXPONENT:
        raise QuantityError(f"is {_shown(text)}, whose exponent is beyond any real amount")
    return int(suffix[1:])


def _scaled(digits: int, power: int) -> int:
    """digits x 10^power, rounded up to a whole number."""
    factor: int = 10 ** abs(power)
    return digits * factor if power >= 0 else -(-digits // factor)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…")
    return str(value).lower() if isinstance(value, bool) else f"a {type(value).__name__}"


def whole(amount: int) -> bool:
    """Whether the amount is a whole number of units."""
    return amount % NANO == 0


def show(amount: int) -> str:
    """The amount in units, as a person would write it: '3', '0.5'."""
    units, rest = divmod(abs(amount), NANO)
    text = str(units) + (f".{rest:09d}".rstrip("0") if rest else "")
    return f"-{text}" if amount < 0 else text
