"""Builds what is missing from pinned Go modules, once per set of pins and flags, into the cache."""

import hashlib
import os
import platform
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from .cache import cache_folder, locked
from .pins import FOLDER, MODULES, read_pin
from .progress import ClusterError, Progress, tail
from .signals import shielded
from .toolchain import find_go


@dataclass(frozen=True)
class Target:
    """One program: the module that pins it and its main package."""

    module: str
    package: str


TARGETS: Mapping[str, Target] = {
    "cert-manager": Target("cert-manager", "."),
    "etcd": Target("etcd", "."),
    "kube-apiserver": Target("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": Target("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": Target("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubectl": Target("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kueue": Target("kueue", "sigs.k8s.io/kueue/cmd/kueue"),
    "kwok": Target("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
}

_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _read_flags(module: str) -> list[str]:
    linker = "-s -w"
    if module == "kubernetes":
        # Without these the API server calls itself v0.0.0, which clients take for a very old one.
        version = read_pin("kubernetes", "k8s.io/kubernetes")
        major, minor = version.lstrip("v").split(".")[:2]
        prefix = "k8s.io/component-base/version"
        linker += f" -X {prefix}.gitVersion={version} -X {prefix}.gitMajor={major} -X {prefix}.gitMinor={minor}"
    return ["-trimpath", "-buildvcs=false", "-ldflags", linker]


def build_folder(*modules: str) -> Path:
    """The cache folder of exactly these modules' pins and flags on this kind of machine."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {sorted(_ENVIRONMENT.items())}".encode())
    for module in modules:
        digest.update(repr(_read_flags(module)).encode())
        for file in sorted((FOLDER / module).iterdir()):
            digest.update(f"\n{module}/{file.name}\n".encode() + file.read_bytes())
    return cache_folder() / "controlplane" / digest.hexdigest()[:16]


def go_environment() -> dict[str, str]:
    return os.environ | _ENVIRONMENT


def build(names: Collection[str], progress: Progress) -> dict[str, Path]:
    """Name -> path of the named programs; those that the cache lacks are built."""
    together = [name for name in names if TARGETS[name].module in MODULES]
    built = _build_into(build_folder(*MODULES), together, progress)
    for name in names:
        if name not in together:
            built |= _build_into(build_folder(TARGETS[name].module), [name], progress)
    return built


def _build_into(parent: Path, names: Collection[str], progress: Progress) -> dict[str, Path]:
    paths = {name: parent / "bin" / name for name in names}
    if all(path.exists() for path in paths.values()):
        return paths
    with locked(parent / "lock", progress, "a build"):
        missing = [name for name in TARGETS if name in names and not paths[name].exists()]
        if missing:
            folder = parent / "bin"
            folder.mkdir(parents=True, exist_ok=True)
            go = find_go(progress)
            progress.say(f"building {', '.join(missing)} into {folder} (the first time this takes minutes)")
            for step, name in enumerate(missing, 1):
                _build_one(go, name, folder, f"step {step} of {len(missing)}: {name}", progress)
    return paths


def _build_one(go: Path, name: str, folder: Path, step: str, progress: Progress) -> None:
    target = TARGETS[name]
    progress.say(step)
    fresh, log = folder / f".{name}.new", folder.parent / f"build-{name}.log"
    # -v names each package as it is compiled, which is all the progress that Go offers.
    command = [str(go), "build", "-v", *_read_flags(target.module), "-o", str(fresh), target.package]
    began = reported = time.monotonic()
    compiler = None
    with log.open("wb") as output:
        try:
            with shielded():
                compiler = subprocess.Popen(
                    command,
                    cwd=FOLDER / target.module,
                    env=go_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    # A group of its own: on Ctrl-C we end it and all below it, and only then release the lock.
                    start_new_session=True,
                )
            while compiler.poll() is None:
                time.sleep(0.1)
                if time.monotonic() - reported > 15:
                    reported = time.monotonic()
                    lines = log.read_text(errors="replace").count("\n")
                    progress.say(f"{step}: {lines} packages so far, {reported - began:.0f} s")
        finally:
            if compiler is not None and compiler.poll() is None:
                os.killpg(compiler.pid, signal.SIGTERM)
                compiler.wait()
                fresh.unlink(missing_ok=True)
    if compiler.returncode != 0:
        raise ClusterError(
            f"building {name} failed: {' '.join(command)} in {FOLDER / target.module}\n{tail(log)}\n"
            f"  the whole output is in {log}"
        )
    fresh.replace(folder / name)
