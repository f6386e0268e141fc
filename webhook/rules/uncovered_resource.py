"""Every resource that Kueue counts for a pod is covered by its ClusterQueue.

A pod whose ClusterQueue covers GPUs and no memory is never admitted once it requests memory: Kueue says that the
resource is unavailable, and only in the Workload's status. It counts what the pod requests when it is created: a limit
without a request, the defaults of the namespace's LimitRanges and the overhead of a RuntimeClass too. Zeros are passed
over. Any workload with a queue label is judged, since a gateway would hang as well.

Kueue's own configuration can leave resources out (resources.excludeResourcePrefixes) or turn them into others
(resources.transformations). With resources.quotaCheckStrategy IgnoreUndeclared (Kueue 0.18) this rule is silent, and so
it is in a namespace that Kueue leaves out. Where the configuration cannot be read, a warning says so and nothing is
denied.

Guide: step 2, Define the GPU Budget.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import counted_for, listed, queue_in_force
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.request_source import source_of
from webhook.kube.snapshot import Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    for each in subject.pod_sets:
        template = each.template
        queue = queue_in_force(subject, template, snapshot)
        pod = counted_for(subject, template, queue, snapshot)
        if pod is None or not pod.configuration.checks_undeclared:
            continue
        covered = sorted(frozenset().union(*(group.covered for group in pod.cluster_queue.groups)))
        for resource in sorted(pod.requests):
            if pod.requests[resource] > 0 and resource not in covered:
                source = source_of(resource, pod, snapshot)
                yield Violation(
                    source.path,
                    must=f'must be among what ClusterQueue "{pod.cluster_queue.name}" covers '
                    f"({listed(covered) or 'nothing'})",
                    actual=source.asks + each.where(source.path),
                    fix=f"cover {resource}, {source.remedy}: else no pod is admitted",
                    identity=(template.path, resource),
                )


RULE = Rule(
    id="uncovered-resource",
    mode=Mode.DENY,
    kinds=WORKLOADS,
    check=check,
    needs=frozenset({"Namespace", "LocalQueue", "ClusterQueue", "LimitRange", "RuntimeClass", "ConfigMap"}),
    page=__doc__,
)
