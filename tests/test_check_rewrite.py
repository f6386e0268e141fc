"""One new value in a text: how it is written, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixing import HEAD, set_in
from webhook.check.fix import Fixes, fixed_texts
from webhook.check.inputs import Inputs
from webhook.check.result import Fault, Found, Place, Result
from webhook.engine.verdict import Severity

CHANGES: dict[str, tuple[str, dict[str, Any], str]] = {
    # What is there: text below HEAD, values by pointer, and the text that comes of it.
    "a plain string": ("a: 25%\n", {"/a": "30%"}, "a: 30%\n"),
    "single quotes": ("a: '25%' # x\n", {"/a": "it's"}, "a: 'it''s' # x\n"),
    "double quotes": ('a: "25%"\n', {"/a": 'a "b" \\'}, 'a: "a \\"b\\" \\\\"\n'),
    "single quotes cannot hold a line break": ("a: '25%'\n", {"/a": "x\ny"}, 'a: "x\\ny"\n'),
    "a number": ("a: '25%'\n", {"/a": 0}, "a: 0\n"),
    "a number with a fraction": ("a: 1\n", {"/a": 0.5}, "a: 0.5\n"),
    "a boolean": ("a: 'true'\n", {"/a": True}, "a: true\n"),
    "null": ("a: 1\n", {"/a": None}, "a: null\n"),
    "a string that looks like a boolean": ("a: x\n", {"/a": "yes"}, 'a: "yes"\n'),
    "a string that looks like a number": ("a: x\n", {"/a": "0x10"}, 'a: "0x10"\n'),
    "a string that looks like a number to some": ("a: x\n", {"/a": "1e3"}, 'a: "1e3"\n'),
    "a string that looks like a date": ("a: x\n", {"/a": "2001-01-01"}, 'a: "2001-01-01"\n'),
    "a string that looks like a time": ("a: x\n", {"/a": "1:30"}, 'a: "1:30"\n'),
    "a string that looks like null": ("a: x\n", {"/a": "~"}, 'a: "~"\n'),
    "a string that looks like a merge key": ("a: x\n", {"/<<": "x"}, 'a: x\n"<<": x\n'),
    "an empty string": ("a: x\n", {"/a": ""}, 'a: ""\n'),
    "a string with a colon": ("a: x\n", {"/a": "b: c"}, 'a: "b: c"\n'),
    "a string with a comment": ("a: x\n", {"/a": "b #c"}, 'a: "b #c"\n'),
    "a string of another script": ("a: x\n", {"/a": "größe"}, 'a: "größe"\n'),
    "a string that cannot be seen": ("a: x\n", {"/a": "\u200b\x85"}, 'a: "\\u200b\\u0085"\n'),
    "a string in brackets": ("a: [x, 1]\n", {"/a/0": "y]", "/a/1": 2}, 'a: ["y]", 2]\n'),
    "an item": ("a:\n- x # y\n-\n- '1'\n", {"/a/0": "z", "/a/1": 1, "/a/2": 2}, "a:\n- z # y\n- 1\n- 2\n"),
    "an item that becomes a mapping": ("a:\n- x\n- # y\n", {"/a/1": {"b": 1}}, "a:\n- x\n- {b: 1} # y\n"),
    "a text over many lines": ("a: x\n  y\nb: 'x\n\n  y'\n", {"/a": "z", "/b": "z"}, "a: z\nb: 'z'\n"),
    "a value on the next line": ("a:\n\n  # x\n  1 # y\n", {"/a": 2}, "a:\n\n  # x\n  2 # y\n"),
    "a list of another length": ("a: [1] # x\n", {"/a": [1, "z"]}, "a: [1, z] # x\n"),
    "a mapping that loses a key": ("a: {b: 1, c: 2} # x\n", {"/a": {"c": 2}}, "a: {c: 2} # x\n"),
    "a mapping that becomes a number": ("a: &x {b: 1}\n", {"/a": 1}, "a: &x 1\n"),
    "a tag that no longer fits": ("a: !!int '1'\nb: &x !!str 1\n", {"/a": "x", "/b": 1}, "a: 'x'\nb: &x 1\n"),
    "a tag that still fits": ("a: !!str 25%\n", {"/a": "30%"}, "a: !!str 30%\n"),
    "a tag before an anchor": ("a: !!str &x 1\n", {"/a": 1}, "a: &x 1\n"),
    "a tagged null": ("a: !!null # x\nb: !!null ~\n", {"/a": 1, "/b": 1}, "a:  1 # x\nb: 1\n"),
    "a tagged null that becomes a mapping": ("a: !!null null # x\n", {"/a": {"b": 1}}, "a:  # x\n  b: 1\n"),
    "an anchored null": ("a: &x # y\nb: &y\n", {"/a": 1, "/b": {"c": 1}}, "a: &x 1 # y\nb: &y\n  c: 1\n"),
    "a null that stays null, and what is beside it": ("a:\nb: 1\n", {"/b": 2}, "a:\nb: 2\n"),
    "a null above a key with an anchor": ("a:\n&x b: *x\n", {"/a": {"c": 1}}, "a:\n  c: 1\n&x b: *x\n"),
    "a null above an alias": ("a: &x b\nc:\n*x : 1\n", {"/c": {"d": 1}}, "a: &x b\nc:\n  d: 1\n*x : 1\n"),
    "an empty mapping for a null": ("a: ~\n", {"/a": {}}, "a: {}\n"),
    "an empty list for a null": ("a:\nb: 1\n", {"/a": []}, "a: []\nb: 1\n"),
    # Keys that are added
    "a key that needs quotes": ("a: {}\nb:\n  c: 1\n", {"/a/on": 1, "/b/8": 1}, 'a: {"on": 1}\nb:\n  c: 1\n  "8": 1\n'),
    "a key with what pointers escape": ("a: {}\n", {"/a/x~1y~0z": 1}, 'a: {"x/y~z": 1}\n'),
    "keys, nested": (
        "b: 1\n",
        {"/a/c/d": 1, "/a/c/e": [], "/a/f": {}},
        "b: 1\na:\n  c:\n    d: 1\n    e: []\n  f: {}\n",
    ),
    "an indentation of one": ("a:\n b: 1\n", {"/c/d": 1, "/a/e/f": 1}, "c:\n d: 1\na:\n b: 1\n e:\n  f: 1\n"),
    "a last line without a break": ("a:\n  b: 1", {"/a/c": 1}, "a:\n  b: 1\n  c: 1"),
    "a comment on a last line without a break": (
        "a:\n  b: 1 # x",
        {"/a/c": 1, "/d": 1},
        "d: 1\na:\n  b: 1 # x\n  c: 1",
    ),
    "a colon at the very end": ("a:\n  b:", {"/a/b/c": 1, "/a/d": 1}, "a:\n  b:\n    c: 1\n  d: 1"),
    "blanks at the end of lines": ("a:  \n  b: 1 \t \n  \n", {"/a/c": 1}, "a:  \n  b: 1 \t \n  c: 1\n  \n"),
    "a text that keeps its end": ("a:\n  b: |+\n    x\n\n", {"/a/c": 1}, "a:\n  c: 1\n  b: |+\n    x\n\n"),
    "a text that ends without a break": ("a:\n  # x\n  b: |\n    y", {"/a/c": 1}, "a:\n  c: 1\n  # x\n  b: |\n    y"),
    "a text in a list": ("a:\n- b: |\n    x\n", {"/a/0/c": 1}, "a:\n- c: 1\n  b: |\n    x\n"),
    "a list whose items are not indented": (
        "a:\n- b: 1\n- c: 1\n",
        {"/a/0/d": 1, "/e": 1},
        "e: 1\na:\n- b: 1\n  d: 1\n- c: 1\n",
    ),
    "lists in lists": (
        "a:\n- - b: 1\n  - c: 1\n",
        {"/a/0/0/d": 1, "/a/0/1/d": 1},
        "a:\n- - b: 1\n    d: 1\n  - c: 1\n    d: 1\n",
    ),
    "braces over lines": ("a: {\n  b: 1,\n  c: 2}\n", {"/a/d": {"e": 1}}, "a: {\n  b: 1,\n  c: 2,\n  d: {e: 1}}\n"),
    "braces without a value": (
        "a: {b: , c}\nd: {e: }\n",
        {"/a/f": 1, "/d/f": 1},
        "a: {b: , c, f: 1}\nd: {e: , f: 1 }\n",
    ),
    "braces with text in JSON's way": (
        'a: {"b":1}\nc: {"d": 1}\n',
        {"/a/e": "x", "/c/e": "x"},
        'a: {"b":1,"e":"x"}\nc: {"d": 1, "e": "x"}\n',
    ),
    "a key that a merge key brought": (
        "a: &a {b: 1}\nc:\n  <<: *a\n",
        {"/c/b": 2},
        "a: &a {b: 1}\nc:\n  <<: *a\n  b: 2\n",
    ),
    "an item that is an alias": ("a: [&x 1, *x, {b: *x}]\n", {"/a/1": 2, "/a/2/b": 3}, "a: [&x 1, 2, {b: 3}]\n"),
    "an alias of a list": ("a: &a [1]\nb: *a\n", {"/b/0": 2}, "a: &a [1]\nb: [2]\n"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change(case: str) -> None:
    before, changes, after = CHANGES[case]
    assert set_in(HEAD + before, changes) == Fixes({"f.yaml": (HEAD + after).encode()}, [])


JSON_HEAD = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, '
JSON_CHANGES: dict[str, tuple[str, dict[str, Any], str]] = {
    "a string": ('"a": "x"}', {"/a": "y\u00e9"}, '"a": "y\u00e9"}'),
    "a string with escapes": (r'"a": "\ud83d\ude00\/", "b": 1}', {"/b": 2}, r'"a": "\ud83d\ude00\/", "b": 2}'),
    "half a pair": (r'"a": "\ud83d", "b": 1}', {"/b": 2}, r'"a": "\ud83d", "b": 2}'),
    "what YAML would fold": ('"a": "x\u2028\x85y\x7f", "b": 1}', {"/b": 2}, '"a": "x\u2028\x85y\x7f", "b": 2}'),
    "keys that differ in one": ('"\u2028": 1, "\u2029": 1, "b": 1}', {"/b": 2}, '"\u2028": 1, "\u2029": 1, "b": 2}'),
    "an object behind another": (
        '"a": 1} {"apiVersion": "v1", "kind": "X"}',
        {"/a": 2},
        '"a": 2} {"apiVersion": "v1", "kind": "X"}',
    ),
    "a key": ('"a" : {"b" : 1}}', {"/a/c": {"d": "x"}}, '"a" : {"b" : 1, "c": {"d": "x"}}}'),
    "Windows": (
        '\r\n"a": {\r\n\t"b": null\r\n}}',
        {"/a/b": {"c": 1}},
        '\r\n"a": {\r\n\t"b": {\r\n\t\t"c": 1\r\n\t}\r\n}}',
    ),
}


@pytest.mark.parametrize("case", JSON_CHANGES)
def test_a_change_of_json(case: str) -> None:
    before, changes, after = JSON_CHANGES[case]
    assert set_in(JSON_HEAD + before, changes) == Fixes({"f.yaml": (JSON_HEAD + after).encode()}, [])


BY_HAND: dict[str, tuple[str, dict[str, Any], str]] = {
    "a block": ("a:\n- 1\n", {"/a": [1, 2]}, "a block would have to be replaced whole; set a to [1, 2] by hand"),
    "a block of text": ("a: |\n  x\n", {"/a": "z"}, "a block of text would have to be replaced; set a to z by hand"),
    "brackets": (
        "a: [b: 1]\n",
        {"/a/0/c": 1},
        "a mapping in brackets has no braces of its own; set a[0].c to 1 by hand",
    ),
    "an anchor": ("a: &a 1\nb: *a\n", {"/a": 2}, "others use the same text, by the anchor &a; set a to 2 by hand"),
    "a way that is none": ("a: 1\n", {"/a/b": 2}, "the change does not fit what is written; set a.b to 2 by hand"),
    "an item that is not there": (
        "a: [1]\n",
        {"/a/1": 2},
        "the change does not fit what is written; set a[1] to 2 by hand",
    ),
    "no number of an item": ("a: [1]\n", {"/a/b": 2}, "the change does not fit what is written; set a.b to 2 by hand"),
    "a comment that touches a quote": (
        "a: 'x'# y\n",
        {"/a": 1},
        "its text cannot be changed for certain without changing more; set a to 1 by hand",
    ),
    "a key by an alias": ("a: &a b\n? *a\n: 1\n", {"/b": 2}, "a key has no colon; set b to 2 by hand"),
    "a document that is not YAML": ("---\na: b: c\n", {"/d": 1}, "not all of the file can be read; set d to 1 by hand"),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_what_is_left_to_people(case: str) -> None:
    text, changes, message = BY_HAND[case]
    data = (HEAD + text).encode()
    operations = [{"op": "replace", "path": path, "value": value} for path, value in changes.items()]
    found = Found(
        Place("f.yaml", 1, 1), "a-rule", Severity.PATCH, "v1", "ConfigMap", "x", "c", "", "", tuple(operations)
    )
    fixes = fixed_texts(Inputs(texts={"f.yaml": data}), Result((found,)))
    assert fixes == Fixes({}, [Fault(Place("f.yaml", 1, 1), f'ConfigMap "c": is not fixed: {message}')])
