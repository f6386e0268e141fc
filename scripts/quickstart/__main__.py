"""`./scripts/run`, once the environment is there."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

from scripts.quickstart.apiserver import ApiServer, BadAnswer
from scripts.quickstart.certificate import write_certificate
from scripts.quickstart.example import BadExample, Example, read_examples
from scripts.quickstart.reload import Reloads
from scripts.quickstart.screen import painter, width
from scripts.quickstart.server import HOST, Interrupted, Server, ServerFailed, serving
from scripts.quickstart.signals import Signals
from scripts.quickstart.trial import tried
from webhook.policy import read_policy
from webhook.report import Outcome, Style, Word, outcome_lines, summary, wrapped
from webhook.scope import webhook_configurations

# Relative, as a person would name them, and as they are in messages; scripts/run works in the repository's root.
CLUSTER = Path("examples/cluster")
POLICY = Path("examples/policy.yaml")
WORKLOADS = Path("examples/workloads")

INTRODUCTION = (
    f"Floorkeeper guards {CLUSTER}: 10 GPUs, two floors of 5, and a gateway without GPUs. "
    "Each example is now sent to it as an API server would send it."
)

_PORT = 8443
_POLL_SECONDS = 0.1


def main() -> int:
    """Returns the exit code."""
    arguments = _arguments()
    signals = Signals()
    signals.watch()
    try:
        with tempfile.TemporaryDirectory(prefix="floorkeeper-") as folder:
            return _run(arguments.port, arguments.once, Path(folder), signals)
    except Interrupted:
        return 128 + (signals.received or 0)
    except (ServerFailed, BadExample, BadAnswer) as error:
        print(f"scripts/run: {error}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/run", description="Serves the example cluster and shows what it does."
    )
    parser.add_argument("--once", action="store_true", help="exit after the examples")
    port = f"port on 127.0.0.1 ({_PORT}; with --once any that is free)"
    parser.add_argument("--port", type=_port, metavar="N", help=port)
    arguments = parser.parse_args()
    if arguments.port is None:
        arguments.port = 0 if arguments.once else _PORT
    return arguments


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a number from 0 (any free port) to 65535, is {text}")
    return int(text)


def _run(port: int, once: bool, folder: Path, signals: Signals) -> int:
    examples = read_examples(WORKLOADS)
    files = write_certificate(folder, HOST)
    with serving(port, CLUSTER, POLICY, files, folder / "server.log", signals) as server:
        api_server = ApiServer(server.client, webhook_configurations(read_policy(POLICY)))
        words = _show(examples, api_server)
        if once:
            return 0 if words == [example.announced for example in examples] else 1
        _tell_serving(server, files.certificate)
        reloads = Reloads(server, api_server, examples, words)
        while signals.received is None:
            server.check()
            for line in reloads.news():
                print(line, flush=True)
            time.sleep(_POLL_SECONDS)
    print("\nstopped")
    return 0


def _show(examples: list[Example], api_server: ApiServer) -> list[Word]:
    """Prints what comes of each example; returns it in one word each."""
    paint, columns = painter(), width()
    print(*textwrap.wrap(INTRODUCTION, columns), "", sep="\n")
    outcomes = []
    for example in examples:
        outcome = tried(example, api_server)
        outcomes.append(outcome)
        print(*outcome_lines(outcome, columns, paint), "", sep="\n")
    surprises = list(_surprises(examples, outcomes))
    print(f"{summary(outcomes)}; {'not ' if surprises else ''}all as their files announce.")
    for line in surprises:
        print(paint(line, Style.DENIED))
    return [outcome.word for outcome in outcomes]


def _surprises(examples: list[Example], outcomes: list[Outcome]) -> Iterator[str]:
    for example, outcome in zip(examples, outcomes, strict=True):
        if outcome.word is not example.announced:
            yield f"{example.path} announces {example.announced}, and was {outcome.word}"


def _tell_serving(server: Server, certificate: Path) -> None:
    paint = painter()
    text = f"serving on {server.url} with {CLUSTER} and {POLICY}, Ctrl-C ends"
    print("", *(paint(line, Style.NAME) for line in wrapped(text, width())), sep="\n")
    for path in ("/readyz", "/metrics"):
        print(f"  curl --cacert {certificate} {server.url}{path}")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has gone, as `| head` does. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)
