"""Judging the change: what an UPDATE may do to a workload that runs, and to an old offender."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.cases import BASE, FIXTURES, Object, outcome_of, policy_of, read_documents, snapshot_of, subject_of
from webhook.engine.policy import Policy
from webhook.kube.names import QUEUE_LABEL

POLICY = policy_of()
CLEAN = read_documents(FIXTURES / "missing-queue-name" / "pass-labelled.yaml")[-1]
PLACE = f"spec.template.metadata.labels[{QUEUE_LABEL}]"
OLD_LABEL = (
    f'warn: Deployment "model-a": {PLACE}: must name a LocalQueue, is absent; not denied: it was so before; '
    "fix: set it to model-a-lq; that restarts the pods [missing-queue-name]"
)
NO_QUOTA = (
    f'warn: Deployment "model-a": {PLACE}: must name a LocalQueue, is absent; not denied: it was so before; '
    "fix: free quota for it in model-a-lq first: with the label now, new pods would be gated [missing-queue-name]"
)
LABELLED = (
    f'patch: Deployment "model-a": {PLACE}: must name a LocalQueue, is absent; patched: set to model-a-lq, '
    "from the policy's queues [missing-queue-name]"
)
SURGE = (
    'patch: Deployment "model-a": spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%; patched: set to 0 '
    "[surge-without-quota]"
)


def changed(value: Object, *path_and_value: Any) -> Object:
    """A copy in which the field at the path has the value, or is gone if the value is None."""
    *path, last, new = path_and_value
    value = copy.deepcopy(value)
    inner: Any = value
    for step in path:
        inner = inner.setdefault(step, {}) if isinstance(inner, dict) else inner[step]
    if new is None:
        inner.pop(last, None)
    else:
        inner[last] = new
    return value


def running(value: Object, replicas: int = 1) -> Object:
    return changed(value, "status", "replicas", replicas)


UNLABELLED = changed(CLEAN, "spec", "template", "metadata", "labels", QUEUE_LABEL, None)
NEW_IMAGE = ("spec", "template", "spec", "containers", 0, "image", "vllm/vllm-openai:v0.12.0")


def cluster(reserved: int = 0) -> list[Object]:
    """The base cluster, in which model-a's queue has so much of its 5 GPUs reserved."""
    status = {
        "flavorsReservation": [
            {"name": "llm-d-gpu-default", "resources": [{"name": "nvidia.com/gpu", "total": str(reserved)}]}
        ]
    }
    return [
        changed(value, "status", status) if value["metadata"]["name"] == "llm-d-model-a-cq" else value for value in BASE
    ]


def update(old: Object, new: Object, state: list[Object] | None = None, policy: Policy = POLICY) -> Any:
    return outcome_of(subject_of(new, policy, old), snapshot_of(state or cluster()), policy)


def queue(value: Any) -> str | None:
    label: str | None = value["spec"]["template"]["metadata"]["labels"].get(QUEUE_LABEL)
    return label


