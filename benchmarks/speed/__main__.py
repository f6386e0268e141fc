"""Floorkeeper's speed beside that of other servers, on this machine: `benchmarks/run [SECTION …]`.

  direct   CPU, latency and rate of a mutating review, a validating one, and one of what is left alone
  through  the same through a real kube-apiserver, beside no hook and beside policies inside it
  large    an object of 1 MiB, and small reviews beside it
  memory   seconds from start to ready, resident memory, and its growth over many reviews
  scale    a review's cost beside 10 and 5,000 nodes, queues and namespaces

Without a section, all of them. Servers take turns, round by round. It fails on nothing: goals are met or not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.speed.direct import direct
from benchmarks.speed.field import Place
from benchmarks.speed.large import large
from benchmarks.speed.memory import memory
from benchmarks.speed.options import QUICK, Options
from benchmarks.speed.report import Report
from benchmarks.speed.scale import scale
from benchmarks.speed.through import through
from scripts.controlplane.progress import ClusterError

SECTIONS: Mapping[str, Callable[[Place, Options, Report], None]] = {
    "direct": direct,
    "through": through,
    "large": large,
    "memory": memory,
    "scale": scale,
}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="a look in under 2 minutes, with one round of 1 s")
    for name, what in (
        ("rounds", "of each measurement"),
        ("seconds", "of one run"),
        ("reviews", "while the memory is looked at; the issue asks for 1000000"),
    ):
        default = getattr(Options(), name)
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"{what}; default: {default:,}")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write all figures there, as JSON")
    given = parser.parse_args(words)
    unknown = sorted(set(given.sections) - set(SECTIONS))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; sections are {', '.join(SECTIONS)}")
    asked = {name: getattr(given, name) for name in ("rounds", "seconds", "reviews") if getattr(given, name)}
    report = Report(replace(QUICK if given.quick else Options(), **asked))
    print(report.machine, flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="floorkeeper-speed-") as folder:
            place = Place.made(Path(folder))
            for name, section in SECTIONS.items():
                if not given.sections or name in given.sections:
                    section(place, report.options, report)
    except ClusterError as error:
        print(f"benchmarks/run: {error}", file=sys.stderr)
        return 1
    report.show_goals()
    if given.output is not None:
        report.write(given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
