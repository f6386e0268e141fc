"""What ./scripts/run shows, and that it leaves nothing behind."""

from __future__ import annotations

import base64
import copy
import json
import os
import pty
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.quickstart import __main__ as quickstart
from scripts.quickstart.apiserver import ApiServer, BadAnswer
from scripts.quickstart.certificate import CertificateFiles, write_certificate
from scripts.quickstart.example import BadExample, Example, read_example, read_examples
from scripts.quickstart.patch import CannotPatch, patched
from scripts.quickstart.readme import Run, run_quickstart
from scripts.quickstart.reload import Reloads
from scripts.quickstart.server import HOST, Client, Server, serving
from scripts.quickstart.signals import Signals
from scripts.quickstart.trial import tried
from tests import rfc6902
from tests.cluster.controlplane import Cluster, running_cluster, until
from webhook.check.defaults import filled_in
from webhook.kube.kinds import DEPLOYMENT
from webhook.kube.names import MANAGED_LABEL
from webhook.policy import read_policy
from webhook.report import Word, denial_text
from webhook.scope import webhook_configurations
from webhook.server.reload import RENDER_AGAIN

ROOT = Path(__file__).parents[1]
EXAMPLES = read_examples(ROOT / quickstart.WORKLOADS)
POLICY = ROOT / quickstart.POLICY
COMMAND = [sys.executable, "-m", "scripts.quickstart"]


def documents(folder: Path) -> list[dict[str, Any]]:
    return [value for path in sorted(folder.glob("*.yaml")) for value in yaml.safe_load_all(path.read_text()) if value]


CLUSTER = documents(ROOT / quickstart.CLUSTER)


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [value for value in CLUSTER if value["kind"] == kind]


class TestExamples:
    def test_cluster_is_what_the_introduction_says(self) -> None:
        gpus = sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in of_kind("Node"))
        floors = [
            resource["nominalQuota"]
            for queue in of_kind("ClusterQueue")
            for group in queue["spec"]["resourceGroups"]
            for flavor in group["flavors"]
            for resource in flavor["resources"]
            if resource["name"] == "nvidia.com/gpu"
        ]
        assert (gpus, floors) == (10, [5, 5])
        assert "10 GPUs, two floors of 5, and a gateway without GPUs" in quickstart.INTRODUCTION
        assert [value["metadata"]["labels"] for value in of_kind("Namespace")] == [{MANAGED_LABEL: "true"}]
        assert [value["spec"]["replicas"] for value in of_kind("Deployment")] == [1]

    def test_they_tell_of_every_verdict(self) -> None:
        assert [example.announced for example in EXAMPLES[:3]] == [Word.PATCHED, Word.PATCHED, Word.ALLOWED]
        assert {example.announced for example in EXAMPLES[3:]} == {Word.DENIED}

    def test_every_first_line_fits_a_screen(self) -> None:
        for example in EXAMPLES:
            assert len(example.about) <= 100, example.path
            assert example.about.endswith("."), example.path

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("kind: Pod\n", "must begin with '# patched or allowed or denied: what it shows'"),
            ("# broken: x\nkind: Pod\n", "must begin with '# patched or allowed or denied: what it shows'"),
            ("# denied: x\nkind: Pod\n", "must be an object with apiVersion, kind and metadata"),
            ("# denied: x\na: 1\n---\nb: 1\n", "is not one YAML document: expected a single document"),
        ],
    )
    def test_what_is_no_example(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "x.yaml"
        path.write_text(text)
        with pytest.raises(BadExample, match=re.escape(f"{path}: {message}")):
            read_example(path)

    def test_empty_folder(self, tmp_path: Path) -> None:
        with pytest.raises(BadExample, match="holds no examples"):
            read_examples(tmp_path)


class TestPatch:
    VALUE: dict[str, Any] = {"a": {"b/c": 1}, "list": [{"x": 1}]}  # noqa: RUF012

    @pytest.mark.parametrize(
        "operation",
        [
            {"op": "add", "path": "/a/d~1e", "value": {"f": 1}},
            {"op": "replace", "path": "/a/b~1c", "value": 2},
            {"op": "add", "path": "/list/0/y", "value": 2},
        ],
    )
    def test_as_the_standard_says(self, operation: dict[str, Any]) -> None:
        before = copy.deepcopy(self.VALUE)
        assert patched(self.VALUE, [operation]) == rfc6902.applied(self.VALUE, [operation])
        assert before == self.VALUE

    @pytest.mark.parametrize(
        ("op", "path"),
        [("replace", "/a/z"), ("add", "/z/y"), ("add", "/list/7/x"), ("add", "/list/0"), ("remove", "/a/b~1c")],
    )
    def test_what_cannot_be_applied(self, op: str, path: str) -> None:
        with pytest.raises(CannotPatch):
            patched(self.VALUE, [{"op": op, "path": path, "value": 1}])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return write_certificate(tmp_path_factory.mktemp("certificate"), HOST)


@pytest.fixture(scope="module")
def server(files: CertificateFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "log"
    with serving(0, ROOT / quickstart.CLUSTER, POLICY, files, log, Signals()) as server:
        yield server


@pytest.fixture(scope="module")
def api_server(server: Server) -> ApiServer:
    return ApiServer(server.client, webhook_configurations(read_policy(POLICY)))


class TestApiServer:
    def test_patched(self, api_server: ApiServer) -> None:
        example = EXAMPLES[0]
        created = api_server.create(example.value)
        assert created.sent == filled_in(DEPLOYMENT, example.value)
        assert created.stored != created.sent
        assert created.denial is None
        assert len(created.warnings) == 2
        # What is patched once is right from then on.
        again = api_server.create(created.stored)
        assert (again.stored, again.warnings, again.denial) == (created.stored, (), None)

    @pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.path.stem)
    def test_one_thing_is_wrong_with_each_mistake(self, api_server: ApiServer, example: Example) -> None:
        created = api_server.create(example.value)
        assert (created.denial is not None) == (example.announced is Word.DENIED)
        if created.denial is not None:
            assert created.warnings == ()
            assert "\n" not in created.denial.message

    def test_a_kind_that_no_webhook_is_asked_about(self, api_server: ApiServer) -> None:
        with pytest.raises(BadAnswer, match="v1 Service: Floorkeeper judges no such kind"):
            api_server.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}})


