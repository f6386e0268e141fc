"""Quantities agree with apimachinery's ParseQuantity on every spelling."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.quantity import NANO, QuantityError, parse, show, whole

VALUES: list[tuple[Any, Fraction]] = [
    (8, Fraction(8)),
    ("8", Fraction(8)),
    ("1k", Fraction(1000)),
    ("1Ki", Fraction(1024)),
    ("5000m", Fraction(5)),
    ("0.5", Fraction(1, 2)),
    (0.5, Fraction(1, 2)),
    (1e3, Fraction(1000)),
    ("1e3", Fraction(1000)),
    ("1E3", Fraction(1000)),
    ("129e6", Fraction(129_000_000)),
    ("1E", Fraction(10**18)),
    ("1e-3", Fraction(1, 1000)),
    ("1E+3", Fraction(1000)),
    ("+8", Fraction(8)),
    ("-0", Fraction(0)),
    ("-8", Fraction(-8)),
    (".5", Fraction(1, 2)),
    ("5.", Fraction(5)),
    ("0010", Fraction(10)),
    (None, Fraction(0)),
    ("1n", Fraction(1, NANO)),
    ("0.1n", Fraction(1, NANO)),
    ("-0.1n", Fraction(-1, NANO)),
    ("1.5Gi", Fraction(3 * 2**29)),
    ("123456789012345678901234567890", Fraction(123456789012345678901234567890)),
    ("8Ei", Fraction(2**63 - 1)),
    ("-9Ei", Fraction(-(2**63 - 1))),
    ("-", Fraction(0)),
    (" 8", Fraction(8)),
    ("8 ", Fraction(8)),
    ("\u00a08", Fraction(8)),
    ("Ki", Fraction(0)),
]
REFUSED = [
    "",
    " ",
    "8\t",
    "0x8",
    "1_000",
    "٣",
    "1.2.3",
    "1Zi",
    "1ki",
    "e",
    "1e",
    "--8",
    "8+5",
    "nan",
    "Infinity",
    "1\n",
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=repr)
def test_value(text: Any, value: Fraction) -> None:
    assert Fraction(parse(text), NANO) == value


@pytest.mark.parametrize(
    "text", [*REFUSED, 1e64, 10**64, "1e64", True, False, [], {}, float("nan"), float("inf")], ids=repr
)
def test_refused(text: Any) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@pytest.mark.parametrize(
    "text", ["2E6024865272343", "1e999999999", "9" * 10_000, 10**10_000], ids=lambda x: str(type(x))
)
def test_huge_is_refused_at_once(text: Any) -> None:
    before = time.process_time()
    with pytest.raises(QuantityError):
        parse(text)
    assert time.process_time() - before < 0.1


def test_message_names_the_value_and_not_all_of_it() -> None:
    with pytest.raises(
        QuantityError, match=r"^is 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…', not a quantity such as 1 or 500m$"
    ):
        parse("x" * 60)


@given(st.integers(-(10**30), 10**30), st.sampled_from(["", "m", "k", "M", "u", "n"]))
def test_decimal_suffixes_are_exact(number: int, suffix: str) -> None:
    power = {"": 0, "m": -3, "k": 3, "M": 6, "u": -6, "n": -9}[suffix]
    assert parse(f"{number}{suffix}") == number * 10 ** (9 + power)


@given(st.text(max_size=20) | st.integers() | st.floats() | st.none() | st.booleans())
def test_anything_is_a_quantity_or_refused(value: Any) -> None:
    try:
        amount = parse(value)
    except QuantityError:
        return
    assert parse(show(amount)) == amount
    assert whole(amount) == (amount % NANO == 0)
