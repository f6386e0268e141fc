"""What `floorkeeper audit` says of our webhook configurations, and of the certificates that they go by."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.live.audit_world import (
    AUTHORITY,
    HOST,
    NOW,
    SOUND,
    Authority,
    Object,
    audited,
    but,
    cluster,
    look,
    missed,
    registered,
    said,
    told,
)

RENDER = "floorkeeper render prints it as the policy wants it"


@pytest.mark.parametrize(("kind", "does"), [("Mutating", "mended"), ("Validating", "denied")])
def test_webhooks_that_are_not_registered(tmp_path: Path, kind: str, does: str) -> None:
    assert told(tmp_path, *but(without=[f"{kind}WebhookConfiguration floorkeeper"])) == [
        f'deny: {kind}WebhookConfiguration "floorkeeper": webhooks: must be registered, is absent; fix: install '
        "Floorkeeper, and apply this last, once its server runs: without that, each write that it would be asked about "
        f"is refused; until then nothing is {does} [setup/webhook-absent]"
    ]


ANEW = f"apply it anew: {RENDER} [setup/webhook-differs]"
BACK = f"set it back, unless that is what you want: {RENDER} [setup/webhook-differs]"
HERE, THERE = 'MutatingWebhookConfiguration "floorkeeper": ', 'ValidatingWebhookConfiguration "floorkeeper": '


def test_webhooks_that_differ_from_the_shipped_ones(tmp_path: Path) -> None:
    mutating, validating = registered()
    first, second = mutating["webhooks"][:2]
    first["failurePolicy"] = "Ignore"
    first["clientConfig"]["service"]["port"] = 443
    second["matchConditions"] = []
    gone = validating["webhooks"].pop()
    extra = {**first, "name": "old.mutate.floorkeeper.io"}
    mutating["webhooks"].append(extra)
    last = len(mutating["webhooks"]) - 1
    assert told(tmp_path, *but(mutating, validating)) == [
        f"deny: {HERE}webhooks[{last}]: must be one of ours, is old.mutate.floorkeeper.io; fix: take it out: this "
        f"version does not know it; {RENDER} [setup/webhook-differs]",
        f"deny: {THERE}webhooks: must hold {gone['name']}, is without it; fix: {ANEW}",
        f"warn: {HERE}webhooks[0].clientConfig: must be service=name=floorkeeper namespace=floorkeeper-system "
        "path=/mutate port=8443, as shipped, is service=name=floorkeeper namespace=floorkeeper-system path=/mutate "
        f"port=443, of {first['name']}; fix: {BACK}",
        f"warn: {HERE}webhooks[0].failurePolicy: must be Fail, as shipped, is Ignore, of {first['name']}; fix: {BACK}",
        f"warn: {HERE}webhooks[1].matchConditions: must follow from the policy, is one that asks about more, of "
        f"{second['name']}; fix: {BACK}",
    ]


def set_service(webhook: Any, **fields: str) -> None:
    webhook["clientConfig"]["service"].update(fields)


NEVER = {"matchLabels": {"never": "so"}}
SHIPPED = (
    "must be service=name=floorkeeper namespace=floorkeeper-system path=/mutate port=8443, as shipped, is service="
)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (
            lambda webhook: webhook.update(objectSelector=NEVER),
            "objectSelector",
            "must be empty, as shipped, is matchLabels=never=so",
        ),
        (
            lambda webhook: webhook.update(namespaceSelector=NEVER),
            "namespaceSelector",
            "must follow from the policy, is one that asks about less",
        ),
        (
            lambda webhook: webhook.update(rules=webhook["rules"][1:]),
            "rules",
            "must follow from the policy, is one that asks about less",
        ),
        (
            lambda webhook: webhook["matchConditions"].append({"name": "never", "expression": "false"}),
            "matchConditions",
            "must follow from the policy, is one that asks about less",
        ),
        (
            lambda webhook: webhook.update(matchPolicy="Exact"),
            "matchPolicy",
            "must be Equivalent, as shipped, is Exact",
        ),
        (
            lambda webhook: set_service(webhook, name="elsewhere"),
            "clientConfig",
            f"{SHIPPED}name=elsewhere namespace=floorkeeper-system path=/mutate port=8443",
        ),
        (
            lambda webhook: set_service(webhook, path="/no"),
            "clientConfig",
            f"{SHIPPED}name=floorkeeper namespace=floorkeeper-system path=/no port=8443",
        ),
    ],
    ids=["objects", "namespaces", "rules", "conditions", "versions", "another Service", "another path"],
)
def test_webhooks_that_are_asked_about_less(
    tmp_path: Path, change: Callable[[Any], None], field: str, words: str
) -> None:
    """It is told once, with how many webhooks it is of."""
    mutating, validating = registered()
    for webhook in mutating["webhooks"]:
        change(webhook)
    found = [line for line in told(tmp_path, *but(mutating, validating)) if "webhook-differs" in line]
    name, more = mutating["webhooks"][0]["name"], len(mutating["webhooks"]) - 1
    assert found == [f"deny: {HERE}webhooks[0].{field}: {words}, of {name}, and of {more} more webhooks; fix: {ANEW}"]


@pytest.mark.parametrize(
    ("url", "severity"), [("https://10.0.0.7:8443/mutate?timeout=5s", "warn"), ("https://10.0.0.7:8443/", "deny")]
)
def test_webhooks_that_are_called_by_a_url(tmp_path: Path, url: str, severity: str) -> None:
    mutating, validating = registered()
    for webhook in mutating["webhooks"]:
        webhook["clientConfig"] = {"url": url, "caBundle": AUTHORITY.bundle}
    assert said(audited(tmp_path, *but(mutating, validating))) == [
        f"{severity} setup/webhook-differs MutatingWebhookConfiguration floorkeeper"
    ]


@pytest.mark.parametrize("field", ["namespaceSelector", "timeoutSeconds", "reinvocationPolicy"])
def test_webhooks_that_are_asked_about_more_or_otherwise(tmp_path: Path, field: str) -> None:
    mutating, validating = registered()
    wider = {"namespaceSelector": {}, "timeoutSeconds": 30, "reinvocationPolicy": "IfNeeded"}
    for webhook in mutating["webhooks"]:
        webhook[field] = wider[field]
    (line,) = told(tmp_path, *but(mutating, validating))
    assert line.startswith(f"warn: {HERE}webhooks[0].{field}: ")


def kueues(name: str, policy: str, group: str = "apps") -> Object:
    webhook = {"name": "mdeployment.kb.io", "rules": [{"apiGroups": [group]}], "reinvocationPolicy": policy}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


def test_webhooks_that_are_called_after_kueues(tmp_path: Path) -> None:
    assert told(tmp_path, *but(kueues("a-queueing", "Never"), kueues("kueue-mutating", "Never"))) == [
        'deny: MutatingWebhookConfiguration "floorkeeper": metadata.name: must sort before a-queueing, whose webhooks '
        "are called once, is floorkeeper; fix: register it by a name that does, such as floorkeeper, or set "
        "reinvocationPolicy to IfNeeded there [setup/webhook-order]"
    ]


@pytest.mark.parametrize(
    "other",
    [
        kueues("a-queueing", "IfNeeded"),
        kueues("kueue-mutating", "Never"),
        kueues("a-kueue", "Never", group="kueue.x-k8s.io"),
        {**kueues("a-mesh", "Never"), "webhooks": [{"name": "inject.mesh.io", "rules": [{"apiGroups": [""]}]}]},
    ],
    ids=["called again", "called after", "about quota alone", "not Kueue's"],
)
def test_webhooks_that_are_called_in_time(tmp_path: Path, other: Object) -> None:
    assert told(tmp_path, *but(other)) == []


def test_webhooks_that_may_not_be_read(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        api.forbidden.add(("list", "mutatingwebhookconfigurations"))
        found = look(api, tmp_path)
    name = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
    assert missed(found) == [
        f"setup/{check}: not allowed to list {name}; ask for that right"
        for check in ("ca-bundle", "webhook-absent", "webhook-differs", "webhook-order")
    ]


def test_one_list_of_webhooks_that_may_not_be_read_hides_nothing_of_the_other(tmp_path: Path) -> None:
    mutating, validating = registered()
    validating["webhooks"][0]["clientConfig"]["caBundle"] = ""
    validating["webhooks"].pop()
    with cluster(*but(mutating, validating)) as api:
        api.forbidden.add(("list", "mutatingwebhookconfigurations"))
        found = look(api, tmp_path)
    assert said(found) == [
        f"deny setup/{check} ValidatingWebhookConfiguration floorkeeper" for check in ("ca-bundle", "webhook-differs")
    ]
    assert {"setup/ca-bundle", "setup/webhook-absent", "setup/webhook-differs"} <= {
        entry.what for entry in found.not_evaluated
    }
    with cluster(*but(without=("ValidatingWebhookConfiguration floorkeeper",))) as api:
        api.forbidden.add(("list", "mutatingwebhookconfigurations"))
        found = look(api, tmp_path)
    assert said(found) == ["deny setup/webhook-absent ValidatingWebhookConfiguration floorkeeper"]


def test_what_is_wrong_with_one_kind_where_the_other_may_not_be_read(tmp_path: Path) -> None:
    mutating, _ = registered(Authority().bundle)
    mutating["webhooks"][0]["objectSelector"] = NEVER
    with cluster(*but(mutating, without=["ValidatingWebhookConfiguration floorkeeper"])) as api:
        api.forbidden.add(("list", "validatingwebhookconfigurations"))
        found = look(api, tmp_path)
    checks = ("ca-bundle", "webhook-differs")
    assert said(found) == [f"deny setup/{check} MutatingWebhookConfiguration floorkeeper" for check in checks]
    assert [line.partition(":")[0] for line in missed(found)] == [
        f"setup/{check}" for check in ("ca-bundle", "webhook-absent", "webhook-differs")
    ]
    with cluster(*but(without=["MutatingWebhookConfiguration floorkeeper"])) as api:
        api.forbidden.add(("list", "validatingwebhookconfigurations"))
        found = look(api, tmp_path)
    assert said(found) == ["deny setup/webhook-absent MutatingWebhookConfiguration floorkeeper"]


# Certificates


def bundle(text: bytes) -> str:
    return base64.b64encode(text).decode()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "empty"),
        (bundle(b"nothing"), "unreadable: not base64 of certificates in PEM"),
        ("%%%", "unreadable: not base64 of certificates in PEM"),
        (Authority(NOW - timedelta(days=1)).bundle, "expired, on 2026-11-29"),
        (Authority(NOW + timedelta(days=500)).bundle, "not valid yet, but from 2027-03-10 on"),
        (Authority().bundle, "foreign: it did not sign tls.crt in Secret floorkeeper-system/floorkeeper-tls"),
    ],
    ids=["empty", "no PEM", "no base64", "expired", "of the future", "foreign"],
)
def test_a_ca_bundle_that_the_server_is_not_trusted_by(tmp_path: Path, text: str, wrong: str) -> None:
    mutating, validating = registered()
    for webhook in mutating["webhooks"]:
        webhook["clientConfig"]["caBundle"] = text
    more = len(mutating["webhooks"]) - 1
    assert told(tmp_path, *but(mutating, validating)) == [
        'deny: MutatingWebhookConfiguration "floorkeeper": webhooks[0].clientConfig.caBundle: must be what the '
        f"server's certificate is signed by, is {wrong}, and so are those of {more} more webhooks; fix: put the CA of "
        "the server's certificate there: with --tls-secret, or cert-manager, it is kept so [setup/ca-bundle]"
    ]


def test_a_ca_bundle_among_whose_certificates_is_the_right_one(tmp_path: Path) -> None:
    several = bundle(Authority().pem + Authority(NOW - timedelta(days=1)).pem + AUTHORITY.pem)
    assert told(tmp_path, *but(*registered(several))) == []


def test_a_ca_bundle_of_the_certificate_itself_or_of_its_issuer_alone(tmp_path: Path) -> None:
    assert told(tmp_path, *but(*registered(bundle(AUTHORITY.leaf)))) == []
    assert told(tmp_path, *but(AUTHORITY.secret(authorities=b""))) == []


def test_a_secret_that_cannot_be_read_or_is_elsewhere(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        api.forbidden.add(("get", "secrets"))
        found = look(api, tmp_path)
    fits = "setup/ca-bundle: whether the caBundle fits the server's certificate: "
    secret = 'secrets "floorkeeper-tls" in namespace floorkeeper-system'
    assert missed(found) == [f"{fits}not allowed to get {secret}; ask for that right"]
    assert (said(found), found.exit_code()) == ([], 3)
    named = but(AUTHORITY.secret("mine"), without=["Secret floorkeeper-tls"])
    assert missed(audited(tmp_path, *named)) == [
        f"{fits}Secret floorkeeper-system/floorkeeper-tls is not there: name the server's with --tls-secret"
    ]
    assert missed(audited(tmp_path, *named, tls_secret="mine")) == []


def test_a_certificate_of_another_ca_beside_the_right_one(tmp_path: Path) -> None:
    """The Secret's ca.crt is what the caBundle is, and signed nothing."""
    found = told(tmp_path, *but(AUTHORITY.secret(leaf=Authority().leaf)))
    assert [line.partition(", and so are those")[0] for line in found] == [
        f"deny: {configuration}webhooks[0].clientConfig.caBundle: must be what the server's certificate is signed by, "
        "is foreign: it did not sign tls.crt in Secret floorkeeper-system/floorkeeper-tls"
        for configuration in (HERE, THERE)
    ]


