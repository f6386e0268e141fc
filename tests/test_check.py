"""What `floorkeeper check` makes of objects: what they are judged against, what is said once, and what is not said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes.client
import pytest
import yaml

from tests.checking import (
    GPU,
    QUOTAS,
    TEAM,
    Object,
    autoscaler,
    changed,
    checked,
    checked_text,
    cluster_queue,
    deployment,
    flavor,
    lines,
    local_queue,
    namespace,
    node,
    said,
    skips,
    unjudged,
    written,
)
from webhook.check.options import BadOption, declared
from webhook.check.result import Fault, Place, Result
from webhook.engine.verdict import Severity
from webhook.kube.kinds import JUDGED
from webhook.kube.quantity import NANO

QUEUE = "kueue.x-k8s.io/queue-name"
STATE = "none in the input; give --state or --live"
NODES = "none in the input; give --nodes or --capacity"
ABSENT_NODES = [
    f"floors-below-capacity: Node: {NODES} (2)",
    f"floors-exceed-capacity: Node: {NODES} (3)",
    f"malformed-quota: Node: {NODES} (2)",
]
KEY = ("spec", "template", "metadata", "labels", QUEUE)


class TestState:
    def test_everything_is_state_in_any_order(self) -> None:
        objects = [deployment("x", "a-lq"), *reversed(QUOTAS), node(), deployment("z", "b-lq")]
        result = checked(*objects)
        assert lines(result) == []
        assert (result.objects, result.checked, result.exit_code()) == (9, 8, 0)
        assert skips(result) == ["Node /n1: it is read as state, and no rule judges its kind"]

    def test_a_queue_that_is_not_in_the_input_although_others_are(self) -> None:
        assert lines(checked(*QUOTAS, node(), deployment("x", "c-lq"))) == [
            f'warn: Deployment "x": spec.template.metadata.labels[{QUEUE}]: must name a LocalQueue that exists, is '
            "c-lq; fix: create it, or use one that exists: a-lq, b-lq [unknown-queue]"
        ]

    @pytest.mark.parametrize(
        ("objects", "expected"),
        [
            (
                [deployment("x", "a-lq")],
                {
                    "conflicting-queue-name": "LocalQueue",
                    "replica-over-budget": "LocalQueue",
                    "uncovered-resource": "LocalQueue",
                    "unknown-queue": "LocalQueue",
                },
            ),
            (
                [deployment("x", "a-lq"), local_queue("a-lq", "a")],
                {
                    "replica-over-budget": "ClusterQueue",
                    "uncovered-resource": "ClusterQueue",
                    "unknown-queue": "ClusterQueue",
                },
            ),
            (
                [deployment("x", "a-lq"), local_queue("a-lq", "a"), cluster_queue("a"), cluster_queue("b"), node()],
                {
                    "floors-below-capacity": "ResourceFlavor",
                    "floors-exceed-capacity": "ResourceFlavor",
                    "replica-over-budget": "ResourceFlavor",
                    "unknown-queue": "ResourceFlavor",
                },
            ),
            ([flavor()], {"floors-exceed-capacity": "ClusterQueue"}),
            ([deployment("x")], {"conflicting-queue-name": "LocalQueue", "missing-queue-name": "LocalQueue"}),
            ([deployment("x", gpus=0)], {}),
            ([autoscaler("x", 3)], {"replicas-over-ceiling": "Deployment"}),
            ([local_queue("default", "a")], {"default-local-queue": "Deployment"}),
            ([local_queue("a-lq", "a")], {}),
            (
                [*QUOTAS, node(), changed(deployment("x", "a-lq"), (*KEY[:-1], "kueue.x-k8s.io/priority-class"), "p")],
                {"unknown-queue": "WorkloadPriorityClass"},
            ),
            (
                [
                    *QUOTAS,
                    node(),
                    changed(deployment("x", "a-lq"), ("spec", "template", "spec", "runtimeClassName"), "kata"),
                ],
                {"replica-over-budget": "RuntimeClass", "uncovered-resource": "RuntimeClass"},
            ),
        ],
    )
    def test_what_nobody_told_of_is_not_taken_for_absent(
        self, tmp_path: Path, objects: list[Object], expected: dict[str, str]
    ) -> None:
        found = checked(namespace(), *objects)
        assert {entry.rule: entry.reason for entry in found.not_evaluated} == {
            rule: f"{kind}: {STATE}" for rule, kind in expected.items()
        }
        assert [finding for finding in found.findings if finding.severity is not Severity.PATCH] == []
        # A folder that stands for the cluster tells that there are none.
        whole = checked(namespace(), *objects, state=(written(tmp_path / "state", namespace("other")),))
        assert not [entry for entry in whole.not_evaluated if entry.reason.endswith(STATE)]

    def test_workloads_are_known_by_a_bare_replica_set(self) -> None:
        value = {**deployment("x", "a-lq"), "kind": "ReplicaSet"}
        del value["spec"]["strategy"]
        assert lines(checked(*QUOTAS, node(), value)) == []

    def test_more_state(self, tmp_path: Path) -> None:
        state = written(tmp_path / "state", *QUOTAS, node(), deployment("w", "a-lq"))
        result = checked(deployment("x", "b-lq"), state=(state,))
        assert (lines(result), result.objects, result.checked) == ([], 1, 1)
        assert said(checked(deployment("x", "a-lq"), state=(state,))) == ["warn shared-local-queue Deployment x"]

    def test_the_input_overrides_the_state(self, tmp_path: Path) -> None:
        state = written(tmp_path / "state", *QUOTAS, node(), cluster_queue("c", 5))
        assert said(checked(cluster_queue("b"), state=(state,))) == ["deny floors-exceed-capacity ClusterQueue b"]
        assert said(checked(cluster_queue("c", 0), state=(state,))) == []
        assert said(checked(cluster_queue("b"), cluster_queue("c", 0), state=(state,))) == []

    def test_of_the_same_object_twice_the_last_is_state(self) -> None:
        result = checked(*QUOTAS, cluster_queue("b", 1), node(gpus=6))
        # The first one is judged too, against the others.
        assert [(found.rule, found.place.line) for found in result.findings] == [("floors-exceed-capacity", 49)]
        assert [note.message for note in result.notes] == [
            'ClusterQueue "b" is there twice, first at <stdin>:33; this one counts, remove one of them'
        ]

    def test_state_that_cannot_be_read(self, tmp_path: Path) -> None:
        state = written(tmp_path / "state", *QUOTAS, node())
        (tmp_path / "state" / "z.yaml").write_text("a: [")
        result = checked(deployment("x", "a-lq", gpus=20), state=(state,))
        assert said(result) == ["deny replica-over-budget Deployment x"]
        assert [fault.place.file for fault in result.errors] == [f"{state}/z.yaml"]
        assert result.exit_code() == 2

    def test_what_a_patch_makes_of_others_is_seen(self) -> None:
        """As in a cluster, where the one that comes first is stored with its label."""
        home = namespace(default_queue="a-lq")
        result = checked(*QUOTAS[1:], home, node(), deployment("x"), deployment("z"), autoscaler("z", 11))
        assert said(result) == [
            "patch missing-queue-name Deployment x",
            "patch missing-queue-name Deployment z",
            "warn shared-local-queue Deployment z",
            "warn replicas-over-ceiling HorizontalPodAutoscaler z",
        ]
        operation = {"op": "add", "path": f"/spec/template/metadata/labels/{QUEUE.replace('/', '~1')}", "value": "a-lq"}
        assert [list(found.change) for found in result.findings] == [[operation], [operation], [], []]


class TestNodes:
    def test_unknown(self) -> None:
        assert unjudged(checked(*QUOTAS)) == ABSENT_NODES
        assert checked(*QUOTAS).exit_code() == 0
        assert checked(*QUOTAS).exit_code(["not-evaluated"]) == 3

    @pytest.mark.parametrize("form", ["yaml", "json"])
    def test_file(self, tmp_path: Path, form: str) -> None:
        nodes = tmp_path / f"nodes.{form}"
        # JSON is YAML.
        nodes.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [node("n1", 4), node("n2", 4)]}))
        result = checked(*QUOTAS, nodes=str(nodes))
        assert said(result) == ["deny floors-exceed-capacity ClusterQueue b"]
        assert "= 10; hardware: 8 on 2 nodes" in result.findings[0].message

    def test_file_without_nodes(self, tmp_path: Path) -> None:
        nodes = tmp_path / "nodes.yaml"
        nodes.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [namespace()]}))
        result = checked(*QUOTAS, nodes=str(nodes))
        text = "holds no Node; give what `kubectl get nodes -o yaml` prints"
        assert result == Result(errors=(Fault(Place(str(nodes)), text),), objects=6)

    def test_file_that_is_not_there(self) -> None:
        result = checked(*QUOTAS, nodes="/nope.yaml")
        assert ([fault.place.file for fault in result.errors], result.checked) == (["/nope.yaml"], 0)

    @pytest.mark.parametrize(("gpus", "expected"), [(10, []), (9, ["deny floors-exceed-capacity ClusterQueue b"])])
    def test_declared(self, gpus: int, expected: list[str]) -> None:
        result = checked(*QUOTAS, capacity=declared([f"a100/{GPU}={gpus}"]))
        assert (said(result), unjudged(result)) == (expected, [])

    def test_declared_for_another_flavor(self) -> None:
        result = checked(*QUOTAS, capacity=declared([f"h100/{GPU}=10"]))
        assert unjudged(result) == [
            "floors-below-capacity: Node: none known (2)",
            "floors-exceed-capacity: Node: none known (3)",
        ]

    def test_declared_beside_the_policy(self, tmp_path: Path) -> None:
        policy = tmp_path / "policy.yaml"
        capacity = {"declared": {"a100": {GPU: 4, "amd.com/gpu": 1}}}
        policy.write_text(
            yaml.safe_dump({"apiVersion": "floorkeeper.io/v1alpha1", "kind": "Policy", "capacity": capacity})
        )
        assert said(checked(*QUOTAS, policy=str(policy))) == ["deny floors-exceed-capacity ClusterQueue b"]
        assert said(checked(*QUOTAS, policy=str(policy), capacity=declared([f"a100/{GPU}=10"]))) == []

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["x"], "must be FLAVOR/RESOURCE=N, is 'x'; write such as a100/nvidia.com/gpu=16"),
            (["=1"], "must be FLAVOR/RESOURCE=N, is '=1'; write such as a100/nvidia.com/gpu=16"),
            (["a/=1"], "must be FLAVOR/RESOURCE=N, is 'a/=1'; write such as a100/nvidia.com/gpu=16"),
            (["/b=1"], "must be FLAVOR/RESOURCE=N, is '/b=1'; write such as a100/nvidia.com/gpu=16"),
            (["a/b="], "a/b: is '', not a quantity such as 1 or 500m; write a whole number"),
            (["a/b=x"], "a/b: is 'x', not a quantity such as 1 or 500m; write a whole number"),
            (["a/b=-1"], "a/b: must be a whole number from 0, is -1; write how many there are"),
            (["a/b=0.5"], "a/b: must be a whole number from 0, is 0.5; write how many there are"),
            (["a/b=1", "a/b=1"], "a/b: is given twice; keep one"),
        ],
    )
    def test_wrong_capacity(self, words: list[str], message: str) -> None:
        with pytest.raises(BadOption, match=re.escape(f"--capacity: {message}") + "$"):
            declared(words)

    def test_capacity_of_what_is_no_accelerator(self) -> None:
        assert declared(["a/cpu=1k"]) == {"a": {"cpu": 1000 * NANO}}
        with pytest.raises(BadOption, match=r"^--capacity: cpu is no accelerator of the policy; correct the name$"):
            checked(*QUOTAS, capacity=declared(["a/cpu=1"]))


class TestNamespaces:
    @pytest.mark.parametrize(
        ("objects", "expected"),
        [
            (
                [deployment("x")],
                ["Deployment team/x: its namespace is not in the input; --managed treats it as managed"],
            ),
            (
                [deployment("x"), namespace(managed=False)],
                ["Deployment team/x: its namespace is not managed", "Namespace /team: it is not managed"],
            ),
            (
                [deployment("x", home="kube-system"), namespace("kube-system")],
                [
                    "Deployment kube-system/x: its namespace is the system's",
                    "Namespace /kube-system: its namespace is the system's",
                ],
            ),
            (
                [deployment("x"), changed(namespace(), ("status", "phase"), "Terminating")],
                ["Deployment team/x: its namespace is terminating", "Namespace /team: its namespace is terminating"],
            ),
        ],
    )
    def test_skipped(self, objects: list[Object], expected: list[str]) -> None:
        result = checked(*objects)
        assert (skips(result), result.checked, result.exit_code(), result.exit_code(allow_empty=True)) == (
            expected,
            0,
            2,
            0,
        )

    def test_managed(self) -> None:
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {GPU: 1}}}
        assert said(checked(quota, managed=True)) == ["deny gpu-resource-quota ResourceQuota q"]
        # What the input declares is as it declares it.
        result = checked(quota, namespace("default", managed=False), managed=True)
        assert (said(result), result.checked) == ([], 0)

    @pytest.mark.parametrize(
        "selector",
        [
            {"matchLabels": {"team": "ml", "env": "prod"}},
            {"matchExpressions": [{"key": "team", "operator": "In", "values": ["ml", "nlp"]}]},
            {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["default"]}]},
            {
                "matchExpressions": [
                    {"key": "team", "operator": "Exists"},
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["other"]},
                    {"key": "legacy", "operator": "DoesNotExist"},
                ]
            },
        ],
    )
    def test_managed_whatever_the_policy_selects_by(self, tmp_path: Path, selector: Object) -> None:
        policy = tmp_path / "policy.yaml"
        head = {"apiVersion": "floorkeeper.io/v1alpha1", "kind": "Policy"}
        policy.write_text(yaml.safe_dump({**head, "managedNamespaces": selector}))
        value = deployment("x", home="", gpus=0)
        assert checked(value, managed=True, policy=str(policy)).checked == 1
        assert checked(value, policy=str(policy)).checked == 0

    def test_of_objects_that_name_none(self) -> None:
        value = deployment("x", "a-lq", home="", gpus=20)
        result = checked(*QUOTAS, value, node(), namespace=TEAM)
        assert [(found.rule, found.namespace) for found in result.findings] == [("replica-over-budget", TEAM)]
        assert skips(checked(value, namespace("default", managed=False)))[0] == (
            "Deployment default/x: its namespace is not managed"
        )

    def test_of_what_is_in_none(self) -> None:
        result = checked(changed(cluster_queue("a"), ("metadata", "namespace"), TEAM), namespace="x")
        assert result.checked == 1
        assert {found.namespace for found in result.findings} == {""}

    def test_unknown_kinds(self) -> None:
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
        result = checked(role, {**deployment("x"), "apiVersion": "example.com/v1"}, managed=True)
        assert skips(result) == [
            "ClusterRole /r: no rule judges its kind",
            "Deployment team/x: no rule judges its kind",
        ]
        assert [entry.unknown_kind for entry in result.skipped] == [True, True]

    def test_exempt(self, tmp_path: Path) -> None:
        policy = tmp_path / "policy.yaml"
        policy.write_text(
            "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
            "exemptions:\n- {namespace: team, workload: x-*, reason: INC-1, until: 2026-11-29}\n"
            "- {namespace: team, workload: y-*, reason: INC-2, until: 2026-11-28}\n"
        )
        result = checked(*QUOTAS, node(), deployment("x-1"), deployment("y-1"), policy=str(policy))
        assert said(result) == ["deny missing-queue-name Deployment y-1"]
        assert "Deployment team/x-1: it is exempt: INC-1" in skips(result)

    def test_children_of_workloads(self) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "controller": True}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": TEAM, "ownerReferences": [owner]},
        }
        assert skips(checked(pod, namespace())) == ["Pod team/p: its ReplicaSet was judged"]

    def test_advice_about_an_owner_is_a_note(self) -> None:
        owner = {"apiVersion": "example.com/v1", "kind": "Model", "name": "m", "controller": True}
        value = changed(deployment("x", "a-lq"), ("metadata", "ownerReferences"), [owner])
        result = checked(*QUOTAS, node(), value)
        assert (said(result), [note.message for note in result.notes]) == (
            [],
            [
                'Deployment "x": is controlled by Model "m", which Floorkeeper does not know: it is judged on its own; '
                "change values there if they come back"
            ],
        )


VOLCANO: Object = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "v1"},
    "spec": {"guarantee": {"resource": {GPU: 6}}},
}
QUOTA: Object = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": TEAM},
    "spec": {"hard": {"requests.nvidia.com/gpu": "10", "limits.nvidia.com/gpu": "10"}},
}


class TestToldOnce:
    """What several objects are at fault for together is said at one of them."""

    @pytest.mark.parametrize(
        ("objects", "expected"),
        [
            # At the last floor of the cut in the order of the input.
            ([*QUOTAS, cluster_queue("c", 2)], ["deny floors-exceed-capacity ClusterQueue c"]),
            ([cluster_queue("c", 2), *QUOTAS], ["deny floors-exceed-capacity ClusterQueue b"]),
            (
                [*QUOTAS, cluster_queue("c", 2), cluster_queue("d", 1), flavor()],
                ["deny floors-exceed-capacity ClusterQueue d"],
            ),
            # Two cuts are two faults.
            (
                [*QUOTAS, cluster_queue("c", 2), flavor("h100", gpu="h100"), cluster_queue("d", 1, "h100")],
                ["deny floors-exceed-capacity ClusterQueue c", "deny floors-exceed-capacity ClusterQueue d"],
            ),
            ([*QUOTAS, deployment("x", "a-lq"), deployment("z", "a-lq")], ["warn shared-local-queue Deployment z"]),
            (
                [*QUOTAS, deployment("x", "a-lq"), autoscaler("x", 11)],
                ["warn replicas-over-ceiling HorizontalPodAutoscaler x"],
            ),
            (
                [*QUOTAS, autoscaler("x", 11), deployment("x", "a-lq")],
                ["warn replicas-over-ceiling HorizontalPodAutoscaler x"],
            ),
            ([QUOTA, *QUOTAS], ["deny gpu-resource-quota ResourceQuota q"] * 2),
            (
                [*QUOTAS, VOLCANO, changed(VOLCANO, ("metadata", "name"), "v2")],
                ["deny floors-exceed-capacity Queue v2"],
            ),
        ],
    )
    def test_in_the_input(self, objects: list[Object], expected: list[str]) -> None:
        assert said(checked(*objects, node())) == expected

    @pytest.mark.parametrize(
        ("state", "value", "expected"),
        [
            ([*QUOTAS, cluster_queue("c", 2)], flavor(), ["deny floors-exceed-capacity ResourceFlavor a100"]),
            (
                [*QUOTAS, autoscaler("x", 11)],
                deployment("x", "a-lq"),
                ["warn replicas-over-ceiling Deployment x"],
            ),
            ([*QUOTAS, QUOTA], namespace(), ["warn gpu-resource-quota Namespace team"]),
        ],
    )
    def test_at_second_best_where_the_best_is_not_in_the_input(
        self, tmp_path: Path, state: list[Object], value: Object, expected: list[str]
    ) -> None:
        assert said(checked(value, state=(written(tmp_path / "state", *state, node()),))) == expected

    def test_all_that_is_wrong_with_an_object_is_told(self) -> None:
        result = checked(*QUOTAS, node(), QUOTA)
        assert [found.path for found in result.findings] == [
            "spec.hard[requests.nvidia.com/gpu]",
            "spec.hard[limits.nvidia.com/gpu]",
        ]


class TestSurveys:
    def test_floors_below_capacity(self) -> None:
        result = checked(*QUOTAS, node(gpus=12))
        assert lines(result) == [
            'warn: ClusterQueue "b": spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: must leave '
            "nothing unclaimed, is such that floors claim 10 of 12 nvidia.com/gpu; fix: raise floors by 2, else idle "
            "[floors-below-capacity]"
        ]
        assert said(checked(*QUOTAS, node(gpus=12), cluster_queue("c", 2))) == []

    def test_floors_of_flavors_that_share_nodes(self) -> None:
        objects = [flavor("all"), flavor("some", gpu="a"), cluster_queue("a", 3, "some"), cluster_queue("b", 3, "all")]
        found = checked(namespace(), *objects, node("n1", 5, gpu="a"), node("n2", 5)).findings
        assert [(each.name, each.path.count("[")) for each in found] == [("b", 3)]
        assert "floors claim 6 of 10" in found[0].message

    def test_of_a_flavor_that_is_not_there(self) -> None:
        result = checked(*QUOTAS, node(), cluster_queue("c", 2, "h100"))
        assert unjudged(result) == [
            "floors-below-capacity: ResourceFlavor: h100 not there (3)",
            "floors-exceed-capacity: ResourceFlavor: h100 not there yet; floors of c in it are judged then (1)",
        ]

    def test_switched_off(self, tmp_path: Path) -> None:
        policy = tmp_path / "policy.yaml"
        head = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
        policy.write_text(f"{head}rules: {{floors-below-capacity: off, missing-cohort: off}}\n")
        assert said(checked(flavor(), cluster_queue("a"), node(), policy=str(policy))) == []

    def test_never_denied(self, tmp_path: Path) -> None:
        policy = tmp_path / "policy.yaml"
        head = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
        policy.write_text(f"{head}rules: {{floors-below-capacity: deny, missing-cohort: deny}}\n")
        assert said(checked(flavor(), cluster_queue("a"), node(), policy=str(policy))) == [
            "warn missing-cohort ClusterQueue a",
            "warn floors-below-capacity ClusterQueue a",
        ]

    @pytest.mark.parametrize(
        ("others", "expected"),
        [
            ([], ["a"]),
            ([cluster_queue("b", 0)], []),
            ([cluster_queue("b", 0, cohortName="other")], ["a"]),
            ([cluster_queue("b", 5, cohortName="other")], ["a", "b"]),
            # Who has no cohort may be the one that is missed.
            ([cluster_queue("b", 5, cohortName="")], ["b"]),
        ],
    )
    def test_alone_in_a_cohort(self, others: list[Object], expected: list[str]) -> None:
        found = checked(flavor(), cluster_queue("a"), *others, node(gpus=5 * (1 + len(others)))).findings
        assert [each.name for each in found if each.rule == "missing-cohort"] == expected

    def test_alone_in_a_tree_of_cohorts(self) -> None:
        def cohort(name: str, parent: str) -> Object:
            return {**flavor(name), "kind": "Cohort", "spec": {"parentName": parent}}

        queues = [flavor(), cluster_queue("a", cohortName="left"), cluster_queue("b", cohortName="right"), node()]
        assert said(checked(*queues, cohort("left", "top"), cohort("right", "top"))) == []
        assert said(checked(*queues, cohort("left", "right"), cohort("right", "left"))) == []
        assert lines(checked(*queues, cohort("left", "top")))[0] == (
            'warn: ClusterQueue "a": spec.cohortName: must name a cohort that another queue is in, is left, where it '
            "is alone; fix: set it to that of the queues which are to share: nobody lends to it or borrows from it "
            "here [missing-cohort]"
        )

    def test_of_the_old_version(self) -> None:
        value = {**cluster_queue("a", cohort="pool", cohortName=None), "apiVersion": "kueue.x-k8s.io/v1beta1"}
        (found,) = checked(flavor(), value, node(gpus=5)).findings
        assert (found.rule, found.path) == ("missing-cohort", "spec.cohort")


class TestPlaces:
    def test_of_the_key_or_its_nearest_parent(self) -> None:
        text = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Namespace
  metadata: {name: team, labels: {floorkeeper.io/managed: "true"}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: x, namespace: team}
  spec:
    selector: {matchLabels: {app: x}}
    template:
      metadata: {labels: {app: x}}
      spec:
        containers:
        - name: main
          resources:
            limits: {nvidia.com/gpu: 1}
"""
        found = [(each.place, each.path) for each in checked_text(text).findings]
        assert found == [
            (Place("<stdin>", 10, 3), "spec.strategy.rollingUpdate.maxSurge"),
            (Place("<stdin>", 14, 7), "spec.template.spec.terminationGracePeriodSeconds"),
            (Place("<stdin>", 17, 11), "spec.template.spec.containers[0].resources.requests[nvidia.com/gpu]"),
        ]

    def test_skipped(self) -> None:
        assert checked(namespace(managed=False), deployment("x")).skipped[1].place == Place("<stdin>", 8, 1)


