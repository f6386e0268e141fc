"""`floorkeeper verify`: the guide's step 4."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from webhook.engine.policy import Policy
from webhook.live.api import Api, ApiError
from webhook.live.options import (
    DONE,
    NOT_REACHED,
    NOT_SEEN,
    Kubeconfig,
    Namespace,
    PolicyFile,
    chosen_namespace,
    interruptible,
    opened,
    policy_of,
    refused,
    require_namespace,
)
from webhook.live.verify.assertion import Assertion, Outcome, count, json, text
from webhook.live.verify.controller import controller_answers
from webhook.live.verify.gated import gated_beyond_budget
from webhook.live.verify.outside import none_outside
from webhook.live.verify.queues import admitted_within_nominal, cohort_shared, floors_fit, queues_active
from webhook.live.verify.reading import read_world
from webhook.live.verify.replicas import one_workload_each, pods_made, preemptions

_LOOKS = 3
_BETWEEN = 2.0
"""Seconds between two looks: what a controller is about to do is no failure."""

_LONGEST = 60.0
"""Seconds after which no further look begins."""


def verify(
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    policy: PolicyFile = None,
    output: Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="How to print it.")] = "text",
) -> None:
    """Say whether replicas are counted and gated.

    Each assertion comes with its evidence and, where it fails, with what to do.

    Exit codes: 0 all hold, 1 one does not, 2 something cannot be used, 3 something could not be looked at, 130
    interrupted.
    """
    with interruptible(lambda: "it only looks; nothing was written"), opened(kubeconfig) as api:
        home = chosen_namespace(namespace, kubeconfig)
        rules = policy_of(api, policy)
        try:
            require_namespace(api, home)
            found = assertions(api, home, rules)
        except ApiError as error:
            raise refused(str(error), NOT_SEEN) from None
    print(json(home, found) if output == "json" else "\n".join(text(home, found)))
    raise typer.Exit(exit_code(found))


def exit_code(found: list[Assertion]) -> int:
    if count(found, Outcome.FAIL):
        return NOT_REACHED
    return NOT_SEEN if count(found, Outcome.NOT_EVALUATED) else DONE


def assertions(
    api: Api, namespace: str, policy: Policy, sleep: Callable[[float], None] = time.sleep
) -> list[Assertion]:
    """In the order of the guide. What fails is looked at again first. Raises ApiError."""
    end = time.monotonic() + _LONGEST
    for look in range(_LOOKS):
        found = _look(api, namespace, policy)
        if not count(found, Outcome.FAIL) or look == _LOOKS - 1 or time.monotonic() >= end:
            break
        sleep(_BETWEEN)
    return found


def _look(api: Api, namespace: str, policy: Policy) -> list[Assertion]:
    kinds = frozenset({"UnqueuedPod"} if policy.capacity.discount_unqueued else ())
    world = read_world(api, namespace, kinds)
    now = datetime.now(UTC)
    found = [
        controller_answers(world, now),
        queues_active(world),
        cohort_shared(world, policy),
        pods_made(world),
        one_workload_each(world),
        gated_beyond_budget(world, policy),
        admitted_within_nominal(world, policy),
        none_outside(world, policy, now.date()),
        floors_fit(world, policy),
        preemptions(world),
    ]
    for each in found:
        if not (each.evidence or each.failures or each.unknown):
            each.unknown.append("there is nothing to look at: no queue of the namespace has quota of accelerators")
    return found
