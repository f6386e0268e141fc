"""What is said about a policy that cannot be used: the whole message, every problem, sorted by line."""

from __future__ import annotations

import pytest

from webhook.policy import KNOWN_RULES, PolicyError, parse_policy

HEAD = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"


def problems(text: str) -> list[str]:
    """The lines of the PolicyError, without the name of the file."""
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "p.yaml")
    lines = str(caught.value).split("\n")
    assert all(line.startswith("p.yaml:") for line in lines)
    return [line.removeprefix("p.yaml:") for line in lines]


# Bodies below the head, so that the first line is 3, and what is said about them.
LABEL_KEY = (
    "write name or prefix/name, the name with letters, digits, -, _ and . and 63 characters at the most, "
    "the prefix a DNS-1123 name"
)
LABEL_VALUE = "use letters, digits, -, _ and ., begin and end with a letter or digit, 63 characters at the most"
DNS_NAME = "use a-z, 0-9, - and ., begin and end with a letter or digit, 253 characters at the most"
RESOURCE = (
    "write for example nvidia.com/gpu or nvidia.com/mig-* (a name without a domain, such as cpu, is no accelerator)"
)
KEYS = (
    "apiVersion, kind, managedNamespaces, accelerators, kinds, queues, inject, gpuRequests, rollout, gracePeriod, "
    "capacity, rules, exemptions"
)
TEMPLATE = (
    "write for example spec.template, spec.groups[*].template for a list or spec.roles{*}.template for a mapping, and "
    "no more than one *"
)
UNITS = "write a whole number of units, such as 16"
MODES = "must be deny, warn or off"

