"""Manifest texts: what kubectl reads is read, and what it does not read is said with its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.sources.documents import Document, DocumentError, parse_documents, position, read_documents
from webhook.sources.nodes import Problem

HEAD = "apiVersion: v1\nkind: ConfigMap\n"


def values(text: str | bytes, file: str = "f.yaml") -> list[Any]:
    return [document.value for document in parse_documents(text if isinstance(text, bytes) else text.encode(), file)]


def problems(text: str | bytes, file: str = "f.yaml") -> str:
    with pytest.raises(DocumentError) as raised:
        values(text, file)
    return str(raised.value)


# Values. Each was compared with sigs.k8s.io/yaml v1.6.0, as kubectl 1.36 uses it.

SCALARS: dict[str, Any] = {
    "8": 8,
    "+8": 8,
    "-0": 0,
    "010": 8,
    "0o17": 15,
    "08": 8,
    "0x1F": 31,
    "0b101": 5,
    "1_000": 1000,
    "1e3": 1000,
    "1E3": 1000,
    "0.5": 0.5,
    ".5": 0.5,
    "5.": 5,
    "1.0": 1,
    "1e21": 1e21,
    "1e400": "1e400",
    "9223372036854775808": 9223372036854775808,
    "123456789012345678901234567890": 1.2345678901234568e29,
    "1k": "1k",
    "1Ki": "1Ki",
    "1E": "1E",
    "1:30": "1:30",
    "0x": "0x",
    "-": "-",
    "10.0.0.1": "10.0.0.1",
    "2001-01-01": "2001-01-01",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "true": True,
    "yes": True,
    "y": True,
    "On": True,
    "off": False,
    "n": False,
    "tRue": "tRue",
    "null": None,
    "~": None,
    "": None,
    "nUll": "nUll",
    "=": "=",
    "'8'": "8",
    '"yes"': "yes",
    "!!str 8": "8",
    "!!int '8'": 8,
    "!!float 8": 8,
    "!!bool 'yes'": True,
    "!!null ''": None,
    "!!timestamp 2001-01-01": "2001-01-01",
    '"\\u00e9\\x41\\/"': "éA/",
}


def written(value: Any) -> str:
    """With its type: 1, 1.0 and True are three values."""
    return repr(value)


@pytest.mark.parametrize("text", [text for text in SCALARS if text != "-"])
def test_scalars_are_what_kubernetes_reads(text: str) -> None:
    (value,) = values(f"{HEAD}data:\n  a: {text}\n  b: [{text}]\n" if text else f"{HEAD}data:\n  a:\n  b: [~]\n")
    assert written(value["data"]) == written({"a": SCALARS[text], "b": [SCALARS[text]]})


KEYS = {
    "1": "1",
    "0x10": "16",
    "on": "true",
    "n": "false",
    "1.10": "1.1",
    "1e6": "1e+06",
    "0.00001": "1e-05",
    "100000.5": "100000.5",
    "2001-01-01": "2001-01-01",
    "'on'": "on",
    "!!str 1": "1",
}


@pytest.mark.parametrize(("text", "key"), KEYS.items())
def test_keys_are_strings(text: str, key: str) -> None:
    assert values(f"{HEAD}data: {{? {text} : v}}\n") == [{"apiVersion": "v1", "kind": "ConfigMap", "data": {key: "v"}}]


def test_merge_keys_act_as_in_go_yaml() -> None:
    text = (
        f"{HEAD}base: &base {{x: 1, a: {{z: 2}}}}\nover: &over {{x: 3}}\nabove: {{x: 5, <<: *base}}\n"
        "below: {<<: *base, x: 5}\nfirst: {<<: [*over, *base]}\nplain: {'<<': 1}\n"
    )
    (value,) = values(text)
    assert value["above"] == {"x": 1, "a": {"z": 2}}
    assert value["below"] == {"x": 5, "a": {"z": 2}}
    assert value["first"] == {"x": 3, "a": {"z": 2}}
    assert value["plain"] == {"<<": 1}


def test_an_alias_is_a_copy() -> None:
    (value,) = values(f"{HEAD}a: &a {{x: [1]}}\nb: *a\n")
    value["a"]["x"].append(2)
    assert value["b"] == {"x": [1]}


# Encodings


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + f"{HEAD}a: é\n".encode(),
        f"{HEAD}a: é\n".encode("utf-16"),
        b"\xfe\xff" + f"{HEAD}a: é\n".encode("utf-16-be"),
        f"{HEAD}a: é\n".replace("\n", "\r\n").encode(),
        b'\xef\xbb\xbf{"apiVersion": "v1", "kind": "ConfigMap", "a": "\\u00e9"}',
    ],
)
def test_encodings_that_kubectl_accepts(data: bytes) -> None:
    assert values(data) == [{"apiVersion": "v1", "kind": "ConfigMap", "a": "é"}]


JSON_STRINGS = [
    "😀",
    "\\ud83d",
    "a/b",
    "\x7f\x85\u2028\u2029\ufeff\uffff",
    '"\\\b\f\n\r\t',
    "yes",
    "1e3",
    "{{ x }}",
]


@pytest.mark.parametrize("text", JSON_STRINGS)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_json_strings_survive(text: str, ascii_only: bool) -> None:
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "a": text}, ensure_ascii=ascii_only)
    assert values(body)[0]["a"] == text


def test_half_a_surrogate_pair_is_replaced_as_in_go() -> None:
    assert values('{"apiVersion": "v1", "kind": "ConfigMap", "a": "x\\ud800y"}')[0]["a"] == "x\ufffdy"


def test_json_values_may_follow_one_another() -> None:
    first, second = '{"apiVersion": "v1",\n\t"kind": "A"}', '{"apiVersion": "v1",\n\t"kind": "B"}'
    documents = parse_documents(f"\n{first}{second}\n\n{first}\n".encode(), "f.json")
    assert [(each.value["kind"], each.line, each.number) for each in documents] == [
        ("A", 2, 1),
        ("B", 3, 2),
        ("A", 6, 3),
    ]
    assert [position(each, ("kind",)) for each in documents] == [(3, 2), (4, 2), (7, 2)]


# Documents and Lists

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


@pytest.mark.parametrize("text", ["", "\n\n", "---\n", "# a comment\n", "---\n# x\n---\n---\n...\n", "null\n---\n~\n"])
def test_blank_documents_are_skipped(text: str) -> None:
    assert values(text) == []
    assert [(each.line, each.number) for each in parse_documents(f"{text}\n---\n{POD}".encode(), "f")] == [
        (text.count("\n") + 3, len(list(yaml.compose_all(f"{text}\n---\n{POD}"))))
    ]


LISTS = {
    "a List": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n",
    "a List in a List": (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n"
        "  - {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: List}\n"
    ),
    "a typed list": "apiVersion: v1\nkind: PodList\nmetadata: {resourceVersion: '1'}\nitems:\n- metadata: {name: a}\n",
    "a typed list whose items say it themselves": (
        "apiVersion: v2\nkind: PodList\nitems: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]\n"
    ),
    "items null": f"apiVersion: apps/v1\nkind: DeploymentList\nitems: null\n---\n{POD}",
    "no items": f"apiVersion: v1\nkind: List\n---\n{POD}",
    "an alias": f"{POD}x: &x\n- {{apiVersion: v1, kind: Pod, metadata: {{name: a}}}}\n",
    "JSON": '{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}',
}


@pytest.mark.parametrize("text", LISTS.values(), ids=LISTS.keys())
def test_lists_are_unfolded(text: str) -> None:
    found = [{key: part for key, part in value.items() if key != "x"} for value in values(text)]
    assert found == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]


def test_a_kind_that_only_sounds_like_a_list_is_none() -> None:
    named = {"apiVersion": "example.com/v1", "kind": "AllowList", "metadata": {"name": "x"}, "items": []}
    bare = {"apiVersion": "example.com/v1", "kind": "AllowList", "spec": {}}
    assert values(f"{json.dumps(named)}{json.dumps(bare)}") == [named, bare]


# Places


def place(path: tuple[str | int, ...], text: str, number: int = 0) -> tuple[int, int]:
    return position(parse_documents(text.encode(), "f")[number], path)


NESTED = f"# first\n---\n{HEAD}spec:\n  list:\n  - a: 1\n    b: 2\n  -   c: 3\n  1: one\n"
MERGED = f"{HEAD}base: &base\n  x: 1\nspec:\n  <<: *base\n  z: 2\nboth:\n  <<: [{{x: 7}}, *base]\n  x: 8\n"
LISTED = (
    "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  spec: {}\n"
    "- {apiVersion: v1, kind: Pod, spec: {}}\n"
)

PLACES: list[tuple[str, tuple[str | int, ...], int, tuple[int, int]]] = [
    (NESTED, (), 0, (3, 1)),
    (NESTED, ("kind",), 0, (4, 1)),
    (NESTED, ("spec", "list"), 0, (6, 3)),
    (NESTED, ("spec", "list", 0), 0, (7, 5)),
    (NESTED, ("spec", "list", 0, "b"), 0, (8, 5)),
    (NESTED, ("spec", "list", 1), 0, (9, 7)),
    (NESTED, ("spec", "1"), 0, (10, 3)),
    (NESTED, ("spec", "list", 1, "absent", "more"), 0, (9, 7)),
    (NESTED, ("spec", "list", 2), 0, (6, 3)),
    (NESTED, ("spec", "list", "a"), 0, (6, 3)),
    (NESTED, ("spec", 0), 0, (5, 1)),
    (NESTED, ("absent",), 0, (3, 1)),
    (MERGED, ("spec", "x"), 0, (4, 3)),
    (MERGED, ("spec", "z"), 0, (7, 3)),
    (MERGED, ("both", "x"), 0, (10, 3)),
    (LISTED, (), 0, (4, 3)),
    (LISTED, ("spec",), 0, (6, 3)),
    (LISTED, ("spec",), 1, (7, 31)),
    (f"{HEAD}é: {{ü: 1, x: 2}}\n", ("é", "x"), 0, (3, 11)),
]


@pytest.mark.parametrize(("text", "path", "number", "expected"), PLACES)
def test_position(text: str, path: tuple[str | int, ...], number: int, expected: tuple[int, int]) -> None:
    assert place(path, text, number) == expected


# Problems

OBJECT = "every object needs apiVersion, kind and metadata.name"
TEMPLATE = "looks like an unrendered Helm template ('{{'); render it first, for instance with `helm template`"
DEEP = "is nested deeper than 200 levels; no Kubernetes object is"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE_BOMB = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{{name}1: *{before}, {name}2: *{before}, <<: [{', '.join([f'*{before}'] * 10)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

PROBLEMS: dict[str, tuple[str | bytes, str]] = {
    "syntax": (
        f"{HEAD}a: b: c\n",
        "f.yaml:3: is not YAML at column 5: mapping values are not allowed in this context; correct it",
    ),
    "a key without an end": (
        f"{HEAD}metadata\n  name: a\n",
        "f.yaml:3: is not YAML at column 1: while scanning a simple key: could not find expected ':'; correct it",
    ),
    "a quote without an end": (
        f"{HEAD}a: 'b\nc: d\n",
        "f.yaml:3: is not YAML at column 4: while scanning a quoted scalar: found unexpected end of stream; correct it",
    ),
    "a tab": (
        f"{HEAD}a:\n\tb: c\n",
        "f.yaml:4: is not YAML at column 1: while scanning for the next token: found character that cannot start any "
        "token; indent with spaces, not tabs",
    ),
    "an unknown alias": (f"{HEAD}a: *b\n", "f.yaml:3: is not YAML at column 4: found undefined alias; correct it"),
    "a key twice": (
        f"{HEAD}a: 1\nb: 2\na: 3\n",
        'f.yaml:5: key "a" is there twice, first on line 3; remove one of them',
    ),
    "a key twice, deeper": (
        f"---\n{HEAD}s: {{x: 1,\n  x: 2}}\n",
        'f.yaml:5: key "x" is there twice, first on line 4; remove one of them',
    ),
    "a key twice in other words": (
        f"{HEAD}on: 1\n'true': 2\n",
        'f.yaml:4: key "true" is there twice, first on line 3; remove one of them',
    ),
    "a key twice in JSON": (
        '{"apiVersion": "v1",\n"kind": "Pod",\n"kind": "Pod"}',
        'f.yaml:3: key "kind" is there twice, first on line 2; remove one of them',
    ),
    "a list": ("- 1\n", "f.yaml:1: is a list, not an object; a manifest begins with apiVersion and kind"),
    "a string": ("# x\nhello\n", "f.yaml:2: is a string, not an object; a manifest begins with apiVersion and kind"),
    "a number": ("3\n", "f.yaml:1: is a number, not an object; a manifest begins with apiVersion and kind"),
    "a boolean": ("yes\n", "f.yaml:1: is a boolean, not an object; a manifest begins with apiVersion and kind"),
    "no kind": ("apiVersion: v1\n", f"f.yaml:1: kind is missing; {OBJECT}"),
    "no apiVersion": ("\nkind: Pod\n", f"f.yaml:2: apiVersion is missing; {OBJECT}"),
    "neither": ("{}\n", f"f.yaml:1: apiVersion and kind are missing; {OBJECT}"),
    "kind null": ("apiVersion: v1\nkind:\n", f"f.yaml:1: kind is missing; {OBJECT}"),
    "kind a number": ("apiVersion: v1\nkind: 1\n", "f.yaml:2: kind must be a string, is 1; quote it"),
    "an item that is none": (
        "apiVersion: v1\nkind: List\nitems:\n- null\n- [1]\n",
        "f.yaml:4: items[0] is no object; remove it\nf.yaml:5: items[1] is no object; remove it",
    ),
    "an item without a kind": (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n",
        f"f.yaml:4: kind is missing; {OBJECT}",
    ),
    "items that are no list": (
        "apiVersion: v1\nkind: List\nitems: {a: b}\n",
        "f.yaml:3: items must be a list; write each object as an item of its own",
    ),
    "a template as a value": (f"{HEAD}name: {{{{ .Values.name }}}}\n", f"f.yaml:3: {TEMPLATE}"),
    "a template as a line": (f"{HEAD}{{{{- if .Values.on }}}}\na: 1\n{{{{- end }}}}\n", f"f.yaml:3: {TEMPLATE}"),
    "a template at the start": (f"{{{{- if .Values.on }}}}\n{HEAD}{{{{- end }}}}\n", f"f.yaml:1: {TEMPLATE}"),
    "a template in a value": (f"{HEAD}a: x{{{{ .y }}}}: z\n", f"f.yaml:3: {TEMPLATE}"),
    "a binary": (f"{HEAD}a: !!binary aGk=\n", "f.yaml:3: the tag !!binary is not read in manifests; leave it out"),
    "a set": (f"{HEAD}a: !!set {{b}}\n", "f.yaml:3: the tag !!set is not read in manifests; leave it out"),
    "a tag of one's own": (f"{HEAD}a: !x [1]\n", "f.yaml:3: the tag !x is not read in manifests; leave it out"),
    "Python": (
        f"{HEAD}a: !!python/object/apply:os.system ['true']\n",
        "f.yaml:3: the tag !!python/object/apply:os.system is not read in manifests; leave it out",
    ),
    "a tag that lies": (f"{HEAD}a: !!int x\n", "f.yaml:3: 'x' is no int; correct the value, or leave the tag out"),
    "infinity": (f"{HEAD}a: -.inf\n", "f.yaml:3: -.inf is no number in JSON; write a finite one, or quote it"),
    "no number": (f"{HEAD}a: .nan\n", "f.yaml:3: .nan is no number in JSON; write a finite one, or quote it"),
    "a key that is null": (f"{HEAD}~: 1\n", "f.yaml:3: a field has no name; write one, or quote it"),
    "a key that is a list": (f"{HEAD}? [a]\n: 1\n", "f.yaml:3: a key must be a name, and is a collection; quote it"),
    "a merge of nothing": (
        f"{HEAD}a: {{<<: 1}}\n",
        "f.yaml:3: a merge key (<<) takes mappings only; give it the alias of a mapping",
    ),
    "an alias of itself": (f"{HEAD}a: &a [*a]\n", "f.yaml:3: holds an alias of itself; write the value out"),
    "a merge of itself": (f"{HEAD}a: &a {{<<: *a}}\n", "f.yaml:3: holds an alias of itself; write the value out"),
    "an alias bomb": (
        f"{BOMB}{HEAD}",
        "f.yaml:1: aliases repeat more than 100,000 values; write them out where needed",
    ),
    "a merge bomb": (
        f"{MERGE_BOMB}{HEAD}",
        "f.yaml:1: aliases repeat more than 100,000 values; write them out where needed",
    ),
    "deep": (f"{HEAD}a: {'[' * 201}{']' * 201}\n", f"f.yaml:3: {DEEP}"),
    "very deep": (f"{HEAD}a: {'[' * 100_000}\n", f"f.yaml:3: {DEEP}"),
    "very deep, in blocks": (f"{'- ' * 100_000}\n", f"f.yaml:1: {DEEP}"),
    "very deep JSON": ('{"a":' * 100_000, f"f.yaml:1: {DEEP}"),
    "NUL": (f"{HEAD}a: b\0c\n---\n- 1\n", "f.yaml:3: holds a NUL character; save the file as UTF-8 text"),
    "UTF-16 without a mark": (HEAD.encode("utf-16-le"), "f.yaml:1: holds a NUL character; save the file as UTF-8 text"),
    "a control character": (f"{HEAD}a: \x07\n", "f.yaml:3: holds the control character U+0007; remove it"),
    "Latin-1": (f"{HEAD}a: é\n".encode("latin-1"), "f.yaml:3: is not UTF-8; save the file as UTF-8"),
    "half a UTF-16": (HEAD.encode("utf-16") + b"\n", "f.yaml:3: is not UTF-16; save the file as UTF-8"),
    "too large": (b" " * (32 * 2**20 + 1), "f.yaml: is larger than 32 MiB; split it"),
    "all at once": (
        "a: 1\na: 2\n---\n- 1\n---\nkind: Pod\n---\na: b: c\n",
        'f.yaml:2: key "a" is there twice, first on line 1; remove one of them\n'
        "f.yaml:4: is a list, not an object; a manifest begins with apiVersion and kind\n"
        f"f.yaml:6: apiVersion is missing; {OBJECT}\n"
        "f.yaml:8: is not YAML at column 5: mapping values are not allowed in this context; correct it",
    ),
}


@pytest.mark.parametrize(("text", "message"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_problems(text: str | bytes, message: str) -> None:
    assert problems(text) == message


def test_what_can_be_read_is_there_all_the_same() -> None:
    with pytest.raises(DocumentError) as raised:
        parse_documents(f"{POD}---\n- 1\n---\n{POD}---\na: b: c\n".encode(), "f")
    assert [each.line for each in raised.value.documents] == [1, 7]
    assert [(each.line, each.column) for each in raised.value.problems] == [(5, 1), (11, 5)]


def test_a_kustomization_is_named() -> None:
    assert problems("resources: []\n", "base/kustomization.yaml") == (
        "base/kustomization.yaml:1: apiVersion and kind are missing; render a kustomization first, with "
        "`kubectl kustomize`"
    )


def test_repeating_a_little_is_fine() -> None:
    items = "".join(f"- *a{number}\n" for number in range(3)) * 100
    anchors = "".join(f"a{number}: &a{number} {{x: 1}}\n" for number in range(3))
    assert len(values(f"{HEAD}{anchors}items:\n{items}")[0]["items"]) == 300


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    (document,) = read_documents(path)
    assert (document.file, document.line, document.number) == (str(path), 1, 1)
    with pytest.raises(DocumentError) as raised:
        read_documents(tmp_path / "absent.yaml")
    assert str(raised.value) == (
        f"{tmp_path}/absent.yaml: cannot be read: No such file or directory; check the path and who may read it"
    )
    with pytest.raises(DocumentError) as raised:
        read_documents(tmp_path)
    assert str(raised.value) == f"{tmp_path}: cannot be read: Is a directory; check the path and who may read it"


def test_without_libyaml_it_reads_the_same() -> None:
    """PyYAML from source, on a machine without libyaml, has only its Python half."""
    code = (
        "import sys; sys.modules['yaml._yaml'] = None\n"
        "import yaml; assert not yaml.__with_libyaml__\n"
        "import tests.test_documents as t\n"
        "for text, value in t.SCALARS.items():\n"
        "    if text not in ('', '-'):\n"
        "        assert t.values(f'{t.HEAD}a: {text}\\n')[0]['a'] == value, text\n"
        "for name in ('a key twice', 'an alias bomb', 'very deep', 'a binary', 'a template as a value', 'syntax'):\n"
        "    text, message = t.PROBLEMS[name]\n"
        "    assert t.problems(text).rpartition(';')[2] == message.rpartition(';')[2], name\n"
        "assert 'not YAML' in t.problems('\"\\\\UFFFFFFFF\"')\n"
        "for text, path, number, place in t.PLACES:\n"
        "    assert t.place(path, text, number) == place\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])


# Anything

YAMLISH = st.text(st.sampled_from("ab01 \n\t-:,[]{}&*!|>'\"#%@`?<~.\\/ux\0\ufeff\u2028é😀"), max_size=60)
SIGNS = [*"{}[],\"'!\n\t\r", "---\n", "...\n", "- ", "? ", "a: ", "&a ", "*a", "<<: ", "|\n", ">-\n", "  ", "# c\n"]
WORDS = [
    "null",
    "\\ud800",
    "1e3",
    "{{ x }}",
    "!!int ",
    "!!binary ",
    "%YAML 1.1\n",
    "%TAG ! x\n",
    "items:\n",
    "items: []\n",
]
LISTISH = ["kind: List\n", '{"apiVersion":"v1","kind":"List","items":[']
PIECES = st.lists(st.sampled_from([HEAD, POD, *SIGNS, *WORDS, *LISTISH]), max_size=25).map("".join)


def read(data: bytes) -> None:
    """Anything but a DocumentError fails the test."""
    found: list[Problem] = []
    try:
        documents = parse_documents(data, "f")
    except DocumentError as error:
        found, documents = error.problems, error.documents
        assert str(error)  # noqa: PT017
    assert all(";" in each.text and each.line >= 0 for each in found)
    for document in documents:
        check(document)


def check(document: Document) -> None:
    assert isinstance(document.value["kind"], str)
    line, column = position(document, ("metadata", "name"))
    assert line >= document.line
    assert column >= 1
    json.dumps(document.value, allow_nan=False)


@settings(max_examples=600, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    read(data)


@settings(max_examples=600, deadline=None)
@given(YAMLISH | PIECES)
def test_arbitrary_yaml_is_read_or_refused(text: str) -> None:
    read(text.encode())
    read(HEAD.encode() + text.encode())
    read(text.encode("utf-16"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=400, deadline=None)
@given(JSON, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_json_is_read_as_it_is(value: Any, ascii_only: bool, indent: int | str | None) -> None:
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "data": value}
    text = json.dumps(whole, ensure_ascii=ascii_only, indent=indent)
    assert values(text.encode()) == [whole]


@settings(max_examples=300, deadline=None)
@given(JSON)
def test_yaml_that_was_written_from_json_reads_the_same(value: Any) -> None:
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "data": value}
    text = yaml.safe_dump(whole, default_style='"')
    assert values(text.encode()) == [whole]
