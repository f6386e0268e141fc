"""Brings a control plane up in the order in which its parts need one another, and down in the reverse."""

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path

from .api import Api, Object
from .binaries import find_binaries
from .build import build
from .certmanager import PROGRAMS, CertManager
from .components import ADMIN, Component, Kubernetes, webhook_client_authority
from .health import is_healthy
from .kueue import Kueue, answers, crds, find_namespaces
from .kwok import is_ready, kwok, node
from .layout import Layout, Record
from .manifests import kwok_stages, read_crds, read_kueue
from .ports import Ports
from .process import Running, is_alive, start, stop
from .progress import ClusterError, Progress, tail
from .signals import shielded

OPTIONAL = ("kueue", "scheduler", "controller-manager", "kwok")
FURTHER = ("cert-manager",)
# A cold, busy, two-core machine needs most of a minute.
PATIENCE_SECONDS = 180
_GRACE_SECONDS = 15


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for."""

    nodes: int = 2
    gpus: int = 5
    without: frozenset[str] = frozenset()
    crds: tuple[str, ...] = ()
    further: frozenset[str] = frozenset()

    def has(self, part: str) -> bool:
        return part in self.further if part in FURTHER else part not in self.without


class ComponentFailed(ClusterError):
    """A component ended, or never became ready; its log, which stays, says why."""


class Start:
    """One `up` in progress: what has been started so far is always in the record on disk."""

    def __init__(self, layout: Layout, record: Record, wanted: Wanted, progress: Progress) -> None:
        self._layout = layout
        self._record = record
        self._wanted = wanted
        self._progress = progress

    def run(self) -> None:
        """Everything from nothing to ready. Raises ClusterError; the caller then takes down what is in the record."""
        wanted, progress, layout = self._wanted, self._progress, self._layout
        # Before a build of minutes, not after it.
        namespaces = find_namespaces(layout.private) if wanted.has("kueue") else ()
        names = ["etcd", "kube-apiserver", "kubectl"]
        names += [f"kube-{part}" for part in ("controller-manager", "scheduler") if wanted.has(part)]
        names += [part for part in ("kwok", "kueue") if wanted.has(part)]
        binaries = find_binaries(names, progress)
        # Never from PATH: what is called so there takes other arguments than ours.
        binaries |= build([part for part in FURTHER if wanted.has(part)], progress)
        shipped = read_kueue(binaries["kubectl"], progress)
        further = [crd for name in wanted.crds for crd in read_crds(name, progress)]
        stages = kwok_stages(progress) if wanted.has("kwok") else None

        layout.bin.mkdir()
        for name, path in binaries.items():
            (layout.bin / name).symlink_to(path)
        with Ports() as ports:
            kubernetes = Kubernetes(layout.private, ports)
            kueue = Kueue(layout.private, kubernetes, ports, shipped, namespaces) if wanted.has("kueue") else None
            manager = CertManager(layout.private, kubernetes, ports) if wanted.has("cert-manager") else None
            objects = [*further, *(kueue.objects if kueue else crds(shipped)), *(manager.objects if manager else ())]
            try:
                self._start(kubernetes, kueue, manager, objects, stages)
            except (OSError, HTTPException) as error:
                # A process that is being killed breaks its connections some time before it is gone.
                time.sleep(0.5)
                self._fail_if_ended()
                raise ClusterError(f"could not talk to the API server any more: {error!r}") from error
        kubernetes.write_kubeconfig(layout.kubeconfig, ADMIN, kubernetes.tokens[ADMIN])
        write_env(layout, layout.kubeconfig, {"WEBHOOK_CLIENT_CA": webhook_client_authority(layout.private)})

    def _start(
        self,
        kubernetes: Kubernetes,
        kueue: Kueue | None,
        manager: CertManager | None,
        objects: list[Object],
        stages: Path | None,
    ) -> None:
        wanted, layout = self._wanted, self._layout
        self._launch(kubernetes.etcd())
        self._launch(kubernetes.api_server())
        self._wait_until_healthy("kube-apiserver", kubernetes)
        api = Api(kubernetes.port, kubernetes.tokens[ADMIN], kubernetes.authority.path)
        self._progress.say("kube-apiserver answers")

        if wanted.has("controller-manager"):
            self._launch(kubernetes.controller_manager())
        else:
            account = {"apiVersion": "v1", "kind": "ServiceAccount"}
            api.create(account | {"metadata": {"name": "default", "namespace": "default"}})
        for obj in objects:
            api.create(obj)
        for crd in crds(objects):
            self._wait("kube-apiserver", partial(api.serves, crd))
        if kueue:
            self._launch(kueue.component(layout.bin / "kueue", api))
        for component in manager.components(api) if manager else ():
            self._launch(component)
        if wanted.has("scheduler"):
            self._launch(kubernetes.scheduler())
        for number in range(1, wanted.nodes + 1):
            created = api.create(node(number, wanted.gpus, ready=stages is None))
            if not wanted.has("controller-manager"):
                # Every new node is tainted as not ready; only the node lifecycle controller would take that away.
                created["spec"].pop("taints", None)
                api.replace(created)
        if stages:
            user = "kwok-controller"
            path = layout.private / "kwok.kubeconfig"
            self._launch(kwok(kubernetes.write_kubeconfig(path, user, kubernetes.tokens[user]), stages))
        self._wait_until_ready(api, kubernetes)
        api.close()

    def _wait_until_ready(self, api: Api, kubernetes: Kubernetes) -> None:
        wanted = self._wanted
        if wanted.has("controller-manager"):
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            self._wait("kube-controller-manager", lambda: api.get(account) is not None)
        if wanted.has("scheduler"):
            self._wait_until_healthy("kube-scheduler", kubernetes)
        if wanted.has("kwok"):

            def all_ready() -> bool:
                nodes = api.get("/api/v1/nodes")
                return nodes is not None and all(is_ready(obj) for obj in nodes["items"])

            self._wait("kwok", all_ready)
        if wanted.has("kueue"):
            self._wait("kueue", lambda: answers(api))
        if wanted.has("cert-manager"):
            for name in PROGRAMS:
                self._wait_until_healthy(name, kubernetes)

    def _launch(self, component: Component) -> None:
        argv = component.argv
        if argv[0] != "unshare":
            argv = (str(self._layout.bin / (component.binary or component.name)), *argv)
        with shielded():
            process = launch(self._layout, component.name, argv, component.health)
            self._record.processes.append(process)
            self._layout.write_record(self._record)
        self._progress.say(f"started {component.name}")

    def _wait_until_healthy(self, name: str, kubernetes: Kubernetes) -> None:
        [health] = [process.health for process in self._record.processes if process.name == name]
        assert health is not None
        self._wait(name, partial(is_healthy, health, kubernetes.authority.path))

    def _wait(self, name: str, holds: Callable[[], bool]) -> None:
        """Until `holds`, which `name` is to bring about; fails early when any component has ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            self._fail_if_ended()
            if time.monotonic() > deadline:
                raise failure(self._layout, name, f"was not ready within {PATIENCE_SECONDS} s")
            time.sleep(0.05)

    def _fail_if_ended(self) -> None:
        for process in self._record.processes:
            if not is_alive(process):
                raise failure(self._layout, process.name, "ended")


