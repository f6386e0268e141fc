"""floorkeeper render PATH: manifests with a policy in them. Without PATH it is tested in test_scope.py."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from webhook.commands import cli, run
from webhook.engine.policy import Policy
from webhook.policy import parse_policy
from webhook.render import ManifestError, placeholders, policy_in, render_manifests
from webhook.scope import webhook_configurations
from webhook.server.authority import self_signed_pair

Object = dict[str, Any]
OWN = """\
# Ours.\r
apiVersion: floorkeeper.io/v1alpha1
kind: Policy
managedNamespaces: {matchLabels: {team: a}}   # of the platform team
accelerators: {resources: [example.com/npu]}
"""
OTHER: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "other", "annotations": {"commit": "1e3", "octal": "0o17", "answer": "y", "on": "on"}},
    "data": {"script": "#!/bin/sh\necho ' a' \n", "empty": "", "one": "1", "tab": "\tx\n", "end": "x\n\n"},
}


def config_map(text: str = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n") -> Object:
    metadata = {"name": "floorkeeper-policy", "namespace": "floorkeeper-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text, "more": "x"}}


def installation(text: str = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n") -> list[Object]:
    return [OTHER, *webhook_configurations(Policy()), config_map(text)]


def written(path: Path, objects: list[Object]) -> str:
    path.write_text("\n---\n".join(map(json.dumps, objects)))
    return str(path)


def rendered(*words: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(cli, ["render", *words], input=stdin)


def refused(*words: str) -> str:
    """What is said, as a whole command says it."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = run(["render", *words])
    assert (code, output.getvalue()) == (2, "")
    return errors.getvalue()


def objects_of(result: Result) -> list[Object]:
    assert (result.exit_code, result.stderr) == (0, ""), result
    return list(yaml.safe_load_all(result.stdout))