WRONG: list[tuple[str, list[str]]] = [
    ("managedNamespace: {}", ["3: managedNamespace: unknown key; did you mean managedNamespaces?"]),
    ("x: 1", [f"3: x: unknown key; known are {KEYS}"]),
    ('"[key]": 1', [f"3: [[key]]: unknown key; known are {KEYS}"]),
    ("rollout:\n  max_unavailable: 1", ["4: rollout.max_unavailable: unknown key; did you mean maxUnavailable?"]),
    ("queues: {}", ["3: queues: must be a list, is a mapping; begin each entry with -, or write [] for none"]),
    ("rules: []", ["3: rules: must be a mapping, is a list; write key: value pairs, or leave the key out"]),
    (
        "queues:\n- a\n-\n  namespace: a",
        [
            "4: queues[0]: must be a mapping, is 'a'; write key: value pairs, or leave the key out",
            "6: queues[1].localQueue: is missing; add it",
        ],
    ),
    (
        "managedNamespaces: {matchLabels: {a: true, b: 1, c: , d: off, e: 1.5, f: [], g: 010}}",
        [
            "3: managedNamespaces.matchLabels.a: must be a string, is true; put it in quotes",
            "3: managedNamespaces.matchLabels.b: must be a string, is 1; put it in quotes",
            "3: managedNamespaces.matchLabels.c: must be a string, is empty; write a text, in quotes if need be",
            "3: managedNamespaces.matchLabels.d: must be a string, is off; put it in quotes",
            "3: managedNamespaces.matchLabels.e: must be a string, is 1.5; put it in quotes",
            "3: managedNamespaces.matchLabels.f: must be a string, is a list; write a text, in quotes if need be",
            "3: managedNamespaces.matchLabels.g: must be a string, is 010; put it in quotes",
        ],
    ),
    (
        f"managedNamespaces: {{matchLabels: {{a b: x, c: -d, {'e' * 64}: x}}}}",
        [
            f"3: managedNamespaces.matchLabels[a b]: must be a label key, is 'a b'; {LABEL_KEY}",
            f"3: managedNamespaces.matchLabels.c: must be a label value, is '-d'; {LABEL_VALUE}",
            f"3: managedNamespaces.matchLabels[{'e' * 60}…]: must be a label key, is '{'e' * 40}…'; {LABEL_KEY}",
        ],
    ),
    (
        "managedNamespaces:\n  matchExpressions:\n  - {key: a, operator: in}\n  - {key: a, operator: NotIn}\n"
        "  - {key: a, operator: Exists, values: [b]}\n  - {operator: Exists}\n"
        "  - {key: a, operator: In, values: [true]}",
        [
            "5: managedNamespaces.matchExpressions[0].operator: must be In, NotIn, Exists or DoesNotExist, is 'in'; "
            "write one of these",
            "6: managedNamespaces.matchExpressions[1].values: must not be empty with operator NotIn; list the values",
            "7: managedNamespaces.matchExpressions[2].values: must be empty with operator Exists; "
            "leave values out, or use In",
            "8: managedNamespaces.matchExpressions[3].key: is missing; add it",
            "9: managedNamespaces.matchExpressions[4].values[0]: must be a string, is true; put it in quotes",
        ],
    ),
    (
        "kinds:\n- {group: apps, kind: Deployment, templates: [spec.template]}\n"
        "- {group: batch, kind: CronJob, templates: [spec.template]}\n- {group: a.b, kind: X, templates: [a]}\n"
        "- {group: a.b, kind: X, templates: [b]}",
        [
            "4: kinds[0]: apps Deployment is known already; leave it out",
            "5: kinds[1]: batch CronJob is known already; leave it out",
            "7: kinds[3]: a.b X is kinds[2] already; leave one of them out",
        ],
    ),
    ("kinds: [{kind: X}]", ["3: kinds[0].group: is missing; add it", "3: kinds[0].templates: is missing; add it"]),
    ("kinds: [{group: a.b, kind: X, templates: []}]", ["3: kinds[0].templates: must not be an empty list; fill it"]),
    (
        "kinds:\n- group: A\n  kind: run\n  plural: Runs\n  versions: [v1x, 1]\n  label: ''\n  surge: spec.\n"
        "  templates:\n  - spec.a[0].b\n  - spec.a[*].b[*]\n  - spec.\n  - metadata.labels[a/b]\n  - '[*]'\n  more: 1",
        [
            f"4: kinds[0].group: must be a DNS-1123 name, is 'A'; {DNS_NAME}",
            "5: kinds[0].kind: must be the name of a kind, is 'run'; write it as in manifests, such as TrainingRun",
            "6: kinds[0].plural: must be the plural name of the resource, is 'Runs'; "
            "write it as kubectl api-resources does",
            "7: kinds[0].versions[0]: must be an API version, is 'v1x'; write for example v1 or v1beta1, or * for all",
            "7: kinds[0].versions[1]: must be a string, is 1; put it in quotes",
            "8: kinds[0].label: must be templates, object or a path of fields, is ''; write one of these",
            "9: kinds[0].surge: must be a path of fields, is 'spec.'; write for example spec.strategy.rollingUpdate",
            *(
                f"{11 + index}: kinds[0].templates[{index}]: must be the path of a pod template, "
                f"is '{path}'; {TEMPLATE}"
                for index, path in enumerate(("spec.a[0].b", "spec.a[*].b[*]", "spec.", "metadata.labels[a/b]", "[*]"))
            ),
            "16: kinds[0].more: unknown key; known are group, kind, plural, versions, templates, label, surge",
        ],
    ),
    # Blank where that would widen what is matched.
    (
        "managedNamespaces:",
        ["3: managedNamespaces: must be a mapping, is empty; write key: value pairs, or leave the key out"],
    ),
    *(
        (
            f"accelerators:\n  resources:\n  - nvidia.com/gpu\n  - '{name}'",
            [f"6: accelerators.resources[1]: must be domain/name or domain/prefix*, is '{name}'; {RESOURCE}"],
        )
        for name in (
            "*",
            "cpu",
            "memory",
            "pods",
            "ephemeral-storage",
            "hugepages-*",
            "nvidia*",
            "nvidia.com/*-gpu",
            "*/gpu",
            "a.io/b**",
            "a.io/",
        )
    ),
    (
        "accelerators: {resources: [a.io/b], deviceClasses: {x: a.io/c, y: a.io/b, Z: a.io/b}}",
        [f"3: accelerators.deviceClasses.Z: must be a DNS-1123 name, is 'Z'; {DNS_NAME}"],
    ),
    (
        "accelerators:\n  resources: [a.io/b]\n  deviceClasses:\n    x: a.io/c\n    y: a.io/b\n    z: a.io/d",
        [
            "6: accelerators.deviceClasses.x: must be one of accelerators.resources, is 'a.io/c'; "
            "add it there, or correct it",
            "8: accelerators.deviceClasses.z: must be one of accelerators.resources, is 'a.io/d'; "
            "add it there, or correct it",
        ],
    ),
    (
        "accelerators: {deviceClasses: {x: a.io/*}}",
        ["3: accelerators.deviceClasses.x: must be domain/name, is 'a.io/*'; write for example nvidia.com/gpu"],
    ),
    *(
        (
            f"accelerators: {{runtimeClasses: [nvidia, '{name}']}}",
            [
                f"3: accelerators.runtimeClasses[1]: must be the name of a RuntimeClass or prefix*, is '{name}'; "
                "write for example nvidia or nvidia-*"
            ],
        )
        for name in ("*", "a*b", "Nvidia", "")
    ),
    ("inject: Always", ["3: inject: must be onRollout or always, is 'Always'; write one of these"]),
    ("gpuRequests: true", ["3: gpuRequests: must be require or fill, is true; write one of these"]),
    (
        "queues:\n- {namespace: A, localQueue: 1}\n- {namespace: a, localQueue: X, workload: a b}\n"
        "- {namespace: , selector: , localQueue: q}",
        [
            "4: queues[0].namespace: must be a namespace or a pattern, is 'A'; "
            "use a-z, 0-9 and -, and * for any characters, 63 characters at the most",
            "4: queues[0].localQueue: must be a string, is 1; put it in quotes",
            "5: queues[1].workload: must be a workload's name or a pattern, is 'a b'; "
            "use a-z, 0-9, - and ., and * for any characters, 253 characters at the most",
            f"5: queues[1].localQueue: must be a DNS-1123 name, is 'X'; {DNS_NAME}",
            "6: queues[2].namespace: must be a string, is empty; write a text, in quotes if need be",
            "6: queues[2].selector: must be a mapping, is empty; write key: value pairs, or leave the key out",
        ],
    ),
    (
        f"queues: [{{namespace: a, localQueue: {'q' * 64}}}]",
        [
            "3: queues[0].localQueue: must fit a label value of 63 characters, has 64; "
            "give the LocalQueue a shorter name"
        ],
    ),
    *(
        (
            f"rollout:\n  maxUnavailable: {value}",
            [
                f"4: rollout.maxUnavailable: must not be {shown}, since with maxSurge 0 no pod could ever be replaced; "
                "write 1 or more, or 1% to 100%"
            ],
        )
        for value, shown in (("0", "0"), ("'0'", "'0'"), ("0%", "'0%'"))
    ),
    *(
        (
            f"rollout: {{maxUnavailable: {value}}}",
            [
                f"3: rollout.maxUnavailable: must be a number of pods or a percentage, is {shown}; "
                "write for example 1 or 25%"
            ],
        )
        for value, shown in (
            ("-1", "-1"),
            ("'1'", "'1'"),
            ("101%", "'101%'"),
            ("1.5%", "'1.5%'"),
            ("true", "true"),
            ("010", "010"),
            ("", "empty"),
            ("2147483648", "2147483648"),
        )
    ),
    *(
        (
            f"gracePeriod: {{minimumSeconds: {value}}}",
            [
                f"3: gracePeriod.minimumSeconds: must be a whole number from 0 to 86400, is {shown}; "
                "write digits without quotes"
            ],
        )
        for value, shown in (
            ("-1", "-1"),
            ("86401", "86401"),
            ("'60'", "'60'"),
            ("1:30", "1:30"),
            ("yes", "yes"),
            ("9" * 5000, "9" * 40 + "…"),
        )
    ),
    (
        "capacity: {graceSeconds: 2147483648}",
        [
            "3: capacity.graceSeconds: must be a whole number from 0 to 2147483647, is 2147483648; "
            "write digits without quotes"
        ],
    ),
    (
        "capacity: {declared: {f: {a.io/a: -1, a.io/b: 1.5, a.io/c: 500m, a.io/d: x, a.io/e: 1E99, a.io/f: }, g: }}",
        [
            f"3: capacity.declared.f[a.io/a]: must be whole units, 0 or more, is -1; {UNITS}",
            f"3: capacity.declared.f[a.io/b]: must be whole units, 0 or more, is 1.5; {UNITS}",
            f"3: capacity.declared.f[a.io/c]: must be whole units, 0 or more, is '500m'; {UNITS}",
            f"3: capacity.declared.f[a.io/d]: is 'x', not a quantity such as 1 or 500m; {UNITS}",
            f"3: capacity.declared.f[a.io/e]: is '1E99', whose exponent is beyond any real amount; {UNITS}",
            f"3: capacity.declared.f[a.io/f]: must be whole units, 0 or more, is empty; {UNITS}",
            "3: capacity.declared.g: must be a mapping, is empty; write key: value pairs, or leave the key out",
        ],
    ),
    (
        "capacity: {ignoreFlavors: [A], unusable: {taints: ['a=b:NoSchedule']}}",
        [
            f"3: capacity.ignoreFlavors[0]: must be a DNS-1123 name, is 'A'; {DNS_NAME}",
            "3: capacity.unusable.taints[0]: must be the key of a taint, is 'a=b:NoSchedule'; "
            "write the key alone, without value and effect",
        ],
    ),
    *(
        (
            f"capacity: {{discountUnqueued: {value}}}",
            [
                f"3: capacity.discountUnqueued: must be true or false, is {shown}; write one of these, without quotes",
            ],
        )
        for value, shown in (("yes", "yes"), ("'true'", "'true'"), ("1", "1"), ("", "empty"))
    ),
    (
        "capacity: {volcanoNodes: {matchLabel: {}, matchLabels: {a: 1}}}",
        [
            "3: capacity.volcanoNodes.matchLabels.a: must be a string, is 1; put it in quotes",
            "3: capacity.volcanoNodes.matchLabel: unknown key; did you mean matchLabels?",
        ],
    ),
    (
        "capacity: {volcanoNodes: }",
        [
            "3: capacity.volcanoNodes: must be a mapping, is empty; write key: value pairs, or leave the key out",
        ],
    ),
    (
        "rules:\n  hidden-gpu-us: deny\n  hidden-gpu-use: false\n  no-reclaim: no\n  unknown-queue: Deny\n"
        "  x: deny\n  '[key]': 1",
        [
            "4: rules.hidden-gpu-us: unknown rule; did you mean hidden-gpu-use?",
            f"5: rules.hidden-gpu-use: {MODES}, is false; write one of these",
            f"6: rules.no-reclaim: {MODES}, is no; write one of these",
            f"7: rules.unknown-queue: {MODES}, is 'Deny'; write one of these",
            f"8: rules.x: unknown rule; known are {', '.join(KNOWN_RULES)}",
            f"9: rules[[key]]: unknown rule; known are {', '.join(KNOWN_RULES)}",
            f"9: rules[[key]]: {MODES}, is 1; write one of these",
        ],
    ),
    (
        "exemptions:\n- {reason: ' ', users: [a]}\n- {users: [a]}\n- {reason: a}\n"
        "- {reason: a, namespace: '*', workload: '**'}\n- {reason: a, groups: ['system:authenticated']}",
        [
            "4: exemptions[0].reason: must not be blank; say why the exemption exists",
            "5: exemptions[1].reason: is missing; add it",
            *(
                f"{line}: exemptions[{line - 4}]: exempts everything; narrow it by users, groups, namespace or workload"
                for line in (6, 7, 8)
            ),
        ],
    ),
    (
        "exemptions:\n- reason: a\n  users: []\n  groups: ['', ' a']\n- reason: a\n  users: ['system:*']\n  workload:",
        [
            "5: exemptions[0].users: must not be an empty list, which would match everybody; "
            "leave the key out, or fill it",
            "6: exemptions[0].groups[0]: must be an exact name, is ''; write it without spaces around it",
            "6: exemptions[0].groups[1]: must be an exact name, is ' a'; write it without spaces around it",
            "8: exemptions[1].users[0]: must be an exact name, is 'system:*'; list each name, * stands for itself here",
            "9: exemptions[1].workload: must be a string, is empty; write a text, in quotes if need be",
        ],
    ),
    *(
        (
            f"exemptions: [{{users: [a], reason: b, until: {value}}}]",
            [f"3: exemptions[0].until: must be a date, is {shown}; write year-month-day, such as 2027-01-31"],
        )
        for value, shown in (
            ("2027-02-30", "'2027-02-30'"),
            ("2027-1-31", "'2027-1-31'"),
            ("2027-01-31T00:00:00Z", "'2027-01-31T00:00:00Z'"),
            ("20270131", "20270131"),
            ("", "empty"),
        )
    ),
]


