"""The admission door without a network: the app, a source that a test filled, and reviews as the API server writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from webhook.engine.policy import Policy
from webhook.engine.rule import Rule
from webhook.kube.objects import group
from webhook.kube.snapshot import Snapshot
from webhook.live.audit.metrics import AuditMetrics
from webhook.rules import RULES
from webhook.server.app import app
from webhook.server.certificates import CertificateState
from webhook.server.readiness import Readiness
from webhook.sources.source import Event, KindState, Ledger

Object = dict[str, Any]
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
NOW = datetime(2026, 11, 29, tzinfo=UTC)


class StillSource:
    """A source whose facts never change, except that `confirm` may bring the ones that it was given."""

    ledger: Ledger | None = None

    def __init__(
        self, snapshot: Snapshot, states: Mapping[str, KindState] | None = None, after: Snapshot | None = None
    ) -> None:
        self.snapshot = snapshot
        self._states = states or {}
        self._after = after
        self.confirmed: list[tuple[frozenset[str], str]] = []
        self.told: list[Event] = []

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def states(self) -> Mapping[str, KindState]:
        unknown = self.snapshot.unknown()
        known = dict.fromkeys(("LocalQueue", "Namespace"), KindState(True, 1.25))
        return known | {kind: KindState(False, 0.0, unknown[kind]) for kind in sorted(unknown)} | dict(self._states)

    async def settle(self) -> None:
        pass

    async def confirm(self, kinds: frozenset[str], namespace: str) -> bool:
        self.confirmed.append((kinds, namespace))
        if self._after is None:
            return False
        self.snapshot = self._after
        return True

    def tell(self, events: Sequence[Event]) -> None:
        self.told += events


class FixedPolicy:
    """A policy without a file."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.generation = 1
        self.error = ""


class FixedCertificate:
    """What is known of a certificate that nobody serves."""

    def __init__(self, expires: datetime = datetime(2027, 11, 29, tzinfo=UTC), error: str = "") -> None:
        self._state = CertificateState("a test", expires, "ab" * 32, error)

    def state(self) -> CertificateState:
        return self._state


class Door:
    """One app, called as a server would, in one event loop."""

    def __init__(
        self,
        source: StillSource,
        policy: Policy,
        rules: Sequence[Rule] = RULES,
        certificate: FixedCertificate | None = None,
        audit: AuditMetrics | None = None,
    ) -> None:
        self.source = source
        self.policies = FixedPolicy(policy)
        self.readiness = Readiness(self.policies, source, certificate or FixedCertificate(), now=lambda: NOW)
        self.app = app(rules, self.readiness, audit=audit)
        self._runner = asyncio.Runner()

    def close(self) -> None:
        self._runner.close()

    def send(
        self,
        path: str,
        body: bytes | Iterable[bytes] = b"",
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to a request whose body comes in one or several chunks."""
        chunks = [body] if isinstance(body, bytes) else list(body)
        return self._runner.run(self._send(path, chunks, method, headers or {}))

    async def _send(
        self, path: str, chunks: list[bytes], method: str, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"timeout=10s",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", 8443),
        }
        left = iter(chunks)
        count = len(chunks)
        sent: list[Mapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            nonlocal count
            count -= 1
            return {"type": "http.request", "body": next(left), "more_body": count > 0}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *bodies = sent
        answered = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], answered, b"".join(message["body"] for message in bodies)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON body."""
        status, _, body = self.send(path, method="GET", headers=headers)
        return status, json.loads(body)

    def ask(self, path: str, review: Object) -> Any:
        """The response of a review that must be answered with 200."""
        status, headers, body = self.send(path, json.dumps(review).encode())
        assert (status, headers["content-type"]) == (200, "application/json"), body
        answer = json.loads(body)
        assert list(answer) == ["apiVersion", "kind", "response"]
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        return answer["response"]

    def refused(self, path: str, body: bytes, status: int) -> str:
        """The error of a request that must be refused."""
        found, headers, answer = self.send(path, body)
        assert (found, headers["content-type"]) == (status, "application/json"), answer
        error = json.loads(answer)
        assert list(error) == ["error"]
        assert isinstance(error["error"], str)
        return error["error"]

    def metrics(self) -> str:
        return self.send("/metrics", method="GET")[2].decode()


def review_of(value: Object | None, old: Object | None = None, operation: str = "", **request: Any) -> Object:
    """An AdmissionReview v1 as kube-apiserver 1.36 writes it, for a CREATE, or an UPDATE if there is an old object."""
    shown = value or old or {}
    metadata = shown.get("metadata", {})
    version = shown.get("apiVersion", "v1")
    kind = {"group": group(version), "version": version.rpartition("/")[2], "kind": shown.get("kind", "")}
    resource = {"group": kind["group"], "version": kind["version"], "resource": kind["kind"].lower() + "s"}
    name = {"name": metadata["name"]} if "name" in metadata else {}
    namespace = metadata["name"] if kind["kind"] == "Namespace" else metadata.get("namespace")
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            **name,
            **({"namespace": namespace} if namespace else {}),
            "operation": operation or ("CREATE" if old is None else "UPDATE"),
            "userInfo": {"username": "jane", "uid": "1", "groups": ["system:authenticated"]},
            "object": value,
            "oldObject": old,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl"},
            **request,
        },
    }
