"""The command line of `floorkeeper release`."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook.live.options import (
    NOTHING_WRITTEN,
    DryRun,
    Kubeconfig,
    Misuse,
    Namespace,
    Timeout,
    Yes,
    chosen_namespace,
    interruptible,
    opened,
    waiting_of,
)
from webhook.live.release.walk import walk


def release(
    deployments: Annotated[
        list[str] | None, typer.Argument(metavar="DEPLOYMENT", help="The Deployments that leave their queues.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All Deployments of the namespace that are in a queue.")
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    timeout: Timeout = "10m",
    yes: Yes = False,
    dry_run: DryRun = False,
    let_wait: Annotated[
        bool,
        typer.Option("--let-wait", help="Release although something waits for quota, and may take a replica's GPU."),
    ] = False,
) -> None:
    """Take Deployments out of their queues.

    One after another, one replica at a time, so that the queues can be deleted. Run again, it goes on from wherever it
    finds things.

    Exit codes: 0 released, 1 it cannot be, or was not ready in time, 2 something cannot be used, 3 something could not
    be looked at, 130 interrupted.
    """
    names = {each.removeprefix("deployment/") for each in deployments or ()}
    if bool(names) == everything:
        raise Misuse("name Deployments, or give --all for all of the namespace")
    waiting = waiting_of(timeout)
    with interruptible(lambda: NOTHING_WRITTEN), opened(kubeconfig) as api:
        walk(api, chosen_namespace(namespace, kubeconfig), names, waiting, yes=yes, dry_run=dry_run, let_wait=let_wait)
