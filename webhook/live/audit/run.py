"""One audit of a cluster, from the first list to the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from webhook.engine.policy import Policy
from webhook.kube.names import KUEUE_GROUP
from webhook.live.api import Api, ApiError
from webhook.live.audit.collapse import collapsed
from webhook.live.audit.judging import judge_all
from webhook.live.audit.reading import CannotAudit, Progress, Reading, read
from webhook.live.audit.registrations import read_registrations
from webhook.live.audit.report import Audit, NotEvaluated
from webhook.live.audit.setup import look
from webhook.live.audit.standing import Standing

TLS_SECRET = "floorkeeper-tls"  # noqa: S105 - its name
"""The Secret with the server's certificate, as it is shipped."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be audited. `namespaces` are all managed ones if empty."""

    policy: Policy
    namespaces: Collection[str] = ()
    tls_secret: str = TLS_SECRET


def audit(api: Api, asked: Asked, progress: Progress = lambda _: None, clock: Callable[[], float] = time.time) -> Audit:
    """Lists the cluster once, writes nothing, and holds no more than it judges. Raises CannotAudit.

    Blocks, and is for a thread of its own where there is a loop. `clock` tells seconds since the epoch.
    """
    began = clock()
    now = datetime.fromtimestamp(began, UTC)
    reading = read(api, asked.policy, asked.namespaces, progress)
    progress("reading webhook configurations")
    try:
        registrations = read_registrations(api, asked.tls_secret)
    except ApiError as error:
        raise CannotAudit(f"{error}; check the network and the kubeconfig") from error
    progress(f"judging {len(reading.judged):,} objects")
    judgement = judge_all(reading.judged, reading.snapshot, asked.policy, now.date())
    setup = look(Standing(reading, registrations, asked.policy, now, limited=bool(asked.namespaces)))
    return Audit(
        at=began,
        seconds=clock() - began,
        namespaces=reading.managed,
        objects=len(reading.judged) + reading.passed_over,
        checked=judgement.checked,
        findings=collapsed([*setup.findings, *judgement.findings]),
        exempted=tuple(judgement.exempted),
        not_evaluated=(*_unread(reading), *sorted(setup.not_evaluated), *judgement.not_evaluated),
    )


def _unread(reading: Reading) -> list[NotEvaluated]:
    """The kinds that could not be listed. That Kueue is not there is one thing to say, and the set-up's checks do."""
    found = sorted(reading.unread.items())
    if not reading.kueue_versions:
        found = [(name, reason) for name, reason in found if not name.endswith(f".{KUEUE_GROUP}")]
    return [NotEvaluated(name, reason) for name, reason in found]
