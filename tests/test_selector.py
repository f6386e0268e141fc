"""Label selectors and name patterns."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.selector import LabelSelector, Requirement, name_matches


@pytest.mark.parametrize(
    ("operator", "values", "labels", "matches"),
    [
        ("In", {"a"}, {"k": "a"}, True),
        ("In", {"a"}, {"k": "b"}, False),
        ("In", {"a"}, {}, False),
        ("NotIn", {"a"}, {"k": "b"}, True),
        ("NotIn", {"a"}, {"k": "a"}, False),
        ("NotIn", {"a"}, {}, True),
        ("Exists", set(), {"k": ""}, True),
        ("Exists", set(), {}, False),
        ("DoesNotExist", set(), {}, True),
        ("DoesNotExist", set(), {"k": ""}, False),
    ],
)
def test_requirement(operator: str, values: set[str], labels: dict[str, str], matches: bool) -> None:
    selector = LabelSelector(match_expressions=(Requirement("k", operator, frozenset(values)),))
    assert selector.matches(labels) is matches


def test_labels_and_requirements_both_count() -> None:
    selector = LabelSelector((("a", "1"),), (Requirement("b", "Exists"),))
    assert [selector.matches(labels) for labels in ({"a": "1", "b": "x"}, {"a": "1"}, {"b": "x"})] == [
        True,
        False,
        False,
    ]
    assert LabelSelector().matches({})


def test_in_words_it_is_the_same_whatever_its_order() -> None:
    labels = (("z", "1"), ("a", "2"))
    expressions = (
        Requirement("m", "NotIn", frozenset({"y", "x"})),
        Requirement("b", "In", frozenset({"v"})),
        Requirement("k", "Exists"),
        Requirement("gone", "DoesNotExist"),
    )
    words = "!gone,a=2,b in (v),k,m notin (x,y),z=1"
    assert str(LabelSelector(labels, expressions)) == words
    assert str(LabelSelector(labels[::-1], expressions[::-1])) == words
    assert str(LabelSelector()) == ""


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_pattern_means_what_a_regular_expression_means(pattern: str, name: str) -> None:
    expression = "".join(".*" if character == "*" else re.escape(character) for character in pattern)
    assert name_matches(pattern, name) == (re.fullmatch(expression, name) is not None)


def test_many_stars_are_no_trouble() -> None:
    assert not name_matches("*a" * 100 + "b", "a" * 1000)
