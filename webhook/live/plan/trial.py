"""What the API server says of the steps of a plan: each is tried by a dry run before the first one is written."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from webhook.capacity.write import quota_path
from webhook.kube.facts import PROJECTIONS
from webhook.kube.objects import Object, at
from webhook.kube.quantity import show
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact
from webhook.live.api import Api, ApiError, NotAllowed
from webhook.live.plan.patches import merge_patch, pointer, resource_name, with_objects
from webhook.live.plan.state import State
from webhook.live.plan.steps import Plan, Refused, Step

_OURS = 'admission webhook "floors.validate.floorkeeper.io" denied the request: '
_OF_ORDER = {"floors-exceed-capacity"}
_RULE = re.compile(r" \[([a-z-]+)\]$", re.MULTILINE)
_REFUSALS = (400, 403, 404, 413, 422)


def tried(api: Api, state: State, plan: Plan) -> Plan:
    """The plan with what the API server refuses of it, and with what could not be tried; nothing is written.

    A dry run meets the floors as they are now, whereas the order of the steps was judged by our own rules: what our own
    webhook says of the hardware counts for the first step alone.
    """
    rejected: list[Refused] = []
    untried: dict[str, None] = {}
    for number, (step, value) in enumerate(with_objects(state, plan)):
        # Without the version: a status that Kueue writes meanwhile is no matter here.
        body = {"spec": merge_patch(step, value)["spec"]}
        try:
            api.patch(state.resources[step.kind], step.name, body, dry_run=True)
        except ApiError as error:
            no_right = isinstance(error, NotAllowed)
            if no_right or error.code not in _REFUSALS or "does not support dry run" in str(error):
                untried[str(error)] = None
                if not error.code:  # the others would wait for an answer as long
                    break
            elif not (number and _is_of_order(error)):
                rejected.append(Refused(step, (str(error), *_helps(step, value))))
    return replace(plan, rejected=tuple(rejected), untried=tuple(untried))


def _is_of_order(error: ApiError) -> bool:
    return _OURS in str(error) and set(_RULE.findall(str(error))) == _OF_ORDER


def _helps(step: Step, value: Object) -> Iterator[str]:
    """Kueue lets no floor be below its lendingLimit (0.17)."""
    fact = PROJECTIONS[step.kind](value)
    assert isinstance(fact, ClusterQueueFact | CohortFact)
    patch = []
    for move in step.moves:
        if fact.lending.get(move.key, 0) > move.after:
            path = (*quota_path(value, move.flavor, move.resource)[:-1], "lendingLimit")
            patch.append({"op": "test", "path": pointer(path), "value": at(value, path)})
            patch.append({"op": "replace", "path": pointer(path), "value": show(move.after)})
    if patch:
        command = (
            f"kubectl patch {resource_name(step, value)} {step.name} --type=json -p {shlex.quote(json.dumps(patch))}"
        )
        yield "lower its lendingLimit first, which may not be above the floor:"
        yield command
