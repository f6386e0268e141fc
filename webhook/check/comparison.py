"""What the objects of the input were before: in a folder, or in a revision of their git repository."""

from __future__ import annotations

import io
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from webhook.check.inputs import read_inputs
from webhook.check.options import Options
from webhook.check.result import Fault
from webhook.check.state import COMMAND_LINE, Key, Unusable, item_of
from webhook.kube.kinds import Kinds
from webhook.kube.objects import Object

_SECONDS = 60.0  # that git may take for one command
_MOST_FILES = 50_000
_LARGEST = 512 * 2**20
"""Bytes of all files that are read from a revision."""

_STDIN = "-"
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_SUFFIXES = (".yaml", ".yml", ".json")
_REGULAR = ("100644", "100755")


def old_objects(options: Options, kinds: Kinds) -> tuple[dict[Key, Object], list[Fault]]:
    """The objects as they were, and what of that cannot be read: what it held is then judged as new.

    Nothing is written but to a temporary folder. Raises Unusable.
    """
    against, paths = options.diff_against, options.paths
    if Path(against).is_dir():
        return _objects([against], options.namespace, "", kinds)
    if _STDIN in paths:
        raise _unusable("stdin has no revisions; give a folder to compare it with, or files")
    with tempfile.TemporaryDirectory(prefix="floorkeeper-") as folder:
        return _objects(list(_checked_out(against, paths, Path(folder))), options.namespace, folder, kinds)


def _objects(paths: list[str], namespace: str, folder: str, kinds: Kinds) -> tuple[dict[Key, Object], list[Fault]]:
    """`folder` is one that nobody knows, so its name is left out of what is said."""
    if not paths:
        return {}, []
    inputs = read_inputs(paths, io.BytesIO())
    found: dict[Key, Object] = {}
    for document in inputs.documents:
        item = item_of(document, namespace, kinds)
        if item.kind is not None and item.key[3]:
            found[item.key] = item.value
    return found, [_shown(fault, folder) for fault in inputs.faults]


def _shown(fault: Fault, folder: str) -> Fault:
    name = fault.place.file.removeprefix(f"{folder}/") if folder else fault.place.file
    text = f"was not compared with what it was before: {fault.message}"
    return Fault(replace(fault.place, file=name), text)


def _unusable(text: str) -> Unusable:
    return Unusable([Fault(COMMAND_LINE, f"--diff-against: {text}")])


# Git


def _checked_out(revision: str, paths: Sequence[str], folder: Path) -> Iterator[str]:
    """Writes what the paths held in a revision below the folder, and gives the paths there, as far as there are any."""
    first = Path(paths[0])
    home = first if first.is_dir() else first.parent
    top = Path(_git(home, "rev-parse", "--show-toplevel").decode().removesuffix("\n"))
    commit = _commit(top, revision)
    places = [_below(top, path) for path in paths]
    # The bases of a kustomization can be anywhere.
    whole = any((Path(path) / name).is_file() for path in paths for name in _KUSTOMIZATIONS)
    _write(top, _blobs(top, commit, [] if whole or "." in places else places, whole), folder)
    yield from (str(folder / place) for place in places if (folder / place).exists())


def _commit(top: Path, revision: str) -> str:
    try:
        found = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except Unusable:
        raise _unusable(f"{revision}: is neither a folder nor a git revision of {top}; correct it") from None
    return found.decode().strip()


def _below(top: Path, path: str) -> str:
    try:
        return str(Path(os.path.realpath(path)).relative_to(os.path.realpath(top)))
    except ValueError:
        raise _unusable(f"{path}: is not in the git repository {top}; check one repository at a time") from None


def _blobs(top: Path, commit: str, places: list[str], whole: bool) -> list[tuple[str, str]]:
    """Object id and path of the files that matter: manifests and, for a kustomization, whatever it may refer to."""
    tree = _git(top, "ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--", *places)
    found = []
    size = 0
    for entry in tree.decode(errors="surrogateescape").split("\0"):
        about, _, path = entry.partition("\t")
        mode, _, identity, length = (about.split() + [""] * 4)[:4]
        if mode in _REGULAR and (whole or path.endswith(_SUFFIXES)) and ".." not in path.split("/"):
            found.append((identity, path))
            size += int(length)
    if len(found) > _MOST_FILES or size > _LARGEST:
        raise _unusable(f"holds more than {_MOST_FILES:,} files or {_LARGEST // 2**20} MiB; give narrower paths")
    return found


def _write(top: Path, blobs: list[tuple[str, str]], folder: Path) -> None:
    """Each blob at its path below the folder."""
    contents = io.BytesIO(_git(top, "cat-file", "--batch", given="".join(f"{identity}\n" for identity, _ in blobs)))
    for _, path in blobs:
        length = int(contents.readline().split()[2])
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(contents.read(length))
        contents.read(1)


def _git(home: Path, *words: str, given: str = "") -> bytes:
    """What git prints. Raises Unusable."""
    command = ["git", "-C", str(home), *words]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    # A path may begin with a colon.
    environment["GIT_LITERAL_PATHSPECS"] = "1"
    try:
        done = subprocess.run(  # noqa: S603  (no shell; the words are ours, a checked revision and paths behind --)
            command, input=given.encode(), capture_output=True, timeout=_SECONDS, env=environment, check=False
        )
    except FileNotFoundError:
        raise _unusable("git is not installed; install it, or give a folder") from None
    except subprocess.TimeoutExpired:
        raise _unusable(f"git {words[0]} took longer than {_SECONDS:.0f} s; give a folder instead") from None
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split()) or f"exit code {done.returncode}"
        raise _unusable(f"git {words[0]}: {said}; correct it, or give a folder that is there")
    return done.stdout
