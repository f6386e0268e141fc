"""Self-managed certificates: replicas that share one Secret, and keep the caBundle of both webhook configurations.

The API server calls every replica that is ready, once a second, by a caBundle as it was two seconds before.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import logging
import ssl
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from prometheus_client.parser import text_string_to_metric_families

from tests.cases import BASE, snapshot_of
from tests.door import FixedPolicy, StillSource
from tests.handshake import handshake, trusting
from tests.keeper_server import served as served_over_http
from tests.keeper_world import (
    CONFIGURATIONS,
    NAMES,
    NAMESPACE,
    SECRET,
    START,
    Object,
    Replica,
    World,
    encoded,
    path_of,
    served,
)
from tests.serving import serving, until
from webhook.engine.policy import Policy
from webhook.server.authority import Authority, Pair, key_pem, new_authority, pem, signed_pair
from webhook.server.certificates import CertificateState
from webhook.server.keeper import KeeperTiming
from webhook.server.keyring import read_keyring
from webhook.server.managed import ManagedCertificate
from webhook.server.metrics import Metrics
from webhook.server.readiness import Readiness

HOUR = timedelta(hours=1)
SECRET_HEAD = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET.name}, "type": "kubernetes.io/tls"}
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
MUTATING, VALIDATING = CONFIGURATIONS
KEPT = "manifests/overlays/self-signed/rbac.yaml"


@pytest.fixture
def world() -> World:
    """Two replicas that have run for a while."""
    world = World()
    world.apply()
    world.start(2)
    world.run(30)
    assert [replica.state.pending for replica in world.replicas] == ["", ""]
    return world


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the log said since the last time it was asked; and never anything of a key."""
    caplog.set_level(logging.INFO)

    def told() -> list[str]:
        records = list(caplog.records)
        caplog.clear()
        assert "PRIVATE KEY" not in "".join(f"{record.getMessage()} {record.__dict__}" for record in records)
        return [record.getMessage() for record in records if record.getMessage() != "certificate reloaded"]

    return told


def until_begun(world: World) -> None:
    """Runs to where a rotation's new CA is trusted, and has signed nothing."""
    while len(world.keyring().authorities) == 1:
        assert world.now < START + timedelta(minutes=10)
        world.run(1)


def until_signed(world: World) -> None:
    """Runs to where a rotation's new CA has signed, and the old one is still trusted."""
    while True:
        keyring = world.keyring()
        assert keyring.leaf is not None
        if len(keyring.authorities) == 2 and keyring.leaf.issuer == keyring.authorities[0].certificate:
            return
        assert world.now < START + timedelta(minutes=10)
        world.run(1)


def is_whole(world: World) -> bool:
    """One CA, trusted by every webhook, whose certificate every replica serves."""
    (authority,) = world.keyring().authorities
    leaf = world.keyring().leaf
    assert authority.key is not None
    assert leaf is not None
    assert leaf.issuer == authority.certificate
    assert set(world.bundles()) == {(authority.certificate,)}
    assert {served(replica) for replica in world.replicas} == {leaf.certificate}
    assert [(replica.state.error, replica.state.published) for replica in world.replicas] == [("", True)] * len(
        world.replicas
    )
    return True


