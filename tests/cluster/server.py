"""`floorkeeper serve` as a process, registered on the control plane with the shipped manifests."""

from __future__ import annotations

import base64
import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.controlplane import Cluster, until
from webhook.sources.store import CONFIG_MAP

ROOT = Path(__file__).parents[2]
POLICY = Path(__file__).parent / "policy.yaml"
PORT = 8443
HOME = "floorkeeper-system"


def manifests(
    kubectl: Cluster, address: str, port: int, ca_bundle: bytes = b"", overlay: str = "base"
) -> list[dict[str, Any]]:
    """The manifests as shipped, but for the Service, which leads here, and for a CA of our own, if there is one."""
    objects = list(yaml.safe_load_all(kubectl("kustomize", str(ROOT / "manifests" / overlay)).stdout))
    for value in objects:
        if value["kind"] == "Service":
            value["spec"] = {"type": "ExternalName", "externalName": address}
        for webhook in value.get("webhooks", []):
            if ca_bundle:
                webhook["clientConfig"]["caBundle"] = base64.b64encode(ca_bundle).decode()
            webhook["clientConfig"]["service"]["port"] = port
    return objects


def only_container(objects: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod of the Deployment among the objects, and its container."""
    (pod,) = (value["spec"]["template"]["spec"] for value in objects if value["kind"] == "Deployment")
    (container,) = pod["containers"]
    return pod, container


def arguments(objects: Sequence[dict[str, Any]], **replaced: str) -> list[str]:
    """Those of the Deployment's container, with these values for some of the options: host="::", port="8443"."""
    _, container = only_container(objects)
    split = [argument.removeprefix("--").partition("=") for argument in container["args"]]
    return [f"--{name}={replaced.get(name, value)}" if equals else name for name, equals, value in split]


@dataclass
class Floorkeeper:
    cluster: Cluster
    directory: Path
    address: str
    port: int
    process: subprocess.Popen[bytes] | None = None
    objects: list[dict[str, Any]] = field(default_factory=list)

    def start(self) -> None:
        """Starts the process and waits until it is ready."""
        here = {"host": self.address, "port": str(self.port), "policy": str(self.directory / "policy.yaml")}
        given = arguments(self.objects, **here, **{"drain-seconds": "1"})
        command = [sys.executable, "-m", "webhook", *given, f"--kubeconfig={self.directory / 'kubeconfig'}"]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        until("Floorkeeper is ready", self.ready, 30)

    def stop(self) -> None:
        """As a person would at a terminal, who need not wait for endpoints to be withdrawn."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(15)
            self.process = None

    def ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.directory / "log").read_text()[-4000:]
        try:
            return self.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"https://{self.address}:{self.port}{path}", verify=False, timeout=5)

    def review(self, path: str, review: dict[str, Any]) -> Any:
        """The response to a review, sent without the API server in between."""
        answer = httpx.post(f"https://{self.address}:{self.port}{path}", json=review, verify=False, timeout=10)
        assert answer.status_code == 200, answer.text
        return answer.json()["response"]

    def calls(self) -> float:
        """How many reviews it has answered, of whatever kind."""
        families = text_string_to_metric_families(self.get("/metrics").text)
        return sum(
            sample.value
            for family in families
            if family.name == "floorkeeper_requests"
            for sample in family.samples
            if sample.name == "floorkeeper_requests_total"
        )

    def hits(self, rule: str, severity: str) -> float:
        """How often a rule has spoken with this severity."""
        families = text_string_to_metric_families(self.get("/metrics").text)
        labels = {"rule": rule, "severity": severity}
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == "floorkeeper_rule_hits_total" and sample.labels == labels
        )

    @contextmanager
    def policy_replaced(self, text: str) -> Iterator[None]:
        """Another policy file, in force by the time this returns; the former one is again after it."""
        former = (self.directory / "policy.yaml").read_text()
        self.write_policy(text)
        try:
            yield
        finally:
            self.write_policy(former)

    def write_policy(self, text: str) -> None:
        """Another policy file, in force by the time this returns."""
        file = self.directory / "policy.yaml"
        if file.read_text() == text:
            return
        generation = self.generation()
        file.write_text(text)
        until("the policy is reloaded", lambda: self.generation() > generation, 10)

    def generation(self) -> int:
        return int(self.get("/readyz").json()["policy"]["generation"])

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / "log").read_text().splitlines()]


def free_endpoint() -> tuple[str, int]:
    """A loopback address of our own, so that two clusters can be tested side by side, and the shipped port on it.

    Another port only where a server of somebody else holds the shipped one on every address.
    """
    # At random, since one that stops for a moment wants its address back.
    address = f"127.77.{random.randint(1, 254)}.{random.randint(1, 254)}"
    for port in (PORT, 0):
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return address, int(probe.getsockname()[1])
    raise AssertionError(f"no free port on {address}")


def account_kubeconfig(cluster: Cluster, namespace: str = HOME) -> dict[str, Any]:
    """A kubeconfig with the rights of the shipped ServiceAccount in this namespace, and no others."""
    config: dict[str, Any] = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster("create", "token", "floorkeeper", "-n", namespace, "--duration", "2h").stdout.strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    return config


def shipped_rights(namespace: str, file: str = "base/rbac.yaml") -> list[dict[str, Any]]:
    """What this file of the manifests grants, for an account and a ledger in another namespace than the shipped one.

    The objects have other names too, so that they and the shipped ones do not meet.
    """
    text = (ROOT / "manifests" / file).read_text().replace(HOME, namespace)
    objects: list[dict[str, Any]] = list(yaml.safe_load_all(text))
    for value in objects:
        if value["kind"] != "ServiceAccount":
            value["metadata"]["name"] += f"-{namespace}"
        if "roleRef" in value:
            value["roleRef"]["name"] += f"-{namespace}"
    return objects


@contextmanager
def shipped_account(cluster: Cluster, namespace: str) -> Iterator[dict[str, Any]]:
    """The kubeconfig of an account with the base's rights, in a namespace that is there as long as the account is."""
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    objects = [home, *shipped_rights(namespace)]
    cluster.apply(*objects)
    asked = ["auth", "can-i", "get", f"configmaps/{CONFIG_MAP}", "-n", namespace]
    user = f"--as=system:serviceaccount:{namespace}:floorkeeper"
    try:
        # The API server's authorizer follows roles by a watch of its own.
        until("the ledger's role is known", lambda: cluster(*asked, user, check=False).returncode == 0, 10)
        yield account_kubeconfig(cluster, namespace)
    finally:
        cluster("delete", "-f", "-", "--ignore-not-found", "--wait=false", input=yaml.safe_dump_all(objects[::-1]))


@contextmanager
def serving(cluster: Cluster, directory: Path, policy: Path = POLICY) -> Iterator[Floorkeeper]:
    server = Floorkeeper(cluster, directory, *free_endpoint())
    (directory / "policy.yaml").write_text(policy.read_text())
    server.objects = manifests(cluster, server.address, server.port, overlay="overlays/self-signed")
    registrations = [value for value in server.objects if value["kind"].endswith("WebhookConfiguration")]
    cluster.apply(*(value for value in server.objects if value not in registrations))
    (directory / "kubeconfig").write_text(yaml.safe_dump(account_kubeconfig(cluster)))
    server.start()
    cluster.apply(*registrations)
    try:
        _wait_until_called(cluster, server)
        yield server
    finally:
        cluster("delete", "-f", "-", "--ignore-not-found", "--wait=false", input=yaml.safe_dump_all(registrations))
        server.stop()
        rest = [value for value in server.objects if value not in registrations]
        cluster("delete", "-f", "-", "--ignore-not-found", "--wait=false", input=yaml.safe_dump_all(rest))


def _wait_until_called(cluster: Cluster, server: Floorkeeper) -> None:
    """The API server notices a new webhook configuration within a second or so, not at once."""
    name = f"probe-{time.monotonic_ns()}"
    labels = {"floorkeeper.io/managed": "true"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "probe", "namespace": name}}
    refused = {**quota, "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}
    try:
        denied = 'resourcequotas.validate.floorkeeper.io" denied the request'
        until("we are called", lambda: denied in cluster.create(refused, "--dry-run=server", check=False).stderr, 20)
    finally:
        cluster("delete", "namespace", name, "--wait=false")
