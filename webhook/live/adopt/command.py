"""The command line of `floorkeeper adopt`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from webhook.live.adopt.walk import walk
from webhook.live.options import (
    NOTHING_WRITTEN,
    DryRun,
    Kubeconfig,
    Misuse,
    Namespace,
    PolicyFile,
    Timeout,
    Yes,
    chosen_namespace,
    interruptible,
    opened,
    policy_of,
    waiting_of,
)


def adopt(
    deployments: Annotated[
        list[str],
        typer.Argument(metavar="DEPLOYMENT[=QUEUE]", help="Deployments, each with its LocalQueue or --queue."),
    ],
    namespace: Namespace = None,
    queue: Annotated[
        str, typer.Option("--queue", "-q", metavar="<name>", help="The LocalQueue of those that name none.")
    ] = "",
    kubeconfig: Kubeconfig = None,
    policy: PolicyFile = None,
    timeout: Timeout = "10m",
    yes: Yes = False,
    dry_run: DryRun = False,
    let_wait: Annotated[
        bool, typer.Option("--let-wait", help="Adopt although some replicas find no quota, and stay gated.")
    ] = False,
) -> None:
    """Have serving Deployments join their queues.

    One after another, one replica at a time. All is checked before anything is written. Run again, it goes on from
    wherever it finds things.

    Exit codes: 0 adopted, 1 it cannot be, or was not ready in time, 2 something cannot be used, 3 something could not
    be looked at, 130 interrupted.
    """
    wanted = _wanted(deployments, queue)
    waiting = waiting_of(timeout)
    with interruptible(lambda: NOTHING_WRITTEN), opened(kubeconfig) as api:
        home = chosen_namespace(namespace, kubeconfig)
        walk(api, home, wanted, policy_of(api, policy), waiting, yes=yes, dry_run=dry_run, let_wait=let_wait)


def _wanted(words: Sequence[str], queue: str) -> dict[str, str]:
    """The queue of each Deployment."""
    found: dict[str, str] = {}
    for word in words:
        name, _, own = word.removeprefix("deployment/").partition("=")
        chosen = own or queue
        if not name or not chosen:
            raise Misuse(f"{word}: which queue? give --queue QUEUE, or {name or 'NAME'}=QUEUE")
        if found.get(name, chosen) != chosen:
            raise Misuse(f"{name} is to be in {found[name]} and in {chosen}: give it one queue")
        found[name] = chosen
    return found