class TestNamesOfFields:
    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({**namespace(), "kind": "Pod", "Spec": {}}, "Spec is no field of a Pod; did you mean spec?"),
            # There is a strategy already.
            (changed(deployment("x"), ("spec", "stategy"), {}), ""),
            (
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {"stategy": {}}},
                "spec.stategy is no field of a Deployment; did you mean strategy?",
            ),
            (
                changed(deployment("x"), ("spec", "template", "spec"), {"containers": [{"name": "a", "resource": {}}]}),
                "spec.template.spec.containers[0].resource is no field of a Deployment; did you mean resources?",
            ),
            (
                changed(deployment("x"), ("spec", "template", "spec"), {"container": []}),
                "spec.template.spec.container is no field of a Deployment; did you mean containers?",
            ),
            (
                {**local_queue("l", "a"), "spec": {"ClusterQueue": "a"}},
                "spec.ClusterQueue is no field of a LocalQueue; did you mean clusterQueue?",
            ),
        ],
    )
    def test_misspelt(self, value: Object, message: str) -> None:
        result = checked(namespace(), value)
        assert [fault.message for fault in result.errors] == ([message] if message else [])
        assert (result.exit_code() == 2) is bool(message)

    @pytest.mark.parametrize(
        "path", [("spec", "workloadPolicy"), ("status", "Spec"), ("spec", "template", "spec", "evictionHints")]
    )
    def test_what_may_be_new_is_passed_over(self, path: tuple[str, ...]) -> None:
        assert checked(namespace(), changed(deployment("x", gpus=0), path, 1)).errors == ()

    @pytest.mark.parametrize(
        ("kind", "path", "model"),
        [
            ("Deployment", ("metadata",), "V1ObjectMeta"),
            ("Deployment", ("spec",), "V1DeploymentSpec"),
            ("Deployment", ("spec", "strategy"), "V1DeploymentStrategy"),
            ("Deployment", ("spec", "strategy", "rollingUpdate"), "V1RollingUpdateDeployment"),
            ("Deployment", ("spec", "template"), "V1PodTemplateSpec"),
            ("Deployment", ("spec", "template", "metadata"), "V1ObjectMeta"),
            ("Deployment", ("spec", "template", "spec"), "V1PodSpec"),
            ("Deployment", ("spec", "template", "spec", "containers"), "V1Container"),
            ("Deployment", ("spec", "template", "spec", "initContainers", "resources"), "V1ResourceRequirements"),
            ("StatefulSet", ("spec",), "V1StatefulSetSpec"),
            ("ReplicaSet", ("spec",), "V1ReplicaSetSpec"),
            ("ReplicationController", ("spec",), "V1ReplicationControllerSpec"),
            ("DaemonSet", ("spec",), "V1DaemonSetSpec"),
            ("CronJob", ("spec",), "V1CronJobSpec"),
            ("CronJob", ("spec", "jobTemplate"), "V1JobTemplateSpec"),
            ("CronJob", ("spec", "jobTemplate", "spec"), "V1JobSpec"),
            ("Pod", ("spec",), "V1PodSpec"),
            ("ResourceQuota", ("spec",), "V1ResourceQuotaSpec"),
            ("HorizontalPodAutoscaler", ("spec",), "V2HorizontalPodAutoscalerSpec"),
            ("HorizontalPodAutoscaler", ("spec",), "V1HorizontalPodAutoscalerSpec"),
        ],
    )
    def test_no_field_of_the_api_is_taken_for_a_misspelt_one(
        self, kind: str, path: tuple[str, ...], model: str
    ) -> None:
        fields = dict.fromkeys(getattr(kubernetes.client, model).attribute_map.values())
        row = next(row for row in JUDGED if row.kind == kind)
        version = f"{row.group}/{row.versions[0]}" if row.group else row.versions[0]
        value = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}
        if path == ("metadata",):
            fields["name"] = "x"
        assert len(fields) >= 2
        assert checked(changed(value, path, fields)).errors == ()

    @pytest.mark.parametrize(
        ("value", "dropped", "instead"),
        [
            (cluster_queue("a", cohort="x"), "spec.cohort", "spec.cohortName"),
            ({**cluster_queue("a"), "apiVersion": "kueue.x-k8s.io/v1beta1"}, "spec.cohortName", "spec.cohort"),
            ({**flavor("c"), "kind": "Cohort", "spec": {"parent": "x"}}, "spec.parent", "spec.parentName"),
            ({**flavor("c"), "kind": "Cohort", "spec": {"parent": None}}, "", ""),
        ],
    )
    def test_of_another_version(self, value: Object, dropped: str, instead: str) -> None:
        text = f"{dropped} is no field of {value['apiVersion']}, so the API server drops it; write {instead}"
        assert [note.message for note in checked(value).notes] == ([text] if dropped else [])


