"""What `floorkeeper check` reads and refuses, next to what kubectl and the API server make of it."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from tests.cluster.controlplane import Cluster
from tests.test_check_inputs import REFUSED, WHOLE, write
from webhook.check.inputs import read_inputs

STRICTER = {
    "a key twice",
    "two in a row",
    "an anchor twice",
    "deep nesting",
    "a tag of one's own",
    "a tag of Python",
    "a binary",
}
"""kubectl takes the last key or anchor, reads on behind 200 levels, and drops or decodes tags."""

LATIN = "Latin-1"
"""kubectl replaces what is not UTF-8, and stores that."""


@pytest.mark.parametrize("name", sorted({*REFUSED, *WHOLE} - STRICTER - {LATIN}))
def test_what_is_refused_kubectl_refuses_too(cluster: Cluster, tmp_path: Path, name: str) -> None:
    text = {**REFUSED, **WHOLE}[name][0]
    file = write(tmp_path, {"f.yaml": text}) / "f.yaml"
    result = cluster("create", "--dry-run=server", "--validate=false", "-f", str(file), check=False)
    assert result.returncode != 0
    assert "created" not in result.stdout


def test_a_null_label_is_stored_as_an_empty_string(cluster: Cluster) -> None:
    stored = cluster(
        "create", "--dry-run=server", "-o", "jsonpath={.metadata.labels}{.metadata.annotations}", "-f", "-",
        input="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {a: null}, annotations: {b: null}}\n",
    ).stdout  # fmt: skip
    assert stored == '{"a":""}{"b":""}'


def test_kubectl_renders_a_kustomization(cluster: Cluster, tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "base/kustomization.yaml": "resources: [d.yaml]\n",
            "base/d.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a} # as it is written\n",
            "prod/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\n",
            "broken/kustomization.yaml": "resources: [absent.yaml]\n",
        },
    )
    kubectl = shutil.which(cluster.kubectl)
    assert kubectl
    inputs = read_inputs([str(tmp_path)], io.BytesIO(), programs=str(Path(kubectl).parent))
    prod = f"{tmp_path}/prod (kustomize)"
    assert inputs.texts == {prod: b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: prod-a\n"}
    assert [(each.value["metadata"]["name"], each.file) for each in inputs.documents] == [("prod-a", prod)]
    (fault,) = inputs.faults
    assert fault.place.file == f"{tmp_path}/broken"
    assert "`kubectl kustomize` failed: " in fault.message
    assert "absent.yaml" in fault.message
