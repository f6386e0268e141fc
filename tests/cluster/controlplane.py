"""Starting the control plane for a test session, and talking to it with kubectl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from scripts.controlplane.manifests import CRDS
from tests.cluster.reading import Reading

_ROOT = Path(__file__).parents[2]
_SCRIPT = [sys.executable, str(_ROOT / "scripts" / "cluster")]
_PARTS = ["--crds", ",".join(CRDS), "--with", "cert-manager"]
_GUARD = "import subprocess, sys; sys.stdin.read(); sys.exit(subprocess.run(sys.argv[1:]).returncode)"
_SCRATCH = "floorkeeper-scratch"
"""A ConfigMap of kube-system by which somebody else's cluster says that tests may do as they like in it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Cluster:
    kubeconfig: Path
    kubectl: str
    place: Path | None = None
    """The folder of `scripts/cluster`; None for somebody else's cluster."""
    webhook_client_ca: Path | None = None
    """The CA of the client certificate that the API server shows to webhooks; None if it is not known to show one."""
    reading: Reading | None = None
    """For reads without a process for each."""

    def __call__(
        self, *args: str, input: str | None = None, check: bool = True, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [self.kubectl, "--kubeconfig", str(self.kubeconfig), *args],
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
        )
        if check and result.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(args)}: {result.stderr.strip()}")
        return result

    def restart(self, name: str) -> None:
        """End one of the control plane's programs, as an upgrade does, and start it; ready when this returns."""
        assert self.place is not None, f"cannot restart {name} of somebody else's cluster: unset KUBECONFIG"
        subprocess.run([*_SCRIPT, "restart", str(self.place), name], timeout=300, check=True)

    def get(self, *args: str) -> Any:
        """What kubectl get prints as JSON; None for an object that is not there."""
        if self.reading is not None:
            return self.reading.read(*args)
        output = self("get", *args, "-o", "json", "--ignore-not-found").stdout
        return json.loads(output) if output else None

    def path(self, *args: str) -> str:
        """Where the API server has what kubectl get would print."""
        assert self.reading is not None, "only the session's cluster has a proxy"
        return self.reading.path(*args)

    def items(self, *args: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (self.get(*args) or {"items": []})["items"]
        return found

    def apply(self, *objects: dict[str, Any], check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        return self("apply", "-f", "-", input=yaml.safe_dump_all(objects), check=check, **options)

    def create(self, value: dict[str, Any], *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self("create", "-f", "-", *args, input=yaml.safe_dump(value), check=check)


def until(what: str, read: Callable[[], T], seconds: float = 60) -> T:
    """The first truthy answer; fails with `what` and the last answer when the time is up."""
    end = time.monotonic() + seconds
    while True:
        answer = read()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not so after {seconds:.0f} s, last seen {answer!r}")
        time.sleep(0.05)


def stays(what: str, read: Callable[[], bool], seconds: float = 5) -> None:
    """Fails as soon as the answer is no longer true within this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert read(), f"{what}: no longer so"
        time.sleep(0.25)


@contextmanager
def running_cluster(directory: Path) -> Iterator[Cluster]:
    """A control plane of our own, or the one that KUBECONFIG names if it says that it is there for tests."""
    place = directory / "controlplane"
    with _up(place, _PARTS, os.environ) as kubeconfig:
        yield _connected(kubeconfig, place)


@contextmanager
def own_cluster(directory: Path, *words: str) -> Iterator[Cluster]:
    """One more control plane, whatever KUBECONFIG names, in which a whole installation may come and go.

    `words` are further ones for `scripts/cluster up`.
    """
    place = directory / "controlplane"
    with _up(place, words, {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}) as kubeconfig:
        yield _connected(kubeconfig, place)


@contextmanager
def _up(place: Path, words: Sequence[str], environment: Mapping[str, str]) -> Iterator[Path]:
    """The kubeconfig."""
    # It takes the control plane down when its input ends, and that it does however this process ends.
    guard = [sys.executable, "-c", _GUARD, *_SCRIPT, "down", str(place)]
    with subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True, env=environment) as down:
        command = [*_SCRIPT, "up", str(place), *words]
        up = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=3600, check=False)
        if up.returncode != 0:
            pytest_exit(f"scripts/cluster up failed with exit code {up.returncode}; its output is above")
        yield Path(up.stdout.strip())
    assert down.returncode == 0


def _connected(kubeconfig: Path, place: Path) -> Cluster:
    environment = place / "env"
    if environment.exists():
        values = dict(line.split("=", 1) for line in environment.read_text().splitlines() if "=" in line)
        ours = "WEBHOOK_CLIENT_CA" in values
        return Cluster(
            kubeconfig,
            values["KUBECTL"],
            place if ours else None,
            Path(values["WEBHOOK_CLIENT_CA"]) if ours else None,
        )
    cluster = Cluster(kubeconfig, "kubectl")
    if cluster.get("configmap", _SCRATCH, "-n", "kube-system") is None:
        pytest_exit(
            f"KUBECONFIG is set to {kubeconfig}. The tests create and delete objects all over a cluster. If that is "
            f"what it is for, say so with: kubectl create configmap {_SCRATCH} -n kube-system. Else unset KUBECONFIG, "
            "and they start a control plane of their own."
        )
    return cluster


def pytest_exit(message: str) -> None:
    import pytest

    pytest.exit(message, returncode=1)
