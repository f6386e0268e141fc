"""The steps by which one Deployment joins its queue. Each begins by looking, so a run that was cut off goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object, at
from webhook.live.adopt.target import obstacles, unsettled
from webhook.live.deployments import (
    Stopped,
    change,
    keeps_pace,
    set_strategy,
    surges,
    template_queue,
    with_queue,
)
from webhook.live.following import Follower, Sight
from webhook.live.pods import uncounted
from webhook.live.rollout import rollout_of

_GOES_ON = "its rollout goes on by itself, one replica at a time"
_LABELLED = f"its label is set, and {_GOES_ON}"
_ROUNDS = 5
"""How often somebody else may get in between the strategy and the label."""
_STILL = 5.0
"""Seconds for which nothing moves where a rollout is said to have stopped for want of quota."""


class _Again(Exception):
    """Somebody else's change came in between."""


@dataclass(slots=True)
class Adoption:
    """Of one Deployment. `may_wait` takes replicas that stay gated, and a rollout that stops for them."""

    follower: Follower
    name: str
    queue: str
    may_wait: bool = False
    step: str = field(default="nothing of it is written", init=False)
    """Where it stands, for whoever cuts it off."""

    touched: bool = field(default=False, init=False)
    """Whether its template may have the label."""

    _refused: tuple[frozenset[str], float] = field(default=(frozenset(), 0.0), init=False)
    """The pods for which Kueue has no quota, and since when these are the only ones that are not ready."""

    @property
    def say(self) -> Callable[[str], None]:
        return self.follower.say

    def run(self) -> Sight:
        """Raises Stopped for what does not become ready or must not be written, and ApiError."""
        before = self.follower.look(self.name)
        if template_queue(before.deployment) != self.queue:
            self._write()
        elif not before.rollout.finished or surges(before.deployment):
            # It may have been labelled without, and then waits behind a surge pod for ever.
            self._set_strategy()
        self.touched, self.step = True, _LABELLED
        return self._follow(before)

    def _write(self) -> None:
        for _ in range(_ROUNDS):
            self._set_strategy()
            self._settle()
            try:
                self._set_label()
            except _Again:
                continue
            return
        raise Stopped(f'Deployment "{self.name}": somebody else changes its strategy or template all the time')

    def _set_strategy(self) -> None:
        follower = self.follower
        self.step = "its strategy may be set, which restarts nothing"
        set_strategy(follower.api, follower.namespace, self.name, self._check, follower.waiting, follower.say)
        self.step = "its strategy is set, which restarts nothing"

    def _settle(self) -> None:
        """Until the Deployment controller has seen the strategy, and no rollout of somebody else's is under way."""
        followed = self.follower.follow(self.name, settled=lambda sight: sight.rollout.replaced)
        if followed.late:
            said = (
                unsettled(self.name, followed.sight.deployment) or "the Deployment controller has not seen its strategy"
            )
            raise Stopped(f'Deployment "{self.name}": {said}')

    def _set_label(self) -> None:
        def check(value: Object) -> None:
            self._check(value)
            if not (rollout_of(value).replaced and keeps_pace(value)):
                raise _Again

        def done(value: Object) -> bool:
            return template_queue(value) == self.queue

        self.touched, self.step = True, f"its label may be set; if so, {_GOES_ON}"
        value, written = self._change(with_queue(self.queue), done, check)
        if not done(value):
            raise Stopped(
                f'Deployment "{self.name}": the label was not taken, is {template_queue(value) or "absent"}: a webhook '
                "of the cluster changes it"
            )
        self.step = _LABELLED
        if written:
            self.say(f"{self.name}: label set: {QUEUE_LABEL}={self.queue}")

    def _follow(self, before: Sight) -> Sight:
        least = before.rollout.wanted

        def settled(sight: Sight) -> bool:
            """Replicas that an autoscaler added meanwhile may wait, and so may those that were said to."""
            queued = all(pod.gated and pod.workload for pod in sight.waiting)
            if sight.rollout.replaced and queued and sight.rollout.ready >= least:
                return True
            return self.may_wait and sight.rollout.ready >= max(1, least - 1) and self._stays(sight)

        followed = self.follower.follow(self.name, settled=settled)
        sight = followed.sight
        if template_queue(sight.deployment) != self.queue:
            raise Stopped(
                f'Deployment "{self.name}": its label is {template_queue(sight.deployment) or "gone"} again: somebody '
                "else writes its template (a GitOps tool, helm), and its replicas follow that; put the label there",
                back=False,
            )
        if followed.late:
            home = self.follower.namespace
            paused = f"it is paused: kubectl rollout resume deployment/{self.name} -n {home}"
            why = paused if at(sight.deployment, ("spec", "paused")) is True else sight.words
            raise Stopped(f'Deployment "{self.name}": {followed.late}: {why}')
        inert = uncounted(sight.pods)
        if inert:
            raise Stopped(f'Deployment "{self.name}": {inert}')
        return sight

    def _stays(self, sight: Sight) -> bool:
        """Whether all that are not ready wait for quota, and have done so for a while."""
        now, names = self.follower.waiting.clock(), frozenset(pod.name for pod in sight.waiting)
        if not names or not sight.rollout.seen or not all(pod.refused for pod in sight.waiting):
            names = frozenset()
        if names != self._refused[0]:
            self._refused = names, now
        return bool(names) and now - self._refused[1] >= _STILL

    def _check(self, value: Object) -> None:
        for text in obstacles(self.name, self.queue, value):
            raise Stopped(f'Deployment "{self.name}": {text}')

    def _change(
        self, patch: dict[str, object], done: Callable[[Object], bool], check: Callable[[Object], None]
    ) -> tuple[Object, bool]:
        follower = self.follower
        return change(follower.api, follower.namespace, self.name, patch, done, check, follower.waiting, follower.say)
