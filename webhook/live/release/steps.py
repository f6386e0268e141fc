"""The steps by which Deployments leave their queues. Each begins by looking, so a run that was cut off goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, metadata, string
from webhook.live.api import DEPLOYMENTS, PODS, REPLICA_SETS, Api, ApiError
from webhook.live.deployments import (
    Stopped,
    change,
    keeps_pace,
    own_queue,
    set_strategy,
    strategy_in_words,
    template_queue,
    with_queue,
    with_strategy,
)
from webhook.live.following import Follower, Sight
from webhook.live.pods import owners
from webhook.live.release.target import Target, obstacles, one_way, targets
from webhook.live.rollout import rollout_of
from webhook.live.waiting import passes, shown


def read_targets(api: Api, namespace: str) -> list[Target]:
    """All Deployments of a namespace."""
    return targets(
        list(api.items(DEPLOYMENTS, namespace)),
        list(api.items(REPLICA_SETS, namespace)),
        api.items(PODS, namespace, QUEUE_LABEL),
    )


def put_back(api: Api, namespace: str, deployment: Object) -> tuple[str, bool]:
    """Why the writes would not do (tried with a dry run), '' if they would; and whether at_warn may help.

    Raises ApiError where nothing can be said: the API server does not answer, or a webhook takes no dry run.
    """
    patch = with_queue(None)
    if not keeps_pace(deployment):
        patch["spec"] |= with_strategy()["spec"]
    try:
        stored = api.patch(DEPLOYMENTS, string(metadata(deployment).get("name")), patch, namespace, dry_run=True)
    except ApiError as error:
        if passes(error) or (error.code == 400 and "dry run" in str(error)):
            raise
        return str(error), _is_ours(error)
    queue = template_queue(stored)
    if queue:
        return f"a webhook puts its label back: {queue}", True
    return ("", False) if keeps_pace(stored) else (f"a webhook writes its strategy: {strategy_in_words(stored)}", False)


def _is_ours(error: ApiError) -> bool:
    return "floorkeeper.io" in str(error)


def at_warn(namespace: str) -> Iterator[str]:
    """What lets labels go in a whole namespace, in lines."""
    yield "where that webhook is Floorkeeper's, the namespace is managed at deny; hold it at warn, and run this again:"
    yield f"  kubectl annotate namespace {namespace} floorkeeper.io/mode=warn --overwrite"
    yield "or take it out of the policy's managedNamespaces (by default: the label floorkeeper.io/managed)"


_NO_GPU = ". No GPU is free for it: scale another model down, and it goes on by itself"
_ROUNDS = 5
"""How often somebody else may get in between the strategy and the label."""


class _Again(Exception):
    """Somebody else's change came in between."""


