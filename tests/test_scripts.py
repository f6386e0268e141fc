"""The shell scripts: linted, and what they say when something is missing. Docker and kind are not to be had here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.controlplane.debian import find_program
from scripts.controlplane.progress import Progress

ROOT = Path(__file__).parents[1]
KIND_UP = ROOT / "scripts" / "kind-up"
SHELL = re.compile(r"#!.*\b(ba)?sh$|# shellcheck shell=")


def scripts() -> list[Path]:
    places = [*ROOT.glob("scripts/*"), *ROOT.glob(".ci/*"), *ROOT.rglob("webhook/**/*.sh")]
    return [path for path in sorted(places) if path.is_file() and SHELL.match(path.read_text().split("\n")[0])]


def test_shellcheck_is_content() -> None:
    found = scripts()
    assert {"environment", "kind-up", "readme", "run", "test"} <= {path.name for path in found}
    shellcheck = find_program("shellcheck", "shellcheck", Progress())
    command: list[str | Path] = [shellcheck, "--external-sources", "--source-path=SCRIPTDIR", *found]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A PATH without Docker, kind, kubectl and curl."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "cut", "dirname", "env", "grep", "head", "mkdir", "readlink", "sed", "sha256sum", "sort"):
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return folder


def stand_in(folder: Path, name: str, says: str, code: int = 0) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    (folder / name).chmod(0o755)


class TestKindUp:
    def run(self, programs: Path, *words: str) -> tuple[int, str]:
        environment = {"PATH": str(programs), "HOME": "/nonexistent", "FLOORKEEPER_CACHE": str(programs.parent)}
        done = subprocess.run([KIND_UP, *words], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def test_says_what_is_missing(self, programs: Path) -> None:
        assert self.run(programs) == (
            1,
            "kind-up: error: docker is not on PATH: install it, which runs the nodes and builds the image\n",
        )
        stand_in(programs, "docker", "")
        code, said = self.run(programs)
        assert (code, "kind is not on PATH" in said) == (1, True)

    def test_says_what_is_too_old(self, programs: Path) -> None:
        stand_in(programs, "docker", "", 1)
        stand_in(programs, "kind", "kind version 0.9.0")
        stand_in(programs, "kubectl", '{"clientVersion": {"gitVersion": "v1.36.3"}}')
        stand_in(programs, "curl", "")
        assert self.run(programs) == (1, "kind-up: error: kind is 0.9.0, and 0.33.0 or newer is needed\n")
        stand_in(programs, "kind", "kind version 0.33.0")
        assert self.run(programs)[1].startswith("kind-up: error: Docker does not answer: start it")
        stand_in(programs, "kubectl", '{"clientVersion": {"gitVersion": "v1.9.1"}}')
        assert "kubectl is 1.9.1, and 1.35.0 or newer is needed" in self.run(programs)[1]

    def test_takes_no_other_file_than_the_one_it_knows(self, programs: Path) -> None:
        stand_in(programs, "docker", "")
        stand_in(programs, "kind", "kind version 0.33.0")
        stand_in(programs, "kubectl", '{"clientVersion": {"gitVersion": "v1.36.3"}}')
        stand_in(programs, "curl", "")
        [pin] = re.findall(r"CERT_MANAGER_SHA256:-([0-9a-f]{64})}", KIND_UP.read_text())
        downloads = programs.parent / "kind"
        downloads.mkdir()
        (downloads / "cert-manager-v1.20.2.yaml").write_text("kind: Surprise\n")
        code, said = self.run(programs)
        assert code == 1
        assert f"and not\n    {pin}\n" in said
        assert "run: CERT_MANAGER_SHA256=" in said

    def test_help(self, programs: Path) -> None:
        done = subprocess.run([KIND_UP, "--help"], env=os.environ, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("A cluster to try Floorkeeper on")
        assert self.run(programs, "--up") == (2, "kind-up: unknown: --up; see scripts/kind-up --help\n")

    def test_every_download_is_pinned(self) -> None:
        text = KIND_UP.read_text()
        assert re.search(r"^node=\S+:v[\d.]+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
        assert len(re.findall(r"_SHA256:-[0-9a-f]{64}}$", text, re.MULTILINE)) == 2
        assert len(re.findall(r"^fetch ", text, re.MULTILINE)) == len(re.findall("https://", text)) == 2


class TestCluster:
    def test_restart_of_what_is_not_up(self, tmp_path: Path) -> None:
        command: list[str | Path] = [ROOT / "scripts" / "cluster", "restart", tmp_path / "none", "kube-apiserver"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.endswith(f"error: {tmp_path / 'none'} is not up: there is no such folder\n")
