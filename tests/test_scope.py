"""The webhook registration: what is shipped, and what a policy changes in it. CEL itself runs in tests/cluster."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from webhook.commands import cli
from webhook.engine.policy import Policy
from webhook.kube.accelerators import accelerators
from webhook.kube.kinds import KINDS
from webhook.kube.names import SYSTEM_NAMESPACES
from webhook.kube.selector import LabelSelector, Requirement
from webhook.live.audit.registrations import MUTATING, VALIDATING
from webhook.live.audit.wanted import wanted_kinds
from webhook.live.verify.world import KUEUE_LEASE
from webhook.policy import parse_policy
from webhook.render import CaError, read_ca_bundle, render_webhooks
from webhook.rules import NEEDS
from webhook.scope import agree, webhook_configurations
from webhook.server.authority import self_signed_pair
from webhook.sources.access import ACCESS

BASE = Path(__file__).parents[1] / "manifests" / "base"
SYSTEM = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(SYSTEM_NAMESPACES)}
Object = dict[str, Any]


def entries(policy: Policy) -> dict[str, Object]:
    """Every webhook by its name."""
    configurations = webhook_configurations(policy)
    return {hook["name"]: hook for configuration in configurations for hook in configuration["webhooks"]}


def conditions(hook: Object) -> dict[str, str]:
    return {condition["name"]: condition["expression"] for condition in hook["matchConditions"]}


def rule(group: str, versions: str, operations: str, resources: str, scope: str = "Namespaced") -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": versions.split(),
        "operations": operations.split(),
        "resources": resources.split(),
        "scope": scope,
    }


def asking_for(entry: str, operations: str = "CREATE UPDATE") -> list[Object]:
    """The rules of an entry: one for the rows of a group that are served in the same versions."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in KINDS.workloads:
        if row.entry == entry:
            found.setdefault((row.group, row.versions), []).append(row.resource)
    return [
        rule(group, " ".join(versions), operations, " ".join(plurals)) for (group, versions), plurals in found.items()
    ]


QUOTAS = rule("", "v1", "CREATE UPDATE", "resourcequotas")
LOCAL_QUEUES = rule("kueue.x-k8s.io", "v1beta1 v1beta2", "CREATE", "localqueues")
NAMESPACES = rule("", "v1", "CREATE UPDATE", "namespaces", "Cluster")
FLOORS = rule("kueue.x-k8s.io", "v1beta1 v1beta2", "CREATE UPDATE", "clusterqueues cohorts resourceflavors", "Cluster")
VOLCANO = rule("scheduling.volcano.sh", "v1beta1", "CREATE UPDATE", "queues", "Cluster")
DELETIONS = rule("kueue.x-k8s.io", "v1beta1 v1beta2", "DELETE", "localqueues clusterqueues", "*")
AUTOSCALERS = rule("autoscaling", "v2", "CREATE UPDATE", "horizontalpodautoscalers")
KEDA = rule("keda.sh", "v1alpha1", "CREATE UPDATE", "scaledobjects")
JUDGED = ["not-being-deleted", "no-workload-owns-it", "gpu-or-queue"]
ADMITTED = ["not-being-deleted", "not-by-kueue", "no-workload-owns-it", "gpu-or-queue"]
"""Of kinds that Kueue writes to."""

