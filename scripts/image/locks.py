"""`python -m scripts.image.locks`: takes out of requirements.lock what the image needs, for its two steps.

build.lock makes the wheel, serve.lock is what is in the image beside it. Both hold the very lines of requirements.lock,
hashes included, so that the image runs what the tests ran.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
PYTHON = "3.13"
"""Of the image."""


def read_locks() -> dict[Path, str]:
    """What each of the files has to hold."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    locked = _read_locked((ROOT / "requirements.lock").read_text())
    wanted = {"serve": project["project"]["dependencies"], "build": project["build-system"]["requires"]}
    return {
        FOLDER / f"{step}.lock": "".join(locked[name] for name in sorted(_closure(requirements)))
        for step, requirements in wanted.items()
    }


def _read_locked(text: str) -> Mapping[str, str]:
    """Name of the package -> its line with the hashes that follow."""
    blocks = re.findall(r"^[^\s#].*\\\n(?:    --hash=.*\n)+", text, re.MULTILINE)
    return {canonicalize_name(block.split("==")[0]): block for block in blocks}


def _closure(requirements: Iterable[str]) -> set[str]:
    """The packages asked for, and those that they need in turn, on the image's Python and on Linux."""
    image = {"python_version": PYTHON, "python_full_version": f"{PYTHON}.0", "extra": ""}
    image |= {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    found: set[str] = set()
    left = [Requirement(text) for text in requirements]
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate(image)):
            found.add(name)
            left += [Requirement(text) for text in requires(name) or ()]
    return found


def main() -> None:
    for path, text in read_locks().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