@pytest.mark.parametrize("damage", [None, 3, "x", [], {}, [None], [[3]], {"a": None}, [{"name": 3}]], ids=str)
@pytest.mark.parametrize(
    "path",
    [
        "spec",
        "spec template",
        "spec template spec",
        "spec template spec containers",
        "spec template spec resources",
        "spec containers",
        "spec strategy",
        "spec strategy rollingUpdate",
        "spec selector",
        "spec replicas",
        "spec hard",
        "spec resourceGroups",
        "spec scaleTargetRef",
        "spec guarantee",
        "spec cohortName",
        "status",
        "data",
    ],
)
def test_damaged_objects_are_judged_or_refused(tmp_path: Path, path: str, damage: Any) -> None:
    rows = [(f"{row.group}/{row.versions[-1]}".removeprefix("/"), row.kind) for row in JUDGED]
    rows += [("v1", "Node"), ("v1", "ConfigMap"), ("v1", "LimitRange"), ("node.k8s.io/v1", "RuntimeClass")]
    values = [
        changed(
            {"apiVersion": version, "kind": kind, "metadata": {"name": "kueue-manager-config"}}, path.split(), damage
        )
        for version, kind in rows
    ]
    old = written(tmp_path / "old", *({**value, "spec": {}} for value in values))
    result = checked(*values, managed=True, diff_against=old)
    assert result.objects == len(rows)
    assert result.checked >= len(JUDGED) - 1  # the Namespace is not managed


