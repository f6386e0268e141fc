"""Floors fit the hardware.

A floor is one ClusterQueue's or Cohort's nominalQuota of one accelerator in one ResourceFlavor. Kueue counts quota, not
GPUs: floors above the hardware admit pods that no node can hold, and these wait unscheduled instead of gated. Cohort
quota adds to its members'. Flavors that share nodes are judged together, by what the nodes can carry for all of them.

A write is denied when more of the floors is unmet after it than before. Lowering an excess always passes, and so does a
write that neither raises a floor nor takes nodes from a flavor. To move quota from one queue to another, lower the one
first and then raise the other. Where the hardware is there but cannot be used now (a node is not Ready or cordoned, a
device plugin has failed), this only warns. Nodes that are yet to come are declared in the policy (`capacity.declared`).
Not evaluated: a cluster in which no Node is known, a flavor that does not exist yet (creating it is judged as raising
every floor that names it), and queues whose hardware is elsewhere (MultiKueue, ProvisioningRequest).

What Volcano's Queues guarantee (spec.guarantee.resource) is judged in the same way: a parent's guarantee includes its
children's, and capacity cannot be declared. Kueue can admit what Volcano places, so their sums are not added up: each
must fit all nodes or, where the policy says which nodes are Volcano's (`capacity.volcanoNodes`), its own. The message
shows both. A Queue's spec.capability below its guarantee is told as a warning.

Guide: step 2, 'Floors should sum to the physical GPU count'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.capacity.advice import ways_out
from webhook.capacity.assessment import Cut
from webhook.capacity.balance import KINDS
from webhook.capacity.comparison import Comparison
from webhook.capacity.volcano import KINDS as VOLCANO_KINDS
from webhook.capacity.volcano import volcano_of
from webhook.capacity.volcano_words import tell
from webhook.capacity.words import describe
from webhook.capacity.write import QuotaWrite, quota_path, quota_write
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, VOLCANO_QUEUE
from webhook.kube.node_facts import ResourceFlavorFact
from webhook.kube.objects import Path
from webhook.kube.quantity import show
from webhook.kube.snapshot import Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if subject.kind is VOLCANO_QUEUE:
        for told in tell(subject.name, subject.old, subject.value, snapshot, policy.capacity, policy.accelerators):
            shared = told.resource or None
            yield Violation(told.path, told.must, told.actual, told.fix, advice=told.advice, shared=shared)
        return
    before = subject.before.fact if subject.before is not None else None
    write = quota_write(
        subject.kind.kind, subject.name, before, subject.fact, snapshot, policy.capacity, policy.accelerators
    )
    for comparisons in write.comparisons:
        violations = list(_violations(subject, write, comparisons))
        if violations:
            yield from violations
            break
    missing = write.missing()
    if missing is not None:
        raise missing


def _violations(subject: Subject, write: QuotaWrite, comparisons: tuple[Comparison, ...]) -> Iterator[Violation]:
    for comparison in comparisons:
        cut = comparison.after.cut
        if cut is None or not (comparison.worse or comparison.away):
            continue
        path, own = _place(subject, write, comparison, cut)
        # Each floor of the cut says the same when all are judged; the flavor says it where the floors are not written.
        shared, aside = (cut.resource, cut.flavors, cut.usable), subject.kind is RESOURCE_FLAVOR
        if comparison.worse:
            volcano = volcano_of(write.snapshot, write.balance.settings, write.balance.accelerators)
            actual = f"{own}: {describe(cut)}{volcano.beside_kueue(cut.resource)}"
            yield Violation(
                path,
                "must keep the floors within the hardware",
                actual,
                _fix(write, comparison, cut),
                shared=shared,
                aside=aside,
            )
        else:
            after = comparison.after
            guaranteed, usable, hardware = map(show, (after.floors, after.usable, after.hardware))
            away = f"capacity is away ({guaranteed} guaranteed, {usable} of {hardware} {cut.resource} usable)"
            yield Violation(
                path,
                "must fit what is usable",
                f"{own}: {away}",
                "bring nodes back",
                advice=True,
                shared=shared,
                aside=aside,
            )


def _place(subject: Subject, write: QuotaWrite, comparison: Comparison, cut: Cut) -> tuple[Path, str]:
    """Where the write does it, and what it says there."""
    if isinstance(write.after, ResourceFlavorFact):
        labels = ", ".join(f"{key}={value}" for key, value in sorted(write.after.labels.items()))
        return ("spec", "nodeLabels"), labels or "empty"
    for flavors in (cut.flavors, comparison.after.flavors):
        for (flavor, resource), amount in write.raised.items():
            if resource == comparison.resource and flavor in flavors:
                return quota_path(subject.value, flavor, resource), show(amount)
    return ("spec", "resourceGroups"), "changed"


def _fix(write: QuotaWrite, comparison: Comparison, cut: Cut) -> str:
    total = f"the flavor's total, {show(cut.floors)}," if len(cut.flavors) == 1 else "the flavors' totals"
    ways = ", or ".join(ways_out(write, comparison, cut))
    return f"{ways}; for nodes yet to come, declare {total} in the policy (capacity.declared)"


RULE = Rule(
    id="floors-exceed-capacity",
    mode=Mode.DENY,
    kinds=(CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, VOLCANO_QUEUE),
    check=check,
    judges_change=True,
    needs=KINDS | VOLCANO_KINDS,
    page=__doc__,
)
