"""The Go modules that pin every download by hash, and how to find out what they pin."""

import re
from pathlib import Path

from .progress import ClusterError

FOLDER = Path(__file__).with_name("modules")
# Each is a main module of its own: together their requirements move one another's versions and stop compiling.
MODULES = ("kubernetes", "etcd", "kueue", "kwok")
# Built only for those who ask, and cached apart, so that a change of one of these builds nothing else anew.
ON_DEMAND = ("cert-manager",)


def read_go_version(module: str) -> tuple[int, ...]:
    """The Go version that the module's go.mod asks for."""
    return tuple(int(part) for part in _find(module, r"^go (\d+\.\d+(?:\.\d+)?)$").split("."))


def read_pin(module: str, path: str) -> str:
    """The version of a required module, such as v1.36.3."""
    return _find(module, rf"^\s*(?:require )?{re.escape(path)} (v\S+)")


def _find(module: str, pattern: str) -> str:
    file = FOLDER / module / "go.mod"
    match = re.search(pattern, file.read_text(), re.MULTILINE)
    if match is None:
        raise ClusterError(f"{file}: no line matches {pattern!r}")
    return match[1]
