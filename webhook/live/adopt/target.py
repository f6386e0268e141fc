"""A Deployment that is to be adopted, and how far it is already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from webhook.kube.kinds import controller
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, at, deleting, metadata, string
from webhook.live.deployments import is_recreated, own_queue, surges, template_queue
from webhook.live.rollout import replicas, rollout_of


class Stage(StrEnum):
    """What is still to be done, from here on."""

    NEW = "new"
    LABELLED = "labelled"
    """The label is on its template, and the rollout by it is not finished, or its strategy surges."""

    ADOPTED = "adopted"


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    queue: str
    deployment: Object

    @property
    def stage(self) -> Stage:
        if template_queue(self.deployment) != self.queue:
            return Stage.NEW
        done = rollout_of(self.deployment).finished and not surges(self.deployment)
        return Stage.ADOPTED if done else Stage.LABELLED


def obstacles(name: str, queue: str, deployment: Object) -> Iterator[str]:
    """Why its pod template must not be written now, each with what to do. They are asked again before each write."""
    labelled, own = template_queue(deployment), own_queue(deployment)
    home = string(metadata(deployment).get("namespace"))
    if deleting(deployment):
        yield "it is being deleted: nothing to do, or create it again with the label"
        return
    if own and own != queue:
        yield (
            f"its Deployment-level label names {own}, and Kueue writes that one over the template's; it cannot be "
            f"changed while a replica is ready, nor removed: create the Deployment again, with {queue} on both"
        )
    elif labelled and labelled != queue:
        yield (
            f"it is in queue {labelled} already: take it out first (floorkeeper release {name} -n {home}), or name "
            f"{labelled}"
        )
    if at(deployment, ("spec", "paused")) is True:
        yield f"it is paused, so no label reaches a pod: kubectl rollout resume deployment/{name} -n {home}"
    if is_recreated(deployment) and replicas(deployment) > 1 and not labelled:
        yield (
            f"its strategy is Recreate: the label would take all {replicas(deployment)} replicas down at once; set "
            "spec.strategy.type to RollingUpdate first"
        )


def unsettled(name: str, deployment: Object) -> str:
    """What to do about a rollout of somebody else's that is not over, '' if there is none, as far as its status is of
    now."""
    rollout, home = rollout_of(deployment), string(metadata(deployment).get("namespace"))
    if rollout.replaced or not rollout.seen:
        return ""
    return (
        f"a rollout that is not ours is under way ({rollout.updated} of {rollout.wanted} updated, {rollout.old} old, "
        f"{rollout.ready} ready): wait for it, or take it back (kubectl rollout undo deployment/{name} -n {home})"
    )


def remarks(deployment: Object) -> Iterator[str]:
    """What is worth knowing, and keeps nothing from going on."""
    rollout = rollout_of(deployment)
    if rollout.wanted == 0:
        yield "it has no replicas: nothing restarts, and the first one that comes is in the queue"
    elif rollout.ready < rollout.wanted:
        yield f"{rollout.ready} of {rollout.wanted} replicas are ready before it begins"
    if is_recreated(deployment) and rollout.wanted <= 1:
        yield "its strategy is Recreate, and stays: the one replica goes before the new one comes"
    owner = controller(deployment)
    if owner is not None:
        yield f'it is controlled by {owner.kind} "{owner.name}", which may write its own template back: label it there'
    if own_queue(deployment):
        yield f"it has the Deployment-level label {QUEUE_LABEL}, which cannot be removed again"
