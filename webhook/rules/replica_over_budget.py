"""One replica, or what is admitted together, fits what its queue can ever get.

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

What is admitted as a whole has to fit as a whole: a group of a LeaderWorkerSet, all pods of a Job, a Ray cluster, a
training job. All pods of one template are in one flavor, and those of several templates may be in several. A Job that
can be admitted in part (kueue.x-k8s.io/job-min-parallelism) is judged by its least; no other kind has one.

Guide: step 2, Define the GPU Budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from webhook.capacity.balance import Balance, balance_of
from webhook.capacity.packing import fit_together
from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import counted_for, listed, queue_in_force
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.counted_pod import CountedPod
from webhook.kube.flavor_fit import Toleration, label_keys, ruled_out
from webhook.kube.kinds import WORKLOADS
from webhook.kube.objects import Path
from webhook.kube.pod_sets import PodSet
from webhook.kube.quota_facts import ResourceGroup
from webhook.kube.request_source import show_amount, source_of
from webhook.kube.snapshot import FactsMissing, Snapshot

_NOTHING: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class _Share:
    """Pods of one template that are admitted together, and what they ask of one resource group (billionths)."""

    pod: CountedPod
    group: ResourceGroup
    asked: Mapping[str, int]
    count: int
    what: str
    """'per replica', 'for 8 pods of "workers"'."""

    pods: PodSet


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    together: dict[tuple[str, ResourceGroup], list[_Share]] = {}
    # Where each pod has a label of its own, each can be in another flavor.
    splits = not subject.kind.labelled_whole
    seen: set[str] = set()
    for each in subject.pod_sets:
        queue = queue_in_force(subject, each.template, snapshot)
        pod = counted_for(subject, each.template, queue, snapshot)
        count = each.minimum if subject.kind.gang else 1
        if pod is None or count == 0:
            continue
        if pod.cluster_queue.cohort:
            snapshot.cohort(pod.cluster_queue.cohort)  # raises FactsMissing where Cohorts are not known
        balance = balance_of(snapshot, policy.capacity, policy.accelerators)
        shared = _shared(pod, seen)
        for group in pod.cluster_queue.groups:
            one = _asked(pod, group, shared, 1)
            if one:
                what = _what(each, count) if subject.kind.gang else "per replica"
                share = _Share(pod, group, _asked(pod, group, shared, count), count, what, each)
                alone = replace(share, asked=one, count=1, what="per replica") if splits and count > 1 else share
                violations = list(_judge(alone, snapshot, balance))
                yield from violations
                if not violations:
                    together.setdefault((pod.cluster_queue.name, group), []).append(share)
    for shares in together.values():
        if subject.kind.gang and (splits or len(shares) > 1):
            balance = balance_of(snapshot, policy.capacity, policy.accelerators)
            yield from _judge_gang(shares, splits, snapshot, balance)


def _shared(pod: CountedPod, seen: set[str]) -> dict[str, int]:
    """What the pods of all templates claim together, each claim once: where it is met first."""
    found: dict[str, int] = {}
    for name in sorted(pod.shared.keys() - seen):
        seen.add(name)
        for resource, amount in pod.shared[name].items():
            found[resource] = found.get(resource, 0) + amount
    return found


def _asked(pod: CountedPod, group: ResourceGroup, shared: Mapping[str, int], count: int) -> dict[str, int]:
    """What so many pods ask of a resource group."""
    resources = sorted(group.covered & (pod.requests.keys() | shared.keys()))
    return {name: pod.requests.get(name, 0) * count + shared.get(name, 0) for name in resources}


def _what(pods: PodSet, count: int) -> str:
    of = f' of "{pods.name}"' if pods.name else ""
    return f"for {_pods(count)}{of}"


def _container(pods: PodSet, path: Path) -> str:
    """Which container of several pods' it is, as far as it is not seen at once."""
    name = pods.container(path) if pods.where(path) else ""
    return f', container "{name}"' if name else ""


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


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


def _judge(share: _Share, snapshot: Snapshot, balance: Balance) -> Iterator[Violation]:
    pod, group, asked = share.pod, share.group, share.asked
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
            pod.template.spec_path,
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
    path = source_of(resource, pod, snapshot).path
    yield Violation(
        path,
        must=f'must fit what ClusterQueue "{queue.name}" can ever get in one flavor',
        actual=f"{_show(some)} {share.what}{_container(share.pods, path)}: {', '.join((*gives, *out))}",
        fix=f"ask for less, or raise the queue's {quota}{let_in}: else no pod is admitted",
        advice=advice,
        identity=(pod.template.path, resource),
        weight=asked[resource],
    )


def _judge_gang(shares: list[_Share], splits: bool, snapshot: Snapshot, balance: Balance) -> Iterator[Violation]:
    """Of pods that fit template by template."""
    first = shares[0]
    queue, group = first.pod.cluster_queue, first.group
    gives = {
        flavor: {resource: _potential(first.pod, flavor, resource, balance) for resource in group.covered}
        for flavor in group.flavors
    }
    missing = [flavor for flavor in group.flavors if snapshot.flavor(flavor) is None]
    total: dict[str, int] = {}
    for share in shares:
        for resource, amount in share.asked.items():
            if amount:
                total[resource] = total.get(resource, 0) + amount
    enough = all(sum(most[name] for most in gives.values()) >= amount for name, amount in total.items())

    def fit(choices: list[list[str]]) -> bool:
        return enough and (splits or fit_together([share.asked for share in shares], gives, choices))

    if fit([_let_onto(share, snapshot, known=True) for share in shares]):
        return
    if missing and fit([_let_onto(share, snapshot) for share in shares]):
        raise FactsMissing("ResourceFlavor", f"{missing[0]} does not exist yet")
    most = [f"{flavor} gives at most {_show({name: gives[flavor][name] for name in total}, total)}" for flavor in gives]
    quota = "nominalQuota, its borrowingLimit or what its cohort lends" if queue.cohort else "nominalQuota"
    resource = next(iter(total))
    largest = max(shares, key=lambda share: share.asked.get(resource, 0))
    pods = listed([share.what.removeprefix("for ") for share in shares], 4)
    yield Violation(
        source_of(resource, largest.pod, snapshot).path,
        must=f'must fit what ClusterQueue "{queue.name}" can ever get, with all pods that are admitted together',
        actual=f"{_show(total)} for {pods}: {', '.join(most)}",
        fix=f"ask for less, or raise the queue's {quota}: else no pod is admitted",
        advice=fit([_let_onto(share, snapshot, _added_tolerations(share.pod)) for share in shares]),
        identity=("together", *sorted(group.covered)),
        weight=max(total.values()),
    )


def _let_onto(
    share: _Share, snapshot: Snapshot, tolerations: tuple[Toleration, ...] = (), *, known: bool = False
) -> list[str]:
    """The flavors that Kueue may give to these pods; with `known`, of those that exist."""
    facts = {name: snapshot.flavor(name) for name in share.group.flavors}
    keys = label_keys(fact for fact in facts.values() if fact is not None)
    return [
        name
        for name, fact in facts.items()
        if (not known if fact is None else not ruled_out(share.pod.template.spec, fact, keys, tolerations))
    ]


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
