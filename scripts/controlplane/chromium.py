"""A headless Chromium out of an npm package, pinned by hash and unpacked into the cache, never into the repository."""

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from .cache import cache_folder, locked
from .progress import ClusterError, Progress

PACKAGE = "@sparticuz/chromium"
VERSION = "153.0.0"
SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
"""Of the package's archive, as the registry's `integrity` spells it."""

_ON_PATH = ("chrome-headless-shell", "chromium", "google-chrome")
_PARTS = ("chromium", "al2023.tar", "fonts.tar")  # the browser, libraries that few machines have, fonts
_UNPACK = (
    "const fs = require('fs'), zlib = require('zlib');"
    "for (const name of process.argv.slice(1))"
    " fs.writeFileSync(`root/${name}`, zlib.brotliDecompressSync(fs.readFileSync(`package/bin/${name}.br`)));"
)
"""For node, which comes with npm and knows the package's compression."""

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir></fontconfig>
"""


def find_chromium(progress: Progress) -> tuple[Path, dict[str, str]]:
    """The program, and what its environment needs on top. One on PATH comes first. Raises ClusterError."""
    for name in _ON_PATH:
        on_path = shutil.which(name)
        if on_path is not None:
            return Path(on_path), {}
    folder = cache_folder() / "chromium" / VERSION
    with locked(folder.parent / f"{VERSION}.lock", progress, "a download of Chromium"):
        if not folder.exists():
            _fetch(folder, progress)
    libraries = os.pathsep.join(filter(None, (str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH"))))
    return folder / "chromium", {"LD_LIBRARY_PATH": libraries, "FONTCONFIG_FILE": str(folder / "fonts.conf")}


def _fetch(folder: Path, progress: Progress) -> None:
    for program in ("npm", "node"):
        if shutil.which(program) is None:
            raise ClusterError(f"there is no {program} to get a browser with: install Node.js, or put chromium on PATH")
    progress.say(f"fetching {PACKAGE} {VERSION} into {folder}")
    with TemporaryDirectory(dir=folder.parent) as name:
        place, root = Path(name), Path(name) / "root"
        root.mkdir()
        packed = ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"]
        answer = subprocess.run(packed, cwd=place, capture_output=True, text=True, timeout=900)
        if answer.returncode != 0:
            raise ClusterError(f"npm cannot get {PACKAGE} {VERSION}: {answer.stderr.strip()[-500:]}")
        (archive,) = place.glob("*.tgz")
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != SHA512:
            raise ClusterError(f"{PACKAGE} {VERSION} is not what it was: its SHA-512 is {found}, must be {SHA512}")
        _extract(archive, place)
        subprocess.run(["node", "-e", _UNPACK, *_PARTS], cwd=place, check=True, timeout=300)
        for part in _PARTS[1:]:
            _extract(root / part, root)
            (root / part).unlink()
        (root / _PARTS[0]).chmod(0o755)
        (root / "fonts.conf").write_text(_FONTS.format(folder=folder))
        root.replace(folder)


def _extract(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as found:
        found.extractall(folder, filter="data")
