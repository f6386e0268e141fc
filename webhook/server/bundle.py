"""The caBundle of webhook configurations: what the API server trusts whoever answers its calls by."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from cryptography import x509

from webhook.kube.objects import Object, mapping, sequence
from webhook.server.keyring import read_bundle

CONFIGURATION = "floorkeeper"
"""The name of both configurations in the shipped manifests."""

KINDS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


def bundles(configuration: Object) -> Iterator[tuple[x509.Certificate, ...]]:
    """What each of its webhooks trusts."""
    for webhook in sequence(configuration.get("webhooks")):
        yield read_bundle(mapping(mapping(webhook).get("clientConfig")).get("caBundle"))


def trusts(configuration: Object, authority: x509.Certificate) -> bool:
    """Whether each of its webhooks does."""
    return all(authority in bundle for bundle in bundles(configuration))


def with_bundle(configuration: Object, bundle: bytes) -> dict[str, Any]:
    """A copy in which each of its webhooks trusts these certificates, in PEM, and all else is as it was."""
    text = b64encode(bundle).decode()
    webhooks = [
        {**webhook, "clientConfig": {**mapping(webhook.get("clientConfig")), "caBundle": text}}
        for webhook in sequence(configuration.get("webhooks"))
    ]
    return {**configuration, "webhooks": webhooks}
