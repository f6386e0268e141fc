"""Self-managed certificates on the real API server, with the rights that are shipped: created, renewed, restored."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster, until
from tests.cluster.sharing import KINDS, NAMESPACE, SECRET, Sharing, configurations, three_replicas
from webhook.server.authority import service_names
from webhook.server.keyring import read_keyring

ENDED = "certificate authority rotation: the old one is trusted no more"


@pytest.fixture(scope="module")
def sharing(cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    with three_replicas(cluster, api, tmp_path_factory.mktemp("sharing")) as sharing:
        yield sharing


def is_whole(sharing: Sharing) -> bool:
    """One CA, which every webhook trusts and which has signed what every replica serves."""
    data = sharing.secret()["data"]
    keyring, wrong = read_keyring(data, service_names("floorkeeper", NAMESPACE))
    told = [replica.readiness()["certificate"] for replica in sharing.replicas]
    assert keyring.leaf is not None
    expected = keyring.leaf.certificate.not_valid_after_utc.isoformat()
    return (
        wrong == []
        and len(keyring.authorities) == 1
        and set(sharing.bundles()) == {data["ca.crt"]}
        and {(each["expires"], each["error"], each["caBundlePublished"]) for each in told} == {(expected, "", True)}
    )


def test_three_that_start_together_share_one_authority(sharing: Sharing) -> None:
    until("all are where one is", lambda: is_whole(sharing), 10)
    until("it is told", lambda: sharing.told("certificate authority made") and sharing.told("certificate reloaded"), 10)
    assert len(sharing.told("certificate authority made")) == 1
    assert len({line["authority"] for line in sharing.told("certificate reloaded")}) == 1
    assert sharing.secret()["type"] == "kubernetes.io/tls"
    until("the API server trusts them", lambda: sharing.write() == "", 10)


def test_no_call_fails_whatever_is_renewed(sharing: Sharing) -> None:
    """The Secret is emptied; then the certificate and the CA come to two thirds of their lives."""
    with sharing.calls():
        empty = '{"data": {"tls.crt": "", "tls.key": "", "ca.crt": null, "ca.key": null}}'
        sharing.cluster("patch", "secret", SECRET, "-n", NAMESPACE, "--type=merge", "-p", empty)
        until("two CAs were replaced", lambda: len(sharing.told(ENDED)) >= 2, 60)
    assert sharing.failed == []
    assert sharing.writes > 50
    assert sharing.handshakes > 50
    assert len(sharing.told("certificate renewed")) >= 1
    assert len(sharing.told("certificate authority rotation: the new one has signed the certificate")) >= 2
    assert sharing.told("certificate cannot be kept") == []


def test_kubectl_apply_leaves_the_bundle(sharing: Sharing, cluster: Cluster) -> None:
    with sharing.calls():
        cluster.apply(*configurations(sharing.port))
    assert sharing.failed == []


@pytest.mark.parametrize("is_foreign", [False, True])
def test_manifests_that_replace_it(sharing: Sharing, cluster: Cluster, is_foreign: bool) -> None:
    """The caBundle is back at once, and nothing else is touched."""
    ours = configurations(sharing.port)
    for value in ours if is_foreign else ():
        for webhook in value["webhooks"]:
            webhook["clientConfig"]["caBundle"] = foreign(cluster)
    before = len(sharing.told("caBundle restored"))
    cluster("replace", "-f", "-", input=yaml.safe_dump_all(ours))
    replaced = [cluster.get(kind, NAMESPACE) for kind in KINDS]
    until("the caBundle is restored", lambda: set(sharing.bundles()) == {sharing.secret()["data"]["ca.crt"]}, 20)
    # A line of the log comes a little after what it tells.
    until("it is told", lambda: len(sharing.told("caBundle restored")) - before >= len(KINDS), 20)
    assert len(sharing.told("caBundle restored")) - before == len(KINDS), "by one replica for each"
    assert [bare(value) for value in replaced] == [bare(cluster.get(kind, NAMESPACE)) for kind in KINDS]
    until("the API server trusts them again", lambda: sharing.write() == "", 10)


def foreign(cluster: Cluster) -> str:
    """A CA that the API server takes, and that is not ours."""
    config: Any = yaml.safe_load(cluster.kubeconfig.read_text())
    bundle: str = config["clusters"][0]["cluster"]["certificate-authority-data"]
    return bundle


def bare(value: Any) -> Any:
    webhooks = [
        {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": None}} for webhook in value["webhooks"]
    ]
    return {"name": value["metadata"]["name"], "uid": value["metadata"]["uid"], "webhooks": webhooks}


def test_no_key_is_told(sharing: Sharing) -> None:
    text = "".join(replica.log.read_text() for replica in sharing.replicas)
    key = base64.b64decode(sharing.secret()["data"]["tls.key"]).decode()
    assert "PRIVATE KEY" not in text
    assert key.splitlines()[1] not in text
