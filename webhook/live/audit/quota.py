"""Which quota objects some namespaces draw on. Pure."""

from __future__ import annotations

from collections.abc import Collection

from webhook.kube.facts import LocalQueueFact
from webhook.kube.snapshot import Snapshot


def used_quota(snapshot: Snapshot, namespaces: Collection[str]) -> set[tuple[str, str]]:
    """Kind and name of the quota objects that the LocalQueues of these namespaces lead to: ClusterQueues, the Cohorts
    above them, and ResourceFlavors. Raises FactsMissing without LocalQueues, ClusterQueues or Cohorts."""
    used: set[tuple[str, str]] = set()
    for namespace in namespaces:
        for fact in snapshot.of_namespace("LocalQueue", namespace).values():
            queue = snapshot.cluster_queue(fact.cluster_queue) if isinstance(fact, LocalQueueFact) else None
            if queue is None:
                continue
            used.add(("ClusterQueue", queue.name))
            used |= {("ResourceFlavor", flavor) for group in queue.groups for flavor in group.flavors}
            cohort = queue.cohort
            while cohort and ("Cohort", cohort) not in used:
                used.add(("Cohort", cohort))
                above = snapshot.cohort(cohort)
                cohort = above.parent if above is not None else ""
    return used
