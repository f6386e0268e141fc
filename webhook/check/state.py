"""What the objects of the input are judged against: facts of the input itself, and of what was given beside it.

In a cluster every kind is known. Here it is known whether an object is in the input, and not whether it is in the
cluster too. So a kind of which nothing is there is taken for empty only where that is what most clusters have (a
LimitRange, a Cohort that queues only name). What others refer to by name is unknown then, and rules that need it are
not evaluated. With --state and --live all of it is known. Nodes are known when there are some, or capacity is declared.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from webhook.check.defaults import filled_in
from webhook.check.inputs import read_inputs
from webhook.check.options import BadOption, Declared, Options
from webhook.check.result import Fault, Place
from webhook.engine.policy import Policy
from webhook.kube.facts import CLUSTER_SCOPED, GROUPS, PROJECTIONS, SEEN_AS, Fact, NamespaceFact
from webhook.kube.kinds import KINDS, Kind, Kinds
from webhook.kube.kueue_facts import KueueConfigurationFact
from webhook.kube.names import KUEUE_CONFIG_MAP
from webhook.kube.objects import group, mapping, string
from webhook.kube.selector import LabelSelector
from webhook.kube.snapshot import Snapshot
from webhook.sources.documents import Document, position
from webhook.sources.kueue_configuration import with_configuration

_DEFAULT_NAMESPACE = "default"
"""Where kubectl puts a namespaced object that names no namespace."""

_GIVE_STATE = "none in the input; give --state or --live"
_GIVE_NODES = "none in the input; give --nodes or --capacity"
_NAMED = (
    "LocalQueue",
    "ClusterQueue",
    "ResourceFlavor",
    "RuntimeClass",
    "WorkloadPriorityClass",
    "ResourceClaimTemplate",
    "ResourceClaim",
)
"""What other objects refer to by name."""

_TARGETS = ("Deployment", "StatefulSet", "Pod")
"""What autoscalers refer to, and what a LocalQueue `default` would hit."""

COMMAND_LINE = Place("")
"""Where a fault is that no file has."""

Key = tuple[str, str, str, str]
"""API group, kind, namespace ('' if it is in none) and name."""


class Unusable(Exception):
    """Without this nothing can be judged."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        super().__init__()
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Item:
    """One object of the input. `value` is what the API server would ask about: with its namespace and defaults.

    `kind` is None for a kind that Floorkeeper does not judge.
    """

    document: Document
    kind: Kind | None
    key: Key
    value: dict[str, Any]

    @property
    def namespace(self) -> str:
        return self.key[2]

    @property
    def fact_kinds(self) -> list[str]:
        """The kinds of PROJECTIONS that it is seen as."""
        of, name, _, own = self.key
        if name == "ConfigMap" and own != KUEUE_CONFIG_MAP:
            return []
        return [seen for seen in SEEN_AS.get(name, (name,)) if GROUPS.get(seen) == of]


def item_of(document: Document, namespace: str = "", kinds: Kinds = KINDS) -> Item:
    """The object of a document; `namespace` is for one that names none, '' being kubectl's."""
    value = document.value
    of, name = group(value["apiVersion"]), value["kind"]
    kind = kinds.of(of, name)
    given = mapping(value.get("metadata"))
    home = string(given.get("namespace")) or namespace or _DEFAULT_NAMESPACE
    if kind is None and GROUPS.get(name) != of:
        # Whether the kind has namespaces is not known.
        home = string(given.get("namespace"))
    elif name in CLUSTER_SCOPED:
        home = ""
    if kind is not None:
        value = filled_in(kind, value)
        given = mapping(value.get("metadata"))
    if home != given.get("namespace", ""):
        value = {**value, "metadata": {**given, "namespace": home}}
    return Item(document, kind, (of, name, home, string(given.get("name"))), value)


def fault_at(document: Document, path: tuple[str | int, ...], text: str) -> Fault:
    return Fault(Place(document.file, *position(document, path)), text)


@dataclass(slots=True)
class _Found:
    """Facts as they come; of two about the same object the later one counts."""

    facts: dict[str, dict[tuple[str, str], Fact | None]] = field(
        default_factory=lambda: {kind: {} for kind in PROJECTIONS}
    )

    def add(self, kind: str, fact: Fact) -> None:
        self.facts[kind][getattr(fact, "namespace", ""), fact.name] = fact

    def add_item(self, item: Item) -> None:
        for kind in item.fact_kinds:
            self.facts[kind][item.namespace, item.key[3]] = PROJECTIONS[kind](with_configuration(item.value))


