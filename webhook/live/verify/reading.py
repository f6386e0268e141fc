"""One look at a namespace. What is refused is unknown, with the reason; the rest goes on."""

from __future__ import annotations

import re
from collections.abc import Callable

from webhook.kube.objects import Object, at, metadata, string
from webhook.kube.unqueued_pods import FINISHED
from webhook.live.api import DEPLOYMENTS, EVENTS, PODS, REPLICA_SETS, Api, ApiError, Resource
from webhook.live.facts import listed, read_facts, resource_of, workloads_of
from webhook.live.verify.world import KUEUE_LEASE, Probe, World

KINDS = frozenset(
    {
        "LocalQueue",
        "ClusterQueue",
        "Cohort",
        "ResourceFlavor",
        "AdmissionCheck",
        "Node",
        "ConfigMap",
        "LimitRange",
        "RuntimeClass",
        "DeviceClass",
        "ResourceClaim",
        "ResourceClaimTemplate",
    }
)
_LEASES = Resource("coordination.k8s.io", "v1", "leases")
_STATEFUL_SETS = Resource("apps", "v1", "statefulsets")
_JOBS = Resource("batch", "v1", "jobs")
_NO_KUEUE = "Kueue is not installed, or not in a version that is known here"
_OF_KUEUE = r'webhook "[^"]+\.kb\.io"'
_DENIED = re.compile(f"admission {_OF_KUEUE} denied the request")
_FAILED = re.compile(f"failed calling {_OF_KUEUE}")

_Lists = Callable[[], list[Object]]


def read_world(api: Api, namespace: str, kinds: frozenset[str]) -> World:
    """Raises ApiError where the API server does not answer."""
    world = World(namespace, read_facts(api, namespace, KINDS | kinds, lenient=True))

    def read(what: str, lists: _Lists) -> list[Object]:
        try:
            return lists()
        except ApiError as error:
            if not error.code:
                raise
            world.unknown[what] = str(error)
            return []

    def of_kind(kind: str, home: str) -> list[Object]:
        resource = resource_of(api, kind)
        if resource is None:
            raise ApiError(_NO_KUEUE, 404)
        return list(listed(api, resource, home, required=True))

    def of_kueue() -> list[Object]:
        resource = workloads_of(api)
        if resource is None:
            raise ApiError(_NO_KUEUE, 404)
        return list(listed(api, resource, namespace, required=True))

    def at_home(resource: Resource) -> _Lists:
        return lambda: list(listed(api, resource, namespace, required=True))

    world.local_queues = read("local_queues", lambda: of_kind("LocalQueue", namespace))
    found = read("cluster_queues", lambda: of_kind("ClusterQueue", ""))
    world.cluster_queues = {string(metadata(each).get("name")): each for each in found}
    before = read("pods", at_home(PODS))
    world.workloads = read("workloads", of_kueue)
    after = read("pods", at_home(PODS))
    world.pods = _settled(before, after)
    world.deployments = read("deployments", at_home(DEPLOYMENTS))
    world.stateful_sets = read("stateful_sets", at_home(_STATEFUL_SETS))
    world.replica_sets = read("replica_sets", at_home(REPLICA_SETS))
    world.jobs = read("jobs", at_home(_JOBS))
    world.events = read("events", lambda: list(listed(api, EVENTS, namespace, fields="reason=Preempted")))
    leases = read("lease", lambda: list(listed(api, _LEASES, fields=f"metadata.name={KUEUE_LEASE}")))
    # One of a former installation may be left.
    world.lease = max(leases, key=lambda lease: string(at(lease, ("spec", "renewTime"))), default=None)
    own = sorted(string(at(each, ("spec", "clusterQueue"))) for each in world.local_queues)
    queue = next((each for each in own if each in world.cluster_queues), "")
    if queue:
        world.probe = _probed(api, queue)
    return world


def _probed(api: Api, name: str) -> Probe:
    """By a dry run of a change that changes nothing: Kueue's webhook, of the same process as its controllers, is asked
    about it all the same. Whatever else refuses it, or fails, says nothing of Kueue."""
    try:
        resource = resource_of(api, "ClusterQueue")
        if resource is None:
            return Probe(None, _NO_KUEUE)
        api.patch(resource, name, {}, dry_run=True)
    except ApiError as error:
        said = str(error)
        if _FAILED.search(said):
            return Probe(False, said)
        return Probe(True) if _DENIED.search(said) else Probe(None, said)
    return Probe(True)


def _settled(before: list[Object], after: list[Object]) -> list[Object]:
    """The pods that have not finished of about the moment between two lists: one that came or went is left out."""
    uids = {string(metadata(each).get("uid")) for each in before}
    return [
        each
        for each in after
        if string(metadata(each).get("uid")) in uids and at(each, ("status", "phase")) not in FINISHED
    ]
