"""The file that a report goes to, whatever is there."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path


def is_stdout(file: Path) -> bool:
    """Whether it is by another name, such as /dev/stdout, where our stdout goes."""
    try:
        return os.path.samestat(file.stat(), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):
        return False


def write(file: Path, data: bytes) -> None:
    """A plain file whole or not at all, by way of symbolic links; a pipe or a device as it is. Raises OSError."""
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with file.open("wb", buffering=0) as pipe:
            rest = memoryview(data)
            while rest:
                rest = rest[pipe.write(rest) :]
        return
    # A reader, such as a CI job that collects it, never sees half of it.
    target = file.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        if mode is not None:
            beside.chmod(stat.S_IMODE(mode))
        beside.replace(target)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
