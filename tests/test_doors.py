"""Every fixture over HTTPS, as the API server sends it (/mutate, the patch applied, /validate), and by `check`.

The engine's own answers are in test_fixtures.py, the real API server's in tests/cluster/test_doors.py. All three are
held to the messages in the fixtures' headers, so the doors agree.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import yaml

from tests.cases import BASE, FIXTURES, Case, Object, all_cases, policy_of, snapshot_of
from tests.checking import checked, lines, written
from tests.door import FixedPolicy, StillSource, review_of
from tests.rfc6902 import applied
from webhook.check.defaults import filled_in
from webhook.kube.kinds import kind_of
from webhook.kube.objects import group
from webhook.rules import RULES
from webhook.server.address import listen_on
from webhook.server.app import app
from webhook.server.certificates import OwnCertificate
from webhook.server.http import server_config
from webhook.server.readiness import Readiness
from webhook.server.response import warnings


@dataclass
class HttpsDoor:
    source: StillSource
    policies: FixedPolicy
    client: httpx.Client

    def ask(self, path: str, review: Object) -> Any:
        answer = self.client.post(path, json=review)
        assert answer.status_code == 200, answer.text
        return answer.json()["response"]


@pytest.fixture(scope="module")
def door() -> Iterator[HttpsDoor]:
    source, policies = StillSource(snapshot_of(BASE)), FixedPolicy(policy_of())
    certificate = OwnCertificate("127.0.0.1")
    readiness = Readiness(policies, source, certificate, now=lambda: datetime.now(UTC))
    server = uvicorn.Server(server_config(app(RULES, readiness), certificate))
    listener = listen_on("127.0.0.1", 0)[0]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
    thread.start()
    address = f"https://127.0.0.1:{listener.getsockname()[1]}"
    with httpx.Client(base_url=address, verify=False, timeout=10) as client:
        yield HttpsDoor(source, policies, client)
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


def lines_of(response: Any) -> list[str]:
    denied = response["status"]["message"].split("\n") if not response["allowed"] else []
    return [*denied, *response.get("warnings", [])]


def review(case: Case, value: Object) -> Object:
    return review_of(None, value, "DELETE") if case.removal else review_of(value, case.old)


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)
def test_https(door: HttpsDoor, case: Case) -> None:
    door.source.snapshot = snapshot_of([*BASE, *case.state])
    door.policies.policy = case.policy
    mutated = door.ask("/mutate", review(case, case.subject))
    patch = json.loads(base64.b64decode(mutated.get("patch", "W10=")))
    value = applied(case.subject, patch)
    assert value == (case.fixed if case.patched else case.subject)
    said = lines_of(mutated)
    if mutated["allowed"]:
        said += lines_of(door.ask("/validate", review(case, value)))
    expected = [line.partition(": ")[2] for line in case.expected]
    warned = [not line.startswith("deny") for line in case.expected]
    assert sorted(said) == sorted(
        warnings([text])[0] if warn else text for text, warn in zip(expected, warned, strict=True)
    )


DELETIONS = {
    "queue-in-use/fail-cluster-queue",
    "queue-in-use/fail-deployment",
    "queue-in-use/fail-job",
    "queue-in-use/fail-pod",
    "queue-in-use/fail-ray-job",
    "queue-in-use/fixed-cluster-queue",
    "queue-in-use/fixed-deployment",
    "queue-in-use/fixed-job",
    "queue-in-use/fixed-ray-job",
    "queue-in-use/pass-allow-delete",
    "queue-in-use/pass-empty",
    "queue-in-use/pass-other-queue",
}
"""No file says that an object is to be deleted."""

SURVEYED = {
    "floors-below-capacity/pass-first-apply": [
        'warn: ClusterQueue "llm-d-model-c-cq": spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: must '
        "leave nothing unclaimed, is such that floors claim 2 of 4 nvidia.com/gpu; fix: raise floors by 2, else idle "
        "[floors-below-capacity]"
    ],
    "floors-exceed-capacity/fail-flavor-not-there": [
        "warn: not evaluated: ResourceFlavor: late not there [floors-below-capacity]"
    ],
}
"""What `check` says beyond admission, because it sees all objects at once."""


def test_deletions() -> None:
    assert {case.id for case in all_cases() if case.removal} == DELETIONS


@pytest.mark.parametrize("case", [case for case in all_cases() if not case.removal], ids=lambda case: case.id)
def test_doors_agree(tmp_path: Path, case: Case) -> None:
    policy = yaml.safe_load((FIXTURES / "base" / "policy.yaml").read_text())
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({**policy, **case.extra_policy}))
    result = checked(
        case.subject,
        state=(written(tmp_path / "state", *BASE, *case.state),),
        policy=str(tmp_path / "policy.yaml"),
        diff_against=written(tmp_path / "old", case.old) if case.old is not None else "",
    )
    assert sorted(lines(result)) == sorted([*case.expected, *SURVEYED.get(case.id, [])])
    assert (result.errors, result.objects) == ((), 1)
    if case.patched:
        kind = kind_of(group(case.subject["apiVersion"]), case.subject["kind"])
        assert kind is not None
        assert case.fixed is not None
        (change,) = {str(found.change): found.change for found in result.findings if found.change}.values()
        assert applied(filled_in(kind, case.subject), change) == filled_in(kind, case.fixed)
