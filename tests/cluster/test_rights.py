"""Least privilege: each right that is shipped is missed when it is not there, and no other one is held."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api import Api
from tests.cluster.controlplane import Cluster
from tests.cluster.rights import NAMESPACE, REVIEWS, Account, Grant, accounts, grants, groups_of, may, shipped_roles
from tests.cluster.server import ROOT, Floorkeeper
from webhook.engine.verdict import Verdict
from webhook.kube.reservation import Reservation
from webhook.server.bundle import KINDS
from webhook.server.managed import ManagedCertificate
from webhook.sources.access import ACCESS
from webhook.sources.cluster import ClusterSource
from webhook.sources.events import PATH as EVENTS_PATH
from webhook.sources.source import Event, LedgerError, PendingWrite

Object = dict[str, Any]
USER = "system:serviceaccount:floorkeeper-system:floorkeeper"
OVERLAY = ROOT / "manifests" / "overlays" / "self-signed"
WATCHED, LEDGER, EVENTS = "clusterrole/floorkeeper", "role/floorkeeper", "role/floorkeeper-events"
CERTIFICATE, WEBHOOKS = "role/floorkeeper-certificate", "clusterrole/floorkeeper-webhooks"
LEDGER_OBJECT: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "floorkeeper-reservations", "namespace": NAMESPACE},
}
SECRET: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "floorkeeper-tls", "namespace": NAMESPACE},
    "type": "kubernetes.io/tls",
    "data": {"tls.crt": "", "tls.key": ""},
}
"""It is there and holds nothing, so that it must be written."""

CONFIGURATIONS: list[Object] = [
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": NAMESPACE},
        "webhooks": [
            {
                "name": "rights.floorkeeper.io",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "floorkeeper", "namespace": NAMESPACE}},
                "failurePolicy": "Ignore",
                "sideEffects": "None",
            }
        ],
    }
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
]
"""Without a caBundle, and for no object at all."""


class Log(logging.Handler):
    """What is logged, as texts."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()}: {getattr(record, 'fields', '')}")

    def about(self, account: Account) -> str:
        """The first line that names the account, as the API server does where it refuses."""
        return next((line for line in self.lines if f'"{account.user}"' in line), "")


@pytest.fixture
def log() -> Iterator[Log]:
    handler, logger = Log(), logging.getLogger("floorkeeper")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


async def until(what: str, answer: Callable[[], Any], seconds: float = 20) -> Any:
    """The answer, as soon as it is something."""
    end = time.monotonic() + seconds
    while not (found := answer()):
        assert time.monotonic() < end, f"{what}: not so after {seconds} s"
        await asyncio.sleep(0.02)
    return found


@asynccontextmanager
async def following(account: Account, *kinds: str) -> AsyncIterator[ClusterSource]:
    source = ClusterSource(account.kubeconfig, kinds, namespace=NAMESPACE)
    await source.start()
    try:
        yield source
    finally:
        await source.stop()


async def known(source: ClusterSource) -> None:
    await until("all is known", lambda: all(state.known for state in source.states().values()))


# What goes wrong without a right, in the words in which it is told


async def watch(account: Account, kind: str) -> str:
    """As /readyz shows it."""
    async with following(account, kind) as source:

        def refused() -> str:
            detail = source.states()[kind].detail
            return detail if detail != "not read yet" else ""

        return str(await until(f"{account} is refused", refused))


async def confirm(account: Account, log: Log) -> str:
    async with following(account, "Namespace") as source:
        await known(source)
        await source.confirm(frozenset({"Namespace"}), NAMESPACE)
    return log.about(account)


async def reserve(account: Account) -> str:
    """Of all that has floors, Volcano's Queues need the fewest facts."""
    write = PendingWrite(Reservation("Queue", account.name, account.name, ""), "1", "", dry_run=False)
    async with following(account, "Queue") as source:
        await known(source)
        try:
            await source.ledger.hold(write, lambda _: Verdict({}))
        except LedgerError as error:
            return str(error)
    return ""


def event(uid: str) -> Event:
    return Event("ClusterQueue", "rights", uid, True, "FloorsExceedHardware", "a test", time.time(), found=False)


async def tell(account: Account, log: Log, uid: str) -> str:
    async with following(account) as source:
        source.tell([event(uid)])
        return str(await until(f"{account} is refused", lambda: log.about(account)))


def without_certificate(api: Api, secret: bool) -> None:
    """As at the start, with an empty Secret or with none."""
    for value in (SECRET, *CONFIGURATIONS):
        api.delete(value)
    for value in (SECRET, *CONFIGURATIONS) if secret else CONFIGURATIONS:
        assert api.create(value).code == 201


