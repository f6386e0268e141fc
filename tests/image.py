"""The Dockerfile, read, and its build stage run without Docker: in a folder that takes the place of /opt."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from scripts.controlplane.cache import cache_folder, locked
from scripts.controlplane.progress import Progress

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Instruction:
    name: str
    text: str


def read_stages() -> list[list[Instruction]]:
    """The instructions of each stage, its FROM first; before them, as a stage of its own, what all of them share."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", "")
    stages: list[list[Instruction]] = [[]]
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, text = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append(Instruction(name, text.strip()))
    return stages


def assignments(text: str) -> dict[str, str]:
    """What ENV or LABEL sets: NAME=value, or NAME="value with blanks"."""
    return {name: quoted or plain for name, quoted, plain in re.findall(r'(\S+?)=(?:"([^"]*)"|(\S+))', text)}


@dataclass
class Build:
    """A build stage under way. `folder` holds opt/, and base/, which is the Python of the base image with its pip."""

    folder: Path
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    directory: str = "/"

    def run(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            getattr(self, f"_{instruction.name.lower()}")(instruction.text)

    def start(self) -> None:
        (self.folder / "opt").mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", self.folder / "base"], check=True)

    def path(self, inside: str) -> Path:
        """Where a path of the image lies here."""
        assert inside.startswith("/opt/"), inside
        return self.folder / inside[1:]

    def _env(self, text: str) -> None:
        self.environment |= assignments(text)

    def _workdir(self, text: str) -> None:
        self.directory = text
        self.path(text).mkdir(parents=True, exist_ok=True)

    def _copy(self, text: str) -> None:
        *sources, last = text.split()
        target = self.path(self.directory) / last
        for source in (ROOT / name for name in sources):
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def _run(self, text: str) -> None:
        environment = self.environment | {
            "PATH": f"{self.folder / 'base' / 'bin'}:{self.environment['PATH']}",
            # Docker has its own way of downloading nothing twice.
            "PIP_NO_CACHE_DIR": "0",
        }
        command = text.replace("/opt/", f"{self.folder}/opt/")
        place = self.path(self.directory)
        done = subprocess.run(["sh", "-c", command], cwd=place, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def built(folder: Path) -> Path:
    """The build stage's /opt. What its first RUN makes, which takes 20 s, is kept in the cache, as Docker would."""
    _, stage, _ = read_stages()
    first = next(number for number, instruction in enumerate(stage) if instruction.name == "RUN") + 1
    layer, rest = stage[1:first], stage[first:]
    state = f"{sys.version} {layer}".encode()
    for lock in sorted((ROOT / "scripts" / "image").glob("*.lock")):
        state += lock.read_bytes()
    kept = cache_folder() / "image" / hashlib.sha256(state).hexdigest()[:16]
    with locked(kept.with_suffix(".lock"), Progress(), "another run of the same tests"):
        if not kept.exists():
            fresh = Build(kept.with_suffix(".new"))
            shutil.rmtree(fresh.folder, ignore_errors=True)
            fresh.start()
            fresh.run(layer)
            fresh.folder.rename(kept)
    shutil.copytree(kept, folder, symlinks=True, copy_function=_copy_quickly)
    build = Build(folder)
    build.run([instruction for instruction in layer if instruction.name in ("ENV", "WORKDIR")])
    build.run(rest)
    return folder / "opt"


def _copy_quickly(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
