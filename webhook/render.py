"""The webhook configurations as YAML text, for `floorkeeper render` and for manifests/base/webhooks.yaml."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.engine.policy import Policy
from webhook.scope import webhook_configurations

_HEADER = "# Made from the policy and the kinds table: floorkeeper render [--policy FILE] > webhooks.yaml\n"


_LONGEST_CA = 24 * 1024
"""Bytes. kubectl apply keeps a copy of the whole object in an annotation, which may have 256 KiB: five times this in
base64 and the rest fit."""


class CaError(Exception):
    """The file is of no use as a caBundle: the message says why."""


class _Dumper(yaml.SafeDumper):
    """Block style for CEL, and every value written out where it is used."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the name is PyYAML's
        return True


def _represent_string(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _represent_string)


def read_ca_bundle(path: Path) -> bytes:
    """The certificates of a PEM file, without whatever else it holds, such as a key. Raises CaError."""
    try:
        with path.open("rb") as file:
            content = file.read(_LONGEST_CA + 1)
    except OSError as error:
        raise CaError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > _LONGEST_CA:
        raise CaError(
            f"{path}: is larger than {_LONGEST_CA:,} bytes; give only the certificates that Floorkeeper's is signed by"
        )
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError:
        what = "a certificate that cannot be read" if b"CERTIFICATE-----" in content else "no certificate in PEM"
        raise CaError(f"{path}: holds {what}; give the file of serve --tls-cert, or of the CA that signed it") from None
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def render_webhooks(policy: Policy, ca_bundle: bytes = b"") -> str:
    """Both webhook configurations as YAML documents. The same policy and certificates give the same bytes."""
    configurations = webhook_configurations(policy)
    if ca_bundle:
        for configuration in configurations:
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"] = {**webhook["clientConfig"], "caBundle": b64encode(ca_bundle).decode()}
    # The pure Python dumper, since libyaml's wraps and quotes some strings in another way.
    documents = yaml.dump_all(
        configurations,
        Dumper=_Dumper,
        explicit_start=True,
        sort_keys=False,
        allow_unicode=True,
        width=100_000,
    )
    return _HEADER + documents
