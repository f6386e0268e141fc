"""`--diff-against`: what was so before warns, as it does when a webhook is asked about an UPDATE."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases import TODAY
from tests.checking import QUOTAS, changed, checked, cluster_queue, deployment, node, said, written
from webhook.check.inputs import read_inputs
from webhook.check.judging import check
from webhook.check.options import Options
from webhook.check.result import Fault, Result
from webhook.check.state import COMMAND_LINE

SELECTOR = ("spec", "selector", "matchLabels", "kueue.x-k8s.io/queue-name")
OFFENDER = changed(deployment("x", "a-lq"), SELECTOR, "a-lq")
TEXT = yaml.safe_dump_all([*QUOTAS, node(), OFFENDER], sort_keys=False)


class TestFolder:
    def test_what_was_so_before_warns(self, tmp_path: Path) -> None:
        old = written(tmp_path / "old", OFFENDER)
        (found,) = checked(*QUOTAS, node(), OFFENDER, diff_against=old).findings
        assert (found.severity, found.rule, found.old) == ("warn", "queue-name-in-selector", True)
        assert "not denied: it was so before; fix: " in found.message

    def test_what_is_new_is_denied(self, tmp_path: Path) -> None:
        old = written(tmp_path / "old", deployment("x", "a-lq"), changed(OFFENDER, ("metadata", "namespace"), "other"))
        (found,) = checked(*QUOTAS, node(), OFFENDER, diff_against=old).findings
        assert (found.severity, found.old) == ("deny", False)

    def test_objects_are_told_apart_by_the_namespace_that_they_get(self, tmp_path: Path) -> None:
        offender = changed(OFFENDER, ("metadata", "namespace"), None)
        old = written(tmp_path / "old", offender)
        (found,) = checked(*QUOTAS, node(), offender, diff_against=old, namespace="team").findings
        assert found.severity == "warn"

    @pytest.mark.parametrize(
        ("before", "after", "expected"),
        [
            # 12 of 10 is no worse than it was, and 13 is.
            ((6, 6), (6, 6), []),
            ((6, 6), (7, 6), ["deny floors-exceed-capacity ClusterQueue a"]),
            ((6, 6), (6, 7), ["deny floors-exceed-capacity ClusterQueue b"]),
            ((5, 5), (6, 6), ["deny floors-exceed-capacity ClusterQueue b"]),
            # Both at once come to the same: what counts is how it ends.
            ((5, 5), (7, 3), []),
            ((5, 5), (5, 4), ["warn floors-below-capacity ClusterQueue b"]),
            ((5, 5), (4, 5), ["warn floors-below-capacity ClusterQueue b"]),
        ],
    )
    def test_floors(self, tmp_path: Path, before: tuple[int, int], after: tuple[int, int], expected: list[str]) -> None:
        old = written(tmp_path / "old", *QUOTAS[:2], cluster_queue("a", before[0]), cluster_queue("b", before[1]))
        now = [*QUOTAS[:2], cluster_queue("a", after[0]), cluster_queue("b", after[1]), node()]
        assert said(checked(*now, diff_against=old)) == expected

    def test_defaults_are_no_change(self, tmp_path: Path) -> None:
        value = changed(OFFENDER, ("spec", "replicas"), 1)
        old = written(tmp_path / "old", OFFENDER)
        assert said(checked(*QUOTAS, node(), value, diff_against=old)) == ["warn queue-name-in-selector Deployment x"]

    def test_what_cannot_be_read_is_judged_as_new(self, tmp_path: Path) -> None:
        old = written(tmp_path / "old", deployment("z", "b-lq"))
        (tmp_path / "old" / "x.yaml").write_text(f"{yaml.safe_dump(OFFENDER)}  a: [\n")
        result = checked(*QUOTAS, node(), OFFENDER, diff_against=old)
        assert (said(result), result.errors) == (["deny queue-name-in-selector Deployment x"], ())
        (note,) = result.notes
        assert note.place.file == f"{old}/x.yaml"
        assert note.message.startswith("was not compared with what it was before: is not YAML")


Git = Callable[..., str]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return tmp_path / "repository"


@pytest.fixture
def git(repository: Path) -> Git:
    """Runs git in a new repository, whose first commit holds TEXT as deploy/all.yaml."""

    def run(*words: str) -> str:
        name = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *name, *words], cwd=repository, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    (repository / "deploy").mkdir(parents=True)
    (repository / "deploy" / "all.yaml").write_text(TEXT)
    run("init", "--quiet", "--initial-branch=main")
    run("add", ".")
    run("commit", "--quiet", "--message=one")
    return run


def compared(revision: str, *paths: Path, **options: Any) -> Result:
    wanted = Options(today=TODAY, paths=tuple(map(str, paths)), diff_against=revision, **options)
    return check(read_inputs(wanted.paths, io.BytesIO()), wanted)


def error(text: str) -> tuple[Fault, ...]:
    return (Fault(COMMAND_LINE, f"--diff-against: {text}"),)


class TestGit:
    @pytest.mark.parametrize("revision", ["main", "HEAD", "HEAD^0", "refs/heads/main"])
    @pytest.mark.parametrize("path", [".", "deploy", "deploy/all.yaml"])
    def test_what_was_so_before_warns(self, repository: Path, git: Git, revision: str, path: str) -> None:
        (repository / "deploy" / "all.yaml").write_text(TEXT.replace("replicas: 1", "replicas: 2"))
        assert said(compared(revision, repository / path)) == ["warn queue-name-in-selector Deployment x"]

    def test_a_path_that_looks_like_a_pattern(self, repository: Path, git: Git) -> None:
        git("mv", "deploy/all.yaml", ":[x]*.yaml")
        git("commit", "--quiet", "--all", "--message=two")
        assert said(compared("HEAD", repository / ":[x]*.yaml")) == ["warn queue-name-in-selector Deployment x"]

    def test_a_commit_ago(self, repository: Path, git: Git) -> None:
        (repository / "deploy" / "all.yaml").write_text(TEXT.replace("name: x\n", "name: v\n"))
        git("commit", "--quiet", "--all", "--message=two")
        assert said(compared("HEAD", repository)) == ["warn queue-name-in-selector Deployment v"]
        assert said(compared("HEAD~1", repository)) == ["deny queue-name-in-selector Deployment v"]
        assert said(compared(git("rev-parse", "HEAD~1"), repository)) == ["deny queue-name-in-selector Deployment v"]

    def test_new_files_and_moved_objects(self, repository: Path, git: Git) -> None:
        new = repository / "new"
        new.mkdir()
        (repository / "deploy" / "all.yaml").rename(new / "moved.yaml")
        assert said(compared("main", new)) == ["deny queue-name-in-selector Deployment x"]
        # All PATHs are looked through for what the objects were.
        (repository / "deploy" / "rest.yaml").write_text("")
        assert said(compared("main", new, repository / "deploy")) == ["warn queue-name-in-selector Deployment x"]

    def test_nothing_is_written(self, repository: Path, git: Git) -> None:
        (repository / "deploy" / "all.yaml").write_text(TEXT + "\n# changed\n")
        before = {
            path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in repository.rglob("*")
        }
        compared("main", repository)
        assert before == {
            path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in repository.rglob("*")
        }

    def test_links_are_not_followed(self, repository: Path, git: Git) -> None:
        (repository / "deploy" / "link.yaml").symlink_to("/etc/hostname")
        git("add", ".")
        git("commit", "--quiet", "--message=two")
        (repository / "deploy" / "link.yaml").unlink()
        result = compared("main", repository)
        assert (said(result), result.notes, result.errors) == (["warn queue-name-in-selector Deployment x"], (), ())

    def test_a_file_that_was_broken(self, repository: Path, git: Git) -> None:
        (repository / "deploy" / "all.yaml").write_text("a: [")
        git("commit", "--quiet", "--all", "--message=two")
        (repository / "deploy" / "all.yaml").write_text(TEXT)
        result = compared("HEAD", repository)
        assert said(result) == ["deny queue-name-in-selector Deployment x"]
        assert [note.place.file for note in result.notes] == ["deploy/all.yaml"]

    @pytest.mark.parametrize("revision", ["nope", "--help", "main:deploy", "HEAD~7", "", "main\n"])
    def test_no_revision(self, repository: Path, git: Git, revision: str) -> None:
        result = compared(revision or " ", repository)
        text = f"{revision or ' '}: is neither a folder nor a git revision of {repository}; correct it"
        assert (result.errors, result.checked) == (error(text), 0)

    def test_no_repository(self, tmp_path: Path) -> None:
        folder = Path(written(tmp_path / "plain", OFFENDER))
        (fault,) = compared("main", folder).errors
        assert fault.place == COMMAND_LINE
        assert fault.message.startswith("--diff-against: git rev-parse: fatal: not a git repository")
        assert fault.message.endswith("; correct it, or give a folder that is there")

    def test_paths_of_another_repository(self, repository: Path, git: Git, tmp_path: Path) -> None:
        other = Path(written(tmp_path / "other", OFFENDER))
        text = f"{other}: is not in the git repository {repository}; check one repository at a time"
        assert compared("main", repository, other).errors == error(text)

    def test_stdin(self) -> None:
        text = "stdin has no revisions; give a folder to compare it with, or files"
        assert checked(OFFENDER, diff_against="main").errors == error(text)


def test_without_git(repository: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert compared("main", repository).errors == error("git is not installed; install it, or give a folder")
