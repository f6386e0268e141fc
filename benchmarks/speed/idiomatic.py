"""The webhook in Go that is measured beside ours, built once into the cache outside the repository."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from scripts.controlplane.build import go_environment
from scripts.controlplane.cache import cache_folder, locked
from scripts.controlplane.progress import ClusterError, Progress
from scripts.controlplane.toolchain import find_go

FOLDER = Path(__file__).with_name("go")
_BUILD_SECONDS = 1800.0


def built(progress: Progress) -> Path:
    """Its path; a change of a source file or of a pin builds it anew. Raises ClusterError."""
    digest = hashlib.sha256()
    for file in sorted(FOLDER.iterdir()):
        digest.update(f"\n{file.name}\n".encode() + file.read_bytes())
    folder = cache_folder() / "speed" / digest.hexdigest()[:16]
    program = folder / "idiomatic"
    with locked(folder / "lock", progress, "a build"):
        if not program.exists():
            _build(find_go(progress), program, progress)
    return program


def _build(go: Path, program: Path, progress: Progress) -> None:
    progress.say(f"building {program} (the first time this takes minutes)")
    fresh = program.with_suffix(".new")
    command = [str(go), "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(fresh), "."]
    answer = subprocess.run(
        command, cwd=FOLDER, env=go_environment(), capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
    )
    if answer.returncode != 0:
        raise ClusterError(f"building {program.name} failed: {answer.stderr.strip()[-2000:]}")
    fresh.replace(program)
