"""The command line of `floorkeeper audit`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from webhook.live.api import Api, ApiError
from webhook.live.audit import output_file as report_file
from webhook.live.audit.formats import render
from webhook.live.audit.publication import publish
from webhook.live.audit.reading import CannotAudit
from webhook.live.audit.report import FAIL_ON, FINE, NOT_EVALUATED, Audit
from webhook.live.audit.run import TLS_SECRET, Asked
from webhook.live.audit.run import audit as look_at
from webhook.live.audit.schema import SCHEMA
from webhook.live.audit.screen import LogLines, WaitingLine, say
from webhook.live.options import Kubeconfig, PolicyFile, cluster_of, interruptible, named, opened, refused
from webhook.live.policy import CurrentPolicy, NoPolicy
from webhook.live.waiting import seconds_of
from webhook.sources.documents import uncollected
from webhook.sources.source import SourceError

_AGAIN = 600.0
"""Seconds after which a watched report is printed though nothing has changed."""

_SHORTEST, _LONGEST = 1.0, 86400.0
"""Seconds between two looks."""

_SHARE = 3
"""A watch rests this many times as long as it looks, so that a large cluster is not listed all the time."""

_NOBODY_READS = 141
"""Exit code: 128 and the number of SIGPIPE."""

_Format = Literal["text", "json", "sarif", "junit", "markdown"]


def audit(
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            metavar="<name>",
            help="This managed namespace, and the quota it uses; repeatable.",
            callback=named,
        ),
    ] = None,
    output: Annotated[_Format, typer.Option("--output", "-o", help="How to print it.")] = "text",
    output_file: Annotated[
        Path | None, typer.Option(dir_okay=False, help="File to write it to, whole or not at all; else stdout.")
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(metavar="<list>", help=f"What fails beside denials, of {','.join(FAIL_ON)}."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again, and print what has changed, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        str, typer.Option(metavar="<duration>", help="With --watch or --serve, how often to look: 90s, 10m, 1h.")
    ] = "1m",
    serve: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="<port>",
            help="Show it as a page on 127.0.0.1 instead, and keep that current, until Ctrl-C; 0 is any free port.",
        ),
    ] = None,
    tls_secret: Annotated[
        str, typer.Option(metavar="<name>", help="Secret with the server's certificate, to hold the caBundle against.")
    ] = TLS_SECRET,
    policy_reports: Annotated[
        bool,
        typer.Option("--policy-reports", help="Write it to the cluster too, as PolicyReports (wgpolicyk8s.io)."),
    ] = False,
    kubeconfig: Kubeconfig = None,
    policy: PolicyFile = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of -o json, and exit.")] = False,
) -> None:
    """Judge what stands in a cluster by every rule.

    And whether the set-up itself can hold them. It writes nothing but, if asked to, PolicyReports.

    Exit codes: 0 nothing fails, 1 denials or what --fail-on names, 2 something cannot be used, 3 something could not be
    looked at, 130 interrupted.
    """
    if schema:
        print(json.dumps(SCHEMA, indent=2))
        return
    failing, every = _failing(fail_on or ()), _interval(interval)
    if serve is not None and (watch or output_file is not None or failing or output != "text"):
        raise refused("--serve shows a page: give it without --watch, --output, --output-file and --fail-on")
    if policy_reports and (namespace or serve is not None):
        what = "--namespace" if namespace else "--serve"
        raise refused(f"--policy-reports are about all managed namespaces: give them without {what}")
    left = "run it again for PolicyReports as they should be" if policy_reports else "nothing was changed"
    with interruptible(lambda: left), opened(kubeconfig) as api:
        current = CurrentPolicy(policy, say)
        try:
            asked = Asked(current.read(api), tuple(namespace or ()), tls_secret)
        except NoPolicy as error:
            raise refused(str(error)) from None
        except ApiError as error:
            raise refused(str(error), NOT_EVALUATED) from None
        if serve is not None:
            _serve(asked, current, cluster_of(kubeconfig), serve, every)
            return
        session = _Session(api, asked, current, output, output_file, failing, policy_reports)
        raise typer.Exit(session.watch(every) if watch else session.once())


def _serve(asked: Asked, current: CurrentPolicy, kubeconfig: Path | None, port: int, interval: float) -> None:
    """Until it is interrupted."""

    def look(api: Api) -> Audit:
        return look_at(api, replace(asked, policy=current.read(api)))

    # The web server is of use to nobody else here.
    from webhook.live.page.server import CannotListen, listen, url_of
    from webhook.live.page.watching import watch_and_serve

    try:
        sockets = listen("127.0.0.1", port)
    except CannotListen as error:
        raise refused(str(error), 1) from None
    print(f"floorkeeper: the page is at {url_of(sockets)} until Ctrl-C", file=sys.stderr, flush=True)
    log = logging.getLogger("floorkeeper")
    log.setLevel(logging.INFO)
    log.addHandler(LogLines())
    try:
        asyncio.run(watch_and_serve(kubeconfig, lambda: current.policy, sockets, look, interval))
    except SourceError as error:
        raise refused(str(error), NOT_EVALUATED) from None


def _failing(words: Sequence[str]) -> tuple[str, ...]:
    wanted = {name.strip() for word in words for name in word.split(",")}
    for name in sorted(wanted - set(FAIL_ON)):
        raise refused(f"--fail-on: must be of {', '.join(FAIL_ON)}, is {name!r}; try: floorkeeper audit --help")
    return tuple(name for name in FAIL_ON if name in wanted)


def _interval(text: str) -> float:
    try:
        seconds = seconds_of(text)
    except ValueError:
        seconds = 0.0
    if not _SHORTEST <= seconds <= _LONGEST:
        raise refused(f"--interval: must be a duration from 1s to 24h, is {text!r}; try 10m")
    return seconds


class _Session:
    def __init__(
        self,
        api: Api,
        asked: Asked,
        current: CurrentPolicy,
        output: str,
        file: Path | None,
        failing: tuple[str, ...],
        publishes: bool,
    ) -> None:
        self._api = api
        self._asked = asked
        self._current = current
        self._output = output
        self._file = file
        self._failing = failing
        self._publishes = publishes

    def once(self) -> int:
        """Prints the report and returns the exit code."""
        try:
            found = self._look()
        except CannotAudit as error:
            raise refused(str(error), NOT_EVALUATED if not error.usage else 2) from None
        self._write(found)
        published = self._publish(found)
        return found.exit_code(self._failing) or (FINE if published else NOT_EVALUATED)

    def watch(self, interval: float) -> int:
        """Until it is interrupted."""
        last: Audit | None = None
        printed = 0.0
        while True:
            pause = interval
            try:
                found = self._look()
            except CannotAudit as error:
                if error.usage:
                    raise refused(str(error)) from None
                # What was printed stands, and may not be so any more.
                say(f"{_now()}: {error}; trying again")
            else:
                pause = max(interval, found.seconds * _SHARE)
                if last is None or not found.same(last) or time.monotonic() - printed >= _AGAIN:
                    say(f"as of {_now()}")
                    self._write(found)
                    printed = time.monotonic()
                last = found
                self._publish(found)
            time.sleep(pause)
            self._asked = replace(self._asked, policy=self._current.read(self._api))

    def _publish(self, found: Audit) -> bool:
        """Whether the PolicyReports are as they should be, if they should be at all."""
        if not self._publishes:
            return True
        try:
            done = publish(self._api, found)
        except ApiError as error:
            say(f"PolicyReports: {error}")
            return False
        for reason in done.failures:
            say(f"PolicyReports: {reason}")
        if not done.served:
            say("PolicyReports: none, for wgpolicyk8s.io/v1alpha2 is not served")
        elif done.written or done.deleted:
            say(f"PolicyReports: {done.written:,} written, {done.deleted:,} deleted, {done.kept:,} as is")
        return not done.failures

    def _look(self) -> Audit:
        # Lists of thousands of objects hold no cycles, and looking for some takes as long as reading them.
        with WaitingLine() as waiting, uncollected():
            return look_at(self._api, self._asked, waiting.say)

    def _write(self, found: Audit) -> None:
        text = render(self._output, found, colour=self._file is None and _has_colours(), fail_on=self._failing)
        data = text.encode(errors="replace")
        if self._file is None or report_file.is_stdout(self._file):
            try:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                # Whoever read has gone, as `| head` does; Python would complain once more when it flushes at exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(_NOBODY_READS) from None
            return
        try:
            report_file.write(self._file, data)
        except OSError as error:
            raise refused(f"{self._file}: cannot be written: {error.strerror}; name another file") from None


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
