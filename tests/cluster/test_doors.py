"""Every fixture through the real API server, Kueue's own webhooks included, with the engine's verdicts and messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml

from scripts.controlplane.kwok import UNMANAGED
from tests.cases import BASE, FIXTURES, Case, Key, all_cases, key
from tests.cluster.api import Answer, Api, Object
from tests.cluster.controlplane import until
from tests.cluster.server import Floorkeeper
from webhook.server.response import warnings

REFUSED_BY_THE_API_SERVER = {
    # Extended resources in the pod template of a kind that the API server knows.
    "implicit-gpu-request/fail-request-only": 422,
    "implicit-gpu-request/fail-different": 422,
    "implicit-gpu-request/fail-fraction": 422,
    # What Kueue's CustomResourceDefinitions say.
    "malformed-quota/fail-covered-twice": 422,
    "malformed-quota/fail-flavor-twice": 422,
    "malformed-quota/fail-left-out": 422,
    "malformed-quota/fail-not-covered": 422,
    "malformed-quota/fail-resource-twice": 422,
    "missing-cohort/fail-empty": 422,
    # Kueue's mutating webhook cannot read it.
    "malformed-quota/fail-unreadable": 400,
}
"""Cases that come to an end before /validate is asked, each with the code of the answer."""

MENDED_BY_THE_API_SERVER = {"malformed-quota/fail-no-nominal-quota"}
"""Cases whose fault is gone before we are asked: the CustomResourceDefinition has a default."""

WRITER = "fixtures"
"""Who writes a case's state, which may hold what Floorkeeper would not let in."""

EXEMPTION = {"users": [WRITER], "reason": "writes what the cases start from"}
BASE_KEYS = {key(value) for value in BASE}
POLICY = yaml.safe_load((FIXTURES / "base" / "policy.yaml").read_text())


def policy(**keys: Any) -> str:
    return yaml.safe_dump({**POLICY, **keys, "exemptions": [*keys.get("exemptions", []), EXEMPTION]})


@pytest.fixture(scope="module")
def writer(api: Api) -> Api:
    return replace(api, user=WRITER)


@pytest.fixture(scope="module")
def state(writer: Api, floorkeeper: Floorkeeper) -> Iterator[State]:
    home, state = BASE[0], State(writer)
    until("the namespace of earlier tests is gone", lambda: not is_leaving(writer.read(home)), 60)
    with floorkeeper.policy_replaced(policy()):
        try:
            yield state
        finally:
            state.become([home])
            # Nobody waits for the end of the namespace, which takes controllers 5 seconds at the least.
            writer.delete(home)


def is_leaving(value: Object | None) -> bool:
    return value is not None and "deletionTimestamp" in value["metadata"]


@pytest.fixture
def prepared(state: State, floorkeeper: Floorkeeper, case: Case) -> None:
    """The case's policy in force, by a reload of the file, and its objects in the cluster."""
    floorkeeper.write_policy(policy(**case.extra_policy))
    state.become((*BASE, *case.state))


class State:
    """What the cases start from: one case's objects become the next one's by as few writes as that takes."""

    def __init__(self, writer: Api) -> None:
        self._writer = writer
        self._written: dict[Key, Object] = {}
        self._former: dict[Key, Object | None] = {}
        """What stood in their place before."""

    def become(self, wanted: Sequence[Object]) -> None:
        """These objects in the cluster, the later of two by one name; of what else was written here, nothing."""
        values = {key(value): value for value in wanted}
        different = [name for name, value in self._written.items() if values.get(name) != value]
        # Little of a workload or a queue can be written over: unlike the base, it is made anew.
        self._take_back([name for name in different if name not in BASE_KEYS & values.keys()])
        for name, value in values.items():
            if self._written.get(name) != value:
                self._former.setdefault(name, self._writer.read(value))
                put(self._writer, value)
                self._written[name] = value

    def _take_back(self, names: Sequence[Key]) -> None:
        added = []
        for name in reversed(names):
            value, former = self._written.pop(name), self._former.pop(name)
            if former is None:
                self._writer.delete(value)
                added.append(value)
            else:
                put(self._writer, former)
        until("what was added is gone", lambda: not any(self._writer.read(value) for value in added), 60)


def put(writer: Api, value: Object) -> None:
    new = writer.read(value) is None
    if value["kind"] == "Node":
        value = steady(value)
    answer = writer.create(value) if new else writer.update(value)
    assert answer.code in {200, 201}, answer
    if value["kind"] == "Node" and not new:
        # Only a CREATE takes the status too.
        assert writer.update_status(value).code == 200


def steady(node: Object) -> Object:
    """A Node that kwok leaves as it is: one that is not Ready it would make so."""
    conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])}
    labels = {**node["metadata"].get("labels", {}), **({} if conditions.get("Ready") == "True" else {UNMANAGED: ""})}
    return {**node, "metadata": {**node["metadata"], "labels": labels}}


CASES = sorted(all_cases(), key=lambda case: json.dumps([case.extra_policy, case.state], default=str))
"""Cases of one policy, and among them those of one state, follow each other."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_api_server(prepared: None, api: Api, case: Case) -> None:
    write = api.delete if case.removal else api.create if case.old is None else api.update
    if case.id in (*REFUSED_BY_THE_API_SERVER, *MENDED_BY_THE_API_SERVER):
        answer = write(case.subject, dry_run=True)
        assert answer.code == REFUSED_BY_THE_API_SERVER.get(case.id, 201)
        assert "floorkeeper" not in answer.message
        return
    # What was written a moment ago reaches the server by its watches, in no time but not at once.
    stored = until("the verdict", lambda: matching(case, write(case.subject, dry_run=True)), 10)
    if case.patched:
        assert case.fixed is not None
        assert stored is not None
        assert missing_in(case.fixed, stored.value) == []


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