class TestStart:
    def test_one_replica(self, told: Callable[[], list[str]]) -> None:
        world = World()
        world.apply()
        world.start()
        (replica,) = world.replicas
        assert replica.state.pending == f"the {SECRET} has not been read yet"
        replica.keeper.look()
        assert is_whole(world)
        secret = world.stored(SECRET)
        assert secret is not None
        assert (secret["type"], sorted(secret["data"])) == (
            "kubernetes.io/tls",
            ["ca.crt", "ca.key", "tls.crt", "tls.key"],
        )
        assert replica.state.pending == "not trusted yet by the API server"
        assert told() == ["certificate authority made", "certificate made", "caBundle published", "caBundle published"]
        world.run(10)
        assert (replica.state.pending, told()) == ("", [])

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_three_at_once_end_with_one_authority(self, order: tuple[int, ...], told: Callable[[], list[str]]) -> None:
        """Each has found no Secret when the next one comes before it."""
        world = World()
        world.apply()
        world.start(3)
        waiting = [world.replicas[number] for number in order]

        def overtake(verb: str, plural: str) -> None:
            if verb == "create" and waiting:
                waiting.pop().keeper.look()

        world.api.before = overtake
        waiting.pop().keeper.look()
        assert waiting == []
        assert world.api.asked.count(("create", "secrets")) == 3
        assert is_whole(world)
        assert told().count("certificate authority made") == 1

    def test_overtaken_at_every_request(self) -> None:
        """Whatever one replica does between two requests of another, nothing that it wrote is undone."""
        world = World()
        world.apply()
        world.start(2)
        first, second = world.replicas
        depth = 0

        def overtake(verb: str, plural: str) -> None:
            nonlocal depth
            if not depth:
                depth = 1
                second.keeper.look()
                depth = 0

        world.api.before = overtake
        for _ in range(3):
            first.keeper.look()
        assert is_whole(world)

    @pytest.mark.parametrize("at", range(5))
    def test_a_bundle_is_never_replaced_by_an_older_one(self, world: World, at: int) -> None:
        """One replica is about to restore the bundle, and stops; meanwhile another begins a rotation and publishes."""
        slow = world.replicas[0]
        quick = Replica(world, ahead=timedelta(minutes=9))
        world.apply()
        requests = iter(range(20))

        def overtake(verb: str, plural: str) -> None:
            if next(requests) == at:
                world.api.before = lambda _verb, _plural: None
                quick.keeper.look()
                assert {len(bundle) for bundle in world.bundles()} == {2}

        world.api.before = overtake
        slow.keeper.look()
        assert {len(bundle) for bundle in world.bundles()} == {2}

    def test_without_configurations(self, told: Callable[[], list[str]]) -> None:
        world = World()
        world.start()
        (replica,) = world.replicas
        world.run(20)
        state = replica.state
        assert (state.pending, state.error, state.published) == ("", "", False)
        assert state.note == f"there is no {MUTATING} and no {VALIDATING} yet; its caBundle is written once there is"
        world.apply("", VALIDATING)
        world.run(1)
        assert replica.state.note == f"there is no {MUTATING} yet; its caBundle is written once there is"
        world.apply("", MUTATING)
        world.run(1)
        assert replica.state.note == ""
        assert is_whole(world)

    def test_later_replicas_are_ready_at_once(self, world: World) -> None:
        world.start()
        world.replicas[-1].keeper.look()
        assert world.replicas[-1].state.pending == ""
        assert is_whole(world)

    def test_with_the_secret_of_cert_manager(self, told: Callable[[], list[str]]) -> None:
        """Its pods still serve what its CA signed, by the name of our Secret."""
        theirs = new_authority(START, HOUR)
        world = World()
        pair = signed_pair(Authority(theirs.certificate, theirs.key), NAMES, START, HOUR)
        data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": pem(theirs.certificate)}
        world.api.put(path_of(SECRET), {**SECRET_HEAD, "data": {name: encoded(text) for name, text in data.items()}})
        world.apply(encoded(pem(theirs.certificate)))
        world.start(2)
        seen: list[set[bool]] = []
        for _ in range(30):
            world.run(1)
            seen.append({theirs.certificate in bundle for bundle in world.bundles()})
        assert seen == [{True}] * 30
        world.run(90)
        assert is_whole(world)
        assert world.failed == []
        assert told()[0] == "certificate authority rotation: a new one is to be trusted beside the old one"

    def test_beside_cert_manager_nothing_is_written(self, world: World) -> None:
        """It would undo what we write, and we what it writes, for ever."""
        secret = copy.deepcopy(world.stored(SECRET))
        assert secret is not None
        secret["metadata"]["annotations"] = {"cert-manager.io/certificate-name": "floorkeeper"}
        emptied(secret)
        world.api.put(path_of(SECRET), secret)
        before = len(world.api.asked)
        world.run(30)
        assert {verb for verb, _ in world.api.asked[before:]} == {"get"}
        error = (
            f"the {SECRET} is kept by cert-manager, for its Certificate floorkeeper; delete that and then the Secret, "
            "or serve with --tls-cert and --tls-key"
        )
        assert {(replica.state.error, replica.state.pending) for replica in world.replicas} == {(error, "")}
        del world.api.objects[path_of(SECRET)]
        world.run(120)
        assert is_whole(world)
        assert world.failed == []


def edited(**content: bytes | str | None) -> Callable[[Object], None]:
    """Keys of the Secret's data are replaced, or go: tls_crt is tls.crt."""

    def edit(secret: Object) -> None:
        for name, text in content.items():
            key = name.replace("_", ".")
            secret["data"].pop(key)
            if text is not None:
                secret["data"][key] = text if isinstance(text, str) else encoded(text)

    return edit


def emptied(secret: Object) -> None:
    secret["data"] = {"tls.crt": "", "tls.key": ""}


def without_data(secret: Object) -> None:
    del secret["data"]


def cut(*keys: str) -> Callable[[Object], None]:
    """As a write that broke off would leave it."""

    def edit(secret: Object) -> None:
        for key in keys:
            secret["data"][key] = secret["data"][key][:200]

    return edit


OTHER = new_authority(START - HOUR, 100 * HOUR)
OTHER_PAIR = signed_pair(OTHER, NAMES, START, HOUR)
ELSEWHERE = signed_pair(OTHER, ["elsewhere.example"], START, HOUR)
EXPIRED = new_authority(START - 2 * HOUR, HOUR)
RSA = rsa.generate_private_key(65537, 2048)
assert OTHER.key is not None
OTHER_KEY = key_pem(OTHER.key)