async def keep(account: Account) -> str:
    """As /readyz shows it; '' as soon as there is a certificate that both configurations trust."""
    certificate = ManagedCertificate(account.kubeconfig, SECRET["metadata"]["name"], NAMESPACE, NAMESPACE)
    others = set(threading.enumerate())
    keeping = asyncio.create_task(certificate.run())
    try:
        await until(f"{account} is refused", lambda: certificate.state().error or certificate.state().published)
        return certificate.state().error
    finally:
        keeping.cancel()
        # What it is at, it ends; the next account finds another state.
        await until("it has ended", lambda: not {thread for thread in threading.enumerate() if thread not in others})


async def all_is_well(api: Api, account: Account, log: Log, uid: str) -> None:
    """With every right, nothing is missed; and the ledger and an Event are there for those that lack one."""
    async with following(account, *ACCESS) as source:
        await known(source)
        await source.confirm(frozenset({"Namespace", "LocalQueue"}), NAMESPACE)
        source.tell([event(uid)])
        await until("the Event is written", lambda: uid in api.client.get(EVENTS_PATH).text)
        assert not any(state.detail for state in source.states().values())
    assert await reserve(account) == ""
    without_certificate(api, secret=False)
    assert await keep(account) == ""
    assert log.about(account) == ""


async def told(api: Api, made: Sequence[Account], log: Log) -> dict[Grant, str]:
    """What is told for the lack of each right."""
    whole, *lacking = made
    by_grant = {account.lacks: account for account in lacking if account.lacks is not None}
    uid = f"rights-{time.monotonic_ns()}"
    api.delete(LEDGER_OBJECT)
    # While there is no ledger yet.
    create = Grant(LEDGER, "", "configmaps", "", "create")
    found = {create: await reserve(by_grant.pop(create))}
    await all_is_well(api, whole, log, uid)
    for grant in [grant for grant in by_grant if grant.role in (CERTIFICATE, WEBHOOKS)]:
        without_certificate(api, secret=grant.verb != "create")
        found[grant] = await keep(by_grant.pop(grant))
    asked: dict[Grant, Coroutine[Any, Any, str]] = {}
    for grant, account in by_grant.items():
        if grant == Grant(WATCHED, "", "namespaces", "", "get"):
            asked[grant] = confirm(account, log)
        elif grant.role == WATCHED:
            asked[grant] = watch(account, kind_of(grant))
        elif (grant.role, grant.resource) == (LEDGER, "configmaps"):
            asked[grant] = reserve(account)
        elif grant.role == EVENTS:
            asked[grant] = tell(account, log, uid if grant.verb == "get" else account.name)
        else:
            raise AssertionError(f"{grant}: nothing here would miss it")
    return found | dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))


def kind_of(grant: Grant) -> str:
    return next(kind for kind, row in ACCESS.items() if (row.group, row.resource) == (grant.group, grant.resource))


def names(text: str, grant: Grant) -> bool:
    """Whether it says what is not allowed, in one of the ways in which that is said."""
    resource = f"{grant.resource}.{grant.group}" if grant.group else grant.resource
    kind = {"configmaps": "ConfigMap", "secrets": "Secret", **{plural: kind for kind, plural in KINDS.items()}}
    ways = (
        f"not allowed: {grant.verb} {resource};",
        f'cannot {grant.verb} resource "{grant.resource}" in API group "{grant.group}"',
        rf"not allowed to {grant.verb} the {kind.get(grant.resource)}\b",
    )
    return any(re.search(way, text) for way in ways)


def test_each_right_is_missed(cluster: Cluster, api: Api, tmp_path: Path, log: Log) -> None:
    roles = shipped_roles(cluster, OVERLAY)
    try:
        with accounts(cluster, api, roles, tmp_path) as made:
            answers = asyncio.run(told(api, made, log))
    finally:
        for value in (LEDGER_OBJECT, SECRET, *CONFIGURATIONS):
            api.delete(value)
    assert {grant: text for grant, text in answers.items() if not names(text, grant)} == {}
    assert sorted(map(str, answers)) == sorted(map(str, grants(roles)))


# Nothing else

VERBS = "get list watch create update patch delete deletecollection impersonate bind escalate approve sign use attest"
EVERYONE = {
    "authorization.k8s.io/selfsubjectaccessreviews": "create",
    "authorization.k8s.io/selfsubjectrulesreviews": "create",
    "authentication.k8s.io/selfsubjectreviews": "create",
}
"""What Kubernetes lets every account do: ask about itself."""

