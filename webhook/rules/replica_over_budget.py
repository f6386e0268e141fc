"""One replica fits what its queue can ever get.

Kueue admits a replica whole, with all resources of one resourceGroup from one flavor, and never adds flavors up. A
replica that asks for more than that can never be admitted, however long it waits. What a ClusterQueue can get is its
own quota and what its cohort can lend it while nobody else uses any, with every borrowingLimit and lendingLimit up to
the root of the tree.

Only flavors count that Kueue may give to the pod: those whose nodeTaints its tolerations or the flavor's tolerate, and
whose nodeLabels agree with its nodeSelector and required node affinity, as far as these name labels of the group's
flavors. Each resource is counted as Kueue counts it, LimitRange defaults and RuntimeClass overhead included.

Not evaluated: where only a flavor that does not exist yet could hold the replica, where the parents of its cohort go
round in a circle, and where Kueue's own configuration cannot be read. The API server may give pods a toleration for the
accelerator that they ask for (its plugin ExtendedResourceToleration): where all depends on that, this only warns.

Guide: step 2, Define the GPU Budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from webhook.capacity.balance import Balance, balance_of
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.counted_pod import CountedPod, counted_pod
from webhook.kube.flavor_fit import Toleration, label_keys, ruled_out
from webhook.kube.kinds import WORKLOADS
from webhook.kube.quota_facts import ResourceGroup
from webhook.kube.request_source import show_amount, source_of
from webhook.kube.snapshot import FactsMissing, Snapshot

_NOTHING: Mapping[str, int] = {}


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    for template in subject.templates:
        pod = counted_pod(template, template.queue or subject.queue, subject.namespace, snapshot)
        if pod is None:
            continue
        if pod.cluster_queue.cohort:
            snapshot.cohort(pod.cluster_queue.cohort)  # raises FactsMissing where Cohorts are not known
        balance = balance_of(snapshot, policy.capacity, policy.accelerators)
        for group in pod.cluster_queue.groups:
            asked = {resource: pod.requests[resource] for resource in sorted(group.covered & pod.requests.keys())}
            if asked:
                yield from _judge(pod, group, asked, snapshot, balance)


@dataclass(slots=True)
class _Flavors:
    """The flavors of one group, seen by one pod."""

    fits: bool = False
    missing: str = ""
    """One that does not exist and whose quota would hold the pod."""

    short: dict[str, dict[str, int]] = field(default_factory=dict)
    """By flavor: the resources of which it can never give enough, and what it can give (billionths)."""

    ruled_out: dict[str, str] = field(default_factory=dict)
    """By flavor: what keeps the pod from it."""


def _flavors(
    pod: CountedPod,
    group: ResourceGroup,
    asked: Mapping[str, int],
    snapshot: Snapshot,
    balance: Balance,
    tolerations: tuple[Toleration, ...] = (),
) -> _Flavors:
    facts = {name: snapshot.flavor(name) for name in group.flavors}
    keys = label_keys(fact for fact in facts.values() if fact is not None)
    found = _Flavors()
    for name, fact in facts.items():
        reason = "" if fact is None else ruled_out(pod.template.spec, fact, keys, tolerations)
        if reason:
            found.ruled_out[name] = reason
            continue
        gives = {resource: _potential(pod, name, resource, balance) for resource in asked}
        short = {resource: amount for resource, amount in gives.items() if amount < asked[resource]}
        if short:
            found.short[name] = short
        elif fact is None:
            found.missing = name
        else:
            found.fits = True
            break
    return found


def _potential(pod: CountedPod, flavor: str, resource: str, balance: Balance) -> int:
    most = balance.potential(pod.cluster_queue.name, flavor, resource)
    if most is None:
        raise FactsMissing("Cohort", f"the parents of {pod.cluster_queue.cohort} go round in a circle")
    return most


def _judge(
    pod: CountedPod, group: ResourceGroup, asked: Mapping[str, int], snapshot: Snapshot, balance: Balance
) -> Iterator[Violation]:
    flavors = _flavors(pod, group, asked, snapshot, balance)
    if flavors.fits:
        return
    if flavors.missing:
        raise FactsMissing("ResourceFlavor", f"{flavors.missing} does not exist yet")
    advice = _flavors(pod, group, asked, snapshot, balance, _added_tolerations(pod)).fits
    queue = pod.cluster_queue
    out = [f"{name} is ruled out by {reason}" for name, reason in flavors.ruled_out.items()]
    if not flavors.short:
        yield Violation(
            (*pod.template.path, "spec"),
            must=f'must be let onto a flavor of ClusterQueue "{queue.name}" for {", ".join(asked)}',
            actual=f"let onto none: {', '.join(out) or 'it has none'}",
            fix="select nodes by labels that one of them has, and tolerate its taints: else no pod is admitted",
            advice=advice,
            identity=(pod.template.path, *sorted(group.covered)),
        )
        return
    resource = next(iter(next(iter(flavors.short.values()))))
    some = {resource: amount for resource, amount in asked.items() if amount}
    gives = [f"{name} gives at most {_show(short, some)}" for name, short in flavors.short.items()]
    quota = "nominalQuota, its borrowingLimit or what its cohort lends" if queue.cohort else "nominalQuota"
    let_in = ", or let it onto another flavor" if out else ""
    yield Violation(
        source_of(resource, pod, snapshot).path,
        must=f'must fit what ClusterQueue "{queue.name}" can ever get in one flavor',
        actual=f"{_show(some)} per replica: {', '.join((*gives, *out))}",
        fix=f"ask for less, or raise the queue's {quota}{let_in}: else no pod is admitted",
        advice=advice,
        identity=(pod.template.path, resource),
        weight=asked[resource],
    )


def _added_tolerations(pod: CountedPod) -> tuple[Toleration, ...]:
    """What the plugin ExtendedResourceToleration gives the pod, where the API server runs it."""
    extended = (resource for resource in pod.template.totals() if "/" in resource)
    return tuple({"key": resource, "operator": "Exists", "effect": "NoSchedule"} for resource in extended)


def _show(amounts: Mapping[str, int], beside: Mapping[str, int] = _NOTHING) -> str:
    """'16 nvidia.com/gpu and 64Gi memory', or the amount alone where `beside` it stands what it is of."""
    if len(beside) == 1:
        return " and ".join(show_amount(resource, amount) for resource, amount in amounts.items())
    return " and ".join(f"{show_amount(resource, amount)} {resource}" for resource, amount in amounts.items())


RULE = Rule(
    id="replica-over-budget",
    mode=Mode.DENY,
    kinds=WORKLOADS,
    check=check,
    needs=frozenset(
        {
            "Namespace",
            "LocalQueue",
            "ClusterQueue",
            "Cohort",
            "ResourceFlavor",
            "LimitRange",
            "RuntimeClass",
            "ConfigMap",
        }
    ),
    page=__doc__,
)
