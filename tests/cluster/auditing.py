"""A server that audits and has no part in admission, as a process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import HOME, POLICY, ROOT, shipped_account

Object = dict[str, Any]
OFTEN = """
import sys
from webhook.commands import cli
from webhook.server import audits
audits.FIRST = 1.0
audits._SHARE = 0
sys.modules["webhook.commands.serve"]._SHORTEST = 1.0
from webhook.cli import main
main()
"""
"""The command line, but for how often an audit may be done."""


class AuditingServer:
    def __init__(self, folder: Path, kubeconfig: Object, every: str) -> None:
        (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        self._log = folder / "log"
        words = ["serve", "--port=0", "--page-port=0", f"--audit-every={every}", f"--policy={POLICY}"]
        command = [sys.executable, "-c", OFTEN, *words, f"--kubeconfig={folder / 'kubeconfig'}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log, cwd=ROOT)
        self.url = self.page = ""

    def wait(self) -> None:
        """Until it serves."""
        self.url = until("it serves", partial(self._address, "serving"), 30)
        self.page = until("it serves the page", partial(self._address, "page"), 30)

    def logged(self, message: str) -> list[Object]:
        assert self._process.poll() is None, self._log.read_text()
        lines = self._log.read_text().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [line for line in found if line["message"] == message]

    def _address(self, message: str) -> str:
        return next((str(line["address"]) for line in self.logged(message)), "")

    def metrics(self) -> dict[str, float]:
        """By name and rule, those of audits."""
        text = httpx.get(f"{self.url}/metrics", verify=False, timeout=5).text
        return {
            f"{sample.name.removeprefix('floorkeeper_audit_')} {sample.labels.get('rule', '')}".strip(): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("floorkeeper_audit_")
        }

    def violations(self) -> Any:
        return httpx.get(f"{self.page}data.json", timeout=5).json()["violations"]

    def end(self) -> int:
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(20)


@contextmanager
def auditing(folder: Path, kubeconfig: Object, every: str) -> Iterator[AuditingServer]:
    server = AuditingServer(folder, kubeconfig, every)
    try:
        server.wait()
        yield server
    finally:
        code = server.end()
    assert code == 0


@contextmanager
def allowed_to_audit(cluster: Cluster, namespace: str) -> Iterator[Object]:
    """The kubeconfig of an account there with the base's rights and the component's, the Role where the certificate
    is."""
    text = (ROOT / "manifests" / "components" / "audit" / "rbac.yaml").read_text()
    objects: list[Object] = list(yaml.safe_load_all(text))
    for value in objects:
        value["metadata"]["name"] += f"-{namespace}"
        if "roleRef" in value:
            value["roleRef"]["name"] += f"-{namespace}"
            (subject,) = value["subjects"]
            subject["namespace"] = namespace
    with shipped_account(cluster, namespace) as kubeconfig:
        cluster.apply(*objects)
        try:
            user = f"--as=system:serviceaccount:{namespace}:floorkeeper"
            asked = ["auth", "can-i", "get", "secrets/floorkeeper-tls", "-n", HOME, user]
            until("the component's roles are known", lambda: cluster(*asked, check=False).returncode == 0, 10)
            yield kubeconfig
        finally:
            cluster("delete", "-f", "-", "--ignore-not-found", "--wait=false", input=yaml.safe_dump_all(objects))
