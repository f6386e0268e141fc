"""The folder of one cluster: what lies where, what is recorded there, and who may change it."""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .process import Running, read_boot_id
from .progress import ClusterError


@dataclass
class Record:
    """What `up` notes while it works, so that `down` can undo it even after `up` was killed."""

    processes: list[Running] = field(default_factory=list)
    # Folders that `up` created on the way to DIR, outermost first.
    created: list[str] = field(default_factory=list)
    # The caller's own kubeconfig, when `up` found one and started nothing.
    external: str | None = None
    ready: bool = False


@contextlib.contextmanager
def open_folder(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def is_same_folder(handle: int, path: Path) -> bool:
    """Whether the open folder is still the one that the path names."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


@dataclass(frozen=True)
class Layout:
    """DIR holds kubeconfig, env and logs/ for the user, and cluster/ for everything that only we read."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def env(self) -> Path:
        return self.root / "env"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def private(self) -> Path:
        return self.root / "cluster"

    @property
    def bin(self) -> Path:
        return self.private / "bin"

    @property
    def record(self) -> Path:
        return self.private / "record.json"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def create(self) -> list[str]:
        """Make DIR and the folders below it; the folders up to DIR that were not there before are returned."""
        created = [str(folder) for folder in (self.root, *self.root.parents) if not folder.exists()]
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"cannot make the folder {self.root}: {error.strerror}; name another one") from error
        return created[::-1]

    def refuse_foreign_files(self) -> None:
        """`down` removes what lies under our names, so they must not be somebody else's to begin with."""
        if self.private.exists():
            return
        taken = [path.name for path in (self.kubeconfig, self.env) if path.exists()]
        if taken:
            raise ClusterError(
                f"{self.root} already holds {' and '.join(taken)}, which did not come from here; "
                "name an empty folder, or one that does not exist yet"
            )

    def read_record(self) -> Record | None:
        """The record of the cluster in DIR; None when there is none."""
        try:
            data: dict[str, Any] = json.loads(self.record.read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ClusterError(
                f"{self.record} is damaged ({error}); stop its processes by hand, then remove {self.root}"
            ) from error
        # After a reboot every recorded pid means another process, or none.
        same_boot = data["boot"] == read_boot_id()
        processes = [Running(**process) for process in data["processes"]] if same_boot else []
        return Record(processes, data["created"], data["external"], data["ready"] and same_boot)

    def write_record(self, record: Record) -> None:
        """Replace the record in one step: a reader sees the old one or the new one, never half of it."""
        data = {
            "boot": read_boot_id(),
            "processes": [vars(process) for process in record.processes],
            "created": record.created,
            "external": record.external,
            "ready": record.ready,
        }
        self.private.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.record.with_suffix(".new")
        fresh.write_text(json.dumps(data, indent=1) + "\n")
        fresh.replace(self.record)

    def remove(self, created: list[str], keep_logs: bool = False) -> None:
        """Remove what `up` made; DIR and its parents only if `up` made them and nothing else is in them.

        With keep_logs the logs stay, and the record too, so that a later `up` or `down` removes them.
        """
        self.kubeconfig.unlink(missing_ok=True)
        self.env.unlink(missing_ok=True)
        if not keep_logs:
            shutil.rmtree(self.logs, ignore_errors=True)
            shutil.rmtree(self.private)
            self.remove_folders(created)
            return
        for path in self.private.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path != self.record:
                path.unlink()

    def remove_folders(self, created: list[str]) -> None:
        """Remove the given folders, innermost first, as far as they are empty."""
        for folder in reversed(created):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()

    @contextlib.contextmanager
    def locked(self, create: bool) -> Iterator[list[str]]:
        """Keep every other `up` and `down` of this DIR out; yields the folders that had to be created.

        Raises FileNotFoundError if there is no DIR and it is not to be created. The lock is on the folder itself, so
        no lock file is left behind. Whoever waited must look again whether the folder is still the one on disk, since
        a `down` may have removed it meanwhile.
        """
        while True:
            created = self.create() if create else []
            with open_folder(self.root) as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX)
                except BaseException:
                    self.remove_folders(created)
                    raise
                if is_same_folder(handle, self.root):
                    yield created
                    return
