"""Resource claims (DRA): how they are read, what they count for, and what is said of those that cannot be counted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import BASE, TODAY, outcome_of, policy_of, snapshot_of, subject_of
from tests.test_counted import config_map
from webhook.engine.evaluate import judge
from webhook.engine.policy import Policy
from webhook.engine.rule import Stage
from webhook.kube.claims import ClaimFact, DeviceClassFact, Devices, counted_as
from webhook.kube.counted_pod import counted_pod
from webhook.kube.facts import PROJECTIONS
from webhook.kube.names import QUEUE_LABEL
from webhook.kube.pods import PodTemplate
from webhook.kube.quantity import NANO
from webhook.kube.snapshot import Snapshot
from webhook.rules import RULES

Object = dict[str, Any]
GPU = "nvidia.com/gpu"
CLASS = "gpu.nvidia.com"
NAMESPACE = "llm-d-optimized-baseline"
KUEUE_CONFIG = (
    "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nintegrations: {frameworks: [pod]}\n"
    "resources: {deviceClassMappings: [{name: nvidia.com/gpu, deviceClassNames: [gpu.nvidia.com]}]}\n"
)


def exactly(device_class: str = CLASS, **fields: Any) -> Object:
    return {"name": "r", "exactly": {"deviceClassName": device_class, **fields}}


def either(*alternatives: Object) -> Object:
    return {"name": "r", "firstAvailable": list(alternatives)}


def devices(device_class: str = CLASS, **fields: Any) -> Object:
    return {"name": "a", "deviceClassName": device_class, **fields}


def template(name: str, *requests: Object, version: str = "v1") -> Object:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def claim(name: str, *requests: Object, **annotations: str) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"devices": {"requests": list(requests)}},
    }


def device_class(name: str, extended_resource: str | None = None) -> Object:
    spec = {} if extended_resource is None else {"extendedResourceName": extended_resource}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def pod(*entries: tuple[str, str], requests: Object | None = None, queue: str = "model-a-lq") -> Object:
    """`entries` are (field, name) of spec.resourceClaims."""
    resources = {"requests": requests, "limits": requests} if requests else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "model-a", "namespace": NAMESPACE, "labels": {QUEUE_LABEL: queue} if queue else {}},
        "spec": {
            "terminationGracePeriodSeconds": 120,
            "containers": [{"name": "vllm", "resources": resources}],
            "resourceClaims": [{"name": f"c{index}", field: name} for index, (field, name) in enumerate(entries)],
        },
    }


BY_TEMPLATE, BY_NAME = "resourceClaimTemplateName", "resourceClaimName"


def read(value: Object, *objects: Object, policy: Policy | None = None) -> PodTemplate:
    policy = policy or policy_of()
    return subject_of(value, policy).within(snapshot_of([*BASE, *objects])).templates[0]


def units(amounts: Any) -> Object:
    return {resource: amount / NANO for resource, amount in amounts.items()}


REQUESTS: dict[str, tuple[Any, tuple[tuple[Devices, ...], ...]]] = {
    "one": ([exactly()], ((Devices(CLASS),),)),
    "several": ([exactly(count=2), exactly("nic")], ((Devices(CLASS, 2),), (Devices("nic"),))),
    "a count that is said": ([exactly(allocationMode="ExactCount", count=4)], ((Devices(CLASS, 4),),)),
    "all": ([exactly(allocationMode="All")], ((Devices(CLASS, None),),)),
    "admin": ([exactly(adminAccess=True)], ((Devices(CLASS, 1, admin=True),),)),
    "alternatives": (
        [either(devices(count=2), devices("mig.nvidia.com"))],
        ((Devices(CLASS, 2), Devices("mig.nvidia.com")),),
    ),
    "nothing": ([], ()),
    "damaged": (
        ["text", {}, {"exactly": [1]}, exactly(count="2"), exactly(count=True), {"firstAvailable": "text"}],
        ((Devices(""),), (Devices(""),), (Devices(""),), (Devices(CLASS),), (Devices(CLASS),), (Devices(""),)),
    ),
}


@pytest.mark.parametrize("case", REQUESTS)
@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_what_a_claim_asks_for(case: str, version: str) -> None:
    written, requests = REQUESTS[case]
    fact = ClaimFact(NAMESPACE, "t", requests)
    assert PROJECTIONS["ResourceClaimTemplate"](template("t", *written, version=version)) == fact
    assert PROJECTIONS["ResourceClaim"](claim("t", *written)) == fact


def test_v1beta1_has_no_exactly() -> None:
    flat = {"name": "r", "deviceClassName": CLASS, "allocationMode": "ExactCount", "count": 3}
    several = {"name": "r", "firstAvailable": [devices(count=2), devices("b")]}
    found = PROJECTIONS["ResourceClaimTemplate"](template("t", flat, several, exactly("ignored"), version="v1beta1"))
    requests = ((Devices(CLASS, 3),), (Devices(CLASS, 2), Devices("b")), (Devices(""),))
    assert found == ClaimFact(NAMESPACE, "t", requests)
    # And later versions have nothing beside it.
    assert PROJECTIONS["ResourceClaimTemplate"](template("t", flat)) == ClaimFact(NAMESPACE, "t", ((Devices(""),),))


@pytest.mark.parametrize("spec", [None, "text", {}, {"spec": None}, {"spec": {"devices": []}}])
def test_damaged_claims(spec: Any) -> None:
    value = {**template("t"), "spec": spec}
    assert PROJECTIONS["ResourceClaimTemplate"](value) == ClaimFact(NAMESPACE, "t")


def test_a_claim_that_a_template_made_is_no_fact() -> None:
    """The pod that it was made for has the template, and there is one such claim for each pod."""
    made = claim("model-a-x", exactly())
    made["metadata"]["annotations"] = {"resource.kubernetes.io/pod-claim-name": "c0"}
    assert PROJECTIONS["ResourceClaim"](made) is None


def test_device_classes() -> None:
    assert PROJECTIONS["DeviceClass"](device_class("a")) == DeviceClassFact("a")
    assert PROJECTIONS["DeviceClass"](device_class("a", "x.io/gpu")) == DeviceClassFact("a", "x.io/gpu")


CLASSES = {"a": "x.io/gpu", "b": "x.io/gpu", "c": "x.io/mig"}


@pytest.mark.parametrize(
    ("alternatives", "counted"),
    [
        ([Devices("a")], ("x.io/gpu", 1)),
        ([Devices("a", 3)], ("x.io/gpu", 3)),
        ([Devices("a", 3), Devices("b", 4)], ("x.io/gpu", 4)),
        ([Devices("a"), Devices("c")], ("", 0)),
        ([Devices("a"), Devices("other")], ("", 0)),
        ([Devices("other")], ("", 0)),
        ([Devices("a", None)], ("", 0)),
        ([Devices("a", admin=True)], ("", 0)),
        ([], ("", 0)),
    ],
)
def test_what_a_request_counts_as(alternatives: list[Devices], counted: tuple[str, int]) -> None:
    assert counted_as(alternatives, CLASSES) == counted


STATE = (
    template("one", exactly()),
    template("four", exactly(count=4)),
    template("two-requests", exactly(), exactly(count=2), exactly("dra.net")),
    template("nic", exactly("dra.net")),
    template("all", exactly(allocationMode="All")),
    template("admin", exactly(adminAccess=True)),
    claim("shared", exactly(count=2)),
)


@pytest.mark.parametrize(
    ("entries", "asks", "own", "shared"),
    [
        ([(BY_TEMPLATE, "one")], True, 1, {}),
        ([(BY_TEMPLATE, "four"), (BY_TEMPLATE, "one")], True, 5, {}),
        ([(BY_TEMPLATE, "one"), (BY_TEMPLATE, "one")], True, 2, {}),
        ([(BY_TEMPLATE, "two-requests")], True, 3, {}),
        ([(BY_NAME, "shared")], True, 0, {"shared": 2}),
        ([(BY_NAME, "shared"), (BY_NAME, "shared"), (BY_TEMPLATE, "one")], True, 1, {"shared": 2}),
        # It takes some, and nobody knows how many.
        ([(BY_TEMPLATE, "all")], True, 0, {}),
        ([(BY_TEMPLATE, "nic")], False, 0, {}),
        ([(BY_TEMPLATE, "admin")], False, 0, {}),
        ([(BY_TEMPLATE, "absent")], False, 0, {}),
        # A template is no claim, and a claim no template.
        ([(BY_NAME, "one"), (BY_TEMPLATE, "shared")], False, 0, {}),
        ([("resourceClaimTemplateName", ""), ("other", "one")], False, 0, {}),
    ],
)
def test_what_a_pod_claims(entries: list[tuple[str, str]], asks: bool, own: int, shared: dict[str, int]) -> None:
    found = read(pod(*entries), *STATE)
    assert found.asks is asks
    assert units(found.claimed()) == ({GPU: own} if own else {})
    amounts = {name: units(each)[GPU] for name, each in found.shared().items() if each}
    assert amounts == shared
    assert units(found.accelerators_asked) == ({GPU: own + sum(shared.values())} if own or shared else {})


@pytest.mark.parametrize("claims", [None, "text", {"name": "a"}, ["text", None, {}], [{"resourceClaimName": 5}]])
def test_damaged_lists(claims: Any) -> None:
    value = pod()
    value["spec"]["resourceClaims"] = claims
    assert read(value).claims == ()


def test_without_facts_nothing_is_known() -> None:
    found = subject_of(pod((BY_TEMPLATE, "one")), policy_of()).templates[0]
    assert [(each.name, each.fact, each.unknown) for each in found.claims] == [("one", None, None)]
    assert not found.asks


def test_claims_add_to_requests() -> None:
    found = read(pod((BY_TEMPLATE, "one"), requests={GPU: "2"}), *STATE)
    assert units(found.totals()) == {GPU: 2}
    assert units(found.accelerators_asked) == {GPU: 3}


# Names of extended resources that stand for devices


@pytest.mark.parametrize(
    ("resource", "objects", "asks"),
    [
        # Every DeviceClass has this one, whether or not anybody knows of it.
        (f"deviceclass.resource.kubernetes.io/{CLASS}", [], True),
        ("deviceclass.resource.kubernetes.io/dra.net", [], False),
        ("example.com/gpu", [device_class(CLASS, "example.com/gpu")], True),
        ("example.com/gpu", [device_class(CLASS, "example.com/other")], False),
        ("example.com/nic", [device_class("dra.net", "example.com/nic")], False),
        ("example.com/gpu", [], False),
        (GPU, [device_class(CLASS, GPU)], True),
    ],
)
def test_extended_resources(resource: str, objects: list[Object], asks: bool) -> None:
    assert read(pod(requests={resource: "1"}), *objects).asks is asks


# What Kueue counts


def counted(value: Object, *objects: Object, text: str = KUEUE_CONFIG, policy: Policy | None = None) -> Object:
    snapshot = snapshot_of([*BASE, *STATE, config_map(text), *objects])
    subject = subject_of(value, policy or policy_of()).within(snapshot)
    found = counted_pod(subject.templates[0], "model-a-lq", NAMESPACE, snapshot)
    assert found is not None
    return {**units(found.requests), **{name: units(each) for name, each in found.shared.items()}}


NO_MAPPING = KUEUE_CONFIG.partition("resources:")[0]


@pytest.mark.parametrize(
    ("value", "text", "requests"),
    [
        (pod((BY_TEMPLATE, "four")), KUEUE_CONFIG, {GPU: 4}),
        (pod((BY_TEMPLATE, "four"), requests={GPU: "1", "memory": "1Gi"}), KUEUE_CONFIG, {GPU: 5, "memory": 2**30}),
        (pod((BY_TEMPLATE, "two-requests")), KUEUE_CONFIG, {GPU: 3}),
        (pod((BY_TEMPLATE, "nic")), KUEUE_CONFIG, {}),
        (pod((BY_TEMPLATE, "nic")), KUEUE_CONFIG.replace(CLASS, "dra.net").replace(GPU, "nics"), {"nics": 1}),
        # Kueue's own word goes before the policy's, and the policy's stands where Kueue has none.
        (pod((BY_TEMPLATE, "one")), KUEUE_CONFIG.replace(GPU, "whole-gpus"), {"whole-gpus": 1}),
        (pod((BY_TEMPLATE, "one")), NO_MAPPING, {GPU: 1}),
        (pod((BY_NAME, "shared")), KUEUE_CONFIG, {"shared": {GPU: 2}}),
        (pod((BY_TEMPLATE, "absent")), KUEUE_CONFIG, {}),
    ],
)
def test_what_kueue_counts(value: Object, text: str, requests: Object) -> None:
    assert counted(value, text=text) == requests


def test_what_kueue_leaves_out_of_containers_it_counts_of_claims() -> None:
    text = KUEUE_CONFIG.replace("resources: {", "resources: {excludeResourcePrefixes: [nvidia.com/], ")
    assert counted(pod((BY_TEMPLATE, "one"), requests={GPU: "1"}), text=text) == {GPU: 1}


@pytest.mark.parametrize(
    ("feature", "requests"),
    [("", {"example.com/gpu": 2}), ("true", {GPU: 2}), ("false", {"example.com/gpu": 2})],
)
def test_extended_resources_under_the_name_of_their_class(feature: str, requests: Object) -> None:
    text = KUEUE_CONFIG + (f"featureGates: {{DRAExtendedResources: {feature}}}" if feature else "")
    classes = device_class(CLASS, "example.com/gpu"), device_class("other", "example.com/nic")
    assert counted(pod(requests={"example.com/gpu": "2"}), *classes, text=text) == requests
    assert counted(pod(requests={"example.com/nic": "2"}), *classes, text=text) == {"example.com/nic": 2}


# What is said


def lines(value: Object, *objects: Object, text: str = KUEUE_CONFIG, **policy: Any) -> list[str]:
    snapshot = snapshot_of([*BASE, *STATE, config_map(text), *objects])
    return said(value, snapshot, **policy)


def said(value: Object, snapshot: Snapshot, **policy: Any) -> list[str]:
    rules = policy_of(policy)
    return [line for line in outcome_of(subject_of(value, rules), snapshot, rules).lines if "unchecked-claim" in line]


def about(name: str, text: str, field: str = BY_TEMPLATE, severity: str = "warn") -> str:
    return f'{severity}: Pod "model-a": spec.resourceClaims[0].{field}: {text} [unchecked-claim]'.replace("NAME", name)


UNCOUNTED = {
    "absent": "must name a ResourceClaimTemplate that exists, is NAME; fix: create it first: nobody knows what it is "
    "for",
    "nic": "must be of a DeviceClass that is counted, is NAME, of dra.net; fix: map dra.net in the policy's "
    "accelerators.deviceClasses, if it is an accelerator",
    "two-requests": "must be of a DeviceClass that is counted, is NAME, of dra.net; fix: map dra.net in the policy's "
    "accelerators.deviceClasses, if it is an accelerator",
    "all": "must be for a number of devices, is NAME, of gpu.nvidia.com, all of them; fix: set allocationMode "
    "ExactCount and a count",
    "admin": "must not be for adminAccess, is NAME, of gpu.nvidia.com; fix: nothing counts it: claim devices of its "
    "own",
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_what_cannot_be_counted_is_said(name: str) -> None:
    assert lines(pod((BY_TEMPLATE, name))) == [about(name, UNCOUNTED[name])]


@pytest.mark.parametrize("name", UNCOUNTED)
def test_in_the_mode_of_the_policy(name: str) -> None:
    denied = [about(name, UNCOUNTED[name], severity="deny")]
    assert lines(pod((BY_TEMPLATE, name)), rules={"unchecked-claim": "deny"}) == denied
    assert lines(pod((BY_TEMPLATE, name)), rules={"unchecked-claim": "off"}) == []


def test_a_claim_that_does_not_exist() -> None:
    text = "must name a ResourceClaim that exists, is NAME; fix: create it first: nobody knows what it is for"
    assert lines(pod((BY_NAME, "one"))) == [about("one", text, BY_NAME)]


def test_what_kueue_would_count_and_the_policy_does_not() -> None:
    text = KUEUE_CONFIG.replace(f"[{CLASS}]", f"[{CLASS}, dra.net]")
    assert lines(pod((BY_TEMPLATE, "nic")), text=text) == [
        about(
            "nic",
            "must be of a DeviceClass that is counted, is NAME, of dra.net; fix: map dra.net in the policy's "
            "accelerators.deviceClasses, as Kueue has it: nvidia.com/gpu",
        )
    ]


@pytest.mark.parametrize(
    ("text", "there", "alike"),
    [(NO_MAPPING, "not counted", ""), (KUEUE_CONFIG.replace(GPU, "whole-gpus"), "whole-gpus", " and here alike")],
)
def test_what_kueue_counts_otherwise(text: str, there: str, alike: str) -> None:
    assert lines(pod((BY_TEMPLATE, "one")), text=text) == [
        about(
            "one",
            f"must count as nvidia.com/gpu in Kueue too, is NAME, of gpu.nvidia.com, there {there}; fix: map it in "
            f"Kueue's resources.deviceClassMappings{alike}",
        )
    ]


def test_where_nobody_has_read_kueues_configuration_it_is_not_compared() -> None:
    assert said(pod((BY_TEMPLATE, "one")), snapshot_of([*BASE, *STATE])) == []
    unread = snapshot_of([*BASE, *STATE])
    unread.forget("ConfigMap", "may not be listed")
    assert said(pod((BY_TEMPLATE, "one")), unread) == []


def test_a_shared_claim_is_not_kueues() -> None:
    text = (
        "must come from a ResourceClaimTemplate, is NAME, which pods share and which Kueue does not count; fix: use "
        "resourceClaimTemplateName"
    )
    assert lines(pod((BY_NAME, "shared"))) == [about("shared", text, BY_NAME)]


def test_with_what_kueue_admits_nothing() -> None:
    """Where it surely looks at claims (Kueue 0.17, tried)."""
    text = KUEUE_CONFIG + "featureGates: {DynamicResourceAllocation: true}"
    shared = (
        "must come from a ResourceClaimTemplate, is NAME, which pods share and with which Kueue admits none; fix: use "
        "resourceClaimTemplateName"
    )
    assert lines(pod((BY_NAME, "shared")), text=text) == [about("shared", shared, BY_NAME)]
    nic = UNCOUNTED["nic"].replace("of dra.net;", "of dra.net, with which Kueue admits no pod;")
    assert lines(pod((BY_TEMPLATE, "nic")), text=text) == [about("nic", nic)]
    assert lines(pod((BY_TEMPLATE, "one")), text=text) == []


def test_a_claim_for_nothing_of_ours_may_be_shared() -> None:
    nic = claim("nic", exactly("dra.net"))
    assert [line.partition(", is")[0].rpartition(": ")[2] for line in lines(pod((BY_NAME, "nic")), nic)] == [
        "must be of a DeviceClass that is counted"
    ]


@pytest.mark.parametrize("kind", ["ResourceClaimTemplate", "ResourceClaim"])
def test_what_nobody_could_read_is_not_evaluated(kind: str) -> None:
    """What is known of the other claims is said all the same."""
    snapshot = snapshot_of([*BASE, *STATE, config_map(KUEUE_CONFIG)])
    snapshot.forget(kind, "may not be listed")
    other = (BY_NAME, "nowhere") if kind == "ResourceClaimTemplate" else (BY_TEMPLATE, "nowhere")
    found = said(pod(other, (BY_TEMPLATE, "one"), (BY_NAME, "shared")), snapshot)
    assert [line.partition(":")[0] for line in found].count("warn") == len(found)
    assert any("nowhere" in line for line in found)
    assert found[-1] == f"warn: not evaluated: {kind}: may not be listed [unchecked-claim]"
    # Without claims nothing needs it.
    assert said(pod(requests={GPU: "1"}), snapshot) == []


# What was made a moment ago


@pytest.mark.parametrize("stage", [Stage.MUTATE, Stage.VALIDATE])
@pytest.mark.parametrize(
    ("entry", "confirmed"),
    [
        ((BY_TEMPLATE, "absent"), {"ResourceClaimTemplate"}),
        ((BY_NAME, "absent"), {"ResourceClaim"}),
        ((BY_TEMPLATE, "one"), set()),
        # It is there: what is wrong with it does not change by another look.
        ((BY_TEMPLATE, "nic"), set()),
    ],
)
def test_a_claim_that_is_not_there_is_asked_for_past_the_watch(
    stage: Stage, entry: tuple[str, str], confirmed: set[str]
) -> None:
    policy = policy_of()
    snapshot = snapshot_of([*BASE, *STATE, config_map(KUEUE_CONFIG)])
    verdict = judge(RULES, stage, subject_of(pod(entry), policy), snapshot, policy, TODAY)
    assert verdict.confirm & {"ResourceClaimTemplate", "ResourceClaim"} == confirmed


# What limits claims in a ResourceQuota


@pytest.mark.parametrize(
    ("hard", "denied"),
    [
        (f"{CLASS}.deviceclass.resource.k8s.io/devices", True),
        (f"requests.deviceclass.resource.kubernetes.io/{CLASS}", True),
        ("requests.example.com/gpu", True),
        ("dra.net.deviceclass.resource.k8s.io/devices", False),
        ("requests.deviceclass.resource.kubernetes.io/dra.net", False),
        ("requests.example.com/nic", False),
        ("count/resourceclaims.resource.k8s.io", False),
    ],
)
def test_quotas_of_claims(hard: str, denied: bool) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": NAMESPACE},
        "spec": {"hard": {hard: "4"}},
    }
    snapshot = snapshot_of([*BASE, device_class(CLASS, "example.com/gpu"), device_class("dra.net", "example.com/nic")])
    found = outcome_of(subject_of(quota, policy_of()), snapshot, policy_of()).lines
    assert [line.split(": ")[2] for line in found] == [f"spec.hard[{hard}]"] * denied