CHANGED = ["not-being-deleted", "spec-changes"]
# name: rules, failurePolicy, seconds, conditions
TABLE: dict[str, tuple[list[Object], str, int, list[str]]] = {
    "workloads.mutate.floorkeeper.io": (asking_for("workloads"), "Fail", 5, JUDGED),
    "pods.mutate.floorkeeper.io": (asking_for("pods", "CREATE"), "Fail", 5, JUDGED),
    "jobs.mutate.floorkeeper.io": (asking_for("jobs"), "Fail", 5, ADMITTED),
    "serving.mutate.floorkeeper.io": (asking_for("serving"), "Fail", 5, ADMITTED),
    "ray.mutate.floorkeeper.io": (asking_for("ray"), "Fail", 5, ADMITTED),
    "training.mutate.floorkeeper.io": (asking_for("training"), "Fail", 5, ADMITTED),
    "workloads.validate.floorkeeper.io": (asking_for("workloads"), "Fail", 5, JUDGED),
    "pods.validate.floorkeeper.io": (asking_for("pods", "CREATE"), "Fail", 5, JUDGED),
    "jobs.validate.floorkeeper.io": (asking_for("jobs"), "Fail", 5, ADMITTED),
    "serving.validate.floorkeeper.io": (asking_for("serving"), "Fail", 5, ADMITTED),
    "ray.validate.floorkeeper.io": (asking_for("ray"), "Fail", 5, ADMITTED),
    "training.validate.floorkeeper.io": (asking_for("training"), "Fail", 5, ADMITTED),
    "resourcequotas.validate.floorkeeper.io": ([QUOTAS], "Fail", 5, CHANGED),
    "localqueues.validate.floorkeeper.io": ([LOCAL_QUEUES], "Ignore", 2, ["is-default"]),
    "namespaces.validate.floorkeeper.io": ([NAMESPACES], "Ignore", 2, ["not-being-deleted", "becomes-managed"]),
    "floors.validate.floorkeeper.io": ([FLOORS, VOLCANO], "Fail", 10, CHANGED),
    "queue-deletions.validate.floorkeeper.io": ([DELETIONS], "Ignore", 5, ["not-yet-deleted", "by-no-controller"]),
    "autoscalers.validate.floorkeeper.io": ([AUTOSCALERS, KEDA], "Ignore", 2, CHANGED),
}
WIDE = [name for name, (_, _, _, names) in TABLE.items() if "gpu-or-queue" in names]
EVERYWHERE = "floors.validate.floorkeeper.io"
"""The one entry without a namespaceSelector: it is about objects in no namespace alone."""


def test_every_entry_with_every_defaulted_field() -> None:
    found = entries(Policy())
    for hook in found.values():
        hook["matchConditions"] = [condition["name"] for condition in hook["matchConditions"]]
    managed = {"matchLabels": {"floorkeeper.io/managed": "true"}, "matchExpressions": [SYSTEM]}
    expected = {
        name: {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {
                    "name": "floorkeeper",
                    "namespace": "floorkeeper-system",
                    "path": "/mutate" if ".mutate." in name else "/validate",
                    "port": 8443,
                }
            },
            "failurePolicy": failure,
            "matchPolicy": "Equivalent",
            # Only a raise that is let in leaves a promise behind.
            "sideEffects": "NoneOnDryRun" if name == EVERYWHERE else "None",
            "timeoutSeconds": seconds,
            "rules": rules,
            "namespaceSelector": {} if name == EVERYWHERE else managed,
            "objectSelector": {},
            "matchConditions": names,
            **({"reinvocationPolicy": "Never"} if ".mutate." in name else {}),
        }
        for name, (rules, failure, seconds, names) in TABLE.items()
    }
    assert found == expected
    assert list(found) == list(expected)


def test_what_kubernetes_itself_runs_is_asked_about() -> None:
    found = entries(Policy())
    assert found["workloads.mutate.floorkeeper.io"]["rules"] == [
        rule("apps", "v1", "CREATE UPDATE", "deployments statefulsets replicasets daemonsets"),
        rule("", "v1", "CREATE UPDATE", "replicationcontrollers"),
    ]
    assert found["pods.mutate.floorkeeper.io"]["rules"] == [rule("", "v1", "CREATE", "pods")]
    assert rule("batch", "v1", "CREATE UPDATE", "jobs cronjobs") in found["jobs.mutate.floorkeeper.io"]["rules"]


def test_both_configurations_sort_before_kueue() -> None:
    found = webhook_configurations(Policy())
    assert [value["kind"] for value in found] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert {value["metadata"]["name"] for value in found} == {"floorkeeper"}
    assert found[0]["metadata"]["name"] < "kueue-mutating-webhook-configuration"


def test_the_shipped_webhooks_are_rendered() -> None:
    assert (BASE / "webhooks.yaml").read_text() == render_webhooks(Policy()), "floorkeeper render"


