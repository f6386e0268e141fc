"""Facts of the cluster that the current kubeconfig leads to: one list of each kind, and nothing is written."""

from __future__ import annotations

from collections.abc import Mapping

import orjson
import urllib3.exceptions

from webhook.check.result import Fault
from webhook.check.state import COMMAND_LINE, Unusable
from webhook.kube.facts import PROJECTIONS, Fact
from webhook.kube.objects import mapping, sequence, string
from webhook.rules import RULES
from webhook.sources.access import ACCESS, Access
from webhook.sources.connection import Connection, StatusError
from webhook.sources.kubeconfig_path import default_kubeconfig
from webhook.sources.kueue_configuration import with_configuration
from webhook.sources.listing import list_pages
from webhook.sources.source import SourceError
from webhook.sources.timing import Timing

_SILENCE = 20.0  # seconds
_NEEDS = frozenset({"Namespace"}).union(*(rule.needs for rule in RULES if not rule.removal))
"""What is compared with; no file says that an object is to be deleted."""

_OF_ONE_KIND = (403, 404)
"""Not allowed, and not served: the other kinds may be."""


def read_live(unqueued_pods: bool) -> tuple[Mapping[str, list[Fact]], Mapping[str, str]]:
    """The facts by kind, and why the kinds that are missing there cannot be known.

    `unqueued_pods`: also the pods outside of any queue, which may be most of a cluster. Raises Unusable without a
    cluster, and where its namespaces cannot be listed.
    """
    kubeconfig = default_kubeconfig()
    if kubeconfig is None:
        raise _unusable("there is no kubeconfig; set KUBECONFIG, or leave --live out and give --state")
    timing = Timing(silence=_SILENCE)
    connection = Connection(kubeconfig, timing)
    facts: dict[str, list[Fact]] = {}
    unknown: dict[str, str] = {}
    try:
        connection.load()
        for kind in sorted(_NEEDS | ({"UnqueuedPod"} if unqueued_pods else frozenset())):
            try:
                facts[kind] = _listed(connection, ACCESS[kind], timing.silence)
            except StatusError as error:
                if error.code not in _OF_ONE_KIND:
                    raise
                unknown[kind] = f"cannot be listed: {error}"
    except SourceError as error:
        raise _unusable(str(error)) from None
    except (StatusError, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise _unusable(f"the cluster of {kubeconfig} cannot be read: {' '.join(str(error).split())}") from None
    finally:
        connection.close()
    if "Namespace" in unknown:
        raise _unusable(f"Namespace {unknown['Namespace']}; without it nothing can be judged")
    return facts, unknown


def _unusable(text: str) -> Unusable:
    return Unusable([Fault(COMMAND_LINE, f"--live: {text}")])


def _listed(connection: Connection, access: Access, silence: float) -> list[Fact]:
    version = _served(connection, access, silence)
    if not version:
        if access.absent_is_none:
            return []
        raise StatusError(404, f"{access.product} is not installed")
    return [
        fact
        for objects, _ in list_pages(connection, access, version, silence)
        for value in objects
        if (fact := PROJECTIONS[access.kind](with_configuration(value))) is not None
    ]


def _served(connection: Connection, access: Access, silence: float) -> str:
    """The best version of the kind's group that the cluster serves, '' for none."""
    if not access.optional:
        return access.versions[0]
    try:
        with connection.get(access.group_path, {}, accept="application/json", silence=silence) as answer:
            found = mapping(orjson.loads(answer.read()))
    except StatusError as error:
        if error.code == 404:
            return ""
        raise
    served = {string(mapping(row).get("version")) for row in sequence(found.get("versions"))}
    return next((version for version in access.versions if version in served), "")
