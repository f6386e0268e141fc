"""The certificates that are made: who they speak for, what they may do, and who takes them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.handshake import handshake, trusting
from webhook.server.authority import Authority, Pair, new_authority, service_names, signed_pair
from webhook.server.certificates import ListeningContext

NOW = datetime.now(UTC).replace(microsecond=0)
NAMES = service_names("floorkeeper", "floorkeeper-system")
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return new_authority(NOW, 100 * DAY)


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return signed_pair(authority, NAMES, NOW, 90 * DAY)


@pytest.fixture(scope="module")
def leaf(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def test_names_of_the_service() -> None:
    assert NAMES == (
        "floorkeeper.floorkeeper-system.svc",
        "floorkeeper.floorkeeper-system.svc.cluster.local",
        "floorkeeper.floorkeeper-system",
    )


def test_an_authority(authority: Authority) -> None:
    certificate = authority.certificate
    extensions = certificate.extensions
    assert {each.oid: (each.value, each.critical) for each in extensions} == {
        x509.BasicConstraints.oid: (x509.BasicConstraints(ca=True, path_length=0), True),
        x509.KeyUsage.oid: (usage("key_cert_sign", "crl_sign"), True),
        x509.SubjectKeyIdentifier.oid: (identifier(certificate), False),
        x509.AuthorityKeyIdentifier.oid: (issuer(certificate), False),
    }
    assert (certificate.not_valid_before_utc, certificate.not_valid_after_utc) == (
        NOW - timedelta(minutes=5),
        NOW + 100 * DAY,
    )
    assert certificate.subject == certificate.issuer
    assert certificate.subject.rfc4514_string().startswith("CN=floorkeeper-ca-")
    assert len(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value) <= 64
    assert isinstance(certificate.signature_hash_algorithm, hashes.SHA256)


def test_no_two_have_the_same_name(authority: Authority) -> None:
    assert new_authority(NOW, DAY).certificate.subject != authority.certificate.subject


def test_what_it_signs(authority: Authority, leaf: x509.Certificate) -> None:
    key = leaf.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert {each.oid: (each.value, each.critical) for each in leaf.extensions} == {
        x509.SubjectAlternativeName.oid: (x509.SubjectAlternativeName(map(x509.DNSName, NAMES)), False),
        x509.BasicConstraints.oid: (x509.BasicConstraints(ca=False, path_length=None), True),
        x509.KeyUsage.oid: (usage("digital_signature"), True),
        x509.ExtendedKeyUsage.oid: (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        x509.SubjectKeyIdentifier.oid: (identifier(leaf), False),
        x509.AuthorityKeyIdentifier.oid: (issuer(authority.certificate), False),
    }
    assert (leaf.not_valid_before_utc, leaf.not_valid_after_utc) == (NOW - timedelta(minutes=5), NOW + 90 * DAY)
    assert authority.has_signed(leaf)
    assert not new_authority(NOW, DAY).has_signed(leaf)


def test_nothing_outlives_its_authority(authority: Authority) -> None:
    late = signed_pair(authority, NAMES, NOW + 50 * DAY, 90 * DAY)
    assert x509.load_pem_x509_certificate(late.certificate).not_valid_after_utc == NOW + 100 * DAY


def test_an_authority_without_its_key_signs_nothing(authority: Authority) -> None:
    with pytest.raises(ValueError, match="no key to sign with"):
        signed_pair(Authority(authority.certificate), NAMES, NOW, DAY)


def test_neither_shows_its_key(authority: Authority, pair: Pair) -> None:
    assert "key" not in f"{authority} {pair}".replace("floorkeeper", "").lower()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_who_trusts_the_authority_takes_it(
    authority: Authority, pair: Pair, name: str, version: ssl.TLSVersion
) -> None:
    client = trusting(authority.certificate)
    client.minimum_version = client.maximum_version = version
    client.set_alpn_protocols(["h2", "http/1.1"])
    asking, _ = handshake(ListeningContext(pair), client, name)
    assert asking.selected_alpn_protocol() == "http/1.1"
    assert asking.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]


def test_nobody_else_does(authority: Authority, pair: Pair) -> None:
    other = new_authority(NOW, DAY).certificate
    for client, name in [
        (trusting(other), NAMES[0]),
        (trusting(authority.certificate), "floorkeeper.other.svc"),
        (trusting(authority.certificate), "localhost"),
    ]:
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(ListeningContext(pair), client, name)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_old_versions_of_tls_are_refused(authority: Authority, pair: Pair) -> None:
    client = trusting(authority.certificate)
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError):
        handshake(ListeningContext(pair), client, NAMES[0])


def test_an_authority_that_others_made(authority: Authority) -> None:
    """Such as openssl: another type of key, and no extensions."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ours")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - DAY)
        .not_valid_after(NOW + DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pair = signed_pair(Authority(certificate, key), NAMES, NOW, DAY / 2)
    client = trusting(certificate)
    client.verify_flags &= ~ssl.VERIFY_X509_STRICT
    handshake(ListeningContext(pair), client, NAMES[0])


def usage(*names: str) -> x509.KeyUsage:
    every = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"]
    every += ["key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]
    return x509.KeyUsage(**{name: name in names for name in every})


def identifier(certificate: x509.Certificate) -> x509.SubjectKeyIdentifier:
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return x509.SubjectKeyIdentifier.from_public_key(key)


def issuer(certificate: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier(certificate))