@pytest.mark.parametrize(
    ("leaf", "wrong"),
    [
        (AUTHORITY.signed(until=NOW - timedelta(days=1)), "expired, on 2026-11-29"),
        (AUTHORITY.signed(until=NOW + timedelta(days=500)), "not valid yet, but from 2027-03-10 on"),
        (AUTHORITY.signed(host="elsewhere.svc"), f"for elsewhere.svc, and not for {HOST}"),
        (AUTHORITY.signed(of_clients=True), "not for servers: its extended key usage lacks serverAuth"),
        (b"nothing", "unreadable: no certificate in PEM"),
    ],
    ids=["expired", "of the future", "of another name", "of a client", "no PEM"],
)
def test_a_certificate_that_cannot_work(tmp_path: Path, leaf: bytes, wrong: str) -> None:
    assert told(tmp_path, *but(AUTHORITY.secret(leaf=leaf))) == [
        'deny: Secret "floorkeeper-tls": data[tls.crt]: must be a certificate that the API server accepts, is '
        f"{wrong}; fix: issue it anew: until then every call fails; with --tls-secret, or cert-manager, it is kept so "
        "[setup/ca-bundle]"
    ]


def test_a_certificate_by_a_star_and_over_a_ca_between(tmp_path: Path) -> None:
    assert told(tmp_path, *but(AUTHORITY.secret(leaf=AUTHORITY.signed(host="*.floorkeeper-system.svc")))) == []
    between = AUTHORITY.below()
    assert told(tmp_path, *but(AUTHORITY.secret(leaf=between.leaf + between.pem))) == []
    ended = AUTHORITY.below(NOW - timedelta(days=1))
    whole = ended.signed(until=NOW + timedelta(days=1)) + ended.pem
    assert said(audited(tmp_path, *but(AUTHORITY.secret(leaf=whole)))) == [
        "deny setup/ca-bundle MutatingWebhookConfiguration floorkeeper",
        "deny setup/ca-bundle ValidatingWebhookConfiguration floorkeeper",
    ]
