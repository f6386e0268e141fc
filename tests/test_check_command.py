"""The command line of `floorkeeper check`: its words, its exit codes, what goes to stdout, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checking import GPU, QUOTAS, TEAM, changed, cluster_queue, deployment, local_queue, namespace, node, written
from webhook.check.formats import FORMATS
from webhook.check.formats.schema import SCHEMA
from webhook.cli import main

ROOT = Path(__file__).parents[1]
CLEAN = (*QUOTAS, node(), deployment("x", "a-lq"))
DENIED = (*CLEAN, cluster_queue("c", 1))
PATCHED = (*CLEAN, deployment("z", "b-lq", strategy={"type": "RollingUpdate"}))
WARNED = (*CLEAN, deployment("z", "c-lq"))
UNJUDGED = (namespace(), local_queue("a-lq", "a"), deployment("x", "a-lq"))
SKIPPED = (namespace(managed=False), deployment("x"))
SOMETHING_OF_ALL = (*DENIED, *PATCHED[-1:], deployment("w", "c-lq"))
ARGUMENTS = "; try: floorkeeper check --help\n"


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as end:
        main(["check", *words])
    assert isinstance(end.value.code, int)
    return (end.value.code, *capsys.readouterr())


def started(*words: str, **settings: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "webhook", "check", *words]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, **settings)


class TestExitCodes:
    @pytest.mark.parametrize(
        ("objects", "words", "code"),
        [
            (CLEAN, "--strict", 0),
            (DENIED, "", 1),
            (PATCHED, "", 0),
            (PATCHED, "--fail-on patch", 1),
            (PATCHED, "--fail-on warn,not-evaluated", 0),
            (WARNED, "", 0),
            (WARNED, "--fail-on warn", 1),
            (WARNED, "--fail-on patch --fail-on not-evaluated,warn", 1),
            (WARNED, "--strict", 1),
            (UNJUDGED, "", 0),
            (UNJUDGED, "--fail-on not-evaluated", 3),
            (UNJUDGED, "--strict", 3),
            ((*UNJUDGED, deployment("z", "a-lq", strategy=None)), "--strict", 1),
            ((*CLEAN, CLEAN[-1]), "", 0),
            ((*CLEAN, CLEAN[-1]), "--fail-on warn", 1),
            (SKIPPED, "", 2),
            (SKIPPED, "--allow-empty --strict", 0),
            ((), "", 2),
            ((), "--allow-empty", 0),
        ],
    )
    def test_codes(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, objects: Sequence[Any], words: str, code: int
    ) -> None:
        found, out, err = ran(capsys, written(tmp_path / "in", *objects), *words.split())
        assert (found, err) == (code, "")
        assert f"{len(objects)} object{'' if len(objects) == 1 else 's'}: " in out

    def test_unusable_comes_first_and_the_others_are_told_in_full(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        folder = written(tmp_path / "in", *DENIED)
        (tmp_path / "in" / "broken.yaml").write_text("a: [")
        code, out, _ = ran(capsys, folder, "-o", "json")
        report = json.loads(out)
        assert (code, len(report["errors"]), report["summary"]["denials"]) == (2, 1, 1)


class TestOutput:
    @pytest.mark.parametrize("output", FORMATS)
    def test_formats(self, capsys: pytest.CaptureFixture[str], tmp_path: Path, output: str) -> None:
        code, out, err = ran(capsys, written(tmp_path / "in", *SOMETHING_OF_ALL), "--output", output)
        assert (code, err) == (1, "")
        assert "floors-exceed-capacity" in out

    def test_json(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        folder = written(tmp_path / "in", *SOMETHING_OF_ALL)
        code, out, err = ran(capsys, folder, "-ojson")
        report = json.loads(out)
        assert (code, err) == (1, "")
        assert report["summary"] == {
            "objects": 11,
            "checked": 10,
            "skipped": 1,
            "denials": 1,
            "warnings": 1,
            "patches": 1,
        }
        assert {finding["file"] for finding in report["findings"]} == {f"{folder}/objects.yaml"}

    @pytest.mark.parametrize("words", ["-o json", "-ojson", "-o=json", "--output json", "--output=json"])
    def test_json_when_the_line_is_wrong(self, capsys: pytest.CaptureFixture[str], words: str) -> None:
        code, out, err = ran(capsys, *words.split(), "x.yaml", "--capacity", "x")
        message = "--capacity: must be FLAVOR/RESOURCE=N, is 'x'; write such as a100/nvidia.com/gpu=16"
        assert (code, err) == (2, f"floorkeeper: {message}{ARGUMENTS}")
        assert json.loads(out)["errors"] == [{"file": "", "line": 0, "column": 0, "message": message}]

    def test_json_when_a_file_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = ran(capsys, "/nope.yaml", "-o", "json")
        assert (code, err) == (2, "")
        assert [error["file"] for error in json.loads(out)["errors"]] == ["/nope.yaml"]

    def test_a_policy_that_cannot_be_used(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        policy = tmp_path / "policy.yaml"
        policy.write_text("apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\ninject: never\nrule: {}\n")
        folder = written(tmp_path / "in", *CLEAN)
        code, out, err = ran(capsys, folder, "--policy", str(policy), "-o", "json")
        report = json.loads(out)
        assert (code, err, report["summary"]["checked"]) == (2, "", 0)
        assert [(error["line"], error["message"]) for error in report["errors"]] == [
            (3, "inject: must be onRollout or always, is 'never'; write one of these"),
            (4, "rule: unknown key; did you mean rules?"),
        ]
        code, out, _ = ran(capsys, folder, "--policy", "/nope")
        assert code == 2
        assert "/nope:1:" in out

    def test_no_colours_but_on_a_terminal(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        assert "\x1b" not in ran(capsys, written(tmp_path / "in", *DENIED))[1]

    @pytest.mark.parametrize(("setting", "coloured"), [("", True), ("NO_COLOR=1", False), ("TERM=dumb", False)])
    def test_on_a_terminal(self, tmp_path: Path, setting: str, coloured: bool) -> None:
        ours, theirs = os.openpty()
        name, _, value = setting.partition("=")
        environment = {**os.environ, "TERM": "xterm", **({name: value} if name else {})}
        process = started(written(tmp_path / "in", *DENIED), stdout=theirs, env=environment)
        os.close(theirs)
        text = b""
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:
            pass  # the other side is closed
        os.close(ours)
        process.communicate()
        assert process.returncode == 1
        assert (b"\x1b[1;31m" in text) is coloured


class TestWords:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("", "no PATH: give files, folders, or - for stdin"),
            ("x --dry-run", "--dry-run goes with --fix: nothing else is written"),
            ("x --fix --dry-run -o junit", "--dry-run prints a diff: leave --output out"),
            ("- --fix -o sarif", "--fix prints what stdin becomes: leave --output out"),
            ("x --nodes -", "--nodes and --state read files: for stdin give /dev/stdin"),
            ("x --state y --state -", "--nodes and --state read files: for stdin give /dev/stdin"),
            ("x --fail-on nope,warn", "--fail-on: must be of patch, warn, not-evaluated, is 'nope'"),
            ("x --fail-on deny", "--fail-on: must be of patch, warn, not-evaluated, is 'deny'"),
            ("x -n Team_A", "--namespace: 'Team_A' is no name of a namespace: write lower case, digits and -"),
            ("x --polic y", "unrecognized arguments: --polic y"),
            ("x --state", "argument --state: expected one argument"),
            ("x --managed=yes", "argument --managed: ignored explicit argument 'yes'"),
            (
                "x -o yaml",
                "argument -o/--output: invalid choice: 'yaml' (choose from "
                "'text', 'json', 'sarif', 'junit', 'github', 'gitlab')",
            ),
        ],
    )
    def test_wrong(self, capsys: pytest.CaptureFixture[str], line: str, message: str) -> None:
        assert ran(capsys, *line.split()) == (2, "", f"floorkeeper: {message}{ARGUMENTS}")

    @pytest.mark.parametrize("words", [[""], ["x", "--diff-against", ""], ["x", "--nodes="]])
    def test_empty(self, capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> None:
        message = "an argument is empty; set the variable that it comes from, or leave it out"
        assert ran(capsys, *words) == (2, "", f"floorkeeper: {message}{ARGUMENTS}")

    def test_capacity_of_no_accelerator(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        folder = written(tmp_path / "in", *CLEAN)
        message = "--capacity: cpu is no accelerator of the policy; correct the name"
        assert ran(capsys, folder, "--capacity", "a100/cpu=1") == (2, "", f"floorkeeper: {message}{ARGUMENTS}")

    def test_all_of_them(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        state = written(tmp_path / "state", *QUOTAS)
        more = written(tmp_path / "more", cluster_queue("c", 1))
        nodes = written(tmp_path / "nodes", node(gpus=1)) + "/objects.yaml"
        old = written(tmp_path / "old", changed(deployment("x", "a-lq"), ("spec", "selector", "matchLabels"), {}))
        files = [written(tmp_path / name, value) for name, value in (("1", deployment("x", "a-lq", home="")),)]
        line = f"--state {state} {files[0]} -n {TEAM} --state {more} --nodes {nodes} --managed --diff-against {old}"
        code, out, err = ran(capsys, *line.split(), "--capacity", f"a100/{GPU}=11", "--strict", "--output=json", "--")
        report = json.loads(out)
        assert (code, err, report["findings"], report["notEvaluated"]) == (0, "", [], [])
        assert report["summary"]["checked"] == 1

    def test_paths_and_options_in_any_order(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        one, two = written(tmp_path / "1", *CLEAN), written(tmp_path / "2", cluster_queue("c", 1))
        code, out, _ = ran(capsys, one, "-o", "json", two, "--strict")
        assert (code, json.loads(out)["summary"]["objects"]) == (1, 9)


class TestFix:
    def test_files_are_written_and_judged_again(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        folder = written(tmp_path / "in", *PATCHED)
        code, out, err = ran(capsys, folder, "--fix", "--strict", "-o", "json")
        assert (code, err) == (0, "floorkeeper: fixed 1 file\n")
        assert json.loads(out)["summary"]["patches"] == 0
        values = list(yaml.safe_load_all((tmp_path / "in" / "objects.yaml").read_text()))
        assert values[-1]["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0}
        before = (tmp_path / "in" / "objects.yaml").read_bytes()
        assert ran(capsys, folder, "--fix", "--strict")[::2] == (0, "")
        assert (tmp_path / "in" / "objects.yaml").read_bytes() == before

    def test_dry_run_prints_a_diff_and_writes_nothing(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        folder = written(tmp_path / "in", *PATCHED)
        before = (tmp_path / "in" / "objects.yaml").read_bytes()
        code, out, err = ran(capsys, folder, "--fix", "--dry-run", "--fail-on", "patch")
        assert code == 1
        assert out.startswith("--- a/")
        assert "\n+    rollingUpdate:\n+      maxSurge: 0\n" in out
        assert "1 patch" in err
        assert (tmp_path / "in" / "objects.yaml").read_bytes() == before

    def test_stdin_becomes_stdout(self) -> None:
        text = yaml.safe_dump_all(PATCHED, sort_keys=False).encode()
        process = started("-", "--fix", "--strict", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, err = process.communicate(text)
        assert process.returncode == 0, err
        assert b"1 patch" not in err
        process = started("-", "--strict", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert b"0 patches" in process.communicate(out)[0]
        assert process.returncode == 0


COSTLY = {"fastapi", "uvicorn", "kubernetes", "pydantic", "typer", "click", "rich", "asyncio", "logging", "subprocess"}


class TestProcess:
    def test_it_loads_no_more_than_it_needs(self, tmp_path: Path) -> None:
        folder = written(tmp_path / "in", *SOMETHING_OF_ALL)
        code = (
            "import sys; from webhook.check.command import run; run(sys.argv[1:]); "
            "print([name for name in sys.modules if name.split('.')[0] in "
            f"{COSTLY}])"
        )
        command = [sys.executable, "-c", code, folder]
        assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()[-1] == "[]"
        policy = tmp_path / "policy.yaml"
        policy.write_text("apiVersion: floorkeeper.io/v1alpha1\nkind: Policy\n")
        done = subprocess.run([*command, "--policy", str(policy)], cwd=ROOT, capture_output=True, text=True)
        loaded = set(eval(done.stdout.splitlines()[-1]))
        assert "pydantic" in loaded
        assert not loaded & {"fastapi", "uvicorn", "kubernetes", "typer"}

    def test_stdin(self) -> None:
        process = started("-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, err = process.communicate(yaml.safe_dump_all(DENIED).encode())
        assert (process.returncode, err) == (1, b"")
        assert b"<stdin>:" in out

    def test_without_stdin(self) -> None:
        # A shell's `<&-`.
        process = started("-", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(0))
        out, err = process.communicate()
        assert (process.returncode, err) == (2, b""), out

    def test_without_stdout(self, tmp_path: Path) -> None:
        process = started(written(tmp_path / "in", *DENIED), preexec_fn=lambda: os.close(1))
        assert (process.communicate()[1], process.returncode) == (b"", 1)

    def test_without_stderr(self) -> None:
        # What it would say there must not come to stdout.
        process = started("--bogus", stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
        assert (process.communicate()[0], process.returncode) == (b"", 2)

    @pytest.mark.parametrize("output", FORMATS)
    def test_a_full_disk(self, tmp_path: Path, output: str) -> None:
        with open("/dev/full", "wb") as full:
            process = started(written(tmp_path / "in", *CLEAN), "-o", output, stdout=full)
            _, err = process.communicate()
        message = "[Errno 28] No space left on device; check where stdout goes"
        assert (process.returncode, err.decode()) == (2, f"floorkeeper: {message}\n")

    def test_nobody_reads(self, tmp_path: Path) -> None:
        process = started(written(tmp_path / "in", *DENIED), stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait() == 141

    def test_interrupted(self) -> None:
        process = started("-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # It is past its imports once it waits for the end of stdin.
        assert process.stdin is not None
        process.stdin.write(b"a" * 2**22)  # more than a pipe holds
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert (process.returncode, out, err) == (130, b"", b"")


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, stdout, stderr = ran(capsys, "--schema")
    assert (code, stderr) == (0, "")
    assert json.loads(stdout) == SCHEMA
