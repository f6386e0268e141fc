"""Metrics of floors and of the hardware under them, in whole units (GPUs). They are read from kept sums at a scrape."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.capacity.balance import KINDS, Balance, balance_of
from webhook.capacity.view import NO_NODE
from webhook.kube.quantity import NANO
from webhook.kube.quota_facts import ClusterQueueFact, CohortFact, FlavorResource, counted
from webhook.kube.snapshot import Snapshot
from webhook.server.admission import PolicyInForce
from webhook.sources.source import Source

_TOGETHER = "of the flavor and of those whose floors compete with it for nodes"
_FLAVOR_METRICS = {
    "hardware": "Accelerators of a flavor's nodes: the larger of capacity and allocatable, and what is declared.",
    "usable": "Accelerators of a flavor's nodes that can be used now, and what is declared.",
    "floors": "Accelerators of a flavor that are guaranteed: the sum of its floors.",
    "unmet_hardware": f"Floors above what the hardware can carry, {_TOGETHER}.",
    "unmet_usable": f"Floors above what can be used now, {_TOGETHER}.",
    "unclaimed": f"Hardware that no floor claims, {_TOGETHER}.",
}
_QUEUE_METRICS = (
    ("floorkeeper_queue_floor", "nominalQuota of a ClusterQueue or Cohort, as Kueue counts it."),
    ("floorkeeper_queue_ceiling", "The most that a ClusterQueue can ever get: its floor, and all that it may borrow."),
)
_RESERVED = ("floorkeeper_queue_reserved", "What the Workloads of a ClusterQueue hold now, borrowed quota included.")


class FlavorCollector(Collector):
    """By flavor and resource. Nothing while a kind that decides is not known, and no number that is not known."""

    def __init__(self, policies: PolicyInForce, source: Source) -> None:
        self._policies = policies
        self._source = source

    def describe(self) -> list[Metric]:
        # Without it, registering would collect, and the facts may not be there yet.
        return []

    def collect(self) -> Iterator[Metric]:
        families = {
            name: GaugeMetricFamily(f"floorkeeper_flavor_{name}", text, labels=("flavor", "resource"))
            for name, text in _FLAVOR_METRICS.items()
        }
        not_evaluated = GaugeMetricFamily(
            "floorkeeper_flavor_not_evaluated",
            "Floors that are compared with no nodes and are in no sum of unmet ones, by reason.",
            labels=("flavor", "resource", "reason"),
        )
        balance = balance_in_force(self._policies, self._source)
        if balance is not None:
            for key in sorted(balance.keys()):
                for name, amount in _amounts(balance, key):
                    families[name].add_metric(key, amount / NANO)
                for reason, floors in _not_evaluated(balance, key):
                    not_evaluated.add_metric((*key, reason), floors)
        yield from families.values()
        yield not_evaluated


def balance_in_force(policies: PolicyInForce, source: Source) -> Balance | None:
    """None while a kind that decides is not known: a balance takes it for a kind without objects."""
    if not source.snapshot.unknown().keys().isdisjoint(KINDS):
        return None
    return balance_of(source.snapshot, policies.policy.capacity, policies.policy.accelerators)


def _amounts(balance: Balance, key: FlavorResource) -> Iterator[tuple[str, int]]:
    (flavor, resource), view = key, balance.now
    floors = view.floors(flavor, resource)
    yield "floors", floors
    if view.unknown(flavor, resource):
        return
    yield "hardware", view.hardware(flavor, resource)
    yield "usable", view.usable(flavor, resource)
    # A flavor without floors competes with nobody, and yet others may claim its nodes.
    claiming = {each for each in view.neighbours(flavor) if view.floors(each, resource) > 0}
    together = view.assess(resource, {flavor} | claiming, about=())
    yield "unclaimed", together.unclaimed
    yield "unmet_hardware", together.unmet_hardware if floors else 0
    yield "unmet_usable", together.unmet_usable if floors else 0


def _not_evaluated(balance: Balance, key: FlavorResource) -> Iterator[tuple[str, int]]:
    """Reasons, each with the number of floors."""
    view = balance.now
    unknown, checked = view.unknown(*key), len(view.uncounted(*key))
    if unknown:
        floors = checked + len(view.contributions(*key))
        if floors:
            yield "no-nodes" if unknown == NO_NODE else "no-flavor", floors
    elif checked:
        yield "admission-check", checked


class QueuePage:
    """Floor, ceiling and use of every queue, as text that is part of the page of metrics in either format.

    A thousand queues have thousands of floors and ceilings, which seldom change: they are put into words when they do.
    """

    def __init__(self, policies: PolicyInForce, source: Source) -> None:
        self._policies = policies
        self._source = source
        self._of: tuple[Balance | None, int] = (None, 0)
        self._text = b""

    def text(self) -> bytes:
        balance, snapshot = balance_in_force(self._policies, self._source), self._source.snapshot
        of = (None, 0) if balance is None else (balance, balance.trees.version)
        if of != self._of or not self._text:
            self._of = of
            floors, ceilings = _samples(balance, snapshot) if balance is not None else ([], [])
            self._text = _family(*_QUEUE_METRICS[0], floors) + _family(*_QUEUE_METRICS[1], ceilings)
        return self._text + _family(*_RESERVED, _reserved(balance, snapshot) if balance is not None else [])


def _samples(balance: Balance, snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """The lines of floors and of ceilings, without the metric's name. Labels are in the order of Prometheus' client."""
    floors: list[str] = []
    ceilings: list[str] = []
    quotas: list[tuple[str, ClusterQueueFact | CohortFact]] = [
        *(("ClusterQueue", fact) for fact in snapshot.cluster_queues()),
        *(("Cohort", fact) for fact in snapshot.cohorts()),
    ]
    quoted = cache(_quoted)
    for kind, quota in quotas:
        own = f'kind="{kind}",queue={_quoted(quota.name)}'
        for (flavor, resource), nominal in sorted(quota.nominal.items()):
            if not balance.accelerators.covers(resource):
                continue
            labels = f"{{flavor={quoted(flavor)},{own},resource={quoted(resource)}}}"
            floors.append(f"{labels} {counted(resource, nominal) // NANO}.0\n")
            ceiling = balance.potential(quota.name, flavor, resource) if kind == "ClusterQueue" else None
            if ceiling is not None:
                ceilings.append(f"{labels} {ceiling // NANO}.0\n")
    return floors, ceilings


def _reserved(balance: Balance, snapshot: Snapshot) -> list[str]:
    """Lines as those of `_samples`, of what Kueue says in the status."""
    covers = cache(balance.accelerators.covers)
    return [
        f"{{flavor={_quoted(flavor)},queue={_quoted(queue.name)},resource={_quoted(resource)}}} {amount // NANO}.0\n"
        for queue in snapshot.cluster_queues()
        for (flavor, resource), amount in sorted(queue.reserved.items())
        if covers(resource)
    ]


def _quoted(value: str) -> str:
    escaped = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


def _family(name: str, text: str, lines: list[str]) -> bytes:
    head = f"# HELP {name} {text}\n# TYPE {name} gauge\n"
    return "".join([head, *(f"{name}{line}" for line in lines)]).encode(errors="replace")
