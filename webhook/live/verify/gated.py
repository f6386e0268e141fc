"""Pods that Kueue holds back: rightly only where all that they need is quota that others have for now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from webhook.capacity.balance import balance_of
from webhook.engine.policy import Policy
from webhook.kube.counted_pod import counted_pod
from webhook.kube.flavor_fit import label_keys, ruled_out
from webhook.kube.objects import Object, at, deleting, mapping, string
from webhook.kube.quantity import show
from webhook.kube.quota_facts import ClusterQueueFact, ResourceGroup
from webhook.kube.snapshot import FactsMissing
from webhook.live.pods import NO_WORKLOAD, NOT_LOOKED_AT, SEE_KUEUE, Pod, condition, holds, is_part
from webhook.live.verify.assertion import Assertion, some
from webhook.live.verify.line import Line
from webhook.live.verify.world import NOTHING_QUEUED, World

_PREEMPTING = "Pending the preemption"
"""In the words of Kueue, where it has made others go, and waits until they are gone."""


class _Unclear(Exception):
    """Whether it waits rightly cannot be said yet. The message is why."""


def gated_beyond_budget(world: World, policy: Policy) -> Assertion:
    found = Assertion("gated-beyond-budget", "pods are gated only beyond the budget, each with its reason")
    if world.lacks(found, "pods", "workloads"):
        return found
    if world.empty:
        found.unknown.append(NOTHING_QUEUED)
        return found
    gated = [pod for pod in world.queued if pod.gated and not is_part(pod.value)]
    judge = _Judge(world, policy)
    wrong: dict[str, list[str]] = {}
    unclear: dict[str, list[str]] = {}
    rightly: Counter[tuple[str, str]] = Counter()
    for pod in gated:
        try:
            why = judge.wrong(pod)
        except (FactsMissing, _Unclear) as error:
            unclear.setdefault(f"whether it waits rightly: {error}", []).append(pod.name)
            continue
        if why:
            wrong.setdefault(why, []).append(pod.name)
        else:
            rightly[pod.queue, judge.reason(pod)] += 1
    found.failures += (f"{some(names)}: {why}" for why, names in wrong.items())
    found.unknown += (f"{some(names)}: {why}" for why, names in unclear.items())
    found.evidence += (f"{count} gated in {queue}: {reason}" for (queue, reason), count in sorted(rightly.items()))
    ready = sum(pod.ready for pod in world.queued)
    found.evidence.append(f"{len(gated)} gated, {ready} ready")
    return found


class _Judge:
    def __init__(self, world: World, policy: Policy) -> None:
        self._world = world
        self._policy = policy
        self._line = Line(world)
        self._behind: dict[str, str] = {}
        self._by_workload: dict[str, list[Pod]] = {}
        for pod in world.queued:
            self._by_workload.setdefault(pod.workload, []).append(pod)

    def reason(self, pod: Pod) -> str:
        """Why one waits that waits rightly."""
        return self._behind.get(pod.workload, pod.reason)

    def wrong(self, pod: Pod) -> str:
        """Why it should not wait, or would wait for ever, and what to do; '' if it waits for quota of others. Raises
        FactsMissing and _Unclear."""
        problem = self._queue_problem(pod.queue)
        if problem:
            return f"gated, and nothing lets it go: {problem}"
        if not pod.workload:
            return f"gated, and {NO_WORKLOAD}: {SEE_KUEUE}"
        workload = self._world.of_owner[pod.uid]
        if at(workload, ("spec", "active")) is False:
            return f"gated, and nothing lets it go: Workload {pod.workload} is off: set its spec.active to true"
        if holds(workload, "QuotaReserved"):
            if holds(workload, "Admitted"):
                return f"gated, though its Workload is admitted: {SEE_KUEUE}"
            raise _Unclear(f"{pod.reason}; look again once these are done")
        queue = self._queue_of(pod.queue)
        requests = self._requests(pod)
        never = self._never(pod, queue, requests)
        if never:
            return f"gated, and nothing lets it go: {never}"
        if queue.holds(requests):
            return self._with_room(pod, queue, requests)
        if pod.reason == NOT_LOOKED_AT and not self._stands_behind(pod, queue):
            raise _Unclear(f"{pod.reason}: look again; if it is so still, {SEE_KUEUE}")
        return ""

    def _with_room(self, pod: Pod, queue: ClusterQueueFact, requests: Mapping[str, int]) -> str:
        if self._stands_behind(pod, queue):
            return ""
        if _PREEMPTING in pod.reason:
            raise _Unclear(f"{pod.reason}; look again once they are gone")
        if self._line.others(queue.name):
            raise _Unclear(
                f'ClusterQueue "{queue.name}" is StrictFIFO, and pods of other namespaces may stand before it'
            )
        left = [
            f"{show(amount - queue.reserved.get((flavor, resource), 0))} of {show(amount)} {resource}"
            for (flavor, resource), amount in sorted(queue.nominal.items())
            if requests.get(resource)
        ]
        return f'gated although ClusterQueue "{queue.name}" has {", ".join(left)} of its own floor left: {pod.reason}'

    def _stands_behind(self, pod: Pod, queue: ClusterQueueFact) -> bool:
        first = self._line.before(pod.workload, queue.name)
        if first:
            self._behind[pod.workload] = f"stands behind others in ClusterQueue {queue.name} (StrictFIFO)"
        return first

    # Queues

    def _queue_problem(self, name: str) -> str:
        """What keeps a LocalQueue from ever letting anything go, and what to do; '' if nothing does."""
        world = self._world
        local = world.snapshot.local_queue(world.namespace, name)
        if local is None:
            return f'there is no LocalQueue "{name}" in namespace {world.namespace}: create it, or correct the label'
        if local.stopped:
            return _stopped("LocalQueue", name, world.local_queue(name))
        of = local.cluster_queue
        queue = world.snapshot.cluster_queue(of)
        if queue is None:
            return f'LocalQueue "{name}" leads to ClusterQueue "{of}", which does not exist: create it'
        if queue.stopped:
            return _stopped("ClusterQueue", of, world.cluster_queues.get(of, {}))
        home = world.snapshot.namespace(world.namespace)
        if home is not None and not queue.takes(home.name, home.labels):
            return f'ClusterQueue "{of}" takes nothing from namespace {home.name}: see its namespaceSelector'
        return ""

    def _queue_of(self, name: str) -> ClusterQueueFact:
        """Of a LocalQueue without a problem."""
        local = self._world.snapshot.local_queue(self._world.namespace, name)
        queue = self._world.snapshot.cluster_queue(local.cluster_queue) if local is not None else None
        if queue is None:
            raise _Unclear(f'LocalQueue "{name}" leads nowhere')
        return queue

    # Requests

    def _requests(self, pod: Pod) -> dict[str, int]:
        """What Kueue counts for all pods of its Workload, in billionths by resource."""
        found: dict[str, int] = {}
        for each in self._together(pod):
            template = self._world.template(each.value, self._policy)
            counts = None
            if template is not None:
                counts = counted_pod(template, each.queue, self._world.namespace, self._world.snapshot)
            if counts is None:
                raise _Unclear(f"Kueue's configuration leaves such pods out: {SEE_KUEUE}")
            undeclared = not counts.configuration.checks_undeclared
            for resource, amount in counts.requests.items():
                if amount and (counts.cluster_queue.covers(resource) or not undeclared):
                    found[resource] = found.get(resource, 0) + amount
        return found

    def _together(self, pod: Pod) -> list[Pod]:
        return self._by_workload[pod.workload]

    def _never(self, pod: Pod, queue: ClusterQueueFact, requests: Mapping[str, int]) -> str:
        """What of its requests its queue can never give, and what to do; '' if it can give all of them at times."""
        snapshot = self._world.snapshot
        snapshot.require({"ClusterQueue", "Cohort", "ResourceFlavor"})
        for resource in sorted(requests):
            if not queue.covers(resource):
                return (
                    f'it asks for {resource}, which ClusterQueue "{queue.name}" does not cover: add it there, or take '
                    "it out"
                )
        for group in queue.groups:
            asked = {resource: amount for resource, amount in requests.items() if resource in group.covered}
            if not asked:
                continue
            flavors = self._flavors(pod, group)
            if not flavors:
                return f'no flavor of ClusterQueue "{queue.name}" is for its node selector, affinity and tolerations'
            most = [self._most(queue.name, flavor, asked) for flavor in flavors]
            if len(self._together(pod)) > 1:
                # Its pods need not all have the same flavor.
                most = [{resource: sum(each[resource] for each in most) for resource in asked}]
            if not any(all(amount <= each[resource] for resource, amount in asked.items()) for each in most):
                resource = max(asked, key=lambda each: asked[each] - max(one[each] for one in most))
                at_most = show(max(each[resource] for each in most))
                return (
                    f'it asks for {show(asked[resource])} {resource}, and ClusterQueue "{queue.name}" can have '
                    f"{at_most} at the most, borrowed quota included: ask for less, or raise its quota"
                )
        return ""

    def _flavors(self, pod: Pod, group: ResourceGroup) -> list[str]:
        """Those of a group that Kueue may give to the pod."""
        facts = {name: self._world.snapshot.flavor(name) for name in group.flavors}
        keys = label_keys(fact for fact in facts.values() if fact is not None)
        spec = mapping(pod.value.get("spec"))
        return [name for name, fact in facts.items() if fact is not None and not ruled_out(spec, fact, keys)]

    def _most(self, queue: str, flavor: str, asked: Mapping[str, int]) -> dict[str, int]:
        """The most that a ClusterQueue can ever have of a flavor; nothing where its Cohorts go round in a circle."""
        balance = balance_of(self._world.snapshot, self._policy.capacity, self._policy.accelerators)
        return {resource: balance.potential(queue, flavor, resource) or 0 for resource in asked}


def _stopped(kind: str, name: str, value: Object) -> str:
    policy = string(at(value, ("spec", "stopPolicy")))
    if policy not in ("", "None"):
        return f'{kind} "{name}" is stopped (stopPolicy {policy}): set that to None'
    if deleting(value):
        return f'{kind} "{name}" is being deleted: create another, or take its finalizers\' reason away'
    said = string(condition(value, "Active").get("message")) or "it says no more"
    return f'{kind} "{name}" is not Active: {said}: mend that'
