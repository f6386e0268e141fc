"""Where builds are kept between runs, outside the repository, and how two runs share them without harm."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from .progress import Progress


def cache_folder() -> Path:
    """FLOORKEEPER_CACHE, else floorkeeper below XDG_CACHE_HOME, else below ~/.cache."""
    own = os.environ.get("FLOORKEEPER_CACHE")
    if own:
        return Path(own).absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).absolute() if shared else Path.home() / ".cache") / "floorkeeper"


@contextlib.contextmanager
def locked(path: Path, progress: Progress, doing: str) -> Iterator[None]:
    """One process at a time; says so when it has to wait. `doing` names what the other one does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"waiting for {doing} by another process (lock: {path})")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
