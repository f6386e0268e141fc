"""`floorkeeper check --fix`: files get the values that admission would write, and keep every other byte.

tests/corpus holds odd files: FILE.yaml becomes FILE.fixed.yaml.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.cases import outcome_of
from tests.fixing import CORPUS, HEAD, POLICY, STATE, VARIANTS, fixed, found_in, odd_files, subjects
from webhook.check.fix import Fixes, changed, fixed_texts
from webhook.check.inputs import Inputs
from webhook.check.result import Fault, Found, Place, Result
from webhook.engine.verdict import Severity
from webhook.sources.documents import Document, DocumentError, parse_documents
from webhook.sources.nodes import child
from webhook.sources.text import decode

SURGE = "set spec.strategy.rollingUpdate.maxSurge to 0"
QUEUE = "spec.template.metadata.labels[kueue.x-k8s.io/queue-name] to"
REQUEST = "spec.template.spec.containers[0].resources.requests to {nvidia.com/gpu: 1}"
METADATA = "set spec.template.metadata to {labels: {kueue.x-k8s.io/queue-name: model-a-lq}}"
NOT_FIXED = {
    "shared.yaml": [
        (8, "model-a-1", f"others use the same text, by the anchor &surge; {SURGE} by hand"),
        (61, "model-b-3", f"others use the same text, by the anchor &shared; set {QUEUE} model-b-lq by hand"),
        (78, "model-a-4", f"a merge key (<<) overrides the key above it; {SURGE} by hand"),
        (
            95,
            "model-a-5",
            f"a block of text would have to be replaced; {SURGE}, and {QUEUE} model-a-lq, and {REQUEST} by hand",
        ),
        (107, "model-a-6", f"a key has no colon; {SURGE}, and {QUEUE} model-a-lq, and {REQUEST} by hand"),
        (
            116,
            "model-a-7",
            f"a key has no colon; {METADATA}, and {REQUEST}, and {SURGE.removeprefix('set ')} by hand",
        ),
    ]
}


def not_fixed(name: str) -> list[tuple[int, str]]:
    return [
        (line, f'{"StatefulSet" if "-b" in own else "Deployment"} "{own}": is not fixed: {text}')
        for line, own, text in NOT_FIXED.get(name, [])
    ]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("path", odd_files(), ids=lambda path: path.name)
def test_only_what_must_change_changes(path: Path, variant: str) -> None:
    after = path.with_name(f"{path.stem}.fixed{path.suffix}").read_bytes()
    vary = VARIANTS[variant]
    fixes = fixed({path.name: vary(path.read_bytes())})
    assert fixes.texts[path.name] == vary(after)
    assert [(fault.place.line, fault.message) for fault in fixes.problems] == not_fixed(path.name)


@pytest.mark.parametrize("path", odd_files(), ids=lambda path: path.name)
def test_what_is_fixed_is_clean_and_stays(path: Path) -> None:
    before = {path.name: path.read_bytes()}
    fixes = fixed(before)
    assert fixed({**before, **fixes.texts}) == Fixes({}, fixes.problems)
    judged = [subject for _, subject in subjects(fixes.texts[path.name], path.name)]
    patched = [subject.name for subject in judged if outcome_of(subject, STATE, POLICY).patch]
    assert patched == [name for _, name, _ in NOT_FIXED.get(path.name, [])]


def test_every_fixed_file_has_an_odd_one() -> None:
    assert {path.name.replace(".fixed", "") for path in CORPUS.glob("*.fixed.*")} == {path.name for path in odd_files()}


def found(line: int, name: str = "c", namespace: str = "x", file: str = "f.yaml") -> Found:
    """A finding that asks for a to be 2."""
    change = ({"op": "replace", "path": "/a", "value": 2},)
    return Found(Place(file, line, 1), "", Severity.PATCH, "v1", "ConfigMap", namespace, name, "", "", change)


def told(line: int, reason: str) -> Fault:
    return Fault(Place("f.yaml", line, 1), f'ConfigMap "c": is not fixed: {reason}; set a to 2 by hand')


def fixes_of(text: str, *findings: Found) -> Fixes:
    return fixed_texts(Inputs(texts={"f.yaml": text.encode()}), Result(findings))


def test_the_rest_of_a_file_with_documents_that_are_none_is_fixed() -> None:
    text = f"image: {{tag: x}}\n---\n{HEAD}a: 1\n---\n{HEAD}a: 1\na: 2\n"
    assert fixes_of(text, found(3)) == Fixes({"f.yaml": text.replace("a: 1", "a: 2", 1).encode()}, [])


def test_what_is_above_a_document_that_is_not_yaml_is_fixed() -> None:
    other = HEAD.replace("c}", "d}")
    text = f"{HEAD}a: 1\n---\nb: [1\n---\n{other}a: 1\n"
    assert fixes_of(text, found(1), found(8, "d")) == Fixes(
        {"f.yaml": text.replace("a: 1", "a: 2", 1).encode()},
        [Fault(Place("f.yaml", 8, 1), told(8, "not all of the file can be read").message.replace('"c"', '"d"'))],
    )


def test_the_same_object_twice_is_told_apart_by_its_place() -> None:
    text = f"{HEAD}a: 1\n---\n{HEAD}a: 1\n"
    assert fixes_of(text, found(6)).texts == {"f.yaml": f"{HEAD}a: 1\n---\n{HEAD}a: 2\n".encode()}
    assert fixes_of(text, found(99)) == Fixes({}, [told(99, "where it is in the file is not clear")])


def test_one_of_many_of_the_same_name() -> None:
    texts = [f"{HEAD}a: 1\n"] * 20
    one = len(texts[0].splitlines()) + 1
    for index in (0, 7, 19):
        fixed = [*texts[:index], f"{HEAD}a: 2\n", *texts[index + 1 :]]
        assert fixes_of("---\n".join(texts), found(1 + index * one)).texts == {"f.yaml": "---\n".join(fixed).encode()}
    for line in (0, 999):
        assert fixes_of("---\n".join(texts), found(line)).problems == [
            told(line, "where it is in the file is not clear")
        ]


def test_names_that_the_api_server_will_choose_and_namespaces() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: c-}\na: 1\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: c-, namespace: x}\na: 1\n"
    )
    assert fixes_of(text, found(6, "c-*")) == Fixes({"f.yaml": text[:-2].encode() + b"2\n"}, [])
    assert fixes_of(text, found(6, "c-*", "y")) == Fixes({"f.yaml": text.replace("1\n---", "2\n---").encode()}, [])


def test_what_a_kustomization_made_is_not_fixed() -> None:
    file = "overlays/prod (kustomize)"
    inputs = Inputs(texts={file: f"{HEAD}a: 1\n".encode()}, unwritable=frozenset({file}))
    message = 'ConfigMap "c": is not fixed: a kustomization made it; set a to 2 in a patch of that'
    fixes = fixed_texts(inputs, Result((found(1, file=file), found(4, file=file))))
    assert fixes == Fixes({}, [Fault(Place(file, 4, 1), message)])


def test_only_findings_of_severity_patch_count() -> None:
    assert fixes_of(f"{HEAD}a: 1\n", replace(found(1), severity=Severity.WARN)) == Fixes({}, [])


# Properties

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5000),
    st.sampled_from(
        ["", "25%", "yes", "0x10", "1e3", "~", "a: b", "x #y", "- z", "'", '"', "größe 🤖", "\t", "a\nb\n"]
    ),
)
keys = st.sampled_from(["a", "b", "c", "on", "1", "x/y", "x~y", "ü", "a b", "<<", "long" * 40])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def written(draw: st.DrawFn) -> str:
    """Some object in some style, with comments between its lines and behind them."""
    value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, **draw(st.dictionaries(keys, values))}
    if draw(st.booleans()):
        return json.dumps(value, indent=draw(st.sampled_from([None, 1, 4, "\t"])), ensure_ascii=draw(st.booleans()))
    text = yaml.safe_dump(
        value,
        indent=draw(st.integers(2, 6)),
        width=draw(st.sampled_from([20, 1000])),
        default_flow_style=draw(st.sampled_from([None, True, False])),
        default_style=draw(st.sampled_from([None, "'", '"'])),
        allow_unicode=draw(st.booleans()),
    )
    lines = []
    for line in text.splitlines():
        if draw(st.integers(0, 5)) == 0:
            lines.append(" " * draw(st.integers(0, 8)) + "# between")
        lines.append(line + draw(st.sampled_from(["", "", "", " # beside", " "])))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n# the end\n"]))


def places(value: Any, pointer: str = "") -> list[tuple[str, Any]]:
    """Every scalar, and every key that a mapping does not have yet, with the value that is there."""
    found: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        found.append((f"{pointer}/new~1key", None))
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        inner = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
        found += places(part, inner) if isinstance(part, dict | list) else [(inner, part)]
    return [place for place in found if place[0] not in ("/apiVersion", "/kind", "/metadata/name")]


def lines_of(document: Document, pointer: str) -> int:
    """How many lines a value is written on; 1 for one that is not there, as a comma may be needed before it."""
    node = document.root
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = child(node, int(name) if isinstance(node, yaml.SequenceNode) else name)
        if found is None:
            return 1
        node = found[1]
    return node.end_mark.line - node.start_mark.line + 1


@given(text=written(), vary=st.sampled_from(list(VARIANTS.values())), data=st.data())
@settings(max_examples=300, deadline=None)
def test_changes_of_any_object_are_proven_and_small(
    text: str, vary: Callable[[bytes], bytes], data: st.DataObject
) -> None:
    before = vary(text.encode())
    try:
        (document,) = parse_documents(before, "f")
    except DocumentError:
        assume(False)
    chosen = data.draw(
        st.lists(st.sampled_from(places(document.value)), min_size=1, max_size=3, unique_by=lambda each: each[0])
    )
    change = [{"op": "add", "path": path, "value": data.draw(scalars | st.just({"k": {"l": 0}}))} for path, _ in chosen]
    result = found_in([document], {0: change})
    fixes = fixed_texts(Inputs(texts={"f": before}), result)
    wanted = changed(document.value, change)
    after = fixes.texts.get("f", before)
    (read,) = parse_documents(after, "f")
    if fixes.problems:
        assert after == before
        assert "a block of text would have to be replaced" in fixes.problems[0].message
        return
    assert json.dumps(read.value, sort_keys=True) == json.dumps(wanted, sort_keys=True)
    gone = Counter(decode(before).splitlines()) - Counter(decode(after).splitlines())
    assert gone.total() <= sum(lines_of(document, path) for path, _ in chosen)
    assert fixed_texts(Inputs(texts={"f": after}), result) == Fixes({}, [])


BITS = [
    "#",
    " ",
    "\n",
    "\t",
    ":",
    "- ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "&x ",
    "*x",
    "'",
    '"',
    "|\n",
    "~",
    "!!str ",
    "# c\n",
]


@given(path=st.sampled_from(odd_files()), data=st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_files_are_fixed_or_told_of(path: Path, data: st.DataObject) -> None:
    text = path.read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(start + data.draw(st.integers(0, 40)), len(text))
        text = text[:start] + data.draw(st.sampled_from(["", *BITS])) + text[end:]
    before = {"f": text.encode()}
    fixes = fixed(before)
    assert fixed({**before, **fixes.texts}).texts == {}