def policy_of(options: Options) -> Policy:
    """The policy with the capacity that the command line declares. Raises Unusable and BadOption."""
    policy = Policy()
    if options.policy:
        # It brings pydantic, which costs more than the whole of a check without it.
        from webhook.policy import PolicyError, read_policy

        try:
            policy = read_policy(Path(options.policy))
        except PolicyError as error:
            raise Unusable(_faults_of(options.policy, str(error))) from None
    if not options.capacity:
        return policy
    for amounts in options.capacity.values():
        for resource in amounts:
            if not policy.accelerators.covers(resource):
                raise BadOption(f"--capacity: {resource} is no accelerator of the policy; correct the name")
    capacity = replace(policy.capacity, declared=_merged(policy.capacity.declared, options.capacity))
    return replace(policy, capacity=capacity)


def _faults_of(name: str, message: str) -> Iterator[Fault]:
    """The lines 'NAME:LINE: TEXT' of a PolicyError."""
    for line in message.splitlines():
        number, _, text = line.removeprefix(f"{name}:").partition(": ")
        yield Fault(Place(name, int(number)), text)


def _merged(policy: Declared, added: Declared) -> Declared:
    return {flavor: {**policy.get(flavor, {}), **added.get(flavor, {})} for flavor in policy.keys() | added.keys()}


def snapshot_of(items: Sequence[Item], options: Options, policy: Policy) -> tuple[Snapshot, list[Fault]]:
    """The facts that the input is judged against, and what of the files given for them cannot be read.

    Raises Unusable where nothing can be said without them.
    """
    found = _Found()
    unknown: Mapping[str, str] = {}
    faults: list[Fault] = []
    if options.live:
        # Read-only, and half a second of imports.
        from webhook.check.live import read_live

        live, unknown = read_live(policy.capacity.discount_unqueued)
        for kind, listed in live.items():
            for fact in listed:
                found.add(kind, fact)
    given = list(_given(options.state, faults))
    for item in given:
        found.add_item(item)
    if options.nodes:
        for item in _nodes(options.nodes):
            found.add_item(item)
    for item in items:
        if item.key[3]:
            found.add_item(item)
    snapshot = Snapshot()
    for kind, facts in found.facts.items():
        snapshot.replace(kind, (fact for fact in facts.values() if fact is not None))
    if not found.facts["ConfigMap"] and not options.live:
        snapshot.put("ConfigMap", KueueConfigurationFact())
    present = {kind for kind, facts in found.facts.items() if facts} | {item.kind.kind for item in items if item.kind}
    # A folder that holds nothing tells nothing.
    whole = bool(given or options.live)
    for kind, reason in {**_absent(present, whole, bool(policy.capacity.declared)), **unknown}.items():
        snapshot.forget(kind, reason)
    return snapshot, faults


def _absent(present: set[str], whole: bool, declared: bool) -> Mapping[str, str]:
    """The kinds about which nobody said anything, each with what would."""
    absent: dict[str, str] = {}
    if "Node" not in present and not declared:
        absent["Node"] = _GIVE_NODES
    if whole:
        return absent
    absent |= dict.fromkeys((kind for kind in _NAMED if kind not in present), _GIVE_STATE)
    if present.isdisjoint({"ClusterQueue", "Cohort"}):
        absent["Cohort"] = _GIVE_STATE
    if present.isdisjoint((*_TARGETS, "ReplicaSet")):
        absent |= dict.fromkeys(_TARGETS, _GIVE_STATE)
    return absent


def _given(paths: Iterable[str], faults: list[Fault]) -> Iterator[Item]:
    """The objects of --state."""
    inputs = read_inputs(list(paths), io.BytesIO())
    faults += inputs.faults
    yield from (item for item in map(item_of, inputs.documents) if item.key[3])


def _nodes(path: str) -> list[Item]:
    inputs = read_inputs([path], io.BytesIO())
    if inputs.faults:
        raise Unusable(inputs.faults)
    found = [item for item in map(item_of, inputs.documents) if item.fact_kinds == ["Node"]]
    if not found:
        raise Unusable([Fault(Place(path), "holds no Node; give what `kubectl get nodes -o yaml` prints")])
    return found


def manage_undeclared(namespaces: Iterable[str], snapshot: Snapshot, selector: LabelSelector) -> None:
    """Makes a managed namespace of each one that the snapshot does not know."""
    for name in namespaces:
        if snapshot.namespace(name) is None:
            snapshot.put("Namespace", NamespaceFact(name, _selected(name, selector)))


def _selected(name: str, selector: LabelSelector) -> dict[str, str]:
    """Labels that a selector matches, if any do."""
    labels = {"kubernetes.io/metadata.name": name}
    for requirement in selector.match_expressions:
        if requirement.operator == "In" and labels.get(requirement.key) not in requirement.values:
            labels[requirement.key] = min(requirement.values, default="")
        elif requirement.operator == "Exists":
            labels.setdefault(requirement.key, "")
    return {**labels, **dict(selector.match_labels)}
