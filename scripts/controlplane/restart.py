"""`scripts/cluster restart DIR NAME`: what an upgrade does to one part of a control plane."""

import time

from .cluster import PATIENCE_SECONDS, failure, launch
from .components import authority
from .health import is_healthy
from .layout import Layout, Record
from .process import Running, is_alive, stop
from .progress import ClusterError, Progress
from .signals import shielded

# kube-apiserver gives the requests that it holds up to a minute.
_GRACE_SECONDS = 75


def restart(layout: Layout, name: str, progress: Progress) -> None:
    """SIGTERM, wait, start with the same arguments, note the new pid, wait until it is ready."""
    try:
        with layout.locked(create=False):
            record = layout.read_record()
            former = _find(layout, record, name)
            assert record is not None
            if is_alive(former):
                progress.say(f"ending {name} (pid {former.pid})")
                if stop([former], _GRACE_SECONDS):
                    progress.say(f"killed {name}, which did not end within {_GRACE_SECONDS} s")
            with shielded():
                fresh = launch(layout, name, former.argv, former.health)
                record.processes[record.processes.index(former)] = fresh
                layout.write_record(record)
            progress.say(f"started {name} (pid {fresh.pid})")
            _wait(layout, fresh)
            progress.say(f"{name} is ready")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ClusterError(f"{layout.root} is not up: there is no such folder") from error


def _find(layout: Layout, record: Record | None, name: str) -> Running:
    if record is not None and record.external:
        raise ClusterError(f"{layout.root} stands for the cluster of {record.external}; nothing of it was started here")
    if record is None or not record.ready:
        raise ClusterError(f"{layout.root} is not up; start it with: scripts/cluster up {layout.root}")
    found = [process for process in record.processes if process.name == name]
    if not found:
        names = ", ".join(process.name for process in record.processes)
        raise ClusterError(f"{layout.root} has no {name!r}; it has {names}")
    return found[0]


def _wait(layout: Layout, process: Running) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.health and not is_healthy(process.health, authority(layout.private)):
        if not is_alive(process):
            raise failure(layout, process.name, "ended")
        if time.monotonic() > deadline:
            raise failure(layout, process.name, f"was not ready within {PATIENCE_SECONDS} s")
        time.sleep(0.05)
