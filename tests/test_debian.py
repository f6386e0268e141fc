"""scripts/debian, without asking Debian: what is on PATH, what was fetched before, and what it says if all fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.controlplane.debian import find_library
from scripts.controlplane.progress import Progress
from tests.monitoring import ROOT


def debian(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run with a PATH of one folder, and a cache folder of its own."""
    environment = os.environ | {"PATH": str(folder / "bin"), "FLOORKEEPER_CACHE": str(folder / "cache")}
    command = [sys.executable, str(ROOT / "scripts" / "debian"), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def write_program(file: Path, *lines: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(("#!/bin/sh", *lines, "")))
    file.chmod(0o755)
    return file


def test_what_is_on_path_comes_first(tmp_path: Path) -> None:
    write_program(tmp_path / "cache" / "debian" / "prometheus_2_all" / "usr" / "bin" / "promtool")
    program = write_program(tmp_path / "bin" / "promtool")
    result = debian(tmp_path, "prometheus", "promtool")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{program}\n", "")


def test_what_was_fetched_is_not_fetched_again(tmp_path: Path) -> None:
    program = write_program(tmp_path / "cache" / "debian" / "prometheus_2_all" / "usr" / "bin" / "promtool")
    result = debian(tmp_path, "prometheus", "promtool")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{program}\n", "")


def test_a_package_without_the_program(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "debian"
    write_program(cache / "prometheus_2_all" / "usr" / "bin" / "promtool")
    result = debian(tmp_path, "prometheus", "amtool")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"debian: error: package prometheus has no program amtool; look below {cache}\n"


def test_not_on_debian(tmp_path: Path) -> None:
    result = debian(tmp_path, "prometheus", "promtool")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "debian: error: promtool is not on PATH, and Debian's package prometheus cannot be had: "
        "apt-get or dpkg is not on PATH\n"
        "  put promtool on PATH; on Debian and Ubuntu, as root: apt-get install prometheus\n"
    )


def test_debian_cannot_be_reached(tmp_path: Path) -> None:
    write_program(tmp_path / "bin" / "apt-get", 'echo "E: nobody answers" >&2', "exit 100")
    write_program(tmp_path / "bin" / "dpkg")
    result = debian(tmp_path, "prometheus", "promtool")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-2:] == [
        "debian: error: promtool is not on PATH, and Debian's package prometheus cannot be had: "
        "apt-get says: E: nobody answers",
        "  put promtool on PATH; on Debian and Ubuntu, as root: apt-get install prometheus",
    ]
    assert not list((tmp_path / "cache").rglob("*promtool*"))


def test_the_folder_of_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOORKEEPER_CACHE", str(tmp_path))
    file = write_program(tmp_path / "debian" / "libmoon_1_all" / "usr" / "lib" / "here" / "libmoon.so.2")
    assert find_library("libmoon", Progress()) == file.parent