class TestReloads:
    """A policy that is edited while the server serves."""

    def test_what_is_told(self, files: CertificateFiles, tmp_path: Path) -> None:
        policy = tmp_path / "policy.yaml"
        before = POLICY.read_text()
        policy.write_text(before)
        examples = [example for example in EXAMPLES if "limit" in example.path.stem or "gateway" in example.path.stem]
        with serving(0, ROOT / quickstart.CLUSTER, policy, files, tmp_path / "log", Signals()) as server:
            api_server = ApiServer(server.client, webhook_configurations(read_policy(policy)))
            reloads = Reloads(server, api_server, examples, [tried(example, api_server).word for example in examples])

            def told(text: str) -> list[str]:
                """What is told once the file holds this."""
                policy.write_text(text)
                return until("it is told", lambda: list(reloads.news()), 20)

            assert list(reloads.news()) == []
            assert told(f"{before}gpuRequests: fill\n") == [
                "",
                "policy read again: 1 of 2 verdicts changed",
                f"  {examples[1].path}: was denied, is patched",
            ]
            assert told(f"{before}gpuRequests: fill\ninject: always\n") == [
                "",
                "policy read again: no verdict changed",
            ]
            assert told(f"{before}rule: {{}}\ninject: never\n") == [
                "",
                "policy refused, the last good one stays in force:",
                f"  {policy}:34: rule: unknown key; did you mean rules?",
                f"  {policy}:35: inject: must be onRollout or always, is 'never'; write one of these",
            ]
            assert told(f"{before}gpuRequests: fill\ninject: always\n") == [
                "",
                "policy file is whole again, and as before",
            ]
            news = told(f"{before}managedNamespaces: {{matchLabels: {{team: a}}}}\n")
            news += until("the rest is told", lambda: list(reloads.news()), 20) if len(news) < 4 else []
            assert news == [
                "",
                "policy read again: 1 of 2 verdicts changed",
                f"  {examples[1].path}: was patched, is allowed",
                f"  {RENDER_AGAIN}",
            ]


def test_another_certificate_is_not_trusted(server: Server, tmp_path: Path) -> None:
    client = Client(server.client.port, write_certificate(tmp_path, HOST).certificate)
    with pytest.raises(ssl.SSLCertVerificationError):
        client.get("/readyz")
    client.close()


def test_key_is_ours_alone(files: CertificateFiles) -> None:
    assert files.key.stat().st_mode & 0o077 == 0


@pytest.fixture(scope="module")
def run() -> Run:
    return run_quickstart()