def test_the_policy_reaches_the_scope_and_the_config_map(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_bytes(OWN.encode())
    manifests = written(tmp_path / "all.yaml", installation())
    result = rendered("--policy", str(tmp_path / "policy.yaml"), manifests)
    policy = parse_policy(OWN, "")
    assert objects_of(result) == [OTHER, *webhook_configurations(policy), config_map(OWN)]
    assert result.stdout.startswith(
        "# Made from manifests and a policy: floorkeeper render [--policy FILE] PATH...\n---\n"
    )
    # Ready to be committed, and rendered again: nothing changes.
    again = rendered("-", stdin=result.stdout_bytes)
    assert again.stdout == result.stdout


def test_without_a_policy_it_is_the_manifests_own(tmp_path: Path) -> None:
    """So that a kustomization may bring another policy, and no second file."""
    result = rendered(written(tmp_path / "all.yaml", installation(OWN)))
    assert objects_of(result) == [OTHER, *webhook_configurations(parse_policy(OWN, "")), config_map(OWN)]


def test_files_of_a_folder_are_read(tmp_path: Path) -> None:
    for number, value in enumerate(installation(OWN)):
        written(tmp_path / f"{number}.yaml", [value])
    assert objects_of(rendered(str(tmp_path))) == objects_of(rendered(written(tmp_path / "all", installation(OWN))))


def test_what_an_overlay_changed_of_the_webhooks_stays() -> None:
    mutating, validating = webhook_configurations(Policy())
    mutating["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "floorkeeper-system/floorkeeper-tls"}
    workloads, pods, *_ = mutating["webhooks"]
    pods["failurePolicy"], pods["timeoutSeconds"] = "Ignore", 3
    pods["clientConfig"]["service"]["namespace"] = "elsewhere"
    # What follows from the policy does not.
    pods["namespaceSelector"], pods["rules"], pods["matchConditions"] = {}, [], []
    validating["webhooks"] = [{"name": "not-ours.example.com"}, *validating["webhooks"][2:]]
    policy = parse_policy(OWN, "")
    expected = webhook_configurations(policy)
    expected[0]["metadata"] = mutating["metadata"]
    expected[0]["webhooks"][1] |= {"failurePolicy": "Ignore", "timeoutSeconds": 3, "clientConfig": pods["clientConfig"]}
    text = render_manifests([mutating, validating, config_map()], policy, OWN)
    assert list(yaml.safe_load_all(text)) == [*expected, config_map(OWN)]
    assert workloads == webhook_configurations(Policy())[0]["webhooks"][0]


def test_with_a_certificate(tmp_path: Path) -> None:
    certificate = self_signed_pair("localhost").certificate
    (tmp_path / "ca.crt").write_bytes(certificate)
    result = rendered("--ca-file", str(tmp_path / "ca.crt"), written(tmp_path / "all.yaml", installation()))
    found = [hook["clientConfig"].pop("caBundle") for value in objects_of(result) for hook in value.get("webhooks", [])]
    assert found == [base64.b64encode(certificate).decode()] * len(found)
    assert len(found) == sum(len(value["webhooks"]) for value in webhook_configurations(Policy()))


def test_texts_that_other_readers_take_for_something_else_are_quoted() -> None:
    """kubectl reads YAML another way than PyYAML does."""
    values = [
        "1e3",
        "1E3",
        "0o17",
        "1_000",
        "+.5",
        "-1",
        "y",
        "N",
        "12:30",
        ".5e1",
        "0x1F",
        "true",
        "null",
        "~",
        "",
        "2026-01-01",
    ]
    text = render_manifests(
        [{"apiVersion": "v1", "kind": "X", "metadata": {}, "args": values}, *installation()], Policy(), ""
    )
    lines = text.partition("args:\n")[2].splitlines()[: len(values)]
    assert [line for line in lines if not line.startswith("- '")] == []
    assert next(yaml.safe_load_all(text))["args"] == values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\x85b", r'"a\Nb"'),
        ("a\n\x85b\n", r'"a\n\Nb\n"'),
        ("a\u2028b", r'"a\Lb"'),
        ("a\nb\u2029\n", r'"a\nb\P\n"'),
        ("a\r\nb\n", r'"a\r\nb\n"'),
        ("a\rb", r'"a\rb"'),
        ("a\n\x7fb", r'"a\n\x7Fb"'),
        ("a\n\x80b", r'"a\n\x80b"'),
        ("\ufeffa\n", r'"\uFEFFa\n"'),
        ("a \nb\n", r'"a \nb\n"'),
        ("a\n ", r'"a\n "'),
        ("\na\n", r'"\na\n"'),
        ("\n", r'"\n"'),
    ],
)
def test_texts_that_other_readers_break_elsewhere_are_in_double_quotes(value: str, expected: str) -> None:
    config_map = {**OTHER, "data": {"key": value}}
    text = render_manifests([config_map, *installation()], Policy(), "")
    assert f"  key: {expected}\n" in text
    assert next(yaml.safe_load_all(text)) == config_map


MISSING = {
    "ConfigMap": "the manifests have no ConfigMap floorkeeper-policy",
    "MutatingWebhookConfiguration": "the manifests have no MutatingWebhookConfiguration floorkeeper",
    "ValidatingWebhookConfiguration": "the manifests have no ValidatingWebhookConfiguration floorkeeper",
}


@pytest.mark.parametrize("kind", MISSING)
def test_manifests_that_lack_something(tmp_path: Path, kind: str) -> None:
    objects = [value for value in installation()[1:] if value["kind"] != kind]
    what = "give those of a whole installation, such as the folder manifests/overlays/self-signed"
    assert refused(written(tmp_path / "all.yaml", objects)) == f"floorkeeper: {MISSING[kind]}; {what}\n"


def test_manifests_with_too_much_or_too_little() -> None:
    with pytest.raises(
        ManifestError, match=r"^the manifests have the ConfigMap floorkeeper-policy twice; give each once$"
    ):
        policy_in([config_map(), config_map()])
    empty = {**config_map(), "data": None}
    with pytest.raises(
        ManifestError, match=r"^ConfigMap floorkeeper-policy: data\[policy.yaml\] is missing; put the policy"
    ):
        policy_in([empty])
    with pytest.raises(ManifestError, match=r"^ConfigMap floorkeeper-policy: data\[policy.yaml\] is missing"):
        render_manifests([empty], Policy(), OWN)


def test_a_policy_that_is_broken(tmp_path: Path) -> None:
    broken = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\ninject: never\n"
    what = "3: inject: must be onRollout or always, is 'never'; write one of these\n"
    inside = refused(written(tmp_path / "all.yaml", installation(broken)))
    assert inside == f"floorkeeper: ConfigMap floorkeeper-policy, policy.yaml:{what}"
    policy = tmp_path / "policy.yaml"
    policy.write_text(broken)
    beside = refused("--policy", str(policy), written(tmp_path / "all.yaml", installation()))
    assert beside == f"floorkeeper: {policy}:{what}"


