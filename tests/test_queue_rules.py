"""Queues and those who use them: every link of a chain, autoscalers, and queues that are deleted too early."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.cases import BASE, FIXTURES, TODAY, Object, policy_of, read_documents, snapshot_of, subject_of
from tests.door import Door, StillSource, review_of
from tests.quota_objects import cohort, flavor, queue
from tests.test_updates import changed
from webhook.engine.evaluate import judge
from webhook.engine.policy import Policy
from webhook.engine.rule import Rule, Stage
from webhook.kube.facts import PROJECTIONS
from webhook.kube.names import PRIORITY_CLASS_LABEL, QUEUE_LABEL
from webhook.kube.snapshot import Snapshot
from webhook.rules import queue_in_use, replicas_over_ceiling, shared_local_queue, unknown_queue

POLICY = policy_of()
NAMESPACE = "llm-d-optimized-baseline"
KUEUE = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"

DEPLOYMENT = read_documents(FIXTURES / "missing-queue-name" / "pass-labelled.yaml")[-1]
HPA = read_documents(FIXTURES / "replicas-over-ceiling" / "fail-maximum.yaml")[-1]
SCALED_OBJECT = read_documents(FIXTURES / "replicas-over-ceiling" / "fail-scaled-object.yaml")[-1]
LABELS = ("spec", "template", "metadata", "labels")
PLACE = f"spec.template.metadata.labels[{QUEUE_LABEL}]"
RESOURCES = ("spec", "template", "spec", "containers", 0, "resources")


def said(
    rule: Rule,
    value: Object,
    state: list[Object] | Snapshot,
    *,
    old: Object | None = None,
    removal: bool = False,
    policy: Policy = POLICY,
) -> list[str]:
    """What one rule says of an object in the base cluster and `state`: findings, and what it had no facts for."""
    snapshot = state if isinstance(state, Snapshot) else snapshot_of([*BASE, *state])
    verdict = judge((rule,), Stage.VALIDATE, subject_of(value, policy, old, removal), snapshot, policy, TODAY)
    return [
        *(f"{found.severity}: {found.message}" for found in verdict.findings),
        *(entry.message for entry in verdict.not_evaluated),
    ]


def without(state: list[Object], *kinds: str) -> Snapshot:
    snapshot = snapshot_of([*BASE, *state])
    for kind in kinds:
        snapshot.forget(kind, "may not be listed")
    return snapshot


def local_queue(name: str, cluster_queue: str = "llm-d-model-a-cq", namespace: str = NAMESPACE) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": cluster_queue}}


def priority_class(name: str) -> Object:
    return {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": 100}


KUEUE_CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
}


class TestUnknownQueue:
    RULE = unknown_queue.RULE
    LOST = f'"model-a": {PLACE}: must name a LocalQueue that exists, is lost-lq; fix: create it, or use one that exists'

    def test_where_kueue_gates_nothing(self) -> None:
        text = (
            "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nintegrations: {frameworks: [pod]}\n"
            "managedJobsNamespaceSelector: {matchLabels: {team: other}}"
        )
        config = {**KUEUE_CONFIG, "data": {"controller_manager_config.yaml": text}}
        value = changed(DEPLOYMENT, *LABELS, QUEUE_LABEL, "model-a-lq")
        assert said(self.RULE, value, [config]) == [
            f'warn: Deployment "model-a": {PLACE}: must be where Kueue heeds it, is model-a-lq, which does nothing '
            "here; fix: see managedJobsNamespaceSelector in Kueue's configuration [unknown-queue]"
        ]

    def test_each_link_on_its_own(self) -> None:
        value = changed(DEPLOYMENT, *LABELS, QUEUE_LABEL, "lost-lq")
        value = changed(value, "metadata", "labels", {QUEUE_LABEL: "c-lq", PRIORITY_CLASS_LABEL: "prod"})
        value = changed(value, *LABELS, PRIORITY_CLASS_LABEL, "dev")
        assert said(self.RULE, value, [local_queue("c-lq", "nowhere")]) == [
            f'warn: Deployment "model-a": metadata.labels[{PRIORITY_CLASS_LABEL}]: must name a WorkloadPriorityClass '
            "that exists, is prod; fix: create it, or use one that exists: none [unknown-queue]",
            f'warn: Deployment "model-a": metadata.labels[{QUEUE_LABEL}]: must lead to a ClusterQueue, is c-lq, whose '
            'ClusterQueue "nowhere" does not exist; fix: create it: until then the pods stay gated [unknown-queue]',
            f'warn: Deployment "model-a": spec.template.metadata.labels[{PRIORITY_CLASS_LABEL}]: must name a '
            "WorkloadPriorityClass that exists, is dev; fix: create it, or use one that exists: none [unknown-queue]",
            f"warn: Deployment {self.LOST}: c-lq, model-a-lq, model-b-lq [unknown-queue]",
        ]

    @pytest.mark.parametrize(
        ("flavors", "names"),
        [
            (["llm-d-gpu-default"], ""),
            (["llm-d-gpu-default", "b"], "b"),
            (["b", "a", "llm-d-gpu-default"], "b, a"),
            (["a", "b", "c", "d"], "a, b and 2 more"),
        ],
    )
    @pytest.mark.parametrize("active", ["True", "False"])
    def test_flavors(self, flavors: list[str], names: str, active: str) -> None:
        """Kueue also says that the queue is not active, some time later; that is no second warning."""
        c_cq = {**queue("c-cq", dict.fromkeys(flavors, 1)), "status": {"conditions": []}}
        c_cq["status"]["conditions"] = [{"type": "Active", "status": active}] if names else []
        value = changed(DEPLOYMENT, *LABELS, QUEUE_LABEL, "c-lq")
        expected = (
            f'warn: Deployment "model-a": {PLACE}: must lead to ResourceFlavors that exist, is c-lq, but "c-cq" names '
            f"{names}; fix: create what is missing: until then the pods stay gated [unknown-queue]"
        )
        assert said(self.RULE, value, [c_cq, local_queue("c-lq", "c-cq")]) == ([expected] if names else [])

    def test_a_priority_class_that_exists(self) -> None:
        value = changed(DEPLOYMENT, *LABELS, PRIORITY_CLASS_LABEL, "dev")
        assert said(self.RULE, value, [priority_class("dev")]) == []

    def test_the_same_name_twice_is_one_thing(self) -> None:
        value = changed(DEPLOYMENT, "metadata", "labels", {QUEUE_LABEL: "lost-lq", PRIORITY_CLASS_LABEL: "x"})
        value = changed(value, *LABELS, {"app": "model-a", QUEUE_LABEL: "lost-lq", PRIORITY_CLASS_LABEL: "x"})
        assert len(said(self.RULE, value, [])) == 2

    @pytest.mark.parametrize(
        ("kinds", "count", "missing"),
        [
            (("ResourceFlavor",), 2, "ResourceFlavor"),
            (("ClusterQueue",), 2, "ClusterQueue"),
            (("WorkloadPriorityClass",), 1, "WorkloadPriorityClass"),
            (("LocalQueue",), 1, "LocalQueue"),
            (("ClusterQueue", "WorkloadPriorityClass"), 1, "ClusterQueue"),
        ],
    )
    def test_what_can_be_said_is_said(self, kinds: tuple[str, ...], count: int, missing: str) -> None:
        value = changed(DEPLOYMENT, "metadata", "labels", {QUEUE_LABEL: "lost-lq", PRIORITY_CLASS_LABEL: "x"})
        *found, last = said(self.RULE, value, without([], *kinds))
        assert len(found) == count
        assert last == f"not evaluated: {missing}: may not be listed [unknown-queue]"

    def test_another_queue_that_is_not_there_is_new(self) -> None:
        policy = policy_of({"rules": {"unknown-queue": "deny"}})
        old = changed(DEPLOYMENT, *LABELS, QUEUE_LABEL, "gone-lq")
        new = changed(old, *LABELS, QUEUE_LABEL, "lost-lq")
        assert said(self.RULE, new, [], old=old, policy=policy) == [
            f"deny: Deployment {self.LOST}: model-a-lq, model-b-lq [unknown-queue]"
        ]
        (line,) = said(self.RULE, changed(new, "spec", "replicas", 2), [], old=new, policy=policy)
        assert line.startswith("warn: ")

    @pytest.mark.parametrize("label", [None, 1, [], {}, ""])
    def test_damaged_labels(self, label: Any) -> None:
        value = changed(DEPLOYMENT, *LABELS, {QUEUE_LABEL: label, PRIORITY_CLASS_LABEL: label})
        assert said(self.RULE, value, []) == []


def scaled(maximum: Any, target: Object | None = None, **changes: Any) -> Object:
    """An HorizontalPodAutoscaler; `changes` are fields of its scaleTargetRef."""
    value = changed(HPA, "spec", "maxReplicas", maximum)
    value["spec"]["scaleTargetRef"].update({"kind": target["kind"]} if target else {}, **changes)
    return value


def asking(amounts: dict[str, str], queue_name: str = "c-lq", value: Object = DEPLOYMENT) -> Object:
    value = changed(value, *RESOURCES, {"requests": amounts, "limits": amounts})
    return changed(value, *LABELS, QUEUE_LABEL, queue_name)


TWO_GROUPS = {
    **queue("c-cq", {}),
    "spec": {
        "resourceGroups": [
            {
                "coveredResources": [resource],
                "flavors": [{"name": name, "resources": [{"name": resource, "nominalQuota": quota}]}],
            }
            for resource, name, quota in ((GPU, "a", 8), (MIG, "b", 6))
        ]
    },
}
ONE_GROUP = {
    **queue("c-cq", {}),
    "spec": {
        "resourceGroups": [
            {
                "coveredResources": [GPU, MIG],
                "flavors": [
                    {
                        "name": name,
                        "resources": [{"name": GPU, "nominalQuota": gpus}, {"name": MIG, "nominalQuota": slices}],
                    }
                    for name, gpus, slices in (("a", 8, 1), ("b", 1, 8))
                ],
            }
        ]
    },
}

CEILINGS: dict[str, tuple[list[Object], dict[str, str], int | None]] = {
    "alone": ([queue("c-cq", {"a": 5})], {GPU: "1"}, 5),
    "whole replicas": ([queue("c-cq", {"a": 5})], {GPU: "2"}, 2),
    "flavors are not one": ([queue("c-cq", {"a": 3, "b": 3})], {GPU: "2"}, 2),
    "several flavors": ([queue("c-cq", {"a": 4, "b": 3})], {GPU: "1"}, 7),
    "a cohort lends": (
        [queue("c-cq", {"a": 5}, cohortName="x"), queue("d-cq", {"a": 3}, cohortName="x")],
        {GPU: "1"},
        8,
    ),
    "a Cohort has its own": ([queue("c-cq", {"a": 5}, cohortName="x"), cohort("x", {"a": 2})], {GPU: "1"}, 7),
    "borrowingLimit": (
        [
            queue("c-cq", {"a": {"nominalQuota": 5, "borrowingLimit": 1}}, cohortName="x"),
            queue("d-cq", {"a": 3}, cohortName="x"),
        ],
        {GPU: "1"},
        6,
    ),
    "lendingLimit": (
        [
            queue("c-cq", {"a": 5}, cohortName="x"),
            queue("d-cq", {"a": {"nominalQuota": 3, "lendingLimit": 2}}, cohortName="x"),
        ],
        {GPU: "1"},
        7,
    ),
    "the smallest of two groups": ([TWO_GROUPS], {GPU: "1", MIG: "1"}, 6),
    "two resources from one flavor": ([ONE_GROUP], {GPU: "1", MIG: "1"}, 2),
    "none": ([queue("c-cq", {"a": 1})], {GPU: "2"}, 0),
    "no quota": ([queue("c-cq", {"a": 0})], {GPU: "1"}, 0),
    "not covered": ([queue("c-cq", {"a": 5}, resource=MIG)], {GPU: "1"}, None),
    "one is not covered": ([queue("c-cq", {"a": 5})], {GPU: "1", MIG: "9"}, 5),
    "no groups": ([queue("c-cq", {})], {GPU: "1"}, None),
    "no ClusterQueue": ([], {GPU: "1"}, None),
    "no accelerator": ([queue("c-cq", {"a": 5})], {"cpu": "1", "example.com/fpga": "1"}, None),
    "an accelerator of 0": ([queue("c-cq", {"a": 5})], {GPU: "0"}, None),
}


class TestReplicasOverCeiling:
    RULE = replicas_over_ceiling.RULE
    UTILIZATION = (
        'warn: ScaledObject "model-a": spec.triggers[1].metricType: must be AverageValue for GPU replicas in a queue, '
        "is Utilization; fix: use AverageValue: gated pods skew Utilization [replicas-over-ceiling]"
    )

    @pytest.mark.parametrize(("quotas", "amounts", "most"), CEILINGS.values(), ids=CEILINGS)
    @pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
    def test_how_many_there_can_ever_be(
        self, quotas: list[Object], amounts: dict[str, str], most: int | None, kind: str
    ) -> None:
        """Both sides agree, and so do equal and one more."""
        target = {**asking(amounts), "kind": kind}
        state = [flavor("a"), flavor("b"), local_queue("c-lq", "c-cq"), *quotas]
        for maximum in (1, 2, 5, 6, 7, 8, 9, 10**12):
            autoscaler = scaled(maximum, target)
            over = most is not None and maximum > most
            asked = " and ".join(f"{amount} {resource}" for resource, amount in sorted(amounts.items()))
            fix = (
                f"lower maxReplicas to {most}, or raise quota" if most else "raise quota, or let a replica ask for less"
            )
            assert (
                said(self.RULE, autoscaler, [*state, target])
                == [
                    f'warn: HorizontalPodAutoscaler "model-a": spec.maxReplicas: must be at most {most}, all that '
                    f'ClusterQueue "c-cq" can ever hold, is {maximum}, with {asked} a replica; fix: {fix} '
                    "[replicas-over-ceiling]"
                ]
                * over
            )
            assert (
                said(self.RULE, target, [*state, autoscaler])
                == [
                    f'warn: {kind} "model-a": metadata.name: must not outgrow the {most} replicas that ClusterQueue '
                    f'"c-cq" can hold, is up to {maximum} by HorizontalPodAutoscaler "model-a"; fix: {fix} '
                    "[replicas-over-ceiling]"
                ]
                * over
            )

    @pytest.mark.parametrize(
        "changes",
        [
            {"name": "model-b"},
            {"kind": "StatefulSet"},
            {"kind": "Rollout"},
            {"kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"},
            {"apiVersion": "apps.kruise.io/v1alpha1"},
            {"name": ["model-a"]},
        ],
    )
    def test_another_target(self, changes: dict[str, Any]) -> None:
        value = scaled(99, **changes)
        assert said(self.RULE, value, [DEPLOYMENT]) == []
        assert said(self.RULE, DEPLOYMENT, [value]) == []

    def test_a_target_elsewhere_or_in_no_queue(self) -> None:
        elsewhere = changed(DEPLOYMENT, "metadata", "namespace", "elsewhere")
        unqueued = changed(DEPLOYMENT, *LABELS, QUEUE_LABEL, None)
        for target in ([], [elsewhere], [unqueued]):
            assert said(self.RULE, scaled(99), target) == []
        assert said(self.RULE, unqueued, [scaled(99)]) == []
        assert said(self.RULE, DEPLOYMENT, [changed(scaled(99), "metadata", "namespace", "elsewhere")]) == []

    def test_the_queue_of_the_object(self) -> None:
        target = changed(DEPLOYMENT, *LABELS, QUEUE_LABEL, None)
        target = changed(target, "metadata", "labels", {QUEUE_LABEL: "model-a-lq"})
        assert len(said(self.RULE, scaled(11), [target])) == len(said(self.RULE, target, [scaled(11)])) == 1

    def test_an_unmanaged_namespace(self) -> None:
        unmanaged = changed(BASE[0], "metadata", "labels", {})
        assert said(self.RULE, scaled(99), [unmanaged, DEPLOYMENT]) == []

    @pytest.mark.parametrize("maximum", ["99", True, None, [], {}, 9.5, -1, 0])
    def test_damaged_maximum(self, maximum: Any) -> None:
        value = copy.deepcopy(HPA)
        value["spec"]["maxReplicas"] = maximum
        assert said(self.RULE, value, [DEPLOYMENT]) == []

    @pytest.mark.parametrize("damage", [None, [], "x", {"spec": []}, {"spec": {"scaleTargetRef": 1, "triggers": {}}}])
    @pytest.mark.parametrize("value", [HPA, SCALED_OBJECT], ids=["hpa", "scaled-object"])
    def test_damaged_autoscalers(self, value: Object, damage: Any) -> None:
        broken = {**value, **damage} if isinstance(damage, dict) else {**value, "spec": damage}
        assert said(self.RULE, broken, [DEPLOYMENT]) == []

    def test_scaled_object(self) -> None:
        """The target is a Deployment unless it says otherwise, and without a maximum it is 100."""
        assert said(self.RULE, changed(SCALED_OBJECT, "spec", "maxReplicaCount", 10), [DEPLOYMENT]) == []
        value = changed(SCALED_OBJECT, "spec", "scaleTargetRef", {"name": "model-a", "kind": "StatefulSet"})
        assert said(self.RULE, value, [DEPLOYMENT]) == []
        assert len(said(self.RULE, value, [{**DEPLOYMENT, "kind": "StatefulSet"}])) == 1
        assert said(self.RULE, DEPLOYMENT, [SCALED_OBJECT]) == [
            'warn: Deployment "model-a": metadata.name: must not outgrow the 10 replicas that ClusterQueue '
            '"llm-d-model-a-cq" can hold, is up to 100 by ScaledObject "model-a"; fix: lower maxReplicaCount to 10, or '
            "raise quota [replicas-over-ceiling]"
        ]

    @pytest.mark.parametrize(
        ("trigger", "told"),
        [
            ({"type": "cpu", "metricType": "Utilization"}, True),
            ({"type": "memory", "metadata": {"type": "Utilization", "value": "60"}}, True),
            ({"type": "cpu", "metricType": "AverageValue"}, False),
            ({"type": "cpu"}, False),
            ({"type": "cpu", "metricType": ["Utilization"], "metadata": "Utilization"}, False),
            (None, False),
        ],
    )
    def test_by_utilization(self, trigger: Any, told: bool) -> None:
        value = changed(SCALED_OBJECT, "spec", "maxReplicaCount", 10)
        value["spec"]["triggers"] = [{"type": "cron"}, trigger]
        cpu_only = asking({"cpu": "1"}, "model-a-lq")
        assert said(self.RULE, value, [DEPLOYMENT]) == [self.UTILIZATION] * told
        assert said(self.RULE, value, [cpu_only]) == []
        assert said(self.RULE, cpu_only, [value]) == []
        assert (
            said(self.RULE, DEPLOYMENT, [value])
            == [
                'warn: Deployment "model-a": metadata.name: must not be scaled by Utilization while in a queue, is by '
                'spec.triggers[1] of ScaledObject "model-a"; fix: use AverageValue there: gated pods skew Utilization '
                "[replicas-over-ceiling]"
            ]
            * told
        )

    def test_every_autoscaler_on_its_own(self) -> None:
        """One that only the write makes worse is denied, where the policy denies; the others are as they were."""
        policy = policy_of({"rules": {"replicas-over-ceiling": "deny"}})
        second = changed(scaled(6), "metadata", "name", "second")
        old, new = asking({GPU: "1"}, "model-a-lq"), asking({GPU: "2"}, "model-a-lq")
        by = ["HorizontalPodAutoscaler", "ScaledObject"]
        lines = said(self.RULE, new, [scaled(7), second, SCALED_OBJECT], old=old, policy=policy)
        assert [(line[:4], line.partition(" by ")[2].partition(";")[0]) for line in lines] == [
            ("deny", f'{by[0]} "model-a"'),
            ("deny", f'{by[0]} "second"'),
            ("deny", f'{by[1]} "model-a"'),
        ]
        lines = said(self.RULE, old, [scaled(7), second, SCALED_OBJECT], old=new, policy=policy)
        assert [line[:4] for line in lines] == ["warn"]

    @pytest.mark.parametrize(("before", "now", "verdict"), [(11, 12, "deny"), (12, 11, "warn"), (11, 11, "warn")])
    def test_only_what_gets_worse(self, before: int, now: int, verdict: str) -> None:
        policy = policy_of({"rules": {"replicas-over-ceiling": "deny"}})
        (line,) = said(self.RULE, scaled(now), [DEPLOYMENT], old=scaled(before), policy=policy)
        assert line.startswith(verdict)

    @pytest.mark.parametrize(
        ("value", "kind", "found"),
        [
            (DEPLOYMENT, "HorizontalPodAutoscaler", 0),
            (DEPLOYMENT, "ScaledObject", 1),
            (DEPLOYMENT, "Cohort", 0),
            (DEPLOYMENT, "ClusterQueue", 0),
            (scaled(11), "Deployment", 0),
            (scaled(11), "LocalQueue", 0),
            (changed(SCALED_OBJECT, "spec", "triggers", [{}, {"metricType": "Utilization"}]), "Cohort", 1),
        ],
    )
    def test_facts_missing(self, value: Object, kind: str, found: int) -> None:
        *lines, last = said(self.RULE, value, without([DEPLOYMENT, scaled(11)], kind))
        assert len(lines) == found
        assert last == f"not evaluated: {kind}: may not be listed [replicas-over-ceiling]"

    def test_what_is_not_needed_is_not_missed(self) -> None:
        assert len(said(self.RULE, scaled(11), without([DEPLOYMENT], "StatefulSet", "ScaledObject"))) == 1
        assert said(self.RULE, scaled(11), without([], "ClusterQueue", "Cohort")) == []


def owned(value: Object, api_version: str, kind: str, **labels: str) -> Object:
    reference = {"apiVersion": api_version, "kind": kind, "name": "x", "controller": True}
    value = changed(value, "metadata", "ownerReferences", [reference])
    return changed(value, "metadata", "labels", {**value["metadata"]["labels"], **labels})


POD = read_documents(FIXTURES / "queue-in-use" / "fail-pod.yaml")[0]
QUEUE = local_queue("model-c-lq")
USER = changed(DEPLOYMENT, *LABELS, QUEUE_LABEL, "model-c-lq")
BY_OBJECT = changed(changed(USER, *LABELS, QUEUE_LABEL, None), "metadata", "labels", {QUEUE_LABEL: "model-c-lq"})
FIX = (
    "remove their queue label (namespace held at warn), scale them to 0, or annotate it "
    'floorkeeper.io/allow-delete: "true"'
)
DELETED = "2026-11-29T00:00:00Z"

USERS: dict[str, tuple[Object, str]] = {
    "deployment": (USER, "Deployment model-a"),
    "stateful set": ({**USER, "kind": "StatefulSet"}, "StatefulSet model-a"),
    "by the object's label": (BY_OBJECT, "Deployment model-a"),
    "replicas absent": (changed(USER, "spec", "replicas", None), "Deployment model-a"),
    "owned by an operator": (
        changed(USER, "metadata", "ownerReferences", [{"kind": "Revision", "name": "x", "controller": True}]),
        "Deployment model-a",
    ),
    "bare pod": (POD, "Pod model-c"),
    "pod of a bare ReplicaSet": (owned(POD, "apps/v1", "ReplicaSet"), "Pod model-c"),
    "pod of a Rollout": (owned(POD, "apps/v1", "ReplicaSet", **{"rollouts-pod-template-hash": "a"}), "Pod model-c"),
    "pod of a Job": (owned(POD, "batch/v1", "Job"), "Pod model-c"),
    "pod of another StatefulSet": (owned(POD, "apps.kruise.io/v1beta1", "StatefulSet"), "Pod model-c"),
    "pod of a Deployment": (owned(POD, "apps/v1", "ReplicaSet", **{"pod-template-hash": "a"}), ""),
    "pod of a StatefulSet": (owned(POD, "apps/v1", "StatefulSet"), ""),
    "terminating pod": (changed(POD, "metadata", "deletionTimestamp", DELETED), ""),
    "finished pod": (changed(POD, "status", "phase", "Succeeded"), ""),
    "failed pod": (changed(POD, "status", "phase", "Failed"), ""),
    "scaled to zero": (changed(USER, "spec", "replicas", 0), ""),
    "scaled to zero with pods that go": (changed(changed(USER, "spec", "replicas", 0), "status", "replicas", 2), ""),
    "deployment that goes": (changed(USER, "metadata", "deletionTimestamp", DELETED), ""),
    "another queue": (DEPLOYMENT, ""),
    "no queue": (changed(USER, *LABELS, QUEUE_LABEL, None), ""),
    "elsewhere": (changed(USER, "metadata", "namespace", "elsewhere"), ""),
    "another local queue": (local_queue("other-lq"), ""),
}


class TestQueueInUse:
    RULE = queue_in_use.RULE

    @pytest.mark.parametrize(("user", "named"), USERS.values(), ids=USERS)
    def test_who_counts(self, user: Object, named: str) -> None:
        assert said(self.RULE, QUEUE, [QUEUE, user], removal=True) == [
            f'deny: LocalQueue "model-c-lq": metadata.name: must not be deleted while used, is used by {named}; fix: '
            f"{FIX} [queue-in-use]"
        ] * bool(named)

    def test_cluster_queue_of_several_namespaces(self) -> None:
        """Whatever namespaces they are in, managed or not; one that goes itself takes its workloads with it."""
        c_cq = queue("c-cq", {"llm-d-gpu-default": 0})
        names = {"team-a": "model-c-lq", "team-b": "b-lq", "team-c": "model-c-lq"}
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}},
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-c", "deletionTimestamp": DELETED}},
        ]
        queues = [local_queue(name, "c-cq", namespace) for namespace, name in names.items()]
        users = [
            changed(changed(value, "metadata", "namespace", namespace), "metadata", "name", name)
            for namespace in ("team-a", "team-b", "team-c", NAMESPACE)
            for value, name in ((USER, "x"), ({**USER, "kind": "StatefulSet"}, "y"))
        ]
        assert said(self.RULE, c_cq, [c_cq, *namespaces, *queues, *users], removal=True) == [
            'deny: ClusterQueue "c-cq": metadata.name: must not be deleted while used, is used by Deployment team-a/x, '
            f"StatefulSet team-a/y; fix: {FIX} [queue-in-use]"
        ]
        assert said(self.RULE, c_cq, [c_cq, *namespaces, *queues], removal=True) == []

    def test_three_are_named(self) -> None:
        users = [changed(USER, "metadata", "name", f"model-{letter}") for letter in "edcb"] + [POD]
        (line,) = said(self.RULE, QUEUE, users, removal=True)
        assert "is used by Deployment model-b, Deployment model-c, Deployment model-d and 2 more; fix" in line

    @pytest.mark.parametrize(
        ("annotation", "passes"),
        [("true", True), ("True", False), (True, False), ("false", False), ("", False), (None, False), ([], False)],
    )
    def test_annotation(self, annotation: Any, passes: bool) -> None:
        value = {**QUEUE, "metadata": {**QUEUE["metadata"], "annotations": {"floorkeeper.io/allow-delete": annotation}}}
        assert (said(self.RULE, value, [USER], removal=True) == []) is passes

    def test_only_a_deletion_is_judged(self) -> None:
        going = changed(QUEUE, "metadata", "deletionTimestamp", DELETED)
        assert said(self.RULE, QUEUE, [USER]) == []
        assert said(self.RULE, QUEUE, [USER], old=QUEUE) == []
        assert said(self.RULE, going, [USER], removal=True) == []

    @pytest.mark.parametrize("change", [("labels", {}), ("deletionTimestamp", DELETED)])
    def test_namespaces_that_are_let_be(self, change: tuple[str, Any]) -> None:
        assert said(self.RULE, QUEUE, [changed(BASE[0], "metadata", *change), USER], removal=True) == []

    def test_held_at_warn(self) -> None:
        namespace = changed(BASE[0], "metadata", "annotations", {"floorkeeper.io/mode": "warn"})
        (line,) = said(self.RULE, QUEUE, [namespace, USER], removal=True)
        assert line.startswith("warn: ")
        assert len(line) <= len("warn: ") + 255

    @pytest.mark.parametrize(("user", "kind", "found"), [(POD, "Deployment", 1), (USER, "Pod", 1), (POD, "Pod", 0)])
    def test_facts_missing(self, user: Object, kind: str, found: int) -> None:
        *lines, last = said(self.RULE, QUEUE, without([user], kind), removal=True)
        assert len(lines) == found
        assert last == f"not evaluated: {kind}: may not be listed [queue-in-use]"

    @pytest.mark.parametrize("metadata", [None, [], {}, {"name": ["model-c-lq"], "annotations": 1}])
    def test_damaged(self, metadata: Any) -> None:
        subject = subject_of(QUEUE, POLICY, removal=True).with_value({**QUEUE, "metadata": metadata})
        verdict = judge((self.RULE,), Stage.VALIDATE, subject, snapshot_of([*BASE, USER]), POLICY, TODAY)
        assert verdict.allowed


class TestDeletionAtTheDoor:
    """DELETE reviews have no object, and the old one is what goes."""

    def test_denied(self) -> None:
        door = Door(StillSource(snapshot_of([*BASE, QUEUE, USER])), POLICY)
        found = door.ask("/validate", review_of(None, QUEUE, "DELETE"))
        assert (found["allowed"], found["auditAnnotations"]) == (False, {"denied": "queue-in-use"})
        assert found["status"]["code"] == 403
        assert found["status"]["message"].startswith('LocalQueue "model-c-lq": metadata.name: must not be deleted')
        assert found["status"]["details"]["name"] == "model-c-lq"
        assert door.ask("/mutate", review_of(None, QUEUE, "DELETE")) == {"uid": found["uid"], "allowed": True}
        door.close()

    def test_let_through(self) -> None:
        door = Door(StillSource(snapshot_of([*BASE, QUEUE])), POLICY)
        kind = {"group": "kueue.x-k8s.io", "version": "v1beta2", "kind": "LocalQueue"}
        for review in (
            review_of(None, QUEUE, "DELETE"),
            review_of(None, None, "DELETE", kind=kind),
            review_of(None, None, "DELETE", kind=kind, namespace=NAMESPACE),
            review_of(None, BASE[4], "DELETE"),
            review_of(None, BASE[0], "DELETE"),
        ):
            assert door.ask("/validate", review) == {"uid": review["request"]["uid"], "allowed": True}
        door.close()

    def test_a_namespace_that_went_a_moment_ago_is_asked_about(self) -> None:
        going = changed(BASE[0], "metadata", "deletionTimestamp", DELETED)
        source = StillSource(snapshot_of([*BASE, USER]), after=snapshot_of([*BASE, going, USER]))
        door = Door(source, POLICY)
        assert door.ask("/validate", review_of(None, QUEUE, "DELETE"))["allowed"]
        ((kinds, namespace),) = source.confirmed
        assert "Namespace" in kinds
        assert namespace == NAMESPACE
        door.close()


@pytest.mark.parametrize("owner", [("batch/v1", "Job"), ("apps/v1", "ReplicaSet"), ("example.org/v1", "Model")])
def test_pods_that_something_owns_are_no_second_model(owner: tuple[str, str]) -> None:
    pod = changed(POD, "metadata", "labels", QUEUE_LABEL, "model-a-lq")
    assert len(said(shared_local_queue.RULE, DEPLOYMENT, [pod])) == 1
    assert said(shared_local_queue.RULE, DEPLOYMENT, [owned(pod, *owner)]) == []


@pytest.mark.parametrize("value", [{}, {"metadata": 1, "spec": 1}, {"spec": {"template": []}, "status": "x"}])
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Pod", "HorizontalPodAutoscaler", "ScaledObject"])
def test_damaged_facts(kind: str, value: Object) -> None:
    assert PROJECTIONS[kind](value) is not None
