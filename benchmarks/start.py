"""From start to ready on a full cluster, the memory it takes, and what heartbeats cost: `python -m benchmarks.start`.

Starts a control plane by scripts/cluster (etcd and kube-apiserver, nothing else), fills it, and then starts
`floorkeeper serve` on it with the rights of the shipped ServiceAccount, some times over. No controller runs, so the
objects stay as they were written. It needs Linux, a minute or two to fill the API server, and 3 GB of memory. It is no
test, and fails on nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import httpx
import yaml

from benchmarks.figures import machine, show_table
from benchmarks.filling import Connection, create, listed
from benchmarks.fleet import Fleet, ready
from benchmarks.reviews import show_reviews
from tests.cluster.controlplane import Cluster
from tests.cluster.server import account_kubeconfig, manifests
from tests.serving import Serving

_ROOT = Path(__file__).parents[1]
_LEFT_OUT = "kueue,scheduler,controller-manager,kwok"
_MARK = "/api/v1/namespaces/kube-system/configmaps"
_TICKS = os.sysconf("SC_CLK_TCK")
_LONGEST_START = 120.0
_IDLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has taken so far: seconds on the processor; MiB now, and at the most."""

    cpu: float
    resident: float
    peak: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines if ":" in line)
        # The name of the command, in parentheses, may itself hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        resident, peak = (int(status[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
        return cls((int(fields[11]) + int(fields[12])) / _TICKS, resident, peak)


@contextmanager
def control_plane(place: Path, keep: bool) -> Iterator[Cluster]:
    """What scripts/cluster starts; if it is to be kept, one that is up already is used."""
    script = [sys.executable, str(_ROOT / "scripts" / "cluster")]
    # Without KUBECONFIG: thousands of objects are for no cluster of somebody's.
    environment = {name: text for name, text in os.environ.items() if name != "KUBECONFIG"}
    command = [*script, "up", str(place), "--nodes", "0", "--without", _LEFT_OUT]
    subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=True)
    try:
        yield Cluster(place / "kubeconfig", str(place / "cluster" / "bin" / "kubectl"))
    finally:
        if not keep:
            subprocess.run([*script, "down", str(place)], check=True)


def fill(cluster: Cluster, fleet: Fleet) -> None:
    """Creates the fleet, unless the same one was created before."""
    if Connection(cluster.kubeconfig).get(f"{_MARK}/benchmark") is None:
        for kind, values in fleet.objects().items():
            began = time.monotonic()
            count = create(cluster.kubeconfig, values)
            seconds = time.monotonic() - began
            print(f"created {count:,} {kind} in {seconds:.1f} s", file=sys.stderr, flush=True)
        metadata = {"name": "benchmark", "namespace": "kube-system"}
        value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"fleet": str(fleet)}}
        # Another connection each time: the API server closes one that is idle for 90 s.
        Connection(cluster.kubeconfig).ask("POST", _MARK, value)
    found = Connection(cluster.kubeconfig).get(f"{_MARK}/benchmark")["data"]["fleet"]
    if found != str(fleet):
        raise SystemExit(f"the control plane holds another fleet, {found}; give the same sizes, or another --cluster")


def show_held(cluster: Cluster, fleet: Fleet) -> float:
    """What the API server holds, and the seconds that it takes to read all of it one after the other."""
    connection, rows = Connection(cluster.kubeconfig), []
    total = 0.0
    for kind in fleet.objects():
        began = time.monotonic()
        count, size = listed(connection, kind)
        seconds = time.monotonic() - began
        total += seconds
        rows.append((kind, f"{count:,}", f"{size / 2**20:.1f}", f"{seconds:.2f}"))
    show_table(("held by the API server", "objects", "MiB as JSON", "s to read"), rows)
    return total


def account(cluster: Cluster, place: Path) -> Path:
    """A kubeconfig with the rights of the shipped ServiceAccount. Its webhooks are not registered."""
    cluster.apply(*(value for value in manifests(cluster, "localhost", 443) if "webhooks" not in value))
    kubeconfig = place / "cluster" / "account.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(account_kubeconfig(cluster)))
    return kubeconfig


class Started:
    """`floorkeeper serve`, from its start to ready."""

    def __init__(self, kubeconfig: Path) -> None:
        began = time.monotonic()
        self.server = Serving("--kubeconfig", str(kubeconfig))
        self.serving = time.monotonic() - began
        try:
            with self.server.client() as client:
                while not self._is_ready(client) and time.monotonic() < began + _LONGEST_START:
                    time.sleep(0.05)
                self.ready = time.monotonic() - began
                self.report = client.get("/readyz").json()
        except BaseException:
            self.server.end()
            raise
        self.usage = self.use()

    @staticmethod
    def _is_ready(client: httpx.Client) -> bool:
        return client.get("/readyz").status_code == 200

    def use(self) -> Usage:
        return Usage.of(self.server.process.pid)

    @property
    def unknown(self) -> list[str]:
        """Kinds that it could not read, with the reason."""
        return [f"{kind}: {state['detail']}" for kind, state in self.report["facts"].items() if not state["known"]]


