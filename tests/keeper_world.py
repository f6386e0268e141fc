"""Replicas that keep one certificate in an API server of one dictionary, under a clock that is an argument."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509

from webhook.kube.objects import mapping
from webhook.server.authority import Authority, self_signed_pair, service_names
from webhook.server.bundle import KINDS
from webhook.server.certificates import CertificateState, ListeningContext
from webhook.server.keeper import Keeper, KeeperTiming
from webhook.server.keyring import Keyring, read_bundle, read_keyring
from webhook.server.rotation import Lifetimes
from webhook.sources.connection import StatusError
from webhook.sources.named import Body, NamedObject, Place, generation_of

Object = dict[str, Any]
START = datetime(2100, 1, 1, tzinfo=UTC)
"""Later than any clock that a test runs under: a context takes no expired pair in place of one that holds."""

NAMESPACE = "floorkeeper-system"
SECRET = Place("v1", "Secret", "secrets", "floorkeeper-tls", NAMESPACE)
CONFIGURATIONS = [
    Place("admissionregistration.k8s.io/v1", kind, plural, "floorkeeper") for kind, plural in KINDS.items()
]
NAMES = service_names("floorkeeper", NAMESPACE)
RIGHTS = "manifests/overlays/self-signed/rbac.yaml"

TIMING = KeeperTiming(
    Lifetimes(timedelta(minutes=3), timedelta(minutes=12), timedelta(minutes=1)), poll=10.0, notice=5.0, settle=60.0
)
LAG = 2.0
"""Seconds that the API server of these tests takes to notice a changed configuration."""


class _Answer:
    def __init__(self, value: Object) -> None:
        self._value = value

    def read(self) -> bytes:
        return json.dumps(self._value).encode()

    def read_lines(self) -> Iterator[list[bytes]]:
        raise NotImplementedError


class MemoryApi:
    """What is stored, by path. Writes are compared by resourceVersion, as the API server does."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.asked: list[tuple[str, str]] = []
        self.refused: set[tuple[str, str]] = set()
        """Verb and plural name of what is answered with 403."""

        self.away = False
        self.before: Callable[[str, str], None] = lambda _verb, _plural: None
        """Called ahead of each request, with its verb and plural name."""

        self._version = 0

    @contextmanager
    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        *,
        accept: str = "application/json",
        silence: float,
    ) -> Iterator[Body]:
        verb = {"GET": "get", "POST": "create", "PUT": "update"}[method]
        plural = path.split("/")[-1 if verb == "create" else -2]
        self.before(verb, plural)
        self.asked.append((verb, plural))
        if self.away:
            raise OSError("no route to host")
        if (verb, plural) in self.refused:
            raise StatusError(403, f'{plural} "x" is forbidden: User "floorkeeper" cannot {verb} resource', "Forbidden")
        if verb == "create":
            assert body is not None
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise StatusError(409, "already exists", "AlreadyExists")
            self.put(path, dict(body))
        elif path not in self.objects:
            raise StatusError(404, "not found", "NotFound")
        elif verb == "update":
            assert body is not None
            if body["metadata"]["resourceVersion"] != self.objects[path]["metadata"]["resourceVersion"]:
                raise StatusError(409, "the object has been modified", "Conflict")
            self.put(path, dict(body))
        yield _Answer(self.objects[path])

    def put(self, path: str, value: Object) -> None:
        self._version += 1
        value = copy.deepcopy(value)
        before = self.objects.get(path)
        generation = before["metadata"]["generation"] if before is not None else 0
        is_new = before is None or before.get("webhooks") != value.get("webhooks")
        value["metadata"] |= {"resourceVersion": str(self._version), "generation": generation + is_new}
        self.objects[path] = value


def path_of(place: Place) -> str:
    return f"{place.path}/{place.name}"


class Replica:
    """One process: what it serves, and what it says."""

    def __init__(self, world: World, ahead: timedelta = timedelta(0)) -> None:
        """Its clock is so far ahead of the world's."""
        self.context = ListeningContext(self_signed_pair("localhost"))
        secret, *configurations = (NamedObject(world.api, place, RIGHTS) for place in (SECRET, *CONFIGURATIONS))
        clocks = (lambda: world.now + ahead, lambda: (world.now - START).total_seconds())
        self.keeper = Keeper(secret, configurations, NAMES, self.context, world.timing, *clocks)

    @property
    def state(self) -> CertificateState:
        return self.keeper.state

    def is_called(self, now: datetime) -> bool:
        """As webhook.server.readiness decides it."""
        left = self.state.expires - now
        return not self.state.pending and left > timedelta(0) and not (self.state.error and left < self.state.last)


