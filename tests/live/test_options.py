"""Which namespace the walking commands work in."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from webhook.live.options import Misuse, chosen_namespace
from webhook.sources.source import SourceError


def kubeconfig(folder: Path, **context: str) -> Path:
    value = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", **context}}],
        "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "me", "user": {}}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(value))
    return file


def test_the_one_that_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen_namespace("models", kubeconfig(tmp_path, namespace="other")) == "models"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("context", "expected"), [({"namespace": "models"}, "models"), ({}, "default")])
def test_else_kubectls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], context: dict[str, str], expected: str
) -> None:
    assert chosen_namespace(None, kubeconfig(tmp_path, **context)) == expected
    assert capsys.readouterr().err == f"floorkeeper: namespace {expected}, of the kubeconfig's context\n"


def test_there_is_none_in_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(Misuse, match="give --namespace NAME"):
        chosen_namespace(None, None)


def test_a_kubeconfig_without_a_context(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path)
    file.write_text(file.read_text().replace("current-context: here", "current-context: there"))
    with pytest.raises(SourceError, match="no context 'there'"):
        chosen_namespace(None, file)
