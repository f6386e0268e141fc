"""Two replicas of Floorkeeper behind a Service, registered with the shipped manifests."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from benchmarks.soak.pace import NAMESPACE, Pace
from benchmarks.soak.replica import KUBECONFIG, PACE, POLICY, SECRET
from benchmarks.soak.writes import POLICY as POLICY_TEXT
from benchmarks.soak.writes import objects, writes
from tests.cluster.balancer import Address, Balancer
from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import ROOT, account_kubeconfig, free_endpoint, manifests

Object = dict[str, Any]
_PARTS = ("--without", "kueue,scheduler,controller-manager,kwok")
_SLOTS = 3
"""Addresses of replicas: two, and one for whoever takes the place of one of them."""


@dataclass
class Replica:
    """One process."""

    address: Address
    log: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, directory: Path, address: Address, number: int) -> Replica:
        log = directory / f"replica-{number}.log"
        command = [sys.executable, "-m", "benchmarks.soak.replica", str(directory), address[0], str(address[1])]
        with log.open("wb") as file:
            return cls(address, log, subprocess.Popen(command, stderr=file, cwd=ROOT))

    def get(self, path: str) -> httpx.Response:
        host, port = self.address
        return httpx.get(f"https://{host}:{port}{path}", verify=False, timeout=5, trust_env=False)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        try:
            return self.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def report(self) -> Any:
        """Of /readyz."""
        return self.get("/readyz").json()

    def fingerprint(self) -> str:
        """Of the certificate that a new connection gets."""
        found = ssl.get_server_certificate(self.address, timeout=5)
        return x509.load_pem_x509_certificate(found.encode()).fingerprint(hashes.SHA256()).hex()

    def metric(self, start: str) -> float:
        """The sum of the samples whose lines begin so."""
        lines = self.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start))

    def end(self, number: signal.Signals) -> int:
        """The exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)

    def logged(self, message: str) -> list[Object]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["message"] == message]


@dataclass
class Service:
    cluster: Cluster
    directory: Path
    pace: Pace
    slots: Sequence[Address]
    way: Balancer
    """From the replicas to the API server."""

    shipped: list[Object]
    replicas: list[Replica] = field(default_factory=list)
    ended: list[Replica] = field(default_factory=list)
    first_fingerprints: set[str] = field(default_factory=set)
    """Of the certificates that were served at the start."""

    def start_replica(self) -> Replica:
        """On an address that none is on; ready when this returns."""
        taken = {replica.address for replica in self.replicas}
        address = next(slot for slot in self.slots if slot not in taken)
        replica = Replica.start(self.directory, address, len(self.replicas) + len(self.ended))
        self.replicas.append(replica)
        until("a replica is ready", replica.is_ready, 60)
        return replica

    def end_replica(self, replica: Replica, number: signal.Signals) -> int:
        code = replica.end(number)
        self.replicas.remove(replica)
        self.ended.append(replica)
        return code

    def end(self) -> None:
        for replica in list(self.replicas):
            self.end_replica(replica, signal.SIGINT)

    def fingerprints(self) -> set[str]:
        """Of the certificates that are served."""
        return {replica.fingerprint() for replica in self.replicas}

    def logged(self, message: str) -> list[Object]:
        """By all replicas, also those that have ended."""
        return [line for replica in (*self.ended, *self.replicas) for line in replica.logged(message)]

    def ca_bundles(self) -> list[str]:
        """Of every webhook, as it is registered."""
        kinds = [value["kind"] for value in self.shipped if "webhooks" in value]
        registered = [self.cluster.get(kind, "floorkeeper") for kind in kinds]
        return [webhook["clientConfig"].get("caBundle", "") for value in registered for webhook in value["webhooks"]]

    def write_policy(self, text: str) -> None:
        (self.directory / POLICY).write_text(text)

    def authorities(self) -> list[str]:
        """Fingerprints of the CAs in the Secret."""
        secret = self.cluster.get("secret", SECRET, "-n", NAMESPACE)
        pem = b64decode(secret["data"]["ca.crt"])
        return [each.fingerprint(hashes.SHA256()).hex() for each in x509.load_pem_x509_certificates(pem)]

    def apply(self) -> str:
        """The shipped manifests; what kubectl says."""
        return self.cluster.apply(*self.shipped).stdout


@contextmanager
def control_plane(place: Path) -> Iterator[Cluster]:
    """One that may be restarted: etcd, kube-apiserver and Kueue's CRDs; somebody's KUBECONFIG is not looked at."""
    script = [sys.executable, str(ROOT / "scripts" / "cluster")]
    environment = {name: text for name, text in os.environ.items() if name != "KUBECONFIG"}
    subprocess.run([*script, "up", str(place), *_PARTS], stdout=subprocess.DEVNULL, env=environment, check=True)
    try:
        yield Cluster(place / "kubeconfig", str(place / "cluster" / "bin" / "kubectl"), place)
    finally:
        subprocess.run([*script, "down", str(place)], check=True)


@contextmanager
def running_service(cluster: Cluster, directory: Path, pace: Pace) -> Iterator[Service]:
    """The API server reaches the replicas by way of a balancer, as of a Service, and they reach it by another one."""
    front, *slots = (free_endpoint() for _ in range(1 + _SLOTS))
    shipped = manifests(cluster, *front, overlay="overlays/self-signed")
    registrations = [value for value in shipped if "webhooks" in value]
    cluster.apply(*(value for value in shipped if value not in registrations), *objects())
    with ExitStack() as stack:
        config, way = account_kubeconfig(cluster), stack.enter_context(_way_to(cluster))
        config["clusters"][0]["cluster"]["server"] = way.url
        service = Service(cluster, directory, pace, slots, way.balancer, shipped)
        cluster.apply(_secret(pace))
        pace.write(directory / PACE)
        service.write_policy(POLICY_TEXT)
        (directory / KUBECONFIG).write_text(yaml.safe_dump(config))
        stack.callback(service.end)
        for _ in range(2):
            service.start_replica()
        stack.enter_context(_balancing(front, slots))
        cluster.apply(*registrations)
        denied = next(write for write in writes() if write.name == "create, denied")
        value = yaml.safe_load(denied.body)
        until(
            "the replicas are called",
            lambda: "[implicit" in cluster.create(value, "--dry-run=server", check=False).stderr,
            20,
        )
        service.first_fingerprints = service.fingerprints()
        yield service


def _secret(pace: Pace) -> Object:
    data = {name: b64encode(content).decode() for name, content in pace.first_keyring().data().items()}
    metadata = {"name": SECRET, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data}


@dataclass(frozen=True)
class _Way:
    balancer: Balancer
    url: str


@contextmanager
def _way_to(cluster: Cluster) -> Iterator[_Way]:
    """To the API server, by another port of its address, for its certificate names that."""
    server = urlsplit(yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    assert server.hostname is not None
    assert server.port is not None
    with socket.create_server((server.hostname, 0)) as probe:
        port = probe.getsockname()[1]
    with Balancer((server.hostname, port), [(server.hostname, server.port)]).running() as balancer:
        yield _Way(balancer, f"https://{server.hostname}:{port}")


@contextmanager
def _balancing(front: Address, backs: Sequence[Address]) -> Iterator[None]:
    """In a process of its own: all calls pass there."""
    places = [f"{host}:{port}" for host, port in (front, *backs)]
    process = subprocess.Popen([sys.executable, "-m", "tests.cluster.balancer", *places], cwd=ROOT)
    try:
        yield
    finally:
        process.terminate()
        process.wait()