class TestNeverRestart:
    @pytest.mark.parametrize(
        "change",
        [("spec", "replicas", 3), ("metadata", "annotations", {"note": "x"}), ("metadata", "labels", {"team": "x"})],
    )
    def test_label_waits_for_a_rollout(self, change: tuple[Any, ...]) -> None:
        old = running(UNLABELLED)
        outcome = update(old, changed(old, *change))
        assert (outcome.lines, outcome.patch) == ((OLD_LABEL,), ())

    def test_strategy_alone_is_fixed(self) -> None:
        old = running(
            changed(UNLABELLED, "spec", "strategy", "rollingUpdate", {"maxSurge": "25%", "maxUnavailable": 1})
        )
        outcome = update(old, changed(old, "spec", "replicas", 2))
        assert outcome.lines == (SURGE, OLD_LABEL)
        assert outcome.patch == ({"op": "replace", "path": "/spec/strategy/rollingUpdate/maxSurge", "value": 0},)

    def test_rollout_brings_the_label(self) -> None:
        old = running(UNLABELLED)
        outcome = update(old, changed(old, *NEW_IMAGE))
        assert outcome.lines == (LABELLED,)
        assert queue(outcome.value) == "model-a-lq"

    @pytest.mark.parametrize(("reserved", "labelled"), [(0, True), (4, True), (5, False), (9, False)])
    def test_rollout_without_quota_does_not(self, reserved: int, labelled: bool) -> None:
        """With the label and no quota, the new pod would be gated and the model down."""
        old = running(UNLABELLED)
        outcome = update(old, changed(old, *NEW_IMAGE), cluster(reserved))
        assert outcome.lines == ((LABELLED,) if labelled else (NO_QUOTA,))

    @pytest.mark.parametrize(
        ("kind", "path", "value"),
        [
            ("ClusterQueue", ("spec", "stopPolicy"), "Hold"),
            ("ClusterQueue", ("spec", "resourceGroups"), []),
            ("ClusterQueue", ("spec", "resourceGroups", 0, "coveredResources"), ["cpu"]),
            ("ClusterQueue", ("status", "conditions"), [{"type": "Active", "status": "False"}]),
            ("ClusterQueue", ("metadata", "deletionTimestamp"), "2026-11-29T00:00:00Z"),
            ("LocalQueue", ("spec", "stopPolicy"), "HoldAndDrain"),
            ("LocalQueue", ("spec", "clusterQueue"), "nowhere"),
        ],
    )
    def test_rollout_into_a_queue_that_admits_nothing_does_not(
        self, kind: str, path: tuple[Any, ...], value: Any
    ) -> None:
        names = {"llm-d-model-a-cq", "model-a-lq"}
        state = [
            changed(entry, *path, value) if entry["kind"] == kind and entry["metadata"]["name"] in names else entry
            for entry in cluster()
        ]
        old = running(UNLABELLED)
        assert update(old, changed(old, *NEW_IMAGE), state).lines == (NO_QUOTA,)

    def test_rollout_of_a_pod_that_asks_for_more_than_is_covered_does_not(self) -> None:
        old = running(
            changed(UNLABELLED, "spec", "template", "spec", "containers", 0, "resources", "requests", "cpu", 1)
        )
        assert update(old, changed(old, *NEW_IMAGE)).lines == (NO_QUOTA,)

    def test_quota_counts_as_kueue_rounds_it(self) -> None:
        amount = ("spec", "resourceGroups", 0, "flavors", 0, "resources", 0, "nominalQuota")
        names = {"llm-d-model-a-cq"}
        state = [changed(value, *amount, "0.5") if value["metadata"]["name"] in names else value for value in BASE]
        old = running(UNLABELLED)
        assert update(old, changed(old, *NEW_IMAGE), state).lines == (LABELLED,)

    def test_no_pods_no_restart(self) -> None:
        outcome = update(UNLABELLED, changed(UNLABELLED, "spec", "replicas", 3), cluster(9))
        assert outcome.lines == (LABELLED,)

    def test_loading_pods_count(self) -> None:
        """Pods that are not ready yet are still pods: a model loads for minutes."""
        old = running(changed(UNLABELLED, "status", "readyReplicas", 0))
        assert update(old, changed(old, "spec", "replicas", 3)).lines == (OLD_LABEL,)

    def test_inject_always(self) -> None:
        policy = policy_of({"inject": "always"})
        old = running(UNLABELLED)
        assert update(old, changed(old, "spec", "replicas", 3), cluster(9), policy).lines == (LABELLED,)

    def test_label_that_is_taken_off_comes_back(self) -> None:
        """Also with the quota used up, since it is the workload's own pods that use it."""
        outcome = update(running(CLEAN), running(UNLABELLED), cluster(5))
        assert (outcome.lines, outcome.value) == ((LABELLED,), running(CLEAN))

    def test_opting_out_at_warn(self) -> None:
        held = [changed(value, "metadata", "annotations", {"floorkeeper.io/mode": "warn"}) for value in cluster()]
        outcome = update(running(CLEAN), running(UNLABELLED), held)
        assert outcome.patch == ()
        assert outcome.lines == (LABELLED.replace("patch: ", "warn: ").replace("patched:", "would be patched:"),)

    def test_the_object_label_is_never_touched(self) -> None:
        old = running(changed(CLEAN, "metadata", "labels", {QUEUE_LABEL: "model-a-lq"}))
        new = changed(old, "metadata", "labels", {})
        assert update(old, new).patch == ()

    def test_pod_is_labelled_at_creation_only(self) -> None:
        pod = read_documents(FIXTURES / "kinds" / "pod" / "fail-missing-queue-name.yaml")[-1]
        outcome = update(pod, changed(pod, "metadata", "annotations", {"note": "x"}))
        assert outcome.patch == ()
        assert outcome.lines == (
            f'warn: Pod "model-a": metadata.labels[{QUEUE_LABEL}]: must name a LocalQueue, is absent; not denied: it '
            "was so before; fix: create the Pod again with the label [missing-queue-name]",
        )


