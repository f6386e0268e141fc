"""Kueue outside a cluster: its shipped manifests bent to a process on loopback, and its configuration."""

import base64
import shutil
import subprocess
from pathlib import Path

import yaml

from .api import Api, Object, Refused
from .components import Component, Kubernetes
from .ports import LOOPBACK, Ports, url
from .progress import ClusterError

NAMESPACE = "kueue-system"
SERVICE_ACCOUNT = "kueue-controller-manager"
_API = "/apis/kueue.x-k8s.io/v1beta2"
# What would run Kueue as a Pod or give it addresses; here it is a process.
_LEFT_OUT = ("APIService", "Deployment", "Secret", "Service")
# Order of creation: what later kinds need comes first.
_ORDER = ("Namespace", "CustomResourceDefinition", "ServiceAccount")


def crds(objects: list[Object]) -> list[Object]:
    """The CRDs among the objects as they can be used without Kueue: no webhook converts between versions."""
    return [
        obj | {"spec": {key: value for key, value in obj["spec"].items() if key != "conversion"}}
        for obj in objects
        if obj["kind"] == "CustomResourceDefinition"
    ]


class Kueue:
    """One Kueue process: its ports, certificates, configuration and the manifests that point at it."""

    def __init__(
        self, folder: Path, kubernetes: Kubernetes, ports: Ports, objects: list[Object], namespaces: tuple[str, ...]
    ) -> None:
        self._folder = folder / "kueue"
        self._folder.mkdir(mode=0o700)
        self._kubernetes = kubernetes
        self._webhook_port, self._health_port, metrics_port = ports.reserve(), ports.reserve(), ports.reserve()
        self._certificates = self._folder / "webhook"
        kubernetes.authority.issue(self._certificates, "kueue-webhook-service.kueue-system.svc")
        # What Kueue sees as /etc. It reads its metrics certificate from a fixed place there and from nowhere else.
        self._etc = self._folder / "etc"
        kubernetes.authority.issue(self._etc / "kueue" / "metrics" / "certs", "kueue-metrics")
        (self._etc / "hosts").write_text(f"{LOOPBACK} localhost\n")
        self._namespaces = namespaces
        self.objects = [self._bend(obj) for obj in objects if obj["kind"] not in _LEFT_OUT]
        self.objects.sort(key=lambda obj: _ORDER.index(obj["kind"]) if obj["kind"] in _ORDER else len(_ORDER))
        self._configuration = self._configure(metrics_port)

    def _bend(self, obj: Object) -> Object:
        kind = obj["kind"]
        if kind == "CustomResourceDefinition":
            webhook = obj["spec"].get("conversion", {}).get("webhook")
            if webhook:
                webhook["clientConfig"] = self._client_config(webhook["clientConfig"])
        elif kind.endswith("WebhookConfiguration"):
            for webhook in obj["webhooks"]:
                webhook["clientConfig"] = self._client_config(webhook["clientConfig"])
        return obj

    def _client_config(self, shipped: Object) -> Object:
        bundle = base64.b64encode(self._kubernetes.authority.pem).decode()
        return {"url": url(self._webhook_port) + shipped["service"]["path"], "caBundle": bundle}

    def _configure(self, metrics_port: int) -> Path:
        """The shipped configuration, all integrations included; only addresses and certificates are ours."""
        [shipped] = [obj for obj in self.objects if obj["kind"] == "ConfigMap"]
        [(key, text)] = shipped["data"].items()
        configuration: Object = yaml.safe_load(text)
        configuration["health"]["healthProbeBindAddress"] = f"{LOOPBACK}:{self._health_port}"
        configuration["metrics"]["bindAddress"] = f"{LOOPBACK}:{metrics_port}"
        configuration["webhook"] = {
            "host": LOOPBACK, "port": self._webhook_port, "certDir": str(self._certificates),
        }  # fmt: skip
        configuration["internalCertManagement"] = {"enable": False}
        # It leads alone, and its Lease tells that it runs. Who cannot renew it in time ends, and nobody starts Kueue
        # again: so there is time for a restart of the API server.
        configuration["leaderElection"] |= {
            "resourceNamespace": NAMESPACE, "leaseDuration": "137s", "renewDeadline": "107s", "retryPeriod": "5s",
        }  # fmt: skip
        # The ConfigMap in the cluster says what the running Kueue was told, for those that read it.
        told = yaml.safe_dump(configuration, sort_keys=False)
        shipped["data"][key] = told
        path = self._folder / str(key)
        path.write_text(told)
        return path

    def component(self, binary: Path, api: Api) -> Component:
        """Kueue under its own ServiceAccount, so that its user name in admission reviews is the real one."""
        token = api.request_token(NAMESPACE, SERVICE_ACCOUNT)
        kubeconfig = self._kubernetes.write_kubeconfig(self._folder / "kubeconfig", SERVICE_ACCOUNT, token)
        return Component("kueue", (
            *self._namespaces,
            # exec keeps the pid, so that the process we recorded is Kueue itself.
            "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', str(self._etc), str(binary),
            f"--config={self._configuration}",
            f"--kubeconfig={kubeconfig}",
            # Serving the visibility API needs an aggregated APIService, that is a Service with endpoints.
            "--feature-gates=VisibilityOnDemand=false",
        ), f"{url(self._health_port, 'http')}/readyz")  # fmt: skip


def answers(api: Api) -> bool:
    """Whether Kueue's webhooks do their work: asked with dry runs of a labelled Deployment and a labelled Pod."""
    label = {"kueue.x-k8s.io/queue-name": "probe"}
    spec = {"containers": [{"name": "probe", "image": "probe"}]}
    metadata = {"name": "cluster-up-probe", "namespace": "default", "labels": label}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    template = {"metadata": {"labels": {"app": "probe"}}, "spec": spec}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"selector": {"matchLabels": {"app": "probe"}}, "template": template},
    }
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
    try:
        gated = api.create(pod, dry_run=True)
        labelled = api.create(deployment, dry_run=True)
    except (Refused, OSError):
        return False
    status, _ = api.request("POST", f"{_API}/resourceflavors?dryRun=All", flavor)
    gates = [gate["name"] for gate in gated["spec"].get("schedulingGates", [])]
    copied = labelled["spec"]["template"]["metadata"]["labels"].get("kueue.x-k8s.io/queue-name")
    return status == 201 and "kueue.x-k8s.io/admission" in gates and copied == "probe"


def find_namespaces(folder: Path) -> tuple[str, ...]:
    """The unshare command that lets us lay a folder over /etc for one process, without anyone else noticing.

    Tried with the given folder, which must hold record.json, so that /etc cannot be mistaken for it.
    """
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        raise ClusterError("Kueue needs a private /etc, and unshare or mount is not on PATH; install util-linux")
    private = ("unshare", "--mount", "--propagation=private")
    tried = []
    # As root a mount namespace is enough; anyone else needs a user namespace in which they are root.
    for command in (private, (*private, "--user", "--map-root-user")):
        check = ("sh", "-c", 'mount --bind "$0" /etc && test -e /etc/record.json', str(folder))
        answer = subprocess.run([*command, *check], capture_output=True, text=True)
        if answer.returncode == 0:
            return command
        tried.append(f"    {' '.join(command)}: {answer.stderr.strip()}")
    raise ClusterError(
        "Kueue reads its metrics certificate from /etc/kueue/metrics/certs only, and this machine does not let us "
        "give it a private /etc:\n" + "\n".join(tried) + "\n"
        "  run as root, or allow unprivileged user namespaces (in a container: CAP_SYS_ADMIN), "
        "or start without it: --without kueue"
    )
