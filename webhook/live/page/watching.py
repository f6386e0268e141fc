"""The page of a command: it watches the cluster itself and has audits done on a schedule, until it is interrupted."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from webhook.capacity.balance import KINDS
from webhook.engine.policy import Policy
from webhook.live.api import Api
from webhook.live.audit.report import Audit
from webhook.live.page.board import Board, facts_of
from webhook.live.page.findings import audited
from webhook.live.page.queues import QueueReader
from webhook.live.page.server import PageServer
from webhook.sources.cluster import ClusterSource

_LONGEST_REASON = 300

log = logging.getLogger("floorkeeper.page")


async def watch_and_serve(
    kubeconfig: Path | None,
    policy: Callable[[], Policy],
    sockets: Sequence[socket.socket],
    audit: Callable[[Api], Audit],
    every: float,
) -> None:
    """Until it is cancelled, as asyncio.run does at Ctrl-C. Raises SourceError without a cluster.

    `audit` is called in a thread, the first time at once and then `every` so many seconds; what it raises is shown on
    the page in place of its findings. `policy` is asked for the one in force; what of the cluster is watched stays as
    the first one wants it.
    """
    more = {"UnqueuedPod"} if policy().capacity.discount_unqueued else set()
    source = ClusterSource(kubeconfig, sorted(KINDS | more))
    await source.start()
    board = Board(lambda: facts_of(source, policy()), QueueReader(kubeconfig))
    server = PageServer(board, sockets)
    auditing = asyncio.create_task(keep_audited(board, kubeconfig, audit, every))
    try:
        await server.run()
    finally:
        auditing.cancel()
        await asyncio.wait({auditing})
        await source.stop()


async def keep_audited(board: Board, kubeconfig: Path | None, audit: Callable[[Api], Audit], every: float) -> None:
    """Has audits done for ever, and puts what they find on the page. Raises SourceError without a cluster."""
    # Closed at the end, so that one under way is broken off.
    told = ""
    with Api.opened(kubeconfig) as api:
        while True:
            try:
                board.audit = audited(await asyncio.to_thread(audit, api), every)
                reason = ""
            except Exception as error:
                reason = " ".join(str(error).split())[:_LONGEST_REASON] or type(error).__name__
                board.audit = replace(board.audit, every=every, reason=reason)
            if reason and reason != told:
                log.warning("audit failed", extra={"fields": {"error": reason}})
            elif told and not reason:
                log.info("audited again")
            told = reason
            await asyncio.sleep(every)
