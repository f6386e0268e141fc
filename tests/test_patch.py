"""Edits leave the original whole, and the diff brings it to the edited one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rfc6902 import applied
from webhook.engine.patch import CannotEdit, Edit, diff, edited

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(max_size=5), json, max_size=4)
paths = st.lists(st.text(max_size=5) | st.integers(0, 2), min_size=1, max_size=4).map(
    lambda steps: (str(steps[0]), *steps[1:])
)


@given(objects, st.lists(st.builds(Edit, paths, json), max_size=3))
def test_patch_leads_to_the_edited_object(value: dict[str, Any], edits: list[Edit]) -> None:
    original = copy.deepcopy(value)
    try:
        after = edited(value, edits)
    except CannotEdit:
        assert value == original
        return
    assert value == original
    patch = diff(value, after)
    assert applied(value, patch) == after
    assert edited(after, edits[-1:]) == after
    assert {operation["op"] for operation in patch} <= {"add", "replace"}


CASES: list[tuple[dict[str, Any], list[Edit], list[dict[str, Any]]]] = [
    ({}, [], []),
    ({"a": 1}, [Edit(("a",), 1)], []),
    ({"a": 1}, [Edit(("a",), 2)], [{"op": "replace", "path": "/a", "value": 2}]),
    (
        {"spec": {"template": {}}},
        [Edit(("spec", "template", "metadata", "labels", "kueue.x-k8s.io/queue-name"), "q")],
        [
            {
                "op": "add",
                "path": "/spec/template/metadata",
                "value": {"labels": {"kueue.x-k8s.io/queue-name": "q"}},
            }
        ],
    ),
    (
        {"labels": {"app": "x"}},
        [Edit(("labels", "kueue.x-k8s.io/queue-name"), "q"), Edit(("labels", "a~b"), "r")],
        [
            {"op": "add", "path": "/labels/kueue.x-k8s.io~1queue-name", "value": "q"},
            {"op": "add", "path": "/labels/a~0b", "value": "r"},
        ],
    ),
    ({"labels": None}, [Edit(("labels", "a"), "b")], [{"op": "replace", "path": "/labels", "value": {"a": "b"}}]),
    ({"list": [{}, {}]}, [Edit(("list", 1, "a"), 0)], [{"op": "add", "path": "/list/1/a", "value": 0}]),
    ({"a": {"b": 1, "c": 2}}, [Edit(("a",), {"b": 1})], [{"op": "replace", "path": "/a", "value": {"b": 1}}]),
    ({"a": 0}, [Edit(("a",), False)], [{"op": "replace", "path": "/a", "value": False}]),
]


@pytest.mark.parametrize(("value", "edits", "patch"), CASES)
def test_patch(value: dict[str, Any], edits: list[Edit], patch: list[dict[str, Any]]) -> None:
    assert diff(value, edited(value, edits)) == patch


@pytest.mark.parametrize("path", [("a", "b"), ("list", "b"), ("list", 2), ("a", 0)])
def test_no_way_to_the_field(path: tuple[str | int, ...]) -> None:
    with pytest.raises(CannotEdit):
        edited({"a": 1, "list": [0]}, [Edit(path, 1)])
