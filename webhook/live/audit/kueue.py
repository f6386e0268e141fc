"""Checks of Kueue: that it is there, that it heeds the label where the policy says so, and that its queues work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from math import inf

from webhook.kube.facts import LocalQueueFact, NamespaceFact
from webhook.kube.kinds import LOCAL_QUEUE
from webhook.kube.kueue_facts import MANAGED_SELECTOR, POD_FRAMEWORK, POD_SELECTOR, KueueConfigurationFact
from webhook.kube.names import KUEUE_CONFIG_KEY, KUEUE_GROUP, KUEUE_NAMESPACES, NAME_LABEL, SYSTEM_NAMESPACES
from webhook.kube.objects import Object, at, deleting, mapping, metadata, sequence, string
from webhook.live.audit.judging import reference
from webhook.live.audit.reading import CONTROLLER
from webhook.live.audit.registrations import LEASES
from webhook.live.audit.report import Reference
from webhook.live.audit.standing import Defect, NotLookedAt, Standing
from webhook.live.verify.world import KUEUE_LEASE

_STALE = 60.0
"""Seconds without a renewal after which no controller holds the Lease."""

_INTEGRATIONS = ("data", KUEUE_CONFIG_KEY, "integrations", "frameworks")


def absent(standing: Standing) -> Iterator[Defect]:
    """Kueue is installed.

    Without it the queue label does nothing: every replica runs at once, and no floor holds.
    """
    standing.need(KUEUE_GROUP)
    if not standing.reading.kueue_versions:
        yield Defect(
            Reference("", "CustomResourceDefinition", f"clusterqueues.{KUEUE_GROUP}", "apiextensions.k8s.io/v1"),
            ("spec",),
            must="must be installed",
            actual="absent",
            fix="install Kueue: without it the queue label does nothing, and no floor holds",
        )


def controllers_down(standing: Standing) -> Iterator[Defect]:
    """Kueue's controller runs.

    While it does not, what is gated stays gated, and where its webhooks refuse what they cannot see, no pod is made.
    Told of a Deployment of the shipped name in Kueue's namespace, and of the Lease there that the controller renews
    every few seconds. Where neither is, nobody can tell.
    """
    standing.need(KUEUE_GROUP)
    if not standing.reading.kueue_versions:
        return
    deployments = [value for value in standing.reading.controllers if not deleting(value)]
    runs = False
    for value in deployments:
        available = mapping(value.get("status")).get("availableReplicas") or 0
        if available:
            runs = True
            continue
        yield Defect(
            reference(value),
            ("status", "availableReplicas"),
            must="must be at least 1",
            actual=str(available),
            fix="see why its pods are not ready: until then nothing is admitted",
        )
    lease = standing.registrations.lease
    if lease is None:
        if not deployments:
            homes = " or ".join(KUEUE_NAMESPACES)
            looked = {LEASES.name: f"Lease {KUEUE_LEASE}", "deployments.apps": f"Deployment {CONTROLLER}"}
            reasons = [next(standing.unread(name), f"no {what} in {homes}") for name, what in looked.items()]
            raise NotLookedAt("; ".join(reasons))
        return
    age = _renewed(lease, standing.now)
    holder = string(at(lease, ("spec", "holderIdentity")))
    if holder and age <= _STALE:
        return
    last = f"{age:,.0f} s ago by the clock here, by {holder or 'nobody'}"
    if runs:
        # It may elect no leader any more, or none of its pods can be it.
        raise NotLookedAt(f"a Deployment has ready pods, and Lease {KUEUE_LEASE} was renewed {last}: see their log")
    if not deployments:
        yield Defect(
            reference(lease),
            ("spec", "renewTime"),
            must="must be renewed every few seconds",
            actual=last,
            fix=f"see Deployment {CONTROLLER}: no controller runs, and nothing is admitted",
        )


def _renewed(lease: Object, now: datetime) -> float:
    """How many seconds ago; without a time, or with one that cannot be read, it never was."""
    try:
        return (now - datetime.fromisoformat(string(at(lease, ("spec", "renewTime"))))).total_seconds()
    except (ValueError, TypeError):
        return inf


def nothing_managed(standing: Standing) -> Iterator[Defect]:
    """Some namespace is managed.

    Without one, no workload is judged, at admission or here.
    """
    if not standing.reading.managed:
        yield Defect(
            Reference("", "Policy", "floorkeeper", "floorkeeper.io/v1alpha1"),
            ("managedNamespaces",),
            must="must select a namespace",
            actual=f"{standing.policy.managed_namespaces}, which selects none",
            fix=(
                "label the namespaces of the models (by default: kubectl label namespace NAME "
                "floorkeeper.io/managed=true): until then no workload is judged"
            ),
        )


def integrations(standing: Standing) -> Iterator[Defect]:
    """Kueue's pod and deployment integrations are on.

    Without pod, the label on a pod template does nothing, or holds the pods for ever; without deployment, the one on a
    Deployment does nothing.
    """
    configuration = _configuration(standing)
    if configuration is None:
        return
    about = Reference(configuration.namespace, "ConfigMap", configuration.name, "v1")
    listed = ", ".join(sorted(configuration.frameworks)) or "empty"
    if POD_FRAMEWORK not in configuration.frameworks:
        does = "holds pods for ever" if configuration.strands_pods else "does nothing"
        yield Defect(
            about,
            _INTEGRATIONS,
            must="must hold pod",
            actual=listed,
            fix=f"add it: without it the queue label on a pod template {does}",
        )
    if "deployment" not in configuration.frameworks:
        yield Defect(
            about,
            _INTEGRATIONS,
            must="must hold deployment",
            actual=listed,
            fix="add it, or label pod templates alone: without it the queue label on a Deployment itself does nothing",
            advice=True,
        )


def namespaces_left_out(standing: Standing) -> Iterator[Defect]:
    """Kueue manages every managed namespace.

    Where its managedJobsNamespaceSelector, or that of its podOptions, leaves one out, no pod there is ever gated.
    """
    configuration = _configuration(standing)
    if configuration is None:
        return
    selectors = {MANAGED_SELECTOR: configuration.managed, POD_SELECTOR: configuration.pod_namespaces}
    for name in standing.managed:
        fact = standing.reading.snapshot.namespace(name)
        labels = {NAME_LABEL: name, **(fact.labels if fact is not None else {})}
        leaving_out = (each for each, selector in selectors.items() if not selector.matches(labels))
        setting = next((each for each in leaving_out if each not in configuration.unreadable), "")
        if setting:
            yield Defect(
                Reference("", "Namespace", name, "v1"),
                ("metadata", "labels"),
                must="must be one that Kueue manages",
                actual=f"left out by its {setting} ({selectors[setting]})",
                fix="widen that in Kueue's configuration: until then no pod here is ever gated",
            )
    if configuration.unreadable and standing.managed:
        raise NotLookedAt(f"Kueue's {' and '.join(configuration.unreadable)} cannot be read as a selector")


def unguarded_namespaces(standing: Standing) -> Iterator[Defect]:
    """Every namespace with LocalQueues is managed.

    What runs in another one draws on the same floors, and nothing judges it.
    """
    if standing.limited:
        return
    snapshot, selector = standing.reading.snapshot, standing.policy.managed_namespaces
    homes = {fact.namespace for fact in snapshot.facts("LocalQueue") if isinstance(fact, LocalQueueFact)}
    for name in sorted(homes - set(standing.reading.managed) - set(SYSTEM_NAMESPACES)):
        fact = snapshot.namespace(name)
        if isinstance(fact, NamespaceFact) and not fact.terminating:
            yield Defect(
                Reference("", "Namespace", name, "v1"),
                ("metadata", "labels"),
                must="must be managed, for it has LocalQueues",
                actual=f"not selected by the policy's managedNamespaces ({selector})",
                fix="label it, or delete its LocalQueues: what runs there draws on the same floors unjudged",
            )


def queues_inactive(standing: Standing) -> Iterator[Defect]:
    """Every ClusterQueue is Active.

    One that is not admits nothing, and one that has no such condition has no controller that looks at it.
    """
    standing.need(f"clusterqueues.{KUEUE_GROUP}")
    for value in standing.reading.queues:
        if metadata(value).get("deletionTimestamp"):
            continue
        conditions = map(mapping, sequence(mapping(value.get("status")).get("conditions")))
        active = next((each for each in conditions if each.get("type") == "Active"), None)
        if active is not None and active.get("status") == "True":
            continue
        why, fix = "without that condition", "see whether Kueue's controller runs: nothing has looked at this queue"
        if active is not None:
            said = " ".join(string(active.get("message")).split()).rstrip(".")
            why = f"{string(active.get('reason')) or 'not'}: {said}"
            fix = "mend what Kueue names: until then this queue admits nothing"
        yield Defect(reference(value, namespaced=False), ("status", "conditions"), "must be Active", why, fix)


def local_queues_nowhere(standing: Standing) -> Iterator[Defect]:
    """Every LocalQueue of a managed namespace leads to a ClusterQueue."""
    snapshot = standing.reading.snapshot
    version = next(iter(standing.reading.kueue_versions), "v1beta2")
    going = {
        (metadata(value).get("namespace"), metadata(value).get("name"))
        for kind, value in standing.reading.judged
        if kind is LOCAL_QUEUE and deleting(value)
    }
    for namespace in standing.managed:
        for name, fact in sorted(snapshot.of_namespace("LocalQueue", namespace).items()):
            if not isinstance(fact, LocalQueueFact) or (namespace, name) in going:
                continue
            if snapshot.cluster_queue(fact.cluster_queue) is None:
                yield Defect(
                    Reference(namespace, "LocalQueue", name, f"{KUEUE_GROUP}/{version}"),
                    ("spec", "clusterQueue"),
                    must="must name a ClusterQueue that exists",
                    actual=fact.cluster_queue or "empty",
                    fix="create it, or delete this and create it with another: the field cannot be changed",
                )


def _configuration(standing: Standing) -> KueueConfigurationFact | None:
    """That of the running Kueue, None without Kueue. Raises FactsMissing or NotLookedAt where nobody knows it."""
    standing.need(KUEUE_GROUP)
    return standing.reading.snapshot.kueue_configuration() if standing.reading.kueue_versions else None
