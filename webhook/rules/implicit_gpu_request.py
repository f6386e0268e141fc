"""Every accelerator is requested explicitly, with equal and whole requests and limits.

The request is what Kueue accounts against quota, and what its floors are made of. A limit without its request stands in
a pod template unseen. Two sides that differ are refused by the API server itself in the kinds that it knows; inside a
custom resource nobody says it before a controller creates the Pod, deep inside a log. And a queued workload that
requests no accelerator at all is admitted for free.

With the policy's `gpuRequests: fill`, a missing request is written from the limit, unless that alone would restart pods
that run. The API server does the same for a Pod, so a Pod with a limit alone is right when it gets here.

Guide: prerequisite 4, 'Every model pod declares explicit GPU requests and limits'.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.engine.patch import Edit
from webhook.engine.policy import GpuRequests, Mode, Policy
from webhook.engine.queues import counted_for
from webhook.engine.rollout import may_change
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube import quantity
from webhook.kube.kinds import WORKLOADS
from webhook.kube.names import DEFAULT_LOCAL_QUEUE, FIELD_QUEUE
from webhook.kube.pod_sets import PodSet
from webhook.kube.pods import AcceleratorUse, PodTemplate
from webhook.kube.snapshot import FactsMissing, Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    fills = policy.gpu_requests is GpuRequests.FILL
    for each in subject.pod_sets:
        for use in each.template.accelerators:
            if use.asked:
                yield from _pair(each, use, fills and may_change(subject, each.template, policy))
        if each.template.asks and each.understated is not None:
            path, stated, least = each.understated
            yield Violation(
                path,
                must=f"must be at least its minimum, {least}",
                actual=f"{stated}{each.where(path)}",
                fix=f"set it to {least}: so many are started, and Kueue counts what is here",
                weight=least - stated,
            )
    if not subject.is_gpu_workload:
        yield from _admitted_for_free(subject, snapshot, policy)


def _pair(pods: PodSet, use: AcceleratorUse, fills: bool) -> Iterator[Violation]:
    request_path, limit_path = use.request_path, use.limit_path
    where = pods.where(use.container.path)
    sides = ((request_path, use.request), (limit_path, use.limit))
    amounts = []
    for path, value in sides:
        try:
            amounts.append(quantity.parse(value))
        except quantity.QuantityError as error:
            problem = str(error).removeprefix("is ")
            fix = "write a whole number, such as 1"
            yield Violation(path, must="must be a quantity", actual=problem + where, fix=fix)
            return
    request, limit = amounts
    identity = (use.container.path, use.resource)
    weight = max(request, limit)
    for (path, _), amount in zip(sides, amounts, strict=True):
        if amount < 0 or not quantity.whole(amount):
            yield Violation(
                path,
                must="must be a whole number",
                actual=quantity.show(amount) + where,
                fix="a device cannot be cut: write how many are needed",
                identity=identity,
                weight=weight,
            )
            return
    if not use.has_limit:
        yield Violation(
            limit_path,
            must=f"must equal the request, {quantity.show(request)}",
            actual="absent" + where,
            fix=f"set it to {quantity.show(request)}",
            identity=identity,
            weight=weight,
        )
    elif not use.has_request:
        yield Violation(
            request_path,
            must=f"must equal the limit, {quantity.show(limit)}",
            actual="absent" + where,
            fix=f"set it to {quantity.show(limit)}",
            edits=(Edit(request_path, use.limit),) if fills else (),
            done=f"set to {quantity.show(limit)}",
            identity=identity,
            weight=weight,
        )
    elif request != limit:
        yield Violation(
            request_path,
            must=f"must equal the limit, {quantity.show(limit)}",
            actual=quantity.show(request) + where,
            fix="set both to what the container needs",
            identity=identity,
            weight=weight,
        )


def _admitted_for_free(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:
    if not subject.templates or subject.kind.opaque:
        return
    template = next((template for template in subject.templates if template.queue), None)
    if subject.label_path is not None and subject.whole_queue:
        queue, path = subject.whole_queue, subject.label_path
    elif template is not None:
        queue, path = template.queue, template.label_path
    else:
        queue, path = subject.queue, FIELD_QUEUE
    if not queue or any(template.spec.get("resourceClaims") for template in subject.templates):
        # What is claimed, unchecked-claim speaks of.
        return
    local_queue = snapshot.local_queue(subject.namespace, queue)
    cluster_queue = snapshot.cluster_queue(local_queue.cluster_queue) if local_queue is not None else None
    if cluster_queue is not None and not any(
        policy.accelerators.covers(resource) for group in cluster_queue.groups for resource in group.covered
    ):
        return
    groups = cluster_queue.groups if cluster_queue is not None else ()
    covered = frozenset[str]().union(*(group.covered for group in groups))
    if any(_charged(subject, each, queue, snapshot) & covered for each in subject.templates):
        # The queue charges them for that.
        return
    yield Violation(
        path,
        must="must come with an accelerator request",
        actual=f"{queue}, and no container requests one",
        fix="request one or take the label off: Kueue admits such pods for free",
        advice=queue == DEFAULT_LOCAL_QUEUE,
        identity="queued",
    )


def _charged(subject: Subject, template: PodTemplate, queue: str, snapshot: Snapshot) -> frozenset[str]:
    """What a pod asks for as Kueue counts it or, where nobody knows, as its containers say."""
    try:
        pod = counted_for(subject, template, queue, snapshot)
    except FactsMissing:
        pod = None
    requests = template.totals() if pod is None else pod.requests
    # Their number is counted of all pods.
    return frozenset(resource for resource, amount in requests.items() if amount and resource != "pods")


RULE = Rule(
    id="implicit-gpu-request",
    mode=Mode.DENY,
    kinds=WORKLOADS,
    check=check,
    fixes=True,
    needs=frozenset({"LocalQueue", "ClusterQueue"}),
    page=__doc__,
)
