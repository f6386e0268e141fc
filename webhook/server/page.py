"""The page beside the webhooks: on their event loop, by their facts."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from webhook.live.page.board import Board, facts_of
from webhook.live.page.denials import Denials
from webhook.live.page.findings import Audited
from webhook.live.page.queues import QueueSource
from webhook.live.page.server import PageServer
from webhook.server.admission import PolicyInForce
from webhook.sources.source import Source

_NO_AUDITS = "no audits are done: serve --audit-every 10m does one every ten minutes"


@dataclass(frozen=True, slots=True)
class PageSettings:
    """Where the page is served over plain HTTP, and where the use of queues comes from."""

    host: str
    port: int
    queues: Callable[[], QueueSource]
    names: Collection[str] = ()
    """Under which it is taken, beside its host, addresses and localhost."""


def page_server(
    settings: PageSettings, sockets: Sequence[socket.socket], policies: PolicyInForce, source: Source, *, audits: bool
) -> PageServer:
    """With an empty list of denials, which its board keeps for the webhooks to add to. `audits`: whether any are done,
    whose findings go to the board."""
    board = Board(lambda: facts_of(source, policies.policy), settings.queues(), Denials())
    if not audits:
        board.audit = Audited(reason=_NO_AUDITS)
    return PageServer(board, sockets, names={settings.host, *settings.names})