class TestRun:
    """The command as a process."""

    def test_ctrl_c_ends_it_well(self, run: Run) -> None:
        assert run.exit_code == 0
        assert run.output.endswith("\nstopped\n")

    def test_every_example_is_shown(self, run: Run) -> None:
        for example in EXAMPLES:
            name = f"{example.value['kind']}/{example.value['metadata']['name']}"
            start = f"{example.announced} ── {example.path.relative_to(ROOT)} ─"
            assert re.search(f"^{re.escape(start)}─*\n{re.escape(name)}\n", run.output, re.MULTILINE)
        assert "11 examples: 2 patched, 1 allowed, 8 denied; all as their files announce." in run.output

    def test_it_is_readable(self, run: Run) -> None:
        assert max(map(len, run.output.splitlines())) <= 100
        assert "\x1b" not in run.output

    def test_a_changed_policy_shows_at_once(self, run: Run) -> None:
        assert re.fullmatch(
            r"""
policy read again: 1 of 11 verdicts changed
  examples/workloads/04-limit-only\.yaml: was denied, is patched

policy refused, the last good one stays in force:
  examples/policy\.yaml:\d+: gpuRequests: must be require or fill, is 'full'; write one of these
""",
            run.changes,
        )

    def test_its_metrics_are_of_this_run(self, run: Run) -> None:
        assert 'kind="LocalQueue",operation="CREATE",verdict="denied",webhook="validate"} 1.0' in run.metrics

    def test_nothing_is_left(self, run: Run) -> None:
        match = re.search(r"--cacert (\S+) https://127\.0\.0\.1:(\d+)/", run.output)
        assert match is not None
        assert not Path(match[1]).parent.exists()
        with socket.socket() as probe:
            assert probe.connect_ex((HOST, int(match[2]))) != 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_signals(self, number: signal.Signals) -> None:
        with started("--port=0") as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.rstrip().endswith("/metrics"):
                    break
            process.send_signal(number)
            assert process.stdout.read() == "\nstopped\n"
            assert process.wait(20) == 0

    def test_signal_while_it_starts(self) -> None:
        with started("--port=0") as process:
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) in (0, 128 + signal.SIGTERM, -signal.SIGTERM)

    def test_reader_that_goes_away(self) -> None:
        with started("--once", "--port=0") as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(20) == 1
            assert process.stderr is not None
            assert process.stderr.read() == ""

    def test_port_in_use(self) -> None:
        with socket.socket() as holder:
            holder.bind((HOST, 0))
            holder.listen()
            port = holder.getsockname()[1]
            result = finished("--once", f"--port={port}")
        assert result.returncode == 1
        assert result.stdout == ""
        assert result.stderr == (
            "scripts/run: the server did not start:\n"
            f"  floorkeeper: cannot listen on 127.0.0.1:{port}: Address already in use\n"
            "Choose another port: ./scripts/run --port N (0 is any free one)\n"
        )

    @pytest.mark.parametrize("port", ["-1", "65536", "http"])
    def test_no_port(self, port: str) -> None:
        result = finished("--port", port) if port != "-1" else finished("--port=-1")
        assert result.returncode == 2
        assert f"must be a number from 0 (any free port) to 65535, is {port}" in result.stderr


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, *words], cwd=ROOT, stdout=pipe, stderr=pipe, encoding="utf-8") as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def finished(
    *words: str, folder: Path = ROOT, command: list[str] = COMMAND, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *words],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


class TestChangedExamples:
    """In a folder of its own, for it is the present folder's examples that are served and sent."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
        return tmp_path

    def run(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return finished("--once", "--port=0", *words, folder=folder, PYTHONPATH=str(ROOT))

    def test_as_announced(self, folder: Path) -> None:
        assert self.run(folder).returncode == 0

    def test_not_as_announced(self, folder: Path) -> None:
        path = folder / quickstart.WORKLOADS / "01-model-a.yaml"
        path.write_text(path.read_text().replace("# patched:", "# denied:", 1))
        result = self.run(folder)
        assert result.returncode == 1
        assert result.stdout.endswith(
            "11 examples: 2 patched, 1 allowed, 8 denied; not all as their files announce.\n"
            "examples/workloads/01-model-a.yaml announces denied, and was patched\n"
        )

    def test_broken_policy(self, folder: Path) -> None:
        path = folder / quickstart.POLICY
        path.write_text(path.read_text().replace("\nqueues:", "\nqueue:"))
        result = self.run(folder)
        assert (result.returncode, result.stdout) == (1, "")
        assert re.fullmatch(
            "scripts/run: the server did not start:\n"
            r"  floorkeeper: examples/policy\.yaml:\d+: queue: unknown key; did you mean queues\?\n",
            result.stderr,
        )

    def test_broken_example(self, folder: Path) -> None:
        (folder / quickstart.WORKLOADS / "12-new.yaml").write_text("kind: Pod\n")
        result = self.run(folder)
        assert result.returncode == 1
        assert result.stderr.startswith("scripts/run: examples/workloads/12-new.yaml: must begin with")


class TestTerminal:
    def test_colours_and_width(self) -> None:
        shown = on_terminal(80)
        assert "\x1b[1;33mpatched\x1b[0m" in shown
        assert "\x1b[1;31mdenied\x1b[0m" in shown
        assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines())) == 80

    def test_no_wider_than_reads_well(self) -> None:
        assert max(map(len, on_terminal(200, NO_COLOR="1").splitlines())) == 100

    @pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
    def test_no_colours(self, name: str, value: str) -> None:
        assert "\x1b" not in on_terminal(100, **{name: value})


def on_terminal(columns: int, **environment: str) -> str:
    """What a run writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    clean = {name: text for name, text in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [*COMMAND, "--once", "--port=0"],
        cwd=ROOT,
        stdout=theirs,
        env={**clean, "TERM": "xterm-256color", "COLUMNS": str(columns), **environment},
    )
    os.close(theirs)
    chunks = []
    try:
        while chunk := os.read(ours, 65536):
            chunks.append(chunk)
    except OSError:  # Linux says so when the other side is closed
        pass
    os.close(ours)
    assert process.wait(20) == 0
    return b"".join(chunks).decode()