def test_rendered_text_is_what_was_rendered() -> None:
    assert list(yaml.safe_load_all(render_webhooks(Policy()))) == webhook_configurations(Policy())


def test_entries_share_nothing() -> None:
    """Whoever adds a caBundle to one entry, or narrows it, changes that one alone."""
    first, *others = entries(Policy()).values()
    first["clientConfig"]["service"]["caBundle"] = "x"
    first["namespaceSelector"]["matchExpressions"][0]["values"].clear()
    first["rules"][0]["resources"].clear()
    first["matchConditions"].clear()
    assert others == list(entries(Policy()).values())[1:]
    assert render_webhooks(Policy()) == (BASE / "webhooks.yaml").read_text()


def test_conditions_name_every_owner_and_every_accelerator() -> None:
    for found in (conditions(entries(Policy())[name]) for name in WIDE):
        for row in KINDS.workloads:
            assert f'"{row.group}/{row.kind}"' in found["no-workload-owns-it"]
        for resource in Policy().accelerators.exact:
            assert f'"{resource}"' in found["gpu-or-queue"]
        for prefix in Policy().accelerators.prefixes:
            assert f'resource.startsWith("{prefix}")' in found["gpu-or-queue"]


def test_entries_differ_only_by_where_they_look() -> None:
    """What a pod is asked for is the same in all."""
    found = entries(Policy())
    asked = {conditions(found[name])["gpu-or-queue"].partition(".exists(pod,\n")[2] for name in TABLE if name in WIDE}
    assert len(WIDE) == 12
    assert len(asked) == 1


def test_another_policy() -> None:
    selector = LabelSelector(
        (("team", "a"), ("stage", "")),
        (
            Requirement("tier", "In", frozenset({"silver", "gold"})),
            Requirement("frozen", "NotIn", frozenset({"yes"})),
            Requirement("owner", "Exists"),
            Requirement("old", "DoesNotExist"),
        ),
    )
    policy = Policy(selector, accelerators(("example.com/npu", "example.com/tile-*"), {}))
    found = entries(policy)
    assert found.pop(EVERYWHERE) == entries(Policy())[EVERYWHERE]
    for hook in found.values():
        assert hook["namespaceSelector"] == {
            "matchLabels": {"team": "a", "stage": ""},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["gold", "silver"]},
                {"key": "frozen", "operator": "NotIn", "values": ["yes"]},
                {"key": "owner", "operator": "Exists"},
                {"key": "old", "operator": "DoesNotExist"},
                SYSTEM,
            ],
        }
    assert conditions(found["namespaces.validate.floorkeeper.io"])["becomes-managed"] == (
        'request.operation != "UPDATE" || !('
        'oldObject.metadata.?labels[?"team"] == optional.of("a") && '
        'oldObject.metadata.?labels[?"stage"] == optional.of("") && '
        '(oldObject.metadata.?labels[?"tier"].hasValue() && '
        'oldObject.metadata.?labels[?"tier"].value() in ["gold", "silver"]) && '
        '!(oldObject.metadata.?labels[?"frozen"].hasValue() && '
        'oldObject.metadata.?labels[?"frozen"].value() in ["yes"]) && '
        'oldObject.metadata.?labels[?"owner"].hasValue() && '
        '!oldObject.metadata.?labels[?"old"].hasValue())'
    )
    expression = conditions(found["pods.validate.floorkeeper.io"])["gpu-or-queue"]
    assert 'resource in ["example.com/npu"] ||' in expression
    assert 'resource.startsWith("example.com/tile-")' in expression
    assert "nvidia.com" not in expression


def test_a_selector_for_every_namespace() -> None:
    found = entries(Policy(LabelSelector()))
    assert found.pop(EVERYWHERE) == entries(Policy())[EVERYWHERE]
    for hook in found.values():
        assert hook["namespaceSelector"] == {"matchExpressions": [SYSTEM]}
    # What was managed all along cannot become managed.
    condition = conditions(found["namespaces.validate.floorkeeper.io"])["becomes-managed"]
    assert condition == 'request.operation != "UPDATE" || !(true)'


