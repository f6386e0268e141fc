"""The command lines of Kubernetes itself: etcd, kube-apiserver, kube-controller-manager, kube-scheduler."""

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path

from .certificates import Authority, write_key
from .ports import LOOPBACK, Ports, url

ADMIN = "admin"
# user name -> groups. Each component has the name that RBAC's shipped bindings expect.
_USERS = {
    ADMIN: "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "kwok-controller": "system:masters",
}


@dataclass(frozen=True)
class Component:
    """A program with its arguments; `name` is also the name of its log, and of its binary unless that is given.

    `health` is a URL that answers 200 to anybody once it is ready; None where there is none.
    """

    name: str
    argv: tuple[str, ...]
    health: str | None = None
    binary: str | None = None


def authority(folder: Path) -> Path:
    """The certificate of the authority that signs what the components serve with."""
    return folder / "pki" / "ca.crt"


def webhook_client_authority(folder: Path) -> Path:
    """The certificate of the authority that signs the client certificate which the API server shows to webhooks."""
    return folder / "pki" / "webhook-client-ca.crt"


class Kubernetes:
    """Ports, certificates and tokens of one control plane, and the command lines that follow from them."""

    def __init__(self, folder: Path, ports: Ports) -> None:
        self._folder = folder
        self._pki = folder / "pki"
        self._pki.mkdir(mode=0o700, parents=True)
        self.authority = Authority(authority(folder), "floorkeeper-test-cluster")
        # Apart from the cluster's own, so that a certificate of that one does not pass for the API server's.
        self._webhook_clients = Authority(webhook_client_authority(folder), "floorkeeper-test-webhook-clients")
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            self.authority.issue(self._pki / name, name)
        write_key(self._pki / "service-accounts.key")
        self.tokens = {user: base64.urlsafe_b64encode(os.urandom(24)).decode() for user in _USERS}
        tokens = folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text("".join(f'{self.tokens[u]},{u},{u},"{group}"\n' for u, group in _USERS.items()))
        self._etcd_port, self._etcd_peer_port = ports.reserve(), ports.reserve()
        self.port = ports.reserve()
        self._controller_manager_port, self._scheduler_port = ports.reserve(), ports.reserve()

    def write_kubeconfig(self, path: Path, user: str, token: str) -> Path:
        """A kubeconfig with everything inline, so that it can be copied; JSON is YAML too."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(kubeconfig(self.port, self.authority.pem, user, token), indent=1) + "\n")
        return path

    def etcd(self) -> Component:
        clients, peers = url(self._etcd_port, "http"), url(self._etcd_peer_port, "http")
        return Component("etcd", (
            "--name=default",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            # Nothing here has to survive a power cut.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ), f"{clients}/readyz")  # fmt: skip

    def api_server(self) -> Component:
        return Component("kube-apiserver", (
            f"--etcd-servers={url(self._etcd_port, 'http')}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.port}",
            # Endpoints refuse loopback addresses, so the Service `kubernetes` stays without any.
            f"--advertise-address={LOOPBACK}",
            "--endpoint-reconciler-type=none",
            *self._serving("kube-apiserver"),
            "--authorization-mode=RBAC",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--service-account-issuer=kubernetes.default.svc",
            f"--service-account-key-file={self._pki / 'service-accounts.key'}",
            f"--service-account-signing-key-file={self._pki / 'service-accounts.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--allow-privileged=true",
            "--profiling=false",
            f"--admission-control-config-file={self._webhook_credentials()}",
            # Else one that is asked to end refuses new connections and waits a minute for the watches it has open.
            "--shutdown-watch-termination-grace-period=5s",
        ), f"{url(self.port)}/readyz")  # fmt: skip

    def controller_manager(self) -> Component:
        name = "kube-controller-manager"
        return Component(name, (
            f"--kubeconfig={self._component_kubeconfig(name)}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self._controller_manager_port}",
            *self._serving(name),
            "--leader-elect=false",
            # Each controller then has its own user name, as in the clusters that webhooks meet.
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._pki / 'service-accounts.key'}",
            f"--root-ca-file={self.authority.path}",
            "--profiling=false",
        ), f"{url(self._controller_manager_port)}/healthz")  # fmt: skip

    def scheduler(self) -> Component:
        name = "kube-scheduler"
        return Component(name, (
            f"--kubeconfig={self._component_kubeconfig(name)}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self._scheduler_port}",
            *self._serving(name),
            "--leader-elect=false",
            "--profiling=false",
        ), f"{url(self._scheduler_port)}/readyz")  # fmt: skip

    def _webhook_credentials(self) -> Path:
        """The admission configuration by which the API server shows its client certificate to every webhook."""
        certificate = self._pki / "webhook-client"
        self._webhook_clients.issue_client(certificate, "kube-apiserver")
        files = {"client-certificate": f"{certificate / 'tls.crt'}", "client-key": f"{certificate / 'tls.key'}"}
        credentials = self._folder / "webhooks.kubeconfig"
        # The user's name is the host that it is for; * is any host.
        users = [{"name": "*", "user": files}]
        credentials.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
        group = "apiserver.config.k8s.io/v1"
        plugin = {"apiVersion": group, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(credentials)}
        plugins = [
            {"name": name, "configuration": plugin}
            for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
        ]
        configuration = self._folder / "admission.json"
        configuration.write_text(
            json.dumps({"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins})
        )
        return configuration

    def _serving(self, name: str) -> tuple[str, str]:
        folder = self._pki / name
        return f"--tls-cert-file={folder / 'tls.crt'}", f"--tls-private-key-file={folder / 'tls.key'}"

    def _component_kubeconfig(self, name: str) -> Path:
        user = f"system:{name}"
        return self.write_kubeconfig(self._folder / f"{name}.kubeconfig", user, self.tokens[user])


def kubeconfig(port: int, authority: bytes, user: str, token: str) -> dict[str, object]:
    """One cluster, one user, one context."""
    cluster = {"server": url(port), "certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "floorkeeper", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "floorkeeper", "context": {"cluster": "floorkeeper", "user": user}}],
        "current-context": "floorkeeper",
    }
