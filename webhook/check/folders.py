"""Which texts the PATHs of `floorkeeper check` stand for.

A folder is every *.yaml, *.yml and *.json in it and below, hidden ones left out, with these exceptions:

- A folder with a kustomization that is given itself is what `kubectl apply -k` would apply, and nothing else in it.
- A folder with a kustomization that is found below another folder is rendered too, unless another one that is found
  refers to it: a base is judged as its overlays make it. No manifest in it or below it is read by itself.
- A Helm chart is not read: its templates are no manifests yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from webhook.check.kustomize import NAMES, Identity, identity_of, is_component, reach
from webhook.check.result import Fault, Place

_SUFFIXES = (".yaml", ".yml", ".json")
_CHART = "Chart.yaml"
_MOST_NAMED = 3
_STDIN: Identity = (-1, -1)


@dataclass(slots=True)
class Source:
    """A text to read: a file, what a folder's kustomization renders to, or stdin if it has no path."""

    path: Path | None
    is_kustomization: bool = False
    named: bool = False
    """It was given itself, so it must be what is to be checked."""


class Search:
    """Finds each source once, whatever paths and links lead to it."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.faults: list[Fault] = []
        self.notes: list[Fault] = []
        self._found: dict[Identity, Source] = {}
        self._seen: set[tuple[Identity, bool]] = set()
        for path in paths:
            self._given(path)
        self.sources = list(self._chosen())

    def _given(self, text: str) -> None:
        path = Path(text)
        identity = _STDIN if text == "-" else identity_of(path)
        known = self._found.get(identity) if identity else None
        if known:
            known.named = True
        elif text == "-":
            self._add(identity, Source(None, named=True))
        elif os.path.isdir(path):
            found, faults = len(self._found), len(self.faults)
            again = (identity_of(path), False) in self._seen
            self._folder(path, named=True)
            if not again and (found, faults) == (len(self._found), len(self.faults)):
                self._note(path, "holds no *.yaml, *.yml or *.json, so nothing in it is checked; check the path")
        elif path.name in NAMES and os.path.isfile(path):
            self._fault(path, f"is a kustomization; give the folder {path.parent} to have it rendered")
        else:
            self._file(path, named=True)

    def _folder(self, folder: Path, named: bool = False, inside: bool = False) -> None:
        """`inside` a folder with a kustomization only other kustomizations are of interest."""
        entries = self._entries(folder, inside)
        names = {entry.name for entry in entries}
        if names.intersection(NAMES):
            self._add(identity_of(folder), Source(folder, is_kustomization=True, named=named))
            if named:
                return
            inside = True
        elif _CHART in names:
            if not inside:
                render = f"render it and pipe it in: helm template {folder} | floorkeeper check -"
                self._fault(folder, f"is a Helm chart; {render}")
            return
        for entry in entries:
            if os.path.isdir(entry):
                self._folder(entry, inside=inside)
            elif entry.suffix in _SUFFIXES and not inside:
                self._file(entry)

    def _entries(self, folder: Path, inside: bool) -> list[Path]:
        """In order, without the hidden ones; none if the folder was there before."""
        identity = identity_of(folder)
        if identity is None or (identity, inside) in self._seen:
            return []
        self._seen.add((identity, inside))
        try:
            return _visible(folder)
        except OSError as error:
            self._fault(folder, f"cannot be read as a folder: {error.strerror}; check who may read it")
            return []

    def _file(self, path: Path, named: bool = False) -> None:
        if not named and not os.path.isfile(path):
            self._fault(path, "is a broken link or no regular file; remove it or mend it")
        else:
            self._add(identity_of(path), Source(path, named=named))

    def _add(self, identity: Identity | None, source: Source) -> None:
        if identity is None:
            self._fault(Path(source.path or "-"), "is not there, or may not be read; check the path")
            return
        first = self._found.setdefault(identity, source)
        first.named = first.named or source.named

    def _chosen(self) -> Iterator[Source]:
        """All but the kustomizations that are part of another one."""
        folders = {of: source.path for of, source in self._found.items() if source.path and source.is_kustomization}
        reached = {of: reach(folder) for of, folder in folders.items()}
        for of, source in self._found.items():
            if of in folders and not source.named:
                # Of two that refer to each other both stay: kustomize has something to say of them.
                if any(of in reached[other] and other not in reached[of] for other in folders if other != of):
                    continue
                if is_component(folders[of]):
                    self._note(folders[of], "is a component that no kustomization refers to, so it is not checked")
                    continue
            elif of in folders:
                self._tell_what_is_left(folders[of], reached[of])
            yield source

    def _tell_what_is_left(self, folder: Path, reached: dict[Identity, Path]) -> None:
        left = [str(path.relative_to(folder)) for path in _left(folder, reached)]
        if left:
            names = ", ".join(left[:_MOST_NAMED])
            more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
            are = "is" if len(left) == 1 else "are"
            text = f"its kustomization does not refer to {names}{more}, which {are} not checked"
            self._note(folder, f"{text}; give by name what is applied by itself")

    def _fault(self, path: Path, text: str) -> None:
        self.faults.append(Fault(Place(str(path)), text))

    def _note(self, path: Path, text: str) -> None:
        self.notes.append(Fault(Place(str(path)), text))


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _left(folder: Path, reached: dict[Identity, Path]) -> Iterator[Path]:
    """The manifests and kustomizations below a folder that are not `reached`. Links to folders are not followed."""
    for entry in _visible(folder):
        of = identity_of(entry)
        if os.path.isdir(entry):
            has_own = any(os.path.isfile(entry / name) for name in NAMES)
            if has_own and of not in reached:
                yield entry
            elif not entry.is_symlink():
                yield from _left(entry, reached)
        elif entry.suffix in _SUFFIXES and entry.name not in NAMES and of not in reached:
            yield entry
