"""How long `floorkeeper check` takes, and how much memory: `python -m benchmarks.check`.

Runs the command as CI does, a new process each time: on one manifest, on 1,000 Deployments in 100 files, and on ten
times as many objects as 2,000. A file is a team of ten models: two Namespaces, a ClusterQueue, ten LocalQueues and ten
Deployments of some 60 lines, each of which is patched. It is no test, and fails on nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import orjson
import yaml

from benchmarks.figures import machine, show_table
from benchmarks.fleet import GPU, Object, deployment, namespace_name
from tests.checking import cluster_queue, flavor, local_queue, namespace, node

_ROOT = Path(__file__).parents[1]
_MODELS = 10
"""In a file. Each asks for one GPU, and the floor of all of them is as many."""

_OBJECTS = 2 + 1 + 2 * _MODELS
"""In a file."""

_CHECK = ("-m", "webhook", "check", "-o", "json")


def team(number: int, files: int) -> Iterator[Object]:
    """The objects of one file. The Deployments have the API server's default strategy, which is patched."""
    models = range(number * _MODELS, (number + 1) * _MODELS)
    for name in sorted({namespace_name(model // 5) for model in models}):
        yield namespace(name)
    yield cluster_queue(f"team-{number}", _MODELS)
    for model in models:
        yield local_queue(f"queue-{model}", f"team-{number}", namespace_name(model // 5))
    for model in models:
        found = deployment(model, files * _MODELS)
        del found["spec"]["strategy"], found["status"]
        found["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {GPU: 1}, "limits": {GPU: 1}}
        yield found


def write(folder: Path, files: int) -> None:
    folder.mkdir()
    hardware = [flavor(), node("all", files * _MODELS)]
    for name, objects in (("hardware", hardware), *((f"team-{each}", team(each, files)) for each in range(files))):
        # As hand-written manifests look: without references to what is in a file twice.
        texts = (yaml.safe_dump(value, sort_keys=False) for value in map(_apart, objects))
        (folder / f"{name}.yaml").write_text("---\n".join(texts))


def _apart(value: Object) -> Object:
    copied: Object = orjson.loads(orjson.dumps(value))
    return copied


@dataclass(frozen=True, slots=True)
class Process:
    """What a process took: seconds on the clock and on the processor, and MiB of memory at the most."""

    wall: float
    cpu: float
    peak: float
    printed: bytes


def ran(cache: Path, *words: str) -> Process:
    """Bytecode is kept in `cache`. Raises RuntimeError if the exit code is not 0."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache), "PYTHONDONTWRITEBYTECODE": ""}
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, *words], cwd=_ROOT, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if process.returncode:
        raise RuntimeError(f"{words}: exit code {process.returncode}: {printed[:500].decode()}")
    return Process(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, printed)


def composed(folder: Path) -> float:
    """Seconds that it takes at least: the same files composed by libyaml, in this process."""
    began = time.perf_counter()
    for path in folder.iterdir():
        with path.open("rb") as file:
            for _ in yaml.compose_all(file, yaml.CSafeLoader):
                pass
    return time.perf_counter() - began


def show_cold(runs: int, folder: Path) -> None:
    """One manifest, which is judged in full, against an interpreter that does nothing at all."""
    manifest = folder / "manifest.yaml"
    manifest.write_text(yaml.safe_dump(_apart(next(value for value in team(0, 1) if value["kind"] == "Deployment"))))
    cache = folder / "bytecode"
    ran(cache, *_CHECK, "--managed", str(manifest))
    rows, least = [], 0.0
    for what, words in (("python -c pass", ("-c", "pass")), ("one manifest", (*_CHECK, "--managed", str(manifest)))):
        taken = [ran(cache, *words).wall for _ in range(runs)]
        least = least or min(taken)
        cells = (f"{min(taken) * 1e3:.0f}", f"{median(taken) * 1e3:.0f}", f"{min(taken) / least:.1f}")
        rows.append((what, *cells))
    show_table(("ms, cold", "best", "median", "x python"), rows)


def show_many(runs: int, sizes: Sequence[int], folder: Path) -> None:
    """Folders of so many files. The ratio of the last to the one before is what tells whether it is linear."""
    rows, found = [], []
    for files in sizes:
        inputs = folder / str(files)
        write(inputs, files)
        processes = [ran(folder / "bytecode", *_CHECK, str(inputs)) for _ in range(runs)]
        summary = orjson.loads(processes[0].printed)["summary"]
        walls = [process.wall for process in processes]
        least = min(composed(inputs) for _ in range(runs))
        found.append((summary["objects"], min(process.cpu for process in processes)))
        rows.append(
            (
                f"{files:,} files, {files * _MODELS:,} Deployments",
                *(f"{summary[name]:,}" for name in ("objects", "patches", "denials")),
                *(f"{seconds:.2f}" for seconds in (min(walls), median(walls), found[-1][1])),
                f"{min(walls) / least:.1f}",
                f"{max(process.peak for process in processes):.0f}",
            )
        )
    head = ("folder", "objects", "patches", "denials", "best s", "median s", "cpu s", "x compose", "peak MiB")
    show_table(head, rows)
    (fewer, before), (more, after) = found[-2:]
    print(f"{more / fewer:.1f} times the objects take {after / before:.1f} times as long on the processor")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=100, help="of ten Deployments; default: %(default)s")
    parser.add_argument("--objects", type=int, default=20000, help="at the most; default: %(default)s")
    parser.add_argument("--runs", type=int, default=3, help="on each folder; default: %(default)s")
    parser.add_argument("--cold-runs", type=int, default=10, help="on one manifest; default: %(default)s")
    given = parser.parse_args(words)
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        show_cold(given.cold_runs, Path(directory))
        most = max(1, given.objects // _OBJECTS)
        print(flush=True)
        show_many(given.runs, (given.files, max(1, most // 10), most), Path(directory))


if __name__ == "__main__":
    main()