@pytest.mark.parametrize(
    ("resources", "covers"),
    [((), "(false)"), (("x/y",), '(resource in ["x/y"])'), (("x/*",), '(resource.startsWith("x/"))')],
)
def test_accelerators_of_one_sort_only(resources: tuple[str, ...], covers: str) -> None:
    policy = replace(Policy(), accelerators=accelerators(resources, {}))
    lines = conditions(entries(policy)["pods.mutate.floorkeeper.io"])["gpu-or-queue"].splitlines()
    (at,) = (index for index, line in enumerate(lines) if "named.exists(resource," in line)
    assert lines[at + 1].strip() == f'{covers} && named[resource] != "0" && named[resource] != 0)) ||'


def test_values_of_the_policy_stay_values() -> None:
    policy = replace(Policy(), accelerators=accelerators(('a"] || true || ["\\',), {}))
    expression = conditions(entries(policy)["pods.mutate.floorkeeper.io"])["gpu-or-queue"]
    assert r'resource in ["a\"] || true || [\"\\"]' in expression


def test_a_row_of_the_policy_needs_no_code() -> None:
    text = """
        apiVersion: floorkeeper.io/v1alpha1
        kind: Policy
        kinds:
        - {group: ml.example.com, kind: Run, templates: [spec.template, "spec.roles{*}.template"]}
        - {group: ml.example.com, kind: Sweep, versions: [v1, v2], templates: ["spec.for[*].run"], label: spec.run}
    """
    policy = parse_policy(text, "policy.yaml")
    found = entries(policy)
    hook = found["others.mutate.floorkeeper.io"]
    assert hook["rules"] == [
        rule("ml.example.com", "*", "CREATE UPDATE", "runs"),
        rule("ml.example.com", "v1 v2", "CREATE UPDATE", "sweeps"),
    ]
    pods = (
        "([it.?spec.?template.orValue(dyn(null))] + "
        "(type(it.?spec.?roles.orValue(dyn([]))) == map ? it.?spec.?roles.orValue(dyn([])).map(key, "
        "it.?spec.?roles.orValue(dyn([]))[key].?template.orValue(dyn(null))) : []) + "
        '(type(it.?spec[?"for"].orValue(dyn([]))) == list ? it.?spec[?"for"].orValue(dyn([])).map(entry, '
        "entry.?run.orValue(dyn(null))) : [])).exists(pod,"
    )
    assert pods in conditions(hook)["gpu-or-queue"]
    assert "[it, it.?spec.?run.orValue(dyn(null))].exists(labelled," in conditions(hook)["gpu-or-queue"]
    others = ("others.mutate.floorkeeper.io", "others.validate.floorkeeper.io")
    assert {name: hook["rules"] for name, hook in found.items() if name not in others} == {
        name: hook["rules"] for name, hook in entries(Policy()).items()
    }
    owners = conditions(found["pods.mutate.floorkeeper.io"])["no-workload-owns-it"]
    assert '"ml.example.com/Run", "ml.example.com/Sweep"' in owners


def test_conditions_of_floors_and_of_deletions() -> None:
    found = entries(Policy())
    assert (
        conditions(found[EVERYWHERE])
        == conditions(found["autoscalers.validate.floorkeeper.io"])
        == {
            "not-being-deleted": "!has(object.metadata.deletionTimestamp)",
            "spec-changes": 'request.operation != "UPDATE" || object.?spec != oldObject.?spec',
        }
    )
    assert conditions(found["queue-deletions.validate.floorkeeper.io"]) == {
        "not-yet-deleted": "!has(oldObject.metadata.deletionTimestamp)",
        "by-no-controller": (
            "!(request.userInfo.username in ["
            '"system:serviceaccount:kube-system:namespace-controller", '
            '"system:serviceaccount:kube-system:generic-garbage-collector", '
            '"system:kube-controller-manager"])'
        ),
    }


