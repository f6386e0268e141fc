"""Following the rollout of one Deployment, until it is finished or nothing comes of it any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from webhook.kube.objects import Object
from webhook.live.api import PODS, Api, Resource
from webhook.live.deployments import read
from webhook.live.pods import Pod, pods_of
from webhook.live.rollout import Rollout, pods_selected, rollout_of
from webhook.live.waiting import Waiting, shown

_MOST = 3  # reasons that are told at once


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look found."""

    deployment: Object
    rollout: Rollout
    pods: Sequence[Pod]

    @property
    def waiting(self) -> list[Pod]:
        """The pods that are not ready, and are there to stay."""
        return [pod for pod in self.pods if not pod.ready and not pod.leaving]

    @property
    def gated(self) -> list[Pod]:
        return [pod for pod in self.waiting if pod.gated]

    @property
    def words(self) -> str:
        """'2 of 3 updated, 2 ready, 1 gated (insufficient unused quota …)'."""
        rollout, waiting = self.rollout, self.waiting
        text = f"{rollout.updated} of {rollout.wanted} updated, {rollout.ready} ready"
        settling = rollout.ready - rollout.available
        if rollout.settling and settling > 0:
            text += f", {settling} of them not yet available (minReadySeconds {rollout.settling})"
        if self.gated:
            text += f", {len(self.gated)} gated"
        reasons = Counter(pod.reason for pod in waiting if pod.reason != "it is starting")
        told = [f"{count} × {reason}" if count > 1 else reason for reason, count in reasons.most_common(_MOST)]
        text += f" ({'; '.join(told)})" if told else ""
        return text + (f"; no pod comes: {rollout.failure}" if rollout.failure else "")


@dataclass(frozen=True, slots=True)
class Followed:
    """How it ended. `late` says why it was given up, '' if the rollout is finished."""

    sight: Sight
    late: str = ""


@dataclass(slots=True)
class Follower:
    """Of Deployments in one namespace. `workloads` is None where Kueue is not installed."""

    api: Api
    namespace: str
    workloads: Resource | None
    waiting: Waiting
    say: Callable[[str], None]
    _told: str = field(default="", init=False)

    def look(self, name: str) -> Sight:
        """Raises Stopped for a Deployment that is gone, and ApiError."""
        deployment = read(self.api, self.namespace, name)
        pods = list(self.api.items(PODS, self.namespace, pods_selected(deployment)))
        of_kueue = [] if self.workloads is None else list(self.api.items(self.workloads, self.namespace))
        return Sight(deployment, rollout_of(deployment), pods_of(pods, of_kueue))

    def follow(self, name: str, *, settled: Callable[[Sight], bool]) -> Followed:
        """Waits until the rollout is finished, or `settled` says that it will do as it is.

        Each further replica that becomes ready starts the time anew, and so does another number of replicas; that ends
        after as many times as there were replicas at most. Raises Stopped and ApiError.
        """
        clock, timeout = self.waiting.clock, self.waiting.timeout
        start = since = clock()
        best = peak = 0
        wanted = -1
        self._told = ""
        while True:
            sight = self.waiting.patiently(lambda: self.look(name), self.say)
            rollout = sight.rollout
            if rollout.finished or settled(sight):
                return Followed(sight)
            if rollout.seen:
                self._tell(name, sight.words)
            # Until the controller has seen the new template, all pods of the old one count as updated.
            progress = rollout.updated + rollout.available if rollout.seen else 0
            if progress > best or rollout.wanted != wanted:
                best, wanted, since = progress, rollout.wanted, clock()
                peak = max(peak, wanted)
            # Replicas that go up and down do not keep it here for ever.
            if clock() - since >= timeout or clock() - start >= timeout * (peak + 1):
                return Followed(sight, f"no further replica became ready within {shown(timeout)}")
            self.waiting.sleep(self.waiting.pause)

    def _tell(self, name: str, words: str) -> None:
        if words != self._told:
            self.say(f"{name}: {words}")
            self._told = words
