"""Accounts that have every shipped right but one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.api import Answer, Api
from tests.cluster.controlplane import Cluster, until

Object = dict[str, Any]
NAMESPACE = "rights"
"""Where the accounts are, and what they may write in a namespace of their own. Webhook configurations for them have the
same name."""

_HOME = "floorkeeper-system"
_RBAC = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1"


@dataclass(frozen=True)
class Grant:
    """One verb that a shipped role grants on one resource, or on the one object of it that has a name."""

    role: str
    """As kubectl names it: clusterrole/floorkeeper."""

    group: str
    resource: str
    name: str
    verb: str


def shipped_roles(cluster: Cluster, overlay: Path) -> list[Object]:
    """The roles as shipped, but for the namespace and the webhook configurations that they name, which are ours."""
    roles = roles_of(yaml.safe_load_all(cluster("kustomize", str(overlay)).stdout))
    for role in roles:
        if role["metadata"].get("namespace") == _HOME:
            role["metadata"]["namespace"] = NAMESPACE
        for rule in role["rules"]:
            if rule["apiGroups"] == ["admissionregistration.k8s.io"]:
                rule["resourceNames"] = [NAMESPACE]
    return roles


def roles_of(objects: Iterable[Object]) -> list[Object]:
    return [value for value in objects if value["kind"] in ("Role", "ClusterRole")]


def grants(roles: Sequence[Object]) -> list[Grant]:
    return [
        Grant(_name(role), group, resource, name, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    ]


def _name(role: Object) -> str:
    return f"{role['kind'].lower()}/{role['metadata']['name']}"


@dataclass(frozen=True)
class Account:
    """`lacks` is None for the one that has every right."""

    lacks: Grant | None
    name: str
    kubeconfig: Path

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{NAMESPACE}:{self.name}"


@contextmanager
def accounts(
    cluster: Cluster, api: Api, roles: Sequence[Object], folder: Path, lacking: Sequence[Grant] | None = None
) -> Iterator[list[Account]]:
    """One that lacks nothing, and one for each grant, as soon as the API server knows what they may do.

    `lacking` are the grants in question, all if it is None.
    """
    lacked: list[Grant | None] = [None, *(grants(roles) if lacking is None else lacking)]
    made = [Account(grant, f"account-{number}", folder / f"{number}") for number, grant in enumerate(lacked)]
    # The namespace stays: its end would take longer than all of this.
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    objects = [*_whole_roles(roles, made), *_narrowed_roles(roles, made)]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    try:
        for account in made:
            _created(api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _own(account.name)}))
        for value in objects:
            _created(api.create(value))
        for account in made:
            user = {"token": _token(api, account.name)}
            users = [{**each, "user": user} for each in config["users"]]
            account.kubeconfig.write_text(yaml.safe_dump({**config, "users": users}))
        for account in made:
            until(f"the API server knows the rights of {account}", partial(_is_known, api, roles, account), 10)
        yield made
    finally:
        for value in objects:
            api.delete(value)
        for account in made:
            api.delete({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _own(account.name)})


def _own(name: str) -> Object:
    return {"name": name, "namespace": NAMESPACE}


def _created(answer: Answer) -> None:
    assert answer.code == 201, answer


def _token(api: Api, account: str) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = api.client.post(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["status"]["token"])


def _whole_roles(roles: Sequence[Object], made: Sequence[Account]) -> Iterator[Object]:
    """Each role as it is, for the accounts that lack nothing of it."""
    for number, role in enumerate(roles):
        others = [account for account in made if account.lacks is None or account.lacks.role != _name(role)]
        yield from _granted(role, grants([role]), f"rights-whole-{number}", others)


def _narrowed_roles(roles: Sequence[Object], made: Sequence[Account]) -> Iterator[Object]:
    """The role of which an account lacks something, for that one account."""
    named = {_name(role): role for role in roles}
    for account in made:
        if account.lacks is not None:
            role = named[account.lacks.role]
            left = [grant for grant in grants([role]) if grant != account.lacks]
            yield from _granted(role, left, f"rights-{account.name}", [account])


def _granted(role: Object, of: Sequence[Grant], name: str, to: Sequence[Account]) -> Iterator[Object]:
    kind, version = role["kind"], f"{_RBAC}/v1"
    metadata = {**role["metadata"], "name": name}
    rules = [
        {
            "apiGroups": [grant.group],
            "resources": [grant.resource],
            "verbs": [grant.verb],
            **({"resourceNames": [grant.name]} if grant.name else {}),
        }
        for grant in of
    ]
    yield {"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}
    yield {
        "apiVersion": version,
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", **_own(account.name)} for account in to],
    }


def _is_known(api: Api, roles: Sequence[Object], account: Account) -> bool:
    """Whether the API server lets it do something of each role, and not what it lacks."""
    for role in roles:
        kept = [grant for grant in grants([role]) if grant != account.lacks]
        place = role["metadata"].get("namespace", "")
        if kept and not may(api, account.user, kept[0], place):
            return False
        if account.lacks in grants([role]) and may(api, account.user, account.lacks, place):
            return False
    return True


def may(api: Api, user: str, grant: Grant, namespace: str = "") -> bool:
    """What the API server's authorizer says; '' is for all namespaces, or for what is in none."""
    resource, _, subresource = grant.resource.partition("/")
    asked = {
        "group": grant.group,
        "resource": resource,
        "subresource": subresource,
        "name": grant.name,
        "verb": grant.verb,
        "namespace": namespace,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups_of(user), "resourceAttributes": asked},
    }
    answer = api.client.post(f"{REVIEWS}/subjectaccessreviews", json=body)
    assert answer.status_code == 201, answer.text
    return bool(answer.json()["status"]["allowed"])


def groups_of(user: str) -> list[str]:
    """Those of a ServiceAccount."""
    namespace = user.split(":")[2]
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
