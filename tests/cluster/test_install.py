"""The shipped overlays on a real API server, as they are but for the Service, which leads to a process here.

The API server has cert-manager beside it and no other controller, so that what is applied stays as it was stored.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster.api import Api, proxied
from tests.cluster.container import Container, running
from tests.cluster.controlplane import Cluster, own_cluster, stays, until
from tests.cluster.rendering import OVERLAYS, printed, registrations, rendered, with_component
from tests.cluster.server import ROOT, Floorkeeper, free_endpoint
from webhook.server.reload import RENDER_AGAIN

Object = dict[str, Any]
HOME = ("-n", "floorkeeper-system")
SECRET = "floorkeeper-tls"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    without = ["--without", "kueue,scheduler,controller-manager,kwok"]
    further = ["--with", "cert-manager", "--crds", "prometheus-operator"]
    with own_cluster(tmp_path_factory.mktemp("bare"), *without, *further) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(bare: Cluster) -> Iterator[Api]:
    with proxied(bare) as api:
        yield api


# Nothing drifts


def identity(value: Object) -> tuple[str, ...]:
    metadata = value["metadata"]
    return value["apiVersion"], value["kind"], metadata.get("namespace", ""), metadata["name"]


def shipped(stored: Object) -> Object:
    """What is stored without what only the API server, controllers and kubectl write."""
    found: Object = json.loads(json.dumps(stored))
    found.pop("status", None)
    metadata = found["metadata"]
    for field in ("managedFields", "uid", "resourceVersion", "creationTimestamp", "generation"):
        metadata.pop(field, None)
    annotations = metadata.get("annotations", {})
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    if not annotations:
        metadata.pop("annotations", None)
    match found["kind"]:
        case "Namespace":
            assert found.pop("spec") == {"finalizers": ["kubernetes"]}
        case "Service":
            for field in ("clusterIP", "clusterIPs", "ipFamilies"):
                del found["spec"][field]
        case "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration":
            for webhook in found["webhooks"]:
                webhook["clientConfig"].pop("caBundle", None)
    return found


CONFIGURED = "poddisruptionbudget.policy/floorkeeper configured"


def assert_no_drift(cluster: Cluster, objects: Sequence[Object]) -> None:
    """Applied in both ways, they are stored as they were written, and are no difference to kubectl."""
    text = yaml.safe_dump_all(objects)
    for flags in ([], ["--server-side"]):
        cluster("apply", *flags, "-f", "-", input=text)
        found = json.loads(cluster("get", "-f", "-", "-o", "json", input=text).stdout)
        stored = {identity(value): shipped(value) for value in found["items"]}
        assert stored == {identity(value): value for value in objects}
        difference = cluster("diff", *flags, "-f", "-", input=text, check=False)
        assert (difference.returncode, difference.stdout, difference.stderr) == (0, "", "")
        if not flags:
            # kubectl always sends this one's selector, and then calls it configured.
            lines = cluster("apply", "-f", "-", input=text).stdout.splitlines()
            assert [line for line in lines if not line.endswith(" unchanged")] in ([], [CONFIGURED])


SEEN: list[Object] = []
"""What was tested: most objects are in several overlays."""


def assert_no_further_drift(cluster: Cluster, objects: Sequence[Object]) -> None:
    """Of those that were not tested before, and so are there already."""
    new = [value for value in objects if value not in SEEN]
    if new:
        assert_no_drift(cluster, new)
    SEEN.extend(new)


# Both ways to have a certificate


@contextmanager
def installed(cluster: Cluster, overlay: str) -> Iterator[tuple[list[Object], tuple[str, int]]]:
    """The objects, and the address that their Service leads to. A Secret of the other way is gone."""
    objects, address = rendered(cluster, overlay), free_endpoint()
    assert address[1] == 8443, "the shipped port is held by another program"
    # Who made the other Secret would make it again.
    cluster("delete", "certificates.cert-manager.io,issuers.cert-manager.io", "--all", *HOME)
    cluster("delete", "secret", SECRET, *HOME, "--ignore-not-found")
    registered = registrations(objects)
    assert_no_further_drift(cluster, [value for value in objects if value not in registered])
    cluster.apply(*registered)
    leads_here = {"spec": {"type": "ExternalName", "externalName": address[0]}}
    cluster("patch", "service", "floorkeeper", *HOME, "--type=merge", "-p", json.dumps(leads_here))
    cluster.apply(MANAGED)
    try:
        yield objects, address
    finally:
        cluster("delete", "-f", "-", "--wait=false", input=yaml.safe_dump_all(registered))


MANAGED: Object = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "managed", "labels": {"floorkeeper.io/managed": "true"}},
}
QUOTA: Object = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpus", "namespace": "managed"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "1"}},
}


POLICY = """\
apiVersion: floorkeeper.io/v1alpha1
kind: Policy
managedNamespaces: {matchLabels: {team: a}}
"""


def denied(api: Api) -> bool:
    """Whether Floorkeeper is called about a write, and denies it."""
    answer = api.create(QUOTA, dry_run=True)
    return 'resourcequotas.validate.floorkeeper.io" denied the request' in answer.message


def trusted(api: Api, objects: Sequence[Object]) -> set[x509.Certificate]:
    """The CAs that each webhook trusts."""
    configs = [webhook["clientConfig"] for value in registrations(objects) for webhook in api.read(value)["webhooks"]]
    bundles = [base64.b64decode(config.get("caBundle", "")) for config in configs]
    return set.intersection(*(set(x509.load_pem_x509_certificates(bundle)) if bundle else set() for bundle in bundles))


def authority_of(secret: Mapping[str, bytes]) -> x509.Certificate:
    (authority,) = x509.load_pem_x509_certificates(secret["ca.crt"])
    return authority


def content(api: Api, name: str) -> dict[str, bytes]:
    """Of a Secret; empty as long as there is none."""
    metadata = {"name": name, "namespace": "floorkeeper-system"}
    found = api.read({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    return {key: base64.b64decode(text) for key, text in found["data"].items()} if found else {}


def test_with_a_certificate_of_our_own(bare: Cluster, api: Api, tmp_path: Path) -> None:
    with (
        installed(bare, "self-signed") as (objects, address),
        running(bare, objects, address, tmp_path, {}) as container,
    ):
        until("a write is denied", lambda: denied(api), 15)
        authority = authority_of(content(api, SECRET))
        assert trusted(api, objects) == {authority}
        # The caBundle is in no manifest, so that to apply these again takes nothing away.
        assert_no_drift(bare, registrations(objects))
        assert trusted(api, objects) == {authority}
        assert denied(api)
        assert container.troubles() == []

        # Another policy, of which the server hears first.
        (tmp_path / "policy.yaml").write_text(POLICY)
        container.swap("floorkeeper-policy", {"policy.yaml": POLICY.encode()})
        until("it is noted", lambda: container.note() == RENDER_AGAIN, 10)
        text = printed(bare, "render", "--policy", str(tmp_path / "policy.yaml"), str(OVERLAYS / "self-signed"))
        bare.apply(*registrations(list(yaml.safe_load_all(text))))
        until("there is nothing to note", lambda: container.note() == "", 10)
        assert trusted(api, objects) == {authority}
        until("the write is none that is judged", lambda: api.create(QUOTA, dry_run=True).code == 201, 10)


def test_audits_in_the_container(bare: Cluster, api: Api, tmp_path: Path) -> None:
    """With the files, the user and the rights that it has there; what it finds without Kueue is another matter."""
    folder = tmp_path / "kustomization"
    folder.mkdir()
    with (
        installed(bare, with_component(folder, "self-signed", "audit")) as (objects, address),
        running(bare, objects, address, tmp_path, {}) as container,
    ):
        (done,) = until("an audit is done", lambda: audits_told(container), 90)
        assert done["message"] == "audited", done
        assert container.troubles() == []


def audits_told(container: Container) -> list[Object]:
    lines = container.log.read_text().splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [line for line in found if line["message"].startswith("audit")]


def test_with_cert_manager(bare: Cluster, api: Api, tmp_path: Path) -> None:
    with installed(bare, "cert-manager") as (objects, address):
        until("there is a certificate", lambda: len(content(api, SECRET)) == 3, 20)
        first = content(api, SECRET)
        (leaf,) = x509.load_pem_x509_certificates(first["tls.crt"])
        leaf.verify_directly_issued_by(authority_of(first))
        assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
        until("its CA is trusted", lambda: trusted(api, objects) == {authority_of(first)}, 20)
        with running(bare, objects, address, tmp_path, {SECRET: first}) as container:
            until("a write is denied", lambda: denied(api), 15)
            assert_no_drift(bare, registrations(objects))
            assert trusted(api, objects) == {authority_of(first)}

            # The CA is renewed, and then what it signs: no call fails, though the pod gets its files last.
            renew(bare, "floorkeeper-ca")
            until("there is a new CA", lambda: content(api, "floorkeeper-ca")["tls.crt"] != first["ca.crt"], 20)
            renew(bare, SECRET)
            until("there is a new certificate", lambda: content(api, SECRET)["tls.crt"] != first["tls.crt"], 20)
            second = content(api, SECRET)
            assert authority_of(second) != authority_of(first)
            until("the new CA is trusted", lambda: authority_of(second) in trusted(api, objects), 20)
            stays("writes are denied", lambda: denied(api), 3)
            container.swap(SECRET, second)
            (leaf,) = x509.load_pem_x509_certificates(second["tls.crt"])
            fingerprint = leaf.fingerprint(hashes.SHA256()).hex()
            until("the new certificate is served", lambda: container.fingerprint() == fingerprint, 10)
            assert denied(api)
            assert container.troubles() == []


def renew(cluster: Cluster, certificate: str) -> None:
    """As `cmctl renew` does it."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    issuing = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "",
        "lastTransitionTime": now,
    }
    found = cluster.get("certificate", certificate, *HOME)
    found["status"]["conditions"].append(issuing)
    cluster("replace", "--subresource=status", "-f", "-", input=json.dumps(found))


