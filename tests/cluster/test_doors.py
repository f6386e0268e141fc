"""Every fixture through the real API server, Kueue's own webhooks included, with the engine's verdicts and messages."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.cases import BASE, FIXTURES, Case, all_cases, key
from tests.cluster.api import Answer, Api
from tests.cluster.controlplane import until
from tests.cluster.server import Floorkeeper
from webhook.server.response import warnings

REFUSED_BY_THE_API_SERVER = {
    "implicit-gpu-request/fail-request-only",
    "implicit-gpu-request/fail-different",
    "implicit-gpu-request/fail-fraction",
}
"""Extended resources in the pod template of a kind that the API server knows: it validates them before it asks us."""

NAMESPACE = BASE[0]
UNMANAGED = {**NAMESPACE, "metadata": {"name": NAMESPACE["metadata"]["name"]}}
POLICY = yaml.safe_load((FIXTURES / "base" / "policy.yaml").read_text())


@pytest.fixture(scope="module")
def base(api: Api, floorkeeper: Floorkeeper) -> Iterator[None]:
    for value in BASE:
        answer = api.create(value)
        assert answer.code == 201, answer
    with floorkeeper.policy_replaced(yaml.safe_dump(POLICY)):
        yield
    for value in BASE:
        api.delete(value)
    until("the base cluster is gone", lambda: not any(api.read(value) for value in BASE), 60)


@pytest.fixture
def under_policy(base: None, floorkeeper: Floorkeeper, case: Case) -> Iterator[None]:
    """The case's policy in force, by a reload of the file."""
    with floorkeeper.policy_replaced(yaml.safe_dump({**POLICY, **case.extra_policy})):
        yield


def prepare(api: Api, state: list[dict[str, Any]], namespace: Mapping[str, Any]) -> None:
    """State is written while the namespace is unmanaged: it may hold what Floorkeeper would not let in."""
    assert api.update(copy.deepcopy(UNMANAGED)).code == 200
    for value in state:
        answer = api.create(value)
        assert answer.code == 201, answer
    assert api.update(copy.deepcopy(dict(namespace))).code == 200


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)
def test_api_server(under_policy: None, api: Api, case: Case) -> None:
    state = [value for value in case.state if key(value) not in {key(entry) for entry in BASE}]
    namespace = next((value for value in case.state if key(value) == key(NAMESPACE)), NAMESPACE)
    try:
        prepare(api, state, namespace)
        write = api.create if case.old is None else api.update
        if case.id in REFUSED_BY_THE_API_SERVER:
            answer = write(case.subject, dry_run=True)
            assert (answer.code, answer.value["reason"]) == (422, "Invalid")
            return
        # What was written a moment ago reaches the server by its watches, in no time but not at once.
        stored = until("the verdict", lambda: matching(case, write(case.subject, dry_run=True)), 10)
        if case.patched:
            assert case.fixed is not None
            assert stored is not None
            assert missing_in(case.fixed, stored.value) == []
    finally:
        for value in state:
            api.delete(value)
        until("the case's state is gone", lambda: not any(api.read(value) for value in state), 60)


def matching(case: Case, answer: Answer) -> Answer | None:
    denials = [line.partition(": ")[2] for line in case.expected if line.startswith("deny: ")]
    warned = [line.partition(": ")[2] for line in case.expected if not line.startswith("deny: ")]
    prefix, said, message = answer.message.partition(" denied the request: ")
    assert answer.code in {200, 201, 403}, answer
    right = (
        (answer.code == 403) == bool(denials)
        and (message.split("\n") if said else []) == denials
        and sorted(answer.warnings) == sorted(warnings(warned))
        and (not said or ".floorkeeper.io" in prefix)
    )
    if not right:
        print(answer.code, answer.message, answer.warnings)
    return answer if right else None


def missing_in(wanted: Any, found: Any, where: str = "") -> list[str]:
    """Where the stored object, with everything that others filled in, differs from what we said it would be."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [gap for name in wanted for gap in missing_in(wanted[name], found.get(name), f"{where}.{name}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [gap for i, value in enumerate(wanted) for gap in missing_in(value, found[i], f"{where}[{i}]")]
    return [] if wanted == found else [f"{where}: {found!r} for {wanted!r}"]
