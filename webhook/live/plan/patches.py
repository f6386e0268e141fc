"""A plan as patches, for kubectl or for the API server.

spec.resourceGroups and the flavors in it are atomic lists (Kueue 0.17): whoever writes one floor by a merge patch or by
server-side apply writes all of them, and only a JSON patch can name one and say what it was. No documents for kubectl
apply: with --server-side too it makes the fields of an earlier kubectl apply its own and drops those that the document
leaves out, so that a ClusterQueue loses its Cohort (kubectl 1.36, tried).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import yaml

from webhook.capacity.write import quota_path
from webhook.kube.objects import Object, at, metadata
from webhook.live.plan.state import QUOTA_KINDS, State, Target
from webhook.live.plan.steps import Plan, Step

NOT_TRIED = "not evaluated: whether the API server takes these steps"

_HEAD = """\
# {count}, in the order in which none is denied: make each of them only if the one before it was made.
# Each document is a JSON patch, for `kubectl patch --type=json --patch-file`; the command above it has it inline.
# A patch fails, and changes nothing, if the floor is not any more what it was when this was written.
# Not for `kubectl apply`, which would drop what is not in a document.
# Change the floors at their source too (Git, a chart), or its next apply brings the old ones back.
"""


def merge_patch(step: Step, value: Object) -> dict[str, Any]:
    """The JSON merge patch that makes the step of exactly this version of the object."""
    changed = step.applied_to(value)
    version = metadata(value).get("resourceVersion")
    return {"metadata": {"resourceVersion": version}, "spec": {"resourceGroups": changed["spec"]["resourceGroups"]}}


def json_patch(step: Step, value: Object) -> list[dict[str, Any]]:
    """Fails unless each floor is where it was, and what it was."""
    operations: list[dict[str, Any]] = []
    for move in step.moves:
        path = quota_path(value, move.flavor, move.resource)
        changed = step.applied_to(value)
        tests = [(*path[:-3], "name"), (*path[:-1], "name"), path]
        operations += ({"op": "test", "path": pointer(each), "value": at(value, each)} for each in tests)
        operations.append({"op": "replace", "path": pointer(path), "value": at(changed, path)})
    return operations


def yaml_patches(state: State, plan: Plan) -> str:
    """A document for each step in the order of the plan, and in comments how to use them."""
    steps = list(with_objects(state, plan))
    if not steps:
        return "# Every floor is as wanted: there is nothing to do.\n"
    text = _HEAD.format(count="1 step" if len(steps) == 1 else f"{len(steps)} steps")
    for reason in plan.untried:
        text += "".join(f"# {line}\n" for line in f"{NOT_TRIED}: {reason}".splitlines())
    for number, (step, value) in enumerate(steps, 1):
        patch = json_patch(step, value)
        text += f"---\n# {number}. {step}\n# {_command(step, value, patch)}\n{yaml.safe_dump(patch, sort_keys=False)}"
    return text


def with_objects(state: State, plan: Plan) -> Iterator[tuple[Step, Object]]:
    """Each step with the object as it is just before it."""
    objects: dict[Target, Object] = dict(state.objects)
    for planned in plan.steps:
        step = planned.step
        yield step, objects[step.target]
        objects[step.target] = step.applied_to(objects[step.target])


def _command(step: Step, value: Object, patch: list[dict[str, Any]]) -> str:
    return f"kubectl patch {resource_name(step, value)} {step.name} --type=json -p {shlex.quote(json.dumps(patch))}"


def resource_name(step: Step, value: Object) -> str:
    """As kubectl takes it: clusterqueues.kueue.x-k8s.io."""
    return f"{QUOTA_KINDS[step.kind].resource}.{str(value['apiVersion']).partition('/')[0]}"


def pointer(path: tuple[str | int, ...]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
