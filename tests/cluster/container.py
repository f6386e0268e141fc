"""The container of the shipped Deployment, as near as a process comes to it without a container runtime.

It has the container's own command line and files, the configuration that a pod finds in a cluster, a root that is
read-only, no capabilities, and a user that nobody has given a name. What differs is the address.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml

from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import arguments, only_container

Object = dict[str, Any]
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_SETUP = f"""
set -e
mount --bind "$1" /etc
mount -t tmpfs tmpfs /var/run
mkdir -p {_ACCOUNT}
mount --bind "$2" {_ACCOUNT}
mount --bind /tmp /tmp
mount -o remount,bind,ro /tmp
mount -o remount,bind,ro /
shift 2
exec unshare --user --map-user=1000650000 --map-group=0 -- "$@"
"""
"""$1 is the container's /etc, $2 the folder of its ServiceAccount, and what follows is its command line."""


@dataclass
class Container:
    address: str
    port: int
    log: Path
    process: subprocess.Popen[bytes]
    folders: Mapping[str, Path]
    """Where the ConfigMaps and Secrets that it mounts are, by name."""

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"https://{self.address}:{self.port}{path}", verify=False, timeout=5)

    def fingerprint(self) -> str:
        """Of the certificate that it serves."""
        return str(self.get("/readyz").json()["certificate"]["fingerprint"])

    def note(self) -> str:
        """What an admin has to do about its policy."""
        return str(self.get("/readyz").json()["policy"]["note"])

    def swap(self, name: str, content: Mapping[str, bytes]) -> None:
        """As the kubelet does some time after a ConfigMap or Secret has changed."""
        for key, data in content.items():
            (self.folders[name] / key).write_bytes(data)

    def troubles(self) -> list[str]:
        """The lines of its log that are errors, or about rights. CRDs that are seconds old cause warnings."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if json.loads(line)["level"] == "error" or "not allowed" in line]

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        try:
            return self.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running(
    cluster: Cluster,
    objects: Sequence[Object],
    address: tuple[str, int],
    folder: Path,
    secrets: Mapping[str, Mapping[str, bytes]],
) -> Iterator[Container]:
    """Ready when it is yielded. `secrets` are those that the pod mounts: their content, by name."""
    pod, container = only_container(objects)
    root, account, log = folder / "etc", folder / "account", folder / "log"
    folders = _mount(root, pod, container, objects, secrets)
    environment = _account(cluster, account, pod["serviceAccountName"])
    given = arguments(objects, host=address[0], port=str(address[1]))
    program = str(Path(sys.executable).parent / container["command"][0])
    alone = [
        "unshare",
        "--mount",
        "--propagation=private",
        *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]),
    ]
    command = [*alone, "sh", "-c", _SETUP, "sh", str(root), str(account), program, *given]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd="/")
    try:
        found = Container(*address, log, process, folders)
        until("the container is ready", found.ready, 30)
        yield found
    finally:
        process.kill()
        process.wait(10)


def _mount(
    root: Path,
    pod: Object,
    container: Object,
    objects: Sequence[Object],
    secrets: Mapping[str, Mapping[str, bytes]],
) -> dict[str, Path]:
    """Makes the container's /etc, with what it mounts there; the folders of ConfigMaps and Secrets."""
    folders = {}
    root.mkdir(parents=True)
    (root / "hosts").write_text("127.0.0.1 localhost\n")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    config_maps = {value["metadata"]["name"]: value for value in objects if value["kind"] == "ConfigMap"}
    for mount in container["volumeMounts"]:
        volume = volumes[mount["name"]]
        target = root / Path(mount["mountPath"]).relative_to("/etc")
        target.mkdir(parents=True)
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            content = {key: text.encode() for key, text in config_maps[name]["data"].items()}
        else:
            name = volume["secret"]["secretName"]
            content = dict(secrets[name])
        folders[name] = target
        for key, data in content.items():
            (target / key).write_bytes(data)
    return folders


def _account(cluster: Cluster, folder: Path, name: str) -> dict[str, str]:
    """Writes what a pod finds of its ServiceAccount; the environment by which it finds the API server."""
    folder.mkdir()
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    (entry,) = config["clusters"]
    (folder / "ca.crt").write_bytes(base64.b64decode(entry["cluster"]["certificate-authority-data"]))
    (folder / "namespace").write_text("floorkeeper-system")
    token = cluster("create", "token", name, "-n", "floorkeeper-system", "--duration", "1h").stdout.strip()
    (folder / "token").write_text(token)
    server = urlsplit(entry["cluster"]["server"])
    return {
        "PATH": os.environ["PATH"],
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
