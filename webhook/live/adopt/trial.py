"""Has the API server, with every webhook of the cluster, try what adopting brings, without storing it."""

from __future__ import annotations

import re
from typing import Any

from webhook.kube.objects import Object, at, mapping
from webhook.kube.quantity import QuantityError, parse
from webhook.live.adopt.said import Said
from webhook.live.adopt.target import Target
from webhook.live.api import DEPLOYMENTS, PODS, Api, ApiError, NotAllowed
from webhook.live.deployments import is_recreated, template_queue, with_queue, with_strategy
from webhook.live.rollout import rollout_of
from webhook.live.waiting import passes

_EXCEEDED = re.compile(r"exceeded quota: (?P<name>[^,]+), requested: .+, used: (?P<used>.+), limited: (?P<limited>.+)$")
"""As the API server's ResourceQuota admission says it; amounts are 'pods=3,requests.cpu=4'."""


def try_writes(api: Api, namespace: str, target: Target, said: Said) -> Object | None:
    """The pod template as it would be stored, None where it would not be, or nobody knows. Raises ApiError where the
    API server does not answer."""
    patch: dict[str, Any] = with_queue(target.queue)
    if not is_recreated(target.deployment):
        patch["spec"] |= with_strategy()["spec"]
    try:
        stored = api.patch(DEPLOYMENTS, target.name, patch, namespace, dry_run=True)
    except ApiError as error:
        if _tries_not(error):
            said.unknown.append(f"whether the API server takes the write: not evaluated: {error}")
            return None
        if passes(error):
            raise
        said.problems.append(f"the API server does not take it (tried with a dry run): {error}")
        return None
    queue = template_queue(stored)
    if queue != target.queue:
        said.problems.append(
            f"a webhook changes the label to {queue or 'none'} (tried with a dry run); see which queue it is given "
            "elsewhere: the Deployment's own label, a LocalQueue named default"
        )
        return None
    return mapping(at(stored, ("spec", "template")))


def try_pod(api: Api, namespace: str, target: Target, template: Object, said: Said) -> None:
    """Finds what refuses pods alone, as ResourceQuotas and PodSecurity do. Raises ApiError as `try_writes`."""
    own = mapping(template.get("metadata"))
    metadata = {key: own[key] for key in ("labels", "annotations", "finalizers") if key in own}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "generateName": f"{target.name}-", "namespace": namespace},
        "spec": template.get("spec"),
    }
    try:
        api.create(PODS, pod, namespace, dry_run=True)
    except ApiError as error:
        if isinstance(error, NotAllowed) or _tries_not(error):
            said.unknown.append(f"not evaluated: whether the API server takes its pods: {error}")
            return
        if passes(error):
            raise
        full = _has_room_for_one_less(str(error))
        if full and rollout_of(target.deployment).total:
            said.remarks.append(
                f'ResourceQuota "{full}" has no room for one pod more (tried with a dry run): each replica goes before '
                "its new one comes, and nobody else may take its room meanwhile"
            )
            return
        said.problems.append(f"the API server does not take its pods (tried with a dry run): {error}")


def _tries_not(error: ApiError) -> bool:
    """Whether a webhook knows no dry runs."""
    return error.code == 400 and "dry run" in str(error)


def _has_room_for_one_less(message: str) -> str:
    """The name of a ResourceQuota that holds what is there, if it is that which refuses one more; else ''."""
    found = _EXCEEDED.search(message)
    if found is None:
        return ""
    used, limited = _amounts(found["used"]), _amounts(found["limited"])
    return found["name"] if used and all(name in limited and used[name] <= limited[name] for name in used) else ""


def _amounts(text: str) -> dict[str, int]:
    """Billionths by resource, empty for what cannot be read."""
    pairs = [each.partition("=") for each in text.split(",")]
    try:
        return {name: parse(amount) for name, _, amount in pairs}
    except QuantityError:
        return {}