GOOD = (*QUOTAS, node(), deployment("x", "a-lq"), deployment("z", "b-lq"), autoscaler("x", 4))


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ((), []),
        (QUOTA | {"spec": {"hard": {"requests.nvidia.com/gpu": 10}}}, "deny gpu-resource-quota"),
        (QUOTA | {"spec": {"hard": {"pods": 10}}}, "warn gated-pods-over-quota"),
        (deployment("x", "a-lq", gpus=0), "deny implicit-gpu-request"),
        (cluster_queue("a", 6), "deny floors-exceed-capacity"),
        (cluster_queue("a", 4), "warn floors-below-capacity"),
        (cluster_queue("a", cohortName=""), "warn missing-cohort"),
        (cluster_queue("a", preemption={}), "warn no-reclaim"),
        (
            cluster_queue(
                "a", preemption={"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}
            ),
            "warn no-reclaim",
        ),
        (deployment("x", "c-lq"), "warn unknown-queue"),
        (deployment("x", "b-lq"), "warn shared-local-queue"),
        (deployment("x"), "deny missing-queue-name"),
        (changed(deployment("x", "a-lq"), ("metadata", "labels"), {QUEUE: "b-lq"}), "deny conflicting-queue-name"),
        (
            changed(deployment("x", "a-lq"), ("spec", "selector", "matchLabels", QUEUE), "a-lq"),
            "deny queue-name-in-selector",
        ),
        (deployment("x", "a-lq", strategy=None), "patch surge-without-quota"),
        (
            changed(deployment("x", "a-lq"), ("spec", "template", "spec", "terminationGracePeriodSeconds"), 5),
            "warn short-grace-period",
        ),
        (autoscaler("x", 11), "warn replicas-over-ceiling"),
    ],
)
def test_each_warning_of_the_guide_is_the_one_finding(broken: Any, expected: Any) -> None:
    """The guide's objects with one of them otherwise, in its place."""
    kept = [value for value in GOOD if not broken or _name(value) != _name(broken)]
    place = len(GOOD) if len(kept) == len(GOOD) else [_name(value) for value in GOOD].index(_name(broken))
    result = checked(*kept[:place], *([broken] if broken else []), *kept[place:])
    assert [f"{found.severity} {found.rule}" for found in result.findings] == ([expected] if expected else [])
    assert (result.errors, result.not_evaluated, result.notes) == ((), (), ())


def _name(value: Object) -> tuple[str, str]:
    return value["kind"], value["metadata"]["name"]