def test_what_is_registered_agrees_with_the_policy_or_not() -> None:
    wanted = webhook_configurations(Policy())
    for relaxed in (registered := webhook_configurations(Policy())):
        for hook in relaxed["webhooks"]:
            hook |= {"failurePolicy": "Ignore", "timeoutSeconds": 1}
            hook["clientConfig"]["caBundle"] = "x"
    assert agree(registered, wanted)
    assert agree(registered[:1], wanted), "what is not registered yet will be"
    assert agree([], wanted)
    others = [
        Policy(LabelSelector()),
        replace(Policy(), accelerators=accelerators(("example.com/npu",), {})),
    ]
    for policy in others:
        assert not agree(registered, webhook_configurations(policy))
    del registered[1]["webhooks"][0]
    assert not agree(registered, wanted)
    assert not agree([{"kind": "MutatingWebhookConfiguration", "webhooks": None}], wanted)
    assert not agree([{}], wanted)


Grant = tuple[str, str, str, str]
"""Group, resource, resourceNames and verbs of RBAC."""

HOME = "floorkeeper-system"
LEDGER: set[Grant] = {("", "configmaps", "", "create"), ("", "configmaps", "floorkeeper-reservations", "get update")}
"""The ConfigMap of our namespace by which replicas promise capacity; RBAC cannot limit create to a name."""

EVENTS: set[Grant] = {("events.k8s.io", "events", "", "create get")}
CERTIFICATE: set[Grant] = {("", "secrets", "", "create"), ("", "secrets", "floorkeeper-tls", "get update")}
"""The one Secret that is ours, where we make our certificates ourselves."""

WEBHOOKS: set[Grant] = {
    ("admissionregistration.k8s.io", resource, "floorkeeper", "get update watch")
    for resource in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
}
"""Whose caBundle is ours then."""


def test_the_account_has_no_right_that_it_does_not_need() -> None:
    """What the rules need is watched, and what is watched is granted."""
    needed = {
        (row.group, row.resource, row.object_name, " ".join(sorted(row.verbs)))
        for row in (ACCESS[kind] for kind in NEEDS)
    }
    account, *rest = yaml.safe_load_all((BASE / "rbac.yaml").read_text())
    assert (account["metadata"]["namespace"], account["metadata"]["name"]) == (HOME, "floorkeeper")
    assert roles_bound(rest) == {
        ("ClusterRole", "floorkeeper", None): needed,
        ("Role", "floorkeeper", HOME): LEDGER,
        ("Role", "floorkeeper-events", "default"): EVENTS,
    }


def test_the_account_has_more_rights_only_where_it_makes_certificates() -> None:
    objects = list(yaml.safe_load_all((BASE.parent / "overlays" / "self-signed" / "rbac.yaml").read_text()))
    assert roles_bound(objects) == {
        ("Role", "floorkeeper-certificate", HOME): CERTIFICATE,
        ("ClusterRole", "floorkeeper-webhooks", None): WEBHOOKS,
    }


REPORTS: set[Grant] = {
    ("wgpolicyk8s.io", "clusterpolicyreports", "floorkeeper", "create list patch"),
    ("wgpolicyk8s.io", "policyreports", "floorkeeper", "create delete list patch"),
}


def test_the_account_has_more_rights_only_where_it_audits() -> None:
    """What an audit lists, and what is not watched."""
    _, role, *_ = yaml.safe_load_all((BASE / "rbac.yaml").read_text())
    watched = {(group, resource) for group, resource, *_ in granted(role)}
    listed = {(each.group, each.plural) for each in wanted_kinds(Policy())}
    listed |= {(MUTATING.group, MUTATING.plural), (VALIDATING.group, VALIDATING.plural)}
    listed.add(("kueue.x-k8s.io", "workloads"))
    objects = list(yaml.safe_load_all((BASE.parent / "components" / "audit" / "rbac.yaml").read_text()))
    assert roles_bound(objects) == {
        ("ClusterRole", "floorkeeper-audit", None): {(*each, "", "list") for each in listed - watched}
        | {("coordination.k8s.io", "leases", KUEUE_LEASE, "list")}
        | REPORTS,
        ("Role", "floorkeeper-audit", HOME): {("", "secrets", "floorkeeper-tls", "get")},
    }


