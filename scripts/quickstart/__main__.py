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

import yaml

from scripts.quickstart.apiserver import ApiServer, BadAnswer
from scripts.quickstart.certificate import write_certificate
from scripts.quickstart.example import BadExample, Example, read_examples
from scripts.quickstart.screen import painter, width
from scripts.quickstart.server import HOST, Interrupted, Server, ServerFailed, serving
from scripts.quickstart.signals import Signals
from webhook.policy import read_policy
from webhook.report import Outcome, Style, outcome_lines, summary, wrapped
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
    parser.add_argument("--port", type=_port, default=_PORT, metavar="N", help="port on 127.0.0.1 (%(default)s)")
    return parser.parse_args()


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a number from 0 (any free port) to 65535, is {text}")
    return int(text)


def _run(port: int, once: bool, folder: Path, signals: Signals) -> int:
    examples = read_examples(WORKLOADS)
    files = write_certificate(folder, HOST)
    with serving(port, CLUSTER, POLICY, files, folder / "server.log", signals) as server:
        surprises = _show(examples, server)
        if once:
            return 1 if surprises else 0
        _tell_serving(server, files.certificate)
        while signals.received is None:
            server.check()
            time.sleep(_POLL_SECONDS)
    print("\nstopped")
    return 0


def _show(examples: list[Example], server: Server) -> int:
    """Prints what comes of each example; returns how many came out otherwise than they announce."""
    paint, columns = painter(), width()
    api_server = ApiServer(server.client, webhook_configurations(read_policy(POLICY)))
    print(*textwrap.wrap(INTRODUCTION, columns), "", sep="\n")
    outcomes = []
    for example in examples:
        outcome = _outcome(example, api_server)
        outcomes.append(outcome)
        print(*outcome_lines(outcome, columns, paint), "", sep="\n")
    surprises = list(_surprises(examples, outcomes))
    print(f"{summary(outcomes)}; {'not ' if surprises else ''}all as their files announce.")
    for line in surprises:
        print(paint(line, Style.DENIED))
    return len(surprises)


def _outcome(example: Example, api_server: ApiServer) -> Outcome:
    created = api_server.create(example.value)
    return Outcome(
        source=str(example.path),
        kind=example.value["kind"],
        name=example.value["metadata"]["name"],
        before=_yaml(created.sent),
        after=_yaml(created.stored),
        warnings=created.warnings,
        denial=created.denial,
        about=example.about,
    )


def _surprises(examples: list[Example], outcomes: list[Outcome]) -> Iterator[str]:
    for example, outcome in zip(examples, outcomes, strict=True):
        if outcome.word is not example.announced:
            yield f"{example.path} announces {example.announced}, and was {outcome.word}"


def _yaml(value: object) -> str:
    """Sorted, as `kubectl get -o yaml` has it."""
    return yaml.safe_dump(value, allow_unicode=True, width=1000)


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