def resources(value: Object, request: str | None, limit: str | None) -> Object:
    sides = {"requests": request, "limits": limit}
    given = {side: {"nvidia.com/gpu": amount} for side, amount in sides.items() if amount is not None}
    return changed(value, "spec", "template", "spec", "containers", 0, "resources", given)


SELECTING = changed(CLEAN, "spec", "selector", "matchLabels", QUEUE_LABEL, "model-a-lq")


class TestWhatAFixMayNotDo:
    """Each of these took a running model down, or a write with it, before it was a test."""

    LIMIT_ONLY = resources(CLEAN, None, "1")
    FILL = policy_of({"gpuRequests": "fill"})

    def test_filling_in_a_request_restarts_nothing(self) -> None:
        old = running(self.LIMIT_ONLY)
        outcome = update(old, changed(old, "metadata", "annotations", {"note": "x"}), policy=self.FILL)
        assert outcome.patch == ()
        assert [line[:4] for line in outcome.lines] == ["warn"]

    @pytest.mark.parametrize(
        "old", [None, LIMIT_ONLY, running(changed(LIMIT_ONLY, *NEW_IMAGE[:-1], "vllm/vllm-openai:v0.10.0"))]
    )
    def test_filling_in_a_request_with_a_rollout(self, old: Object | None) -> None:
        outcome = outcome_of(subject_of(self.LIMIT_ONLY, self.FILL, old), snapshot_of(BASE), self.FILL)
        assert outcome.value == resources(CLEAN, "1", "1")

    @pytest.mark.parametrize(
        ("strategy", "replicas", "reserved", "labelled"),
        [
            ({"type": "Recreate"}, 5, 0, True),
            ({"type": "Recreate"}, 6, 0, False),
            ({"type": "Recreate"}, 3, 3, False),
            ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}, 9, 4, True),
            ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}}, 3, 4, True),
            ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}, 3, 3, False),
            ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 4}}, 2, 3, True),
        ],
    )
    def test_as_many_replicas_as_go_down_at_once_must_fit(
        self, strategy: Object, replicas: int, reserved: int, labelled: bool
    ) -> None:
        old = running(
            changed(changed(UNLABELLED, "spec", "strategy", strategy), "spec", "replicas", replicas), replicas
        )
        outcome = update(old, changed(old, *NEW_IMAGE), cluster(reserved))
        assert outcome.lines == ((LABELLED,) if labelled else (NO_QUOTA,))

    @pytest.mark.parametrize(
        "selector",
        [
            {"matchLabels": {"app": "model-a", QUEUE_LABEL: ""}},
            {"matchLabels": {"app": "model-a"}, "matchExpressions": [{"key": QUEUE_LABEL, "operator": "DoesNotExist"}]},
        ],
    )
    def test_the_label_never_meets_a_selector_for_it(self, selector: Object) -> None:
        """The API server refuses a template that its selector does not match, for every rollout to come."""
        old = running(changed(UNLABELLED, "spec", "selector", selector))
        outcome = update(old, changed(old, *NEW_IMAGE))
        assert outcome.patch == ()
        assert [line[:4] for line in outcome.lines] == ["warn", "warn"]

    def test_a_label_that_no_label_can_be(self) -> None:
        name = "q" * 64
        queue_object = {**BASE[-1], "metadata": {**BASE[-1]["metadata"], "name": name}}
        policy = policy_of({"queues": []})
        state = [changed(BASE[0], "metadata", "annotations", {"floorkeeper.io/default-queue": name}), *BASE[1:]]
        outcome = outcome_of(subject_of(UNLABELLED, policy), snapshot_of([*state, queue_object]), policy)
        assert outcome.patch == ()
        assert "has more than 63 characters; fix: create it or name another;" in outcome.lines[0]

    def test_a_stateful_set_that_kueue_labelled(self) -> None:
        """Kueue's default goes on the object alone, and gates the pods all the same."""
        stateful = read_documents(FIXTURES / "kinds" / "statefulset" / "fail-missing-queue-name.yaml")[-1]
        stored = changed(stateful, "metadata", "labels", {QUEUE_LABEL: "default"})
        default = read_documents(FIXTURES / "default-local-queue" / "pass-empty-namespace.yaml")[-1]
        policy = policy_of({"queues": []})
        outcome = outcome_of(subject_of(stored, policy), snapshot_of([*BASE, default]), policy)
        assert (outcome.lines, outcome.patch) == ((), ())

    @pytest.mark.parametrize(("gpus", "severity"), [("1", "warn"), ("4", "deny")])
    def test_taking_more_that_nobody_counts_is_worse(self, gpus: str, severity: str) -> None:
        policy = policy_of({"queues": []})
        old = running(UNLABELLED)
        new = changed(resources(old, gpus, gpus), "spec", "replicas", 5)
        assert [line[:4] for line in update(old, new, policy=policy).lines] == [severity]


