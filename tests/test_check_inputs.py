"""PATHs of `floorkeeper check`: what is read, what is refused, and that the rest is read all the same."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.test_documents import BOMB, DEEP, MERGE_BOMB, OBJECT, PIECES, TEMPLATE, YAMLISH
from webhook.check.inputs import STDIN, Inputs, read_inputs
from webhook.check.rendering import RenderError, render
from webhook.check.result import Fault
from webhook.sources.documents import position
from webhook.sources.nodes import Builder

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: x}\n"
GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\n"
CUT = "is taken for no Kubernetes object and left out"

Files = dict[str, str | bytes]


def write(folder: Path, files: Files) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


class Read:
    """What PATHs below a folder come to; the folder is called DIR, and the folder itself '.'."""

    def __init__(
        self, folder: Path, files: Files, *paths: str, stdin: bytes = b"", namespace: str = "", programs: str = ""
    ) -> None:
        self._folder = write(folder, files)
        given = [path if path == "-" else str(folder / path) for path in paths or (".",)]
        self.inputs: Inputs = read_inputs(given, io.BytesIO(stdin), namespace, programs)
        self.faults = self._shown(self.inputs.faults)
        self.notes = self._shown(self.inputs.notes)
        self.names = [each.value["metadata"].get("name") for each in self.inputs.documents]
        self.files = [each.file.replace(str(folder), "DIR") for each in self.inputs.documents]

    def _shown(self, faults: Sequence[Fault]) -> list[str]:
        return [
            f"{each.place.file}:{each.place.line}:{each.place.column}: {each.message}".replace(str(self._folder), "DIR")
            for each in faults
        ]


# What is read

READ: dict[str, tuple[str | bytes, list[str]]] = {
    "one object": (POD, ["a"]),
    "several documents": (f"{POD}---\n{GOOD}", ["a", "good"]),
    "blank ones": (f"---\n# comment\n---\n{POD}---\n---\nnull\n...\n", ["a"]),
    "nothing but comments": ("# Source: chart/templates/x.yaml\n---\n# empty\n", []),
    "an empty file": ("", []),
    "a List": (f"apiVersion: v1\nkind: List\nitems:\n- {json.dumps(yaml.safe_load(POD))}\n", ["a"]),
    "a List in a List": (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n"
        f"  - {json.dumps(yaml.safe_load(POD))}\n- {{apiVersion: v1, kind: List, items: []}}\n",
        ["a"],
    ),
    "a typed list": ("apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: b}\n", ["b"]),
    "items null": (f"apiVersion: v1\nkind: List\nitems: null\n---\n{POD}", ["a"]),
    "JSON": (json.dumps(yaml.safe_load(POD)), ["a"]),
    "JSON one after the other": (
        f"{json.dumps(yaml.safe_load(POD))}\n{json.dumps(yaml.safe_load(GOOD))}",
        ["a", "good"],
    ),
    "an anchor": ("apiVersion: v1\nkind: &k Pod\nmetadata: {name: *k}\n", ["Pod"]),
    "a merge key": ("x: &x {name: m}\napiVersion: v1\nkind: ConfigMap\nmetadata: {<<: *x}\n", ["m"]),
    "a byte-order mark": (b"\xef\xbb\xbf" + POD.encode(), ["a"]),
    "UTF-16, little end first": (b"\xff\xfe" + POD.encode("utf-16-le"), ["a"]),
    "UTF-16, big end first": (b"\xfe\xff" + POD.encode("utf-16-be"), ["a"]),
    "Windows' line ends": (POD.replace("\n", "\r\n"), ["a"]),
    "scalars of YAML 1.1 in quotes": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: 'on', labels: {a: '1', b: 'y'}}\n",
        ["on"],
    ),
    "words that YAML 1.1 leaves alone": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: 1:30, annotations: {a: 2001-01-01, b: 1Gi, c: 10.0.0.1}}\n",
        ["1:30"],
    ),
    "a name to be generated": (
        "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-, name: null}\n",
        [None],  # type: ignore[list-item]
    ),
    "no labels": ("apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: null, annotations: {}}\n", ["a"]),
    "a template in a string": ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '{{ y }}'}\n", ["a"]),
    "numbers in labels of what is no API object's metadata": (
        "apiVersion: example.com/v1\nkind: A\nmetadata: {name: a}\nspec: {template: {metadata: {labels: {a: 1}}}}\n",
        ["a"],
    ),
}


@pytest.mark.parametrize(("text", "names"), READ.values(), ids=READ.keys())
def test_what_kubernetes_reads_is_read(tmp_path: Path, text: str | bytes, names: list[str]) -> None:
    read = Read(tmp_path, {"f.yaml": text}, "f.yaml")
    assert (read.faults, read.notes, read.names) == ([], [], names)


# What is refused. In each, a document and a file behind what is wrong are read, but for the texts of WHOLE.

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n"
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"
NAMED = "every object needs a name"

REFUSED: dict[str, tuple[str | bytes, list[str]]] = {
    "a key twice": (
        f"{HEAD}data:\n  a: '1'\n  b: '2'\n  a: '3'\n",
        ['7:3: key "a" is there twice, first on line 5; remove one of them'],
    ),
    "a template as a value": (f"{HEAD}data: {{{{ .Values.data }}}}\n", [f"4:8: {TEMPLATE}"]),
    "a template as a line": (f"{{{{- if .Values.on }}}}\n{HEAD}{{{{- end }}}}\n", [f"1:3: {TEMPLATE}"]),
    "a template as a part": (f"{HEAD}data: {{a: x-{{{{ .Values.x }}}}}}\n", [f"4:13: {TEMPLATE}"]),
    "a template as a name": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: '{{ .Release.Name }}-x'\n",
        [f"4:3: metadata.name {TEMPLATE}"],
    ),
    "a tab": (
        f"{HEAD}data:\n\ta: b\n",
        [
            "5:1: is not YAML at column 1: while scanning for the next token: found character that cannot start any "
            "token; indent with spaces, not tabs"
        ],
    ),
    "a bracket without an end": (
        f"{HEAD}data: [a,\n",
        [
            "5:1: is not YAML at column 1: while parsing a flow node: did not find expected node content; correct it",
        ],
    ),
    "a quote without an end": (
        f"{HEAD}data: 'a\n",
        [
            "4:7: is not YAML at column 7: while scanning a quoted scalar: found unexpected document indicator; "
            "correct it",
        ],
    ),
    "two in a row": (
        f"{HEAD}data: {{{{ .a }}}}: b\n---\n{HEAD}data: a: b\n---\n{HEAD}a: 1\na: 2\n",
        [
            f"4:15: {TEMPLATE}",
            "9:8: is not YAML at column 8: mapping values are not allowed in this context; correct it",
            '15:1: key "a" is there twice, first on line 14; remove one of them',
        ],
    ),
    "deep nesting": (f"{HEAD}data: {'[' * 201}{']' * 201}\n", [f"4:206: {DEEP}"]),
    "deeper than libyaml goes": (f"{HEAD}data: {'[' * 100_000}\n", [f"4:1006: {DEEP}"]),
    "an alias bomb": (
        f"{BOMB}{HEAD}",
        ["1:29: aliases repeat more than 100,000 values; write them out where needed"],
    ),
    "a bomb of merge keys": (
        f"{MERGE_BOMB}{HEAD}",
        ["1:4: aliases repeat more than 100,000 values; write them out where needed"],
    ),
    "an alias of itself": (f"{HEAD}data: &a [*a]\n", ["4:7: holds an alias of itself; write the value out"]),
    "an unknown alias": (f"{HEAD}data: *a\n", ["4:7: is not YAML at column 7: found undefined alias; correct it"]),
    "an anchor twice": (
        f"{HEAD}data: {{a: &a x, b: &a y}}\n",
        ["4:20: the anchor was there before in this document; give it another name"],
    ),
    "a tag of one's own": (f"{HEAD}data: !x {{a: b}}\n", ["4:7: the tag !x is not read in manifests; leave it out"]),
    "a tag of Python": (
        f"{HEAD}data: !!python/object/apply:os.system [id]\n",
        ["4:7: the tag !!python/object/apply:os.system is not read in manifests; leave it out"],
    ),
    "a binary": (
        f"{HEAD}data: {{a: !!binary aGk=}}\n",
        ["4:11: the tag !!binary is not read in manifests; leave it out"],
    ),
    "a list": ("- a\n", ["1:1: is a list, not an object; a manifest begins with apiVersion and kind"]),
    "a string": ("a\n", ["1:1: is a string, not an object; a manifest begins with apiVersion and kind"]),
    "a number": ("8\n", ["1:1: is a number, not an object; a manifest begins with apiVersion and kind"]),
    "no kind": ("apiVersion: v1\n", [f"1:1: kind is missing; {OBJECT}"]),
    "a kind misspelt": ("apiVersion: v1\nKind: Pod\n", ['1:1: kind is missing; write "kind" for "Kind"']),
    "both misspelt": (
        "apiversion: v1\nKind: Pod\n",
        ['1:1: apiVersion and kind are missing; write "apiVersion" for "apiversion"'],
    ),
    "an item that is none": (
        "apiVersion: v1\nkind: List\nitems:\n- null\n- {a: b}\n",
        ["4:3: items[0] is no object; remove it", f"5:3: apiVersion and kind are missing; {OBJECT}"],
    ),
    "no metadata": ("apiVersion: v1\nkind: Pod\n", [f"1:1: metadata.name is missing; {NAMED}"]),
    "no name": ("apiVersion: v1\nkind: Pod\nmetadata: {}\n", [f"3:1: metadata.name is missing; {NAMED}"]),
    "an empty name": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: ''}\n",
        [f"3:12: metadata.name is missing; {NAMED}"],
    ),
    "no name, of an unknown kind": (
        "apiVersion: example.com/v1\nkind: A\nmetadata: {namespace: x}\n",
        [f"3:1: metadata.name is missing; {NAMED}"],
    ),
    "a number for a name": (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: 08\n  namespace: true\n",
        [
            "4:3: metadata.name must be a string, is the number 8; quote it",
            "5:3: metadata.namespace must be a string, is the boolean true; quote it",
        ],
    ),
    "metadata that are none": (
        "apiVersion: v1\nkind: Pod\nmetadata: a\n",
        ['3:1: metadata must be a mapping, is the string "a"; write the name in it as name: …'],
    ),
    "labels that are no strings": (
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n    floorkeeper.io/managed: true\n    b: 8\n"
        "    c: yes\n    d: 1e3\n    e: [x]\n    f: {x: y}\n    g: 0.50\n",
        [
            "6:5: metadata.labels[floorkeeper.io/managed] must be a string, is the boolean true; quote it",
            "7:5: metadata.labels.b must be a string, is the number 8; quote it",
            "8:5: metadata.labels.c must be a string, is the boolean true; quote it",
            "9:5: metadata.labels.d must be a string, is the number 1000; quote it",
            "10:5: metadata.labels.e must be a string, is a list; write one string",
            "11:5: metadata.labels.f must be a string, is a mapping; write one string",
            "12:5: metadata.labels.g must be a string, is the number 0.5; quote it",
        ],
    ),
    "annotations that are no strings": (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: {a: 1}}\n",
        ["3:35: metadata.annotations.a must be a string, is the number 1; quote it"],
    ),
    "labels that are no mapping": (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a, labels: [a], annotations: b}\n",
        [
            "3:21: metadata.labels must be a mapping, is a list; write a line of key: value for each",
            '3:34: metadata.annotations must be a mapping, is the string "b"; write a line of key: value for each',
        ],
    ),
    "labels of a pod template": (
        f"{DEPLOYMENT}spec:\n  template:\n    metadata:\n      labels: {{a: 1}}\n      annotations: {{b: no}}\n",
        [
            "7:16: spec.template.metadata.labels.a must be a string, is the number 1; quote it",
            "8:21: spec.template.metadata.annotations.b must be a string, is the boolean false; quote it",
        ],
    ),
    "labels of a CronJob's pods": (
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  jobTemplate:\n    spec:\n      template:\n"
        "        metadata: {labels: {a: 1}}\n",
        ["8:29: spec.jobTemplate.spec.template.metadata.labels.a must be a string, is the number 1; quote it"],
    ),
    "Helm values": ("replicas: 1\nimage: {tag: x}\n", [f"1:1: apiVersion and kind are missing; {OBJECT}"]),
    "a workflow": ("on: push\njobs: {}\n", [f"1:1: apiVersion and kind are missing; {OBJECT}"]),
    "a policy": ("apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n", ["1:1: is a policy; give it with --policy"]),
    "a configuration": (
        "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n",
        [f"1:1: metadata is missing; {OBJECT}"],
    ),
    "a kustomization by another name": (
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: a}\n",
        ["1:1: is a kustomization; give its folder to have it rendered"],
    ),
    "a component by another name": (
        "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n",
        ["1:1: is a part of a kustomization; give the folder of a whole one"],
    ),
}


@pytest.mark.parametrize(("text", "faults"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_leaves_other_documents_and_files(tmp_path: Path, text: str, faults: list[str]) -> None:
    read = Read(tmp_path, {"f.yaml": f"{text}---\n{GOOD}", "g.yaml": POD}, "f.yaml", "g.yaml")
    assert (read.faults, read.notes) == ([f"DIR/f.yaml:{each}" for each in faults], [])
    assert [(each.value["metadata"]["name"], each.line) for each in read.inputs.documents] == [
        ("good", text.count("\n") + 2),
        ("a", 1),
    ]
    good = read.inputs.documents[0]
    assert position(good, ("metadata", "name")) == (good.line + 2, 12)


WHOLE: dict[str, tuple[bytes, str]] = {
    "NUL": (f"{POD}a: b\0c\n".encode(), "4:5: holds a NUL character; save the file as UTF-8 text"),
    "UTF-32, little end first": (POD.encode("utf-32"), "1:1: is UTF-32; save the file as UTF-8"),
    "UTF-32, big end first": (b"\0\0\xfe\xff" + POD.encode("utf-32-be"), "1:1: is UTF-32; save the file as UTF-8"),
    "UTF-32 without a mark": (POD.encode("utf-32-le"), "1:1: is UTF-32; save the file as UTF-8"),
    "UTF-32 without a mark, big end first": (POD.encode("utf-32-be"), "1:1: is UTF-32; save the file as UTF-8"),
    "UTF-16 without a mark": (POD.encode("utf-16-le"), "1:2: holds a NUL character; save the file as UTF-8 text"),
    "Latin-1": (f"{POD}a: é\n".encode("latin-1"), "4:1: is not UTF-8; save the file as UTF-8"),
    "a control character": (f"{POD}a: \x07\n".encode(), "4:4: holds the control character U+0007; remove it"),
    "too large": (b"#" * (32 * 2**20 + 1), "0:0: is larger than 32 MiB; split it"),
}


@pytest.mark.parametrize(("data", "fault"), WHOLE.values(), ids=WHOLE.keys())
def test_a_file_that_is_no_text_leaves_other_files(tmp_path: Path, data: bytes, fault: str) -> None:
    read = Read(tmp_path, {"f.yaml": data, "g.yaml": POD})
    assert (read.faults, read.notes, read.names) == ([f"DIR/f.yaml:{fault}"], [], ["a"])
    assert Read(tmp_path, {}, "-", stdin=data).faults == [f"{STDIN}:{fault}"]


# What is no Kubernetes object

FOREIGN: dict[str, tuple[str, list[str]]] = {
    "Helm values": ("replicas: 1\n", ["1:1: {CUT}: apiVersion and kind are missing"]),
    "a workflow": ("on: push\njobs: {}\n", ["1:1: {CUT}: apiVersion and kind are missing"]),
    "a policy": ("apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n", ["1:1: {CUT}: is a policy"]),
    "a configuration": ("apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n", ["1:1: {CUT}: metadata is missing"]),
    "a kustomization": (
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
        ["1:1: {CUT}: is a kustomization"],
    ),
    "what has tags": ("site: docs\nx: !ENV a\n", ["2:4: {CUT}: the tag !ENV is not read in manifests"]),
    "what has a key twice": ("a: 1\na: 2\n", ['2:1: {CUT}: key "a" is there twice, first on line 1']),
}


@pytest.mark.parametrize(("text", "notes"), FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_no_object_is_noted_in_a_folder(tmp_path: Path, text: str, notes: list[str]) -> None:
    read = Read(tmp_path, {"f.yaml": f"{text}---\n{GOOD}"})
    assert (read.faults, read.names) == ([], ["good"])
    assert read.notes == [f"DIR/f.yaml:{each.replace('{CUT}', CUT)}" for each in notes]


def test_what_was_given_itself_must_be_an_object(tmp_path: Path) -> None:
    files: Files = {"values.yaml": "a: 1\n", "g.yaml": POD}
    fault = f"values.yaml:1:1: apiVersion and kind are missing; {OBJECT}"
    for paths in ([".", "values.yaml"], ["values.yaml", "."]):
        read = Read(tmp_path, files, *paths)
        assert (read.faults, read.notes, read.names) == ([f"DIR/{fault}"], [], ["a"])


# Notes


def test_a_label_that_is_null_is_noted(tmp_path: Path) -> None:
    text = f"{DEPLOYMENT}spec:\n  template:\n    metadata:\n      labels: {{a: null}}\n      annotations: {{b/c: }}\n"
    read = Read(tmp_path, {"f.yaml": text})
    assert (read.faults, read.names) == ([], ["d"])
    assert read.notes == [
        'DIR/f.yaml:7:16: spec.template.metadata.labels.a must be a string, is null, which is stored as ""; quote it '
        "or remove it",
        'DIR/f.yaml:8:21: spec.template.metadata.annotations[b/c] must be a string, is null, which is stored as ""; '
        "quote it or remove it",
    ]


def queue(name: str, namespace: str, version: str = "v1beta1") -> str:
    home = f", namespace: {namespace}" if namespace else ""
    return f"apiVersion: kueue.x-k8s.io/{version}\nkind: LocalQueue\nmetadata: {{name: {name}{home}}}\n"


def cluster_queue(namespace: str) -> str:
    return f"apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {{name: q, namespace: {namespace}}}\n"


def test_the_same_object_twice_is_noted_with_both_places(tmp_path: Path) -> None:
    read = Read(
        tmp_path,
        {
            "a.yaml": f"{queue('q', 'x')}---\n{queue('q', 'z')}---\n{queue('r', '')}",
            "b.yaml": f"{cluster_queue('x')}---\n{cluster_queue('z')}---\n{queue('q', 'x', 'v1beta2')}",
            "c.yaml": f"{queue('r', 'default')}---\n{queue('q', 'x')}",
        },
    )
    assert read.faults == []
    assert read.notes == [
        'DIR/b.yaml:5:1: ClusterQueue "q" is there twice, first at DIR/b.yaml:1; this one counts, remove one of them',
        'DIR/b.yaml:9:1: LocalQueue "q" in namespace "x" is there twice, first at DIR/a.yaml:1; this one counts, '
        "remove one of them",
        'DIR/c.yaml:1:1: LocalQueue "r" in namespace "default" is there twice, first at DIR/a.yaml:9; this one counts, '
        "remove one of them",
        'DIR/c.yaml:5:1: LocalQueue "q" in namespace "x" is there twice, first at DIR/b.yaml:9; this one counts, '
        "remove one of them",
    ]


def test_the_namespace_of_objects_without_one_tells_them_apart(tmp_path: Path) -> None:
    files: Files = {"a.yaml": f"{queue('q', '')}---\n{queue('q', 'x')}"}
    assert Read(tmp_path, files).notes == []
    assert Read(tmp_path, files, namespace="x").notes == [
        'DIR/a.yaml:5:1: LocalQueue "q" in namespace "x" is there twice, first at DIR/a.yaml:1; this one counts, '
        "remove one of them"
    ]


def test_names_to_be_generated_are_never_the_same(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n"
    assert Read(tmp_path, {"a.yaml": f"{text}---\n{text}"}, "a.yaml").inputs.notes == []


# Files, folders and stdin


def pod(name: str) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n"


def test_a_folder_is_read_by_name_and_without_what_is_hidden(tmp_path: Path) -> None:
    read = Read(
        tmp_path,
        {
            "b.yaml": pod("b"),
            "a.json": json.dumps(yaml.safe_load(pod("a"))),
            "c/d.yml": pod("d"),
            "a.txt": "no",
            ".e.yaml": "no",
            ".f/g.yaml": "no",
        },
    )
    assert (read.faults, read.notes, read.names) == ([], [], ["a", "b", "d"])
    assert read.files == ["DIR/a.json", "DIR/b.yaml", "DIR/c/d.yml"]
    assert {name.replace(str(tmp_path), "DIR"): len(text) for name, text in read.inputs.texts.items()} == {
        "DIR/a.json": len(json.dumps(yaml.safe_load(pod("a")))),
        "DIR/b.yaml": len(pod("b")),
        "DIR/c/d.yml": len(pod("d")),
    }


def test_files_given_themselves_may_have_any_name(tmp_path: Path) -> None:
    files: Files = {".e": pod("e"), "f.txt": pod("f"), ".g/h.yaml": pod("h")}
    assert Read(tmp_path, files, "f.txt", ".e", ".g").names == ["f", "e", "h"]


def test_a_file_is_read_once_whatever_paths_lead_to_it(tmp_path: Path) -> None:
    write(tmp_path, {"a/f.yaml": pod("f"), "b/g.yaml": pod("g")})
    (tmp_path / "a/link.yaml").symlink_to("f.yaml")
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "hard.yaml").hardlink_to(tmp_path / "b/g.yaml")
    read = Read(tmp_path, {}, "a/f.yaml", "a/../a/f.yaml", "a", ".", "b", "b/g.yaml")
    assert (read.faults, read.notes, read.names) == ([], [], ["f", "g"])


def test_stdin_is_read_once(tmp_path: Path) -> None:
    read = Read(tmp_path, {"f.yaml": pod("f")}, "-", "f.yaml", "-", "no", stdin=f"{pod('s')}---\na: 1\n".encode())
    assert (read.names, read.inputs.documents[0].file) == (["s", "f"], STDIN)
    assert read.faults == [
        "DIR/no:0:0: is not there, or may not be read; check the path",
        f"{STDIN}:5:1: apiVersion and kind are missing; {OBJECT}",
    ]
    assert read.inputs.unwritable == {STDIN}


def test_what_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    write(tmp_path, {"a/f.yaml": pod("f"), "a/no.yaml": ""})
    (tmp_path / "a/broken.yaml").symlink_to("nowhere")
    os.mkfifo(tmp_path / "a/pipe.yaml")
    read = Read(tmp_path, {}, "absent.yaml", "a", "a/f.yaml/x", "y" * 300, "nul\0")
    assert (read.names, read.notes) == (["f"], [])
    assert read.faults == [
        "DIR/a/broken.yaml:0:0: is a broken link or no regular file; remove it or mend it",
        "DIR/a/f.yaml/x:0:0: is not there, or may not be read; check the path",
        "DIR/a/pipe.yaml:0:0: is a broken link or no regular file; remove it or mend it",
        "DIR/absent.yaml:0:0: is not there, or may not be read; check the path",
        "DIR/nul\0:0:0: is not there, or may not be read; check the path",
        f"DIR/{'y' * 300}:0:0: is not there, or may not be read; check the path",
    ]


def test_a_folder_without_manifests_is_noted(tmp_path: Path) -> None:
    read = Read(tmp_path, {"a/b.txt": "", "c/d.yaml": pod("d")}, "a", "c", "a", "c")
    assert (read.faults, read.names) == ([], ["d"])
    assert read.notes == [
        "DIR/a:0:0: holds no *.yaml, *.yml or *.json, so nothing in it is checked; check the path",
    ]


def test_a_chart_is_refused(tmp_path: Path) -> None:
    files: Files = {
        "chart/Chart.yaml": "apiVersion: v2\nname: x\n",
        "chart/templates/a.yaml": "{{ x }}",
        "f.yaml": pod("f"),
    }
    text = "DIR/chart:0:0: is a Helm chart; render it and pipe it in: helm template DIR/chart | floorkeeper check -"
    for paths in (["."], ["chart", "f.yaml"], ["chart", ".", "chart"]):
        read = Read(tmp_path, files, *paths)
        assert (read.faults, read.notes, read.names) == ([text], [], ["f"])


# Kustomizations. A stand-in for kubectl prints the file .rendered of the folder, so that no test needs kubectl.


def program(folder: Path, text: str = 'cat "$2/.rendered"', name: str = "kubectl") -> str:
    """A folder for PATH that holds a program for the shell."""
    path = write(folder, {f"bin/{name}": f"#!/bin/sh\n{text}\n"}) / "bin" / name
    path.chmod(0o755)
    return f"{path.parent}{os.pathsep}/usr/bin{os.pathsep}/bin" if name == "kubectl" else str(path.parent)


TREE: Files = {
    "k/base/kustomization.yaml": "resources: [d.yaml]\n",
    "k/base/d.yaml": pod("no"),
    "k/base/.rendered": pod("base"),
    "k/overlays/prod/kustomization.yml": "resources:\n- ../../base\ncomponents: [../../comp]\n",
    "k/overlays/prod/patch.yaml": "a: b\n",
    "k/overlays/prod/.rendered": f"# Warning\n{pod('prod')}---\n{pod('prod-2')}",
    "k/overlays/dev/Kustomization": "resources: [../../base]\n",
    "k/overlays/dev/.rendered": pod("dev"),
    "k/comp/kustomization.yaml": "kind: Component\n",
    "k/plain/p.yaml": pod("plain"),
}


def test_a_folder_with_a_kustomization_is_what_it_renders_to(tmp_path: Path) -> None:
    read = Read(tmp_path, TREE, "k/overlays/prod", programs=program(tmp_path))
    assert (read.faults, read.notes, read.names) == (
        [],
        [
            "DIR/k/overlays/prod:0:0: its kustomization does not refer to patch.yaml, which is not checked; give by "
            "name what is applied by itself"
        ],
        ["prod", "prod-2"],
    )
    assert read.files == ["DIR/k/overlays/prod (kustomize)"] * 2
    assert [position(each, ("metadata", "name")) for each in read.inputs.documents] == [(4, 12), (8, 12)]
    name = f"{tmp_path}/k/overlays/prod (kustomize)"
    assert read.inputs.texts == {name: f"# Warning\n{pod('prod')}---\n{pod('prod-2')}".encode()}
    assert read.inputs.unwritable == {name}


def test_in_a_folder_a_base_is_rendered_by_its_overlays(tmp_path: Path) -> None:
    read = Read(tmp_path, TREE, "k", programs=program(tmp_path))
    assert (read.faults, read.notes, read.names) == ([], [], ["dev", "prod", "prod-2", "plain"])
    assert Read(tmp_path, TREE, "k", "k/base", programs=program(tmp_path)).names == [
        "base",
        "dev",
        "prod",
        "prod-2",
        "plain",
    ]


def test_a_kustomization_in_one_that_was_given_is_left_to_it(tmp_path: Path) -> None:
    files: Files = {
        "k/kustomization.yaml": "resources: [a, d.yaml]\nconfigMapGenerator: [{name: c, files: [x=c/x.json]}]\n",
        "k/.rendered": pod("k"),
        "k/a/kustomization.yaml": "resources: [a.yaml]\n",
        "k/a/a.yaml": "",
        "k/b/kustomization.yaml": "resources: [b.yaml]\n",
        "k/b/b.yaml": "",
        "k/b/.rendered": pod("b"),
        "k/c/x.json": "",
        "k/c/y.json": "",
        "k/d.yaml": "",
        "k/e.yaml": "",
        "k/f.yml": "",
        "k/g.txt": "",
    }
    read = Read(tmp_path, files, "k", programs=program(tmp_path))
    assert (read.faults, read.names) == ([], ["k"])
    assert read.notes == [
        "DIR/k:0:0: its kustomization does not refer to b, c/y.json, e.yaml and 1 more, which are not checked; give by "
        "name what is applied by itself"
    ]
    assert Read(tmp_path, files, programs=program(tmp_path)).names == ["k", "b"]


def test_only_an_item_of_a_list_refers_to_a_folder(tmp_path: Path) -> None:
    files: Files = {
        "k/kustomization.yaml": "namespace: prod\n",
        "k/.rendered": pod("k"),
        "k/prod/kustomization.yaml": "resources: []\n",
        "k/prod/.rendered": pod("prod"),
    }
    assert Read(tmp_path, files, programs=program(tmp_path)).names == ["k", "prod"]


def test_a_component_alone_is_noted(tmp_path: Path) -> None:
    files: Files = {"k/comp/kustomization.yaml": "kind: Component\n", "k/f.yaml": pod("f")}
    read = Read(tmp_path, files, "k", programs=program(tmp_path))
    assert (read.faults, read.names) == ([], ["f"])
    assert read.notes == ["DIR/k/comp:0:0: is a component that no kustomization refers to, so it is not checked"]


def test_kustomizations_that_refer_to_each_other_are_not_lost(tmp_path: Path) -> None:
    files: Files = {
        "k/a/kustomization.yaml": "resources: [../b]\n",
        "k/b/kustomization.yaml": "resources: [../a]\n",
    }
    read = Read(tmp_path, files, "k", programs=program(tmp_path, "echo cycle not allowed >&2; exit 1"))
    assert read.faults == [
        f"DIR/k/{name}:0:0: `kubectl kustomize` failed: cycle not allowed; correct the kustomization"
        for name in ("a", "b")
    ]


@pytest.mark.parametrize("text", ["a: &a [*a]\n", BOMB, "a: b: c\n", "- 1\n", "a: [\0]\n", f"a: {'[' * 999}\n"])
def test_a_kustomization_that_cannot_be_read_is_for_kustomize_to_judge(tmp_path: Path, text: str) -> None:
    files: Files = {"k/kustomization.yaml": text, "k/p.yaml": "a: b: c"}
    read = Read(tmp_path, files, programs=program(tmp_path, "echo bad >&2; exit 1"))
    assert read.faults == ["DIR/k:0:0: `kubectl kustomize` failed: bad; correct the kustomization"]


def test_the_file_of_a_kustomization_is_not_read(tmp_path: Path) -> None:
    read = Read(tmp_path, TREE, "k/base/kustomization.yaml", "k/plain")
    assert read.names == ["plain"]
    assert read.faults == [
        "DIR/k/base/kustomization.yaml:0:0: is a kustomization; give the folder DIR/k/base to have it rendered"
    ]


def test_what_is_rendered_is_checked_like_a_file(tmp_path: Path) -> None:
    read = Read(
        tmp_path,
        {"k/kustomization.yaml": "", "k/.rendered": f"{HEAD}a: 1\na: 2\n---\n{GOOD}"},
        "k",
        programs=program(tmp_path),
    )
    assert read.names == ["good"]
    assert read.faults == ['DIR/k (kustomize):5:1: key "a" is there twice, first on line 4; remove one of them']


def test_without_kubectl_and_kustomize_it_says_what_to_do(tmp_path: Path) -> None:
    read = Read(tmp_path, TREE, "k/base", "k/plain", programs=str(tmp_path))
    assert read.names == ["plain"]
    assert read.faults == [
        "DIR/k/base:0:0: is a kustomization, and neither kubectl nor kustomize is on PATH; install one of them, or "
        "render it elsewhere and pipe it in"
    ]


def failure(folder: Path, text: str, name: str = "kubectl", seconds: float = 60) -> str:
    programs = program(folder, text, name)
    with pytest.raises(RenderError) as raised:
        render(folder, programs, seconds)
    return str(raised.value)


def test_kustomize_is_asked_where_there_is_no_kubectl(tmp_path: Path) -> None:
    assert render(tmp_path, program(tmp_path, 'echo "$@"', "kustomize")) == f"build {tmp_path}\n".encode()


def test_rendering_that_fails(tmp_path: Path) -> None:
    assert failure(tmp_path, "echo '# Warning: old' >&2; echo one >&2; echo '  two' >&2; echo x; exit 3") == (
        "`kubectl kustomize` failed: one two; correct the kustomization"
    )
    assert failure(tmp_path, "exit 3") == "`kubectl kustomize` failed: exit code 3; correct the kustomization"


def test_rendering_ends(tmp_path: Path) -> None:
    slow = "took more than 0.2 seconds; render it yourself, and pipe it in"
    assert failure(tmp_path, "sleep 600", seconds=0.2) == f"`kubectl kustomize` {slow}"
    assert failure(tmp_path, "exec >&-; sleep 600", seconds=0.2) == f"`kubectl kustomize` {slow}"
    assert failure(tmp_path, "while :; do cat /bin/sh; done") == (
        "renders to more than 32 MiB; render it yourself, and pipe it in in parts"
    )


def test_a_program_that_cannot_run(tmp_path: Path) -> None:
    programs = program(tmp_path)
    (tmp_path / "bin/kubectl").write_bytes(b"\x7fELF")
    with pytest.raises(RenderError) as raised:
        render(tmp_path, programs)
    assert str(raised.value) == "`kubectl kustomize` cannot be run: Exec format error; check the program on PATH"


# Anything


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=200) | (YAMLISH | PIECES).map(str.encode))
def test_anything_on_stdin_is_read_or_refused(data: bytes) -> None:
    inputs = read_inputs(["-"], io.BytesIO(data))
    assert all(";" in each.message for each in [*inputs.faults, *inputs.notes])
    for document in inputs.documents:
        whole = Builder(STDIN, []).build(document.root)
        # Items of a typed list take apiVersion and kind from it.
        assert document.value == {"apiVersion": document.value["apiVersion"], "kind": document.value["kind"], **whole}


def test_documents_ask_for_their_nodes_in_any_order(tmp_path: Path) -> None:
    """They are composed anew."""
    files: Files = {
        f"{number}.yaml": "---\n".join(pod(f"p{number}-{index}") for index in range(4)) for number in range(3)
    }
    documents = Read(tmp_path, files).inputs.documents
    for document in [*documents, *reversed(documents)]:
        assert position(document, ("metadata", "name")) == (document.line + 2, 12)
        assert document.root.value[2][1].value[0][1].value == document.value["metadata"]["name"]
