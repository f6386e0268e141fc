"""How the tests come by their browser: pinned by hash, kept in the cache, and said in plain words if it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.controlplane.chromium import VERSION, find_chromium
from scripts.controlplane.progress import ClusterError, Progress


class Silent(Progress):
    def say(self, message: str) -> None:
        """To nobody."""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("FLOORKEEPER_CACHE", str(tmp_path / "cache"))
    return folder


def program(folder: Path, name: str, script: str = "") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_one_on_path_comes_first(programs: Path) -> None:
    found = program(programs, "chromium")
    assert find_chromium(Silent()) == (found, {})


def test_one_in_the_cache_comes_next(programs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "chromium" / VERSION
    folder.mkdir(parents=True)
    found, more = find_chromium(Silent())
    assert found == folder / "chromium"
    assert more["FONTCONFIG_FILE"] == str(folder / "fonts.conf")
    assert more["LD_LIBRARY_PATH"].startswith(str(folder / "lib"))


def test_without_node_it_says_what_to_do(programs: Path) -> None:
    program(programs, "npm")
    with pytest.raises(
        ClusterError, match=r"^there is no node to get a browser with: install Node.js, or put chromium on"
    ):
        find_chromium(Silent())


def test_what_npm_says_is_told(programs: Path) -> None:
    program(programs, "node")
    program(programs, "npm", "echo no such version >&2; exit 1")
    with pytest.raises(ClusterError, match=r"^npm cannot get @sparticuz/chromium .*: no such version$"):
        find_chromium(Silent())


def test_an_archive_that_has_changed_is_refused(programs: Path, tmp_path: Path) -> None:
    program(programs, "node")
    program(programs, "npm", "echo changed > chromium.tgz")
    with pytest.raises(ClusterError, match="is not what it was: its SHA-512 is "):
        find_chromium(Silent())
    assert [path.name for path in (tmp_path / "cache" / "chromium").iterdir()] == [f"{VERSION}.lock"]