@pytest.mark.parametrize(("body", "expected"), WRONG)
def test_wrong_values(body: str, expected: list[str]) -> None:
    assert problems(HEAD + body) == expected


def test_all_problems_come_at_once_and_in_order() -> None:
    text = "rules: {x: 1}\ninject: x\nkind: Deployment\napiVersion: v1\ninject: y\n1: 2\n"
    assert problems(text) == [
        f"1: rules.x: unknown rule; known are {', '.join(KNOWN_RULES)}",
        f"1: rules.x: {MODES}, is 1; write one of these",
        "2: inject: must be onRollout or always, is 'x'; write one of these",
        "3: kind: must be Policy, is 'Deployment'; write kind: Policy",
        "4: apiVersion: must be floorkeeper.io/v1alpha1, is 'v1'; write apiVersion: floorkeeper.io/v1alpha1",
        "5: inject: is there twice, first in line 2; keep one",
        "6: 1: the key must be a string; put it in quotes",
    ]
    assert problems("{}") == [
        "1: apiVersion: is missing; add apiVersion: floorkeeper.io/v1alpha1",
        "1: kind: is missing; add kind: Policy",
    ]


def test_more_than_anybody_reads() -> None:
    found = problems(HEAD + "queues:\n" + "- 1\n" * 5000)
    assert len(found) == 101
    assert found[-1] == "104: document: has more problems; mend these first"
