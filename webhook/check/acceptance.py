"""What the API server makes of any object before it asks a webhook.

Labels, annotations, names and namespaces are strings in its types (metav1.ObjectMeta): for a number or a boolean there
kubectl or the API server refuses the whole object, so it is not judged and the input is unusable (tried with Kubernetes
1.36, on the object and on its pod template, by client-side and server-side apply). A null is taken and stored as "".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from webhook.kube.facts import GROUPS
from webhook.kube.kinds import BUILT_IN, kind_of
from webhook.kube.objects import Path, at, group, mapping, show_path
from webhook.kube.paths import places
from webhook.sources.documents import Document
from webhook.sources.nodes import TEMPLATE

_NO_OBJECTS = {
    ("kustomize.config.k8s.io", "Kustomization"): "is a kustomization; give its folder to have it rendered",
    ("kustomize.config.k8s.io", "Component"): "is a part of a kustomization; give the folder of a whole one",
    ("floorkeeper.io", "Policy"): "is a policy; give it with --policy",
}


def no_object(document: Document) -> str:
    """What a document is that is not meant for an API server; '' for an object.

    Configuration files have an apiVersion and a kind too, but no metadata.
    """
    value = document.value
    of, kind = group(value["apiVersion"]), value["kind"]
    if (of, kind) in _NO_OBJECTS:
        return _NO_OBJECTS[of, kind]
    if value.get("metadata") is None and GROUPS.get(kind) != of and kind_of(of, kind) is None:
        return "metadata is missing; every object needs apiVersion, kind and metadata.name"
    return ""


def refusals(document: Document) -> Iterator[tuple[Path, str]]:
    """Why the API server refuses an object whatever its kind, each with the field and after a semicolon what to do."""
    metadata = document.value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield ("metadata",), f"metadata must be a mapping, is {_type(metadata)}; write the name in it as name: …"
        return
    given = mapping(metadata)
    for field in ("name", "generateName", "namespace"):
        value = given.get(field)
        path: Path = ("metadata", field)
        if value is not None and not isinstance(value, str):
            yield path, f"metadata.{field} must be a string, is {_type(value)}; quote it"
        elif value and "{{" in value:
            yield path, f"metadata.{field} {TEMPLATE}"
    if given.get("name") in (None, "") and not given.get("generateName"):
        yield ("metadata", "name"), "metadata.name is missing; every object needs a name"
    for path in _metadata_paths(document.value):
        for field in ("labels", "annotations"):
            yield from _not_strings((*path, field), at(document.value, (*path, field)))


def _not_strings(path: Path, values: Any) -> Iterator[tuple[Path, str]]:
    if values is None:
        return
    if not isinstance(values, dict):
        yield path, f"{show_path(path)} must be a mapping, is {_type(values)}; write a line of key: value for each"
        return
    for key, value in values.items():
        if value is not None and not isinstance(value, str):
            fix = "write one string" if isinstance(value, list | dict) else "quote it"
            yield (*path, key), f"{show_path((*path, key))} must be a string, is {_type(value)}; {fix}"


def nulls(document: Document) -> Iterator[tuple[Path, str]]:
    """The labels and annotations that are null, in the same form."""
    for path in _metadata_paths(document.value):
        for field in ("labels", "annotations"):
            for key, found in mapping(at(document.value, (*path, field))).items():
                if found is None:
                    where = (*path, field, key)
                    text = f'{show_path(where)} must be a string, is null, which is stored as ""; quote it or remove it'
                    yield where, text


def _metadata_paths(value: dict[str, Any]) -> Iterator[Path]:
    """Where metadata are: the object's, and those of its pod templates if its kind is known to have such."""
    yield ("metadata",)
    of, kind = group(value["apiVersion"]), value["kind"]
    row = kind_of(of, kind)
    if row is None or row.group not in BUILT_IN:
        return
    if isinstance(row.label, tuple) and row.label:
        yield (*row.label, "metadata")
    for template in row.templates:
        for place in places(value, template.path) if template.path else ():
            yield (*place, *template.shape.metadata)


def _type(value: Any) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    kind = {bool: "boolean", str: "string"}.get(type(value), "number")
    return f"the {kind} {json.dumps(value, ensure_ascii=False)[:40]}"
