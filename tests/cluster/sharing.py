"""Three `floorkeeper serve` processes that keep one certificate, with the rights of the shipped overlay and no others.

They have a namespace and webhook configurations of their own, so they and others on the same cluster do not meet. Their
certificates live for seconds: `python -m tests.cluster.sharing` is `serve --tls-secret floorkeeper-tls` but for that,
and for a folder in place of the cluster's facts.
"""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.cases import FIXTURES
from tests.cluster.api import Api
from tests.cluster.balancer import Balancer
from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import ROOT, account_kubeconfig, free_endpoint, shipped_rights
from tests.handshake import trusting
from webhook.server.keeper import KeeperTiming
from webhook.server.keyring import read_bundle
from webhook.server.managed import ManagedCertificate
from webhook.server.process import Settings, serve
from webhook.server.rotation import Lifetimes
from webhook.sources.manifests import ManifestSource

Object = dict[str, Any]
NAMESPACE = "certificates"
"""And the name of the configurations."""

SECRET = "floorkeeper-tls"
SERVICE = f"floorkeeper.{NAMESPACE}.svc"
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")

_TIMING = KeeperTiming(
    Lifetimes(timedelta(seconds=9), timedelta(seconds=18), timedelta(seconds=1)), poll=0.5, notice=3.0, settle=3.0
)


def rights() -> list[Object]:
    """The shipped ones, for our namespace and configurations."""
    objects = shipped_rights(NAMESPACE, "overlays/self-signed/rbac.yaml")
    for rule in (rule for value in objects for rule in value.get("rules", ())):
        if rule["apiGroups"] == ["admissionregistration.k8s.io"]:
            rule["resourceNames"] = [NAMESPACE]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own("floorkeeper")}
    return [account, *objects]


def own(name: str) -> Object:
    return {"name": name, "namespace": NAMESPACE}


def configurations(port: int) -> list[Object]:
    """Both, for the ConfigMaps of our namespace, as manifests have them: without a caBundle."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": NAMESPACE},
            "webhooks": [
                {
                    "name": f"{number}.{path}.floorkeeper.io",
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": {"service": {**own("floorkeeper"), "path": f"/{path}", "port": port}},
                    "failurePolicy": "Fail",
                    "sideEffects": "None",
                    "timeoutSeconds": 5,
                    "rules": [rule],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                    "matchConditions": [{"name": "ours", "expression": 'object.metadata.name == "asked"'}],
                }
                for number in (1, 2)
            ],
        }
        for kind, path in zip(KINDS, ("mutate", "validate"), strict=True)
    ]


@dataclass
class Replica:
    """One process."""

    directory: Path
    address: tuple[str, int]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.cluster.sharing", str(self.directory), *map(str, self.address)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)

    def is_ready(self) -> bool:
        return bool(self.readiness().get("ready"))

    def readiness(self) -> Object:
        """What /readyz says, {} before it says anything."""
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        host, port = self.address
        try:
            found: Object = httpx.get(f"https://{host}:{port}/readyz", verify=False, timeout=5).json()
        except httpx.TransportError:
            return {}
        return found

    def lines(self) -> list[Object]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self) -> None:
        if self.process is not None:
            # Which does not drain.
            self.process.send_signal(signal.SIGINT)
            self.process.wait(15)


@dataclass
class Sharing:
    cluster: Cluster
    api: Api
    port: int
    replicas: Sequence[Replica]
    failed: list[str] = field(default_factory=list)
    """Writes that the API server refused, and handshakes that who trusts the stored caBundle refused."""

    writes: int = 0
    handshakes: int = 0

    def told(self, message: str) -> list[Object]:
        """What any of the replicas has said so."""
        return [line for replica in self.replicas for line in replica.lines() if line["message"] == message]

    def secret(self) -> Object:
        found: Object = self.cluster.get("secret", SECRET, "-n", NAMESPACE)
        return found

    def bundles(self) -> list[str]:
        """The caBundle of each webhook, in base64."""
        found = [self.cluster.get(kind, NAMESPACE) for kind in KINDS]
        return [webhook["clientConfig"].get("caBundle", "") for value in found for webhook in value["webhooks"]]

    def write(self) -> str:
        """One write that is not stored, by way of every webhook: what the API server has against it."""
        value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": own("asked")}
        answer = self.api.create(value, dry_run=True)
        self.writes += 1
        return "" if answer.code == 201 else answer.message

    def shake_hands(self) -> None:
        """With each replica, trusting what each webhook trusts at that time."""
        for bundle in set(self.bundles()):
            client = trusting(*read_bundle(bundle))
            for replica in self.replicas:
                self.handshakes += 1
                try:
                    _shake_hands(client, replica.address)
                except (ssl.SSLError, OSError) as error:
                    self.failed.append(f"{replica.log.name}: {error}")

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Writes and handshakes without a pause."""
        ended = threading.Event()

        def go_on(call: Any) -> None:
            while not ended.is_set():
                call()

        def write() -> None:
            message = self.write()
            if message:
                self.failed.append(message)

        threads = [threading.Thread(target=go_on, args=(call,)) for call in (write, self.shake_hands)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def _shake_hands(client: ssl.SSLContext, address: tuple[str, int]) -> None:
    with (
        socket.create_connection(address, timeout=5) as plain,
        client.wrap_socket(plain, server_hostname=SERVICE) as secure,
    ):
        secure.unwrap()


@contextmanager
def three_replicas(cluster: Cluster, api: Api, directory: Path) -> Iterator[Sharing]:
    """Started together, before there is a Secret, and after there are webhook configurations."""
    front, *backs = (free_endpoint() for _ in range(4))
    service = {"type": "ExternalName", "externalName": front[0]}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Service", "metadata": own("floorkeeper"), "spec": service},
        *rights(),
        *configurations(front[1]),
    ]
    cluster.apply(*objects)
    (directory / "kubeconfig").write_text(yaml.safe_dump(account_kubeconfig(cluster, NAMESPACE)))
    replicas = [Replica(directory, back, directory / f"log-{number}") for number, back in enumerate(backs)]
    try:
        for replica in replicas:
            replica.start()
        with Balancer(front, backs).running():
            for replica in replicas:
                until("a replica is ready", replica.is_ready, 30)
            yield Sharing(cluster, api, front[1], replicas)
    finally:
        for replica in replicas:
            replica.stop()
        cluster("delete", "-f", "-", "--ignore-not-found", "--wait=false", input=yaml.safe_dump_all(objects[::-1]))


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    given = parser.parse_args()
    kubeconfig = given.directory / "kubeconfig"
    serve(
        Settings(
            given.host,
            given.port,
            lambda _: ManifestSource(FIXTURES / "base"),
            "a folder",
            managed=lambda: ManagedCertificate(kubeconfig, SECRET, NAMESPACE, NAMESPACE, _TIMING),
        )
    )


if __name__ == "__main__":
    main()