class TestScript:
    """scripts/run itself."""

    def test_help_from_anywhere_and_through_a_link(self, tmp_path: Path) -> None:
        link = tmp_path / "run"
        link.symlink_to(ROOT / "scripts" / "run")
        result = finished("--help", folder=tmp_path, command=[str(link)])
        assert result.returncode == 0
        assert result.stdout.startswith("Sets up what is missing, serves the example cluster")
        assert "--port N" in result.stdout

    def test_whole_from_anywhere_and_through_a_link(self, tmp_path: Path) -> None:
        # A tree of its own, for a set-up that is not up to date would begin by removing this very environment.
        tree = tmp_path / "tree"
        (tree / "scripts").mkdir(parents=True)
        for name in ("run", "environment"):
            shutil.copy(ROOT / "scripts" / name, tree / "scripts" / name)
        (tree / "scripts" / "quickstart").symlink_to(ROOT / "scripts" / "quickstart")
        for name in ("webhook", "examples", "README.md", "LICENSE", "pyproject.toml", "requirements.lock", ".venv"):
            (tree / name).symlink_to(ROOT / name)
        link = tmp_path / "run"
        link.symlink_to(tree / "scripts" / "run")
        result = subprocess.run(
            [link, "--once", "--port", "0"], cwd="/", capture_output=True, encoding="utf-8", timeout=600, check=False
        )
        assert result.returncode == 0, result.stderr
        assert "11 examples: 2 patched" in result.stdout


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        objects = [value for value in CLUSTER if value["kind"] != "Node"]
        # As anybody would: each file comes after those that it needs.
        cluster("apply", "-f", str(ROOT / quickstart.CLUSTER))
        try:
            yield cluster
        finally:
            cluster("delete", "-f", "-", "--wait=false", "--ignore-not-found", input=yaml.safe_dump_all(objects))


@pytest.mark.cluster
class TestRealCluster:
    """kubectl, on a real API server with Kueue, says word for word what ./scripts/run says."""

    def test_examples_are_valid(self, kubectl: Cluster) -> None:
        for example in EXAMPLES:
            kubectl("create", "--dry-run=server", "-f", str(example.path))

    def test_same_words(self, kubectl: Cluster, server: Server, files: CertificateFiles) -> None:
        configurations = webhook_configurations(read_policy(POLICY))
        api_server = ApiServer(server.client, configurations)
        with registered(kubectl, configurations, server.url, files.certificate):
            for example in EXAMPLES:
                source = str(example.path)
                created = api_server.create(example.value)
                expected = [f"Warning: {text}" for text in created.warnings]
                if created.denial is not None:
                    expected.append(denial_text(source, created.denial))
                result = kubectl("apply", "--dry-run=server", "-f", source, "-o", "json", check=False)
                assert result.stderr.splitlines() == expected
                assert (result.returncode == 0) == (created.denial is None)
                if created.denial is None:
                    stored = json.loads(result.stdout)["spec"]
                    assert stored["strategy"] == created.stored["spec"]["strategy"]
                    assert (
                        stored["template"]["metadata"]["labels"]
                        == (created.stored["spec"]["template"]["metadata"]["labels"])
                    )


@contextmanager
def registered(kubectl: Cluster, configurations: list[dict[str, Any]], url: str, certificate: Path) -> Iterator[None]:
    """The webhooks, at the URL of a server on this machine, in force."""
    live = copy.deepcopy(configurations)
    bundle = base64.b64encode(certificate.read_bytes()).decode()
    for configuration in live:
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": f"{url}{path}", "caBundle": bundle}
    kubectl.apply(*live)
    try:
        denied = next(str(example.path) for example in EXAMPLES if example.announced is Word.DENIED)
        until(
            "the API server calls",
            lambda: kubectl("create", "--dry-run=server", "-f", denied, check=False).returncode,
            20,
        )
        yield
    finally:
        kubectl("delete", "-f", "-", "--ignore-not-found", input=yaml.safe_dump_all(live))
