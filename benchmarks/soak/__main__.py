"""A steady stream of writes through a real API server, while all that can happen to a webhook happens:
`python -m benchmarks.soak`.

Starts a control plane by scripts/cluster (etcd and kube-apiserver, Kueue's CRDs and no controllers), registers two
replicas of Floorkeeper with the shipped manifests, self-managed certificates and the shipped ServiceAccount's rights,
and sends dry-run writes at a fixed rate: GPU Deployments that are patched, left alone or denied, and raised floors.
Meanwhile, in turn: a rolling restart, kill -9 of a replica, a new policy and a broken one, rotations of certificate and
CA (their lives are minutes here), a restart of the API server, a watch that falls silent, manifests applied again.

A call has failed if the API server blames our webhook. Calls in flight on a killed process, and connections that the
restarting API server refuses, are counted apart. The exit code is 1 if a call failed, or if an event was not seen. It
needs Linux and some 12 minutes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.figures import machine, show_table
from benchmarks.soak.calls import Outcome, Tally
from benchmarks.soak.pace import WHOLE
from benchmarks.soak.run import Report, soak
from benchmarks.soak.service import control_plane

_MOST_SHOWN = 20
_COLUMNS = (Outcome.RIGHT, Outcome.FAILED, Outcome.WRONG, Outcome.KILLED, Outcome.AWAY)


def show(report: Report) -> None:
    print(f"\n{report.rate:g} writes a second were to be sent, and {report.whole.sent / report.whole.seconds:.0f} were")
    head = ("", "s", "sent", "right", "failed", "wrong", "killed", "away", "p50 ms", "p99 ms", "max ms")
    show_table(("while", *head[1:]), [_row(each, f"{each.seconds:.0f}") for each in (*report.events, report.whole)])
    print()
    show_table(("what was written", *head[1:]), [_row(each, "") for each in report.writes])
    print("killed: in flight on a process that was killed, or sent to it within 0.25 s of that; away: the API server")
    print("was restarting and decided nothing. Milliseconds are those of right answers, since the write was due.\n")
    for each in report.events:
        print(f"{each.name}: {each.note}")
    print("away, by code:", ", ".join(f"{code}: {number:,}" for code, number in report.away.items()) or "none")
    print(", ".join(f"{name} {value:g}" for name, value in report.metrics.items()))
    for call in report.bad[:_MOST_SHOWN]:
        print(f"{call.write}, {call.done - call.due:.2f} s: {call.code} {call.text}", file=sys.stderr)
    for text in report.unseen:
        print(f"not seen: {text}", file=sys.stderr)


def _row(tally: Tally, seconds: str) -> Sequence[str]:
    counts = (tally.outcomes[outcome] for outcome in _COLUMNS)
    latencies = (f"{each * 1e3:.1f}" for each in (tally.p50, tally.p99, tally.longest))
    return tally.name, seconds, f"{tally.sent:,}", *(f"{count:,}" for count in counts), *latencies


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600, help="at the least; default: %(default)s")
    parser.add_argument("--rate", type=float, default=200, help="writes in a second; default: %(default)s")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the figures there as JSON too")
    given = parser.parse_args(words)
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as directory, control_plane(Path(directory) / "cluster") as cluster:
        report = soak(cluster, Path(directory), WHOLE, given.rate, given.seconds, _say)
        if report.bad or report.unseen:
            _keep_logs(Path(directory))
    print(machine())
    show(report)
    if given.output is not None:
        given.output.write_text(json.dumps({"machine": machine(), **asdict(report)}, indent=2) + "\n")
    return 1 if report.bad or report.unseen else 0


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


def _keep_logs(directory: Path) -> None:
    place = Path(tempfile.mkdtemp(prefix="soak-"))
    for log in directory.glob("replica-*.log"):
        shutil.copy(log, place)
    _say(f"the replicas' logs are in {place}")


if __name__ == "__main__":
    sys.exit(main())