# On OpenShift, where namespaces have the label before we come

[HOLD] = re.findall(
    r"<!-- checked: tests/cluster/test_install\.py -->\n```console\n\$ kubectl (.*)\n```",
    (ROOT / "README.md").read_text(),
)
"""What the README says to do before the webhooks are applied."""


def of_kueue(name: str) -> Object:
    labels = {"kueue.openshift.io/managed": "true"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def test_namespaces_of_openshift_are_held_before_the_webhooks_come(bare: Cluster, api: Api, tmp_path: Path) -> None:
    def asked(namespace: str) -> tuple[int, bool]:
        """What becomes of a ResourceQuota on GPUs, and whether a warning tells of it."""
        answer = api.create({**QUOTA, "metadata": {"name": "gpus", "namespace": namespace}}, dry_run=True)
        return answer.code, "[gpu-resource-quota]" in "".join(answer.warnings)

    bare.apply(of_kueue("first"), of_kueue("second"))
    bare(*shlex.split(HOLD))
    bare.apply(of_kueue("late"))
    with (
        installed(bare, "openshift") as (objects, address),
        running(bare, objects, address, tmp_path, {}) as container,
    ):
        until("a namespace without the hold is at deny", lambda: asked("late") == (403, False), 15)
        for namespace in ("first", "second"):
            assert asked(namespace) == (201, True)
        # It has our own label, which means nothing here.
        assert asked("managed") == (201, False)

        # One after the other comes to deny, and one can be held again.
        bare("annotate", "namespace", "first", "floorkeeper.io/mode-")
        until("the hold has ended", lambda: asked("first") == (403, False), 10)
        assert asked("second") == (201, True)
        bare("annotate", "namespace", "late", "floorkeeper.io/mode=warn")
        until("it is held", lambda: asked("late") == (201, True), 10)
        assert container.troubles() == []


@pytest.mark.parametrize("overlay", ["openshift", "monitoring"])
def test_nothing_drifts(bare: Cluster, overlay: str) -> None:
    assert_no_further_drift(bare, rendered(bare, overlay))


@pytest.mark.parametrize("overlay", ["cert-manager", "openshift", "self-signed"])
def test_an_overlay_with_audits_does_not_drift(bare: Cluster, tmp_path: Path, overlay: str) -> None:
    objects = rendered(bare, with_component(tmp_path, overlay, "audit"))
    (container,) = [
        each
        for value in objects
        if value["kind"] == "Deployment"
        for each in value["spec"]["template"]["spec"]["containers"]
    ]
    assert "--audit-every=10m" in container["args"]
    assert {each["metadata"]["name"] for each in objects if each["kind"] == "ClusterRole"} >= {
        "floorkeeper",
        "floorkeeper-audit",
    }
    assert_no_further_drift(bare, objects)


# Its pods, which kwok runs without containers


def pods_by_node(cluster: Cluster) -> dict[str, list[str]]:
    """Of those that are there to stay, once the Deployment has all that it wants."""
    cluster("rollout", "status", "deployment/floorkeeper", *HOME, "--timeout=60s")
    found: dict[str, list[str]] = {}
    for pod in cluster.items("pods", *HOME, "-l", "app.kubernetes.io/name=floorkeeper"):
        if "deletionTimestamp" not in pod["metadata"]:
            found.setdefault(pod["spec"]["nodeName"], []).append(pod["metadata"]["name"])
    return found


def test_each_pod_has_a_node_of_its_own(cluster: Cluster, floorkeeper: Floorkeeper) -> None:
    """And Pod Security has nothing against them, though the namespace enforces its restricted profile."""
    namespace = cluster.get("namespace", "floorkeeper-system")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    (lost, _), (kept, _) = pods_by_node(cluster).items()
    others = [node["metadata"]["name"] for node in cluster.items("nodes") if node["metadata"]["name"] != kept]
    cluster("cordon", *others)
    try:
        cluster("delete", "pod", *pods_by_node(cluster)[lost], *HOME, "--wait=false")
        # Where only one node is left, two on one are better than one alone.
        until("the lost one is back", lambda: [len(pods) for pods in pods_by_node(cluster).values()] == [2], 30)
        assert kept in pods_by_node(cluster)
    finally:
        cluster("uncordon", *others)
    # A rolling update has one more at first, which has to be somewhere; in the end they are apart again.
    cluster("rollout", "restart", "deployment/floorkeeper", *HOME)
    assert [len(pods) for pods in pods_by_node(cluster).values()] == [1, 1]
