"""What is registered in the API server: each contender for the Deployments that carry its name as a label."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from benchmarks.speed.contender import Contender
from benchmarks.speed.field import CANNED, FASTAPI, FLOOR, GO, OURS
from benchmarks.speed.review import NAMESPACE, Object, recorded

NONE, SHIPPED, CEL = "none", "shipped", "cel"
ALL = (NONE, FLOOR, FASTAPI, CANNED, OURS, SHIPPED, GO, CEL)
"""`shipped` is ours behind the match conditions of the manifests, which the API server itself evaluates."""

PATCHING = frozenset({CANNED, OURS, SHIPPED, GO, CEL})
_LABEL = "speed"
_POLICIES = Path(__file__).with_name("policies.yaml")
_MANIFESTS = Path(__file__).parents[2] / "manifests" / "base" / "webhooks.yaml"
_KINDS = {"mutate": "MutatingWebhookConfiguration", "validate": "ValidatingWebhookConfiguration"}
_RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["deployments"]}


def deployment(name: str) -> Object:
    """What a client sends: the recorded Deployment before the API server added to it."""
    value: Object = copy.deepcopy(recorded("deployment")["request"]["object"])
    metadata = value["metadata"]
    kept = ("name", "namespace", "labels", "annotations")
    value["metadata"] = {key: metadata[key] for key in kept if key in metadata}
    value["metadata"]["labels"] = {**metadata.get("labels", {}), _LABEL: name}
    del value["status"]
    return value


def registered(contenders: Mapping[str, Contender], authority: bytes) -> Iterator[Object]:
    yield {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"floorkeeper.io/managed": "true"}},
    }
    bundle = base64.b64encode(authority).decode()
    for name, contender in contenders.items():
        for stage, kind in _KINDS.items():
            webhook = _webhook(name, {"url": f"{contender.url}/{stage}", "caBundle": bundle})
            yield _configuration(kind, name, [webhook])
    ours = contenders[OURS]
    for value in yaml.safe_load_all(_MANIFESTS.read_text()):
        stage = next(stage for stage, kind in _KINDS.items() if kind == value["kind"])
        client = {"url": f"{ours.url}/{stage}", "caBundle": bundle}
        webhooks = [_selecting(each, SHIPPED, client) for each in value["webhooks"] if _covers(each)]
        yield _configuration(value["kind"], SHIPPED, webhooks)
    yield from yaml.safe_load_all(_POLICIES.read_text())


def _webhook(name: str, client: Object) -> Object:
    return _selecting(
        {
            "name": f"{name}.speed.floorkeeper.io",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 10,
            "rules": [_RULE],
        },
        name,
        client,
    )


def _selecting(webhook: Object, name: str, client: Object) -> Object:
    return {**webhook, "clientConfig": client, "objectSelector": {"matchLabels": {_LABEL: name}}}


def _covers(webhook: Object) -> bool:
    return any("deployments" in rule["resources"] for rule in webhook["rules"])


def _configuration(kind: str, name: str, webhooks: list[Object]) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"speed-{name}"},
        "webhooks": webhooks,
    }
