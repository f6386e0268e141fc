"""No ResourceQuota of a managed namespace limits accelerators.

A gated pod counts against a ResourceQuota from the moment it is created. With a hard limit on GPUs in place, the
ReplicaSet cannot even create the pod that Kueue is meant to queue. The nominalQuota of ClusterQueues replaces it. Only
the spelling requests.NAME ever had an effect; the bare name is accepted and does nothing, which is as misleading. Keys
of a mapped DeviceClass (CLASS.deviceclass.resource.k8s.io/devices) stand for accelerators too.

Labelling a namespace as managed while it holds such a quota is told in a warning.

Guide: prerequisite 3, 'No hard requests.nvidia.com/gpu ResourceQuota on the namespace'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import listed
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.accelerators import Accelerators
from webhook.kube.kinds import NAMESPACE, RESOURCE_QUOTA
from webhook.kube.objects import at, labels, mapping
from webhook.kube.quota_facts import amount
from webhook.kube.snapshot import Snapshot

_CLAIMED = ".deviceclass.resource.k8s.io/devices"


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if subject.kind is NAMESPACE:
        yield from _newly_managed(subject, snapshot, policy)
        return
    hard = mapping(at(subject.value, ("spec", "hard")))
    for key in hard:
        if not _limits(key, subject.accelerators):
            continue
        works = key.startswith("requests.") or key.endswith(_CLAIMED)
        yield Violation(
            ("spec", "hard", key),
            must="must not be limited in a managed namespace",
            actual=str(hard[key]),
            fix="remove it: "
            + ("a gated pod counts against it, so Kueue could queue none" if works else "this spelling has no effect")
            + "; the nominalQuota of ClusterQueues replaces it",
            weight=-amount(hard[key]),
            shared=(subject.namespace, subject.name),
        )


def _newly_managed(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if subject.old is not None and policy.managed_namespaces.matches(labels(subject.old)):
        return
    for quota in snapshot.resource_quotas(subject.name):
        keys = [key for key in quota.hard if _limits(key, subject.accelerators)]
        if keys:
            yield Violation(
                ("metadata", "labels"),
                must="must not be managed while a ResourceQuota limits accelerators",
                actual=f'limited by "{quota.name}" ({listed(keys, 2)})',
                fix="remove the key from the quota: gated pods count against it",
                advice=True,
                identity=quota.name,
                shared=(subject.name, quota.name),
                aside=True,
            )


def _limits(key: str, accelerators: Accelerators) -> bool:
    """Whether a key of spec.hard stands for an accelerator, in any spelling."""
    if key.endswith(_CLAIMED):
        return key.removesuffix(_CLAIMED) in accelerators.device_classes
    return accelerators.covers(key.removeprefix("requests.").removeprefix("limits."))


RULE = Rule(
    id="gpu-resource-quota",
    mode=Mode.DENY,
    kinds=(RESOURCE_QUOTA, NAMESPACE),
    check=check,
    needs=frozenset({"ResourceQuota"}),
    page=__doc__,
)
