"""What is written in quota objects: names, amounts, cohorts and preemption, beyond what the fixtures show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import TODAY, policy_of, subject_of
from tests.quota_objects import GPU, apply, check, checked, cohort, fact_of, known, node, queue
from webhook.capacity.balance import balance_of
from webhook.engine.evaluate import judge
from webhook.engine.policy import Capacity, Policy
from webhook.engine.rule import Rule, Stage
from webhook.kube.snapshot import Snapshot
from webhook.rules import malformed_quota, missing_cohort, no_reclaim

Object = dict[str, Any]
AMD = "amd.com/gpu"
MIG = "nvidia.com/mig-3g.40gb"
GPUS = "nvidia.com/gpus"
NODE = node("n")
CPU_NODE = node("cpu-only", gpus=None)
FIRST = "spec.resourceGroups[0].flavors[0].resources[0]"
DECLARE = "or declare it (policy: capacity.declared)"
NO_NODE = "warn: not evaluated: Node: none known [malformed-quota]"


def verdicts(
    rule: Rule, value: Object, snapshot: Snapshot, old: Object | None = None, policy: Policy | None = None
) -> list[str]:
    policy = policy or Policy()
    verdict = judge([rule], Stage.VALIDATE, subject_of(value, policy, old), snapshot, policy, TODAY)
    found = [f"{finding.severity}: {finding.message}" for finding in verdict.findings]
    return [*found, *(f"warn: {entry.message}" for entry in verdict.not_evaluated)]


def malformed(value: Object, *state: Object, old: Object | None = None, policy: Policy | None = None) -> list[str]:
    return verdicts(malformed_quota.RULE, value, known(*(state or (NODE,))), old, policy)


def quotas(*groups: tuple[list[str], Mapping[str, Any]], kind: str = "ClusterQueue") -> Object:
    """Groups of coveredResources, and of resources by flavor: a list of entries, or amounts by resource."""
    value = cohort("q") if kind == "Cohort" else queue("q", {})
    value["spec"]["resourceGroups"] = [
        {
            "coveredResources": covered,
            "flavors": [
                {
                    "name": flavor,
                    "resources": [{"name": name, "nominalQuota": amount} for name, amount in resources.items()]
                    if isinstance(resources, dict)
                    else resources,
                }
                for flavor, resources in flavors.items()
            ],
        }
        for covered, flavors in groups
    ]
    return value


def line(severity: str, path: str, rest: str, rule: str = "malformed-quota", kind: str = "ClusterQueue") -> str:
    return f'{severity}: {kind} "q": {path}: {rest} [{rule}]'


# Amounts


@pytest.mark.parametrize("amount", [0, 8, "8", "+8", "-0", "1k", "5000m", 1e3, "1e3", "1E3", "1Ki"])
def test_whole_amounts(amount: Any) -> None:
    assert malformed(queue("q", {"f": amount})) == []


@pytest.mark.parametrize(
    ("amount", "problem"),
    [
        ("", "''"),
        ("0x8", "'0x8'"),
        ("1_000", "'1_000'"),
        ("eight", "'eight'"),
        (True, "true"),
        ([8], "a list"),
        ({}, "a dict"),
    ],
)
@pytest.mark.parametrize("field", ["nominalQuota", "borrowingLimit", "lendingLimit"])
def test_what_is_no_quantity(amount: Any, problem: str, field: str) -> None:
    found = malformed(queue("q", {"f": {"nominalQuota": 1, field: amount}}, cohort="c"))
    wanted = f"must be a quantity, is {problem}, not a quantity such as 1 or 500m; fix: write a number, such as 1"
    assert found == [line("deny", f"{FIRST}.{field}", wanted)]


@pytest.mark.parametrize(("amount", "shown"), [(" 5", "5"), ("5 ", "5"), (".", "0"), ("m", "0"), ("Ki", "0")])
def test_what_the_api_server_reads_and_the_schema_of_kueue_does_not(amount: str, shown: str) -> None:
    wanted = f"must be a quantity, is '{amount}'; fix: write {shown}, as Kueue's schema wants it"
    assert malformed(queue("q", {"f": amount})) == [line("deny", f"{FIRST}.nominalQuota", wanted)]


def test_an_exponent_that_would_never_end() -> None:
    assert malformed(queue("q", {"f": "2E6024865272343"})) == [
        line(
            "deny",
            f"{FIRST}.nominalQuota",
            "must be a quantity, is '2E6024865272343', whose exponent is beyond any real amount; "
            "fix: write a number, such as 1",
        )
    ]


@pytest.mark.parametrize(
    ("amount", "shown", "counted"), [("0.5", "0.5", "1"), ("2500m", "2.5", "3"), (0.5, "0.5", "1")]
)
@pytest.mark.parametrize("field", ["nominalQuota", "borrowingLimit", "lendingLimit"])
def test_what_kueue_rounds_up(amount: Any, shown: str, counted: str, field: str) -> None:
    wanted = f"must be a whole number, is {shown}, which Kueue rounds up; fix: write {counted}, or what is meant"
    value = queue("q", {"f": {"nominalQuota": 1, field: amount}})
    assert malformed(value) == [line("warn", f"{FIRST}.{field}", wanted)]


def test_cpu_is_counted_in_millis() -> None:
    assert malformed(queue("q", {"f": "1500m"}, "cpu")) == []


@pytest.mark.parametrize("kind", ["ClusterQueue", "Cohort"])
def test_everything_at_once_with_its_place(kind: str) -> None:
    entries = [
        {"name": "cpu", "nominalQuota": -1, "lendingLimit": "-500m"},
        {"name": "cpu", "borrowingLimit": 1},
        {"name": "memory", "nominalQuota": None},
    ]
    value = quotas(
        (["cpu", GPU], {"a": entries}),
        (["cpu", "rdma/hca"], {"b": {"cpu": 1, "rdma/hca": 1}, "a": {"cpu": 1, "rdma/hca": 1}}),
        kind=kind,
    )
    first, second = "spec.resourceGroups[0]", "spec.resourceGroups[1]"
    resources = f"{first}.flavors[0].resources"
    absent = "must be set, is absent; fix: set it, to 0 if nothing is guaranteed"
    assert malformed(value) == [
        line("deny", path, rest, kind=kind)
        for path, rest in [
            (
                resources,
                f"must hold each of coveredResources, is without {GPU}; fix: add it, with nominalQuota 0 for none",
            ),
            (f"{resources}[0].lendingLimit", "must not be negative, is -0.5; fix: write 0 or more"),
            (f"{resources}[0].nominalQuota", "must not be negative, is -1; fix: write 0 or more"),
            (f"{resources}[1].name", f"must not be listed twice, is cpu, as is {resources}[0].name; fix: keep one"),
            (f"{resources}[1].nominalQuota", absent),
            (
                f"{resources}[2].name",
                "must be one of coveredResources, is memory; fix: add it there, or remove it here",
            ),
            (f"{resources}[2].nominalQuota", absent),
            (
                f"{second}.coveredResources[0]",
                f"must not be listed twice, is cpu, as is {first}.coveredResources[0]; fix: keep it in one group",
            ),
            (
                f"{second}.flavors[1].name",
                f"must not be listed twice, is a, as is {first}.flavors[0].name; "
                "fix: keep one, with all its resources in one group",
            ),
        ]
    ]


def test_one_resource_in_many_flavors_is_listed_once_in_each() -> None:
    assert (
        malformed(quotas((["cpu"], {"a": {"cpu": 1}, "b": {"cpu": 1}}), (["memory"], {"c": {"memory": "1Gi"}}))) == []
    )


# Names


@pytest.mark.parametrize(
    ("resource", "offered", "instead"),
    [
        (GPUS, [GPU, AMD, "rdma/hca"], f"use {GPU}"),
        (GPU, ["nvidia.com/gpu.shared", AMD], "use nvidia.com/gpu.shared"),
        (GPU, [AMD], f"use {AMD}"),
        (GPU, ["nvidia.com/mig-1g.10gb", "google.com/tpu"], "use nvidia.com/mig-1g.10gb"),
        (MIG, [GPU, "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.20gb"], "use nvidia.com/mig-3g.20gb"),
        ("huawei.com/Ascend910", [GPU, AMD], f"use {AMD}, {GPU}"),
        (
            "habana.ai/gaudi",
            ["a.com/x", GPU, AMD, MIG, "gpu.intel.com/i915", "google.com/tpu"],
            f"use {AMD}, google.com/tpu, gpu.intel.com/i915 and 2 more",
        ),
        (GPU, ["rdma/hca", "example.com/fpga"], "wait for nodes (none lists an accelerator)"),
    ],
)
def test_the_nearest_name_that_a_node_offers(resource: str, offered: list[str], instead: str) -> None:
    amounts = dict.fromkeys(offered, "4")
    found = malformed(queue("q", {"f": 2}, resource), node("n", capacity=amounts, allocatable=amounts))
    wanted = f"must be offered by a node, is {resource}; fix: {instead}, {DECLARE}"
    assert found == [line("deny", f"{FIRST}.name", wanted)]


@pytest.mark.parametrize(
    ("capacity", "allocatable"), [({AMD: "0"}, {AMD: "0"}), ({AMD: "8"}, {}), ({}, {AMD: "0"})], ids=str
)
def test_a_name_that_a_node_lists_is_offered(capacity: Object, allocatable: Object) -> None:
    assert malformed(queue("q", {"f": 2}, AMD), node("n", capacity=capacity, allocatable=allocatable)) == []


def test_what_is_meant_for_an_accelerator() -> None:
    resources = ["nvidia.com/hostdev", "gpu.intel.com/x", "nvidia.com", "example.com/fpga", "rdma/hca", "cpu", "gpu"]
    value = quotas((resources, {"f": dict.fromkeys(resources, 1)}))
    found = [text.partition(", is ")[2].partition(";")[0] for text in malformed(value)]
    assert found == ["nvidia.com/hostdev", "gpu.intel.com/x", "nvidia.com"]
    listing = {"nvidia.com/hostdev": "1"}
    assert malformed(queue("q", {"f": 1}, "nvidia.com/hostdev"), node("n", capacity=listing)) == []


def test_the_policy_says_what_an_accelerator_is() -> None:
    policy = policy_of({"accelerators": {"resources": ["example.com/fpga-*"], "deviceClasses": {}}})
    offered = {"example.com/fpga-a": 2}
    found = {
        resource: malformed(queue("q", {"f": 1}, resource), node("n", capacity=offered), policy=policy) != []
        for resource in ("example.com/fpga-a", "example.com/fpga-b", "example.com/fpgas", GPU)
    }
    assert found == {
        "example.com/fpga-a": False,
        "example.com/fpga-b": True,
        "example.com/fpgas": True,
        GPU: False,
    }


def test_declared_in_any_flavor_or_in_an_ignored_one() -> None:
    value = queue("q", {"f": 1, "g": 1}, AMD)
    declared = Policy(capacity=Capacity(declared={"other": {AMD: 0}}))
    assert malformed(value, policy=declared) == []
    ignored = malformed(value, policy=Policy(capacity=Capacity(ignore_flavors=frozenset({"f"}))))
    assert [text.partition(": must")[0] for text in ignored] == [
        'deny: ClusterQueue "q": spec.resourceGroups[0].flavors[1].resources[0].name'
    ]


ABSENT = line("deny", f"{FIRST}.name", f"must be offered by a node, is {AMD}; fix: use {GPU}, {DECLARE}")
WARNED = ABSENT.replace("deny", "warn", 1)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (queue("q", {"f": 0}, AMD), [WARNED]),
        (queue("q", {"f": {"nominalQuota": 0, "borrowingLimit": 4}}, AMD), [WARNED]),
        (queue("q", {"f": 0}, AMD, cohortName="c"), [ABSENT]),
        (queue("q", {"f": 0}, AMD, cohort="c"), [WARNED]),
        (queue("q", {"f": {"nominalQuota": 0, "borrowingLimit": "0"}}, AMD, cohortName="c"), [WARNED]),
        (queue("q", {"f": {"nominalQuota": 0, "borrowingLimit": 1}}, AMD, cohortName="c"), [ABSENT]),
        (queue("q", {"f": {"nominalQuota": 1, "borrowingLimit": 0}}, AMD, cohortName="c"), [ABSENT]),
        (cohort("q", {"f": 0}, AMD), [WARNED.replace("ClusterQueue", "Cohort")]),
        (cohort("q", {"f": 0}, AMD, parentName="root"), [ABSENT.replace("ClusterQueue", "Cohort")]),
    ],
)
def test_a_quota_of_0_denies_only_where_more_can_be_borrowed(value: Object, found: list[str]) -> None:
    assert malformed(value) == found


CHECKS = (check("remote", "kueue.x-k8s.io/multikueue"), check("autoscaled", "kueue.x-k8s.io/provisioning-request"))


@pytest.mark.parametrize(
    ("strategy", "found"),
    [
        (checked("remote"), []),
        (checked("autoscaled"), []),
        (checked("remote", on=("f",)), []),
        (checked("remote", on=("g",)), [ABSENT]),
        (checked("other"), [ABSENT]),
        (checked("other", "remote"), []),
        (checked("not-yet-there"), [WARNED]),
        (checked("not-yet-there", on=("g",)), [ABSENT]),
    ],
)
def test_hardware_that_is_elsewhere(strategy: Object, found: list[str]) -> None:
    value = queue("q", {"f": 1}, AMD, admissionChecksStrategy=strategy)
    assert malformed(value, NODE, *CHECKS, check("other", "example.com/check")) == found


def test_hardware_that_is_elsewhere_in_v1beta1() -> None:
    value = {**queue("q", {"f": 1}, AMD, admissionChecks=["remote"]), "apiVersion": "kueue.x-k8s.io/v1beta1"}
    assert malformed(value, NODE, *CHECKS) == []


# What is not known


def test_without_nodes_the_rest_is_still_judged() -> None:
    entries = [{"name": GPU, "nominalQuota": -1}]
    negative = line("deny", f"{FIRST}.nominalQuota", "must not be negative, is -1; fix: write 0 or more")
    snapshot = known()
    assert verdicts(malformed_quota.RULE, quotas(([GPU], {"f": entries})), snapshot) == [negative, NO_NODE]
    assert verdicts(malformed_quota.RULE, queue("q", {"f": 1}), snapshot) == [NO_NODE]
    for silent in (
        queue("q", {"f": 1}, "cpu"),
        queue("q", {}),
    ):
        assert verdicts(malformed_quota.RULE, silent, snapshot) == []
    declared = Policy(capacity=Capacity(declared={"f": {GPU: 1}}))
    assert verdicts(malformed_quota.RULE, queue("q", {"f": 1}), snapshot, policy=declared) == []


def test_nodes_without_accelerators_are_known() -> None:
    wanted = f"must be offered by a node, is {GPU}; fix: wait for nodes (none lists an accelerator), {DECLARE}"
    assert malformed(queue("q", {"f": 1}), CPU_NODE) == [line("deny", f"{FIRST}.name", wanted)]


def test_kinds_that_cannot_be_read() -> None:
    snapshot = known(NODE)
    snapshot.forget("AdmissionCheck", "forbidden")
    plain = queue("q", {"f": 1}, GPUS)
    with_check = queue("q", {"f": 1}, GPUS, admissionChecksStrategy=checked("remote"))
    assert len(verdicts(malformed_quota.RULE, plain, snapshot)) == 1
    unread = "warn: not evaluated: AdmissionCheck: forbidden [malformed-quota]"
    assert verdicts(malformed_quota.RULE, with_check, snapshot) == [unread]
    snapshot.forget("Node", "forbidden")
    assert verdicts(malformed_quota.RULE, plain, snapshot) == [NO_NODE.replace("none known", "forbidden")]


# Updates


def test_an_old_offender_is_known_wherever_it_moves() -> None:
    old = quotas((["cpu"], {"a": {"cpu": -1}}), ([GPUS, "memory"], {"b": {GPUS: 2}}))
    new = quotas(([GPUS, "memory"], {"c": {GPUS: 0, "memory": 1}, "b": {GPUS: 2}}), (["cpu"], {"a": {"cpu": -1}}))
    new["spec"]["cohortName"] = "c"
    place = "spec.resourceGroups[0].flavors[1].resources"
    before = "not denied: it was so before; fix"
    gpus = f"must be offered by a node, is {GPUS}"
    assert malformed(new, old=old) == [
        line("deny", f"{FIRST}.name", f"{gpus}; fix: use {GPU}, {DECLARE}"),
        line(
            "warn",
            place,
            f"must hold each of coveredResources, is without memory; {before}: add it, with nominalQuota 0 for none",
        ),
        line("warn", f"{place}[0].name", f"{gpus}; {before}: use {GPU}, {DECLARE}"),
        line(
            "warn",
            "spec.resourceGroups[1].flavors[0].resources[0].nominalQuota",
            f"must not be negative, is -1; {before}: write 0 or more",
        ),
    ]


LENT = {"cohortName": "c"}


@pytest.mark.parametrize(
    ("old", "new", "severity"),
    [
        (queue("q", {"f": 2}, GPUS), queue("q", {"f": 2}, GPUS), "warn"),
        (queue("q", {"f": 2}, GPUS), queue("q", {"f": 1}, GPUS), "warn"),
        (queue("q", {"f": 2}, GPUS), queue("q", {"f": 3}, GPUS), "deny"),
        (queue("q", {"f": 2}, GPUS), queue("q", {"g": 2}, GPUS), "deny"),
        (queue("q", {"f": 2}, GPUS), queue("q", {"f": 2}, "nvidia.com/gpux"), "deny"),
        (queue("q", {"f": 0}, GPUS), queue("q", {"f": 1}, GPUS), "deny"),
        (queue("q", {"f": 0}, GPUS), queue("q", {"f": 0}, GPUS, **LENT), "deny"),
        (queue("q", {"f": 0}, GPUS, **LENT), queue("q", {"f": 0}, GPUS, **LENT), "warn"),
        (queue("q", {"f": "x"}), queue("q", {"f": "y"}), "warn"),
        (queue("q", {"f": "x"}), queue("q", {"f": -1}), "deny"),
        (queue("q", {"f": -1}), queue("q", {"f": -2}), "deny"),
        (queue("q", {"f": -2}), queue("q", {"f": -1}), "warn"),
        (queue("q", {"f": {}}), queue("q", {"f": {"lendingLimit": 1}}), "warn"),
    ],
)
def test_what_was_so_before_and_got_no_worse_is_a_warning(old: Object, new: Object, severity: str) -> None:
    assert [text.partition(":")[0] for text in malformed(new, old=old)] == [severity]


# What nodes list

NAMES = st.sampled_from([GPU, AMD, MIG, "example.com/fpga", "cpu"])
AMOUNTS = st.dictionaries(NAMES, st.sampled_from(["0", "4"]))
NODES = st.builds(
    lambda name, capacity, allocatable: node(name, capacity=capacity, allocatable=allocatable),
    st.sampled_from(["a", "b", "c"]),
    AMOUNTS,
    AMOUNTS,
)


@given(st.lists(st.tuples(st.sampled_from(["put", "put", "remove", "relist", "forget"]), NODES), max_size=12))
def test_what_nodes_list_follows_events(events: list[tuple[str, Object]]) -> None:
    snapshot = known()
    balance = balance_of(snapshot, Capacity(), Policy().accelerators)
    there: dict[str, Object] = {}
    for what, value in events:
        name = value["metadata"]["name"]
        match what:
            case "put":
                there[name] = value
                apply(snapshot, value)
            case "remove":
                there.pop(name, None)
                snapshot.remove("Node", "", name)
            case "relist":
                there = {name: value}
                snapshot.replace("Node", [fact_of(value)])
            case "forget":
                there = {}
                snapshot.forget("Node", "forbidden")
        statuses = [each["status"] for each in there.values()]
        names = {name for status in statuses for part in ("capacity", "allocatable") for name in status[part]}
        assert balance.offered() == names - {"cpu"}


# Cohorts


@pytest.mark.parametrize(
    ("version", "spec", "place", "actual"),
    [
        ("v1beta2", {}, "spec.cohortName", "absent"),
        ("v1beta2", {"cohortName": None}, "spec.cohortName", "absent"),
        ("v1beta2", {"cohort": "c"}, "spec.cohortName", "absent (v1beta2 has no field cohort)"),
        ("v1beta1", {}, "spec.cohort", "absent"),
        ("v1beta1", {"cohort": ""}, "spec.cohort", "absent"),
        ("v1beta1", {"cohortName": "c"}, "spec.cohort", "absent (v1beta1 has no field cohortName)"),
        ("v1beta2", {"cohortName": "c"}, "", ""),
        ("v1beta1", {"cohort": "c"}, "", ""),
        ("v1beta1", {"cohort": "c", "cohortName": "d"}, "", ""),
    ],
)
def test_the_cohort_is_read_by_the_version_of_the_object(version: str, spec: Object, place: str, actual: str) -> None:
    value = {**queue("q", {"f": 1}, **spec), "apiVersion": f"kueue.x-k8s.io/{version}"}
    wanted = (
        f"must name a cohort, is {actual}; fix: set it to that of the queues which are to share, "
        "else idle quota is neither lent nor borrowed"
    )
    found = verdicts(missing_cohort.RULE, value, known())
    assert found == ([line("warn", place, wanted, "missing-cohort")] if place else [])


# What makes a floor, for both rules

FLOORS = {
    "one flavor of two": (quotas(([GPU], {"a": {GPU: 0}, "b": {GPU: 1}})), True),
    "the second group": (quotas((["cpu"], {"a": {"cpu": 1}}), ([MIG], {"b": {MIG: "0.5"}})), True),
    "none of an accelerator": (quotas((["cpu", GPU], {"a": {"cpu": 1, GPU: 0}})), False),
    "unreadable": (queue("q", {"f": "x"}), False),
    "negative": (queue("q", {"f": -1}), False),
    "a limit": (queue("q", {"f": {"borrowingLimit": 4}}), False),
    "nothing": (queue("q", {}), False),
}


@pytest.mark.parametrize(("value", "is_floor"), FLOORS.values(), ids=FLOORS)
def test_what_is_a_floor(value: Object, is_floor: bool) -> None:
    assert [bool(verdicts(rule, value, known())) for rule in (missing_cohort.RULE, no_reclaim.RULE)] == [is_floor] * 2


RECLAIM = "must be Any, is {}; fix: set it to Any, else a floor that was lent does not come back when it is needed"
BORROW = "must be Never, is {}; fix: set it to Never: above its floor a queue waits for what is idle"


@pytest.mark.parametrize(
    ("preemption", "reclaim", "borrow"),
    [
        (None, "Never", ""),
        ({}, "Never", ""),
        ({"reclaimWithinCohort": "Never", "borrowWithinCohort": {"policy": "Never"}}, "Never", ""),
        ({"reclaimWithinCohort": "LowerPriority"}, "LowerPriority", ""),
        ({"reclaimWithinCohort": "Any"}, "", ""),
        ({"reclaimWithinCohort": "Any", "borrowWithinCohort": None}, "", ""),
        ({"reclaimWithinCohort": "Any", "borrowWithinCohort": {}}, "", ""),
        ({"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}, "", "LowerPriority"),
        ({"borrowWithinCohort": {"policy": "LowerPriority"}}, "Never", "LowerPriority"),
        (7, "Never", ""),
    ],
)
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_preemption(version: str, preemption: Any, reclaim: str, borrow: str) -> None:
    value = {**queue("q", {"f": 1}, preemption=preemption), "apiVersion": f"kueue.x-k8s.io/{version}"}
    place = "spec.preemption"
    wanted = [
        line("warn", f"{place}.{path}", text.format(actual), "no-reclaim")
        for path, text, actual in (
            ("borrowWithinCohort.policy", BORROW, borrow),
            ("reclaimWithinCohort", RECLAIM, reclaim),
        )
        if actual
    ]
    assert verdicts(no_reclaim.RULE, value, known()) == wanted


# Damaged objects

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from(["", "cpu", GPU, GPUS, "f", "1", "0.5", "x", "-1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["resourceGroups", "coveredResources", "flavors", "name", "resources", "nominalQuota", "policy"]
            ),
            inner,
            max_size=3,
        )
    ),
)


@given(JSON, JSON, JSON, st.sampled_from(["ClusterQueue", "Cohort"]))
def test_damaged_objects_raise_nothing(groups: Any, flavors: Any, resources: Any, kind: str) -> None:
    snapshot = known(NODE)
    group = {"coveredResources": [GPU], "flavors": [{"name": "f", "resources": resources}, flavors]}
    for spec in (groups, {"resourceGroups": groups}, {"resourceGroups": [group, groups], "preemption": flavors}):
        value = {**queue("q", {}), "kind": kind, "spec": spec}
        for rule in (malformed_quota.RULE, missing_cohort.RULE, no_reclaim.RULE):
            verdicts(rule, value, snapshot, old=value)