EVERYWHERE = EVERYONE | {
    "/namespaces": "get list watch",
    "/limitranges": "list watch",
    "/nodes": "list watch",
    "/pods": "list watch",
    "/resourcequotas": "list watch",
    "/configmaps=kueue-manager-config": "list watch",
    "apps/deployments": "list watch",
    "apps/statefulsets": "list watch",
    "batch/jobs": "list watch",
    "jobset.x-k8s.io/jobsets": "list watch",
    "kubeflow.org/jaxjobs": "list watch",
    "kubeflow.org/mpijobs": "list watch",
    "kubeflow.org/paddlejobs": "list watch",
    "kubeflow.org/pytorchjobs": "list watch",
    "kubeflow.org/tfjobs": "list watch",
    "kubeflow.org/xgboostjobs": "list watch",
    "leaderworkerset.x-k8s.io/leaderworkersets": "list watch",
    "ray.io/rayclusters": "list watch",
    "ray.io/rayjobs": "list watch",
    "ray.io/rayservices": "list watch",
    "resource.k8s.io/deviceclasses": "list watch",
    "resource.k8s.io/resourceclaims": "list watch",
    "resource.k8s.io/resourceclaimtemplates": "list watch",
    "sparkoperator.k8s.io/sparkapplications": "list watch",
    "trainer.kubeflow.org/trainjobs": "list watch",
    "workload.codeflare.dev/appwrappers": "list watch",
    "autoscaling/horizontalpodautoscalers": "list watch",
    "node.k8s.io/runtimeclasses": "list watch",
    "kueue.x-k8s.io/admissionchecks": "list watch",
    "kueue.x-k8s.io/clusterqueues": "list watch",
    "kueue.x-k8s.io/cohorts": "list watch",
    "kueue.x-k8s.io/localqueues": "list watch",
    "kueue.x-k8s.io/resourceflavors": "list watch",
    "kueue.x-k8s.io/workloadpriorityclasses": "list watch",
    "keda.sh/scaledobjects": "list watch",
    "scheduling.volcano.sh/queues": "list watch",
    "admissionregistration.k8s.io/mutatingwebhookconfigurations=floorkeeper": "get update watch",
    "admissionregistration.k8s.io/validatingwebhookconfigurations=floorkeeper": "get update watch",
}
HERE = {
    "/configmaps": "create",
    "/configmaps=floorkeeper-reservations": "get update",
    "/secrets": "create",
    "/secrets=floorkeeper-tls": "get update",
}
ALLOWED = {
    "floorkeeper-system": EVERYWHERE | HERE,
    "default": EVERYWHERE | {"events.k8s.io/events": "create get"},
    "kube-system": EVERYWHERE,
    "kueue-system": EVERYWHERE,
    NAMESPACE: EVERYWHERE,
}
"""By namespace: the verbs on each resource that the API server knows, by group/resource=name."""


def test_nothing_else_is_allowed(cluster: Cluster, api: Api, floorkeeper: Floorkeeper) -> None:
    known = resources(api)
    found = {namespace: allowed(api, namespace, known) for namespace in ALLOWED}
    assert found == {
        namespace: {right: set(verbs.split()) for right, verbs in rights.items()}
        for namespace, rights in ALLOWED.items()
    }
    for namespace, rights in ALLOWED.items():
        for right, verbs in rights.items():
            for verb in verbs.split():
                assert may(api, USER, grant_of(right, verb), namespace), (namespace, right, verb)


def grant_of(right: str, verb: str) -> Grant:
    path, _, name = right.partition("=")
    group, _, resource = path.partition("/")
    return Grant("", group, resource, name, verb)


def resources(api: Api) -> list[str]:
    """Every resource and subresource that the API server serves, by group/resource, and what only RBAC knows."""
    accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    found = {"/users", "/groups", "/uids", "authentication.k8s.io/userextras", "certificates.k8s.io/signers"}
    for root in ("/api", "/apis"):
        answer = api.client.get(root, headers=accept)
        assert answer.status_code == 200, answer.text
        for group in answer.json()["items"]:
            for version in group["versions"]:
                for entry in version.get("resources", []):
                    name = f"{group['metadata'].get('name', '')}/{entry['resource']}"
                    found |= {name, *(f"{name}/{below['subresource']}" for below in entry.get("subresources", []))}
    return sorted(found)


def allowed(api: Api, namespace: str, known: Sequence[str]) -> dict[str, set[str]]:
    """Of these resources, what the API server says that our account may do in a namespace."""
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
    headers = [("Impersonate-User", USER), *(("Impersonate-Group", group) for group in groups_of(USER))]
    answer = api.client.post(f"{REVIEWS}/selfsubjectrulesreviews", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    status = answer.json()["status"]
    assert not status["incomplete"], status
    assert all(rule["verbs"] == ["get"] and "*" not in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    found: dict[str, set[str]] = {}
    for rule in status["resourceRules"]:
        for right in known:
            group, _, resource = right.partition("/")
            if _covers(rule["apiGroups"], group) and _covers(rule["resources"], resource):
                verbs = VERBS.split() if "*" in rule["verbs"] else rule["verbs"]
                for name in rule.get("resourceNames", [""]):
                    found.setdefault(f"{right}={name}" if name else right, set()).update(verbs)
    return found


def _covers(rule: Sequence[str], value: str) -> bool:
    return "*" in rule or value in rule or f"*/{value.partition('/')[2]}" in rule
