"""The text that `floorkeeper render` prints: the webhook configurations, or whole manifests with a policy in them."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.engine.policy import Policy
from webhook.kube.objects import mapping, sequence
from webhook.scope import OF_POLICY, guarded, webhook_configurations

Object = Mapping[str, Any]

POLICY_CONFIG_MAP = "floorkeeper-policy"
POLICY_KEY = "policy.yaml"
"""Where the shipped manifests have the policy, which the server's pods mount."""

_HEADER = "# Made from the policy and the kinds table: floorkeeper render [--policy FILE] > webhooks.yaml\n"
_MANIFESTS_HEADER = "# Made from manifests and a policy: floorkeeper render [--policy FILE] PATH...\n"

_WHOLE = "; give those of a whole installation, such as the folder manifests/overlays/self-signed"

_LONGEST_CA = 10 * 1024
"""Bytes. kubectl apply keeps a copy of the whole object in an annotation, which may have 256 KiB: thirteen times this
in base64 and the rest fit."""


class CaError(Exception):
    """The file is of no use as a caBundle: the message says why."""


class ManifestError(Exception):
    """The manifests are none of an installation of Floorkeeper: the message says what they lack, and what to do."""


class _Dumper(yaml.SafeDumper):
    """Block style for CEL, and every value written out where it is used."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the name is PyYAML's
        return True


_AMBIGUOUS = re.compile(r"[-+.]*[0-9].*|[yn]", re.IGNORECASE)
"""Texts that PyYAML leaves bare, and other readers of YAML may take for a number or a boolean: 1e3, 0o7, y."""


_DIVERGENT = re.compile(r"[\x85\u2028\u2029]|\A\n")
"""Texts that PyYAML would put into a block, and other readers of YAML take other line ends from. It puts none there
with a character that cannot be printed, or with a space at the end of a line."""


def _represent_string(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = None
    if _DIVERGENT.search(value):
        style = '"'
    elif "\n" in value:
        style = "|"
    elif _AMBIGUOUS.fullmatch(value):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent_string)


def read_ca_bundle(path: Path) -> bytes:
    """The certificates of a PEM file, without whatever else it holds, such as a key. Raises CaError."""
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_CA + 1)
    except OSError as error:
        raise CaError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > _LONGEST_CA:
        raise CaError(
            f"{path}: is larger than {_LONGEST_CA:,} bytes; give only the certificates that Floorkeeper's is signed by"
        )
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError:
        what = "a certificate that cannot be read" if b"CERTIFICATE-----" in content else "no certificate in PEM"
        raise CaError(f"{path}: holds {what}; give the file of serve --tls-cert, or of the CA that signed it") from None
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def render_webhooks(policy: Policy, ca_bundle: bytes = b"") -> str:
    """Both webhook configurations as YAML documents. The same policy and certificates give the same bytes."""
    return _HEADER + _documents(_with_ca(configuration, ca_bundle) for configuration in webhook_configurations(policy))


def policy_in(objects: Sequence[Object]) -> str:
    """The text of the policy that the manifests hold. Raises ManifestError."""
    text = mapping(_the_one(objects, "v1", "ConfigMap", POLICY_CONFIG_MAP).get("data")).get(POLICY_KEY)
    if not isinstance(text, str):
        raise ManifestError(f"ConfigMap {POLICY_CONFIG_MAP}: data[{POLICY_KEY}] is missing; put the policy there")
    return text


def placeholders(objects: Sequence[Object]) -> list[str]:
    """What is said of images that stand for one's own, which no node can pull."""
    text = json.dumps(objects)
    images = sorted(set(re.findall(r'"image": "([^"]*(?:YOUR-ORG|@sha256:0{64})[^"]*)"', text)))
    return [
        f"image {image} stands for yours; give name and tag, or digest, in images: of the kustomization"
        for image in images
    ]


def other_namespaces(objects: Sequence[Object], policy: Policy, where: str) -> list[str]:
    """What is said if the policy guards other namespaces than the configurations among the manifests did.

    Nothing is said where these had the default: a policy that selects by another label does so on purpose. One that
    only lacks what an overlay brought, such as the label of OpenShift, guards nothing that anybody has labelled.
    `where` is where the policy is.
    """
    wanted = str(policy.managed_namespaces)
    configurations = [_found(objects, configuration) for configuration in webhook_configurations(policy)]
    webhooks = [mapping(webhook) for found in configurations for webhook in sequence(found.get("webhooks"))]
    there = {str(selector) for webhook in webhooks if (selector := guarded(webhook)) is not None}
    return [
        f"{where} selects {_namespaces(wanted)}, but the webhook configurations among the manifests selected "
        f"{_namespaces(before)}; what is printed selects as the policy does: if you mean the others, set "
        "managedNamespaces there"
        for before in sorted(there - {wanted, str(Policy().managed_namespaces)})
    ]


def _namespaces(selector: str) -> str:
    return f"namespaces with {selector}" if selector else "every namespace"


def render_manifests(objects: Sequence[Object], policy: Policy, text: str, ca_bundle: bytes = b"") -> str:
    """The manifests as YAML documents, in their order, with this policy in the ConfigMap and in the configurations.

    `text` is the policy as it was written. Of the configurations only what follows from the policy is replaced: their
    metadata, and what an overlay changed of a webhook's failurePolicy, timeout or clientConfig, stay. Raises
    ManifestError.
    """
    policy_in(objects)
    replaced: dict[int, Object] = {}
    config_map = _the_one(objects, "v1", "ConfigMap", POLICY_CONFIG_MAP)
    replaced[id(config_map)] = {**config_map, "data": {**config_map["data"], POLICY_KEY: text}}
    for wanted in webhook_configurations(policy):
        found = _found(objects, wanted)
        there = {mapping(webhook).get("name"): mapping(webhook) for webhook in sequence(found.get("webhooks"))}
        webhooks = [
            {**webhook, **there.get(webhook["name"], {}), **{field: webhook[field] for field in OF_POLICY}}
            for webhook in wanted["webhooks"]
        ]
        replaced[id(found)] = _with_ca({**found, "webhooks": webhooks}, ca_bundle)
    return _MANIFESTS_HEADER + _documents(replaced.get(id(value), value) for value in objects)


def _found(objects: Sequence[Object], wanted: Object) -> Object:
    """The object of the same kind and name."""
    return _the_one(objects, wanted["apiVersion"], wanted["kind"], wanted["metadata"]["name"])


def _the_one(objects: Sequence[Object], version: str, kind: str, name: str) -> Object:
    found = [
        value
        for value in objects
        if (value["apiVersion"], value["kind"], value["metadata"].get("name")) == (version, kind, name)
    ]
    if len(found) == 1:
        return found[0]
    what = f"the {kind} {name} twice; give each once" if found else f"no {kind} {name}"
    raise ManifestError(f"the manifests have {what}" + _WHOLE * (not found))


def _with_ca(configuration: Object, ca_bundle: bytes) -> Object:
    if not ca_bundle:
        return configuration
    bundle = {"caBundle": b64encode(ca_bundle).decode()}
    webhooks = [
        {**webhook, "clientConfig": {**webhook["clientConfig"], **bundle}} for webhook in configuration["webhooks"]
    ]
    return {**configuration, "webhooks": webhooks}


def _documents(objects: Iterator[Object]) -> str:
    # The pure Python dumper, since libyaml's wraps and quotes some strings in another way.
    text: str = yaml.dump_all(
        objects, Dumper=_Dumper, explicit_start=True, sort_keys=False, allow_unicode=True, width=100_000
    )
    return text
