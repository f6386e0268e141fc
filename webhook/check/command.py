"""The command line of `floorkeeper check`. What only some runs need is imported by them."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import Any, NoReturn

from webhook.check.formats import FORMATS, render
from webhook.check.inputs import STDIN, Inputs, read_inputs
from webhook.check.judging import check, in_order
from webhook.check.options import BadOption, Options, declared
from webhook.check.result import FAIL_ON, UNUSABLE, Fault, Result
from webhook.check.state import COMMAND_LINE
from webhook.sources.documents import uncollected

_USAGE = "floorkeeper check [OPTIONS] PATH..."
_ABOUT = """\
Judge manifests as the cluster would, before anything reaches it.

PATH is a file, a folder, a kustomization's folder, or - for stdin. What is in the input is also the state: its queues,
flavors, namespaces and workloads are judged against each other, in any order. Objects in namespaces that are not
managed are skipped.

Exit codes: 0 nothing fails, 1 denials or what --fail-on names, 2 something cannot be used or nothing was checked,
3 rules without facts to judge by, where --fail-on names them."""

_WIDEST = 120  # columns, as the other commands have it
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NOBODY_READS = 141
"""Exit code: 128 and the number of SIGPIPE."""

_REPEATED = {"action": "append", "default": []}
_OPTIONS: tuple[tuple[tuple[str, ...], str, str, Mapping[str, Any]], ...] = (
    (("--policy",), "<file>", "Policy file; without it, the defaults.", {"default": ""}),
    (("-n", "--namespace"), "<name>", "Namespace of objects that name none.  [default: default]", {"default": ""}),
    (("--managed",), "", "Namespaces that the input does not declare are managed.", {"action": "store_true"}),
    (("--state",), "<dir>", "More manifests that stand for the cluster, and are not judged; repeatable.", _REPEATED),
    (("--nodes",), "<file>", "What `kubectl get nodes -o yaml` prints.", {"default": ""}),
    (("--capacity",), "<flavor/resource=n>", "Accelerators that nodes will offer; repeatable.", _REPEATED),
    (("--live",), "", "Take the state from the current kubeconfig's cluster, read-only.", {"action": "store_true"}),
    (
        ("--server",),
        "",
        "Ask the current kubeconfig's cluster by dry runs, and show where it differs.",
        {"action": "store_true"},
    ),
    (
        ("--diff-against",),
        "<dir|revision>",
        "Judge changes: what was wrong there or in that git revision warns.",
        {"default": ""},
    ),
    (
        ("-o", "--output"),
        "<format>",
        f"{', '.join(FORMATS)}.  [default: text]",
        {"choices": FORMATS, "default": "text"},
    ),
    (("--fail-on",), "<list>", f"What fails beside denials, of {','.join(FAIL_ON)}.", _REPEATED),
    (("--strict",), "", "Everything in --fail-on.", {"action": "store_true"}),
    (("--allow-empty",), "", "Having nothing to check is fine.", {"action": "store_true"}),
    (("--fix",), "", "Write into the files what admission would patch.", {"action": "store_true"}),
    (("--dry-run",), "", "With --fix: print what it would change.", {"action": "store_true"}),
    (("--schema",), "", "Print the JSON Schema of -o json, and exit.", {"action": "store_true"}),
    (("-h", "--help"), "", "Show this message and exit.", {"action": "store_true"}),
)


def flags() -> list[str]:
    """Every option, for shell completion: ['--policy', '-n', …]."""
    return [flag for row in _OPTIONS for flag in row[0]]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadOption(message)


def run(words: Sequence[str]) -> int:
    """Runs the command, and returns its exit code."""
    # Closed ones (`>&-`) are None, and print would take stdout for stderr.
    sys.stdout = sys.stdout or io.TextIOWrapper(io.BytesIO())
    sys.stderr = sys.stderr or io.TextIOWrapper(io.BytesIO())
    try:
        with uncollected():
            code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has gone, as `| head` does.
        _leave_stdout()
        return _NOBODY_READS
    except OSError as error:
        _leave_stdout()
        print(f"floorkeeper: {error}; check where stdout goes", file=sys.stderr)
        return UNUSABLE
    return code


def _leave_stdout() -> None:
    """Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str]) -> int:
    try:
        asked = _asked(words)
        if asked.help:
            _write(_help())
            return 0
        if asked.schema:
            _write(_schema())
            return 0
        options, fail_on = _options(asked), _fail_on(asked)
        inputs = _read(options)
        with _waiting(f"judging {len(inputs.documents):,} objects of {len(inputs.texts):,} files …"):
            result = check(inputs, options)
        if asked.server:
            return _by_server(inputs, result, fail_on, asked)
        if asked.fix:
            inputs, result = _fixed(inputs, result, options, asked.dry_run)
    except BadOption as error:
        print(f"floorkeeper: {error}; try: floorkeeper check --help", file=sys.stderr)
        if _wants_json(words):
            _write(render("json", Result(errors=(Fault(COMMAND_LINE, str(error)),)), {}))
        return UNUSABLE
    text = render(asked.output, result, inputs.texts, colour=_has_colours(), fail_on=fail_on, root=os.path.abspath("."))
    # Then stdout has what is to be piped into other programs: a diff, or the fixed text of stdin.
    if asked.dry_run or (asked.fix and "-" in asked.paths):
        sys.stderr.write(text)
    else:
        _write(text)
    return result.exit_code(fail_on, asked.allow_empty)


def _read(options: Options) -> Inputs:
    # Without a stdin (`<&-`) there is none to read.
    stdin = sys.stdin.buffer if sys.stdin is not None else io.BytesIO()
    return read_inputs(options.paths, stdin, options.namespace)


