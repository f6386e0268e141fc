"""Two raises at once of which one fits, again and again, on a real control plane: `python -m benchmarks.races`.

Starts a control plane (or takes the one that KUBECONFIG names, if that is there for tests) and two `floorkeeper serve`
processes behind one address. Now and then the one that has promised a floor is killed before its answer arrives.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.cluster.api import proxied
from tests.cluster.controlplane import running_cluster
from tests.cluster.floor_race import run_rounds
from tests.cluster.replicas import EXPIRY, two_replicas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with (
            running_cluster(place) as cluster,
            proxied(cluster) as api,
            two_replicas(cluster, api, place) as replicas,
        ):
            began = time.perf_counter()
            tally = run_rounds(replicas, given.rounds, given.kills)
            seconds = time.perf_counter() - began
    print(f"rounds                       {tally.rounds:8d}   in {seconds:.0f} s")
    print(f"both stored                  {tally.both:8d}   must be 0")
    print(f"one stored                   {tally.one:8d}")
    print(f"neither stored at once       {tally.neither:8d}   at most {given.kills}, one for each kill")
    print(f"replicas killed              {tally.killed:8d}   between promise and storing")
    print(f"longest time with neither    {tally.longest_neither:8.1f} s, where a promise holds {EXPIRY:g} s")
    print(f"judged again after conflicts {tally.retries:8d}")
    _print("a raise that is stored", tally.seconds)
    _print("a write that raises nothing", tally.lowering)


def _print(what: str, seconds: list[float]) -> None:
    ordered = sorted(each * 1e3 for each in seconds)
    p50, p99 = (ordered[len(ordered) * share // 100] for share in (50, 99))
    print(f"{what:28s} {p50:8.1f} ms p50  {p99:8.1f} ms p99, of {len(ordered)}; a GET and a PUT by kubectl proxy")


if __name__ == "__main__":
    main()