def launch(layout: Layout, name: str, argv: Sequence[str], health: str | None) -> Running:
    """Start a program of this cluster; the caller notes it in the record."""
    # Nothing of the caller's environment (KUBECONFIG, proxies, tokens) may change what runs here; whatever a
    # component writes without being told where lands in the folder that `down` removes.
    temporary = layout.private / "tmp"
    temporary.mkdir(exist_ok=True)
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(layout.private), "TMPDIR": str(temporary)}
    return start(name, argv, health, layout.log(name), environment, layout.private)


def failure(layout: Layout, name: str, what: str) -> ComponentFailed:
    """What to say of a component that ended or never became ready."""
    log = layout.log(name)
    return ComponentFailed(
        f"{name} {what}; the last lines of {log}:\n{tail(log)}\n"
        f"  all logs stay in {layout.logs} until the next up or down"
    )


def take_down(record: Record, progress: Progress) -> None:
    """Stop what the record names: clients first, then the API server, which cannot end without etcd, then etcd."""
    last = ("kube-apiserver", "etcd")
    clients = [process.name for process in record.processes if process.name not in last]
    for names in (clients, *([name] for name in last)):
        processes = [process for process in record.processes if process.name in names]
        orphaned = not any(process.name == "etcd" and is_alive(process) for process in record.processes)
        grace = 1 if orphaned else _GRACE_SECONDS
        for process in stop(processes, grace):
            progress.say(f"killed {process.name} (pid {process.pid}), which did not end within {grace} s")


def write_env(layout: Layout, kubeconfig: Path, further: Mapping[str, Path]) -> None:
    """KEY=value lines that a shell can source: KUBECONFIG, KUBECTL, BIN (the folder of all programs), and `further`."""
    values = {"KUBECONFIG": kubeconfig, "KUBECTL": layout.bin / "kubectl", "BIN": layout.bin, **further}
    layout.env.write_text("".join(f"{key}={shlex.quote(str(value))}\n" for key, value in values.items()))
