"""Fixed files on their way out: as a diff that git takes, and into their places."""

from __future__ import annotations

import io
import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.fixing import VARIANTS, fixed, odd_files
from webhook.check.diff import diff_of
from webhook.check.fix import Fixes, write
from webhook.check.inputs import STDIN
from webhook.check.result import Fault, Place


def applied(folder: Path, before: Mapping[str, bytes], diff: str) -> dict[str, bytes]:
    """What `git apply` makes of the files."""
    for name, data in before.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    run = subprocess.run(command, cwd=folder, input=diff.encode("utf-8", "surrogateescape"), capture_output=True)
    assert (run.returncode, run.stderr) == (0, b"")
    return {name: (folder / name).read_bytes() for name in before}


def test_git_applies_the_diff_of_a_fix(tmp_path: Path) -> None:
    before = {
        f"{variant}/{path.name}": vary(path.read_bytes()) for variant, vary in VARIANTS.items() for path in odd_files()
    }
    fixes = fixed(before)
    assert applied(tmp_path, before, diff_of(before, fixes.texts)) == {**before, **fixes.texts}


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "-\n", "\\\n", "\u2028\x85\x0c\n"]), max_size=12)
TEXTS = st.tuples(LINES, st.sampled_from(["", "a", "c\r"])).map(lambda parts: "".join(parts[0]) + parts[1])


@given(before=TEXTS, after=TEXTS)
@settings(max_examples=50, deadline=None)
def test_git_applies_any_diff(tmp_path_factory: pytest.TempPathFactory, before: str, after: str) -> None:
    assume(before and after and before != after)
    old, new = {"f": before.encode()}, {"f": after.encode()}
    assert applied(tmp_path_factory.mktemp("git"), old, diff_of(old, new)) == new


def test_the_diff_is_one_that_people_read() -> None:
    before = {"a.yaml": b"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13", "b.yaml": b"x\n", "c.yaml": b"x\n"}
    after = {"b.yaml": b"x\ny\n", "a.yaml": b"1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n12b\n13", "c.yaml": b"x\n"}
    assert diff_of(before, after) == (
        "--- a/a.yaml\n+++ b/a.yaml\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
        "@@ -10,4 +10,5 @@\n 10\n 11\n 12\n+12b\n 13\n\\ No newline at end of file\n"
        "--- a/b.yaml\n+++ b/b.yaml\n@@ -1,1 +1,2 @@\n x\n+y\n"
    )


NAMES = {
    "f.yaml": "a/f.yaml",
    "./x/../f.yaml": "a/f.yaml",
    f"{Path.cwd()}/x/f.yaml": "a/x/f.yaml",
    "/elsewhere/f.yaml": "a/elsewhere/f.yaml",
    "my file.yaml": "a/my file.yaml\t",
    "größe.yaml": "a/größe.yaml",
    'a"b\\c\n.yaml': '"a/a\\042b\\134c\\012.yaml"',
}


@pytest.mark.parametrize("name", NAMES)
def test_names_in_a_diff(name: str) -> None:
    assert diff_of({name: b"1\n"}, {name: b"2\n"}).splitlines()[0] == f"--- {NAMES[name]}"


def test_git_finds_files_of_unusual_names(tmp_path: Path) -> None:
    before = dict.fromkeys(("my file.yaml", "größe.yaml", 'a"b\\c\n.yaml', "x/<y>.yaml"), b"1\n2")
    after = dict.fromkeys(before, b"1\n3")
    assert applied(tmp_path, before, diff_of(before, after)) == after


def test_files_are_written_where_they_are(tmp_path: Path) -> None:
    real, link, other = tmp_path / "real.yaml", tmp_path / "link.yaml", tmp_path / "other.yaml"
    for path in (real, other):
        path.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    before = {str(link): b"old", str(other): b"old"}
    assert write(Fixes({str(link): b"new"}, []), before, io.BytesIO()) == []
    assert link.is_symlink()
    assert (real.read_bytes(), other.read_bytes()) == (b"new", b"old")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yaml", "other.yaml", "real.yaml"]


def test_a_file_that_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    gone, newer, fine = (str(tmp_path / name) for name in ("gone/f.yaml", "newer.yaml", "fine.yaml"))
    Path(newer).write_bytes(b"newer")
    Path(fine).write_bytes(b"old")
    before = dict.fromkeys((gone, newer, fine), b"old")
    faults = write(Fixes(dict.fromkeys(before, b"new"), []), before, io.BytesIO())
    assert faults == [
        Fault(Place(gone), "cannot be written: No such file or directory; check who may write it"),
        Fault(Place(newer), "is not fixed: it has changed since it was read; run this again"),
    ]
    assert (Path(newer).read_bytes(), Path(fine).read_bytes()) == (b"newer", b"new")
    assert sorted(os.listdir(tmp_path)) == ["fine.yaml", "newer.yaml"]


@pytest.mark.parametrize(("texts", "out"), [({STDIN: b"new"}, b"new"), ({}, b"old")])
def test_stdin_goes_to_stdout(texts: Mapping[str, bytes], out: bytes) -> None:
    stdout = io.BytesIO()
    assert write(Fixes(texts, []), {STDIN: b"old"}, stdout) == []
    assert stdout.getvalue() == out
