"""Pods with accelerators that no queue counts."""

from __future__ import annotations

from collections import Counter
from datetime import date

from webhook.engine.policy import Exemption, Policy
from webhook.kube.names import POD_SET_LABEL, QUEUE_LABEL
from webhook.kube.objects import deleting, label, metadata, string
from webhook.kube.pods import PodTemplate
from webhook.live.verify.assertion import Assertion, some
from webhook.live.verify.world import Maker, World

_ADVICE = {
    "Deployment": "floorkeeper adopt {name} --queue QUEUE -n {namespace}",
    "CronJob": f"put the label {QUEUE_LABEL} on its jobTemplate",
    "Job": f"create it again with the label {QUEUE_LABEL}",
    "Pod": f"create it again with the label {QUEUE_LABEL}",
    "DaemonSet": "it cannot wait in a queue: keep it off the GPUs, or exempt it",
    "StatefulSet": f"put the label {QUEUE_LABEL} on its pod template",
    "ReplicaSet": f"put the label {QUEUE_LABEL} on its pod template, and delete its pods one by one",
    "ReplicationController": f"put the label {QUEUE_LABEL} on its pod template, and delete its pods one by one",
}
_ELSE = f"give it the label {QUEUE_LABEL}, where floorkeeper explain missing-queue-name says"


def none_outside(world: World, policy: Policy, today: date) -> Assertion:
    found = Assertion("none-outside", "no pod with accelerators is outside of a queue")
    if world.lacks(found, "pods"):
        return found
    outside: Counter[Maker] = Counter()
    exempt: Counter[tuple[str, str, str]] = Counter()
    unseen: dict[str, list[str]] = {}
    for pod in world.pods:
        template = world.template(pod, policy)
        if deleting(pod) or label(pod, QUEUE_LABEL) or template is None:
            continue
        why = _unseen(template) if not template.asks else ""
        counted = world.counted(pod) if label(pod, POD_SET_LABEL) else False
        if counted or not (template.asks or why):
            continue
        name = string(metadata(pod).get("name"))
        makers = [Maker("", "Pod", name), *world.makers(pod)]
        exemption = _exemption(world, policy, makers, today)
        if exemption is not None:
            exempt[makers[-1].kind, makers[-1].name, exemption.reason] += 1
        elif why:
            unseen.setdefault(f"whether it has accelerators: {why}", []).append(name)
        elif counted is None:
            unseen.setdefault("whether a Workload counts what made it cannot be seen", []).append(name)
        else:
            outside[makers[-1]] += 1
    found.failures += _told(outside, world.namespace)
    found.unknown += (f"{some(names)}: {why}" for why, names in sorted(unseen.items()))
    found.evidence += (
        f"{kind} {name} is exempt ({_pods(count)}): {reason}" for (kind, name, reason), count in sorted(exempt.items())
    )
    if not outside and not unseen:
        found.evidence.append("none found")
    return found


def _exemption(world: World, policy: Policy, makers: list[Maker], today: date) -> Exemption | None:
    """By the name of the pod, or of whatever made it."""
    found = (policy.exemption("", frozenset(), world.namespace, maker.name, today) for maker in makers)
    return next((each for each in found if each is not None), None)


def _unseen(template: PodTemplate) -> str:
    """Why nobody knows what its resource claims come to, '' if that is known."""
    for claim in template.claims:
        if claim.unknown is not None:
            return str(claim.unknown)
        if claim.fact is None:
            return f'{claim.kind} "{claim.name}", which it names, is not there'
    return ""


def _told(outside: Counter[Maker], namespace: str) -> list[str]:
    """One line for each that is adopted by a command of its own, and one for all that are told the same."""
    told: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for maker, count in sorted(outside.items()):
        advice = _ADVICE.get(maker.kind, _ELSE).format(name=maker.name, namespace=namespace)
        told.setdefault((maker.kind, advice), []).append((maker.name, count))
    return [
        f"{kind} {some(name for name, _ in each)}: {_pods(sum(count for _, count in each))} with accelerators that no "
        f"queue counts; {advice}"
        for (kind, advice), each in told.items()
    ]


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"
