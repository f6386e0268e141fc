"""Certificates: made at start, or from files that are swapped under a running server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import ssl
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cases import FIXTURES
from tests.serving import PATIENCE, Serving, serving, until
from webhook.server.authority import SERVICE, Pair, self_signed_pair
from webhook.server.certificates import CertificateError, OwnCertificate, pem_file
from webhook.server.files import FileCertificate, read_pair

NOW = datetime.now(UTC)


def rsa_pair() -> Pair:
    """A pair of the older kind of key, which is what most tools make."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "rsa")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    return Pair(certificate.public_bytes(encoding), key.private_bytes(encoding, form, serialization.NoEncryption()))


def encrypted(pair: Pair) -> Pair:
    key = serialization.load_pem_private_key(pair.key, None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    return Pair(pair.certificate, key.private_bytes(serialization.Encoding.PEM, form, encryption))


def fingerprint(pair: Pair) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pair.certificate.decode())).hexdigest()


class Mounted:
    """A Secret as the kubelet mounts it: links to a folder that is swapped by renaming one link."""

    def __init__(self, folder: Path, pair: Pair) -> None:
        self.folder = folder
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"
        self._count = 0
        self.swap(pair)
        for path in (self.certificate, self.key):
            path.symlink_to(f"..data/{path.name}")

    def swap(self, pair: Pair) -> None:
        self._count += 1
        new = self.folder / f"..{self._count}"
        new.mkdir()
        (new / "tls.crt").write_bytes(pair.certificate)
        (new / "tls.key").write_bytes(pair.key)
        (self.folder / "..tmp").symlink_to(new.name)
        (self.folder / "..tmp").rename(self.folder / "..data")


@pytest.fixture(scope="module")
def pairs() -> tuple[Pair, Pair]:
    return rsa_pair(), self_signed_pair("127.0.0.1")


def refreshed(certificate: FileCertificate) -> bool:
    return asyncio.run(certificate.refresh())


class TestSelfSigned:
    def test_who_it_speaks_for(self) -> None:
        leaf = x509.load_pem_x509_certificate(self_signed_pair("floor.example.org").certificate)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["localhost", SERVICE, "floor.example.org"]
        assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["127.0.0.1", "::1"]
        assert leaf.not_valid_after_utc - NOW > timedelta(days=364)

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::", "bücher.example"])
    def test_any_host(self, host: str) -> None:
        state = OwnCertificate(host).state()
        assert (state.source, state.error, state.pending, state.published) == ("self-signed", "", "", None)

    # Only Linux has files in memory.
    @pytest.mark.parametrize("in_memory", [False, True] if hasattr(os, "memfd_create") else [False])
    def test_its_key_is_nobody_elses(self, in_memory: bool) -> None:
        with pem_file(b"key", in_memory) as path:
            assert Path(path).read_bytes() == b"key"
            assert in_memory or stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert path.startswith("/proc/self/fd/") == in_memory
        assert not os.path.exists(path)


class TestFiles:
    def test_a_new_pair(self, tmp_path: Path, pairs: tuple[Pair, Pair]) -> None:
        mounted = Mounted(tmp_path, pairs[0])
        served = FileCertificate(mounted.certificate, mounted.key)
        assert (served.state().fingerprint, refreshed(served)) == (fingerprint(pairs[0]), False)
        mounted.swap(pairs[1])
        assert refreshed(served)
        assert (served.state().fingerprint, served.state().error) == (fingerprint(pairs[1]), "")
        assert not refreshed(served)

    def test_a_broken_pair_leaves_the_last_good_one(self, tmp_path: Path, pairs: tuple[Pair, Pair]) -> None:
        good, other = pairs
        mounted = Mounted(tmp_path, good)
        served = FileCertificate(mounted.certificate, mounted.key)
        together = "the certificate and the key cannot be served together: "
        for broken, error in [
            (Pair(other.certificate, good.key), together),
            (Pair(good.certificate, good.key[:500]), together),
            (Pair(b"", b""), together),
            (Pair(good.key, good.key), together),
            (Pair(b"\xff" * 100, good.key), together),
            (encrypted(good), together),
            (
                self_signed_pair("localhost", NOW - timedelta(days=9), timedelta(days=1)),
                f"the new certificate expired at {(NOW - timedelta(days=8)).replace(microsecond=0).isoformat()}",
            ),
        ]:
            mounted.swap(broken)
            assert refreshed(served)
            assert not refreshed(served)
            state = served.state()
            assert (state.error.startswith(error), state.fingerprint) == (True, fingerprint(good)), state.error
        mounted.key.unlink()
        assert (refreshed(served), refreshed(served)) == (True, False)
        assert served.state().error == f"{mounted.key}: No such file or directory"
        mounted.key.symlink_to("..data/tls.key")
        mounted.swap(good)
        assert (refreshed(served), served.state().error) == (True, "")

    def test_an_expired_pair_is_better_than_none(self, tmp_path: Path) -> None:
        old = self_signed_pair("localhost", NOW - timedelta(days=9), timedelta(days=1))
        mounted = Mounted(tmp_path, old)
        served = FileCertificate(mounted.certificate, mounted.key)
        assert served.state().expires < NOW
        mounted.swap(self_signed_pair("localhost", NOW - timedelta(days=8), timedelta(days=1)))
        assert (refreshed(served), served.state().error) == (True, "")

    def test_missing_at_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(CertificateError) as raised:
            FileCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
        assert str(raised.value) == f"{tmp_path}/tls.crt: No such file or directory"