def _by_server(inputs: Inputs, result: Result, fail_on: Collection[str], asked: argparse.Namespace) -> int:
    from webhook.check.server import ask, exit_code, report

    answers, unasked = ask(inputs, asked.namespace)
    faults = [*result.errors, *unasked]
    _write("".join(f"{line}\n" for line in report(answers, faults, result)))
    return exit_code(answers, faults, fail_on, asked.allow_empty)


# Words


def _asked(words: Sequence[str]) -> argparse.Namespace:
    if any(re.fullmatch(r"(--[a-z-]+=)?", word) for word in words):
        # '' as a PATH would be the folder that one is in, and as an option nothing.
        raise BadOption("an argument is empty; set the variable that it comes from, or leave it out")
    # A usage of its own, for argparse would work one out.
    parser = _Parser(usage=_USAGE, add_help=False, allow_abbrev=False)
    parser.add_argument("paths", nargs="*")
    for flags, _, _, settings in _OPTIONS:
        parser.add_argument(*flags, **settings)
    asked = parser.parse_intermixed_args(list(words))
    if asked.help or asked.schema:
        return asked
    if not asked.paths:
        raise BadOption("no PATH: give files, folders, or - for stdin")
    if "-" in (asked.nodes, *asked.state):
        raise BadOption("--nodes and --state read files: for stdin give /dev/stdin")
    if asked.dry_run and not asked.fix:
        raise BadOption("--dry-run goes with --fix: nothing else is written")
    if asked.server and (asked.fix or asked.output != "text"):
        raise BadOption("--server prints a line for each object: leave --fix and --output out")
    if asked.output != "text" and (asked.dry_run or (asked.fix and "-" in asked.paths)):
        printed = "--dry-run prints a diff" if asked.dry_run else "--fix prints what stdin becomes"
        raise BadOption(f"{printed}: leave --output out")
    if asked.namespace and not _NAMESPACE.fullmatch(asked.namespace):
        raise BadOption(f"--namespace: {asked.namespace!r} is no name of a namespace: write lower case, digits and -")
    return asked


def _options(asked: argparse.Namespace) -> Options:
    return Options(
        today=date(*time.gmtime()[:3]),
        paths=tuple(asked.paths),
        policy=asked.policy,
        namespace=asked.namespace,
        managed=asked.managed,
        state=tuple(asked.state),
        nodes=asked.nodes,
        capacity=declared(asked.capacity),
        live=asked.live,
        diff_against=asked.diff_against,
    )


def _fail_on(asked: argparse.Namespace) -> tuple[str, ...]:
    wanted = {name.strip() for words in asked.fail_on for name in words.split(",")}
    for name in sorted(wanted - set(FAIL_ON)):
        raise BadOption(f"--fail-on: must be of {', '.join(FAIL_ON)}, is {name!r}")
    return tuple(name for name in FAIL_ON if asked.strict or name in wanted)


def _wants_json(words: Sequence[str]) -> bool:
    """Whether JSON is asked for on a line that may be wrong."""
    line = " ".join(words)
    return re.search(r"(^| )(-o ?=?|--output[ =])json( |$)", line) is not None


# Fixes


def _fixed(inputs: Inputs, result: Result, options: Options, dry_run: bool) -> tuple[Inputs, Result]:
    """What the input comes to after it was fixed or, for a dry run, as it is."""
    from webhook.check.fix import diff_of, fixed_texts, write

    fixes = fixed_texts(inputs, result)
    errors: list[Fault] = []
    if dry_run:
        _write(diff_of(inputs.texts, fixes.texts))
    else:
        errors = write(fixes, inputs.texts, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    if fixes.texts and not dry_run:
        files = len(fixes.texts.keys() - {STDIN}) - len(errors)
        print(f"floorkeeper: fixed {files} file{'' if files == 1 else 's'}", file=sys.stderr)
        # What was read from stdin is gone.
        stdin = fixes.texts.get(STDIN, inputs.texts.get(STDIN, b""))
        inputs = read_inputs(options.paths, io.BytesIO(stdin), options.namespace)
        result = check(inputs, options)
    notes = in_order([*result.notes, *fixes.problems])
    return inputs, replace(result, notes=notes, errors=in_order([*result.errors, *errors]))


# Screen


@contextmanager
def _waiting(text: str) -> Iterator[None]:
    """Says on a terminal what takes its time, and takes it away again."""
    shown = sys.stderr is not None and sys.stderr.isatty()
    if shown:
        print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _write(text: str) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
    sys.stdout.buffer.flush()


def _has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _schema() -> str:
    import json

    from webhook.check.formats.schema import SCHEMA

    return f"{json.dumps(SCHEMA, indent=2)}\n"


def _help() -> str:
    """As typer lays out the help of the other commands."""
    import shutil
    import textwrap

    width = min(shutil.get_terminal_size().columns, _WIDEST)
    about = [textwrap.fill(" ".join(part.split()), width - 2).replace("\n", "\n  ") for part in _ABOUT.split("\n\n")]
    left = [" ".join(filter(None, (", ".join(flags), metavar))) for flags, metavar, _, _ in _OPTIONS]
    gap = max(map(len, left)) + 4
    lines = [f"Usage: {_USAGE}", ""]
    lines += [f"  {part}\n" for part in about]
    lines.append("Options:")
    for words, (_, _, text, _) in zip(left, _OPTIONS, strict=True):
        first, *more = textwrap.wrap(text.replace("  ", "\u00a0 "), width - gap)
        lines += [f"  {words:{gap - 2}}{first}", *(" " * gap + line for line in more)]
    return "\n".join(line.replace("\u00a0", " ").rstrip() for line in lines) + "\n"
