"""The shipped manifests as files. tests/cluster applies them to a real API server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from webhook import __version__
from webhook.commands import cli
from webhook.engine.policy import Policy
from webhook.policy import read_policy
from webhook.render import render_webhooks
from webhook.server.http import GRACE_SECONDS

ROOT = Path(__file__).parents[1]
MANIFESTS = ROOT / "manifests"
BASE = MANIFESTS / "base"
Object = dict[str, Any]


def load(file: str) -> Any:
    return yaml.safe_load((MANIFESTS / file).read_text())


def kustomizations() -> list[Path]:
    return sorted(file.parent for file in MANIFESTS.rglob("kustomization.yaml"))


@pytest.mark.parametrize("folder", kustomizations(), ids=lambda folder: str(folder.relative_to(MANIFESTS)))
def test_a_kustomization_names_every_file_beside_it(folder: Path) -> None:
    named = set(named_in(yaml.safe_load((folder / "kustomization.yaml").read_text())))
    assert named >= {file.name for file in folder.iterdir() if file.name != "kustomization.yaml"}


def named_in(kustomization: Object) -> Iterator[str]:
    yield from kustomization.get("resources", [])
    yield from (patch["path"] for patch in kustomization.get("patches", []) if "path" in patch)
    for generator in kustomization.get("configMapGenerator", []):
        yield from (file.rpartition("=")[2] for file in generator["files"])


def test_the_shipped_policy_is_the_default() -> None:
    assert read_policy(BASE / "policy.yaml") == Policy()


@pytest.mark.parametrize("folder", ["base", "overlays/openshift"])
def test_the_shipped_webhooks_are_rendered_from_the_policy_beside_them(folder: str) -> None:
    policy = read_policy(MANIFESTS / folder / "policy.yaml")
    rendered = (MANIFESTS / folder / "webhooks.yaml").read_text()
    assert rendered == render_webhooks(policy), "floorkeeper render --policy policy.yaml > webhooks.yaml"


def deployment() -> Object:
    value: Object = load("base/deployment.yaml")
    return value


def pod() -> Any:
    return deployment()["spec"]["template"]["spec"]


def container() -> Any:
    (only,) = pod()["containers"]
    return only


def args() -> list[str]:
    """Of the Deployment, and those that overlays and components add."""
    patched = [
        operation["value"]
        for folder in ("overlays/cert-manager", "overlays/self-signed", "components/audit")
        for operation in load(f"{folder}/deployment.patch.yaml")
        if operation["path"].endswith("/args/-")
    ]
    return [*container()["args"], *patched]


def test_the_image_is_of_this_version() -> None:
    assert container()["image"] == f"ghcr.io/YOUR-ORG/floorkeeper:{__version__}"


def test_the_command_line_is_one_that_floorkeeper_knows() -> None:
    assert container()["command"] == ["floorkeeper"]
    command, *flags = args()
    known = typer.main.get_command(cli).commands[command].params  # type: ignore[attr-defined]
    assert {flag.partition("=")[0] for flag in flags} <= {option for each in known for option in each.opts}


def test_one_port_everywhere() -> None:
    (port,) = container()["ports"]
    assert f"--port={port['containerPort']}" in args()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container()[probe]["httpGet"]["port"] == port["name"]
    (service,) = load("base/service.yaml")["spec"]["ports"]
    assert (service["targetPort"], service["port"]) == (port["name"], port["containerPort"])
    (ingress,) = load("base/network.yaml")["spec"]["ingress"]
    assert ingress == {"ports": [{"port": port["containerPort"], "protocol": "TCP"}]}


def test_everything_is_about_the_same_pods() -> None:
    labels = {"app.kubernetes.io/name": "floorkeeper"}
    assert deployment()["spec"]["template"]["metadata"]["labels"] == labels
    assert deployment()["spec"]["selector"] == {"matchLabels": labels}
    assert [each["labelSelector"] for each in pod()["topologySpreadConstraints"]] == [{"matchLabels": labels}] * 2
    assert load("base/service.yaml")["spec"]["selector"] == labels
    assert load("base/disruption.yaml")["spec"]["selector"] == {"matchLabels": labels}
    assert load("base/network.yaml")["spec"]["podSelector"] == {"matchLabels": labels}


def test_what_is_not_ready_is_not_restarted_for_it() -> None:
    assert container()["readinessProbe"]["httpGet"]["path"] == "/readyz"
    for probe in ("startupProbe", "livenessProbe"):
        assert container()[probe]["httpGet"]["path"] == "/healthz"


def test_a_pod_has_time_to_drain() -> None:
    (drain,) = (int(found[1]) for arg in args() if (found := re.fullmatch(r"--drain-seconds=(\d+)", arg)))
    assert drain + GRACE_SECONDS < pod()["terminationGracePeriodSeconds"]


def test_files_are_where_they_are_mounted() -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in container()["volumeMounts"]}
    assert mounts == {"policy": "/etc/floorkeeper/policy"}
    assert f"--policy={mounts['policy']}/policy.yaml" in args()
    (volume,) = pod()["volumes"]
    (generated,) = load("base/kustomization.yaml")["configMapGenerator"]
    assert volume["configMap"]["name"] == generated["name"]
    values = {
        operation["path"]: operation["value"] for operation in load("overlays/cert-manager/deployment.patch.yaml")
    }
    tls = values["/spec/template/spec/containers/0/volumeMounts/-"]["mountPath"]
    assert {f"--tls-cert={tls}/tls.crt", f"--tls-key={tls}/tls.key"} <= set(args())


def test_gitops_leaves_the_ca_bundle_alone() -> None:
    found = yaml.safe_load((ROOT / "examples" / "gitops" / "argocd.yaml").read_text())["spec"]["ignoreDifferences"]
    configurations = list(yaml.safe_load_all((BASE / "webhooks.yaml").read_text()))
    assert found == [
        {
            "group": configuration["apiVersion"].partition("/")[0],
            "kind": configuration["kind"],
            "name": configuration["metadata"]["name"],
            "jqPathExpressions": [".webhooks[]?.clientConfig.caBundle"],
        }
        for configuration in configurations
    ]
