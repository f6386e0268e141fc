"""Which flavors of a group a pod may get: only labels that the group's flavors name are looked at."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.kube.flavor_fit import label_keys, ruled_out
from webhook.kube.node_facts import project_resource_flavor

Object = dict[str, Any]


def flavor(name: str, **spec: Any) -> Object:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


SPOT = {"key": "spot", "value": "true", "effect": "NoSchedule"}
FLAVORS = {
    value["metadata"]["name"]: project_resource_flavor(value)
    for value in (
        flavor("a100", nodeLabels={"gpu": "a100", "gen": "8"}),
        flavor("h100", nodeLabels={"gpu": "h100", "gen": "9"}),
        flavor("spot", nodeLabels={"gpu": "h100", "gen": "9", "spot": "true"}, nodeTaints=[SPOT]),
        flavor("soft", nodeLabels={"gpu": "l4"}, nodeTaints=[{**SPOT, "effect": "PreferNoSchedule"}]),
        flavor("own", nodeTaints=[SPOT], tolerations=[{"key": "spot", "operator": "Exists"}]),
    )
}


def affinity(*terms: Any) -> Object:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions: Any) -> Object:
    return {"matchExpressions": list(expressions)}


def tolerating(**toleration: Any) -> Object:
    return {"tolerations": [toleration]}


ALL = "a100 h100 soft own"
CASES: dict[str, tuple[Any, str]] = {
    "anything": ({}, ALL),
    "a label": ({"nodeSelector": {"gpu": "h100"}}, "h100"),
    "a label that only some name": ({"nodeSelector": {"spot": "true"}}, ""),
    "a label that no flavor names": ({"nodeSelector": {"zone": "a"}}, ALL),
    "of two, the one that counts": ({"nodeSelector": {"zone": "a", "gpu": "a100"}}, "a100"),
    "a label at no flavor": ({"nodeSelector": {"gpu": "b200"}}, ""),
    "tolerated by key": (tolerating(key="spot", operator="Exists"), f"{ALL} spot"),
    "tolerated by value": (tolerating(key="spot", value="true"), f"{ALL} spot"),
    "tolerated by another value": (tolerating(key="spot", operator="Equal", value="false"), ALL),
    "everything tolerated": (tolerating(operator="Exists"), f"{ALL} spot"),
    "tolerated by effect": (tolerating(key="spot", operator="Exists", effect="NoSchedule"), f"{ALL} spot"),
    "tolerated by another effect": (tolerating(key="spot", operator="Exists", effect="NoExecute"), ALL),
    "tolerated in an unknown way": (tolerating(key="spot", operator="Like", value="true"), ALL),
    "affinity in": (affinity(term(expression("gpu", "In", "a100", "l4"))), "a100 soft"),
    "affinity not in": (affinity(term(expression("gpu", "NotIn", "a100"))), "h100 soft own"),
    "affinity exists": (affinity(term(expression("gen", "Exists"))), "a100 h100"),
    "affinity does not exist": (affinity(term(expression("gen", "DoesNotExist"))), "soft own"),
    "affinity above": (affinity(term(expression("gen", "Gt", "8"))), "h100"),
    "affinity below": (affinity(term(expression("gen", "Lt", "9"))), "a100"),
    "affinity above no number": (affinity(term(expression("gen", "Gt", "nine"))), ""),
    "affinity in an unknown way": (affinity(term(expression("gen", "Like", "9"))), ""),
    "all of a term": (affinity(term(expression("gpu", "Exists"), expression("gen", "In", "8"))), "a100"),
    "one of the terms": (
        affinity(term(expression("gpu", "In", "a100")), term(expression("gpu", "In", "l4"))),
        "a100 soft",
    ),
    "a term about another label is met by all": (
        affinity(term(expression("gpu", "In", "b200")), term(expression("zone", "In", "a"))),
        ALL,
    ),
    "a term about fields is met by all": (
        affinity(term(expression("gpu", "In", "b200")), {"matchFields": [expression("metadata.name", "In", "n")]}),
        ALL,
    ),
    "no terms": (affinity(), ALL),
    "selector and affinity": (
        {"nodeSelector": {"gen": "9"}, **affinity(term(expression("gpu", "In", "a100")))},
        "",
    ),
    "damaged": (
        {"nodeSelector": "text", "tolerations": [5, {"key": ["spot"], "operator": {}}], "affinity": [1]},
        ALL,
    ),
    "damaged terms": (affinity("text", None, {"matchExpressions": "text"}), ALL),
    "damaged expressions": (affinity(term("text", {"key": ["gpu"], "operator": 5, "values": 5})), ALL),
    "damaged values": (affinity(term({"key": "gpu", "operator": ["In"], "values": [["a100"]]})), ""),
    "a selector that is no string": ({"nodeSelector": {"gpu": ["h100"]}}, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_the_flavors_that_a_pod_may_get(case: str) -> None:
    spec, allowed = CASES[case]
    keys = label_keys(FLAVORS.values())
    assert {name for name, fact in FLAVORS.items() if not ruled_out(spec, fact, keys)} == set(allowed.split())


def test_keys_are_those_of_the_group() -> None:
    assert label_keys(FLAVORS.values()) == {"gpu", "gen", "spot"}
    # A group in which no flavor names the label leaves it to the scheduler.
    assert ruled_out({"nodeSelector": {"gpu": "b200"}}, FLAVORS["own"], label_keys([FLAVORS["own"]])) == ""


NUMBERED = {"key": "level", "value": "5", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("toleration", "reason"),
    [
        ({"key": "level", "operator": "Gt", "value": "4"}, ""),
        ({"key": "level", "operator": "Gt", "value": "5"}, "taint level=5:NoExecute"),
        ({"key": "level", "operator": "Lt", "value": "6"}, ""),
        ({"key": "level", "operator": "Lt", "value": "many"}, "taint level=5:NoExecute"),
    ],
)
def test_tolerations_by_number(toleration: Object, reason: str) -> None:
    fact = project_resource_flavor(flavor("f", nodeTaints=[NUMBERED]))
    assert ruled_out({"tolerations": [toleration]}, fact, set()) == reason


@pytest.mark.parametrize(
    ("spec", "name", "reason"),
    [
        ({}, "spot", "taint spot=true:NoSchedule"),
        ({"nodeSelector": {"gpu": "h100"}}, "a100", "nodeSelector gpu=h100"),
        (affinity(term(expression("gpu", "In", "h100"))), "a100", "required node affinity"),
    ],
)
def test_reasons(spec: Object, name: str, reason: str) -> None:
    assert ruled_out(spec, FLAVORS[name], label_keys(FLAVORS.values())) == reason


def test_tolerations_from_elsewhere() -> None:
    assert ruled_out({}, FLAVORS["spot"], set(), [{"key": "spot", "operator": "Exists"}]) == ""
    bare = project_resource_flavor(flavor("f", nodeTaints=[{"key": "spot", "effect": "NoExecute"}]))
    assert ruled_out({}, bare, set()) == "taint spot:NoExecute"
