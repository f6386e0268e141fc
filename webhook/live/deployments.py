"""What is read of a Deployment before it is changed, and the changes, as merge patches."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any

from webhook.kube.names import FIELD_QUEUE, QUEUE_LABEL
from webhook.kube.objects import Object, at, label, mapping, metadata, string
from webhook.live.api import DEPLOYMENTS, Api, ApiError
from webhook.live.waiting import Waiting

Patch = Mapping[str, Any]

STRATEGY: Patch = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
"""Terminate, then create, one replica at a time (guide, step 3)."""

PACE = "maxSurge 0, maxUnavailable 1"
"""STRATEGY in words."""

_TEMPLATE_LABEL = ("spec", "template", *FIELD_QUEUE)
_CONFLICT = 409
_ATTEMPTS = 20
"""At writing over what the controllers write to as well."""


class Stopped(Exception):
    """Something keeps a Deployment from being changed further: the message says what, and what to do.

    `back`: whether there is something that a person could go back to.
    """

    def __init__(self, message: str, *, back: bool = True) -> None:
        super().__init__(message)
        self.back = back


def template_queue(deployment: Object) -> str:
    """The queue label of its pod template, '' without one."""
    return string(at(deployment, _TEMPLATE_LABEL))


def own_queue(deployment: Object) -> str:
    """The queue label of the Deployment itself, '' without one."""
    return label(deployment, QUEUE_LABEL)


def rolls_one_by_one(deployment: Object) -> bool:
    """Whether its strategy is STRATEGY."""
    return _strategy(deployment) == ("RollingUpdate", 0, 1)


def keeps_pace(deployment: Object) -> bool:
    """Whether its strategy is left alone: STRATEGY, or Recreate, with which a rollout is refused or touches one."""
    return rolls_one_by_one(deployment) or is_recreated(deployment)


def surges(deployment: Object) -> bool:
    """Whether a rollout makes new pods before old ones go: with the budget full it would wait behind them for ever."""
    kind, surge, _ = _strategy(deployment)
    return kind == "RollingUpdate" and surge not in (0, "0%")


def is_recreated(deployment: Object) -> bool:
    """Whether a rollout takes all of its pods down at once."""
    return _strategy(deployment)[0] == "Recreate"


def strategy_in_words(deployment: Object) -> str:
    kind, surge, unavailable = _strategy(deployment)
    return kind if kind == "Recreate" else f"maxSurge {surge}, maxUnavailable {unavailable}"


def _strategy(deployment: Object) -> tuple[str, Any, Any]:
    strategy = mapping(at(deployment, ("spec", "strategy")))
    rolling = mapping(strategy.get("rollingUpdate"))
    return (
        string(strategy.get("type")) or "RollingUpdate",
        rolling.get("maxSurge", "25%"),
        rolling.get("maxUnavailable", "25%"),
    )


def with_strategy() -> dict[str, Any]:
    return {"spec": {"strategy": dict(STRATEGY)}}


def set_strategy(
    api: Api,
    namespace: str,
    name: str,
    check: Callable[[Object], None],
    waiting: Waiting,
    say: Callable[[str], None],
    *,
    unless: Callable[[Object], bool] = lambda _: False,
) -> Object:
    """The Deployment, with a strategy that `keeps_pace` unless `unless` lets it be. Raises Stopped and ApiError."""

    def done(value: Object) -> bool:
        return keeps_pace(value) or unless(value)

    value, written = change(api, namespace, name, with_strategy(), done, check, waiting, say)
    if not done(value):
        raise Stopped(
            f'Deployment "{name}": its strategy was not taken, is {strategy_in_words(value)}: a webhook of the cluster '
            "writes it back; its template is untouched"
        )
    if written:
        say(f"{name}: strategy set: {strategy_in_words(value)}; this restarts nothing")
    return value


def with_queue(queue: str | None) -> dict[str, Any]:
    """None takes the label off."""
    return {"spec": {"template": {"metadata": {"labels": {QUEUE_LABEL: queue}}}}}


def former_strategy(deployment: Object) -> dict[str, Any]:
    """The patch that brings its strategy back."""
    strategy = dict(mapping(at(deployment, ("spec", "strategy"))))
    if strategy.get("type") == "Recreate":
        strategy["rollingUpdate"] = None
    return {"spec": {"strategy": strategy}}


def patch_command(namespace: str, name: str, patch: Patch) -> str:
    """What a person types for it."""
    text = quote(json.dumps(patch, separators=(",", ":")))
    return f"kubectl patch deployment {name} -n {namespace} --type=merge -p {text}"


def read(api: Api, namespace: str, name: str) -> Object:
    """Raises Stopped for one that is not there."""
    found = api.get(DEPLOYMENTS, name, namespace)
    if found is None:
        raise Stopped(f'Deployment "{name}" is gone: somebody deleted it, and its pods with it', back=False)
    return found


def change(
    api: Api,
    namespace: str,
    name: str,
    patch: dict[str, Any],
    done: Callable[[Object], bool],
    check: Callable[[Object], None],
    waiting: Waiting,
    say: Callable[[str], None],
) -> tuple[Object, bool]:
    """The Deployment once it is as wanted, and whether it was written for that.

    It is read first, and left alone if it is `done`. `check` raises for a state in which it must not be written, and
    nobody can have made one of it meanwhile: what changed since is read and checked again. Whoever takes the change out
    again, as a webhook can, is found out by `done` too, of the answer. Raises Stopped and ApiError.
    """

    def attempt() -> tuple[Object, bool] | None:
        value = read(api, namespace, name)
        if done(value):
            return value, False
        check(value)
        body = {"metadata": {"resourceVersion": metadata(value).get("resourceVersion")}, **patch}
        try:
            return api.patch(DEPLOYMENTS, name, body, namespace), True
        except ApiError as error:
            if error.code != _CONFLICT:
                raise
            return None

    for _ in range(_ATTEMPTS):
        # A write that got no answer may have been taken: the next attempt reads first.
        found = waiting.patiently(attempt, say)
        if found is not None:
            return found
    raise Stopped(f'Deployment "{name}" is written by others all the time; run the command again')
