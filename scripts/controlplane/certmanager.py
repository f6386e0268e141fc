"""cert-manager outside a cluster: its real controllers as processes, each under a ServiceAccount with its rights.

Its webhook is not there. What that adds in a cluster is missing: refusals of malformed objects, and the name of who
asked in a CertificateRequest.
"""

from pathlib import Path

from .api import Api, Object
from .components import Component, Kubernetes
from .ports import LOOPBACK, Ports, url

NAMESPACE = "cert-manager"
# Name of the ServiceAccount, of the process and of its log -> which of the binary's two programs it is.
PROGRAMS = {"cert-manager": "controller", "cert-manager-cainjector": "cainjector"}

_READ = ["get", "list", "watch"]
_CHANGE = ["update", "patch"]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


# ServiceAccount -> what the chart of this version gives it, as far as self-signed and CA issuers, Certificates and the
# CA injector go. Leases are left out, since one process needs no election.
_RULES = {
    "cert-manager": [
        _rule("cert-manager.io", ["issuers", "issuers/status"], _CHANGE),
        _rule("cert-manager.io", ["clusterissuers", "clusterissuers/status"], _CHANGE),
        _rule("cert-manager.io", ["certificates", "certificates/status"], _CHANGE),
        _rule("cert-manager.io", ["certificaterequests", "certificaterequests/status"], _CHANGE),
        _rule("cert-manager.io", ["certificates/finalizers", "certificaterequests/finalizers"], ["update"]),
        _rule("cert-manager.io", ["issuers", "clusterissuers", "certificates", "certificaterequests"], _READ),
        # Requests are made and deleted by the rules of the controller that serves Ingresses.
        _rule("cert-manager.io", ["certificates", "certificaterequests"], ["create", "update", "delete"]),
        _rule("cert-manager.io", ["signers"], ["approve"])
        | {"resourceNames": ["issuers.cert-manager.io/*", "clusterissuers.cert-manager.io/*"]},
        _rule("", ["secrets"], [*_READ, *_CHANGE, "create", "delete"]),
        _rule("", ["events"], ["create", "patch"]),
    ],
    "cert-manager-cainjector": [
        _rule("cert-manager.io", ["certificates"], _READ),
        _rule("", ["secrets"], _READ),
        _rule("", ["events"], ["get", "create", *_CHANGE]),
        _rule(
            "admissionregistration.k8s.io",
            ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
            [*_READ, *_CHANGE],
        ),
        _rule("apiregistration.k8s.io", ["apiservices"], [*_READ, *_CHANGE]),
        _rule("apiextensions.k8s.io", ["customresourcedefinitions"], [*_READ, *_CHANGE]),
    ],
}


class CertManager:
    """The objects that the processes need, in the order of their creation (the CRDs come from elsewhere), and they."""

    def __init__(self, folder: Path, kubernetes: Kubernetes, ports: Ports) -> None:
        self._folder = folder
        self._kubernetes = kubernetes
        self._ports = {name: ports.reserve() for name in PROGRAMS}
        self.objects: list[Object] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
        for name, rules in _RULES.items():
            self.objects += _account(name, rules)

    def components(self, api: Api) -> list[Component]:
        found = []
        for name, program in PROGRAMS.items():
            kubeconfig = self._folder / f"{name}.kubeconfig"
            self._kubernetes.write_kubeconfig(kubeconfig, name, api.request_token(NAMESPACE, name))
            port = self._ports[name]
            argv = (program, str(kubeconfig), f"{LOOPBACK}:{port}")
            found.append(Component(name, argv, f"{url(port, 'http')}/readyz", binary="cert-manager"))
        return found


def _account(name: str, rules: list[Object]) -> list[Object]:
    rbac = "rbac.authorization.k8s.io"
    account = {"name": name, "namespace": NAMESPACE}
    about = {"apiVersion": f"{rbac}/v1", "metadata": {"name": name}}
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": name}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        about | {"kind": "ClusterRole", "rules": rules},
        about | {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [{"kind": "ServiceAccount", **account}]},
    ]
