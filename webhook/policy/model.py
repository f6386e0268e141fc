"""The policy as it is written: one pydantic model for each mapping of the file.

Keys are the API's camelCase. Lists and mappings that may be empty may also be left blank in YAML (null), but not where
that would widen what is matched or switch off what is judged.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, Strict, model_validator

from webhook.engine import policy as core
from webhook.kube import accelerators, kinds, selector
from webhook.kube.names import MANAGED_LABEL
from webhook.kube.objects import Path
from webhook.policy.fields import (
    LARGEST,
    ClassPattern,
    EmptyList,
    EmptyMapping,
    LabelKey,
    LabelValue,
    MaxUnavailable,
    NamespacePattern,
    QueueName,
    Reason,
    Resource,
    ResourcePattern,
    RuleMode,
    Subdomain,
    SubjectNames,
    Switch,
    TaintKey,
    Units,
    Until,
    WorkloadPattern,
    publish_no_default,
    shown,
)
from webhook.policy.kind_row import Kind
from webhook.policy.known_rules import RuleId
from webhook.policy.section import Model, Section, Wrong


class Requirement(Model):
    """One requirement of a label selector."""

    key: LabelKey = Field(description="The label's key.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="How the label is compared.")
    values: Annotated[list[LabelValue], EmptyList] = Field(
        default=[], description="The values to compare with: for In and NotIn, and only for them."
    )

    @model_validator(mode="after")
    def _values_as_the_operator_needs(self) -> Self:
        if self.operator in ("In", "NotIn") and not self.values:
            raise Wrong((("values",), f"must not be empty with operator {self.operator}; list the values"))
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise Wrong((("values",), f"must be empty with operator {self.operator}; leave values out, or use In"))
        return self


class LabelSelector(Model):
    """A label selector as Kubernetes has it. Every part must match; an empty one matches everything."""

    match_labels: dict[LabelKey, LabelValue] = Field(default={}, description="Labels and their exact values.")
    match_expressions: list[Requirement] = Field(default=[], description="Requirements, all of which must hold.")

    def as_core(self) -> selector.LabelSelector:
        return selector.LabelSelector(
            tuple(self.match_labels.items()),
            tuple(
                selector.Requirement(entry.key, entry.operator, frozenset(entry.values))
                for entry in self.match_expressions
            ),
        )


class Accelerators(Section):
    """What counts as an accelerator."""

    resources: list[ResourcePattern] = Field(
        default=list(core.DEFAULT_RESOURCES),
        description="Resource names, exact or with one * at the end. A list given here replaces the default.",
    )
    device_classes: dict[Subdomain, Resource] = Field(
        default=core.DEFAULT_DEVICE_CLASSES,
        description="DeviceClasses (DRA) and the accelerator that each counts as, as in Kueue's deviceClassMappings.",
    )
    runtime_classes: list[ClassPattern] = Field(
        default=list(accelerators.RUNTIME_CLASSES),
        description="RuntimeClasses that give a pod accelerators which it did not request, exact or with one * at the "
        "end. A list given here replaces the default.",
    )

    @model_validator(mode="after")
    def _device_classes_are_accelerators(self) -> Self:
        covers = accelerators.accelerators(tuple(self.resources), {}).covers
        strays = [(name, value) for name, value in self.device_classes.items() if not covers(value)]
        if strays and "device_classes" in self.model_fields_set:
            raise Wrong(
                *(
                    (
                        ("deviceClasses", name),
                        f"must be one of accelerators.resources, is {shown(value)}; add it there, or correct it",
                    )
                    for name, value in strays
                )
            )
        return self

    def as_core(self) -> accelerators.Accelerators:
        names = tuple(self.resources)
        covers = accelerators.accelerators(names, {}).covers
        # A list of other resources also drops the default device classes that it does not cover.
        classes = {name: value for name, value in self.device_classes.items() if covers(value)}
        return accelerators.accelerators(names, classes, tuple(self.runtime_classes))


class Queue(Model):
    """Workloads, by namespace and by name or label, and their LocalQueue. The first entry that matches applies."""

    namespace: NamespacePattern = Field(description="The namespace's name, * standing for any characters.")
    workload: WorkloadPattern = Field(default="*", description="The workload's name, * standing for any characters.")
    selector: LabelSelector = Field(default=LabelSelector(), description="Labels that the workload must have.")
    local_queue: QueueName = Field(description="The LocalQueue, which is in the workload's namespace.")

    def as_core(self) -> core.QueueMapping:
        return core.QueueMapping(self.namespace, self.local_queue, self.workload, self.selector.as_core())


class Rollout(Section):
    """How a Deployment rolls once it may not surge."""

    max_unavailable: MaxUnavailable = Field(
        default=1, description="What maxUnavailable becomes where it is 0: a number of pods, or 1% to 100%."
    )


class GracePeriod(Section):
    """How long a preempted replica may take to drain."""

    minimum_seconds: Annotated[int, Strict()] = Field(
        default=60, ge=0, le=86400, description="The least terminationGracePeriodSeconds without a warning, in seconds."
    )


class Unusable(Section):
    """Nodes whose accelerators do not count as usable, although the nodes are Ready."""

    taints: Annotated[list[TaintKey], EmptyList] = Field(default=[], description="Keys of taints.")
    labels: Annotated[dict[LabelKey, LabelValue], EmptyMapping] = Field(
        default={}, description="Labels, one of which is enough."
    )


class Capacity(Section):
    """What is known of the hardware beyond the nodes that are there."""

    declared: Annotated[dict[Subdomain, dict[LabelKey, Units]], EmptyMapping] = Field(
        default={}, description="Whole units by ResourceFlavor and resource: a ceiling for nodes that may still come."
    )
    ignore_flavors: Annotated[list[Subdomain], EmptyList] = Field(
        default=[], description="ResourceFlavors whose floors are not compared with nodes."
    )
    unusable: Unusable = Field(default=Unusable(), description="Nodes that do not count as usable.")
    grace_seconds: Annotated[int, Strict()] = Field(
        default=120, ge=0, le=LARGEST, description="How long capacity may be away before anybody is told, in seconds."
    )
    discount_unqueued: Switch = Field(
        default=False, description="Whether what pods outside of any queue request is taken off what is usable."
    )
    volcano_nodes: LabelSelector = Field(
        default=LabelSelector(),
        json_schema_extra=publish_no_default,
        description="The nodes that are Volcano's, all others being Kueue's; without it, both are compared with all.",
    )

    def as_core(self) -> core.Capacity:
        return core.Capacity(
            self.declared,
            frozenset(self.ignore_flavors),
            tuple(self.unusable.taints),
            self.unusable.labels,
            self.grace_seconds,
            self.discount_unqueued,
            self.volcano_nodes.as_core() if "volcano_nodes" in self.model_fields_set else None,
        )


class Exemption(Model):
    """Who or what is let through unjudged. Every part that is given must match, and one part must be given."""

    reason: Reason = Field(description="Why, for whoever reads the API server's audit log.")
    users: SubjectNames = Field(default=[], description="User names, exact; one is enough.")
    groups: SubjectNames = Field(default=[], description="Group names, exact; one is enough.")
    namespace: NamespacePattern = Field(default="*", description="The namespace's name, * standing for any characters.")
    workload: WorkloadPattern = Field(default="*", description="The object's name, * standing for any characters.")
    until: Until = Field(default=None, description="The last day (UTC) on which it holds; for good without one.")

    @model_validator(mode="after")
    def _is_narrow(self) -> Self:
        is_anything = not self.namespace.strip("*") and not self.workload.strip("*")
        is_anybody = not self.users and (not self.groups or "system:authenticated" in self.groups)
        if is_anything and is_anybody:
            raise Wrong(((), "exempts everything; narrow it by users, groups, namespace or workload"))
        return self

    def as_core(self) -> core.Exemption:
        return core.Exemption(
            self.reason,
            frozenset(self.users),
            frozenset(self.groups),
            self.namespace,
            self.workload,
            self.until,
        )


class Policy(Model):
    """Everything that an admin can decide about Floorkeeper."""

    model_config = ConfigDict(title="Floorkeeper policy")

    api_version: Literal["floorkeeper.io/v1alpha1"] = Field(description="The format of this file.")
    kind: Literal["Policy"] = Field(description="Always Policy.")
    managed_namespaces: LabelSelector = Field(
        default=LabelSelector.model_validate({"matchLabels": {MANAGED_LABEL: "true"}}),
        description="The namespaces whose objects are patched and judged, by their labels.",
    )
    accelerators: Accelerators = Field(
        default=Accelerators(), description="The resources and device classes that count as accelerators."
    )
    kinds: Annotated[list[Kind], EmptyList] = Field(
        default=[], description="Kinds with pod templates that are judged beside those that Floorkeeper knows."
    )
    queues: Annotated[list[Queue], EmptyList] = Field(
        default=[], description="The LocalQueues of workloads that carry no queue label; the first match applies."
    )
    inject: core.Inject = Field(
        default=core.Inject.ON_ROLLOUT,
        description="When a workload that runs gets its queue label: with a rollout that happens anyway, or always.",
    )
    gpu_requests: core.GpuRequests = Field(
        default=core.GpuRequests.REQUIRE,
        description="An accelerator limit without its request: require denies it, fill writes the request.",
    )
    rollout: Rollout = Field(default=Rollout(), description="What the fix of surge-without-quota writes.")
    grace_period: GracePeriod = Field(default=GracePeriod(), description="What short-grace-period asks for.")
    capacity: Capacity = Field(default=Capacity(), description="What floors are compared with, beside the nodes.")
    rules: Annotated[dict[RuleId, RuleMode], EmptyMapping] = Field(
        default={}, description="Modes that differ from a rule's default: deny, warn or off."
    )
    exemptions: Annotated[list[Exemption], EmptyList] = Field(
        default=[], description="Who and what is let through unjudged, each with its reason."
    )

    @model_validator(mode="after")
    def _kinds_are_new(self) -> Self:
        known = {(row.group, row.kind): "is known already; leave it out" for row in kinds.JUDGED}
        wrong: list[tuple[Path, str]] = []
        for index, row in enumerate(self.kinds):
            if (row.group, row.kind) in known:
                wrong.append((("kinds", index), f"{row.group} {row.kind} {known[row.group, row.kind]}"))
            known[row.group, row.kind] = f"is kinds[{index}] already; leave one of them out"
        if wrong:
            raise Wrong(*wrong)
        return self

    def as_core(self) -> core.Policy:
        return core.Policy(
            managed_namespaces=self.managed_namespaces.as_core(),
            accelerators=self.accelerators.as_core(),
            kinds=kinds.KINDS.and_others(entry.as_core() for entry in self.kinds),
            queues=tuple(entry.as_core() for entry in self.queues),
            inject=self.inject,
            gpu_requests=self.gpu_requests,
            max_unavailable=self.rollout.max_unavailable,
            minimum_grace_seconds=self.grace_period.minimum_seconds,
            capacity=self.capacity.as_core(),
            rules={str(rule): mode for rule, mode in self.rules.items()},
            exemptions=tuple(entry.as_core() for entry in self.exemptions),
        )
