"""The shipped overlays as kubectl renders them, and what `floorkeeper render` makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.controlplane import Cluster
from tests.cluster.server import ROOT

Object = dict[str, Any]
OVERLAYS = ROOT / "manifests" / "overlays"


def rendered(cluster: Cluster, overlay: str) -> list[Object]:
    return list(yaml.safe_load_all(cluster("kustomize", str(OVERLAYS / overlay)).stdout))


def with_component(folder: Path, overlay: str, component: str) -> str:
    """Makes the folder a kustomization of both, which can be rendered as an overlay is."""
    manifests = os.path.relpath(ROOT / "manifests", folder.resolve())
    parts = {"resources": [f"{manifests}/overlays/{overlay}"], "components": [f"{manifests}/components/{component}"]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(parts))
    return str(folder)


def registrations(objects: Sequence[Object]) -> list[Object]:
    return [value for value in objects if value["kind"].endswith("WebhookConfiguration")]


def told(cluster: Cluster, *words: str) -> tuple[str, list[str]]:
    """What the command floorkeeper prints, with the cluster's kubectl, and what it notes of it."""
    environment = os.environ | {"PATH": str(Path(cluster.kubectl).parent)}
    command = [sys.executable, "-m", "webhook", *words]
    found = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found
    return found.stdout, [line for line in found.stderr.splitlines() if "stands for yours" not in line]


def printed(cluster: Cluster, *words: str) -> str:
    """What it prints where it has nothing to note."""
    text, notes = told(cluster, *words)
    assert notes == []
    return text