def test_manifests_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 1}\n---\nkind: X\n")
    assert refused(str(file), str(tmp_path / "none")).splitlines() == [
        f"floorkeeper: {file}:3:12: metadata.name must be a string, is the number 1; quote it",
        f"{file}:5:1: apiVersion is missing; every object needs apiVersion, kind and metadata.name",
        f"{tmp_path}/none: is not there, or may not be read; check the path",
    ]


def test_placeholders_are_told() -> None:
    images = ["ghcr.io/YOUR-ORG/floorkeeper:0.1.0", f"registry.example.com/floorkeeper@sha256:{'0' * 64}"]
    objects = [
        {"spec": {"containers": [{"image": image}, {"image": "registry.example.com/floorkeeper:0.1.0"}]}}
        for image in images
    ]
    what = "stands for yours; give name and tag, or digest, in images: of the kustomization"
    assert placeholders(objects) == [f"image {image} {what}" for image in images]


DEFAULT = {"matchLabels": {"floorkeeper.io/managed": "true"}}
OPENSHIFT = {"matchLabels": {"kueue.openshift.io/managed": "true"}}
CUSTOM = {"matchLabels": {"team": "a"}}
REQUIREMENTS = [{"key": "env", "operator": "NotIn", "values": ["b", "a"]}, {"key": "gpus", "operator": "Exists"}]
OF_DEFAULT, OF_OPENSHIFT = (
    "namespaces with floorkeeper.io/managed=true",
    "namespaces with kueue.openshift.io/managed=true",
)
SILENT = "apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n"


def selecting(selector: object) -> str:
    return f"{SILENT}managedNamespaces: {json.dumps(selector)}\n"


@pytest.mark.parametrize(
    ("overlay", "policy", "told"),
    [
        (OPENSHIFT, SILENT, (OF_DEFAULT, OF_OPENSHIFT)),
        (OPENSHIFT, selecting(DEFAULT), (OF_DEFAULT, OF_OPENSHIFT)),
        (OPENSHIFT, selecting(CUSTOM), ("namespaces with team=a", OF_OPENSHIFT)),
        (OPENSHIFT, selecting({}), ("every namespace", OF_OPENSHIFT)),
        ({}, SILENT, (OF_DEFAULT, "every namespace")),
        ({"matchExpressions": REQUIREMENTS}, SILENT, (OF_DEFAULT, "namespaces with env notin (a,b),gpus")),
        # They agree.
        (DEFAULT, SILENT, None),
        (OPENSHIFT, selecting(OPENSHIFT), None),
        ({"matchExpressions": REQUIREMENTS}, selecting({"matchExpressions": REQUIREMENTS[::-1]}), None),
        ({}, selecting({}), None),
        # An admin has chosen another label than the default.
        (DEFAULT, selecting(CUSTOM), None),
    ],
)
def test_other_namespaces_than_those_of_an_overlay_are_told(
    tmp_path: Path, overlay: object, policy: str, told: tuple[str, str] | None
) -> None:
    configurations = webhook_configurations(parse_policy(selecting(overlay), ""))
    inside = written(tmp_path / "inside.yaml", [*configurations, config_map(policy)])
    beside = written(tmp_path / "beside.yaml", [*configurations, config_map(selecting(overlay))])
    (tmp_path / "policy.yaml").write_text(policy)
    for words, where in (
        ([inside], "ConfigMap floorkeeper-policy"),
        (["--policy", str(tmp_path / "policy.yaml"), beside], str(tmp_path / "policy.yaml")),
    ):
        result = rendered(*words)
        assert result.exit_code == 0
        # A note is no error: this is what the policy wants.
        expected = webhook_configurations(parse_policy(policy, ""))
        assert list(yaml.safe_load_all(result.stdout)) == [*expected, config_map(policy)]
        note = told and (
            f"floorkeeper: {where} selects {told[0]}, but the webhook configurations among the manifests selected "
            f"{told[1]}; what is printed selects as the policy does: if you mean the others, set managedNamespaces "
            "there\n"
        )
        assert result.stderr == (note or "")
