"""Objects and changes for the tests of `floorkeeper check --fix`, and files of odd YAML in many encodings."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cases import BASE, TODAY, policy_of, snapshot_of, subject_of
from webhook.check.defaults import filled_in
from webhook.check.fix import Fixes, fixed_texts
from webhook.check.inputs import Inputs
from webhook.check.proof import content_of
from webhook.check.result import Found, Place, Result
from webhook.engine.evaluate import judge
from webhook.engine.patch import Operation
from webhook.engine.rule import Stage
from webhook.engine.subject import Subject
from webhook.engine.verdict import Severity
from webhook.kube.kinds import kind_of
from webhook.kube.objects import group, mapping, show_path
from webhook.rules import RULES
from webhook.sources.documents import Document, parse_documents, position

CORPUS = Path(__file__).parent / "corpus"
POLICY = policy_of({"gpuRequests": "fill"})
STATE = snapshot_of(BASE)
NAMESPACE = "llm-d-optimized-baseline"


def subjects(data: bytes, file: str) -> list[tuple[Document, Subject]]:
    """The objects that rules judge, as the API server asks about them."""
    found = []
    for document in content_of(data, file).documents:
        kind = kind_of(group(document.value["apiVersion"]), document.value["kind"])
        if kind is not None:
            value = filled_in(kind, document.value)
            value["metadata"] = {**mapping(value.get("metadata")), "namespace": NAMESPACE}
            found.append((document, subject_of(value, POLICY)))
    return found


def result_of(files: Mapping[str, bytes]) -> Result:
    findings = []
    for file, data in files.items():
        for document, subject in subjects(data, file):
            verdict = judge(RULES, Stage.MUTATE, subject, STATE, POLICY, TODAY)
            for found in verdict.findings:
                place = Place(file, *position(document, found.path))
                change = verdict.patch if found.severity is Severity.PATCH else ()
                version, path = document.value["apiVersion"], show_path(found.path)
                about = (version, found.kind, found.namespace, found.name, path, found.message, change)
                findings.append(Found(place, found.rule, found.severity, *about))
    return Result(tuple(sorted(findings, key=lambda found: found.place)))


def fixed(files: Mapping[str, bytes]) -> Fixes:
    return fixed_texts(Inputs(texts=files), result_of(files))


def odd_files() -> list[Path]:
    return [
        path for path in sorted(CORPUS.iterdir()) if path.suffix in (".yaml", ".json") and ".fixed" not in path.name
    ]


def with_breaks(line_break: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(b"\n", line_break)


def encoded(encoding: str, mark: bytes) -> Callable[[bytes], bytes]:
    return lambda data: mark + data.decode().encode(encoding)


VARIANTS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda data: data,
    "Windows": with_breaks(b"\r\n"),
    "old Mac": with_breaks(b"\r"),
    "byte-order mark": encoded("utf-8", codecs.BOM_UTF8),
    "UTF-16, little end first": encoded("utf-16-le", codecs.BOM_UTF16_LE),
    "UTF-16, big end first": encoded("utf-16-be", codecs.BOM_UTF16_BE),
    "no line break at the end": lambda data: data.rstrip(b"\n"),
    "Windows, UTF-16, no line break at the end": lambda data: encoded("utf-16-le", codecs.BOM_UTF16_LE)(
        data.rstrip(b"\n").replace(b"\n", b"\r\n")
    ),
}

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def found_in(documents: Sequence[Document], changes: Mapping[int, Sequence[Operation]]) -> Result:
    """A result that asks for a change of each of these documents."""
    findings = []
    for index, change in changes.items():
        document = documents[index]
        value = document.value
        about = ("v1", value["kind"], "default", value["metadata"]["name"], "data", "message", tuple(change))
        findings.append(Found(Place(document.file, *position(document, ())), "a-rule", Severity.PATCH, *about))
    return Result(tuple(findings))


def set_in(text: str | bytes, changes: Mapping[str, Any], file: str = "f.yaml", index: int = 0) -> Fixes:
    """The fixes of a file in whose object the fields at these pointers get values."""
    data = text if isinstance(text, bytes) else text.encode()
    operations = [{"op": "replace", "path": path, "value": value} for path, value in changes.items()]
    return fixed_texts(Inputs(texts={file: data}), found_in(parse_documents(data, file), {index: operations}))
