"""A program out of a Debian package, without root and without installing it: `scripts/debian PACKAGE PROGRAM`."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from .cache import cache_folder, locked
from .progress import ClusterError, Progress

_PLACES = ("usr/bin", "bin", "usr/sbin", "usr/games")


class _Lines(Progress):
    def say(self, message: str) -> None:
        print(f"debian: {message}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the program's path; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="scripts/debian",
        description="Print the path of a program: the one on PATH, else the one in a Debian package, which is fetched "
        "with apt-get and unpacked into the user's cache folder the first time. Needs no root and installs nothing.",
    )
    parser.add_argument("package", metavar="PACKAGE", help="such as prometheus")
    parser.add_argument("program", metavar="PROGRAM", help="such as promtool")
    arguments = parser.parse_args(argv)
    progress = _Lines()
    try:
        print(find_program(arguments.package, arguments.program, progress))
    except (ClusterError, OSError) as error:
        progress.say(f"error: {error}")
        return 1
    return 0


def find_program(package: str, program: str, progress: Progress) -> Path:
    """The program's path. The folder below the cache is named after the package's version, and kept as it is."""
    on_path = shutil.which(program)
    if on_path is not None:
        return Path(on_path)
    for folder in _unpacked(package, program, progress):
        for place in _PLACES:
            found = folder / place / program
            if os.access(found, os.X_OK):
                return found
    raise ClusterError(f"package {package} has no program {program}; look below {cache_folder() / 'debian'}")


def find_library(package: str, progress: Progress) -> Path:
    """The folder for LD_LIBRARY_PATH that holds the package's libraries, which a program of another one needs."""
    for folder in _unpacked(package, package, progress):
        for found in sorted(folder.glob("usr/lib/**/*.so.*")):
            return found.parent
    raise ClusterError(f"package {package} has no library; look below {cache_folder() / 'debian'}")


def _unpacked(package: str, what: str, progress: Progress) -> list[Path]:
    """Folders of the package's versions, of which one is fetched if there is none."""
    cache = cache_folder() / "debian"
    with locked(cache / "lock", progress, "a download"):
        if not any(cache.glob(f"{package}_*/")):
            _fetch(package, what, cache, progress)
        return sorted(cache.glob(f"{package}_*/"))


def _fetch(package: str, program: str, cache: Path, progress: Progress) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise _failed(package, program, "apt-get or dpkg is not on PATH")
    progress.say(f"{program} is not on PATH: fetching Debian's package {package} into {cache}")
    with TemporaryDirectory(dir=cache) as name:
        folder = Path(name)
        answer = _apt(["download", package], folder)
        if answer.returncode != 0:
            # The system's lists of packages may be missing or out of date, and only root can mend that.
            progress.say("reading the lists of packages")
            lists = [f"--option=Dir::State::Lists={folder}/lists", f"--option=Dir::Cache={folder}"]
            (folder / "lists" / "partial").mkdir(parents=True)
            (folder / "archives" / "partial").mkdir(parents=True)
            answer = _apt([*lists, "update"], folder)
            if answer.returncode == 0:
                answer = _apt([*lists, "download", package], folder)
        if answer.returncode != 0:
            raise _failed(package, program, f"apt-get says: {answer.stderr.strip()}")
        (archive,) = folder.glob("*.deb")
        subprocess.run(["dpkg", "--extract", archive, folder / "root"], check=True)
        (folder / "root").replace(cache / archive.stem)
    progress.say(f"unpacked {archive.stem}")


def _apt(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # As root, apt would fetch as the user _apt, who cannot write into our folder.
    command = ["apt-get", "--quiet=2", "--option=APT::Sandbox::User=root", "--option=Debug::NoLocking=1", *words]
    return subprocess.run(command, cwd=folder, env=os.environ | {"LC_ALL": "C"}, capture_output=True, text=True)


def _failed(package: str, program: str, why: str) -> ClusterError:
    return ClusterError(
        f"{program} is not on PATH, and Debian's package {package} cannot be had: {why}\n"
        f"  put {program} on PATH; on Debian and Ubuntu, as root: apt-get install {package}"
    )