class TestOldOffenders:
    @pytest.mark.parametrize(
        ("old", "new", "severity"),
        [
            pytest.param(None, resources(CLEAN, None, "1"), "deny", id="created"),
            pytest.param(CLEAN, resources(CLEAN, None, "1"), "deny", id="clean before"),
            pytest.param(resources(CLEAN, None, "2"), resources(CLEAN, None, "2"), "warn", id="the same"),
            pytest.param(resources(CLEAN, None, "2"), resources(CLEAN, None, "1"), "warn", id="better"),
            pytest.param(resources(CLEAN, None, "1"), resources(CLEAN, None, "2"), "deny", id="worse"),
            pytest.param(resources(CLEAN, "1", "2"), resources(CLEAN, None, "2"), "warn", id="otherwise wrong"),
            pytest.param(resources(CLEAN, None, "1"), CLEAN, "", id="mended"),
            pytest.param(None, SELECTING, "deny", id="selector created"),
            pytest.param(SELECTING, changed(SELECTING, "spec", "replicas", 0), "warn", id="selector scaled down"),
        ],
    )
    def test_verdict(self, old: Object | None, new: Object, severity: str) -> None:
        outcome = outcome_of(subject_of(new, POLICY, old), snapshot_of(BASE), POLICY)
        assert [line.partition(":")[0] for line in outcome.lines] == [severity] * bool(severity)
        assert all(("not denied: it was so before" in line) == (severity == "warn") for line in outcome.lines)

    def test_containers_in_another_order_are_the_same_containers(self) -> None:
        sidecar = {"name": "proxy", "image": "envoyproxy/envoy:v1.36.2"}
        old = resources(CLEAN, None, "1")
        new = copy.deepcopy(old)
        new["spec"]["template"]["spec"]["containers"].insert(0, sidecar)
        outcome = update(old, new)
        assert [line.partition(":")[0] for line in outcome.lines] == ["warn"]

    @pytest.mark.parametrize(
        ("key", "before", "after", "severity"),
        [
            ("requests.nvidia.com/gpu", "10", "10", "warn"),
            ("requests.nvidia.com/gpu", "10", "20", "warn"),
            ("requests.nvidia.com/gpu", "10", "5", "deny"),
            ("requests.nvidia.com/gpu", None, "5", "deny"),
            ("requests.nvidia.com/gpu", "10", None, ""),
        ],
    )
    def test_quota(self, key: str, before: str | None, after: str | None, severity: str) -> None:
        quota = read_documents(FIXTURES / "gpu-resource-quota" / "pass-configmaps.yaml")[-1]
        old, new = (changed(quota, "spec", "hard", key, amount) for amount in (before, after))
        assert [line.partition(":")[0] for line in update(old, new).lines] == [severity] * bool(severity)


