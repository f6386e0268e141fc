"""uncovered-resource, replica-over-budget and what missing-queue-name says where Kueue does not look: edge cases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import Object, outcome_of, policy_of, snapshot_of, subject_of
from tests.quota_objects import GPU, KUEUE, cohort, flavor, queue
from tests.test_counted import HEAD, KATA, asking, config_map, limit_range
from webhook.kube.snapshot import Snapshot

NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "ns", "labels": {"floorkeeper.io/managed": "true"}},
}
LOCAL_QUEUE = {
    "apiVersion": KUEUE,
    "kind": "LocalQueue",
    "metadata": {"name": "lq", "namespace": "ns"},
    "spec": {"clusterQueue": "q"},
}
FLAVORS = (flavor("f"), flavor("g", gpu="g"), flavor("h", gpu="h"))


def deployment(container: Object | None = None, gpus: Any = 1, labels: Object | None = None, **spec: Any) -> Object:
    """`container` replaces one that asks for `gpus`."""
    queued = {"kueue.x-k8s.io/queue-name": "lq"} if labels is None else labels
    containers = [container or asking({GPU: gpus}, {GPU: gpus})]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "m", "namespace": "ns"},
        "spec": {
            "replicas": 0,
            "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": {"app": "m", **queued}},
                "spec": {"terminationGracePeriodSeconds": 120, "containers": containers, **spec},
            },
        },
    }


def said(snapshot: Snapshot, value: Object, old: Object | None = None) -> list[str]:
    """What the rules under test say of a Deployment, without its name and theirs where that is clear."""
    policy = policy_of()
    lines = outcome_of(subject_of(value, policy, old), snapshot, policy).lines
    asked = ("[uncovered-resource]", "[replica-over-budget]", "[missing-queue-name]")
    return [line.replace('Deployment "m": ', "") for line in lines if line.endswith(asked)]


def cluster(*objects: Object) -> Snapshot:
    return snapshot_of([NAMESPACE, LOCAL_QUEUE, *FLAVORS, *objects])


def limited(nominal: Any, borrowing: Any = None, lending: Any = None) -> Object:
    limits = {"nominalQuota": nominal, "borrowingLimit": borrowing, "lendingLimit": lending}
    return {field: limit for field, limit in limits.items() if limit is not None}


# replica-over-budget: how much a queue can get

REQUEST = f"spec.template.spec.containers[0].resources.requests[{GPU}]"
FIT = 'must fit what ClusterQueue "q" can ever get in one flavor'
ELSE = ": else no pod is admitted"
RAISE = "ask for less, or raise the queue's nominalQuota"
BORROWS = f"{RAISE}, its borrowingLimit or what its cohort lends"

MOST: dict[str, tuple[list[Object], int]] = {
    "its own quota": ([queue("q", {"f": 4})], 4),
    "what is in use does not matter": (
        [
            {
                **queue("q", {"f": 4}),
                "status": {"flavorsReservation": [{"name": "f", "resources": [{"name": GPU, "total": 4}]}]},
            }
        ],
        4,
    ),
    "the cohort's members": ([queue("q", {"f": 4}, cohortName="c"), queue("r", {"f": 3}, cohortName="c")], 7),
    "the cohort's own": ([queue("q", {"f": 4}, cohortName="c"), cohort("c", {"f": 2})], 6),
    "its borrowing limit": (
        [queue("q", {"f": limited(4, 1)}, cohortName="c"), queue("r", {"f": 3}, cohortName="c")],
        5,
    ),
    "their lending limit": (
        [queue("q", {"f": 4}, cohortName="c"), queue("r", {"f": limited(3, lending=1)}, cohortName="c")],
        5,
    ),
    "three levels": (
        [
            queue("q", {"f": 1}, cohortName="c"),
            cohort("c", {"f": limited(1, 4)}, parentName="d"),
            cohort("d", {"f": 2}, parentName="e"),
            queue("r", {"f": limited(8, lending=3)}, cohortName="e"),
        ],
        6,
    ),
    "v1beta1": (
        [
            {**queue("q", {"f": 4}, cohort="c"), "apiVersion": "kueue.x-k8s.io/v1beta1"},
            {**cohort("c", {"f": 2}), "apiVersion": "kueue.x-k8s.io/v1beta1"},
        ],
        6,
    ),
    "flavors are not added up": ([queue("q", {"f": 2, "g": 5, "h": 3})], 5),
    "another queue's flavor": ([queue("q", {"f": 2}, cohortName="c"), queue("r", {"g": 9}, cohortName="c")], 2),
}


@pytest.mark.parametrize("case", MOST)
def test_the_most_a_replica_may_ask(case: str) -> None:
    objects, most = MOST[case]
    snapshot = cluster(*objects)
    assert said(snapshot, deployment(gpus=most)) == []
    [line] = said(snapshot, deployment(gpus=most + 1))
    assert line.startswith(f"deny: {REQUEST}: {FIT}, is {most + 1} {GPU} per replica: f gives at most ")
    assert line.endswith(f"; fix: {BORROWS if 'ohort' in str(objects[0]) else RAISE}{ELSE} [replica-over-budget]")


# replica-over-budget: which flavors


def group(*flavors: Object) -> Object:
    """A resource group; of each flavor its name and its quotas."""
    covered = [resource for resource in flavors[0] if resource != "name"]
    return {
        "coveredResources": covered,
        "flavors": [
            {
                "name": each["name"],
                "resources": [{"name": resource, "nominalQuota": each[resource]} for resource in covered],
            }
            for each in flavors
        ],
    }


def groups(*entries: Object) -> Object:
    return {**queue("q", {}), "spec": {"resourceGroups": list(entries)}}


BOTH = groups(group({"name": "g", GPU: 8, "cpu": 4}, {"name": "h", GPU: 2, "cpu": 64}))
TWO_GROUPS = groups(
    group({"name": "f", "cpu": 4, "memory": "8Gi"}), group({"name": "g", GPU: 8}, {"name": "h", GPU: 2})
)
TAINTED = {**flavor("t"), "spec": {"nodeTaints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]}}
PODS = groups(group({"name": "f", GPU: 4}), group({"name": "f", "pods": 0}))

FLAVOR_CASES: dict[str, tuple[list[Object], Object, list[str]]] = {
    "all of a group in one flavor": (
        [BOTH],
        deployment(asking({"cpu": 8, GPU: 4}, {GPU: 4})),
        [
            f"deny: spec.template.spec.containers[0].resources.requests.cpu: {FIT}, is 8 cpu and 4 {GPU} per "
            f"replica: g gives at most 4 cpu, h gives at most 2 {GPU}; fix: {RAISE}{ELSE} [replica-over-budget]"
        ],
    ),
    "another flavor for it": ([BOTH], deployment(asking({"cpu": 8, GPU: 2}, {GPU: 2})), []),
    "each group by itself": ([TWO_GROUPS], deployment(asking({"cpu": 4, GPU: 8}, {GPU: 8})), []),
    "both groups short": (
        [TWO_GROUPS],
        deployment(asking({"cpu": 1, "memory": "16Gi", GPU: 9}, {GPU: 9})),
        [
            f"deny: spec.template.spec.containers[0].resources.requests.memory: {FIT}, is 1 cpu and 16Gi memory per "
            f"replica: f gives at most 8Gi memory; fix: {RAISE}{ELSE} [replica-over-budget]",
            f"deny: {REQUEST}: {FIT}, is 9 {GPU} per replica: g gives at most 8, h gives at most 2; "
            f"fix: {RAISE}{ELSE} [replica-over-budget]",
        ],
    ),
    "selected": ([TWO_GROUPS], deployment(gpus=8, nodeSelector={"gpu": "g"}), []),
    "selected away": (
        [TWO_GROUPS],
        deployment(gpus=8, nodeSelector={"gpu": "h", "zone": "z"}),
        [
            f"deny: {REQUEST}: {FIT}, is 8 {GPU} per replica: h gives at most 2, g is ruled out by "
            f"nodeSelector gpu=h; fix: {RAISE}, or let it onto another flavor{ELSE} [replica-over-budget]"
        ],
    ),
    "onto no flavor": (
        [groups(group({"name": "g", GPU: 8}))],
        deployment(nodeSelector={"gpu": "b200"}),
        [
            f'deny: spec.template.spec: must be let onto a flavor of ClusterQueue "q" for {GPU}, is let onto none: '
            "g is ruled out by nodeSelector gpu=b200; fix: select nodes by labels that one of them has, and tolerate "
            "its taints: else no pod is admitted [replica-over-budget]"
        ],
    ),
    "a zero needs a flavor too": (
        [groups(group({"name": "g", GPU: 8, "cpu": 1}))],
        deployment(asking({"cpu": 0}), nodeSelector={"gpu": "b200"}),
        [
            'deny: spec.template.spec: must be let onto a flavor of ClusterQueue "q" for cpu, is let onto none: g is '
            "ruled out by nodeSelector gpu=b200; fix: select nodes by labels that one of them has, and tolerate its "
            "taints: else no pod is admitted [replica-over-budget]"
        ],
    ),
    "the API server may add a toleration": (
        [TAINTED, queue("q", {"t": 4})],
        deployment(),
        [
            f'warn: spec.template.spec: must be let onto a flavor of ClusterQueue "q" for {GPU}, is let onto none: t '
            f"is ruled out by taint {GPU}=present:NoSchedule; fix: select nodes by labels that one of them has, and "
            "tolerate its taints: else no pod is admitted [replica-over-budget]"
        ],
    ),
    "even with that toleration": (
        [TAINTED, queue("q", {"t": 4})],
        deployment(gpus=5),
        [
            f'deny: spec.template.spec: must be let onto a flavor of ClusterQueue "q" for {GPU}, is let onto none: t '
            f"is ruled out by taint {GPU}=present:NoSchedule; fix: select nodes by labels that one of them has, and "
            "tolerate its taints: else no pod is admitted [replica-over-budget]"
        ],
    ),
    "a flavor that is yet to come": (
        [queue("q", {"f": 2, "later": 4})],
        deployment(gpus=4),
        ["warn: not evaluated: ResourceFlavor: later does not exist yet [replica-over-budget]"],
    ),
    "a zero is not worth a word": (
        [BOTH],
        deployment(asking({"cpu": 0, GPU: 9}, {GPU: 9})),
        [
            f"deny: {REQUEST}: {FIT}, is 9 {GPU} per replica: g gives at most 8, h gives at most 2; fix: {RAISE}{ELSE} "
            "[replica-over-budget]"
        ],
    ),
    "one that is there does": ([queue("q", {"later": 4, "f": 2})], deployment(gpus=2), []),
    "one to come would not do": (
        [queue("q", {"f": 2, "later": 4})],
        deployment(gpus=5),
        [
            f"deny: {REQUEST}: {FIT}, is 5 {GPU} per replica: f gives at most 2, later gives at most 4;"
            f" fix: {RAISE}{ELSE} [replica-over-budget]"
        ],
    ),
    "no flavor at all": (
        [groups({"coveredResources": [GPU], "flavors": []})],
        deployment(),
        [
            f'deny: spec.template.spec: must be let onto a flavor of ClusterQueue "q" for {GPU}, is let onto none: it '
            "has none; fix: select nodes by labels that one of them has, and tolerate its taints: else no pod is "
            "admitted [replica-over-budget]"
        ],
    ),
    "a circle of Cohorts": (
        [queue("q", {"f": 2}, cohortName="c"), cohort("c", parentName="d"), cohort("d", parentName="c")],
        deployment(),
        ["warn: not evaluated: Cohort: the parents of c go round in a circle [replica-over-budget]"],
    ),
    "a pod counts as a pod": (
        [PODS],
        deployment(),
        [
            f"deny: spec.template.spec: {FIT}, is 1 pods per replica: f gives at most 0; fix: {RAISE}{ELSE} "
            "[replica-over-budget]"
        ],
    ),
    "overhead and LimitRange": (
        [KATA, limit_range(defaultRequest={"memory": "8100Mi"}), TWO_GROUPS],
        deployment(runtimeClassName="kata"),
        [
            f"deny: spec.template.spec.runtimeClassName: {FIT}, is 0.25 cpu and 8260Mi memory per replica: f gives "
            f"at most 8Gi memory; fix: {RAISE}{ELSE} [replica-over-budget]"
        ],
    ),
}


@pytest.mark.parametrize("case", FLAVOR_CASES)
def test_flavors(case: str) -> None:
    objects, value, expected = FLAVOR_CASES[case]
    assert said(cluster(*objects), value) == expected


def test_a_write_that_asks_for_no_more_than_before_passes_with_a_warning() -> None:
    snapshot = cluster(queue("q", {"f": 2}))
    for gpus, severity in ((5, "deny"), (4, "warn"), (3, "warn")):
        [line] = said(snapshot, deployment(gpus=gpus), old=deployment(gpus=4))
        assert line.startswith(f"{severity}: {REQUEST}: {FIT}, is {gpus} {GPU}")


# uncovered-resource


def must(covered: str, actual: str, resource: str, remedy: str) -> str:
    return (
        f'must be among what ClusterQueue "q" covers ({covered}), is {actual}; fix: cover {resource}, {remedy}'
        f"{ELSE} [uncovered-resource]"
    )


EXCLUDE = "or name it in Kueue's resources.excludeResourcePrefixes"
Q = queue("q", {"f": 4})
MEMORY = asking({GPU: 1, "memory": "64Gi"}, {GPU: 1})
VRAM = f"{HEAD}resources: {{transformations: [{{input: {GPU}, outputs: {{vram: 80Gi}}}}]}}"
SPEC = "deny: spec.template.spec"

UNCOVERED: dict[str, tuple[list[Object], Object, list[str]]] = {
    "covered": ([Q], deployment(), []),
    "every resource by itself": (
        [Q],
        deployment(asking({"cpu": 1, "memory": "1Gi", GPU: 1}, {GPU: 1})),
        [
            f"{SPEC}.containers[0].resources.requests.cpu: "
            + must(GPU, "1 of cpu", "cpu", f"drop the request, {EXCLUDE}"),
            f"{SPEC}.containers[0].resources.requests.memory: "
            + must(GPU, "1Gi of memory", "memory", f"drop the request, {EXCLUDE}"),
        ],
    ),
    "the pod's own": (
        [Q],
        deployment(resources={"limits": {"cpu": 4}}),
        [
            f"{SPEC}.resources.limits.cpu: "
            + must(GPU, "4 of cpu", "cpu", f"drop the limit, which is the request too, {EXCLUDE}")
        ],
    ),
    "its own overhead": (
        [Q],
        deployment(overhead={"cpu": "250m"}),
        [f"{SPEC}.overhead.cpu: " + must(GPU, "250m of cpu", "cpu", f"drop the overhead, {EXCLUDE}")],
    ),
    "a queue that covers nothing": (
        [groups()],
        deployment(),
        [f"deny: {REQUEST}: " + must("nothing", f"1 of {GPU}", GPU, f"drop the request, {EXCLUDE}")],
    ),
    "an init container": (
        [Q],
        deployment(initContainers=[asking({"memory": "1Gi"})]),
        [
            f"{SPEC}.initContainers[0].resources.requests.memory: "
            + must(GPU, "1Gi of memory", "memory", f"drop the request, {EXCLUDE}")
        ],
    ),
    "an explicit zero beside a limit": ([Q], deployment(asking({"cpu": 0, GPU: 1}, {"cpu": 1, GPU: 1})), []),
    "excluded": ([Q, config_map(f"{HEAD}resources: {{excludeResourcePrefixes: [mem]}}")], deployment(MEMORY), []),
    "transformed into what is not covered": (
        [Q, config_map(VRAM)],
        deployment(),
        [
            f"deny: {REQUEST}: "
            + must(
                GPU,
                f"1 of {GPU}, which Kueue transforms to vram",
                "vram",
                "or mend Kueue's resources.transformations",
            )
        ],
    ),
    "transformed into what is covered": (
        [groups(group({"name": "f", GPU: 4, "vram": "320Gi"})), config_map(VRAM)],
        deployment(),
        [],
    ),
    "undeclared ignored": (
        [Q, config_map(f"{HEAD}resources: {{quotaCheckStrategy: IgnoreUndeclared}}")],
        deployment(MEMORY),
        [],
    ),
    "undeclared ignored, and yet too much": (
        [Q, config_map(f"{HEAD}resources: {{quotaCheckStrategy: IgnoreUndeclared}}")],
        deployment(asking({GPU: 5, "memory": "64Gi"}, {GPU: 5})),
        [
            f"deny: {REQUEST}: {FIT}, is 5 {GPU} per replica: f gives at most 4; fix: {RAISE}{ELSE} "
            "[replica-over-budget]"
        ],
    ),
    "a namespace that Kueue leaves out": (
        [Q, config_map(f"{HEAD}managedJobsNamespaceSelector: {{matchLabels: {{team: other}}}}")],
        deployment(asking({GPU: 9, "memory": "64Gi"}, {GPU: 9})),
        [],
    ),
    "no pod integration": (
        [Q, config_map(HEAD.replace("pod", "batch/job"))],
        deployment(asking({GPU: 9, "memory": "64Gi"}, {GPU: 9})),
        [],
    ),
    "a configuration that says nothing": (
        [Q, config_map("text")],
        deployment(MEMORY),
        [
            "warn: not evaluated: ConfigMap: kueue-system/kueue-manager-config cannot be read: line 1: is a string, "
            f"not an object; a manifest begins with apiVersion and kind [{rule}]"
            for rule in ("uncovered-resource", "replica-over-budget")
        ],
    ),
    "no queue": ([Q], deployment(asking({"memory": "64Gi"}), labels={}), []),
}


@pytest.mark.parametrize("case", UNCOVERED)
def test_uncovered(case: str) -> None:
    objects, value, expected = UNCOVERED[case]
    assert said(cluster(*objects), value) == expected


def test_an_objects_own_label_counts() -> None:
    value = deployment(MEMORY, labels={})
    value["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "lq"}
    assert any(line.endswith("[uncovered-resource]") for line in said(cluster(Q), value))


@pytest.mark.parametrize("kind", ["ConfigMap", "LimitRange", "RuntimeClass", "Cohort", "ResourceFlavor"])
def test_what_cannot_be_read_denies_nothing(kind: str) -> None:
    snapshot = cluster(queue("q", {"f": 4}, cohortName="c"))
    value = deployment(asking({GPU: 9, "memory": "64Gi"}, {GPU: 9}), runtimeClassName="kata")
    rules = (
        {"replica-over-budget"}
        if kind in ("Cohort", "ResourceFlavor")
        else {
            "replica-over-budget",
            "uncovered-resource",
        }
    )
    assert len([line for line in said(snapshot, value) if line.startswith("deny")]) == 2
    snapshot.forget(kind, "forbidden")
    lines = said(snapshot, value)
    assert {line for line in lines if line.startswith("warn")} == {
        f"warn: not evaluated: {kind}: forbidden [{rule}]" for rule in rules
    }
    assert len([line for line in lines if line.startswith("deny")]) == 2 - len(rules)


def test_a_gateway_without_queue_needs_none_of_this() -> None:
    snapshot = cluster(Q)
    for kind in ("ConfigMap", "LimitRange", "RuntimeClass", "Cohort", "ResourceFlavor"):
        snapshot.forget(kind, "forbidden")
    assert said(snapshot, deployment(asking({"memory": "64Gi"}), labels={})) == []


# missing-queue-name where Kueue does not look

ABSENT = 'Deployment "m": spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: must name a LocalQueue, is absent; '
POLICY = policy_of({"queues": [{"namespace": "ns", "localQueue": "lq"}]})
PATCHED = f"patch: {ABSENT}patched: set to lq, from the policy's queues [missing-queue-name]"

LEFT_OUT: dict[str, tuple[str, str]] = {
    "by its selector": (
        f"{HEAD}managedJobsNamespaceSelector: {{matchLabels: {{team: other}}}}",
        f"warn: {ABSENT}fix: Kueue leaves this namespace out: add it to its managedJobsNamespaceSelector "
        "[missing-queue-name]",
    ),
    "without pods": (
        HEAD.replace("pod", "batch/job"),
        f"warn: {ABSENT}fix: Kueue gates no pods: add pod to its integrations.frameworks [missing-queue-name]",
    ),
    "looked at": (
        f"{HEAD}managedJobsNamespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: ns}}}}",
        PATCHED,
    ),
    "not known": ("text", PATCHED),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_label_that_kueue_would_not_heed_is_not_added(case: str) -> None:
    text, line = LEFT_OUT[case]
    outcome = outcome_of(subject_of(deployment(labels={}), POLICY), cluster(Q, config_map(text)), POLICY)
    assert [each for each in outcome.lines if "[missing-queue-name]" in each] == [line]
    assert bool(outcome.patch) == line.startswith("patch")


def test_the_warning_fits_with_names_as_people_use_them() -> None:
    text, _ = LEFT_OUT["by its selector"]
    value = deployment(labels={})
    value["metadata"]["name"] = "optimized-baseline-nvidia-gpu-vllm-decode"
    [line] = outcome_of(subject_of(value, POLICY), cluster(Q, config_map(text)), POLICY).lines
    assert len(line.removeprefix("warn: ")) <= 256