class Stuck:
    """Reads as a network mount does: at once, until it hangs."""

    def __init__(self) -> None:
        self.works = threading.Event()
        self.works.set()
        self.reads = 0

    def __call__(self, certificate: Path, key: Path) -> Pair:
        self.reads += 1
        self.works.wait()
        return read_pair(certificate, key)


class TestHangingFiles:
    def test_are_waited_for_once_and_told(self, tmp_path: Path, pairs: tuple[Pair, Pair]) -> None:
        mounted, stuck = Mounted(tmp_path, pairs[0]), Stuck()
        served = FileCertificate(mounted.certificate, mounted.key, stuck, patience=0.05)
        stuck.works.clear()

        async def refresh_while_it_hangs() -> list[bool]:
            changes = [await served.refresh() for _ in range(3)]
            assert served.state().error == (
                f"{mounted.certificate}: reading it takes longer than 0.05 s; look at the volume that it is on"
            )
            mounted.swap(pairs[1])
            stuck.works.set()
            changes += [await served.refresh(), await served.refresh()]
            return changes

        assert asyncio.run(refresh_while_it_hangs()) == [True, False, False, True, False]
        assert (served.state().error, served.state().fingerprint) == ("", fingerprint(pairs[1]))
        assert stuck.reads == 3, "at the start, while it hung, and after that"

    def test_hold_up_neither_the_policy_nor_the_end(self, tmp_path: Path) -> None:
        """A server whose certificate hangs after the start, in a process of its own."""
        policy = tmp_path / "policy.yaml"
        policy.write_text("apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n")
        (tmp_path / "state").mkdir()
        (tmp_path / "state" / "cluster.yaml").write_text((FIXTURES / "base" / "cluster.yaml").read_text())
        Mounted(tmp_path, self_signed_pair("localhost"))
        command = [sys.executable, "-m", "tests.hanging", str(tmp_path)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            messages = (json.loads(line)["message"] for line in process.stderr)
            try:
                assert "certificate files are broken, the last good pair is served" in messages
                policy.write_text(policy.read_text() + "inject: always\n")
                assert "policy reloaded" in messages
            finally:
                process.send_signal(signal.SIGINT)
            assert "stopped" in messages
            assert process.wait(PATIENCE) == 0


def served_now(server: Serving) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(server.certificate())).hexdigest()


def test_swapped_under_a_steady_stream_of_requests(tmp_path: Path, pairs: tuple[Pair, Pair]) -> None:
    """Nobody's call fails who trusts both certificates; new connections get the new one, kept ones stay."""
    old, new = pairs
    mounted = Mounted(tmp_path, old)
    files = ("--tls-cert", str(mounted.certificate), "--tls-key", str(mounted.key))
    with serving("--state", str(FIXTURES / "base"), *files) as server:
        trusting = server.trusting(old.certificate.decode(), new.certificate.decode())
        url = f"https://localhost:{server.port}/healthz"
        ended, failures, answers = threading.Event(), [], []

        def ask() -> None:
            while not ended.is_set():
                try:
                    answers.append(httpx.get(url, verify=trusting, trust_env=False, timeout=PATIENCE).status_code)
                except httpx.HTTPError as error:
                    failures.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            with httpx.Client(verify=trusting, trust_env=False, timeout=PATIENCE) as kept:
                assert kept.get(url).status_code == 200
                assert served_now(server) == fingerprint(old)
                mounted.swap(Pair(new.certificate, old.key))
                (broken,) = until(lambda: server.logged("certificate files are broken, the last good pair is served"))
                assert served_now(server) == fingerprint(old) == broken["fingerprint"]
                ready = kept.get(f"https://localhost:{server.port}/readyz")
                assert (ready.status_code, ready.json()["certificate"]["error"]) == (200, broken["error"])
                mounted.swap(new)
                until(lambda: served_now(server) == fingerprint(new))
                assert kept.get(url).status_code == 200
                metrics = kept.get(f"https://localhost:{server.port}/metrics").text
            # A client that prefers the old key's type must not get the old certificate either.
            rsa_first = server.trusting(new.certificate.decode())
            rsa_first.maximum_version = ssl.TLSVersion.TLSv1_2
            rsa_first.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256")
            assert httpx.get(url, verify=rsa_first, trust_env=False).status_code == 200
        finally:
            ended.set()
            asking.join()
        assert (failures, set(answers), len(answers) > 10) == ([], {200}, True)
        assert "floorkeeper_certificate_reload_failed 0.0" in metrics
        assert len(until(lambda: server.logged("certificate reloaded"))) == 1
        text = "".join(map(str, server.lines))
        assert "PRIVATE KEY" not in text
