"""kube-apiserver's part in admission: which webhooks are asked, with what, and what is made of their answers."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from uuid import uuid4

from scripts.quickstart.example import Object
from scripts.quickstart.patch import patched
from scripts.quickstart.server import Client
from webhook.check.defaults import filled_in
from webhook.kube.kinds import Kind, kind_of
from webhook.kube.objects import group
from webhook.report import Denial

_USER = {"username": "developer", "groups": ["developers", "system:authenticated"]}


class BadAnswer(Exception):
    """A webhook did not answer with a review: the API server would refuse the write and name this error."""


@dataclass(frozen=True, slots=True)
class Created:
    """The end of a CREATE. `stored` is what would be stored, and `sent` the object with defaults, as it arrived."""

    sent: dict[str, Any]
    stored: dict[str, Any]
    warnings: tuple[str, ...]
    denial: Denial | None


class ApiServer:
    """Asks the webhooks of `configurations`, which are the mutating and the validating one.

    Their namespaceSelector and matchConditions are left out: the examples live in a managed namespace, and one that
    the conditions would pass over, such as a gateway, may as well be seen to come back unchanged.
    """

    def __init__(self, client: Client, configurations: Sequence[dict[str, Any]]) -> None:
        self._client = client
        self._configurations = configurations

    def create(self, value: Object) -> Created:
        """What comes of creating the object. Raises BadAnswer."""
        sent = filled_in(_row(value), value)
        stored = sent
        warnings: list[str] = []
        denial: Denial | None = None
        for configuration in self._configurations:
            for webhook in configuration["webhooks"]:
                if denial is not None or not _covers(webhook, value):
                    continue
                answer = self._call(webhook, stored)
                warnings += answer.get("warnings", ())
                if not answer["allowed"]:
                    status = answer["status"]
                    denial = Denial(webhook["name"], status["message"], status["reason"])
                elif "patch" in answer:
                    stored = patched(stored, json.loads(b64decode(answer["patch"])))
        # kubectl prints a warning once, however many webhooks it came from.
        return Created(sent, stored, tuple(dict.fromkeys(warnings)), denial)

    def _call(self, webhook: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        path = webhook["clientConfig"]["service"]["path"]
        review = _review(value)
        target = f"{path}?timeout={webhook['timeoutSeconds']}s"
        try:
            status, body = self._client.post(target, json.dumps(review).encode())
        except (OSError, HTTPException) as error:
            raise BadAnswer(f'webhook "{webhook["name"]}" did not answer: {error}') from None
        if status != 200:
            raise BadAnswer(f'webhook "{webhook["name"]}" answered {status}: {body.decode(errors="replace")}')
        answer = json.loads(body)["response"]
        if answer["uid"] != review["request"]["uid"]:
            raise BadAnswer(f'webhook "{webhook["name"]}" answered with the uid of another review')
        return dict(answer)


def _covers(webhook: dict[str, Any], value: Object) -> bool:
    """Whether a rule of the webhook speaks of creating such an object."""
    api_group, version, resource = _resource(value)
    return any(
        "CREATE" in rule["operations"]
        and api_group in rule["apiGroups"]
        and version in rule["apiVersions"]
        and resource in rule["resources"]
        for rule in webhook["rules"]
    )


def _row(value: Object) -> Kind:
    """The kind. Raises BadAnswer for one that no webhook of ours is asked about."""
    api_version, kind = str(value["apiVersion"]), str(value["kind"])
    row = kind_of(group(api_version), kind)
    if row is None:
        raise BadAnswer(f"{api_version} {kind}: Floorkeeper judges no such kind, so no webhook is asked")
    return row


def _resource(value: Object) -> tuple[str, str, str]:
    """Group, version and plural name."""
    row = _row(value)
    return row.group, str(value["apiVersion"]).rpartition("/")[2], row.resource


def _review(value: Object) -> dict[str, Any]:
    api_group, version, resource = _resource(value)
    kinds = {"group": api_group, "version": version, "kind": value["kind"]}
    resources = {"group": api_group, "version": version, "resource": resource}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": str(uuid4()),
            "kind": kinds,
            "resource": resources,
            "requestKind": kinds,
            "requestResource": resources,
            "name": value["metadata"]["name"],
            "namespace": value["metadata"].get("namespace", ""),
            "operation": "CREATE",
            "userInfo": _USER,
            "object": value,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }
