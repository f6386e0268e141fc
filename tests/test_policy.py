"""What a policy may say, and what is said about one that may not."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.engine.policy import (
    DEFAULT_DEVICE_CLASSES,
    DEFAULT_RESOURCES,
    Capacity,
    Exemption,
    GpuRequests,
    Inject,
    Mode,
    Policy,
    QueueMapping,
)
from webhook.kube.accelerators import accelerators
from webhook.kube.kinds import KINDS
from webhook.kube.quantity import NANO
from webhook.kube.row import Place, Surge, Template
from webhook.kube.selector import LabelSelector, Requirement
from webhook.policy import KNOWN_RULES, PolicyError, parse_policy, policy_schema
from webhook.rules import RULES

HEAD = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"

# Every key, with its default or an example.
SKETCH = (
    HEAD
    + """\
managedNamespaces: {matchLabels: {floorkeeper.io/managed: "true"}}
accelerators:
  resources: [nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-*, amd.com/gpu, gpu.intel.com/*, habana.ai/gaudi,
    google.com/tpu, aws.amazon.com/neuron*, huawei.com/Ascend*]
  deviceClasses: {gpu.nvidia.com: nvidia.com/gpu}
  runtimeClasses: [nvidia, nvidia-*, kata-qemu-nvidia-gpu*, habana, ascend]
kinds:
- {group: ml.example.com, kind: TrainingRun, templates: ["spec.roles{*}.template"], label: object}
- group: apps.example.com
  kind: Server
  plural: servers
  versions: [v1]
  templates: [spec.template, "spec.extra[*].template"]
  label: templates
  surge: spec.rollout
queues:
- {namespace: llm-d-optimized-baseline, workload: "model-a-*", localQueue: model-a-lq}
- {namespace: "team-*", selector: {matchLabels: {model: b}}, localQueue: model-b-lq}
inject: onRollout
gpuRequests: require
rollout: {maxUnavailable: 1}
gracePeriod: {minimumSeconds: 60}
capacity:
  declared: {llm-d-gpu-default: {nvidia.com/gpu: 16}}
  ignoreFlavors: [remote-gpus]
  unusable: {taints: [], labels: {autopilot.ibm.com/gpuhealth: ERR}}
  graceSeconds: 120
  discountUnqueued: false
  volcanoNodes: {matchLabels: {scheduler: volcano}}
rules: {floors-below-capacity: warn, hidden-gpu-use: deny}
exemptions:
- {namespace: llm-d-optimized-baseline, workload: canary-*, reason: "bare-metal test rig, INC-412", until: 2027-01-31}
- {users: ["system:serviceaccount:kube-system:namespace-controller"], reason: "system"}
"""
)


def policy(body: str) -> Policy:
    return parse_policy(HEAD + body, "p.yaml")


def test_nothing_but_the_head_is_the_default_policy() -> None:
    assert policy("") == Policy()


def test_the_sketch() -> None:
    parsed = parse_policy(SKETCH, "p.yaml")
    assert parsed == Policy(
        # Rows are told apart by what they are; the same words give the same ones.
        kinds=KINDS.and_others(parsed.kinds.rows[-2:]),
        queues=(
            QueueMapping("llm-d-optimized-baseline", "model-a-lq", "model-a-*"),
            QueueMapping("team-*", "model-b-lq", selector=LabelSelector((("model", "b"),))),
        ),
        capacity=Capacity(
            {"llm-d-gpu-default": {"nvidia.com/gpu": 16 * NANO}},
            frozenset({"remote-gpus"}),
            unusable_labels={"autopilot.ibm.com/gpuhealth": "ERR"},
            volcano_nodes=LabelSelector((("scheduler", "volcano"),)),
        ),
        rules={"floors-below-capacity": Mode.WARN, "hidden-gpu-use": Mode.DENY},
        exemptions=(
            Exemption(
                "bare-metal test rig, INC-412",
                namespace="llm-d-optimized-baseline",
                workload="canary-*",
                until=date(2027, 1, 31),
            ),
            Exemption("system", users=frozenset({"system:serviceaccount:kube-system:namespace-controller"})),
        ),
    )


def test_rows_of_kinds() -> None:
    run, server = parse_policy(SKETCH, "p.yaml").kinds.rows[-2:]
    assert (run.group, run.kind, run.resource, run.versions) == (
        "ml.example.com",
        "TrainingRun",
        "trainingruns",
        ("*",),
    )
    assert (run.templates, run.label, run.surge) == ((Template(("spec", "roles", "{*}", "template")),), (), None)
    assert (server.resource, server.versions, server.label) == ("servers", ("v1",), Place.TEMPLATES)
    assert server.templates == (Template(("spec", "template")), Template(("spec", "extra", "[*]", "template")))
    assert server.surge == Surge(("spec", "rollout"))
    (nested,) = policy("kinds: [{group: a.b, kind: C, templates: [spec.t], label: spec.job}]").kinds.rows[-1:]
    assert nested.label == ("spec", "job")
    assert all(row.custom and row.is_workload for row in (run, server, nested))


EXPRESSIONS = "{key: a, operator: In, values: [x]}, {key: b/c, operator: DoesNotExist}, {key: d, operator: Exists}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("managedNamespaces: {}", Policy(managed_namespaces=LabelSelector())),
        ('managedNamespaces: {matchLabels: {a: ""}}', Policy(managed_namespaces=LabelSelector((("a", ""),)))),
        (
            f"managedNamespaces: {{matchExpressions: [{EXPRESSIONS}]}}",
            Policy(
                managed_namespaces=LabelSelector(
                    (),
                    (
                        Requirement("a", "In", frozenset({"x"})),
                        Requirement("b/c", "DoesNotExist"),
                        Requirement("d", "Exists"),
                    ),
                )
            ),
        ),
        # The default device classes go with the resources that they count as.
        ("accelerators: {resources: [amd.com/gpu]}", Policy(accelerators=accelerators(("amd.com/gpu",), {}))),
        (
            "accelerators: {resources: [x.io/*], deviceClasses: {c: x.io/y}}",
            Policy(accelerators=accelerators(("x.io/*",), {"c": "x.io/y"})),
        ),
        (
            "accelerators: {runtimeClasses: [gpu-*]}",
            Policy(accelerators=accelerators(DEFAULT_RESOURCES, DEFAULT_DEVICE_CLASSES, ("gpu-*",))),
        ),
        (
            "accelerators: {runtimeClasses: []}",
            Policy(accelerators=accelerators(DEFAULT_RESOURCES, DEFAULT_DEVICE_CLASSES, ())),
        ),
        ("inject: always", Policy(inject=Inject.ALWAYS)),
        ("gpuRequests: fill", Policy(gpu_requests=GpuRequests.FILL)),
        ("rollout: {maxUnavailable: 3}", Policy(max_unavailable=3)),
        ("rollout: {maxUnavailable: 100%}", Policy(max_unavailable="100%")),
        ("rollout: {maxUnavailable: '1%'}", Policy(max_unavailable="1%")),
        ("gracePeriod: {minimumSeconds: 0}", Policy(minimum_grace_seconds=0)),
        ('capacity: {declared: {f: {x.io/y: "2k"}}}', Policy(capacity=Capacity({"f": {"x.io/y": 2000 * NANO}}))),
        ("capacity: {unusable: {taints: [x.io/broken]}}", Policy(capacity=Capacity(unusable_taints=("x.io/broken",)))),
        ("capacity: {discountUnqueued: true}", Policy(capacity=Capacity(discount_unqueued=True))),
        ("capacity: {volcanoNodes: {}}", Policy(capacity=Capacity(volcano_nodes=LabelSelector()))),
        # A bare off is a boolean in YAML 1.1.
        ("rules: {hidden-gpu-use: off}", Policy(rules={"hidden-gpu-use": Mode.OFF})),
        (
            "rules: {hidden-gpu-use: Off, no-reclaim: OFF}",
            Policy(rules=dict.fromkeys(("hidden-gpu-use", "no-reclaim"), Mode.OFF)),
        ),
        ('rules: {hidden-gpu-use: "off"}', Policy(rules={"hidden-gpu-use": Mode.OFF})),
        (
            "exemptions: [{groups: [ops], reason: ' on\n  call ', until: '2027-01-31'}]",
            Policy(exemptions=(Exemption("on call", groups=frozenset({"ops"}), until=date(2027, 1, 31)),)),
        ),
        # Left blank: nothing is in it.
        ("accelerators:\nqueues:\nrollout:\ngracePeriod:\ncapacity:\nrules:\nexemptions:\nkinds:", Policy()),
        ("capacity: {declared: , ignoreFlavors: , unusable: }", Policy()),
        ("capacity: {unusable: {taints: , labels: }}", Policy()),
        # Aliases, tags that say what is so anyway, a byte order mark further up.
        (
            "queues: [{namespace: &n a, localQueue: q}, {namespace: *n, localQueue: !!str r}]",
            Policy(queues=(QueueMapping("a", "q"), QueueMapping("a", "r"))),
        ),
        ("rules: {}\n...\n", Policy()),
    ],
)
def test_what_keys_mean(body: str, expected: Policy) -> None:
    assert policy(body) == expected


def test_every_rule_can_be_named() -> None:
    assert {rule.id for rule in RULES} <= set(KNOWN_RULES)
    assert len(KNOWN_RULES) == len(set(KNOWN_RULES))
    modes = policy("rules: {" + ", ".join(f"{rule}: warn" for rule in KNOWN_RULES) + "}").rules
    assert modes == dict.fromkeys(KNOWN_RULES, Mode.WARN)


def test_the_schema_knows_the_sketch() -> None:
    validator = jsonschema.Draft202012Validator(policy_schema())
    validator.check_schema(policy_schema())
    assert [error.message for error in validator.iter_errors(as_json(SKETCH))] == []


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ("managedNamespace: {}", []),
        ("rollout: {maxUnavailable: 0}", ["rollout", "maxUnavailable"]),
        ("rollout: {maxUnavailable: 0%}", ["rollout", "maxUnavailable"]),
        ("rules: {hidden-gpu: deny}", ["rules"]),
        ("rules: {hidden-gpu-use: never}", ["rules", "hidden-gpu-use"]),
        ("inject: sometimes", ["inject"]),
        ("queues: [{namespace: a}]", ["queues", 0]),
        ("exemptions: [{reason: a, users: []}]", ["exemptions", 0, "users"]),
        ("gracePeriod: {minimumSeconds: 86401}", ["gracePeriod", "minimumSeconds"]),
        ("capacity: {declared: {f: {a.io/b: -1}}}", ["capacity", "declared", "f", "a.io/b"]),
        ("capacity: {unusable: {taint: []}}", ["capacity", "unusable"]),
        ("capacity: {discountUnqueued: 1}", ["capacity", "discountUnqueued"]),
        ("capacity: {volcanoNodes: }", ["capacity", "volcanoNodes"]),
    ],
)
def test_the_schema_refuses(body: str, path: list[str | int]) -> None:
    errors = list(jsonschema.Draft202012Validator(policy_schema()).iter_errors(as_json(HEAD + body)))
    assert [list(error.absolute_path) for error in errors] == [path]
    with pytest.raises(PolicyError):
        policy(body)


def as_json(text: str) -> Any:
    """The text as an editor sees it, which knows no dates."""
    return json.loads(json.dumps(yaml.safe_load(text), default=str))


def test_the_schema_describes_every_key() -> None:
    schema = policy_schema()
    models = {"Policy": schema, **schema["$defs"]}
    keys = [(name, key, value) for name, model in models.items() for key, value in model.get("properties", {}).items()]
    assert len(keys) == 48
    assert [(name, key) for name, key, value in keys if not value.get("description")] == []
    assert [name for name, model in models.items() if model["type"] == "object" and model["additionalProperties"]] == []


def test_every_default_of_the_schema_may_be_written() -> None:
    schema = policy_schema()
    for model in (schema, *schema["$defs"].values()):
        for value in model.get("properties", {}).values():
            if "default" in value:
                jsonschema.Draft202012Validator({**value, "$defs": schema["$defs"]}).validate(value["default"])


# Documents that are nearly policies: known and odd keys, values of every kind, in a few levels.
ODD_TEXT = st.sampled_from(
    ["[key]", "", "*", "a-*", "0%", "nvidia.com/gpu", "In", "off", "2027-02-30", "a: b", "<<", "1e9", "\n", "\0", "&a"]
)
KNOWN_KEYS = sorted(
    key for part in (policy_schema(), *policy_schema()["$defs"].values()) for key in part.get("properties", ())
)
KEYS = st.one_of(st.sampled_from([*KNOWN_KEYS, "hidden-gpu-use"]), ODD_TEXT, st.text(max_size=8))
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.dates(), ODD_TEXT, st.text(max_size=8))
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


def reads_or_says_why(text: str) -> None:
    try:
        parse_policy(text, "p.yaml")
    except PolicyError as error:
        for line in str(error).split("\n"):
            assert re.fullmatch(r"p\.yaml:[1-9][0-9]*: [^\n]+: [^\n]+; [^\n]+|p\.yaml:[0-9]+: .*: unknown .*", line), (
                line
            )


# The deadline is far above what a text takes, for machines that are busy.
@settings(deadline=2000)
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_document_is_read_or_refused(document: dict[str, Any]) -> None:
    reads_or_says_why(HEAD + yaml.safe_dump(document))


@settings(deadline=2000)
@given(st.text(st.sampled_from("ab1:-[]{}#&*!|>'\"%@,? \n\t\r\0\ufeff\x85\ud800é") | st.characters()))
def test_any_text_is_read_or_refused(text: str) -> None:
    reads_or_says_why(text)
    reads_or_says_why(SKETCH + text)