class TestPassedOver:
    BAD = resources(UNLABELLED, None, "1")

    @pytest.mark.parametrize(
        "new",
        [
            pytest.param(changed(BAD, "metadata", "deletionTimestamp", "2026-11-29T00:00:00Z"), id="deleting"),
            pytest.param(changed(BAD, "metadata", "namespace", "elsewhere"), id="unmanaged namespace"),
            pytest.param(
                changed(
                    BAD,
                    "metadata",
                    "ownerReferences",
                    [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "controller": True}],
                ),
                id="owned",
            ),
        ],
    )
    def test_nothing_is_said(self, new: Object) -> None:
        outcome = outcome_of(subject_of(new, POLICY), snapshot_of(BASE), POLICY)
        assert (outcome.lines, outcome.patch) == ((), ())

    def test_system_namespace(self) -> None:
        """Whatever its labels say, and also where a policy's selector matches every namespace."""
        policy = policy_of({"managedNamespaces": {}})
        state = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}]
        value = changed(self.BAD, "metadata", "namespace", "kube-system")
        outcome = outcome_of(subject_of(value, policy), snapshot_of(state), policy)
        assert (outcome.lines, outcome.patch) == ((), ())

    def test_terminating_namespace(self) -> None:
        state = [changed(value, "metadata", "deletionTimestamp", "2026-11-29T00:00:00Z") for value in BASE]
        assert outcome_of(subject_of(self.BAD, POLICY), snapshot_of(state), POLICY).lines == ()

    def test_unknown_owner_is_no_parent(self) -> None:
        owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "forged", "controller": True}]
        outcome = outcome_of(
            subject_of(changed(UNLABELLED, "metadata", "ownerReferences", owners), POLICY), snapshot_of(BASE), POLICY
        )
        assert outcome.lines == (
            LABELLED,
            'warn: Deployment "model-a": is controlled by ConfigMap "forged", which Floorkeeper does not know: it is '
            "judged on its own; change values there if they come back",
        )

    def test_owner_that_does_not_control(self) -> None:
        owners = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}]
        new = changed(UNLABELLED, "metadata", "ownerReferences", owners)
        assert outcome_of(subject_of(new, POLICY), snapshot_of(BASE), POLICY).lines == (LABELLED,)


class TestEntriesThatMove:
    """What a list holds is the same wherever it stands, and an old fault excuses one of today's and not two."""

    def group(self, name: str, container: str = "worker", *, hidden: bool = True) -> Object:
        env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] if hidden else []
        pod = {"containers": [{"name": container, "image": "ray", "env": env}]}
        return {"groupName": name, "replicas": 1, "template": {"spec": pod}}

    def cluster(self, *groups: Object) -> Object:
        return {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": "ray", "namespace": "llm-d-optimized-baseline"},
            "spec": {"headGroupSpec": {"template": {"spec": {"containers": []}}}, "workerGroupSpecs": list(groups)},
        }

    def verdicts(self, old: Object, new: Object) -> list[str]:
        lines = outcome_of(subject_of(new, POLICY, old), snapshot_of(BASE), POLICY).lines
        return [line.partition(":")[0] for line in lines if line.endswith("[hidden-gpu-use]")]

    def test_an_old_offender_that_moves(self) -> None:
        old, clean = self.group("old"), self.group("clean", hidden=False)
        assert self.verdicts(self.cluster(old), self.cluster(clean, old)) == ["warn"]
        assert self.verdicts(self.cluster(clean, old), self.cluster(old)) == ["warn"]

    def test_an_old_offender_that_is_renamed(self) -> None:
        assert self.verdicts(self.cluster(self.group("a")), self.cluster(self.group("b"))) == ["warn"]
        assert self.verdicts(self.cluster(self.group("a", "x")), self.cluster(self.group("a", "y"))) == ["warn"]

    def test_a_new_one_in_an_old_ones_place(self) -> None:
        old, new = self.group("old"), self.group("new")
        assert sorted(self.verdicts(self.cluster(old), self.cluster(new, old))) == ["deny", "warn"]
        assert sorted(self.verdicts(self.cluster(old), self.cluster(old, new))) == ["deny", "warn"]

    def test_names_that_are_there_twice_tell_nothing_apart(self) -> None:
        old = self.group("twin")
        assert sorted(self.verdicts(self.cluster(old), self.cluster(old, old))) == ["deny", "warn"]

    def test_an_object_in_an_object(self) -> None:
        wrapper = read_documents(FIXTURES / "kinds" / "appwrapper" / "fixed-missing-queue-name.yaml")[-1]
        (service, job) = wrapper["spec"]["components"]
        pod = ("template", "spec", "template", "spec", "containers", 0, "resources")
        offender = changed(job, *pod, {"limits": {"nvidia.com/gpu": "2"}})
        old = changed(wrapper, "spec", "components", [offender])
        new = changed(wrapper, "spec", "components", [service, offender])
        lines = outcome_of(subject_of(new, POLICY, old), snapshot_of(BASE), POLICY).lines
        assert [line.partition(":")[0] for line in lines if "[implicit-gpu-request]" in line] == ["warn"]