def beat(cluster: Cluster, fleet: Fleet, rate: float, seconds: float) -> int:
    """Heartbeats of the nodes, one after the other, as a kubelet without news writes them; how many there were."""
    connection = Connection(cluster.kubeconfig)
    began, count = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        patch = {"status": {"conditions": [ready(True, now)]}}
        path = f"/api/v1/nodes/node-{count % fleet.nodes}/status"
        code, body = connection.ask("PATCH", path, patch, **{"Content-Type": "application/strategic-merge-patch+json"})
        if code != 200:
            raise RuntimeError(f"PATCH {path}: {code} {body[:500].decode()}")
        count += 1
        time.sleep(max(0.0, began + count / rate - time.monotonic()))
    return count


def show_heartbeats(started: Started, cluster: Cluster, fleet: Fleet, rate: float, seconds: float) -> None:
    """Beside what the process takes when nothing happens."""
    before = started.use()
    time.sleep(_IDLE_SECONDS)
    idle = (started.use().cpu - before.cpu) / _IDLE_SECONDS
    before, began = started.use(), time.monotonic()
    count = beat(cluster, fleet, rate, seconds)
    took = time.monotonic() - began
    after = started.use()
    cpu = after.cpu - before.cpu
    each = (cpu - idle * took) / max(1, count)
    print(
        f"\n{count:,} heartbeats in {took:.0f} s: {cpu / took:.1%} of one core (idle {idle:.1%}), {each * 1e3:.2f} ms "
        f"each with TLS, HTTP and JSON; resident {before.resident:.0f} MiB before, {after.resident:.0f} MiB after"
    )


def measure(place: Path, keep: bool, fleet: Fleet, runs: int, rate: float, seconds: float) -> None:
    with control_plane(place, keep) as cluster:
        fill(cluster, fleet)
        reading = show_held(cluster, fleet)
        kubeconfig = account(cluster, place)
        starts = []
        for run in range(runs):
            started = Started(kubeconfig)
            try:
                starts.append(started)
                if run == runs - 1:
                    show_starts(starts, reading)
                    if rate:
                        show_heartbeats(started, cluster, fleet, rate, seconds)
                    show_reviews(started.server, Connection(cluster.kubeconfig), fleet)
            finally:
                started.server.end()


def show_starts(starts: Sequence[Started], reading: float) -> None:
    print()
    rows = [
        (what, *(f"{each:.1f}" for each in (min(taken), median(taken), max(taken))))
        for what, taken in (
            ("s from start to serving", [each.serving for each in starts]),
            ("s from start to ready", [each.ready for each in starts]),
            ("s on the processor until ready", [each.usage.cpu for each in starts]),
            ("MiB resident when ready", [each.usage.resident for each in starts]),
            ("MiB resident at the most", [each.usage.peak for each in starts]),
        )
    ]
    show_table((f"{len(starts)} starts", "least", "median", "most"), rows)
    ratio = median(each.ready for each in starts) / reading
    print(f"ready in {ratio:.2f} times the seconds that it takes to read all objects once, whole, and throw them away")
    last = starts[-1]
    print(f"watched: {', '.join(sorted(last.report['facts']))}")
    print(f"ready: {last.report['ready']}; unknown: {'; '.join(last.unknown) or 'nothing'}")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.start",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="50 Cohorts on three levels and 40 ResourceFlavors, of which ten share nodes, are there at any size.",
    )
    size = Fleet()
    for name, what in (
        ("nodes", "Nodes, of 12 kB each"),
        ("queues", "ClusterQueues, and as many LocalQueues, five in a namespace"),
        ("workloads", "Deployments in a queue, and as many pods of theirs"),
        ("unqueued", "pods without a queue, as DaemonSets make them"),
    ):
        parser.add_argument(f"--{name}", type=int, default=getattr(size, name), help=f"{what}; default: %(default)s")
    parser.add_argument("--runs", type=int, default=3, help="starts; default: %(default)s")
    parser.add_argument("--rate", type=float, default=50, help="heartbeats in a second, 0: none; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=60, help="of heartbeats; default: %(default)s")
    parser.add_argument("--cluster", type=Path, metavar="DIR", help="keep the filled control plane here, to run again")
    given = parser.parse_args(words)
    fleet = Fleet(given.nodes, given.queues, given.workloads, given.unqueued)
    print(machine(), flush=True)
    if given.cluster is not None:
        measure(given.cluster.absolute(), True, fleet, given.runs, given.rate, given.seconds)
        return
    with tempfile.TemporaryDirectory() as directory:
        measure(Path(directory) / "cluster", False, fleet, given.runs, given.rate, given.seconds)


if __name__ == "__main__":
    main()