BROKEN: dict[str, Callable[[Object], None]] = {
    "emptied": emptied,
    "without data": without_data,
    "no certificate": edited(tls_crt=None),
    "no key": edited(tls_key=None),
    "no CA": edited(ca_crt=None),
    "no key of the CA": edited(ca_key=None),
    "neither CA nor its key": edited(ca_crt=None, ca_key=None),
    "no pair": edited(tls_crt=None, tls_key=None),
    "garbled certificate": edited(tls_crt=b"\x00\xff not PEM"),
    "garbled key": edited(tls_key=b"\x00\xff not PEM"),
    "garbled CA": edited(ca_crt=b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    "garbled key of the CA": edited(ca_key=b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
    "no base64": edited(tls_crt="*", tls_key="*", ca_crt="*", ca_key="*"),
    "cut off": cut("tls.crt", "tls.key", "ca.crt", "ca.key"),
    "key of another": edited(tls_key=OTHER_PAIR.key),
    "key of another type": edited(tls_key=key_pem(RSA)),
    "certificate of another": edited(tls_crt=OTHER_PAIR.certificate),
    "pair of another CA": edited(tls_crt=OTHER_PAIR.certificate, tls_key=OTHER_PAIR.key),
    "key of another CA": edited(ca_key=OTHER_KEY),
    "another CA": edited(ca_crt=pem(OTHER.certificate)),
    "an expired CA": edited(ca_crt=pem(EXPIRED.certificate)),
    "CA and certificate swapped": edited(ca_crt=OTHER_PAIR.certificate, tls_crt=pem(OTHER.certificate)),
}


SERVER = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
CLIENT = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
K1 = ec.generate_private_key(ec.SECP256K1())
SHORT = rsa.generate_private_key(65537, 1024)
ED25519 = ed25519.Ed25519PrivateKey.generate()


def certified(
    name: str, key: Key, extensions: Sequence[x509.ExtensionType], issuer: Authority | None = None
) -> x509.Certificate:
    """Signed by its own key, if no issuer is given."""
    signer = issuer.key if issuer is not None else key
    assert signer is not None
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(
        issuer.certificate.subject if issuer is not None else subject,
        subject,
        key.public_key(),
        x509.random_serial_number(),
        START - HOUR,
        START + HOUR,
    )
    for each in extensions:
        builder = builder.add_extension(each, critical=not isinstance(each, x509.SubjectAlternativeName))
    return builder.sign(signer, hashes.SHA256())


def authority_of(*extensions: x509.ExtensionType, key: Key | None = None) -> Authority:
    key = key or ec.generate_private_key(ec.SECP256R1())
    return Authority(certified("theirs", key, [x509.BasicConstraints(True, None), *extensions]), key)


def pair_of(
    authority: Authority,
    *extensions: x509.ExtensionType,
    key: Key | None = None,
    before: bytes = b"",
    names: Sequence[str] = NAMES,
) -> Pair:
    key = key or ec.generate_private_key(ec.SECP256R1())
    hosts = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    return Pair(pem(certified("leaf", key, [hosts, *extensions], authority)), before + key_pem(key))


def with_pair(pair: Callable[[Authority], Pair]) -> Callable[[Object], None]:
    """Signed by the CA that the Secret holds."""

    def edit(secret: Object) -> None:
        new = pair(read_keyring(secret["data"], NAMES)[0].authorities[0])
        edited(tls_crt=new.certificate, tls_key=new.key)(secret)

    return edit


def key_usage(*, digital_signature: bool) -> x509.KeyUsage:
    return x509.KeyUsage(digital_signature, False, False, False, False, False, False, False, False)


def holding(authority: Authority) -> Callable[[Object], None]:
    """And a certificate that it signed."""
    assert authority.key is not None
    pair = pair_of(authority, SERVER)
    return edited(
        ca_crt=pem(authority.certificate),
        ca_key=key_pem(authority.key),
        tls_crt=pair.certificate,
        tls_key=pair.key,
    )


SERVES, SIGNS = f"tls.crt cannot be served for {NAMES[0]}: ", f"ca.crt holds a CA that cannot sign for {NAMES[0]}: "
KEYS = "a key that the API server cannot use; make it on P-256, P-384 or P-521, or RSA of 2048 bits or more"

UNUSABLE: dict[str, tuple[Callable[[Object], None], list[str]]] = {
    "certificate of a client": (
        with_pair(lambda authority: pair_of(authority, CLIENT)),
        [f"{SERVES}unsuitable certificate purpose"],
    ),
    "certificate of another name": (
        with_pair(lambda authority: pair_of(authority, names=["elsewhere.example"])),
        [f"{SERVES}Hostname mismatch, certificate is not valid for '{NAMES[0]}'"],
    ),
    "certificate on another curve": (
        with_pair(lambda authority: pair_of(authority, key=K1)),
        [f"{SERVES}it has {KEYS}"],
    ),
    "certificate of a short key": (
        with_pair(lambda authority: pair_of(authority, key=SHORT)),
        [f"{SERVES}[SSL: EE_KEY_TOO_SMALL] ee key too small"],
    ),
    "key behind one of another type": (
        with_pair(lambda authority: pair_of(authority, before=key_pem(ED25519))),
        [f"{SERVES}[SSL"],
    ),
    "CA that may not sign": (
        holding(authority_of(key_usage(digital_signature=True))),
        [f"{SIGNS}invalid CA certificate", f"{SERVES}invalid CA certificate"],
    ),
    "CA of clients": (
        holding(authority_of(CLIENT)),
        [f"{SIGNS}unsuitable certificate purpose", f"{SERVES}unsuitable certificate purpose"],
    ),
    "CA of other names": (
        holding(authority_of(x509.NameConstraints(None, [x509.DNSName("svc")]))),
        [f"{SIGNS}excluded subtree violation", f"{SERVES}excluded subtree violation"],
    ),
    "CA on another curve": (
        holding(authority_of(key=K1)),
        [f"ca.crt holds a CA with {KEYS}", "tls.crt is signed by no CA in ca.crt"],
    ),
    "CA of a short key": (
        holding(authority_of(key=SHORT)),
        [f"{SIGNS}CA certificate key too weak", f"{SERVES}CA certificate key too weak"],
    ),
}
BROKEN |= {kind: edit for kind, (edit, _) in UNUSABLE.items()}


def is_taken(world: World) -> bool:
    """Whether a client that trusts what the webhooks do ends a handshake with each replica."""
    (bundle,) = set(world.bundles())
    client = trusting(*bundle)
    # The API server is less strict. And X509_V_FLAG_NO_CHECK_TIME: OpenSSL knows no clock but the machine's.
    client.verify_flags = client.verify_flags & ~ssl.VERIFY_X509_STRICT | ssl.VerifyFlags(0x200000)
    for replica in world.replicas:
        handshake(replica.context, client, NAMES[0])
    return True


class TestBrokenSecret:
    @pytest.mark.parametrize("kind", BROKEN)
    def test_is_made_anew_and_no_call_fails(self, world: World, kind: str, told: Callable[[], list[str]]) -> None:
        secret = copy.deepcopy(world.stored(SECRET))
        assert secret is not None
        secret["metadata"]["labels"]["team"] = "ours"
        secret.setdefault("data", {})
        BROKEN[kind](secret)
        world.api.put(path_of(SECRET), secret)
        world.run(20)
        assert world.keyring().leaf is not None
        world.run(90)
        assert is_whole(world)
        assert is_taken(world)
        assert world.failed == []
        stored = world.stored(SECRET)
        assert stored is not None
        assert stored["metadata"]["labels"]["team"] == "ours"

    @pytest.mark.parametrize("kind", UNUSABLE)
    def test_found_at_the_start(
        self, kind: str, told: Callable[[], list[str]], caplog: pytest.LogCaptureFixture
    ) -> None:
        """No replica has served anything before, and no webhook trusts anything."""
        edit, wrong = UNUSABLE[kind]
        world = World()
        keys = ("tls.crt", "tls.key", "ca.crt", "ca.key")
        secret: Object = {**SECRET_HEAD, "data": dict.fromkeys(keys, "")}
        holding(authority_of())(secret)
        edit(secret)
        world.api.put(path_of(SECRET), secret)
        world.apply()
        world.start(2)
        world.run(1)
        lines = [record.__dict__["fields"] for record in caplog.records if "wrong" in record.__dict__["fields"]]
        assert len(lines[0]["wrong"]) == len(wrong)
        for found, expected in zip(lines[0]["wrong"], wrong, strict=True):
            assert found.startswith(expected)
        assert is_taken(world)
        world.run(120)
        assert is_whole(world)
        assert is_taken(world)
        assert world.failed == []
        assert told() != []

    def test_what_is_of_no_use_beside_what_is_good_goes(self, world: World, told: Callable[[], list[str]]) -> None:
        """A CA that the API server cannot read would make it refuse the whole caBundle."""
        before = copy.deepcopy(world.stored(SECRET))
        assert before is not None
        secret = copy.deepcopy(before)
        junk = pem(authority_of(key=K1).certificate)
        secret["data"]["ca.crt"] = encoded(junk + b64decode(secret["data"]["ca.crt"]))
        told()
        world.api.put(path_of(SECRET), secret)
        world.run(15)
        after = world.stored(SECRET)
        assert after is not None
        assert after["data"] == before["data"]
        assert told() == ["what could not be used is gone from the Secret"]

    def test_deleted(self, world: World, told: Callable[[], list[str]]) -> None:
        del world.api.objects[path_of(SECRET)]
        world.run(120)
        assert is_whole(world)
        assert world.failed == []

    def test_deleted_and_found_by_a_new_replica_first(self, world: World) -> None:
        del world.api.objects[path_of(SECRET)]
        world.start()
        world.replicas[-1].keeper.look()
        assert world.replicas[-1].state.pending.startswith("not trusted yet by the ")
        world.run(120)
        assert is_whole(world)
        assert world.failed == []

    def test_deleted_while_nobody_may_make_it(self, world: World, told: Callable[[], list[str]]) -> None:
        del world.api.objects[path_of(SECRET)]
        world.api.refused = {("create", "secrets")}
        told()
        world.run(60)
        for replica in world.replicas:
            assert replica.state.error == f"not allowed to create the {SECRET}; grant it as in {KEPT}"
            assert replica.state.pending == ""
        assert (world.failed, told()) == ([], [])
        world.api.refused = set()
        world.run(120)
        assert is_whole(world)
        assert world.failed == []

    def test_replaced_by_a_pair_of_the_admins_own(self, world: World) -> None:
        """With a CA and its key: that CA signs from now on."""
        secret = copy.deepcopy(world.stored(SECRET))
        assert secret is not None
        edited(
            ca_crt=pem(OTHER.certificate),
            ca_key=OTHER_KEY,
            tls_crt=ELSEWHERE.certificate,
            tls_key=ELSEWHERE.key,
        )(secret)
        world.api.put(path_of(SECRET), secret)
        world.run(120)
        assert is_whole(world)
        assert world.keyring().authorities[0].certificate == OTHER.certificate

    def test_what_is_wrong_is_said_without_the_key(self, world: World) -> None:
        secret = copy.deepcopy(world.stored(SECRET))
        assert secret is not None
        for edit, wrong in [
            (edited(tls_key=OTHER_PAIR.key), ["tls.key does not fit tls.crt"]),
            (edited(tls_key=b"x"), ["tls.key holds no key"]),
            (cut("tls.key"), ["tls.key cannot be read"]),
            (edited(tls_crt=b"x"), ["tls.crt holds no certificate"]),
            (cut("tls.crt"), ["tls.crt holds a certificate that cannot be read"]),
            (edited(ca_key=OTHER_KEY), ["ca.key has no key of a CA in ca.crt"]),
            (
                edited(tls_crt=OTHER_PAIR.certificate, tls_key=OTHER_PAIR.key),
                ["tls.crt is signed by no CA in ca.crt"],
            ),
            (
                cut("ca.key"),
                ["ca.key holds a key that cannot be read", "ca.key has no key of a CA in ca.crt"],
            ),
            (
                edited(ca_crt=None),
                ["ca.crt holds no certificate", "tls.crt is signed by no CA in ca.crt"],
            ),
        ]:
            broken = copy.deepcopy(secret)
            edit(broken)
            assert read_keyring(broken["data"], NAMES)[1] == wrong


class TestRenewal:
    def test_of_the_certificate(self, world: World, told: Callable[[], list[str]]) -> None:
        before = world.keyring()
        told()
        world.run(60)
        assert told() == []
        world.run(60)
        after = world.keyring()
        assert before.leaf is not None
        assert after.leaf is not None
        assert [each.certificate for each in after.authorities] == [each.certificate for each in before.authorities]
        assert after.leaf.certificate != before.leaf.certificate
        assert told() == ["certificate renewed"]
        assert is_whole(world)
        assert world.failed == []

    def test_of_the_authority_step_by_step(self, world: World, told: Callable[[], list[str]]) -> None:
        (old,) = world.keyring().authorities
        steps: list[tuple[int, int, bool]] = []
        while world.now < START + timedelta(minutes=10):
            world.run(1)
            keyring, (bundle,) = world.keyring(), set(world.bundles())
            assert keyring.leaf is not None
            assert [each.certificate for each in keyring.authorities] == list(bundle)
            step = (len(bundle), sum(each.key is not None for each in keyring.authorities))
            new = keyring.leaf.issuer != old.certificate
            if not steps or steps[-1] != (*step, new):
                steps.append((*step, new))
        assert steps == [(1, 1, False), (2, 2, False), (2, 1, True), (1, 1, True)]
        assert [message for message in told() if "authority rotation" in message] == [
            "certificate authority rotation: a new one is to be trusted beside the old one",
            "certificate authority rotation: the new one has signed the certificate",
            "certificate authority rotation: the old one is trusted no more",
        ]
        assert is_whole(world)
        assert world.failed == []

    def test_goes_on_for_ever(self) -> None:
        """Through several authorities, with replicas that hear of nothing, that die, and that come."""
        world = World()
        world.apply()
        world.start(3)
        world.deaf = True
        for minute in range(18):
            world.run(60)
            if minute % 3 == 2:
                world.replicas.pop(0)
                world.start()
        assert world.failed == []
        assert len({certificate for bundle in world.bundles() for certificate in bundle}) == 1

    def test_waits_for_every_webhook(self, world: World) -> None:
        """One of the two configurations cannot be written: the old CA signs on."""
        world.api.refused = {("update", VALIDATING.plural)}
        world.run(9 * 60)
        keyring = world.keyring()
        assert keyring.leaf is not None
        assert len(keyring.authorities) == 2
        assert keyring.leaf.issuer == keyring.authorities[1].certificate
        assert keyring.leaf.certificate.not_valid_after_utc > world.now + timedelta(minutes=1)
        error = f"not allowed to update the {VALIDATING}; grant it as in {KEPT}"
        assert {replica.state.error for replica in world.replicas} == {error}
        assert world.failed == []
        world.api.refused = set()
        world.run(120)
        assert is_whole(world)
        assert world.failed == []

    def test_a_replica_that_is_out_of_touch_for_a_while(self, world: World) -> None:
        """It goes on with what the old CA has signed, and that is still trusted."""
        until_begun(world)
        for _ in range(50):
            world.now += timedelta(seconds=1)
            world.replicas[0].keeper.look()
            world.call()
        assert served(world.replicas[0]) != served(world.replicas[1])
        world.run(120)
        assert is_whole(world)
        assert world.failed == []

    def test_configurations_that_never_rest(self, world: World) -> None:
        """Somebody else changes them every three seconds, so that it is never sure what the API server knows."""
        world.deaf = True
        for number in range(250):
            for place in CONFIGURATIONS:
                value = copy.deepcopy(world.stored(place))
                assert value is not None
                for webhook in value["webhooks"]:
                    webhook["timeoutSeconds"] = 5 + number % 2
                world.api.put(path_of(place), value)
            for _ in range(3):
                world.run(1)
                assert all(replica.is_called(world.now) for replica in world.replicas)
        (authority,) = {each for bundle in world.bundles() for each in bundle[:1]}
        assert authority.not_valid_before_utc > START
        assert world.failed == []

    @pytest.mark.parametrize("years", [1, 3])
    def test_a_clock_past_every_expiry(self, world: World, years: int) -> None:
        """Nothing works any more, so there is nothing to wait for."""
        world.now += timedelta(days=366 * years)
        for replica in world.replicas:
            replica.keeper.look()
        assert is_whole(world)
        assert all(replica.is_called(world.now) for replica in world.replicas)

    def test_no_endless_renewal_before_the_end(self, world: World) -> None:
        """A CA that cannot be replaced signs nothing that ends no later."""
        world.api.refused = {("update", MUTATING.plural)}
        world.run(11 * 60)
        before = len(world.api.asked)
        world.run(30)
        writes = [verb for verb, plural in world.api.asked[before:] if (verb, plural) == ("update", "secrets")]
        assert writes == []


class TestBundle:
    @pytest.mark.parametrize("bundle", ["", encoded(b"\n"), encoded(pem(OTHER.certificate)), encoded(b"garbled")])
    def test_is_restored(self, world: World, bundle: str, told: Callable[[], list[str]]) -> None:
        told()
        world.apply(bundle)
        applied = copy.deepcopy([world.stored(place) for place in CONFIGURATIONS])
        world.run(1)
        assert is_whole(world)
        assert told() == ["caBundle restored", "caBundle restored"]
        for before, place in zip(applied, CONFIGURATIONS, strict=True):
            assert without_bundle(before) == without_bundle(world.stored(place))

    def test_of_one_webhook_alone(self, world: World, told: Callable[[], list[str]]) -> None:
        value = copy.deepcopy(world.stored(VALIDATING))
        assert value is not None
        del value["webhooks"][1]["clientConfig"]["caBundle"]
        world.api.put(path_of(VALIDATING), value)
        told()
        world.run(1)
        assert is_whole(world)
        assert told() == ["caBundle restored"]

    def test_in_the_middle_of_a_rotation(self, world: World) -> None:
        """Both CAs come back, and the wait begins anew."""
        until_begun(world)
        world.run(2)
        old = world.keyring().authorities[1].certificate
        world.apply()
        world.run(1)
        assert {len(bundle) for bundle in world.bundles()} == {2}
        world.run(4)
        leaf = world.keyring().leaf
        assert leaf is not None
        assert leaf.issuer == old
        world.run(120)
        assert is_whole(world)

    def test_unheard_it_is_restored_at_the_next_look(self, world: World) -> None:
        world.deaf = True
        world.apply()
        world.run(11)
        assert is_whole(world)

    def test_is_left_alone_if_it_is_right(self, world: World) -> None:
        before = len(world.api.asked)
        world.run(60)
        assert {verb for verb, _ in world.api.asked[before:]} == {"get"}

    def test_configurations_that_are_deleted_are_waited_for(self, world: World) -> None:
        """As who breaks the glass does."""
        for place in CONFIGURATIONS:
            del world.api.objects[path_of(place)]
        world.run(30)
        assert {(replica.state.error, replica.state.pending) for replica in world.replicas} == {("", "")}
        world.apply()
        world.run(1)
        assert is_whole(world)


RIGHTS = [
    ("get", "secrets", SECRET),
    ("create", "secrets", SECRET),
    ("update", "secrets", SECRET),
    *((verb, place.plural, place) for place in CONFIGURATIONS for verb in ("get", "update")),
]


class TestWithoutRights:
    @pytest.mark.parametrize(("verb", "plural", "place"), RIGHTS)
    def test_at_the_start(self, verb: str, plural: str, place: Any, told: Callable[[], list[str]]) -> None:
        world = World()
        if (verb, plural) == ("update", "secrets"):
            world.start()
            world.run(30)
            secret = copy.deepcopy(world.stored(SECRET))
            assert secret is not None
            emptied(secret)
            world.api.put(path_of(SECRET), secret)
            world.replicas = []
        world.apply()
        world.api.refused = {(verb, plural)}
        world.start()
        world.run(30)
        (replica,) = world.replicas
        assert replica.state.error.startswith(f"not allowed to {verb} the {place}; grant it as in {KEPT}")
        if plural == "secrets":
            assert replica.state.pending == replica.state.error
        else:
            assert replica.state.pending == f"not trusted yet by the {place}"
        assert world.failed == []
        world.api.refused = set()
        world.run(60)
        assert replica.state.pending == ""
        assert is_whole(world)

    @pytest.mark.parametrize(("verb", "plural", "place"), RIGHTS)
    def test_lost_later(self, world: World, verb: str, plural: str, place: Any) -> None:
        world.api.refused = {(verb, plural)}
        world.run(60)
        for replica in world.replicas:
            assert replica.is_called(world.now)
            if verb == "get":
                assert replica.state.error == f"not allowed to {verb} the {place}; grant it as in {KEPT}"
        assert world.failed == []
        world.api.refused = set()
        world.run(120)
        assert is_whole(world)

    def test_unready_only_near_the_end(self, world: World) -> None:
        world.api.refused = {("get", "secrets")}
        ready = []
        for _ in range(12):
            world.run(15)
            ready.append(world.replicas[0].is_called(world.now))
        # The last tenth of three minutes, of which half a one is over.
        assert ready == [True] * 8 + [False] * 4
        assert world.failed == []


class TestApiAway:
    def test_from_the_start(self) -> None:
        world = World()
        world.apply()
        world.api.away = True
        world.start()
        world.run(20)
        (replica,) = world.replicas
        assert f"get the {SECRET}: no route to host" in replica.state.pending
        world.api.away = False
        world.run(20)
        assert replica.state.pending == ""
        assert is_whole(world)

    def test_for_a_while(self, world: World, told: Callable[[], list[str]]) -> None:
        told()
        world.api.away = True
        world.run(60)
        assert all(replica.is_called(world.now) for replica in world.replicas)
        assert all("no route to host" in replica.state.error for replica in world.replicas)
        world.api.away = False
        world.run(15)
        assert (told(), world.failed) == ([], [])
        assert is_whole(world)

    def test_it_is_asked_ever_less_often(self, world: World) -> None:
        world.api.away = True
        waits = [world.replicas[0].keeper.look() for _ in range(6)]
        assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]

    def test_it_is_waited_for_before_an_authority_goes(self, world: World) -> None:
        """Others may have been out of touch for as long as we were."""
        until_signed(world)
        world.api.away = True
        world.run(70)
        world.api.away = False
        world.run(40)
        assert len(world.keyring().authorities) == 2
        world.run(60)
        assert is_whole(world)


@contextmanager
def running(kubeconfig: Path, timing: KeeperTiming) -> Iterator[ManagedCertificate]:
    """The whole of it, in a loop of its own."""
    certificate = ManagedCertificate(kubeconfig, SECRET.name, NAMESPACE, timing=timing)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    task = asyncio.run_coroutine_threadsafe(certificate.run(), loop)
    try:
        yield certificate
    finally:
        task.cancel()
        until(lambda: not [each for each in threading.enumerate() if each.name.startswith(("certificate", "watch-"))])
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class TestThreads:
    """Over HTTP, and by the clock on the wall."""

    def test_a_changed_configuration_is_heard_of(self, tmp_path: Path, told: Callable[[], list[str]]) -> None:
        """The next look that is due is a minute away."""
        world = World()
        world.apply()
        timing = KeeperTiming(poll=60.0, notice=0.1)
        with served_over_http(world.api, tmp_path) as (server, kubeconfig), running(kubeconfig, timing) as certificate:
            until(lambda: certificate.state().published and not certificate.state().pending)
            (bundle,) = set(world.bundles())
            told()
            said: list[str] = []

            def restored(times: int) -> bool:
                said.extend(told())
                return len(said) >= times

            for times in (2, 4):
                with server.lock:
                    world.apply()
                until(partial(restored, times))
                assert set(world.bundles()) == {bundle}
            assert said == ["caBundle restored"] * 4
            assert certificate.state().error == ""

    def test_without_the_right_to_watch(self, tmp_path: Path, told: Callable[[], list[str]]) -> None:
        """It is said, and what is not heard of is seen at the next look."""
        world = World()
        world.apply()
        world.api.refused = {("watch", VALIDATING.plural)}
        timing = KeeperTiming(poll=0.2, notice=0.1)
        with served_over_http(world.api, tmp_path) as (server, kubeconfig), running(kubeconfig, timing) as certificate:
            error = f"not allowed to watch the {VALIDATING}; grant it as in {KEPT}"
            until(lambda: certificate.state().error == error)
            until(lambda: "certificate cannot be kept" in told())
            until(lambda: not certificate.state().pending)
            (bundle,) = set(world.bundles())
            with server.lock:
                world.apply("", VALIDATING)
            until(lambda: set(world.bundles()) == {bundle})
            world.api.refused = set()
            until(lambda: certificate.state().error == "")
            until(lambda: "certificate is kept again" in told())

    def test_credentials_that_cannot_be_had(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text("{}")
        with running(tmp_path / "config", KeeperTiming()) as certificate:
            error = f"kubeconfig {tmp_path}/config: current-context is not set; set it to one of its contexts, "
            until(lambda: certificate.state().error.startswith(error))
            assert certificate.state().pending == certificate.state().error


def test_a_process_whose_cluster_is_away(tmp_path: Path) -> None:
    """It lives and says what is missing, by a certificate that nobody trusts."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {"token": "x"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    with serving("--kubeconfig", str(tmp_path / "config"), "--tls-secret", "floorkeeper-tls") as server:
        assert server.started["certificate"] == str(SECRET)
        until(lambda: server.logged("certificate cannot be kept"))
        with server.client() as client:
            assert client.get("/healthz").status_code == 200
            ready = client.get("/readyz")
            metrics = client.get("/metrics").text
        assert (ready.status_code, ready.json()["certificate"]["caBundlePublished"]) == (503, False)
        (reason,) = [text for text in ready.json()["reasons"] if text.startswith("certificate: ")]
        assert f"get the {SECRET}: " in reason
        assert "floorkeeper_ca_bundle_published 0.0" in metrics
        assert "\nfloorkeeper_certificate_authority_expiry_timestamp_seconds " not in metrics
        assert server.end() == 0
    assert "PRIVATE KEY" not in str(server.lines)


def test_what_readiness_and_metrics_tell(world: World) -> None:
    (replica, _) = world.replicas
    source, policies = StillSource(snapshot_of(BASE)), FixedPolicy(Policy())
    readiness = Readiness(policies, source, Told(lambda: replica.state), now=lambda: world.now)
    authority = world.keyring().authorities[0].certificate.not_valid_after_utc

    def gauges() -> dict[str, float]:
        families = text_string_to_metric_families(Metrics(readiness).page()[0].decode())
        return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}

    found = gauges()
    assert found["floorkeeper_certificate_authority_expiry_timestamp_seconds"] == authority.timestamp()
    assert found["floorkeeper_certificate_expiry_timestamp_seconds"] == replica.state.expires.timestamp()
    assert (found["floorkeeper_ca_bundle_published"], found["floorkeeper_certificate_reload_failed"]) == (1.0, 0.0)
    assert readiness.report()["certificate"] == {
        "source": str(SECRET),
        "expires": replica.state.expires.isoformat(),
        "fingerprint": replica.state.fingerprint,
        "authorityExpires": authority.isoformat(),
        "caBundlePublished": True,
        "error": "",
        "note": "",
    }
    world.api.refused = {("update", VALIDATING.plural)}
    world.apply()
    world.run(1)
    found = gauges()
    assert (found["floorkeeper_ca_bundle_published"], found["floorkeeper_certificate_reload_failed"]) == (0.0, 1.0)
    world.api.refused |= {("update", SECRET.plural)}
    reasons: list[list[str]] = []
    for _ in range(180):
        world.run(1)
        if readiness.reasons() not in reasons:
            reasons.append(readiness.reasons())
    near = "certificate: expires within the hour and cannot be renewed"
    assert reasons == [[], [near], ["certificate: has expired"]]


class Told:
    """A certificate's state, from wherever it is."""

    def __init__(self, state: Callable[[], CertificateState]) -> None:
        self.state = state


def test_quarrels_end(world: World) -> None:
    """Somebody writes the Secret ahead of every write of ours."""
    secret = copy.deepcopy(world.stored(SECRET))
    assert secret is not None
    emptied(secret)
    world.api.put(path_of(SECRET), secret)

    def interfere(verb: str, plural: str) -> None:
        if (verb, plural) == ("update", "secrets"):
            world.api.put(path_of(SECRET), secret)

    world.api.before = interfere
    assert world.replicas[0].keeper.look() < 1
    assert world.replicas[0].state.pending == ""


def without_bundle(value: Object | None) -> Object:
    assert value is not None
    value = copy.deepcopy(value)
    del value["metadata"]["resourceVersion"], value["metadata"]["generation"]
    for webhook in value["webhooks"]:
        webhook["clientConfig"].pop("caBundle", None)
    return value


def test_no_key_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world = World()
    world.apply()
    world.start()
    world.run(5 * 60)
    secret = world.stored(SECRET)
    assert secret is not None
    told = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
    text = f"{told} {[replica.state for replica in world.replicas]} {world.keyring()}"
    assert len(told) > 5
    assert secret["data"]["tls.key"][60:100] not in text
    assert "PRIVATE KEY" not in text
