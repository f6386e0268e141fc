"""An audit in a process of its own, whose memory goes away with it. What it is to do comes on stdin, as a line of JSON;
on stdout it answers with a pickle, for the process that started it and nobody else."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from webhook.live.audit.report import Audit

_START = "import sys; sys.path[:] = sys.argv[1:]; from webhook.live.audit.child import main; main()"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done. `kubeconfig` is None inside a cluster; `policy` is the text, None for the defaults."""

    kubeconfig: str | None
    policy: str | None
    tls_secret: str

    def line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: an audit, or why there is none. `unpublished` is why PolicyReports could not be written."""

    audit: Audit | None
    reason: str = ""
    unpublished: str = ""
    written: int = 0
    """PolicyReports that were not as they should be."""


def command() -> list[str]:
    """How to start it: with our interpreter and our modules."""
    return [sys.executable, "-c", _START, *(entry or os.getcwd() for entry in sys.path)]


def main() -> None:
    """The whole life of the process. It ends at once when its stdin does, as with the process that started it."""
    # What a library or a credentials plugin prints is no part of the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    _stand_back()
    order = Order(**json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with os.fdopen(answer, "wb") as file:
        file.write(pickle.dumps(_outcome(order)))


def _stand_back() -> None:
    """Reviews come first: for the processor, and where memory runs out."""
    if hasattr(os, "nice"):
        os.nice(10)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _end_with_parent() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)


def _outcome(order: Order) -> Outcome:
    # Whoever only starts the process needs none of these.
    from webhook.engine.policy import Policy
    from webhook.live.api import Api, ApiError
    from webhook.live.audit.publication import publish
    from webhook.live.audit.reading import CannotAudit
    from webhook.live.audit.run import Asked, audit
    from webhook.policy import PolicyError, parse_policy
    from webhook.sources.documents import uncollected
    from webhook.sources.source import SourceError

    try:
        policy = Policy() if order.policy is None else parse_policy(order.policy, "the policy")
        kubeconfig = None if order.kubeconfig is None else Path(order.kubeconfig)
        with uncollected(), Api.opened(kubeconfig) as api:
            found = audit(api, Asked(policy, tls_secret=order.tls_secret))
            try:
                published = publish(api, found)
            except ApiError as error:
                return Outcome(found, unpublished=str(error))
    except (CannotAudit, PolicyError, SourceError) as error:
        return Outcome(None, str(error))
    return Outcome(found, unpublished="; ".join(published.failures[:3]), written=published.written)
