"""floorkeeper render, of the shipped overlays and of an installation of one's own; kubectl reads what it prints."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controlplane import Cluster
from tests.cluster.rendering import OVERLAYS, printed, registrations, rendered, told
from tests.cluster.server import ROOT, only_container
from webhook.policy import parse_policy
from webhook.render import policy_in
from webhook.scope import agree, webhook_configurations

Object = dict[str, Any]


@pytest.mark.parametrize("overlay", ["cert-manager", "openshift", "self-signed"])
def test_rendering_changes_nothing(cluster: Cluster, overlay: str) -> None:
    """Policy and scope agree in what is shipped."""
    text = printed(cluster, "render", str(OVERLAYS / overlay))
    assert list(yaml.safe_load_all(text)) == rendered(cluster, overlay)


def parsed_json(text: str) -> Iterator[Object]:
    """Of a text that holds one value after the other."""
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        value, length = decoder.raw_decode(text[at:].lstrip())
        at += len(text[at:]) - len(text[at:].lstrip()) + length
        yield value


def copied(folder: Path, overlay: str) -> Path:
    """A copy of the example in the folder, on this overlay."""
    copy = Path(shutil.copytree(ROOT / "examples" / "install", folder / "install"))
    manifests = os.path.relpath(ROOT / "manifests", copy.resolve())
    text = (copy / "kustomization.yaml").read_text()
    shipped = "- ../../manifests/overlays/self-signed\n"
    assert shipped in text
    (copy / "kustomization.yaml").write_text(text.replace(shipped, f"- {manifests}/overlays/{overlay}\n"))
    return copy


def with_the_label_of_openshift(text: str) -> str:
    """The example's policy with that part in force."""
    (block,) = re.findall(r"(?m)^# managedNamespaces:\n#   matchLabels:\n#     kueue.openshift.io/managed: .*\n", text)
    return text.replace(block, re.sub(r"(?m)^# ", "", block))


@pytest.mark.parametrize("overlay", ["cert-manager", "openshift", "self-signed"])
def test_rendering_an_installation_of_ones_own(cluster: Cluster, tmp_path: Path, overlay: str) -> None:
    folder = copied(tmp_path, overlay)
    policy = (folder / "policy.yaml").read_text()
    if overlay == "openshift":
        policy = with_the_label_of_openshift(policy)
        (folder / "policy.yaml").write_text(policy)
    text = printed(cluster, "render", str(folder))
    # As kubectl reads it.
    found = list(parsed_json(cluster("create", "--dry-run=client", "-o", "json", "-f", "-", input=text).stdout))
    assert found == list(yaml.safe_load_all(text))
    assert policy_in(found) == policy
    assert len(registrations(found)) == 2
    assert agree(registrations(found), webhook_configurations(parse_policy(policy, "")))
    # The namespaces are those that the overlay guards as it is shipped.
    assert selectors(found) == selectors(rendered(cluster, overlay))
    _, container = only_container(found)
    assert container["image"].startswith("registry.example.com/platform/floorkeeper@sha256:")


def selectors(objects: Sequence[Object]) -> list[Object]:
    return [webhook["namespaceSelector"] for value in registrations(objects) for webhook in value["webhooks"]]


def test_an_installation_that_leaves_the_namespaces_of_openshift_is_told(cluster: Cluster, tmp_path: Path) -> None:
    """The example's policy as it is shipped, on the overlay for OpenShift: nobody has its label there."""
    _, notes = told(cluster, "render", str(copied(tmp_path, "openshift")))
    assert notes == [
        "floorkeeper: ConfigMap floorkeeper-policy selects namespaces with floorkeeper.io/managed=true, but the "
        "webhook configurations among the manifests selected namespaces with kueue.openshift.io/managed=true; what is "
        "printed selects as the policy does: if you mean the others, set managedNamespaces there"
    ]
