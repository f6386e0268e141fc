"""Assertions about the pods of a namespace: each is there, is counted once, and who was preempted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from webhook.kube.objects import Object, at, deleting, mapping, metadata, string
from webhook.live.pods import SEE_KUEUE, condition, holds, is_part, owners
from webhook.live.verify.assertion import Assertion, some
from webhook.live.verify.world import NOTHING_QUEUED, World, workloads_with_replicas

_MOST_EVENTS = 10


def pods_made(world: World) -> Assertion:
    found = Assertion("pods-made", "what asks for a queue has its pods")
    world.lacks(found, "deployments", "stateful_sets", "replica_sets", "pods")
    asking = [each for each in workloads_with_replicas(world) if _replicas(each)]
    for value in asking:
        _look_at(world, value, found)
    if not asking and not found.unknown:
        if world.empty:
            found.unknown.append(f"{NOTHING_QUEUED}; adopt a Deployment first (floorkeeper adopt)")
        else:
            found.evidence.append("no Deployment, StatefulSet or ReplicaSet asks for a queue")
    return found


def _look_at(world: World, value: Object, found: Assertion) -> None:
    kind, name = string(value.get("kind")), string(metadata(value).get("name"))
    wanted, there = _replicas(value), at(value, ("status", "replicas"))
    there = there if isinstance(there, int) else 0
    text = f'{kind} "{name}": {there} of {wanted} pods'
    if at(value, ("status", "observedGeneration")) != metadata(value).get("generation"):
        found.unknown.append(f"{text}: its controller has not seen its last change; look again")
        return
    if there >= wanted:
        found.evidence.append(text)
        return
    own = [pod for pod in world.pods if any(maker.kind == kind and maker.name == name for maker in world.makers(pod))]
    refused = condition(value, "ReplicaFailure")
    if refused.get("status") == "True":
        said = " ".join(string(refused.get("message")).split()) or string(refused.get("reason"))
        found.failures.append(f"{text}: {said}; mend what refuses them, or scale it down")
    elif any(map(deleting, own)):
        found.unknown.append(f"{text}: some are going still; look again")
    elif kind == "StatefulSet" and own and at(value, ("spec", "podManagementPolicy")) != "Parallel":
        found.evidence.append(f"{text}: it makes the next one once the one before is ready")
    else:
        why = f"kubectl describe {kind.lower()} {name} -n {world.namespace}"
        found.failures.append(f"{text}: see its events for what keeps it from making them ({why})")


def _replicas(value: Object) -> int:
    found = at(value, ("spec", "replicas"))
    return found if isinstance(found, int) else 1


def one_workload_each(world: World) -> Assertion:
    found = Assertion(
        "one-workload-each", "each pod in a queue has one Workload, and no Workload is left without its pod"
    )
    if world.lacks(found, "pods", "workloads"):
        return found
    if world.empty:
        found.unknown.append(NOTHING_QUEUED)
        return found
    counted = Counter(uid for workload in world.workloads for uid in owners(workload, "Pod"))
    pods = [pod for pod in world.queued if not is_part(pod.value)]
    uncounted = [pod.name for pod in pods if not counted[pod.uid] and not pod.workload]
    for pod in world.queued:
        if is_part(pod.value):
            is_counted = world.counted(pod.value)
            if is_counted is None:
                found.unknown.append(f"{pod.name}: whether what made it has a Workload cannot be seen")
            elif not is_counted:
                uncounted.append(pod.name)
    if uncounted:
        found.failures.append(
            f"{some(uncounted)}: the label is there and no Workload, so no queue counts it: {SEE_KUEUE}; restart it"
        )
    twice = [pod.name for pod in pods if counted[pod.uid] > 1]
    if twice:
        found.failures.append(f"{some(twice)}: has more than one Workload, and is counted twice: restart it")
    there = {string(metadata(pod).get("uid")) for pod in world.pods}
    left = sorted(_left_behind(world, there))
    if left:
        found.failures.append(
            f"Workload {some(left)}: its pod is gone, and it still holds its finalizer and maybe quota: see that "
            "Kueue's controller runs"
        )
    of_pods = sum(any(True for _ in owners(workload, "Pod")) for workload in world.workloads)
    found.evidence.append(f"{len(pods)} pods in queues, {of_pods} Workloads of pods")
    return found


def _left_behind(world: World, there: set[str]) -> Iterator[str]:
    for workload in world.workloads:
        of_pods = set(owners(workload, "Pod"))
        if of_pods and not of_pods & there and not holds(workload, "Finished"):
            yield string(metadata(workload).get("name"))


def preemptions(world: World) -> Assertion:
    found = Assertion("preemptions", "preemptions are told, with both sides")
    if world.lacks(found, "events"):
        return found
    for event in sorted(world.events, key=_time)[-_MOST_EVENTS:]:
        involved = mapping(event.get("involvedObject"))
        said = " ".join(string(event.get("message")).split())
        found.evidence.append(f"{_time(event)} {string(involved.get('kind'))} {string(involved.get('name'))}: {said}")
    if not world.events:
        found.evidence.append("none, as far back as events are kept (an hour, by default)")
    return found


def _time(event: Object) -> str:
    times = (string(event.get("lastTimestamp")), string(event.get("eventTime")))
    return next(filter(None, times), string(at(event, ("metadata", "creationTimestamp"))))
