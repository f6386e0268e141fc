"""The queue label leads to queues and flavors that exist and admit, and the priority class exists.

Kueue waits for a LocalQueue that is not there, and tells nobody: the pods stay gated. So it is with a LocalQueue whose
ClusterQueue does not exist, with a ClusterQueue that names a ResourceFlavor which does not, with a queue that is
stopped, and with a label kueue.x-k8s.io/priority-class that names no WorkloadPriorityClass. This warns and denies
nothing, since queues and workloads may be applied together, in any order.

Guide: step 2, 'so the LocalQueue exists when the first Workload appears'; Tuning, WorkloadPriorityClass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.engine.policy import Mode, Policy
from webhook.engine.queues import listed
from webhook.engine.rule import Rule, Violation
from webhook.engine.subject import Subject
from webhook.kube.kinds import WORKLOADS
from webhook.kube.kueue_facts import POD_FRAMEWORK
from webhook.kube.names import PRIORITY_CLASS_LABEL, QUEUE_LABEL
from webhook.kube.objects import Path, at, mapping, metadata, string
from webhook.kube.snapshot import FactsMissing, Snapshot


def check(subject: Subject, snapshot: Snapshot, policy: Policy) -> Iterator[Violation]:  # noqa: ARG001
    chains = [
        *(
            chain
            for queue, path in _named(subject, QUEUE_LABEL).items()
            for chain in (
                _queue(queue, path, subject.namespace, snapshot),
                _kueue(queue, path, subject, snapshot),
            )
        ),
        *(_priority_class(name, path, snapshot) for name, path in _named(subject, PRIORITY_CLASS_LABEL).items()),
    ]
    missing: FactsMissing | None = None
    for chain in chains:
        try:
            yield from chain
        except FactsMissing as error:
            # The other chains may lead past the kind that is not known.
            missing = missing or error
    if missing is not None:
        raise missing


def _named(subject: Subject, key: str) -> dict[str, Path]:
    """What a label names on the pod templates and the object, each name with the first place where it stands."""
    holders = [(template.metadata, (*template.path, *template.shape.metadata)) for template in subject.templates]
    if isinstance(subject.kind.label, tuple):
        where = (*subject.kind.label, "metadata")
        holders.append((mapping(at(subject.value, where)), where))
    holders.append((metadata(subject.value), ("metadata",)))
    places: dict[str, Path] = {}
    for holder, path in holders:
        name = string(mapping(holder.get("labels")).get(key))
        if name:
            places.setdefault(name, (*path, "labels", key))
    return places


def _queue(queue: str, path: Path, namespace: str, snapshot: Snapshot) -> Iterator[Violation]:
    local_queue = snapshot.local_queue(namespace, queue)
    if local_queue is None:
        names = listed(snapshot.local_queues(namespace)) or "none"
        yield Violation(
            path,
            must="must name a LocalQueue that exists",
            actual=queue,
            fix=f"create it, or use one that exists: {names}",
            identity=("LocalQueue", queue),
        )
        return
    name = local_queue.cluster_queue
    cluster_queue = snapshot.cluster_queue(name)
    if cluster_queue is None:
        yield Violation(
            path,
            must="must lead to a ClusterQueue",
            actual=f'{queue}, whose ClusterQueue "{name}" does not exist',
            fix="create it: until then the pods stay gated",
            identity=("ClusterQueue", name),
        )
        return
    flavors = dict.fromkeys(flavor for group in cluster_queue.groups for flavor in group.flavors)
    absent = [flavor for flavor in flavors if snapshot.flavor(flavor) is None]
    if absent:
        # Kueue says of both queues that they are not active then, which is no second thing to mend.
        yield Violation(
            path,
            must="must lead to ResourceFlavors that exist",
            actual=f'{queue}, but "{name}" names {listed(absent, 2)}',
            fix="create what is missing: until then the pods stay gated",
            identity=("ResourceFlavor", name),
        )
    elif local_queue.stopped or cluster_queue.stopped:
        which = "which" if local_queue.stopped else f'whose ClusterQueue "{name}"'
        yield Violation(
            path,
            must="must lead to a queue that admits",
            actual=f"{queue}, {which} is stopped, being deleted or not active",
            fix="set stopPolicy to None, or see its Active condition",
            identity=("stopped", queue),
        )
    elif not cluster_queue.takes(namespace, _labels(namespace, snapshot)):
        yield Violation(
            path,
            must="must lead to a queue for this namespace",
            actual=f'{queue}, whose ClusterQueue "{name}" does not select it',
            fix="widen its namespaceSelector: until then the pods stay gated",
            identity=("namespaceSelector", name),
        )


def _kueue(queue: str, path: Path, subject: Subject, snapshot: Snapshot) -> Iterator[Violation]:
    """Whether Kueue looks at the label at all. Where nothing tells how it is set up, nothing is said."""
    framework, namespace = subject.kind.framework, subject.namespace
    try:
        configuration = snapshot.kueue_configuration()
        setting = configuration.leaves_out(framework, namespace, _labels(namespace, snapshot))
    except FactsMissing:
        return
    if setting:
        off = setting == "integrations.frameworks"
        strands = off and framework == POD_FRAMEWORK and configuration.strands_pods
        yield Violation(
            path,
            must="must be where Kueue heeds it",
            actual=f"{queue}, which {'gates the pods for ever' if strands else 'does nothing'} here",
            fix=f"{f'add {framework} to' if off else 'see'} {setting} in Kueue's configuration",
            identity=("configuration", setting),
        )


def _labels(namespace: str, snapshot: Snapshot) -> Mapping[str, str]:
    fact = snapshot.namespace(namespace)
    return {} if fact is None else fact.labels


def _priority_class(name: str, path: Path, snapshot: Snapshot) -> Iterator[Violation]:
    if snapshot.priority_class(name) is None:
        names = listed(sorted(fact.name for fact in snapshot.facts("WorkloadPriorityClass"))) or "none"
        yield Violation(
            path,
            must="must name a WorkloadPriorityClass that exists",
            actual=name,
            fix=f"create it, or use one that exists: {names}",
            identity=("WorkloadPriorityClass", name),
        )


RULE = Rule(
    id="unknown-queue",
    mode=Mode.WARN,
    kinds=WORKLOADS,
    check=check,
    needs=frozenset({"LocalQueue", "ClusterQueue", "ResourceFlavor", "WorkloadPriorityClass", "ConfigMap"}),
    page=__doc__,
)
