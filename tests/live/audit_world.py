"""Audits of a small cluster that a test wrote as dicts: what they say, line by line."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.api_server import ApiServer
from tests.checking import GPU, QUOTAS, TEAM, changed, node
from webhook.engine.policy import Policy
from webhook.kube.kinds import BUILT_IN, KINDS
from webhook.live.api import Api
from webhook.live.audit.report import Audit
from webhook.live.audit.run import Asked, audit
from webhook.scope import webhook_configurations

Object = dict[str, Any]
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOME = "floorkeeper-system"
HOST = f"floorkeeper.{HOME}.svc"


def kueue_config(**configuration: Any) -> Object:
    """Kueue's ConfigMap, with these fields of its Configuration beside pods and Deployments."""
    text = yaml.safe_dump(
        {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "integrations": {"frameworks": ["pod", "deployment"]},
            **configuration,
        }
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
        "data": {"controller_manager_config.yaml": text},
    }


class Authority:
    """A CA, and a certificate that it signed. It signed itself, unless it is below another one."""

    def __init__(self, until: datetime = NOW + timedelta(days=365), above: Authority | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = f"ca-{until.timestamp():.0f}-{above is None}"
        self._until = until
        signer = above or self
        self.pem = signer._signed(self._name, self._key.public_key(), True, until)
        self.leaf = self.signed()

    def below(self, until: datetime = NOW + timedelta(days=365)) -> Authority:
        return Authority(until, self)

    def signed(self, until: datetime | None = None, host: str = HOST, **usage: bool) -> bytes:
        """One more certificate of a server."""
        key = ec.generate_private_key(ec.SECP256R1()).public_key()
        extensions: list[x509.ExtensionType] = [x509.SubjectAlternativeName([x509.DNSName(host)])]
        if usage.get("of_clients"):
            extensions.append(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))
        return self._signed("floorkeeper", key, False, until, extensions)

    def _signed(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        is_ca: bool,
        until: datetime | None = None,
        extensions: Sequence[x509.ExtensionType] = (),
    ) -> bytes:
        def called(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

        builder = (
            x509.CertificateBuilder()
            .subject_name(called(name))
            .issuer_name(called(self._name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before((until or self._until) - timedelta(days=400))
            .not_valid_after(until or self._until)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    @property
    def bundle(self) -> str:
        return base64.b64encode(self.pem).decode()

    def secret(
        self, name: str = "floorkeeper-tls", authorities: bytes | None = None, leaf: bytes | None = None
    ) -> Object:
        held = {
            "tls.crt": self.leaf if leaf is None else leaf,
            "ca.crt": self.pem if authorities is None else authorities,
        }
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": HOME},
            "data": {key: base64.b64encode(content).decode() for key, content in held.items()},
        }


AUTHORITY = Authority()


def registered(bundle: str = AUTHORITY.bundle, policy: Policy | None = None) -> list[Object]:
    """Both webhook configurations, as they are stored."""
    found = webhook_configurations(policy or Policy())
    for configuration in found:
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["caBundle"] = bundle
    return found


def active(queue: Object, status: str = "True", reason: str = "Ready", message: str = "Can admit") -> Object:
    condition = {"type": "Active", "status": status, "reason": reason, "message": message}
    return changed(queue, ("status",), {"conditions": [condition]})


def lease(ago: float = -1e9, home: str = "kueue-system") -> Object:
    """Kueue's, as its controller renewed it so many seconds ago; else it is fresh, also by the command's real clock."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "c1f6bfd2.kueue.x-k8s.io", "namespace": home},
        "spec": {"holderIdentity": "kueue-0", "renewTime": (NOW - timedelta(seconds=ago)).isoformat()},
    }


SOUND: tuple[Object, ...] = (
    *(active(value) if value["kind"] == "ClusterQueue" else value for value in QUOTAS),
    node(),
    kueue_config(),
    lease(),
    *registered(),
    AUTHORITY.secret(),
)
"""The guide's cluster with Floorkeeper in it: two floors of 5 on ten GPUs, of which an audit says nothing."""


def but(*objects: Object, without: Sequence[str] = ()) -> list[Object]:
    """SOUND with these objects too, or in place of those of the same name, and without those named 'Kind name'."""

    def key(value: Object) -> tuple[str, str, str]:
        return value["kind"], value["metadata"].get("namespace", ""), value["metadata"]["name"]

    found = {key(value): value for value in (*SOUND, *objects)}
    return [value for (kind, _, name), value in found.items() if f"{kind} {name}" not in without]


@contextmanager
def cluster(*objects: Object) -> Iterator[ApiServer]:
    """An API server that holds these, and serves what a cluster with Kueue alone does."""
    api = ApiServer()
    groups = {row.group for row in KINDS.rows if row.group not in BUILT_IN}
    api.served = dict.fromkeys(groups | set(api.served), ()) | {"kueue.x-k8s.io": ("v1beta2", "v1beta1")}
    for value in objects:
        api.put(value)
    with api.running():
        yield api


def look(
    api: ApiServer, folder: Path, policy: Policy | None = None, namespaces: Sequence[str] = (), **asked: Any
) -> Audit:
    with Api.opened(api.kubeconfig(folder)) as client:
        return audit(client, Asked(policy or Policy(), namespaces, **asked), clock=NOW.timestamp)


def audited(folder: Path, *objects: Object, **asked: Any) -> Audit:
    with cluster(*objects) as api:
        return look(api, folder, **asked)


def said(found: Audit) -> list[str]:
    """Each finding in short: 'deny floors-exceed-capacity ClusterQueue b', with the names of all it is about."""
    return [
        f"{each.severity} {each.rule} {each.objects[0].kind} {','.join(about.name for about in each.objects)}"
        for each in found.findings
    ]


def lines(found: Audit) -> list[str]:
    """Each finding in full: 'deny: …'."""
    return [f"{each.severity}: {each.message}" for each in found.findings]


def told(folder: Path, *objects: Object, **asked: Any) -> list[str]:
    """What an audit of these says of the set-up, in full."""
    return [line for line in lines(audited(folder, *objects, **asked)) if "[setup/" in line]


def missed(found: Audit) -> list[str]:
    return [f"{entry.what}: {entry.reason}" for entry in found.not_evaluated]


def pod(name: str, queue: str = "", gates: Sequence[str] = (), owner: Object | None = None, **labels: str) -> Object:
    """One with a GPU, on node n1 unless something holds it."""
    amounts = {GPU: "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": TEAM,
            "uid": name,
            "labels": {**({"kueue.x-k8s.io/queue-name": queue} if queue else {}), **labels},
            **({"ownerReferences": [owner]} if owner else {}),
        },
        "spec": {
            "terminationGracePeriodSeconds": 60,
            "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
            **({"schedulingGates": [{"name": gate} for gate in gates]} if gates else {"nodeName": "n1"}),
        },
        "status": {"phase": "Pending" if gates else "Running"},
    }


def owner(kind: str, name: str, version: str = "apps/v1") -> Object:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
