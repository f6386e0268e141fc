"""What is asked before anything is written: would each Deployment run in its queue as it runs now?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from webhook.engine.patch import Edit, edited
from webhook.engine.policy import Policy
from webhook.engine.rule import Stage as Call
from webhook.engine.subject import Subject
from webhook.engine.verdict import Severity, Verdict
from webhook.kube.facts import PROJECTIONS
from webhook.kube.kinds import DEPLOYMENT, RESOURCE_QUOTA
from webhook.kube.names import FIELD_QUEUE, SYSTEM_NAMESPACES
from webhook.kube.objects import Object
from webhook.kube.quantity import NANO, show
from webhook.kube.quota_facts import ClusterQueueFact
from webhook.kube.snapshot import FactsMissing, Snapshot
from webhook.live.adopt.said import Said
from webhook.live.adopt.shortage import why_waiting
from webhook.live.adopt.target import Stage, Target, obstacles, remarks, unsettled
from webhook.live.adopt.trial import try_pod, try_writes
from webhook.live.api import RESOURCE_QUOTAS, Api
from webhook.live.deployments import STRATEGY, is_recreated
from webhook.live.following import Sight
from webhook.live.pods import uncounted
from webhook.live.quota import Quota, Room, requests_of, ways_of
from webhook.live.rollout import replicas
from webhook.live.subjects import in_force, needs_of, verdict, without_mode

_STRANDS = (
    "conflicting-queue-name",
    "queue-name-in-selector",
    "implicit-gpu-request",
    "gpu-resource-quota",
    "unknown-queue",
    "uncovered-resource",
    "replica-over-budget",
)
"""Rules whose violation would leave pods gated for ever, or uncounted: adopting waits, whatever their mode is."""

_ASKED_LATER = frozenset({"missing-queue-name", "surge-without-quota"})
"""What adopting itself mends."""

_TEMPLATE_LABEL = ("spec", "template", *FIELD_QUEUE)

NEEDS = needs_of(DEPLOYMENT, RESOURCE_QUOTA) | {"Cohort", "ResourceFlavor"}
"""The kinds that are read."""

_DECISIVE = ("Namespace", "LocalQueue", "ClusterQueue")
"""Without these nothing can be said of a queue."""


@dataclass(slots=True, kw_only=True)
class Checked(Said):
    """What is said of one Deployment alone.

    `room` is what becomes of its replicas, None where nobody knows or none is to be admitted.
    """

    target: Target
    cluster_queue: ClusterQueueFact | None = None
    room: Room | None = None
    accelerators: Mapping[str, int] = field(default_factory=dict)
    """What one replica asks for, in billionths by resource."""


@dataclass(frozen=True, slots=True)
class Checks:
    """`shared` is what is said of the namespace, and so of each of its Deployments that is yet to be labelled."""

    shared: Said
    each: Sequence[Checked]

    @property
    def problems(self) -> list[str]:
        return [text for said in (self.shared, *self.each) for text in said.problems]

    @property
    def unknown(self) -> list[str]:
        return [text for said in (self.shared, *self.each) for text in said.unknown]

    @property
    def left(self) -> list[Checked]:
        """Those that are not adopted yet."""
        return [each for each in self.each if each.target.stage is not Stage.ADOPTED]

    @property
    def concerned(self) -> list[Checked]:
        """Those that `shared` is said of."""
        return [each for each in self.left if each.target.stage is Stage.NEW] or self.left


def undecided(snapshot: Snapshot) -> list[str]:
    """Why nothing can be checked, nothing if it can."""
    unknown = snapshot.unknown()
    return [f"{kind}: {unknown[kind]}" for kind in _DECISIVE if kind in unknown]


def check(
    api: Api,
    namespace: str,
    targets: Sequence[Target],
    snapshot: Snapshot,
    policy: Policy,
    *,
    may_wait: bool = False,
    sights: Mapping[str, Sight] | None = None,
) -> Checks:
    """In the order of the targets: quota goes to the first. `may_wait` takes replicas that stay gated. `sights` are
    what was seen of the targets, by name. Raises ApiError where the API server does not answer."""
    without_mode(snapshot, namespace)
    policy = in_force(policy, _STRANDS)
    quota = Quota(snapshot, ways_of(api))
    for target in targets:
        # One rule is about workloads that are in the same queue, as those of this call are to be.
        fact = PROJECTIONS["Deployment"](as_adopted(target))
        if fact is not None and "Deployment" not in snapshot.unknown():
            snapshot.put("Deployment", fact)
    shared = _of_namespace(api, namespace, snapshot, policy)
    if all(target.stage is not Stage.NEW for target in targets):
        # What is labelled already is followed, whatever would keep a label from being set.
        shared = Said(remarks=shared.problems + shared.remarks)
    found = []
    for target in targets:
        checked = Checked(target=target)
        found.append(checked)
        local_queue = snapshot.local_queue(namespace, target.queue)
        if local_queue is not None:
            checked.cluster_queue = snapshot.cluster_queue(local_queue.cluster_queue)
        if target.stage is Stage.ADOPTED:
            _judge(checked, namespace, snapshot, policy)
            _see(checked, (sights or {}).get(target.name))
            continue
        checked.problems += obstacles(target.name, target.queue, target.deployment)
        checked.remarks += remarks(target.deployment)
        if target.stage is Stage.LABELLED:
            # Its rollout is under way, and what the rules say is for whoever waits for it.
            kept = list(checked.problems)
            _judge(checked, namespace, snapshot, policy)
            checked.remarks += checked.problems[len(kept) :]
            checked.problems = kept
            continue
        problem = unsettled(target.name, target.deployment)
        if problem:
            checked.problems.append(problem)
        _judge(checked, namespace, snapshot, policy)
        if not (shared.problems or checked.problems):
            _count(checked, namespace, snapshot, policy, quota, may_wait)
        if not (shared.problems or checked.problems):
            template = try_writes(api, namespace, target, checked)
            if template is not None:
                try_pod(api, namespace, target, template, checked)
    checks = Checks(shared, found)
    _share_unknown(checks)
    return checks


def _share_unknown(checks: Checks) -> None:
    """A kind that may not be read is missing for all of them."""
    concerned = checks.concerned
    for text in list(concerned[0].unknown) if len(concerned) > 1 else ():
        if all(text in each.unknown for each in concerned):
            checks.shared.unknown.append(text)
            for each in concerned:
                each.unknown.remove(text)


def _see(checked: Checked, sight: Sight | None) -> None:
    """Whether a queue counts what is adopted already."""
    inert = uncounted(sight.pods) if sight is not None else ""
    if inert:
        checked.problems.append(inert)


def _judge(checked: Checked, namespace: str, snapshot: Snapshot, policy: Policy) -> None:
    """What the rules say of the Deployment as it would be."""
    target = checked.target
    unlabelled = edited(target.deployment, [Edit(_TEMPLATE_LABEL, None)])
    wanted = as_adopted(target)
    verdicts = [
        verdict(DEPLOYMENT, namespace, wanted, snapshot, policy, stage=Call.MUTATE, old=unlabelled, rules=_IN_MUTATE),
        verdict(DEPLOYMENT, namespace, wanted, snapshot, policy),
    ]
    for each in verdicts:
        _sort(each, checked)


_IN_MUTATE = frozenset({"conflicting-queue-name"})


def _sort(found: Verdict, into: Said) -> None:
    for finding in found.findings:
        if finding.rule not in _ASKED_LATER:
            strands = finding.severity is Severity.DENY and finding.rule in _STRANDS
            texts = into.problems if strands else into.remarks
            if finding.message not in texts:
                texts.append(finding.message)
    into.unknown += (entry.message for entry in found.not_evaluated if entry.message not in into.unknown)


def as_adopted(target: Target) -> Object:
    """The Deployment with label and strategy."""
    edits = [Edit(_TEMPLATE_LABEL, target.queue)]
    if not is_recreated(target.deployment):
        edits.append(Edit(("spec", "strategy"), dict(STRATEGY)))
    return edited(target.deployment, edits)


def _of_namespace(api: Api, namespace: str, snapshot: Snapshot, policy: Policy) -> Said:
    """What is to be said of the namespace, and of its ResourceQuotas."""
    found = Said()
    if namespace in SYSTEM_NAMESPACES:
        found.problems.append(f"namespace {namespace} is the system's: what repairs a cluster waits for no queue")
        return found
    fact = snapshot.namespace(namespace)
    if fact is not None and fact.terminating:
        found.problems.append(f"namespace {namespace} is terminating")
        return found
    reason = snapshot.unknown().get("ResourceQuota")
    if reason is not None:
        found.unknown.append(f"not evaluated: ResourceQuota: {reason} [gpu-resource-quota]")
        return found
    for value in api.items(RESOURCE_QUOTAS, namespace):
        _sort(verdict(RESOURCE_QUOTA, namespace, value, snapshot, policy), found)
    return found


def _count(checked: Checked, namespace: str, snapshot: Snapshot, policy: Policy, quota: Quota, may_wait: bool) -> None:
    """What becomes of its replicas."""
    target, queue = checked.target, checked.cluster_queue
    subject = Subject(DEPLOYMENT, namespace, as_adopted(target), policy.accelerators).within(snapshot)
    wanted = replicas(target.deployment)
    if queue is None or not subject.templates or not wanted:
        return
    (template,) = subject.templates
    requests = requests_of(template, target.queue, queue, namespace, snapshot)
    checked.accelerators = {
        name: amount for name, amount in requests.items() if amount and policy.accelerators.covers(name)
    }
    if queue.checks:
        names = ", ".join(each.name for each in queue.checks)
        checked.remarks.append(f"each new replica also waits for the admission checks of its queue: {names}")
    try:
        room = checked.room = quota.room(template, queue, requests, wanted)
    except FactsMissing as missing:
        checked.unknown.append(f"how many replicas are admitted: not evaluated: {missing}")
        return
    if not room.waiting:
        return
    why, remedy = why_waiting(queue, room)
    short = f"{room.waiting} of {wanted} replicas would wait, gated: {why}"
    if not room.admitted:
        checked.problems.append(f"{short}, so its rollout would take a replica down and bring none back; {remedy}")
    elif may_wait:
        checked.remarks.append(f"{short}; its rollout stops there, with {wanted - 1} ready, until quota is free")
    else:
        checked.problems.append(
            f"{short}, and its rollout would stop there, with {wanted - 1} ready; {remedy}, or take that with "
            "--let-wait"
        )


def held_outside(checked: Checked) -> str:
    """'3 nvidia.com/gpu': what its replicas hold that no queue counts yet, '' for none."""
    count = replicas(checked.target.deployment)
    return " and ".join(
        f"{show(amount * count)} {name}" for name, amount in checked.accelerators.items() if amount * count >= NANO
    )
