"""The plan, and the ways back, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.kube.names import QUEUE_LABEL
from webhook.kube.objects import Object
from webhook.live.adopt.checks import Checked, Checks, held_outside
from webhook.live.adopt.said import Said
from webhook.live.adopt.target import Stage, Target
from webhook.live.deployments import PACE, former_strategy, keeps_pace, patch_command, strategy_in_words, with_queue
from webhook.live.following import Sight
from webhook.live.rollout import replicas, rollout_of


def plan(namespace: str, checks: Checks, timeout: str) -> Iterator[str]:
    concerned, shared = checks.concerned, list(_lines(checks.shared))
    for each in checks.each:
        yield from _of(each, timeout, hindered=bool(checks.shared.problems) and each in concerned)
        yield ""
    if concerned and shared:
        yield f"Namespace {namespace}, for {', '.join(each.target.name for each in concerned)}"
        yield from shared
        yield ""


def _lines(said: Said) -> Iterator[str]:
    yield from (f"  problem: {text}" for text in said.problems)
    yield from (f"  warn: {text}" for text in said.remarks)
    yield from (f"  {text}" for text in said.unknown)


def _of(each: Checked, timeout: str, *, hindered: bool) -> Iterator[str]:
    """`hindered`: something else keeps it from being adopted."""
    target = each.target
    queue = f', ClusterQueue "{each.cluster_queue.name}"' if each.cluster_queue is not None else ""
    yield f'Deployment "{target.name}" -> LocalQueue "{target.queue}"{queue}'
    if target.stage is Stage.ADOPTED:
        if not each.problems:
            yield "  is adopted already: nothing to do"
        yield from _lines(each)
        return
    if not (hindered or each.problems):
        yield from (f"  {number}. {text}" for number, text in enumerate(_steps(each, timeout), 1))
        yield from (f"  quota: {text}" for text in _quota(each))
        yield from (f"  meanwhile: {text}" for text in _meanwhile(each))
    yield from _lines(each)


def _steps(each: Checked, timeout: str) -> Iterator[str]:
    target, deployment = each.target, each.target.deployment
    count = replicas(deployment)
    was = strategy_in_words(deployment)
    if keeps_pace(deployment):
        yield f"its strategy stays: {was}"
    else:
        yield f"set its strategy: {PACE} (is {was}); this restarts nothing"
    if target.stage is Stage.NEW:
        restarts = (
            f"this restarts its {count} replicas, one at a time, never fewer than {count - 1} ready"
            if count > 1
            else "this restarts its one replica, which is away until the new one is ready"
            if count
            else "it has no replicas to restart"
        )
        yield f"label its pod template: {QUEUE_LABEL}={target.queue}; {restarts}"
    else:
        rollout = rollout_of(deployment)
        yield f"its label is set, and {rollout.updated} of {rollout.wanted} replicas are updated: go on from there"
    yield f"follow the rollout, for {timeout} at the most without a further replica ready"


def _quota(each: Checked) -> Iterator[str]:
    room, count = each.room, replicas(each.target.deployment)
    if room is None or each.cluster_queue is None:
        return
    parts = [f"{room.floor} from its own floor"] if room.floor else []
    if room.borrowed:
        parts.append(f"{room.borrowed} borrowed from its cohort, which peers may take back")
    if room.waiting:
        parts.append(f"{room.waiting} waiting, gated")
    yield f"{room.admitted} of {count} replicas are admitted ({', '.join(parts) or 'none'})"
    if room.reclaimed:
        yield f"for {room.reclaimed} of them Kueue preempts replicas of peers that borrow its floor now"


def _meanwhile(each: Checked) -> Iterator[str]:
    held = held_outside(each)
    if held:
        yield (
            f"until each replica is replaced it holds GPUs that no queue counts ({held} now): Kueue may lend them to a "
            "peer, whose pod then finds no node and waits unscheduled, not gated"
        )


def arrived(target: Target, sight: Sight) -> str:
    """How one of them ended."""
    rollout = sight.rollout
    gated = f", {len(sight.gated)} gated: {sight.gated[0].reason}" if sight.gated else ""
    if not rollout.old:
        return f"{target.name}: adopted: {rollout.ready} of {rollout.wanted} ready in {target.queue}{gated}"
    still = (
        "1 is as it was, and no queue counts it"
        if rollout.old == 1
        else (f"{rollout.old} are as they were, and no queue counts them")
    )
    return (
        f"{target.name}: its rollout stops there, as --let-wait takes it: {rollout.ready} of {rollout.wanted} ready, "
        f"of which {still}{gated}; it goes on by itself once quota is free"
    )


def ways_back(namespace: str, name: str, former: Object | None, *, touched: bool) -> Iterator[str]:
    """Commands that bring a Deployment back to where it was; `former` is what it was before this run wrote it.

    `touched`: its template may have the label.
    """
    yield "To go on once that is mended, run the same command again. To go back:"
    if touched:
        yield f"  floorkeeper release {name} -n {namespace}"
        yield "which takes the label off and rolls its replicas once more, as this does by hand:"
        yield f"  {patch_command(namespace, name, with_queue(None))}"
    else:
        yield "its template is untouched, and no replica was restarted."
    if former is not None and not keeps_pace(former):
        yield "Its strategy can stay as it is now; this brings back what it was:"
        yield f"  {patch_command(namespace, name, former_strategy(former))}"
