"""What the rules compare with, read once, of one namespace and of what all namespaces share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from webhook.kube.facts import CLUSTER_SCOPED, PROJECTIONS, Fact
from webhook.kube.names import KUEUE_CONFIG_MAP, KUEUE_NAMESPACES
from webhook.kube.objects import Object
from webhook.kube.snapshot import Snapshot
from webhook.live.api import CONFIG_MAPS, NAMESPACES, Api, ApiError, Resource
from webhook.sources.access import ACCESS, Access
from webhook.sources.kueue_configuration import with_configuration

_EXPIRED = 410
_ATTEMPTS = 3
_EVERYWHERE = frozenset({"UnqueuedPod"})
"""Kinds of which those of other namespaces count too: they hold what all share."""


def read_facts(api: Api, namespace: str, kinds: Iterable[str], *, lenient: bool = False) -> Snapshot:
    """The facts of these kinds, of PROJECTIONS, and of Namespace. A kind that may not be read is unknown, with the
    reason; `lenient`: so is one that is refused for any other reason.

    Raises ApiError where the API server does not answer.
    """
    snapshot = Snapshot("is not read")
    for kind in sorted({"Namespace", *kinds}):
        try:
            values = list(_values(api, namespace, ACCESS[kind]))
        except ApiError as error:
            if error.code not in (403, 404) and not (lenient and error.code):
                raise
            snapshot.forget(kind, str(error))
            continue
        projected = (PROJECTIONS[kind](with_configuration(dict(value))) for value in values)
        facts: list[Fact] = [fact for fact in projected if fact is not None]
        snapshot.replace(kind, facts)
    return snapshot


def _values(api: Api, namespace: str, access: Access) -> Iterator[Object]:
    if access.kind == "Namespace":
        yield from _named(api.get(NAMESPACES, namespace))
        return
    if access.kind == "ConfigMap":
        for home in KUEUE_NAMESPACES:
            yield from _named(api.get(CONFIG_MAPS, KUEUE_CONFIG_MAP, home))
        return
    resource = resource_of(api, access.kind)
    if resource is None:
        if access.absent_is_none:
            return
        raise ApiError(f"{access.product} is not installed", 404)
    everywhere = access.kind in CLUSTER_SCOPED or access.kind in _EVERYWHERE
    yield from listed(
        api,
        resource,
        "" if everywhere else namespace,
        access.label_selector,
        access.field_selector,
        required=not access.absent_is_none,
    )


def listed(
    api: Api, resource: Resource, namespace: str = "", labels: str = "", fields: str = "", *, required: bool = False
) -> list[dict[str, Any]]:
    """As Api.items, and from the start again where the token of the next page has expired meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return list(api.items(resource, namespace, labels, fields, required=required))
        except ApiError as error:
            if error.code != _EXPIRED:
                raise
    return list(api.items(resource, namespace, labels, fields, required=required))


def _named(value: Object | None) -> Iterator[Object]:
    if value is not None:
        yield value


def resource_of(api: Api, kind: str) -> Resource | None:
    """A kind of ACCESS in the best version that is served, None if it is not served."""
    access = ACCESS[kind]
    if not access.optional:
        return Resource(access.group, access.versions[0], access.resource)
    served = api.versions(access.group)
    best = next((version for version in access.versions if version in served), "")
    return Resource(access.group, best, access.resource) if best else None


def workloads_of(api: Api) -> Resource | None:
    """Kueue's Workloads, None without Kueue."""
    queues = resource_of(api, "LocalQueue")
    return None if queues is None else Resource(queues.group, queues.version, "workloads")
