"""A folder of manifests that stands for a cluster: the source of `serve --state`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from webhook.kube.facts import CLUSTER_SCOPED, GROUPS, PROJECTIONS, SEEN_AS, Fact
from webhook.kube.kueue_facts import KueueConfigurationFact
from webhook.kube.names import KUEUE_CONFIG_MAP
from webhook.kube.objects import group, mapping
from webhook.kube.snapshot import Snapshot
from webhook.sources.documents import Document, documents_of, position, read_file
from webhook.sources.kueue_configuration import with_configuration
from webhook.sources.nodes import Problem
from webhook.sources.source import Event, KindState, SourceError

_log = logging.getLogger("floorkeeper.manifests")

_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_NOTES = 20
_DEFAULT_NAMESPACE = "default"
"""Where kubectl puts a namespaced object that names no namespace."""


class ManifestSource:
    """Every kind is known once the folder is read: nothing else is in this cluster. It is read at the start only."""

    ledger = None

    def __init__(self, directory: Path) -> None:
        self.snapshot = Snapshot(unknown=f"{directory} is not read yet")
        self._directory = directory

    async def start(self) -> None:
        """Reads the whole folder. Raises SourceError with every problem of every file, a line each."""
        facts, notes = await asyncio.to_thread(read_facts, self._directory)
        for note in notes[:_MOST_NOTES]:
            _log.warning("not part of the cluster", extra={"fields": {"problem": note}})
        for kind in PROJECTIONS:
            self.snapshot.replace(kind, facts[kind])

    async def stop(self) -> None:
        pass

    def states(self) -> Mapping[str, KindState]:
        unknown = self.snapshot.unknown()
        return {kind: KindState(kind not in unknown, 0.0, unknown.get(kind, "")) for kind in PROJECTIONS}

    async def settle(self) -> None:
        pass

    async def confirm(self, kinds: frozenset[str], namespace: str) -> bool:  # noqa: ARG002
        return False

    def tell(self, events: Sequence[Event]) -> None:
        """Nowhere: the log has it."""


def read_facts(directory: Path) -> tuple[dict[str, list[Fact]], list[str]]:
    """The facts of each kind of PROJECTIONS that the manifests below a folder describe, and what was passed over.

    A kustomization, a Helm values file and the like are passed over, and so is a folder without any manifest: it is an
    empty cluster. Raises SourceError for what was meant to be a manifest and cannot be read.
    Where two objects are the same (group, kind, namespace and name), the later one counts: files go by their path,
    sorted, and objects by their place in the file.
    """
    found: dict[tuple[str, str, str], Fact | None] = {}
    problems: list[Problem] = []
    paths = list(list_manifests(directory, problems))
    for path in paths:
        for document in documents_of(read_file(path, problems), str(path), problems):
            _project(document, found, problems)
    if not found and not problems:
        what = f"describes a {', '.join(PROJECTIONS)}" if paths else "(*.yaml, *.yml, *.json) is in it"
        empty = f"no manifest {what}, so nothing is managed; put those that stand for the cluster there"
        problems.append(_whole(directory, empty, foreign=True))
    wrong = sorted(problem for problem in problems if not problem.foreign)
    if wrong:
        raise SourceError("\n".join(map(str, wrong)))
    facts: dict[str, list[Fact]] = {kind: [] for kind in PROJECTIONS}
    for (kind, _, _), fact in found.items():
        if fact is not None:
            facts[kind].append(fact)
    # Where no input says how Kueue is set up, it is as Kueue comes.
    facts["ConfigMap"] = facts["ConfigMap"] or [KueueConfigurationFact()]
    return facts, [str(problem) for problem in sorted(problems)]


def _project(document: Document, found: dict[tuple[str, str, str], Fact | None], problems: list[Problem]) -> None:
    """Adds an object's fact under (kind, namespace, name); None where it holds nothing to compare with."""
    value = document.value
    kind, of = value["kind"], group(value["apiVersion"])
    if kind == "Kustomization" and of == "kustomize.config.k8s.io":
        text = "is a kustomization; render it with `kubectl kustomize`, and put that here"
        problems.append(_at(document, (), text, foreign=True))
        return
    kinds = [seen for seen in SEEN_AS.get(kind, (kind,)) if GROUPS.get(seen) == of]
    if not kinds:
        return
    given = mapping(value.get("metadata"))
    if kind == "ConfigMap" and given.get("name") != KUEUE_CONFIG_MAP:
        return
    strings = True
    for field in ("name", "namespace"):
        if given.get(field) is not None and not isinstance(given[field], str):
            problems.append(_at(document, ("metadata", field), f"metadata.{field} must be a string; quote it"))
            strings = False
    if strings and not given.get("name"):
        problems.append(_at(document, ("metadata", "name"), f"{kind} without metadata.name; write its name"))
        strings = False
    if not strings:
        return
    namespace = "" if kind in CLUSTER_SCOPED else given.get("namespace") or _DEFAULT_NAMESPACE
    whole = with_configuration({**value, "metadata": {**given, "namespace": namespace}})
    for seen in kinds:
        found[seen, namespace, given["name"]] = PROJECTIONS[seen](whole)


def _at(document: Document, path: tuple[str, ...], text: str, foreign: bool = False) -> Problem:
    return Problem(document.file, *position(document, path), text, foreign)


def _whole(path: Path, text: str, foreign: bool = False) -> Problem:
    return Problem(str(path), 0, 0, text, foreign)


def list_manifests(directory: Path, problems: list[Problem]) -> Iterator[Path]:
    """The manifest files below a folder, name by name in order; what cannot be read is noted in `problems`.

    Hidden files and folders are left out, which are those of a mounted ConfigMap too (`..data`). Links are followed,
    and a folder that several lead to, or that holds a link to itself, is read once.
    """
    yield from _walk(directory, set(), problems)


def _walk(folder: Path, seen: set[tuple[int, int]], problems: list[Problem]) -> Iterator[Path]:
    try:
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        entries = sorted(folder.iterdir())
    except FileNotFoundError:
        problems.append(_whole(folder, "no such folder; check the path"))
        return
    except OSError as error:
        problems.append(_whole(folder, f"cannot be read as a folder: {error.strerror}; check the path"))
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry, seen, problems)
        elif entry.suffix in _SUFFIXES:
            if entry.is_file():
                yield entry
            else:
                problems.append(_whole(entry, "is a broken link or no regular file; remove it or mend it"))