@dataclass(slots=True)
class Leaving:
    """Of one Deployment."""

    follower: Follower
    name: str
    here: bool = True
    """Whether it is in a queue, or on its way out of one."""

    step: str = field(default="nothing of it is written", init=False)
    """Where it stands, for whoever cuts it off."""

    touched: bool = field(default=False, init=False)
    """Whether its label may be off."""

    def run(self) -> Sight:
        """Raises Stopped and ApiError."""
        self._write()
        followed = self.follower.follow(self.name, settled=lambda _: False)
        sight = followed.sight
        if template_queue(sight.deployment):
            raise Stopped(
                f'Deployment "{self.name}": its label is {template_queue(sight.deployment)} again: somebody else '
                "writes its template (a GitOps tool, helm, an operator); take it off there",
                back=False,
            )
        if followed.late:
            raise Stopped(f'Deployment "{self.name}": {followed.late}: {sight.words}{self._way_on(sight)}')
        return sight

    def _write(self) -> None:
        for _ in range(_ROUNDS):
            self.step = "its strategy may be set, which restarts nothing"
            value = set_strategy(
                self.follower.api,
                self.follower.namespace,
                self.name,
                self._check,
                self.follower.waiting,
                self.follower.say,
                unless=self._lets_be,
            )
            if template_queue(value):
                self.step = "its strategy is set, which restarts nothing"
            try:
                self._take_label()
            except _Again:
                continue
            return
        raise Stopped(f'Deployment "{self.name}": somebody else changes its strategy all the time')

    def _lets_be(self, value: Object) -> bool:
        """Whether its strategy does not matter any more."""
        return not template_queue(value) and (rollout_of(value).finished or not self.here)

    def _take_label(self) -> None:
        follower = self.follower

        def done(value: Object) -> bool:
            return not template_queue(value)

        def check(value: Object) -> None:
            self._check(value)
            if not keeps_pace(value):
                raise _Again

        self.touched, self.step = True, "its label may be off; if so, its rollout goes on by itself"
        try:
            value, written = change(
                follower.api,
                follower.namespace,
                self.name,
                with_queue(None),
                done,
                check,
                follower.waiting,
                follower.say,
            )
        except ApiError as error:
            if not _is_ours(error):
                raise
            raise self._put_back(str(error)) from None
        if not done(value):
            raise self._put_back(f"a webhook put the label back: {template_queue(value)}")
        if own_queue(value):
            raise Stopped(f'Deployment "{self.name}": {one_way(value)}', back=False)
        self.step = "its label is off, and its rollout goes on by itself"
        if written:
            follower.say(f"{self.name}: label taken off")

    def _check(self, value: Object) -> None:
        for text in obstacles(self.name, value):
            raise Stopped(f'Deployment "{self.name}": {text}')

    def _put_back(self, why: str) -> Stopped:
        remedy = "".join(f"\n  {line}" for line in at_warn(self.follower.namespace))
        self.touched, self.step = False, "its label is on, as it was"
        return Stopped(f'Deployment "{self.name}": {why}{remedy}')

    def _way_on(self, sight: Sight) -> str:
        if not any(pod.reason.startswith("not scheduled") and "Insufficient" in pod.reason for pod in sight.waiting):
            return ""
        ready = sight.rollout.ready
        if not ready:
            return _NO_GPU
        return (
            f"{_NO_GPU}; or do with fewer: kubectl scale deployment/{self.name} -n {self.follower.namespace} "
            f"--replicas={ready} (and its autoscaler's minimum), then run this again"
        )


@dataclass(slots=True)
class Clearing:
    """Waiting until nothing of some Deployments is left in a queue."""

    follower: Follower
    names: frozenset[str]

    def run(self, tell: Callable[[str], None]) -> None:
        """Until no pod of them has the label, and no Workload is left of such a pod or of one that is gone: Kueue takes
        its finalizer off last. Raises Stopped and ApiError."""
        waiting = self.follower.waiting
        best, since, told = -1, waiting.clock(), ""
        while True:
            left = waiting.patiently(self.left, self.follower.say)
            if not left:
                return
            text = f"waiting for {len(left)} to go: {', '.join(left[:3])}{' …' if len(left) > 3 else ''}"
            if text != told:
                tell(text)
                told = text
            if best < 0 or len(left) < best:
                best, since = len(left), waiting.clock()
            elif waiting.clock() - since >= waiting.timeout:
                raise Stopped(
                    f"{', '.join(left)}: not gone after {shown(waiting.timeout)}. Kueue takes the finalizer "
                    "kueue.x-k8s.io/resource-in-use off once a pod is gone: see that its controller runs, and try again"
                )
            waiting.sleep(waiting.pause)

    def left(self) -> list[str]:
        """'Pod x', 'Workload y'."""
        follower = self.follower
        found = [each for each in read_targets(follower.api, follower.namespace) if each.name in self.names]
        own = {_uid(pod): string(metadata(pod).get("name")) for each in found for pod in each.pods}
        left = [f"Pod {name}" for name in sorted(own.values())]
        if follower.workloads is None:
            return left
        # Pods come after Workloads, so that no Workload of a new pod seems to be without it.
        of_kueue = list(follower.api.items(follower.workloads, follower.namespace))
        there = {_uid(pod) for pod in follower.api.items(PODS, follower.namespace)}
        for workload in of_kueue:
            of_pods = set(owners(workload, "Pod"))
            if of_pods and (of_pods & own.keys() or not of_pods & there):
                left.append(f"Workload {string(metadata(workload).get('name'))}")
        return left


def _uid(pod: Object) -> str:
    return string(metadata(pod).get("uid"))
