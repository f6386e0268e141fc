"""What `floorkeeper adopt` does with an API server: checks, plan, question; then one Deployment at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import typer

from webhook.engine.policy import Policy
from webhook.kube.objects import metadata, string
from webhook.kube.snapshot import Snapshot
from webhook.live.adopt.checks import NEEDS, Checked, Checks, check, undecided
from webhook.live.adopt.steps import Adoption
from webhook.live.adopt.target import Stage, Target
from webhook.live.adopt.words import arrived, plan, ways_back
from webhook.live.api import DEPLOYMENTS, Api, ApiError
from webhook.live.deployments import Stopped, read
from webhook.live.facts import read_facts, workloads_of
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
from webhook.live.waiting import Waiting, shown

_LOOKS = 3
"""At what was fine when the plan was made, and is not any more."""


def walk(
    api: Api,
    namespace: str,
    wanted: Mapping[str, str],
    policy: Policy,
    waiting: Waiting,
    *,
    yes: bool = False,
    dry_run: bool = False,
    let_wait: bool = False,
) -> None:
    """`wanted` has the LocalQueue of each Deployment. Returns when all are adopted, and raises Exit for all else."""
    run = _Run(namespace, policy, waiting, let_wait)
    with interruptible(run.where):
        try:
            targets = _targets(api, namespace, wanted)
            snapshot = read_facts(api, namespace, NEEDS)
            unknown = undecided(snapshot)
            if unknown:
                raise refused(f"cannot check anything: {'; '.join(unknown)}; nothing was written", NOT_SEEN)
            _require_queues(namespace, targets, snapshot)
            # What the walk is to look at has to be readable before anybody says yes.
            follower = Follower(api, namespace, workloads_of(api), waiting, say)
            sights = {each.name: follower.look(each.name) for each in targets}
            checks = check(api, namespace, targets, snapshot, policy, may_wait=let_wait, sights=sights)
        except (ApiError, Stopped) as error:
            raise refused(f"{error}; nothing was written", NOT_SEEN) from None
        for line in plan(namespace, checks, shown(waiting.timeout)):
            say(line)
        _decide(checks, namespace, yes=yes, dry_run=dry_run)
        run.adopt(follower, checks)


def _targets(api: Api, namespace: str, wanted: Mapping[str, str]) -> list[Target]:
    """Raises Exit for a Deployment that is not there, and ApiError."""
    found, missing = [], []
    for name, queue in wanted.items():
        value = api.get(DEPLOYMENTS, name, namespace)
        if value is None:
            missing.append(name)
        else:
            found.append(Target(name, queue, value))
    if missing:
        there = sorted(string(metadata(each).get("name")) for each in api.items(DEPLOYMENTS, namespace))
        if not there:
            require_namespace(api, namespace)
        raise absent("Deployment", missing, namespace, there)
    return found


def _require_queues(namespace: str, targets: Sequence[Target], snapshot: Snapshot) -> None:
    """Raises Exit for a LocalQueue that is not there."""
    there = snapshot.local_queues(namespace)
    missing = sorted({each.queue for each in targets} - set(there))
    if missing:
        raise absent("LocalQueue", missing, namespace, there)


def _decide(checks: Checks, namespace: str, *, yes: bool, dry_run: bool) -> None:
    """Goes on only where all is well and somebody wants it."""
    if checks.problems:
        raise refused("see the problems above; nothing was written", NOT_REACHED)
    if not checks.left:
        if any(each.unknown for each in checks.each):
            say("All are adopted. Not everything could be looked at: see 'not evaluated' above.")
            raise typer.Exit(NOT_SEEN)
        say(f"All are adopted: nothing to do. To look closer: floorkeeper verify -n {namespace}")
        raise typer.Exit
    if dry_run:
        # The writes themselves were tried by the API server when the plan was made.
        if checks.unknown:
            say("Dry run: nothing was written. Not everything could be looked at: see 'not evaluated' above.")
            raise typer.Exit(NOT_SEEN)
        say("Dry run: the API server takes these writes; nothing was written.")
        raise typer.Exit
    if checks.unknown:
        say("Not everything could be looked at: see 'not evaluated' above.")
    if not asked("Go on?", yes=yes, what="adopting"):
        say("Nothing was written.")
        raise typer.Exit(NOT_REACHED)


class _Run:
    """Which Deployments are done, and what is to be said when one is not."""

    def __init__(self, namespace: str, policy: Policy, waiting: Waiting, let_wait: bool) -> None:
        self._namespace = namespace
        self._policy = policy
        self._waiting = waiting
        self._let_wait = let_wait
        self._done: list[str] = []
        self._halted: list[str] = []
        """Whose rollout stopped for want of quota, as --let-wait takes it."""

        self._adoption: Adoption | None = None

    def where(self) -> str:
        """For whoever cut it off."""
        if self._adoption is None:
            return NOTHING_WRITTEN
        parts = [f"adopted: {', '.join(self._done)}"] if self._done else []
        parts += [f"in mid-rollout, until quota is free: {', '.join(self._halted)}"] if self._halted else []
        if self._adoption.name not in (*self._done, *self._halted):
            parts.append(f"{self._adoption.name}: {self._adoption.step}")
        return f"{'; '.join(parts)}. Run the same command again to go on."

    def adopt(self, follower: Follower, checks: Checks) -> None:
        for each in checks.left:
            adoption = self._adoption = Adoption(follower, each.target.name, each.target.queue, self._let_wait)
            try:
                self._check_again(follower.api, each.target)
                sight = adoption.run()
            except (Stopped, ApiError) as error:
                say(f"stopped: {error}")
                if not isinstance(error, Stopped) or error.back:
                    self._say_ways_back(each, adoption)
                raise typer.Exit(NOT_REACHED) from None
            if sight.rollout.old:
                self._halted.append(each.target.name)
            else:
                self._done.append(each.target.name)
            say(arrived(each.target, sight))
        parts = [f"Adopted: {', '.join(self._done)}."] if self._done else []
        parts += [f"In mid-rollout, until quota is free: {', '.join(self._halted)}."] if self._halted else []
        say(
            f"{' '.join(parts)} Put label and strategy into their manifests as well, or the next apply may take them "
            f"back. Next: floorkeeper verify -n {self._namespace}"
        )

    def _check_again(self, api: Api, target: Target) -> None:
        """Quota may have gone since the plan was made: to other models, or while somebody thought about it."""
        problems: list[str] = []
        for _ in range(_LOOKS):
            value = read(api, self._namespace, target.name)
            snapshot = read_facts(api, self._namespace, NEEDS)
            unknown = undecided(snapshot)
            now = Target(target.name, target.queue, value)
            problems = (
                unknown or check(api, self._namespace, [now], snapshot, self._policy, may_wait=self._let_wait).problems
            )
            if not problems:
                return
            # Kueue writes what its queues hold a moment later.
            self._waiting.sleep(self._waiting.pause)
        raise Stopped(f'Deployment "{target.name}": no longer as it was planned: {"; ".join(problems)}')

    def _say_ways_back(self, each: Checked, adoption: Adoption) -> None:
        former = each.target.deployment if each.target.stage is Stage.NEW else None
        say(f"{adoption.name}: {adoption.step}.")
        for line in ways_back(self._namespace, adoption.name, former, touched=adoption.touched):
            say(line)
