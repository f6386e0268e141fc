"""Every fixture over HTTPS, as the API server sends it: /mutate, the patch applied, /validate."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import uvicorn

from tests.cases import BASE, Case, Object, all_cases, policy_of, snapshot_of
from tests.door import FixedPolicy, StillSource, review_of
from tests.rfc6902 import applied
from webhook.rules import RULES
from webhook.server.address import listen_on
from webhook.server.app import app
from webhook.server.certificates import Certificates
from webhook.server.process import server_config
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
    certificates = Certificates.self_signed("127.0.0.1")
    readiness = Readiness(policies, source, certificates, now=lambda: datetime.now(UTC))
    server = uvicorn.Server(server_config(app(RULES, readiness), certificates))
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
