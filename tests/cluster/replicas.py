"""Two `floorkeeper serve` processes behind one address, registered for the ClusterQueues of a race.

They count an accelerator that no other server knows, so they and others on the same cluster do not meet. They have the
rights of the shipped account and no others, in a namespace of their own, where their ledger is. Their promises end
sooner than the shipped 90 s, for else a test would wait that long: `python -m tests.cluster.replicas` is `serve` but
for that, and for the namespace of the ledger.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.certificate import write_certificate
from tests.cluster.api import Api
from tests.cluster.balancer import Balancer
from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import ROOT, free_endpoint, shipped_account
from webhook.rules import NEEDS
from webhook.server.process import Settings, serve
from webhook.sources.cluster import ClusterSource
from webhook.sources.ledger import LedgerTiming
from webhook.sources.store import CONFIG_MAP

Object = dict[str, Any]
NAMESPACE = "floor-races"
FLAVOR = "floor-races"
ACCELERATOR = "example.com/race"
CAPACITY = 10
EXPIRY = 5.0

_POLICY: Object = {
    "apiVersion": "floorkeeper.io/v1alpha1",
    "kind": "Policy",
    "accelerators": {"resources": [ACCELERATOR]},
    "capacity": {"declared": {FLAVOR: {ACCELERATOR: CAPACITY}}},
}


def race_queue(name: str, floor: int) -> Object:
    quota = {"name": FLAVOR, "resources": [{"name": ACCELERATOR, "nominalQuota": floor}]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": f"{NAMESPACE}-{name}"},
        "spec": {
            "cohortName": NAMESPACE,
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any"},
            "resourceGroups": [{"coveredResources": [ACCELERATOR], "flavors": [quota]}],
        },
    }


@dataclass
class Replica:
    """One process."""

    directory: Path
    address: tuple[str, int]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.cluster.replicas", str(self.directory), *map(str, self.address)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)

    def wait_until_ready(self) -> None:
        until("a replica is ready", self._ready, 30)

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        host, port = self.address
        try:
            return httpx.get(f"https://{host}:{port}/readyz", verify=False, timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def logged(self, message: str) -> list[Object]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["message"] == message]

    def reserved(self) -> list[Object]:
        """What it says of the promises that it made."""
        return self.logged("reserved")


@dataclass(frozen=True)
class Replicas:
    api: Api
    balancer: Balancer
    both: tuple[Replica, Replica]

    def promises(self) -> list[Object]:
        """What the ledger holds."""
        found = self.api.read({"apiVersion": "v1", "kind": "ConfigMap", "metadata": _own(CONFIG_MAP)})
        promises: list[Object] = json.loads(found["data"]["reservations"]) if found else []
        return promises


def _own(name: str) -> Object:
    return {"name": name, "namespace": NAMESPACE}


def _registration(address: str, port: int, ca_bundle: bytes) -> list[Object]:
    """A Service that leads to the balancer, and a webhook as the shipped one for ClusterQueues."""
    client = {
        "service": {**_own("floorkeeper"), "path": "/validate", "port": port},
        "caBundle": base64.b64encode(ca_bundle).decode(),
    }
    rule = {
        "apiGroups": ["kueue.x-k8s.io"],
        "apiVersions": ["v1beta1", "v1beta2"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["clusterqueues"],
    }
    condition = {"name": "race", "expression": f'object.metadata.name.startsWith("{NAMESPACE}-")'}
    webhook = {
        "name": "races.validate.floorkeeper.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "failurePolicy": "Fail",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 10,
        "rules": [rule],
        "matchConditions": [condition],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _own("floorkeeper"),
            "spec": {"type": "ExternalName", "externalName": address},
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": NAMESPACE},
            "webhooks": [webhook],
        },
    ]


@contextmanager
def two_replicas(cluster: Cluster, api: Api, directory: Path) -> Iterator[Replicas]:
    ca_bundle = write_certificate(directory, f"floorkeeper.{NAMESPACE}.svc")
    (directory / "policy.yaml").write_text(yaml.safe_dump(_POLICY))
    front, *backs = (free_endpoint() for _ in range(3))
    first, second = (Replica(directory, back, directory / f"log-{number}") for number, back in enumerate(backs))
    objects = _registration(*front, ca_bundle)
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}
    queues = [race_queue(name, 0) for name in "ab"]
    with shipped_account(cluster, NAMESPACE) as kubeconfig:
        (directory / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        for replica in (first, second):
            replica.start()
        try:
            with Balancer(front, backs).running() as balancer:
                cluster.apply(flavor, *queues)
                for replica in (first, second):
                    replica.wait_until_ready()
                cluster.apply(*objects)
                replicas = Replicas(api, balancer, (first, second))
                until("the replicas are called", lambda: not _passes(api, CAPACITY + 1), 20)
                yield replicas
        finally:
            for replica in (first, second):
                if replica.process is not None:
                    replica.kill()
            gone = [*objects[::-1], *queues, flavor]
            cluster("delete", "-f", "-", "--ignore-not-found", "--wait=false", input=yaml.safe_dump_all(gone))


def _passes(api: Api, floor: int) -> bool:
    return api.update(race_queue("a", floor), dry_run=True).code == 200


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    given = parser.parse_args()
    directory: Path = given.directory
    timing = LedgerTiming(expiry=EXPIRY, tidy=(0.1, 0.3, 1.0, 3.0, 3.0))
    serve(
        Settings(
            given.host,
            given.port,
            lambda more: ClusterSource(
                directory / "kubeconfig", sorted(NEEDS | more), ledger_timing=timing, namespace=NAMESPACE
            ),
            "race",
            directory / "policy.yaml",
            directory / "tls.crt",
            directory / "tls.key",
        )
    )


if __name__ == "__main__":
    main()