def roles_bound(objects: list[Object]) -> dict[tuple[str, str, str | None], set[Grant]]:
    """What each role grants. After each comes its binding, to our account alone."""
    roles, bindings = objects[::2], objects[1::2]
    for role, binding in zip(roles, bindings, strict=True):
        assert binding["kind"] == f"{role['kind']}Binding"
        assert binding["metadata"] == role["metadata"]
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role["kind"],
            "name": role["metadata"]["name"],
        }
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "floorkeeper", "namespace": HOME}]
    return {
        (role["kind"], role["metadata"]["name"], role["metadata"].get("namespace")): granted(role) for role in roles
    }


def granted(role: Object) -> set[Grant]:
    """What a role grants, each thing once."""
    assert {key for rule in role["rules"] for key in rule} <= {"apiGroups", "resources", "resourceNames", "verbs"}
    found = [
        (group, resource, name, " ".join(rule["verbs"]))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    ]
    assert len(found) == len(set(found))
    return set(found)


def test_the_service_is_where_the_webhooks_look() -> None:
    service = yaml.safe_load((BASE / "service.yaml").read_text())
    (port,) = service["spec"]["ports"]
    namespace = yaml.safe_load((BASE / "namespace.yaml").read_text())
    assert namespace["metadata"]["name"] == service["metadata"]["namespace"]
    for hook in entries(Policy()).values():
        where = hook["clientConfig"]["service"]
        assert (where["name"], where["namespace"], where["port"]) == (
            service["metadata"]["name"],
            service["metadata"]["namespace"],
            port["port"],
        )


def rendered(*words: str) -> Result:
    return CliRunner().invoke(cli, ["render", *words])


def test_render_command(tmp_path: Path) -> None:
    shipped = rendered()
    assert shipped.stdout == (BASE / "webhooks.yaml").read_text()
    assert shipped.stderr == (
        "floorkeeper: no caBundle: the API server will refuse the server's certificate, and with it every write that "
        "should be judged; pass --ca-file\n"
    )
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"
        "managedNamespaces: {matchLabels: {team: a}}\naccelerators: {resources: [example.com/npu]}\n"
    )
    own = rendered("--policy", str(policy))
    assert own.exit_code == 0
    assert "team: a\n" in own.stdout
    assert 'resource in ["example.com/npu"]' in own.stdout
    policy.write_text("kind: Other\n")
    broken = rendered("--policy", str(policy))
    assert broken.exit_code != 0
    assert broken.stdout == ""


def test_render_with_a_certificate(tmp_path: Path) -> None:
    pairs = [self_signed_pair("localhost") for _ in range(2)]
    both = b"".join(pair.certificate for pair in pairs)
    path = tmp_path / "ca.crt"
    # With what people leave in such files: comments, and the key, which must not be published.
    path.write_bytes(b"# ours\r\n" + pairs[0].certificate + pairs[0].key + pairs[1].certificate)
    result = rendered("--ca-file", str(path))
    assert (result.exit_code, result.stderr) == (0, "")
    configurations = list(yaml.safe_load_all(result.stdout))
    bundles = [hook["clientConfig"].pop("caBundle") for value in configurations for hook in value["webhooks"]]
    assert bundles == [base64.b64encode(both).decode()] * len(TABLE)
    assert configurations == webhook_configurations(Policy())
    # Nothing that is shared was changed on the way.
    assert render_webhooks(Policy()) == (BASE / "webhooks.yaml").read_text()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "holds no certificate in PEM; give the file of serve --tls-cert, or of the CA that signed it"),
        (
            self_signed_pair("localhost").key,
            "holds no certificate in PEM; give the file of serve --tls-cert, or of the CA that signed it",
        ),
        (
            b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            "holds a certificate that cannot be read; give the file of serve --tls-cert, or of the CA that signed it",
        ),
        (
            b"#" * (10 * 1024 + 1),
            "is larger than 10,240 bytes; give only the certificates that Floorkeeper's is signed by",
        ),
    ],
    ids=["empty", "key", "broken", "large"],
)
def test_no_certificate_to_render(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(content)
    with pytest.raises(CaError) as caught:
        read_ca_bundle(path)
    assert str(caught.value) == f"{path}: {expected}"
    assert rendered("--ca-file", str(path)).stdout == ""
