"""Options that the walking commands share, and how a person is asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from webhook.engine.policy import Policy
from webhook.live.api import NAMESPACES, Api, ApiError
from webhook.live.waiting import Waiting, seconds_of
from webhook.sources.kubeconfig import context_namespace
from webhook.sources.kubeconfig_path import default_kubeconfig
from webhook.sources.source import SourceError

DONE, NOT_REACHED, USAGE, NOT_SEEN, INTERRUPTED, NOBODY_READS = 0, 1, 2, 3, 130, 141
"""Exit codes. NOT_SEEN: something could not be looked at. The last two: 128 and the number of SIGINT or SIGPIPE."""

NOTHING_WRITTEN = "nothing was written; run the command again"

_Names = TypeVar("_Names", str, list[str] | None)

_MOST = 20
"""Names that are listed for one that does not exist."""


class Misuse(typer.TyperException):
    """The command line itself is wrong: one clear sentence. Where to read on is added to it, as to typer's own."""

    exit_code = USAGE


def named(value: _Names) -> _Names:
    """The namespaces that an option names. An empty name would be all namespaces to the API server. Raises Misuse."""
    if value == "" or (isinstance(value, list) and "" in value):
        raise Misuse("--namespace is empty: give a name")
    return value


Kubeconfig = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help="The cluster; else that of KUBECONFIG, or the one around us."),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="Policy file; without it, that of the cluster's Floorkeeper, or the defaults."
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", metavar="<name>", help="The namespace; else that of the kubeconfig.", callback=named
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, have the API server try it, write nothing.")]
Timeout = Annotated[
    str,
    typer.Option(metavar="<duration>", help="How long may pass without a further replica ready: 90s, 10m, 1h."),
]


def refused(message: str, code: int = USAGE) -> typer.Exit:
    """To be raised: one clear sentence on stderr, and an exit code."""
    print(f"floorkeeper: {message}", file=sys.stderr)
    return typer.Exit(code)


def absent(kind: str, names: Sequence[str], namespace: str, there: Sequence[str]) -> typer.Exit:
    """To be raised: the command line names what the namespace does not have."""
    more = f" and {len(there) - _MOST} more" if len(there) > _MOST else ""
    has = f"{', '.join(there[:_MOST])}{more}" if there else "none"
    others = "; what is of another kind is labelled by hand (README, Kinds)" if kind == "Deployment" else ""
    return refused(f"no {kind} {', '.join(names)} in namespace {namespace}; it has {has}{others}; nothing was written")


def say(line: str) -> None:
    """A line of progress, at once also where a pipe reads it."""
    print(line, flush=True)


def cluster_of(kubeconfig: Path | None) -> Path | None:
    """The kubeconfig to use, None for the cluster around us."""
    if kubeconfig is None and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        kubeconfig = default_kubeconfig()
        if kubeconfig is None:
            raise Misuse("no cluster: give --kubeconfig FILE, set KUBECONFIG, or run in a cluster")
    return kubeconfig


@contextmanager
def opened(kubeconfig: Path | None) -> Iterator[Api]:
    """The API server of a kubeconfig, of kubectl's, or of the cluster around us."""
    try:
        with Api.opened(cluster_of(kubeconfig)) as api:
            yield api
    except SourceError as error:
        raise refused(str(error)) from None


def chosen_namespace(given: str | None, kubeconfig: Path | None) -> str:
    """The one that was given, else that of kubectl's current context, which is told. Raises SourceError."""
    if given is not None:
        return given
    file = cluster_of(kubeconfig)
    if file is None:
        raise Misuse("in a cluster there is no namespace of a kubeconfig: give --namespace NAME")
    found = context_namespace(file)
    print(f"floorkeeper: namespace {found}, of the kubeconfig's context", file=sys.stderr, flush=True)
    return found


def require_namespace(api: Api, namespace: str) -> None:
    """Raises Exit for one that does not exist, and ApiError."""
    if api.get(NAMESPACES, namespace) is None:
        raise refused(f"there is no namespace {namespace}; correct the name")


def policy_of(api: Api, file: Path | None) -> Policy:
    # It brings pydantic, which costs more than all the rest.
    from webhook.live.policy import NoPolicy, choose_policy

    try:
        return choose_policy(api, file).policy
    except NoPolicy as error:
        raise refused(str(error)) from None
    except ApiError as error:
        raise refused(str(error), NOT_SEEN) from None


def waiting_of(timeout: str) -> Waiting:
    try:
        return Waiting(seconds_of(timeout))
    except ValueError:
        raise Misuse(f"--timeout {timeout}: give a duration such as 90s, 10m or 1h30m") from None


def asked(question: str, *, yes: bool, what: str) -> bool:
    """Whether to go on. Where nobody can be asked, `what` is refused without --yes."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise Misuse(f"{what} needs a yes, and there is no terminal to ask on; give --yes, or --dry-run to look only")
    return typer.confirm(question, default=False)


@contextmanager
def interruptible(where: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C ends the command with exit code 130, a pipe that nobody reads any more with 141, and output that cannot
    be written with 1: each after it said where it left things."""
    try:
        try:
            yield
        finally:
            # What is left to be written at the end would fail where nobody can say so.
            if sys.stdout:
                sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        raise _cut_off(f"\nfloorkeeper: interrupted: {where()}", INTERRUPTED) from None
    except BrokenPipeError:
        raise _cut_off(f"floorkeeper: nobody reads the output any more: {where()}", NOBODY_READS) from None
    except OSError as error:
        if error.filename is not None:  # it is about a file that was to be opened
            raise
        reason = f"the output cannot be written: {error.strerror}"
        raise _cut_off(f"floorkeeper: {reason}: {where()}", NOT_REACHED) from None


def _cut_off(message: str, code: int) -> typer.Exit:
    """To be raised. Whoever read may have read stderr too."""
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            # Python would complain once more when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return typer.Exit(code)
