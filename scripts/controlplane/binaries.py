"""Which program is taken from where: KUBEBUILDER_ASSETS, then PATH, then our own build."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from .build import build
from .pins import read_pin
from .progress import ClusterError, Progress

# The programs that a folder made for controller-runtime's envtest holds.
_ASSETS = ("etcd", "kube-apiserver", "kubectl")


def find_binaries(names: Collection[str], progress: Progress) -> dict[str, Path]:
    """Name -> path for all names; what neither the caller nor PATH has is built."""
    found: dict[str, Path] = {}
    for name in names:
        if name != "kubectl" and (path := _find(name)) is not None:
            found[name] = path
    server = _read_server_minor(found.get("kube-apiserver"))
    if "kubectl" in names and (path := _find("kubectl")) is not None:
        minor = _read_kubectl_minor(path)
        if minor is not None and abs(minor - server) <= 1:
            found["kubectl"] = path
    for name, path in sorted(found.items()):
        progress.say(f"using {name} from {path}")
    missing = [name for name in names if name not in found]
    if missing:
        found |= build(missing, progress)
    built = int(read_pin("kubernetes", "k8s.io/kubernetes").split(".")[1])
    if server != built and any(name in missing for name in ("kube-controller-manager", "kube-scheduler")):
        progress.say(f"warning: the API server is 1.{server}, the controllers built here are 1.{built}")
    return found


def _find(name: str) -> Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and name in _ASSETS:
        path = Path(assets).absolute() / name
        if not os.access(path, os.X_OK):
            raise ClusterError(f"KUBEBUILDER_ASSETS={assets} holds no {name} that can be run; fix it or unset it")
        return path
    found = shutil.which(name)
    return Path(found).absolute() if found else None


def _read_server_minor(path: Path | None) -> int:
    if path is None:
        return int(read_pin("kubernetes", "k8s.io/kubernetes").split(".")[1])
    answer = subprocess.run([path, "--version"], capture_output=True, text=True)
    match = re.search(r"v\d+\.(\d+)", answer.stdout)
    if match is None:
        raise ClusterError(f"{path} --version says {answer.stdout or answer.stderr!r}, which names no version")
    return int(match[1])


def _read_kubectl_minor(path: Path) -> int | None:
    answer = subprocess.run([path, "version", "--client", "--output=json"], capture_output=True, text=True)
    try:
        match = re.match(r"v\d+\.(\d+)", json.loads(answer.stdout)["clientVersion"]["gitVersion"])
    except (ValueError, KeyError, TypeError):
        return None
    return int(match[1]) if match else None
