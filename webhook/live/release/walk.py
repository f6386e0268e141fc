"""What `floorkeeper release` does with an API server: label off, rollout, Workloads gone; only then are queues free."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import typer

from webhook.kube.names import QUEUE_LABEL
from webhook.kube.snapshot import FactsMissing
from webhook.live.api import Api, ApiError, NotAllowed, Resource
from webhook.live.deployments import (
    PACE,
    Stopped,
    former_strategy,
    keeps_pace,
    patch_command,
    strategy_in_words,
    with_queue,
)
from webhook.live.facts import read_facts, resource_of, workloads_of
from webhook.live.following import Follower
from webhook.live.options import (
    NOT_REACHED,
    NOT_SEEN,
    NOTHING_WRITTEN,
    absent,
    asked,
    interruptible,
    refused,
    require_namespace,
    say,
)
from webhook.live.release.peers import waiting_peers
from webhook.live.release.queues import KINDS, queues_of, words
from webhook.live.release.steps import Clearing, Leaving, at_warn, put_back, read_targets
from webhook.live.release.target import Stage, Target, gated_replicas, obstacles, one_way, remarks
from webhook.live.rollout import replicas, rollout_of
from webhook.live.waiting import Waiting, shown


def walk(
    api: Api,
    namespace: str,
    names: set[str],
    waiting: Waiting,
    *,
    yes: bool = False,
    dry_run: bool = False,
    let_wait: bool = False,
) -> None:
    """Of the Deployments with these names or, without any, of all that are in a queue. Returns when all are out, and
    raises Exit for all else. `let_wait`: although something waits for quota."""
    run = _Run(namespace, waiting)
    with interruptible(run.where):
        try:
            there = read_targets(api, namespace)
            if not there:
                require_namespace(api, namespace)
            found = _chosen(there, names, namespace)
            workloads = workloads_of(api)
            # What the walk is to look at has to be readable before anybody says yes.
            follower = Follower(api, namespace, workloads, waiting, say)
            for each in found[:1]:
                follower.look(each.name)
            plan = _Plan(api, namespace, shown(waiting.timeout), let_wait=let_wait)
            plan.show(found, named=bool(names))
        except (ApiError, Stopped) as error:
            raise refused(f"{error}; nothing was written", NOT_SEEN) from None
        if plan.problems:
            raise refused("see the problems above; nothing was written", NOT_REACHED)
        if dry_run:
            say("Dry run: the API server takes these writes; nothing was written.")
            if any(one_way(each.deployment) for each in found):
                raise typer.Exit(NOT_REACHED)
            if plan.unseen:
                raise typer.Exit(NOT_SEEN)
            return
        todo = [each for each in found if each.stage is not Stage.OUT and not one_way(each.deployment)]
        if todo and not asked("Go on?", yes=yes, what="releasing"):
            say("Nothing was written.")
            raise typer.Exit(NOT_REACHED)
        run.release(follower, todo, found, everything=not names)


def _chosen(found: Sequence[Target], names: set[str], namespace: str) -> list[Target]:
    """Those that are named or, without names, those that are in a queue or on their way out."""
    if not names:
        return [each for each in found if each.is_here]
    missing = sorted(names - {each.name for each in found})
    if missing:
        raise absent("Deployment", missing, namespace, [each.name for each in found])
    return [each for each in found if each.name in names]


class _Plan:
    """What is to be done, as it is shown. `problems` keep it from being done; `unseen`: something could not be looked
    at."""

    def __init__(self, api: Api, namespace: str, timeout: str, *, let_wait: bool) -> None:
        self.problems = self.unseen = False
        self._api = api
        self._namespace = namespace
        self._timeout = timeout
        self._let_wait = let_wait
        self._held: list[str] = []

    def show(self, found: Sequence[Target], *, named: bool) -> None:
        """Raises ApiError."""
        for target in found:
            stuck = one_way(target.deployment)
            queues = ", ".join(target.queues)
            say(f'Deployment "{target.name}"' + (f" <- LocalQueue {queues}" if queues else ""))
            if stuck and not named:
                say(f"  cannot be undone: {stuck}")
            elif target.stage is Stage.OUT:
                say("  is in no queue: nothing to do")
            else:
                self._show(target)
        if not found:
            say(f"No Deployment of namespace {self._namespace} is in a queue.")
        self._show_shared(
            [each for each in found if each.stage is Stage.QUEUED and not one_way(each.deployment)], found
        )

    def _show(self, target: Target) -> None:
        said = list(obstacles(target.name, target.deployment))
        notes = list(remarks(target))
        if not said and target.stage is Stage.QUEUED:
            try:
                back, may_go = put_back(self._api, self._namespace, target.deployment)
                said += [back] if back else []
                self._held += [target.name] if may_go else []
            except ApiError as error:
                if error.code != 400:
                    raise
                notes.append(f"whether a webhook puts the label back: not evaluated: {error}")
                self.unseen = True
        gated = gated_replicas(target)
        # In the middle of a rollout they are of those that had a GPU before it.
        if gated and not self._let_wait and rollout_of(target.deployment).replaced:
            said.append(f"{gated}, or give --let-wait")
        elif gated:
            notes.append(gated)
        for text in said:
            self._problem(text)
        if not said:
            for number, text in enumerate(_steps(target, self._timeout), 1):
                say(f"  {number}. {text}")
        for text in notes:
            say(f"  warn: {text}")

    def _show_shared(self, leaving: Sequence[Target], found: Sequence[Target]) -> None:
        """What holds for all that leave."""
        try:
            peers = list(waiting_peers(self._api, self._namespace, leaving, found))
            missing = ""
        except (FactsMissing, NotAllowed) as error:
            peers, missing = [], str(error)
        names = ", ".join(each.name for each in leaving)
        if peers or missing:
            say(f"Namespace {self._namespace}, for {names}")
        for text in peers:
            if self._let_wait:
                say(f"  warn: {text}")
            else:
                self._problem(f"{text}; or give --let-wait")
        if missing:
            say(f"  warn: whether something waits for what is given up: not evaluated: {missing}")
            self.unseen = True
        if self._held:
            say(f"Namespace {self._namespace}, for {', '.join(self._held)}")
            for line in at_warn(self._namespace):
                say(f"  {line}")

    def _problem(self, text: str) -> None:
        self.problems = True
        say(f"  problem: {text}")


def _steps(target: Target, timeout: str) -> list[str]:
    count, rollout = replicas(target.deployment), rollout_of(target.deployment)
    restarts = (
        f"this restarts its {count} replicas once more, one at a time, and no queue counts them any more"
        if count > 1
        else "this restarts its one replica once more, and no queue counts it any more"
        if count
        else "it has no replicas to restart"
    )
    was = strategy_in_words(target.deployment)
    paced = keeps_pace(target.deployment) or not target.is_here
    return [
        *([] if paced else [f"set its strategy: {PACE} (is {was}); this restarts nothing, and stays"]),
        f"take {QUEUE_LABEL} off its pod template; {restarts}"
        if target.stage is Stage.QUEUED
        else f"its label is off, and {rollout.updated} of {rollout.wanted} replicas are updated: go on from there",
        f"follow the rollout, for {timeout} at the most without a further replica ready",
        "wait until Kueue has let go of its Workloads (finalizer kueue.x-k8s.io/resource-in-use)",
    ]


def ways_back(namespace: str, target: Target, *, touched: bool) -> Iterator[str]:
    """Commands that bring a Deployment back to where it was. `touched`: its label may be off."""
    queue = next(iter(target.queues), "QUEUE")
    if touched:
        # In the middle of a rollout that is not its own adopt would not set a label.
        yield f"  {patch_command(namespace, target.name, with_queue(queue))}"
        yield f"  floorkeeper adopt {target.name} --queue {queue} -n {namespace}"
        yield "which puts the label back, and follows the rollout by it."
    else:
        yield "its label is on, and no replica was restarted."
    if not keeps_pace(target.deployment):
        yield "Its strategy can stay as it is now; this brings back what it was:"
        yield f"  {patch_command(namespace, target.name, former_strategy(target.deployment))}"


class _Run:
    """Which Deployments are out, and what is to be said when one is not."""

    def __init__(self, namespace: str, waiting: Waiting) -> None:
        self._namespace = namespace
        self._waiting = waiting
        self._done: list[str] = []
        self._step = ""
        self._leaving: Leaving | None = None
        self._unseen = False

    def where(self) -> str:
        """For whoever cut it off."""
        if self._step:
            return f"{self._step}. Run the same command again to go on."
        if self._leaving is None:
            return NOTHING_WRITTEN
        parts = [f"out of their queues: {', '.join(self._done)}"] if self._done else []
        if self._leaving.name not in self._done:
            parts.append(f"{self._leaving.name}: {self._leaving.step}")
        return f"{'; '.join(parts)}. Run the same command again to go on."

    def release(self, follower: Follower, todo: Sequence[Target], found: Sequence[Target], *, everything: bool) -> None:
        """`everything`: all queues of the namespace are told of, not only those that something leaves now."""
        try:
            for target in todo:
                leaving = self._leaving = Leaving(follower, target.name, target.is_here)
                sight = leaving.run()
                self._done.append(target.name)
                say(f"{target.name}: out of its queue: {sight.rollout.ready} of {sight.rollout.wanted} ready")
            self._step = "all labels are off; Kueue is about to let go of the last Workloads"
            Clearing(follower, frozenset(each.name for each in found if not one_way(each.deployment))).run(say)
        except (Stopped, ApiError) as error:
            say(f"stopped: {error}")
            if not isinstance(error, Stopped) or error.back:
                self._say_ways_back(todo)
            raise typer.Exit(NOT_REACHED) from None
        released = frozenset(queue for each in todo if each.is_here for queue in each.queues)
        if everything or released:
            self._tell_of_queues(follower.api, follower.workloads, None if everything else released)
        if self._done:
            say(
                "Take the label out of their manifests too, or the next apply brings it back. So does the next "
                "rollout, once the namespace is managed at deny: exempt those in the policy that are to stay out."
            )
        left = [each.name for each in found if one_way(each.deployment)]
        if left:
            say(f"Still in a queue, by a label that cannot be removed: {', '.join(left)}.")
            raise typer.Exit(NOT_REACHED)
        if self._unseen:
            raise typer.Exit(NOT_SEEN)

    def _say_ways_back(self, todo: Sequence[Target]) -> None:
        if self._step or self._leaving is None:
            say("Run the same command again to go on.")
            return
        leaving = self._leaving
        say(f"{leaving.name}: {leaving.step}.")
        say("To go on once that is mended, run the same command again. To go back:")
        target = next(each for each in todo if each.name == leaving.name)
        for line in ways_back(self._namespace, target, touched=leaving.touched):
            say(line)

    def _tell_of_queues(self, api: Api, workloads: Resource | None, only: Collection[str] | None) -> None:
        try:
            snapshot = read_facts(api, self._namespace, KINDS)
            local_queues = resource_of(api, "LocalQueue")
            handles = [] if local_queues is None else list(api.items(local_queues))
            queues = queues_of(api, self._namespace, workloads, handles, snapshot, only)
        except ApiError as error:
            say(f"All are out of their queues. Which queues are free to delete could not be looked at: {error}")
            raise typer.Exit(NOT_SEEN) from None
        for line in words(self._namespace, queues):
            say(line)
        self._unseen = self._unseen or bool(queues.unknown)
