"""One authority per cluster and the few certificates that it signs."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .ports import LOOPBACK

_LIFETIME = datetime.timedelta(days=3650)


def write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A fresh P-256 key, in the one format from which the API server also takes the public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return key


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Authority:
    """A certificate authority that lives for one `up`: its key is never written to disk."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _common_name(name)
        certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=True,
                    crl_sign=True,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
            .sign(self._key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)
        path.write_bytes(self.pem)

    def issue(self, folder: Path, name: str, hosts: Sequence[str] = ()) -> None:
        """Write tls.crt and tls.key for a server that is reached on loopback and by the given DNS names."""
        names: list[x509.GeneralName] = [x509.DNSName(host) for host in ("localhost", *hosts)]
        names.append(x509.IPAddress(ipaddress.ip_address(LOOPBACK)))
        self._issue(folder, name, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))

    def issue_client(self, folder: Path, name: str) -> None:
        """Write tls.crt and tls.key for a client with this common name."""
        self._issue(folder, name, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(self, folder: Path, name: str, usage: x509.ObjectIdentifier, *extensions: x509.ExtensionType) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        key = write_key(folder / "tls.key")
        builder = self._builder(_common_name(name), key)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = (
            builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            # Clocks in virtual machines jump.
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + _LIFETIME)
        )
