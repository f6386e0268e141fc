"""Client certificates: who may send reviews, and that nothing else needs one. Over real TLS, to the real server."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.cases import FIXTURES
from tests.door import review_of
from tests.serving import PATIENCE, Serving, run, serving, until
from webhook.server.authority import Authority, key_pem, new_authority, pem

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
REVIEW = json.dumps(review_of(NAMESPACE)).encode()
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
NONE = "client certificate: none was shown; the API server must be set up to show one"


def client_file(
    folder: Path,
    authority: Authority,
    name: str,
    *dns: str,
    ends: timedelta = DAY,
    use: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> Path:
    """A certificate for this common name and these DNS names, with its key, as ssl takes them from one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    assert authority.key is not None
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 2 * DAY)
        .not_valid_after(NOW + ends)
        .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    )
    if dns:
        builder = builder.add_extension(x509.SubjectAlternativeName(map(x509.DNSName, dns)), critical=False)
    file = folder / f"{len(list(folder.iterdir()))}.pem"
    file.write_bytes(pem(builder.sign(authority.key, hashes.SHA256())) + key_pem(key))
    return file


@dataclass
class Guarded:
    """A server that lets in what one CA signed."""

    server: Serving
    file: Path
    """Of that CA."""

    clients: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._certificate = self.server.certificate()

    def context(self, client: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        context = self.server.trusting(self._certificate)
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols(["h2", "http/1.1"])
        if client:
            context.load_cert_chain(self.clients[client])
        return context

    def ask(self, method: str, path: str, client: str, version: ssl.TLSVersion) -> tuple[int, Any]:
        """Status and JSON body; 0 if the server ends the handshake."""
        body = {"content": REVIEW, "headers": {"content-type": "application/json"}} if method == "POST" else {}
        try:
            answer = httpx.request(
                method,
                f"{self.server.url}{path}",
                verify=self.context(client, version),
                trust_env=False,
                timeout=PATIENCE,
                **body,  # type: ignore[arg-type]
            )
        except httpx.TransportError as error:
            return 0, str(error)
        return answer.status_code, answer.json()

    def post(self, context: ssl.SSLContext, session: ssl.SSLSession | None) -> tuple[int, bool, ssl.SSLSession | None]:
        """The status of a review that is sent on a connection of its own, whether that took up the session, and its
        own session."""
        plain = socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE)
        with plain, context.wrap_socket(plain, server_hostname="localhost", session=session) as secure:
            head = (
                f"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(REVIEW)}"
            )
            secure.sendall(f"{head}\r\n\r\n".encode() + REVIEW)
            answer = secure.recv(4096)
            return int(answer.split()[1]), bool(secure.session_reused), secure.session

    def trust(self, authority: Authority) -> None:
        before = len(self.server.logged("client CA reloaded"))
        self.file.write_bytes(pem(authority.certificate))
        until(lambda: len(self.server.logged("client CA reloaded")) > before)


OURS, OTHERS = new_authority(NOW, DAY), new_authority(NOW, DAY)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    shutil.copy(FIXTURES / "base" / "cluster.yaml", folder)
    return folder


