"""The trees that Cohorts make. Pure."""

from __future__ import annotations

from webhook.kube.snapshot import Snapshot


def root_of(snapshot: Snapshot, cohort: str) -> str:
    """The Cohort at the top of the tree; of those that go round in a circle, one of them."""
    seen: set[str] = set()
    while cohort not in seen:
        seen.add(cohort)
        fact = snapshot.cohort(cohort)
        if fact is None or not fact.parent:
            return cohort
        cohort = fact.parent
    return min(seen)