class World:
    """An API server, and the replicas beside it."""

    def __init__(self, timing: KeeperTiming = TIMING) -> None:
        self.api = MemoryApi()
        self.timing = timing
        self.now = START
        self.replicas: list[Replica] = []
        self.deaf = False
        """Whether no replica hears of a changed configuration until it looks."""

        self._due: dict[Replica, float] = {}
        self._heard: dict[Replica, object] = {}
        self._noticed: list[tuple[datetime, list[Object]]] = []
        self.failed: list[str] = []
        """Calls of the API server that a replica answered with a certificate that is not trusted."""

    def start(self, count: int = 1) -> None:
        for _ in range(count):
            self.replicas.append(Replica(self))

    def apply(self, bundle: str = "", *places: Place) -> None:
        """The webhook configurations as somebody would apply them anew."""
        for place in places or CONFIGURATIONS:
            names = [f"{name}.floorkeeper.io" for name in ("workloads", "pods")]
            self.api.put(path_of(place), configuration(place, bundle, *names))

    def run(self, seconds: float) -> None:
        """Second by second. Each replica looks when it is due; then the API server calls each that is ready."""
        end = self.now + timedelta(seconds=seconds)
        while self.now < end:
            self.now += timedelta(seconds=1)
            for replica in self.replicas:
                heard = [generation_of(self.stored(place)) for place in CONFIGURATIONS]
                left = self._due.get(replica, 0.0) - 1.0
                rung = self._heard.get(replica) != heard and not self.deaf
                self._due[replica] = left if left > 0 and not rung else replica.keeper.look()
                self._heard[replica] = heard
            self.call()

    def call(self) -> None:
        self._noticed.append((self.now, [value for place in CONFIGURATIONS if (value := self.stored(place))]))
        known = [seen for seen in self._noticed if seen[0] <= self.now - timedelta(seconds=LAG)][-1:]
        self._noticed = [*known, *(seen for seen in self._noticed if seen[0] > self.now - timedelta(seconds=LAG))]
        for number, replica in enumerate(self.replicas):
            for value in known[0][1] if known and replica.is_called(self.now) else ():
                if not all(self._is_trusted(replica, bundle) for bundle in _bundles(value)):
                    self.failed.append(f"{self.now:%H:%M:%S} {value['kind']}, replica {number}")

    def _is_trusted(self, replica: Replica, bundle: tuple[x509.Certificate, ...]) -> bool:
        leaf = served(replica)
        if not leaf.not_valid_before_utc <= self.now < leaf.not_valid_after_utc:
            return False
        signers = [each for each in bundle if _has_signed(each, leaf)]
        return any(each.not_valid_before_utc <= self.now < each.not_valid_after_utc for each in signers)

    def stored(self, place: Place) -> Object | None:
        return self.api.objects.get(path_of(place))

    def keyring(self) -> Keyring:
        """What the Secret holds, and nothing is wrong with it."""
        found, wrong = read_keyring(mapping(self.stored(SECRET)).get("data") or {}, NAMES)
        assert wrong == []
        return found

    def bundles(self) -> list[tuple[x509.Certificate, ...]]:
        """Of every webhook of both configurations."""
        return [bundle for place in CONFIGURATIONS for bundle in _bundles(self.stored(place) or {})]


def _bundles(configuration: Object) -> set[tuple[x509.Certificate, ...]]:
    """What its webhooks trust."""
    return {_bundle(webhook["clientConfig"].get("caBundle")) for webhook in configuration.get("webhooks", ())}


# These two are asked the same thing every second.


@cache
def _bundle(text: str | None) -> tuple[x509.Certificate, ...]:
    return read_bundle(text)


@cache
def _has_signed(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    return Authority(authority).has_signed(leaf)


def served(replica: Replica) -> x509.Certificate:
    mine = replica.keeper.mine
    assert mine is not None
    return mine.certificate


def configuration(place: Place, bundle: str, *names: str) -> Object:
    service = {"name": "floorkeeper", "namespace": NAMESPACE, "path": "/validate", "port": 8443}
    return {
        "apiVersion": place.api_version,
        "kind": place.kind,
        "metadata": {"name": place.name, "uid": place.kind, "labels": {"team": "ours"}},
        "webhooks": [
            {
                "name": name,
                "clientConfig": {"service": service, **({"caBundle": bundle} if bundle else {})},
                "failurePolicy": "Fail",
                "timeoutSeconds": 5,
            }
            for name in names
        ],
    }


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