@pytest.fixture(scope="module")
def guarded(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("clients")
    file = folder / "ca.crt"
    file.write_bytes(pem(OURS.certificate))
    clients = {
        "right": client_file(folder, OURS, "kube-apiserver"),
        "right by a DNS name": client_file(folder, OURS, "", "other.example", "api.example"),
        "wrong name": client_file(folder, OURS, "jane", "kube-apiserver.example"),
        "no name": client_file(folder, OURS, ""),
        "a server's": client_file(folder, OURS, "kube-apiserver", use=ExtendedKeyUsageOID.SERVER_AUTH),
        "expired": client_file(folder, OURS, "kube-apiserver", ends=-DAY),
        "of another CA": client_file(folder, OTHERS, "kube-apiserver"),
    }
    names = ("--client-name", "kube-apiserver", "--client-name", "api.example")
    with serving("--state", str(state), "--client-ca", str(file), *names) as server:
        yield Guarded(server, file, clients)


REFUSED = {
    "": (401, {"error": NONE}),
    "wrong name": (
        401,
        {"error": "client certificate: jane, kube-apiserver.example: is none of the names of --client-name"},
    ),
    "no name": (401, {"error": "client certificate: it has no name: is none of the names of --client-name"}),
}


@pytest.mark.parametrize("version", VERSIONS)
class TestWhoMaySendReviews:
    @pytest.mark.parametrize("client", ["right", "right by a DNS name"])
    @pytest.mark.parametrize("path", ["/mutate", "/validate"])
    def test_the_api_server(self, guarded: Guarded, client: str, path: str, version: ssl.TLSVersion) -> None:
        status, answer = guarded.ask("POST", path, client, version)
        assert (status, answer["kind"]) == (200, "AdmissionReview")

    @pytest.mark.parametrize("client", REFUSED)
    @pytest.mark.parametrize("path", ["/mutate", "/validate"])
    def test_nobody_else(self, guarded: Guarded, client: str, path: str, version: ssl.TLSVersion) -> None:
        assert guarded.ask("POST", path, client, version) == REFUSED[client]

    @pytest.mark.parametrize("client", ["a server's", "expired", "of another CA"])
    def test_what_the_ca_does_not_vouch_for_ends_the_handshake(
        self, guarded: Guarded, client: str, version: ssl.TLSVersion
    ) -> None:
        assert guarded.ask("POST", "/validate", client, version)[0] == 0
        assert guarded.ask("GET", "/healthz", client, version)[0] == 0

    @pytest.mark.parametrize("client", ["", "wrong name", "right"])
    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/version"])
    def test_everybody_may_look(self, guarded: Guarded, client: str, path: str, version: ssl.TLSVersion) -> None:
        assert guarded.ask("GET", path, client, version)[0] == 200

    def test_what_is_spoken_is_as_ever(self, guarded: Guarded, version: ssl.TLSVersion) -> None:
        plain = socket.create_connection(("127.0.0.1", guarded.server.port), timeout=PATIENCE)
        with plain, guarded.context("right", version).wrap_socket(plain, server_hostname="localhost") as secure:
            assert secure.selected_alpn_protocol() == "http/1.1"

    def test_a_session_ends_with_its_ca(self, guarded: Guarded, version: ssl.TLSVersion) -> None:
        context = guarded.context("right", version)
        status, _, session = guarded.post(context, None)
        assert (status, session is not None) == (200, True)
        assert guarded.post(context, session)[:2] == (200, True)
        guarded.trust(OTHERS)
        try:
            # What it came by then must not count now; and without a session it is refused.
            without = guarded.context("", version)
            assert guarded.post(without, None)[:2] == (401, False)
            with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
                guarded.post(context, session)
            assert guarded.ask("POST", "/validate", "right", version)[0] == 0
            assert guarded.ask("POST", "/validate", "of another CA", version)[0] == 200
        finally:
            guarded.trust(OURS)
        assert guarded.ask("POST", "/validate", "right", version)[0] == 200


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_old_versions_of_tls(guarded: Guarded) -> None:
    context = guarded.context("right")
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        guarded.post(context, None)


def test_a_broken_file_leaves_the_last_good_ca(guarded: Guarded) -> None:
    guarded.file.write_bytes(b"no PEM")
    (line,) = until(lambda: guarded.server.logged("client CA file is broken, the last good one is trusted"))
    error = f"{guarded.file}: holds no certificate that can be read; give CA certificates in PEM"
    assert line["error"] == error
    status, ready = guarded.ask("GET", "/readyz", "", ssl.TLSVersion.TLSv1_3)
    assert (status, ready["clients"]) == (200, {"certificate": "required", "error": error})
    with guarded.server.client() as client:
        assert "floorkeeper_certificate_reload_failed 1.0" in client.get("/metrics").text
    assert guarded.ask("POST", "/validate", "right", ssl.TLSVersion.TLSv1_3)[0] == 200
    assert guarded.ask("POST", "/validate", "", ssl.TLSVersion.TLSv1_3)[0] == 401
    guarded.trust(OURS)
    with guarded.server.client() as client:
        assert client.get("/readyz").json()["clients"]["error"] == ""
        assert "floorkeeper_certificate_reload_failed 0.0" in client.get("/metrics").text


def test_refusals_are_counted_and_logged(guarded: Guarded) -> None:
    guarded.ask("POST", "/mutate", "", ssl.TLSVersion.TLSv1_3)
    expected = {"level": "warning", "webhook": "mutate", "status": 401, "error": NONE}
    until(lambda: [line for line in guarded.server.logged("request refused") if expected.items() <= line.items()])
    with guarded.server.client() as client:
        page = client.get("/metrics").text
    counted = 'floorkeeper_requests_total{kind="other",operation="unknown",verdict="unauthenticated",webhook="mutate"}'
    assert counted in page


def test_a_connection_that_is_kept_keeps_who_it_is(guarded: Guarded) -> None:
    """Many requests on one connection, and the pair of the server stays what it was."""
    with httpx.Client(verify=guarded.context("right"), trust_env=False, timeout=PATIENCE) as client:
        for _ in range(3):
            answer = client.post(
                f"{guarded.server.url}/validate", content=REVIEW, headers={"content-type": "application/json"}
            )
            assert answer.status_code == 200


def test_any_certificate_of_the_ca_without_names(state: Path, tmp_path: Path) -> None:
    """The file may hold several CAs, and what another CA signed."""
    (tmp_path / "ca.crt").write_bytes(pem(OTHERS.certificate) + b"a comment\n" + pem(OURS.certificate))
    clients = {"jane": client_file(tmp_path, OURS, "jane"), "joe": client_file(tmp_path, OTHERS, "joe")}
    with serving("--state", str(state), "--client-ca", str(tmp_path / "ca.crt")) as server:
        guarded = Guarded(server, tmp_path / "ca.crt", clients)
        for client in clients:
            assert guarded.ask("POST", "/validate", client, ssl.TLSVersion.TLSv1_3)[0] == 200
        assert guarded.ask("POST", "/validate", "", ssl.TLSVersion.TLSv1_3) == REFUSED[""]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "holds no certificate that can be read; give CA certificates in PEM"),
        (key_pem(ec.generate_private_key(ec.SECP256R1())), "holds no certificate that can be read; give CA"),
    ],
)
def test_nothing_to_trust_at_the_start(state: Path, tmp_path: Path, content: bytes, error: str) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(content)
    process = run("serve", "--port", "0", "--state", str(state), "--client-ca", str(file))
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert f"floorkeeper: {file}: {error}" in said
    assert "PRIVATE" not in said
