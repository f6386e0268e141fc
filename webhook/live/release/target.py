"""A Deployment that is to leave its queue, and how far it is already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from webhook.kube.kinds import controller
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, at, deleting, label, mapping, metadata, string
from webhook.kube.selector import LabelSelector, label_selector
from webhook.live.deployments import is_recreated, own_queue, template_queue
from webhook.live.pods import condition, is_gated
from webhook.live.rollout import replicas, rollout_of

_REVISION = "deployment.kubernetes.io/revision"
"""Annotation of ReplicaSets: the higher, the newer."""

_ROLLED_OUT = "NewReplicaSetAvailable"
"""Reason of a Deployment's condition Progressing once a rollout is over. It stays when replicas are added later."""


class Stage(StrEnum):
    """What is still to be done, from here on."""

    QUEUED = "queued"
    ROLLING = "rolling"
    """The label is off its template, and pods with it are still there, or the rollout is not over."""

    OUT = "out"


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    deployment: Object
    pods: Sequence[Object]
    """Those with a queue label, also while they terminate."""

    former: str = ""
    """The LocalQueue that it leaves by the rollout that is under way, '' if there is no such rollout."""

    @property
    def stage(self) -> Stage:
        if template_queue(self.deployment) or own_queue(self.deployment):
            return Stage.QUEUED
        return Stage.ROLLING if self.pods or not rollout_of(self.deployment).finished else Stage.OUT

    @property
    def is_here(self) -> bool:
        """Whether it is in a queue, or on its way out."""
        return self.stage is Stage.QUEUED or bool(self.pods or self.former)

    @property
    def queues(self) -> list[str]:
        """The LocalQueues that it is in or leaves, or still has pods in."""
        found = {template_queue(self.deployment), self.former, *(label(pod, QUEUE_LABEL) for pod in self.pods)}
        return sorted(found - {""})


def targets(deployments: Iterable[Object], replica_sets: Iterable[Object], pods: Iterable[Object]) -> list[Target]:
    """The Deployments with the pods of theirs that have a queue label, sorted by name."""
    named = {_name(each): each for each in deployments}
    of_set, sets = {}, dict[str, list[Object]]()
    for each in replica_sets:
        owner = controller(each)
        maker = owner.name if owner is not None and owner.kind == "Deployment" else ""
        of_set[_name(each)] = maker
        sets.setdefault(maker, []).append(each)
    selectors = {name: label_selector(mapping(at(each, ("spec", "selector")))) for name, each in named.items()}
    held: dict[str, list[Object]] = {}
    for pod in pods:
        owner = controller(pod)
        if label(pod, QUEUE_LABEL) and owner is not None and owner.kind == "ReplicaSet":
            # With revisionHistoryLimit 0 the ReplicaSet goes while its last pods still terminate.
            maker = of_set[owner.name] if owner.name in of_set else _selecting(selectors, pod)
            held.setdefault(maker, []).append(pod)
    return [
        Target(name, each, held.get(name, []), _former(each, sets.get(name, ())))
        for name, each in sorted(named.items())
    ]


def _selecting(selectors: Mapping[str, LabelSelector], pod: Object) -> str:
    """The Deployment whose pods have such labels, '' for none."""
    labels = {key: text for key, text in mapping(metadata(pod).get("labels")).items() if isinstance(text, str)}
    return next((name for name, selector in selectors.items() if selector.matches(labels)), "")


def _former(deployment: Object, replica_sets: Iterable[Object]) -> str:
    """Its last replica may be on its way to be ready when no pod with the label is left."""
    progress = condition(deployment, "Progressing").get("reason")
    rollout = rollout_of(deployment)
    if template_queue(deployment) or rollout.finished or (rollout.seen and progress == _ROLLED_OUT):
        return ""
    # The newest one is that of the template as it was, as long as the controller has not seen the change.
    newest = sorted(replica_sets, key=_revision, reverse=True)[:2]
    return next((queue for each in newest if (queue := template_queue(each))), "")


def _revision(replica_set: Object) -> int:
    text = string(mapping(metadata(replica_set).get("annotations")).get(_REVISION))
    return int(text) if text.isdecimal() else 0


def _name(value: Object) -> str:
    return string(metadata(value).get("name"))


def one_way(deployment: Object) -> str:
    """What cannot be undone, '' if all can."""
    own = own_queue(deployment)
    if not own:
        return ""
    return (
        f"its Deployment-level label names {own}, and Kueue refuses to have that removed: it stays in its queue; "
        "create the Deployment again without it"
    )


def obstacles(name: str, deployment: Object) -> Iterator[str]:
    """Why its label must not be taken off now, each with what to do. They are asked again before the write."""
    home = string(metadata(deployment).get("namespace"))
    if deleting(deployment):
        yield "it is being deleted, and its pods leave their queue with it: wait for that"
        return
    if one_way(deployment):
        yield one_way(deployment)
    if at(deployment, ("spec", "paused")) is True:
        yield f"it is paused, so its pods would keep the label: kubectl rollout resume deployment/{name} -n {home}"
    if is_recreated(deployment) and replicas(deployment) > 1:
        yield (
            f"its strategy is Recreate: all {replicas(deployment)} replicas would go down at once; set "
            "spec.strategy.type to RollingUpdate first"
        )


def remarks(target: Target) -> Iterator[str]:
    """What is worth knowing, and keeps nothing from going on."""
    deployment, rollout = target.deployment, rollout_of(target.deployment)
    if target.stage is Stage.QUEUED and not rollout.replaced:
        yield (
            f"a rollout is under way ({rollout.updated} of {rollout.wanted} updated): what it brings comes without the "
            "label, and nothing is taken back"
        )
    chosen = _nodes_by_kueue(target)
    if chosen:
        yield (
            f"Kueue chose its nodes by its flavor ({', '.join(chosen)}): without a queue its template alone does; set "
            "spec.template.spec.nodeSelector if it must stay there"
        )
    owner = controller(deployment)
    if owner is not None:
        yield f'it is controlled by {owner.kind} "{owner.name}", which may write the label back: take it off there'


def gated_replicas(target: Target) -> str:
    """What becomes of its replicas that wait, '' if none does."""
    gated = sum(map(is_gated, target.pods))
    if not gated:
        return ""
    return (
        f"{gated} of its replicas wait, gated: without the label each takes a GPU wherever one is free or, where none "
        "is, holds up the rollout; scale it down to what is ready first"
    )


def _nodes_by_kueue(target: Target) -> list[str]:
    """The node labels that its pods select and its template does not."""
    own = mapping(at(target.deployment, ("spec", "template", "spec", "nodeSelector")))
    found = {
        f"{key}={value}"
        for pod in target.pods
        for key, value in mapping(at(pod, ("spec", "nodeSelector"))).items()
        if key not in own
    }
    return sorted(found)
