"""The webhook configurations of a cluster, the Secret with the certificate that our server shows, and Kueue's Lease."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator

from webhook.kube.names import KUEUE_NAMESPACES
from webhook.kube.objects import Object, at, mapping, metadata, sequence, string
from webhook.live.api import Api, ApiError, Resource
from webhook.live.audit.standing import Registrations
from webhook.live.verify.world import KUEUE_LEASE

MUTATING = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations")
VALIDATING = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
SECRETS = Resource("", "v1", "secrets")
LEASES = Resource("coordination.k8s.io", "v1", "leases")

_DOMAIN = ".floorkeeper.io"
"""How the names of our webhooks end, whatever their configuration is called."""


def read_registrations(api: Api, secret: str) -> Registrations:
    """`secret` is the name of the Secret, in the namespace of the Service that the webhooks call.

    Raises ApiError (code 0) where the API server does not answer.
    """
    unread: dict[str, str] = {}
    mutating = _listed(api, MUTATING, unread)
    validating = _listed(api, VALIDATING, unread)
    home = next(_homes([*mutating, *validating]), "")
    data: dict[str, bytes] | None = None
    if home:
        try:
            found = api.get(SECRETS, secret, home)
        except ApiError as error:
            if not error.code:
                raise
            unread[SECRETS.name] = str(error)
        else:
            if found is None:
                unread[SECRETS.name] = f"Secret {home}/{secret} is not there: name the server's with --tls-secret"
            else:
                data = {name: _content(text) for name, text in mapping(found.get("data")).items()}
    leases = _listed(api, LEASES, unread, f"metadata.name={KUEUE_LEASE}")
    # Anybody may write one of that name elsewhere.
    leases = tuple(each for each in leases if metadata(each).get("namespace") in KUEUE_NAMESPACES)
    lease = max(leases, key=lambda each: string(at(each, ("spec", "renewTime"))), default=None)
    return Registrations(mutating, validating, data, f"{home}/{secret}" if home else "", lease, unread)


def ours(configurations: Iterable[Object]) -> list[Object]:
    return [each for each in configurations if any(name.endswith(_DOMAIN) for name in webhook_names(each))]


def webhook_names(configuration: Object) -> list[str]:
    return [string(mapping(webhook).get("name")) for webhook in sequence(configuration.get("webhooks"))]


def _homes(configurations: Iterable[Object]) -> Iterator[str]:
    """The namespaces of the Services that our webhooks call."""
    for configuration in ours(configurations):
        for webhook in sequence(configuration.get("webhooks")):
            home = string(at(webhook, ("clientConfig", "service", "namespace")))
            if home:
                yield home


def _listed(api: Api, resource: Resource, unread: dict[str, str], fields: str = "") -> tuple[Object, ...]:
    try:
        return tuple(api.items(resource, fields=fields))
    except ApiError as error:
        if not error.code:
            raise
        unread[resource.name] = str(error)
        return ()


def _content(text: object) -> bytes:
    try:
        return b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        return b""
